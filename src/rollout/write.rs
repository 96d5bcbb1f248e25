//! Making the lines of today.
//!
//! Two forms: the paginated one keeps every item with its id and times, so that a home can be rebuilt from its files;
//! the legacy one tells messages as events, for tools that know no other. Shapes and order are those of
//! `protocol/rollout.md`, section 4.

use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use serde_json::{Value, json};

use super::item;
use super::line::Tokens;

/// The form of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Ordinals, and an event for every item.
    #[default]
    Paginated,
    /// Events for messages only.
    Legacy,
}

impl Form {
    /// The word for it in the metadata.
    pub fn word(self) -> &'static str {
        match self {
            Form::Paginated => "paginated",
            Form::Legacy => "legacy",
        }
    }

    /// The form that a word stands for.
    pub fn from_word(word: &str) -> Form {
        if word == "legacy" { Form::Legacy } else { Form::Paginated }
    }
}

/// Writes lines one after another.
#[derive(Debug)]
pub struct LineWriter {
    form: Form,
    now_ms: i64,
    next_ordinal: u64,
    bytes: Vec<u8>,
    count: i64,
}

#[derive(Serialize)]
struct Envelope<'a, P> {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordinal: Option<u64>,
    #[serde(rename = "type")]
    kind: &'a str,
    payload: &'a P,
}

impl LineWriter {
    /// A writer whose lines have this moment and, in the paginated form, ordinals from here.
    pub fn new(form: Form, next_ordinal: u64, now_ms: i64) -> LineWriter {
        LineWriter { form, now_ms, next_ordinal, bytes: Vec::new(), count: 0 }
    }

    /// How many lines are written so far.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// The form that is written.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The bytes, and how many lines they are.
    pub fn finish(self) -> (Vec<u8>, i64) {
        (self.bytes, self.count)
    }

    /// Any record.
    pub fn record<P: Serialize>(&mut self, kind: &str, payload: &P) {
        let ordinal = (self.form == Form::Paginated).then_some(self.next_ordinal);
        let envelope = Envelope { timestamp: rfc3339(self.now_ms), ordinal, kind, payload };
        let before = self.bytes.len();
        if let Err(error) = serde_json::to_writer(&mut self.bytes, &envelope) {
            // JSON values with text keys always have a text; only a fault of ours comes here.
            tracing::error!(%error, kind, "a line could not be written");
            self.bytes.truncate(before);
            return;
        }
        self.bytes.push(b'\n');
        self.next_ordinal += 1;
        self.count += 1;
    }

    /// Something that happened.
    pub fn event(&mut self, payload: &Value) {
        self.record("event_msg", payload);
    }

    /// A model item.
    pub fn response_item<P: Serialize>(&mut self, item: &P) {
        self.record("response_item", item);
    }

    /// A finished item, given as the wire has it.
    pub fn item(&mut self, thread_id: &str, turn_id: &str, wire: &Value) {
        match self.form {
            Form::Paginated => {
                let time = |key: &str| wire.get(key).cloned().unwrap_or(Value::Null);
                self.event(&json!({
                    "type": "item_completed", "thread_id": thread_id, "turn_id": turn_id,
                    "item": item::from_wire(wire),
                    "started_at_ms": time("startedAtMs"), "completed_at_ms": time("completedAtMs"),
                }));
            }
            Form::Legacy => self.legacy_item(turn_id, wire),
        }
    }

    fn legacy_item(&mut self, turn_id: &str, wire: &Value) {
        let texts = |key: &str| wire.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        match wire.get("type").and_then(Value::as_str) {
            Some("userMessage") => self.event(&user_message_event(wire)),
            Some("agentMessage") => self.event(&json!({
                "type": "agent_message", "message": wire["text"], "phase": wire["phase"], "memory_citation": null,
            })),
            Some("reasoning") => {
                for text in texts("summary") {
                    self.event(&json!({"type": "agent_reasoning", "text": text}));
                }
                for text in texts("content") {
                    self.event(&json!({"type": "agent_reasoning_raw_content", "text": text}));
                }
            }
            Some("contextCompaction") => self.event(&json!({"type": "context_compacted"})),
            Some("webSearch") => self.event(&json!({
                "type": "web_search_end", "call_id": wire["id"], "query": wire["query"], "action": wire["action"],
            })),
            Some("plan") => self.event(&json!({
                "type": "item_completed", "turn_id": turn_id, "item": item::from_wire(wire),
                "completed_at_ms": wire["completedAtMs"],
            })),
            // Other kinds have no event that the legacy form keeps; their model items are in the file.
            _ => {}
        }
    }

