//! The legacy form: turns and items from events of messages (`protocol/rollout.md`, section 5).

use serde_json::{Value, json};

use super::paginated::roll_back;
use super::preview;
use super::projector::{Change, Projector, TurnState};
use crate::rollout::item;
use crate::rollout::line::{Event, UserMessageEvent};

/// Reasoning with more bytes is not kept for others to be added to it.
const MERGED_BYTES_MAX: usize = 4 << 20;

pub(super) fn event(state: &mut Projector, event: &mut Event, line_number: i64, changes: &mut Vec<Change>) {
    match event {
        Event::TaskStarted { turn_id: Some(turn_id), root_turn_id, started_at, .. } => {
            tell_cut(state, changes);
            close(state);
            if let Some(known) = state.turns.position(turn_id) {
                // The same turn goes on: it is one turn, as its id says.
                state.turns[known].status = "inProgress".to_owned();
                state.open = Some(known);
                state.tell_turn(known, line_number, changes);
                return;
            }
            state.turns.push(TurnState {
                turn_id: turn_id.clone(),
                root_turn_id: root_turn_id.clone(),
                status: "inProgress".to_owned(),
                started_at_ms: started_at.map(|seconds| seconds.saturating_mul(1000)),
                explicit: true,
                ..state.new_turn(line_number)
            });
            open_last(state, line_number, changes);
        }
        Event::UserMessage(message) => {
            state.has_user_events = true;
            user_message(state, std::mem::take(message), line_number, changes);
        }
        Event::AgentMessage { message, phase, memory_citation } if !message.is_empty() => {
            let wire = json!({
                "type": "agentMessage", "id": next_id(state), "text": null, "phase": phase, "moderation": null,
                "memoryCitation": memory_citation, "delivery": null, "questions": null,
                "startedAtMs": null, "completedAtMs": null,
            });
            let wire = with(wire, "text", std::mem::take(message));
            push(state, None, wire, line_number, changes);
        }
        Event::AgentReasoning { text } => {
            reasoning(state, "summary", std::mem::take(text), line_number, changes);
        }
        Event::AgentReasoningRawContent { text } => {
            reasoning(state, "content", std::mem::take(text), line_number, changes);
        }
        Event::ItemCompleted { thread_id, turn_id, item: recorded, started_at_ms, completed_at_ms } => {
            if state.is_foreign(thread_id.as_deref(), turn_id.as_deref(), changes) {
                return;
            }
            let kept = match recorded.get("type").and_then(Value::as_str) {
                Some("Plan") => {
                    recorded.get("text").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
                }
                Some("Sleep") => true,
                // Where events tell of messages as well, their items are left out.
                Some("UserMessage" | "AgentMessage") => !state.has_user_events,
                _ => false,
            };
            if kept
                && let Some(wire) = item::to_wire(std::mem::take(recorded), *started_at_ms, *completed_at_ms)
            {
                if wire["type"] == "userMessage" {
                    super::paginated::note_preview(state, &wire);
                }
                push(state, turn_id.as_deref(), wire, line_number, changes);
            }
        }
        Event::PatchApplyEnd(end) => push_call(state, end, patch(end), line_number, changes),
        Event::McpToolCallEnd(end) => {
            let call = mcp_call(end);
            push_call(state, end, call, line_number, changes);
        }
        Event::WebSearchEnd(end) => {
            let search = json!({"type": "webSearch", "query": end["query"], "action": item::web_action_to_wire(&end["action"]),
                "results": null});
            push_call(state, end, search, line_number, changes);
        }
        Event::ImageGenerationEnd(end) => {
            let image = json!({"type": "imageGeneration", "status": end["status"], "revisedPrompt": end["revised_prompt"],
                "result": null, "savedPath": end["saved_path"]});
            let image = with(image, "result", taken(end, "result"));
            push_call(state, end, image, line_number, changes);
        }
        Event::ContextCompacted {} => {
            let wire = json!({"type": "contextCompaction", "id": next_id(state)});
            push(state, None, wire, line_number, changes);
        }
        Event::EnteredReviewMode(review) => {
            let text = review.get("user_facing_hint").and_then(Value::as_str).unwrap_or("Review requested.");
            let wire = json!({"type": "enteredReviewMode", "id": next_id(state), "review": text});
            push(state, None, wire, line_number, changes);
        }
        Event::ExitedReviewMode(review) => {
            let text = review_text(&review["review_output"]);
            let wire = json!({"type": "exitedReviewMode", "id": next_id(state), "review": text});
            push(state, None, wire, line_number, changes);
        }
        Event::TurnAborted { turn_id, started_at, completed_at, duration_ms } => {
            let Some(index) = find(state, turn_id.as_deref()) else { return };
            let turn = &mut state.turns[index];
            turn.status = "interrupted".to_owned();
            set_times(turn, *started_at, *completed_at, *duration_ms);
            state.tell_turn(index, line_number, changes);
            if state.open == Some(index) {
                close(state);
            }
        }
        Event::TaskComplete { turn_id, error, started_at, completed_at, duration_ms } => {
            let Some(index) = find(state, turn_id.as_deref()) else { return };
            let turn = &mut state.turns[index];
            match error.as_ref().filter(|error| !error.is_null()) {
                Some(error) => {
                    turn.status = "failed".to_owned();
                    turn.error = Some(turn_error(error));
                }
                None if turn.status == "inProgress" => turn.status = "completed".to_owned(),
                None => {}
            }
            set_times(turn, *started_at, *completed_at, *duration_ms);
            state.tell_turn(index, line_number, changes);
            if state.open == Some(index) {
                close(state);
            }
        }
        Event::Error { message, codex_error_info } => {
            let Some(index) = state.open else { return };
            let turn = &mut state.turns[index];
            turn.status = "failed".to_owned();
            turn.error = Some(turn_error(&json!({"message": message, "codex_error_info": codex_error_info})));
            state.tell_turn(index, line_number, changes);
        }
        Event::ThreadRolledBack { num_turns } => roll_back(state, *num_turns, changes),
        _ => {}
    }
}

