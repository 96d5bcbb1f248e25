//! What the model is shown of a thread's past: the input items of the next request (`protocol/model-api.md`,
//! section 2).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::preview;
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
    items: Vec<Box<RawValue>>,
    /// Number of the next line.
    line: i64,
    /// What the user said, with the numbers of the lines: what a compaction may keep.
    said: Vec<(i64, Box<RawValue>)>,
    /// How many compactions there were.
    window_number: u64,
    /// Where each turn with a user's message begins: rolling back counts these.
    starts: Vec<usize>,
    /// Where the announced turn begins that has no user's message so far.
    announced: Option<usize>,
    /// The announced turn goes on: further messages of a user are part of it.
    is_announced: bool,
}

impl Context {
    /// The past from this line on, which is a compaction or the first.
    pub fn starting_at(line: i64) -> Context {
        Context { line, ..Context::default() }
    }

    /// A message of the user that a compaction keeps, from before the first line that is fed.
    pub fn offer(&mut self, number: i64, line: &Line<'_>) {
        if let Record::ResponseItem(item) = &line.record
            && let Some(json) = to_input(item)
        {
            self.said.push((number, json));
        }
    }

    /// A line that could not be read.
    pub fn skip(&mut self) {
        self.line += 1;
    }

    /// What the user said since the beginning or, with what was kept, since the last compaction, with the numbers of
    /// the lines.
    pub fn said(&self) -> &[(i64, Box<RawValue>)] {
        &self.said
    }

    /// How many compactions there were.
    pub fn window_number(&self) -> u64 {
        self.window_number
    }

    /// Take a line.
    pub fn feed(&mut self, line: &Line<'_>) {
        self.take(line);
        self.line += 1;
    }

    fn take(&mut self, line: &Line<'_>) {
        match &line.record {
            Record::ResponseItem(item) | Record::BareItem(item) => self.push(item),
            Record::Session(_, items) => items.iter().for_each(|item| self.push(item)),
            Record::Compacted(compacted) => {
                self.items.clear();
                self.starts.clear();
                self.announced = self.announced.map(|_| 0);
                self.window_number = compacted.window_number.unwrap_or(self.window_number + 1);
                let kept: Vec<i64> = compacted.kept_lines_back.iter().map(|back| self.line - back).collect();
                self.said.retain(|(number, _)| kept.contains(number));
                self.items.extend(self.said.iter().map(|(_, item)| item.clone()));
                match &compacted.replacement_history {
                    Some(history) => history.iter().for_each(|item| self.push(item)),
                    None => self.push_summary(compacted.message.as_deref().unwrap_or_default()),
                }
            }
            Record::Event(event) => match &**event {
                Event::TaskStarted { .. } => {
                    self.announced = Some(self.items.len());
                    self.is_announced = true;
                }
                Event::TaskComplete { .. } | Event::TurnAborted { .. } => {
                    self.announced = None;
                    self.is_announced = false;
                }
                Event::ThreadRolledBack { num_turns } => self.roll_back(*num_turns),
                _ => {}
            },
            _ => {}
        }
    }

    /// The items in order, every call with an output and every output with a call.
    pub fn finish(self) -> Vec<Box<RawValue>> {
        let mut items = self.items;
        answer_open_calls(&mut items);
        items
    }

    fn push(&mut self, item: &RawValue) {
        let Some(json) = to_input(item) else { return };
        if is_of_user(&json) {
            match self.announced.take() {
                Some(start) => self.starts.push(start),
                None if self.is_announced => {}
                None => self.starts.push(self.items.len()),
            }
            self.said.push((self.line, json.clone()));
        }
        self.items.push(json);
    }

    fn roll_back(&mut self, count: u64) {
        let kept = self.starts.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        if let Some(start) = self.starts.get(kept) {
            self.items.truncate(*start);
            self.starts.truncate(kept);
        }
        self.announced = None;
        self.is_announced = false;
    }

    fn push_summary(&mut self, summary: &str) {
        if summary.is_empty() {
            return;
        }
        let item =
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": summary}]});
        if let Ok(json) = serde_json::value::to_raw_value(&item) {
            self.items.push(json);
        }
    }
}

/// Whether an item is what a user said, and not what a program put there in the user's name.
fn is_of_user(item: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        role: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        content: Vec<Part<'a>>,
    }
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
    }
    if !item.get().contains("\"user\"") {
        return false;
    }
    let Ok(message) = serde_json::from_str::<Message<'_>>(item.get()) else { return false };
    let text = message.content.first().and_then(|part| part.text.as_deref()).unwrap_or_default();
    message.role.as_deref() == Some("user") && !preview::is_injected(text)
}

