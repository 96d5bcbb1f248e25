//! What the model is shown of a thread's past: the input items of the next request (`protocol/model-api.md`,
//! section 2).

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::rollout::line::{Event, Line, Record};

/// Model items by type that are sent back; others are kept in the journal only.
const SENT: &[&str] = &[
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "web_search_call",
    "image_generation_call",
    "tool_search_call",
    "tool_search_output",
    "compaction",
];

/// The past of a thread as model items, gathered line by line.
#[derive(Debug, Default)]
pub struct Context {
    items: Vec<Entry>,
    turn: usize,
}

#[derive(Debug)]
struct Entry {
    json: Box<RawValue>,
    /// Number of the turn it came in: rolled back turns are left out.
    turn: usize,
}

impl Context {
    /// Take a line.
    pub fn feed(&mut self, line: &Line<'_>) {
        match &line.record {
            Record::ResponseItem(item) | Record::BareItem(item) => self.push(item),
            Record::Compacted(compacted) => {
                self.items.clear();
                match &compacted.replacement_history {
                    Some(history) => history.iter().for_each(|item| self.push(item)),
                    None => self.push_summary(compacted.message.as_deref().unwrap_or_default()),
                }
            }
            Record::Event(event) => match &**event {
                Event::TaskStarted { .. } => self.turn += 1,
                // Old files have no event for the start of a turn; a user message ends the one before.
                Event::UserMessage(_) if self.turn == 0 || self.is_implicit() => {}
                Event::ThreadRolledBack { num_turns } => {
                    let first =
                        self.turn.saturating_sub(usize::try_from(*num_turns).unwrap_or(usize::MAX)) + 1;
                    self.items.retain(|entry| entry.turn < first);
                    self.turn = first - 1;
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// The items in order, every call with an output.
    pub fn finish(self) -> Vec<Box<RawValue>> {
        let mut items: Vec<Box<RawValue>> = self.items.into_iter().map(|entry| entry.json).collect();
        answer_open_calls(&mut items);
        items
    }

    fn is_implicit(&self) -> bool {
        self.turn == 0
    }

    fn push(&mut self, item: &RawValue) {
        if let Some(json) = to_input(item) {
            self.items.push(Entry { json, turn: self.turn });
        }
    }

    fn push_summary(&mut self, summary: &str) {
        if summary.is_empty() {
            return;
        }
        let item =
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": summary}]});
        if let Ok(json) = serde_json::value::to_raw_value(&item) {
            self.items.push(Entry { json, turn: self.turn });
        }
    }
}

/// A recorded model item as it is sent back; `None` for one that is not sent. Bookkeeping of other programs is left
/// out, and so is an id that the provider would not know.
pub fn to_input(item: &RawValue) -> Option<Box<RawValue>> {
    let mut value: Value = serde_json::from_str(item.get()).ok()?;
    let object = value.as_object_mut()?;
    let kind = object.get("type")?.as_str()?.to_owned();
    if !SENT.contains(&kind.as_str()) {
        return None;
    }
    object.remove("internal_chat_message_metadata_passthrough");
    let known = match kind.as_str() {
        "message" => "msg_",
        "reasoning" => "rs_",
        "function_call" => "fc_",
        "custom_tool_call" => "ctc_",
        "function_call_output" => "fco_",
        "custom_tool_call_output" => "ctco_",
        "web_search_call" => "ws_",
        _ => "",
    };
    if object.get("id").is_some_and(|id| !id.as_str().is_some_and(|id| id.starts_with(known))) {
        object.remove("id");
    }
    if kind == "reasoning" {
        object.retain(|key, value| !(key == "content" && value.is_null()));
    }
    serde_json::value::to_raw_value(&value).ok()
}

/// Give every call that was cut an output, so that a provider takes the history.
fn answer_open_calls(items: &mut Vec<Box<RawValue>>) {
    let mut open: Vec<(usize, String, &'static str)> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let text = item.get();
        if !text.contains("call_id") {
            continue;
        }
        let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
        let call_id = value["call_id"].as_str().unwrap_or_default();
        match value["type"].as_str() {
            Some("function_call" | "local_shell_call") => {
                open.push((at, call_id.to_owned(), "function_call_output"))
            }
            Some("custom_tool_call") => open.push((at, call_id.to_owned(), "custom_tool_call_output")),
            Some("function_call_output" | "custom_tool_call_output") => {
                open.retain(|(_, id, _)| id != call_id)
            }
            _ => {}
        }
    }
    for (at, call_id, kind) in open.into_iter().rev() {
        let output = json!({"type": kind, "call_id": call_id, "output": "aborted by user"});
        if let Ok(json) = serde_json::value::to_raw_value(&output) {
            items.insert(at + 1, json);
        }
    }
}