/// A compaction keeps the turn it is in, or makes one that a user message may join.
pub(super) fn compacted(state: &mut Projector, line_number: i64, changes: &mut Vec<Change>) {
    ensure_open(state, line_number, changes);
    if let Some(turn) = state.open.and_then(|open| state.turns.get_mut(open)) {
        turn.compaction = true;
    }
}

pub(super) fn user_message(
    state: &mut Projector,
    message: UserMessageEvent,
    line_number: i64,
    changes: &mut Vec<Change>,
) {
    note_preview(state, &message);
    let joins = state
        .open
        .and_then(|open| state.turns.get(open))
        .is_some_and(|turn| turn.explicit || (turn.compaction && turn.items == 0));
    if !joins {
        close(state);
    }
    ensure_open(state, line_number, changes);
    let wire = json!({
        "type": "userMessage", "id": next_id(state), "clientId": message.client_id,
        "content": null, "startedAtMs": null, "completedAtMs": null,
    });
    let wire = with(wire, "content", content(message));
    push(state, None, wire, line_number, changes);
}

/// What a user said as the wire has it. Its texts, which may be large, are moved.
fn content(message: UserMessageEvent) -> Value {
    let UserMessageEvent { message, images, local_images, audio, local_audio, text_elements, .. } = message;
    let mut content = Vec::new();
    if !message.trim().is_empty() {
        let elements = item::text_elements_to_wire(&json!(text_elements));
        let part = json!({"type": "text", "text": null, "text_elements": elements});
        content.push(with(part, "text", message));
    }
    let all = |texts: Option<Vec<String>>| texts.unwrap_or_default().into_iter();
    content.extend(
        all(images).map(|url| with(json!({"type": "image", "url": null, "detail": null}), "url", url)),
    );
    content.extend(all(local_images).map(|path| json!({"type": "localImage", "path": path, "detail": null})));
    content.extend(all(audio).map(|url| with(json!({"type": "audio", "url": null}), "url", url)));
    content.extend(all(local_audio).map(|path| json!({"type": "localAudio", "path": path})));
    Value::Array(content)
}

/// A member of an object, taken out of it.
fn taken(object: &mut Value, member: &str) -> Value {
    object.get_mut(member).map(Value::take).unwrap_or_default()
}

/// An object with another value in the place of a member; `json!` would copy it.
fn with(mut object: Value, member: &str, value: impl Into<Value>) -> Value {
    object[member] = value.into();
    object
}