    /// Tokens of a model response, and the totals after it.
    pub fn token_usage(&mut self, usage: &TokenUsageLines<'_>) {
        if let Some(response_id) = usage.response_id {
            self.record(
                "token_usage_record",
                &json!({
                    "thread_id": usage.thread_id, "turn_id": usage.turn_id, "session_id": usage.session_id,
                    "root_turn_id": usage.turn_id, "response_id": response_id, "usage": usage.last,
                    "turn_token_usage": usage.turn, "thread_token_usage": usage.total,
                }),
            );
        }
        self.event(&json!({
            "type": "token_count",
            "info": {
                "total_token_usage": usage.total, "last_token_usage": usage.last,
                "last_usage_includes_reasoning": false, "model_context_window": usage.model_context_window,
            },
            "rate_limits": null,
        }));
    }
}

/// What is recorded of a model response's tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenUsageLines<'a> {
    /// The thread.
    pub thread_id: &'a str,
    /// The root of its tree.
    pub session_id: &'a str,
    /// The turn.
    pub turn_id: &'a str,
    /// The response; `None` repeats the totals only.
    pub response_id: Option<&'a str>,
    /// Its tokens.
    pub last: Tokens,
    /// Sum over the turn.
    pub turn: Tokens,
    /// Sum over the thread.
    pub total: Tokens,
    /// The model's context window.
    pub model_context_window: Option<i64>,
}

fn user_message_event(wire: &Value) -> Value {
    let parts = wire.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_kind = |kind: &'static str, key: &'static str| -> Vec<&Value> {
        parts.iter().filter(|part| part["type"] == kind).filter_map(|part| part.get(key)).collect()
    };
    let texts: Vec<&str> = of_kind("text", "text").into_iter().filter_map(Value::as_str).collect();
    let elements: Vec<Value> = of_kind("text", "text_elements")
        .into_iter()
        .filter_map(Value::as_array)
        .flatten()
        .map(|element| json!({"byte_range": element["byteRange"], "placeholder": element["placeholder"]}))
        .collect();
    json!({
        "type": "user_message", "message": texts.join("\n"), "images": of_kind("image", "url"),
        "local_images": of_kind("localImage", "path"), "text_elements": elements, "client_id": wire["clientId"],
        "kind": "plain",
    })
}

/// A moment as lines have it.
pub fn rfc3339(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paginated_lines_count_on() {
        let mut lines = LineWriter::new(Form::Paginated, 7, 1_796_099_923_530);
        lines.record("session_meta", &json!({"id": "x"}));
        lines.event(&json!({"type": "token_count"}));
        let (bytes, count) = lines.finish();
        assert_eq!(count, 2);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"timestamp\":\"2026-12-01T04:38:43.530Z\",\"ordinal\":7,\"type\":\"session_meta\",\"payload\":{\"id\":\"x\"}}\n\
             {\"timestamp\":\"2026-12-01T04:38:43.530Z\",\"ordinal\":8,\"type\":\"event_msg\",\"payload\":{\"type\":\"token_count\"}}\n"
        );
    }

    #[test]
    fn the_legacy_form_tells_messages_as_events() {
        let mut lines = LineWriter::new(Form::Legacy, 0, 0);
        lines.item(
            "t",
            "u",
            &json!({"type": "userMessage", "id": "i", "clientId": null, "content": [
            {"type": "text", "text": "hello", "text_elements": []}]}),
        );
        lines.item("t", "u", &json!({"type": "commandExecution", "id": "c"}));
        let (bytes, count) = lines.finish();
        let line: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (count, line["ordinal"].is_null(), line["payload"]["message"].as_str()),
            (1, true, Some("hello"))
        );
    }
}
