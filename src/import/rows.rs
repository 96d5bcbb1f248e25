//! What the reducer tells → what the store keeps.

use super::discover::Found;
use crate::history::facts::{Facts, source_to_wire};
use crate::history::projector::millis_of;
use crate::history::{Change, TurnState, UsageChange};
use crate::rollout::line::Tokens;
use crate::store::rows::{Append, ItemRow, ThreadRow, TokenCounts, TurnRow, UsageRow};

/// Put changes into an append. Returns the turns to drop.
pub(super) fn fill(append: &mut Append, changes: Vec<Change>, first_line: i64) -> Vec<String> {
    let mut dropped = Vec::new();
    let mut turns: Vec<TurnRow> = Vec::new();
    for change in changes {
        match change {
            Change::Turn(turn) => {
                let row = turn_row(turn);
                match turns.iter_mut().rev().find(|known| known.turn_id == row.turn_id) {
                    Some(known) => *known = TurnRow { first_line: known.first_line, ..row },
                    None => turns.push(row),
                }
            }
            Change::Item { turn_id, item } => append.items.push(ItemRow::of_wire(turn_id, &item)),
            Change::DropTurns(ids) => {
                turns.retain(|turn| !ids.contains(&turn.turn_id));
                append.items.retain(|item| !ids.contains(&item.turn_id));
                dropped.extend(ids);
            }
            Change::Usage(usage) => append.usage.push(usage_row(usage)),
            Change::ContextRestart(line) => append.context_restart = Some(line - first_line),
        }
    }
    append.turns = turns;
    dropped
}

fn turn_row(turn: TurnState) -> TurnRow {
    TurnRow {
        turn_id: turn.turn_id,
        root_turn_id: turn.root_turn_id,
        status: turn.status,
        error_json: turn.error.map(|error| error.to_string()),
        started_at_ms: turn.started_at_ms,
        completed_at_ms: turn.completed_at_ms,
        duration_ms: turn.duration_ms,
        first_line: turn.first_line,
        end_line: turn.end_line,
        client_user_message_id: None,
    }
}

fn usage_row(usage: UsageChange) -> UsageRow {
    UsageRow {
        turn_id: usage.turn_id,
        response_id: usage.response_id,
        model: usage.model,
        model_provider: usage.model_provider,
        goal_id: None,
        at_ms: usage.at.as_deref().and_then(millis).unwrap_or(0),
        tokens: counts(usage.tokens),
        model_context_window: usage.model_context_window,
    }
}

fn counts(tokens: Tokens) -> TokenCounts {
    TokenCounts {
        input: tokens.input_tokens,
        cached_input: tokens.cached_input_tokens,
        cache_write_input: tokens.cache_write_input_tokens,
        output: tokens.output_tokens,
        reasoning_output: tokens.reasoning_output_tokens,
        total: tokens.total_tokens,
    }
}

pub(super) fn thread_row(facts: &Facts, thread_id: &str, file: &Found, name: Option<&String>) -> ThreadRow {
    let (source, source_kind) = source_to_wire(facts.source.as_ref());
    let file_ms = file.mtime_ns / 1_000_000;
    let told_ms = facts.created_at.as_deref().and_then(millis);
    let created_at_ms = told_ms.or_else(|| millis_of(thread_id)).unwrap_or(file_ms);
    let updated_at_ms = facts.updated_at.as_deref().and_then(millis).unwrap_or(file_ms).max(created_at_ms);
    ThreadRow {
        thread_id: thread_id.to_owned(),
        session_id: facts.session_id.clone().unwrap_or_else(|| thread_id.to_owned()),
        forked_from_id: facts.forked_from_id.clone(),
        parent_thread_id: facts.parent_thread_id.clone(),
        preview: facts.preview.clone(),
        name: name.cloned(),
        source_json: source.to_string(),
        source_kind,
        thread_source: facts.thread_source.clone(),
        originator: facts.originator.clone(),
        cli_version: facts.cli_version.clone().unwrap_or_default(),
        model_provider: facts
            .model_provider
            .clone()
            .unwrap_or_else(|| crate::config::provider::OPENAI.to_owned()),
        model: facts.model.clone(),
        reasoning_effort: facts.effort.clone(),
        cwd: facts.cwd.clone().unwrap_or_default(),
        settings_json: serde_json::Value::Object(facts.settings.clone()).to_string(),
        git_sha: facts.git_sha.clone(),
        git_branch: facts.git_branch.clone(),
        git_origin_url: facts.git_origin_url.clone(),
        history_mode: facts
            .history_mode
            .clone()
            .filter(|mode| mode == "paginated")
            .unwrap_or_else(|| "legacy".to_owned()),
        created_at_ms,
        updated_at_ms,
        recency_at_ms: updated_at_ms,
        archived_at_ms: file.archived.then_some(file_ms),
        rollout_path: Some(file.plain_path()),
        agent_nickname: facts.agent_nickname.clone(),
        agent_role: facts.agent_role.clone(),
        memory_mode: facts.memory_mode.clone(),
        inherited_usage: counts(facts.tokens_before()),
        model_context_window: facts.model_context_window,
        ..ThreadRow::default()
    }
}

/// A thread whose file is at another place now.
pub(super) fn moved(row: &ThreadRow, file: &Found) -> ThreadRow {
    let archived_at_ms = file.archived.then(|| row.archived_at_ms.unwrap_or(file.mtime_ns / 1_000_000));
    ThreadRow { rollout_path: Some(file.plain_path()), archived_at_ms, ..row.clone() }
}

fn millis(rfc3339: &str) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(rfc3339).ok().map(|time| time.timestamp_millis())
}
