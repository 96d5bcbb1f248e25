//! Patches of the model: `apply_patch` as a custom tool, and as a heredoc in a command.
//!
//! A patch that does not fit makes no item: its error goes to the model. One that fits is a `fileChange` item, applied
//! whole or not at all, after a yes where one is due (`protocol/approvals.md`, section 3).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::asking::Waiting;
use super::super::client::Event;
use super::super::turn::TurnContext;
use super::{Call, Output, Stop, judge};
use crate::protocol::approval::{
    FileChangeApprovalDecision as Decision, FileChangeRequestApprovalParams,
    FileChangeRequestApprovalResponse,
};
use crate::protocol::item::{FileUpdateChange, PatchChangeKind};
use crate::protocol::turn::TurnDiffUpdatedNotification;
use crate::tools::approval::{self, Verdict};
use crate::tools::patch::apply::apply;
use crate::tools::patch::heredoc::Found;
use crate::tools::patch::parse::parse;
use crate::tools::patch::verify::verify;
use crate::tools::patch::{
    Change, ChangeKind, REJECTED_BY_USER, command_answer, custom_tool_answer, failed_answer,
};
use crate::tools::turn_diff::TurnDiff;

/// What the model is told of a patch that was applied.
type Answer = fn(&[Change], Duration) -> String;

pub(super) async fn custom_tool(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let cwd = PathBuf::from(&turn.settings.cwd);
    carry_out(turn, call, call.input, &cwd, custom_tool_answer).await
}

pub(super) async fn heredoc(turn: &Arc<TurnContext>, call: &Call<'_>, found: &Found, cwd: &Path) -> Output {
    let cwd = found.workdir.as_deref().map_or_else(|| cwd.to_owned(), |dir| super::path_in(cwd, dir));
    carry_out(turn, call, &found.patch, &cwd, command_answer).await
}

async fn carry_out(
    turn: &Arc<TurnContext>,
    call: &Call<'_>,
    text: &str,
    cwd: &Path,
    answer: Answer,
) -> Output {
    // One patch at a time, so that the second of a reply is checked against what the first has written.
    let mut diff = turn.diff.lock().await;
    let changes = fit(text, cwd)?;
    let in_roots = judge::may_write(turn, changes.iter().flat_map(Change::touched));
    let mut verdict = approval::patch(judge::policy(turn), judge::mode(turn), in_roots);
    if matches!(verdict, Verdict::Ask { .. }) && is_allowed(turn, &changes) {
        verdict = Verdict::Run { confined: false };
    }
    if let Verdict::Refuse(text) = verdict {
        return Err(text.into());
    }
    let item = Item { id: call.id, at_ms: turn.runtime.clock.now_ms(), changes: wire_changes(&changes) };
    if matches!(verdict, Verdict::Ask { .. }) {
        turn.announce(&item.wire("inProgress"));
        // Others may ask and write meanwhile; what was checked is checked again when it is applied.
        drop(diff);
        if let Some(refusal) = ask(turn, &item, &changes).await? {
            item.done(turn, "declined").await?;
            return Ok(json!(refusal));
        }
        diff = turn.diff.lock().await;
    } else {
        turn.item_started(&item.wire("inProgress"));
    }
    let started = Instant::now();
    let applied = tokio::task::block_in_place(|| apply(&changes));
    if let Err(error) = applied {
        item.done(turn, "failed").await?;
        return Ok(json!(failed_answer(&error)));
    }
    item.done(turn, "completed").await?;
    diff.record(&changes);
    turn.tell(diff_event(turn, &diff));
    Ok(json!(answer(&changes, started.elapsed())))
}

/// Read a patch and fit it to the files; nothing is written. The error is for the model.
fn fit(text: &str, cwd: &Path) -> Result<Vec<Change>, String> {
    tokio::task::block_in_place(|| {
        let patch = parse(text).map_err(|error| failed_answer(&error))?;
        verify(&patch, cwd).map_err(|error| failed_answer(&error))
    })
}

fn is_allowed(turn: &TurnContext, changes: &[Change]) -> bool {
    let allowed = turn.tools.allowed();
    changes.iter().flat_map(Change::touched).all(|file| allowed.files.contains(file))
}

/// Ask the clients. `None` is a yes; else what the model is told.
async fn ask(turn: &TurnContext, item: &Item<'_>, changes: &[Change]) -> Result<Option<&'static str>, Stop> {
    let params = FileChangeRequestApprovalParams {
        grant_root: None,
        item_id: item.id.to_owned(),
        reason: None,
        started_at_ms: item.at_ms,
        thread_id: turn.notify.thread_id.to_string(),
        turn_id: turn.turn.id.clone(),
    };
    let method = "item/fileChange/requestApproval";
    let Some(answer) = turn.asking.ask(method, Waiting::Approval, &params).await else {
        return Err(Stop::Interrupted);
    };
    let decision = answer
        .ok()
        .and_then(|answer| serde_json::from_value::<FileChangeRequestApprovalResponse>(answer).ok())
        .map(|response| response.decision);
    match decision {
        Some(Decision::Accept) => Ok(None),
        Some(Decision::AcceptForSession) => {
            let files = changes.iter().flat_map(Change::touched).map(Path::to_owned);
            turn.tools.allowed().files.extend(files);
            Ok(None)
        }
        Some(Decision::Decline) => Ok(Some(REJECTED_BY_USER)),
        Some(Decision::Cancel) => {
            turn.cancel.cancel();
            Err(Stop::Interrupted)
        }
        None => Ok(Some("approval request failed")),
    }
}

/// `turn/diff/updated` as the files are now; `None` when the turn has changed none.
pub(in super::super) fn last_diff(turn: &TurnContext, diff: &TurnDiff) -> Option<Event> {
    (!diff.is_empty()).then(|| diff_event(turn, diff))
}

fn diff_event(turn: &TurnContext, diff: &TurnDiff) -> Event {
    turn.notify.event(
        "turn/diff/updated",
        &TurnDiffUpdatedNotification {
            diff: diff.text(),
            thread_id: turn.notify.thread_id.to_string(),
            turn_id: turn.turn.id.clone(),
        },
    )
}

/// A `fileChange` item in the making.
struct Item<'a> {
    id: &'a str,
    at_ms: i64,
    changes: Vec<FileUpdateChange>,
}

impl Item<'_> {
    fn wire(&self, status: &str) -> Value {
        json!({"type": "fileChange", "id": self.id, "changes": self.changes, "status": status,
            "startedAtMs": self.at_ms, "completedAtMs": null})
    }

    async fn done(&self, turn: &TurnContext, status: &str) -> Result<(), Stop> {
        Ok(turn.item_done(self.wire(status)).await?)
    }
}

fn wire_changes(changes: &[Change]) -> Vec<FileUpdateChange> {
    let mut wire: Vec<FileUpdateChange> = changes.iter().map(wire_change).collect();
    wire.sort_by(|one, other| one.path.cmp(&other.path));
    wire
}

fn wire_change(change: &Change) -> FileUpdateChange {
    let kind = match &change.kind {
        ChangeKind::Add => PatchChangeKind::Add,
        ChangeKind::Delete => PatchChangeKind::Delete,
        ChangeKind::Update { move_path } => {
            PatchChangeKind::Update { move_path: move_path.as_ref().map(|path| path.display().to_string()) }
        }
    };
    FileUpdateChange { diff: change.diff.clone(), kind, path: change.path.display().to_string() }
}