/// The first message of a user is the thread's preview.
pub(super) fn note_preview(state: &mut Projector, message: &UserMessageEvent) {
    if state.facts.preview.is_empty() {
        let any = |parts: &Option<Vec<String>>| parts.as_ref().is_some_and(|parts| !parts.is_empty());
        let has_image = any(&message.images) || any(&message.local_images);
        let has_audio = any(&message.audio) || any(&message.local_audio);
        state.facts.preview = preview::of_message(&message.message, has_image, has_audio);
    }
}

/// Reasoning is added to the last item when that is reasoning too.
pub(super) fn reasoning(
    state: &mut Projector,
    part: &str,
    text: String,
    line_number: i64,
    changes: &mut Vec<Change>,
) {
    if text.is_empty() {
        return;
    }
    let is_large = MERGED_BYTES_MAX < text.len();
    if state.open.is_some()
        && let Some(last) = state.last_reasoning.as_mut().filter(|last| last["type"] == "reasoning")
    {
        if let Some(texts) = last[part].as_array_mut() {
            texts.push(text.into());
        }
        let item = last.clone();
        if let Some(turn) = state.open.and_then(|open| state.turns.get(open)) {
            changes.push(Change::Item { turn_id: turn.turn_id.clone(), item });
        }
        return;
    }
    let mut wire = json!({"type": "reasoning", "id": next_id(state), "summary": [], "content": [],
        "startedAtMs": null, "completedAtMs": null});
    wire[part] = Value::Array(vec![text.into()]);
    push(state, None, wire, line_number, changes);
    if is_large {
        state.last_reasoning = None;
    }
}

fn push_call(
    state: &mut Projector,
    end: &Value,
    mut wire: Value,
    line_number: i64,
    changes: &mut Vec<Change>,
) {
    let turn_id = end.get("turn_id").and_then(Value::as_str).filter(|id| !id.is_empty());
    wire["id"] = end.get("call_id").cloned().unwrap_or_else(|| json!(next_id(state)));
    push(state, turn_id, wire, line_number, changes);
}

/// Add an item to the turn that it names, or to the open one. An item of an unknown turn is dropped.
pub(super) fn push(
    state: &mut Projector,
    turn_id: Option<&str>,
    wire: Value,
    line_number: i64,
    changes: &mut Vec<Change>,
) {
    let index = match turn_id {
        Some(id) => state.turns.position(id),
        None => {
            ensure_open(state, line_number, changes);
            state.open
        }
    };
    let Some(index) = index else { return };
    let Some(turn) = state.turns.get_mut(index) else { return };
    turn.items += 1;
    turn.has_user |= wire["type"] == "userMessage";
    let is_numbered = wire["id"].as_str().is_some_and(|id| id == format!("item-{}", state.numbered + 1));
    if is_numbered {
        state.numbered += 1;
    }
    let turn_id = turn.turn_id.clone();
    if state.open == Some(index) {
        state.last_reasoning = (wire["type"] == "reasoning").then(|| wire.clone());
    }
    state.tell_turn(index, line_number, changes);
    changes.push(Change::Item { turn_id, item: wire });
}

pub(super) fn next_id(state: &Projector) -> String {
    format!("item-{}", state.numbered + 1)
}

/// Open a turn that no event announced, if none is open.
fn ensure_open(state: &mut Projector, line_number: i64, changes: &mut Vec<Change>) {
    if state.open.is_none() {
        state.turns.push(TurnState {
            turn_id: format!("rollout-{}", state.parsed),
            status: "completed".to_owned(),
            ..state.new_turn(line_number)
        });
        open_last(state, line_number, changes);
    }
}

fn open_last(state: &mut Projector, line_number: i64, changes: &mut Vec<Change>) {
    let index = state.turns.len() - 1;
    state.open = Some(index);
    state.last_reasoning = None;
    state.tell_turn(index, line_number, changes);
}

/// A turn that another one follows counts as interrupted, unless its end still comes.
pub(super) fn tell_cut(state: &Projector, changes: &mut Vec<Change>) {
    let open = state.open.and_then(|open| state.turns.get(open));
    if let Some(turn) = open.filter(|turn| turn.status == "inProgress") {
        changes.push(Change::Turn(TurnState { status: "interrupted".to_owned(), ..turn.clone() }));
    }
}

