//! The paginated form: turns by their events, items by `item_completed`, each with its own id and times.

use serde_json::Value;

use super::preview;
use super::projector::{Change, Projector, TurnState};
use crate::rollout::item;
use crate::rollout::line::Event;

pub(super) fn event(state: &mut Projector, event: &mut Event, line_number: i64, changes: &mut Vec<Change>) {
    match event {
        Event::TaskStarted { turn_id: Some(turn_id), root_turn_id, started_at, .. } => {
            if state.turns.position(turn_id).is_some() {
                return;
            }
            close_open(state, line_number, changes);
            state.turns.push(TurnState {
                turn_id: turn_id.clone(),
                root_turn_id: root_turn_id.clone(),
                status: "inProgress".to_owned(),
                started_at_ms: started_at.map(|seconds| seconds.saturating_mul(1000)),
                explicit: true,
                ..state.new_turn(line_number)
            });
            state.open = Some(state.turns.len() - 1);
            state.tell_turn(state.turns.len() - 1, line_number, changes);
        }
        Event::TaskComplete { turn_id, error, started_at, completed_at, duration_ms } => {
            let status =
                if error.as_ref().is_some_and(|error| !error.is_null()) { "failed" } else { "completed" };
            let times = (*started_at, *completed_at, *duration_ms);
            end(state, turn_id.as_deref(), status, error.as_ref(), times, line_number, changes);
        }
        Event::TurnAborted { turn_id, started_at, completed_at, duration_ms } => {
            let times = (*started_at, *completed_at, *duration_ms);
            end(state, turn_id.as_deref(), "interrupted", None, times, line_number, changes);
        }
        Event::ItemCompleted { thread_id, turn_id, item, started_at_ms, completed_at_ms } => {
            if state.is_foreign(thread_id.as_deref(), turn_id.as_deref(), changes) {
                return;
            }
            completed(
                state,
                turn_id.as_deref(),
                std::mem::take(item),
                (*started_at_ms, *completed_at_ms),
                line_number,
                changes,
            );
        }
        // Its item is another line, but a preview may be all that is left of it.
        Event::UserMessage(message) => super::legacy::note_preview(state, message),
        Event::ThreadRolledBack { num_turns } => roll_back(state, *num_turns, changes),
        _ => {}
    }
}

/// The last turns that have a user's message are gone, and all that is between and after; where no turn has one, the
/// last turns.
pub(super) fn roll_back(state: &mut Projector, count: u64, changes: &mut Vec<Change>) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let with_user = state.turns.iter().enumerate().rev().filter(|(_, turn)| turn.has_user);
    let places: Vec<usize> = with_user.map(|(at, _)| at).take(count).collect();
    let first = match places.last() {
        Some(at) if places.len() == count => *at,
        // More than there are: all of them.
        Some(_) => 0,
        None => state.turns.len().saturating_sub(count),
    };
    let dropped: Vec<TurnState> = state.turns.split_off(first);
    super::legacy::tell_cut(state, changes);
    state.open = None;
    state.last_reasoning = None;
    state.numbered = state.turns.iter().map(|turn| turn.items).sum();
    changes.push(Change::DropTurns(dropped.into_iter().map(|turn| turn.turn_id).collect()));
}

/// A turn that another one follows without having ended was cut.
fn close_open(state: &mut Projector, line_number: i64, changes: &mut Vec<Change>) {
    if let Some(open) = state.open.take()
        && let Some(turn) = state.turns.get_mut(open)
        && turn.status == "inProgress"
    {
        turn.status = "interrupted".to_owned();
        state.tell_turn(open, line_number - 1, changes);
    }
}

fn end(
    state: &mut Projector,
    turn_id: Option<&str>,
    status: &str,
    error: Option<&Value>,
    (started_at, completed_at, duration_ms): (Option<i64>, Option<i64>, Option<i64>),
    line_number: i64,
    changes: &mut Vec<Change>,
) {
    let by_id = turn_id.and_then(|id| state.turns.position(id));
    let Some(index) = by_id.or(state.open) else { return };
    if let Some(turn) = state.turns.get_mut(index) {
        turn.status = status.to_owned();
        turn.error = error.map(super::legacy::turn_error);
        if let Some(seconds) = started_at {
            turn.started_at_ms = Some(seconds.saturating_mul(1000));
        }
        // A second end tells another status, and not always another time.
        turn.completed_at_ms =
            completed_at.map(|seconds| seconds.saturating_mul(1000)).or(turn.completed_at_ms);
        turn.duration_ms = duration_ms.or(turn.duration_ms);
    }
    state.tell_turn(index, line_number, changes);
    if state.open == Some(index) {
        state.open = None;
    }
}

fn completed(
    state: &mut Projector,
    turn_id: Option<&str>,
    recorded: Value,
    times: (Option<i64>, Option<i64>),
    line_number: i64,
    changes: &mut Vec<Change>,
) {
    let Some(wire) = item::to_wire(recorded, times.0, times.1) else { return };
    if let Some(turn_id) = turn_id.filter(|id| state.turns.position(id).is_none()) {
        // The line that began the turn is damaged or missing.
        close_open(state, line_number, changes);
        state.begin_unannounced(turn_id, line_number);
        state.open = state.turns.position(turn_id);
        state.tell_turn(state.turns.len() - 1, line_number, changes);
    }
    let by_id = turn_id.and_then(|id| state.turns.position(id));
    let Some(index) = by_id.or(state.open) else { return };
    if wire["type"] == "userMessage" {
        note_preview(state, &wire);
    }
    if let Some(turn) = state.turns.get_mut(index) {
        turn.has_user |= wire["type"] == "userMessage";
        turn.items += 1;
        turn.end_line = line_number + 1;
        changes.push(Change::Item { turn_id: turn.turn_id.clone(), item: wire });
    }
}

/// The first message of a user is the thread's preview.
pub(super) fn note_preview(state: &mut Projector, user_message: &Value) {
    if state.facts.preview.is_empty() {
        state.facts.preview = preview_of(user_message);
    }
}

fn preview_of(user_message: &Value) -> String {
    let parts = user_message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    let has = |kinds: [&str; 2]| {
        parts.iter().any(|part| kinds.contains(&part["type"].as_str().unwrap_or_default()))
    };
    preview::of_message(&texts.join("\n"), has(["image", "localImage"]), has(["audio", "localAudio"]))
}
