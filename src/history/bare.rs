//! Turns and items from model items alone: the bare generation of mid 2025 (`protocol/rollout.md`, section 10), and
//! files of later ones in which no event tells of a user's message.
//!
//! Texts that programs put into user messages are no user's words, and make no turn.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::projector::{Change, Projector};
use super::{legacy, preview};
use crate::rollout::item;
use crate::rollout::line::{Event, UserMessageEvent};

/// Bytes of model items that wait for an event to tell of them. When there are more, turns are made of them without
/// waiting, so that the reducer's state stays small.
const SILENT_BYTES_MAX: usize = 1 << 20;

/// What is kept between items.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// Commands that have no output yet, and their turns.
    commands: Vec<(String, Value)>,
    /// Model items of a file that has no events of messages so far, and their lines.
    silent: Vec<(i64, usize, Box<RawValue>)>,
    /// How long they are.
    silent_bytes: usize,
    /// The turns were made from silent items; an event of a message takes their place.
    shown: bool,
    /// An event has told of a message: model items make no turns.
    told: bool,
}

/// A model item of a file that has no events.
pub(super) fn item(state: &mut Projector, item: &RawValue, line_number: i64, changes: &mut Vec<Change>) {
    let Ok(bare) = serde_json::from_str::<Value>(item.get()) else { return };
    match (bare["type"].as_str(), bare["role"].as_str()) {
        (Some("message") | None, Some("user")) => user_message(state, &bare, line_number, changes),
        (Some("message") | None, Some("assistant")) => {
            let message = texts(&bare["content"]).concat();
            let mut event = Event::AgentMessage { message, phase: None, memory_citation: None };
            legacy::event(state, &mut event, line_number, changes);
        }
        (Some("reasoning"), _) => {
            for text in texts(&bare["summary"]) {
                legacy::reasoning(state, "summary", text.to_owned(), line_number, changes);
            }
        }
        (Some("function_call" | "local_shell_call"), _) => command(state, &bare, line_number, changes),
        (Some("function_call_output"), _) => command_output(state, &bare, changes),
        _ => {}
    }
}

/// A model item of a file that may have events: it is kept until one is there.
pub(super) fn response_item(
    state: &mut Projector,
    item: &RawValue,
    line_number: i64,
    changes: &mut Vec<Change>,
) {
    if state.bare.told || state.inheriting {
        return;
    }
    if !state.bare.shown {
        let bytes = state.bare.silent_bytes + item.get().len();
        if bytes <= SILENT_BYTES_MAX {
            state.bare.silent_bytes = bytes;
            state.bare.silent.push((line_number, state.parsed, item.to_owned()));
            return;
        }
        show_silent(state, changes);
        // Where events have made turns already, model items make none.
        state.bare.shown |= state.turns.is_empty();
        state.bare.told = !state.bare.shown;
    }
    if state.bare.shown {
        self::item(state, item, line_number, changes);
    }
}

/// Whether there are messages that only model items have told of so far.
pub(super) fn has_silent(state: &Projector) -> bool {
    !state.bare.told && state.turns.is_empty() && !state.bare.silent.is_empty()
}

/// At the end of a file without any event of a message, its model items are what there is to show.
pub(super) fn show_silent(state: &mut Projector, changes: &mut Vec<Change>) {
    if state.bare.told || !state.turns.is_empty() {
        return;
    }
    let parsed = state.parsed;
    for (line_number, at, item) in std::mem::take(&mut state.bare.silent) {
        state.parsed = at;
        self::item(state, &item, line_number, changes);
        state.bare.shown = true;
    }
    state.parsed = parsed;
}

/// An event that tells of a message or a turn: turns of silent items are made anew from such.
pub(super) fn hide_silent(state: &mut Projector, event: &Event, changes: &mut Vec<Change>) {
    let tells = match event {
        Event::UserMessage(_) | Event::AgentMessage { .. } | Event::TaskStarted { .. } => true,
        Event::ItemCompleted { item, .. } => item["type"] == "UserMessage",
        _ => false,
    };
    if !tells || state.bare.told {
        return;
    }
    state.bare.told = true;
    state.bare.silent = Vec::new();
    if std::mem::take(&mut state.bare.shown) {
        let dropped = state.turns.split_off(0);
        (state.open, state.last_reasoning, state.numbered) = (None, None, 0);
        state.facts.preview.clear();
        changes.push(Change::DropTurns(dropped.into_iter().map(|turn| turn.turn_id).collect()));
    }
}

fn texts(parts: &Value) -> Vec<&str> {
    match parts {
        Value::String(text) => vec![text],
        parts => {
            let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
        }
    }
}

fn user_message(state: &mut Projector, bare: &Value, line_number: i64, changes: &mut Vec<Change>) {
    let message = texts(&bare["content"]).join("\n");
    if preview::is_injected(&message) {
        if state.facts.cwd.is_none() {
            state.facts.cwd = preview::cwd_of_environment(&message).map(str::to_owned);
        }
        return;
    }
    let parts = bare["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let image = |part: &Value| part.get("image_url")?.as_str().map(str::to_owned);
    let images: Vec<String> = parts.iter().filter_map(image).collect();
    if !message.is_empty() || !images.is_empty() {
        let message = UserMessageEvent { message, images: Some(images), ..UserMessageEvent::default() };
        legacy::user_message(state, message, line_number, changes);
    }
}

/// A call of the shell; its output comes with a later line.
fn command(state: &mut Projector, bare: &Value, line_number: i64, changes: &mut Vec<Change>) {
    let arguments = bare["arguments"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let words = match (bare["type"].as_str(), &arguments) {
        (Some("local_shell_call"), _) => &bare["action"]["command"],
        (_, Some(arguments)) if matches!(bare["name"].as_str(), Some("shell" | "container.exec")) => {
            &arguments["command"]
        }
        _ => return,
    };
    let id = bare["call_id"].as_str().or(bare["id"].as_str()).map(str::to_owned);
    let id = id.unwrap_or_else(|| legacy::next_id(state));
    let Some(wire) = item::to_wire(
        json!({"type": "CommandExecution", "id": id, "command": words, "status": "completed",
            "cwd": state.facts.cwd.clone().unwrap_or_default()}),
        None,
        None,
    ) else {
        return;
    };
    legacy::push(state, None, wire.clone(), line_number, changes);
    if let Some(turn) = state.open.and_then(|open| state.turns.get(open)) {
        state.bare.commands.push((turn.turn_id.clone(), wire));
    }
}

fn command_output(state: &mut Projector, bare: &Value, changes: &mut Vec<Change>) {
    let Some(at) = state.bare.commands.iter().position(|(_, wire)| wire["id"] == bare["call_id"]) else {
        return;
    };
    let (turn_id, mut wire) = state.bare.commands.swap_remove(at);
    if state.turns.position(&turn_id).is_none() {
        return;
    }
    let text = bare["output"].as_str().unwrap_or_default();
    match serde_json::from_str::<Value>(text) {
        Ok(output) if output.is_object() => {
            let exit_code = output.pointer("/metadata/exit_code").cloned().unwrap_or(Value::Null);
            if exit_code.as_i64().is_some_and(|code| code != 0) {
                wire["status"] = json!("failed");
            }
            let seconds = output.pointer("/metadata/duration_seconds").and_then(Value::as_f64);
            wire["durationMs"] = json!(seconds.map(|seconds| (seconds * 1000.0) as i64));
            wire["exitCode"] = exit_code;
            wire["aggregatedOutput"] = output["output"].clone();
        }
        _ => wire["aggregatedOutput"] = json!(text),
    }
    changes.push(Change::Item { turn_id, item: wire });
}