/// A recorded model item as it is sent back; `None` for one that is not sent. Bookkeeping of other programs is left
/// out, and so is an id that the provider would not know.
pub fn to_input(item: &RawValue) -> Option<Box<RawValue>> {
    let mut value: Value = serde_json::from_str(item.get()).ok()?;
    let object = value.as_object_mut()?;
    if !object.contains_key("type") && object.contains_key("role") {
        object.insert("type".to_owned(), json!("message"));
    }
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
        "local_shell_call" => "lsh_",
        "image_generation_call" => "ig_",
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

/// Give every call that was cut an output, and leave out outputs of calls that are not there, so that a provider
/// takes the history.
fn answer_open_calls(items: &mut Vec<Box<RawValue>>) {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        call_id: Option<Cow<'a, str>>,
    }
    let mut called: HashSet<String> = HashSet::new();
    // Calls without an output so far, by their ids, with their places.
    let mut open: HashMap<String, (usize, &'static str)> = HashMap::new();
    let mut orphans = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if !item.get().contains("\"call_id\"") {
            continue;
        }
        let Ok(Call { kind, call_id: Some(call_id) }) = serde_json::from_str(item.get()) else { continue };
        let output = match &*kind {
            "function_call" | "local_shell_call" => Some("function_call_output"),
            "custom_tool_call" => Some("custom_tool_call_output"),
            "tool_search_call" => Some("tool_search_output"),
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => None,
            _ => continue,
        };
        match output {
            Some(output) => {
                called.insert(call_id.clone().into_owned());
                open.insert(call_id.into_owned(), (at, output));
            }
            None if called.contains(&*call_id) => {
                open.remove(&*call_id);
            }
            None => orphans.push(at),
        }
    }
    let mut missing: Vec<(usize, Option<(String, &str)>)> =
        open.into_iter().map(|(call_id, (at, kind))| (at, Some((call_id, kind)))).collect();
    missing.extend(orphans.into_iter().map(|at| (at, None)));
    missing.sort_by_key(|(at, _)| *at);
    // From the end, so that places before stay right.
    for (at, call) in missing.into_iter().rev() {
        match call {
            None => {
                items.remove(at);
            }
            Some((call_id, kind)) => {
                let output = match kind {
                    "tool_search_output" => json!({"type": kind, "call_id": call_id, "status": "completed",
                        "execution": "client", "tools": []}),
                    _ => json!({"type": kind, "call_id": call_id, "output": "aborted"}),
                };
                if let Ok(json) = serde_json::value::to_raw_value(&output) {
                    items.insert(at + 1, json);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::line::{Parsed, parse};

    /// Lines given as (type, payload) → the items, each told in short.
    fn check(lines: &[(&str, Value)], expected: &[&str]) {
        let mut context = Context::default();
        for (kind, payload) in lines {
            let line = json!({"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload})
                .to_string();
            match parse(line.as_bytes()) {
                Parsed::Line(line) => context.feed(&line),
                other => panic!("{other:?}"),
            }
        }
        let told: Vec<String> = context
            .finish()
            .iter()
            .map(|item| {
                let item: Value = serde_json::from_str(item.get()).unwrap();
                let text =
                    item["content"][0]["text"].as_str().or(item["call_id"].as_str()).unwrap_or_default();
                format!("{} {text}", item["role"].as_str().or(item["type"].as_str()).unwrap_or_default())
            })
            .collect();
        assert_eq!(told, expected);
    }

    fn said(role: &str, text: &str) -> (&'static str, Value) {
        let item =
            json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
        ("response_item", item)
    }

    fn event(payload: Value) -> (&'static str, Value) {
        ("event_msg", payload)
    }

    #[test]
    fn rolled_back_turns_are_left_out() {
        let begun = |id: &str| event(json!({"type": "task_started", "turn_id": id}));
        let rolled_back = |count: u64| event(json!({"type": "thread_rolled_back", "num_turns": count}));
        let announced = [
            begun("a"),
            said("user", "<environment_context>e"),
            said("user", "one"),
            said("user", "steer"),
            begun("b"),
            said("user", "two"),
            said("assistant", "2"),
            rolled_back(1),
            said("user", "three"),
        ];
        let kept = ["user <environment_context>e", "user one", "user steer", "user three"];
        check(&announced, &kept);
        let unnamed = [said("developer", "d"), said("user", "one"), said("user", "two"), rolled_back(9)];
        check(&unnamed, &["developer d"]);
    }

    #[test]
    fn a_compaction_starts_anew() {
        let history = json!([said("user", "summary").1]);
        check(
            &[
                said("user", "one"),
                ("compacted", json!({"message": "m", "replacement_history": history})),
                said("user", "two"),
            ],
            &["user summary", "user two"],
        );
        check(&[said("user", "one"), ("compacted", json!({"message": "m"}))], &["user m"]);
    }

    #[test]
    fn a_compaction_keeps_what_it_names() {
        let compacted = |back: &[i64]| ("compacted", json!({"message": "m", "kept_lines_back": back}));
        let lines = [said("user", "one"), said("assistant", "1"), said("user", "two"), compacted(&[3, 1])];
        check(&lines, &["user one", "user two", "user m"]);
        let more = [&lines[..], &[said("user", "three"), compacted(&[5, 1])]].concat();
        check(&more, &["user one", "user three", "user m"]);
    }

    #[test]
    fn every_call_has_its_output_and_every_output_its_call() {
        let call = |id: &str| {
            ("response_item", json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": id}))
        };
        let output = |id: &str| {
            ("response_item", json!({"type": "function_call_output", "call_id": id, "output": "o"}))
        };
        check(
            &[
                output("lost"),
                call("a"),
                call("b"),
                output("b"),
                ("response_item", json!({"type": "quantum"})),
            ],
            &["function_call a", "function_call_output a", "function_call b", "function_call_output b"],
        );
    }
}