fn close(state: &mut Projector) {
    state.open = None;
    state.last_reasoning = None;
}

fn find(state: &Projector, turn_id: Option<&str>) -> Option<usize> {
    turn_id.and_then(|id| state.turns.position(id)).or(state.open)
}

fn set_times(
    turn: &mut TurnState,
    started_at: Option<i64>,
    completed_at: Option<i64>,
    duration_ms: Option<i64>,
) {
    if let Some(seconds) = started_at {
        turn.started_at_ms = Some(seconds.saturating_mul(1000));
    }
    turn.completed_at_ms = completed_at.map(|seconds| seconds.saturating_mul(1000));
    turn.duration_ms = duration_ms;
}

/// An error of a line → as the wire has it.
pub(super) fn turn_error(error: &Value) -> Value {
    let info =
        error.get("codex_error_info").or_else(|| error.get("codexErrorInfo")).cloned().unwrap_or(Value::Null);
    json!({
        "message": error.get("message").and_then(Value::as_str).unwrap_or_default(), "codexErrorInfo": info_to_wire(info),
        "additionalDetails": error.get("additional_details").cloned().unwrap_or(Value::Null), "misalignment": null,
    })
}

fn info_to_wire(info: Value) -> Value {
    match info {
        Value::String(word) => json!(item::camel(&word)),
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .map(|(key, mut value)| {
                    if let Some(status) =
                        value.as_object_mut().and_then(|inner| inner.remove("http_status_code"))
                    {
                        value["httpStatusCode"] = status;
                    }
                    (item::camel(&key), value)
                })
                .collect(),
        ),
        other => other,
    }
}

/// What a reviewer said, as people are shown it: the whole, and then what was found.
fn review_text(output: &Value) -> String {
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().trim().to_owned();
    let findings = output["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut parts = vec![text(output, "overall_explanation")];
    match findings.len() {
        0 => {}
        1 => parts.push("Review comment:".to_owned()),
        _ => parts.push("Full review comments:".to_owned()),
    }
    parts.extend(findings.iter().map(|finding| {
        let place = &finding["code_location"];
        let (start, end) = (&place["line_range"]["start"], &place["line_range"]["end"]);
        let head =
            format!("- {} — {}:{start}-{end}", text(finding, "title"), text(place, "absolute_file_path"));
        let body = text(finding, "body");
        std::iter::once(head)
            .chain(body.lines().map(|line| format!("  {line}")))
            .collect::<Vec<_>>()
            .join("\n")
    }));
    parts.retain(|part| !part.is_empty());
    match parts.is_empty() {
        true => "Reviewer failed to output a response.".to_owned(),
        false => parts.join("\n\n"),
    }
}

fn patch(end: &Value) -> Value {
    let failed = end.get("success").and_then(Value::as_bool) == Some(false);
    let status =
        end.get("status").and_then(Value::as_str).unwrap_or(if failed { "failed" } else { "completed" });
    json!({"type": "fileChange", "changes": item::changes_to_wire(&end["changes"]), "status": status})
}

fn mcp_call(end: &mut Value) -> Value {
    let invocation = &end["invocation"];
    let (ok, err) = (end.pointer("/result/Ok"), end.pointer("/result/Err"));
    let failed = err.is_some() || ok.and_then(|ok| ok.get("isError")).and_then(Value::as_bool) == Some(true);
    let status = if failed { "failed" } else { "completed" };
    let wire = json!({
        "type": "mcpToolCall", "server": invocation["server"], "tool": invocation["tool"],
        "status": status, "arguments": invocation["arguments"],
        "mcpAppResourceUri": end.get("mcp_app_resource_uri"), "pluginId": null, "result": null,
        "error": err.map(|error| json!({"message": error})), "durationMs": item::duration_to_ms(&end["duration"]),
    });
    let result = end.pointer_mut("/result/Ok").map(|ok| {
        let result = json!({"content": null, "structuredContent": ok.get("structuredContent"), "_meta": ok.get("_meta")});
        with(result, "content", taken(ok, "content"))
    });
    with(wire, "result", result)
}
