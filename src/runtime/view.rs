//! Stored rows as clients see them.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::error::TurnError;
use crate::protocol::thread::{GitInfo, SessionSource, Thread, ThreadHistoryMode, ThreadStatus};
use crate::protocol::turn::{Turn, TurnItemsView, TurnStatus};
use crate::protocol::usage::{ThreadTokenUsage, TokenUsageBreakdown};
use crate::store::rows::{ThreadRow, TokenCounts, TurnRow};

/// A stored thread, without what only a loaded one has (`environments`, `canAcceptDirectInput`).
pub fn thread(row: &ThreadRow, status: ThreadStatus) -> Thread {
    Thread {
        id: row.thread_id.clone(),
        environments: None,
        extra: None,
        session_id: row.session_id.clone(),
        forked_from_id: row.forked_from_id.clone(),
        attached_to_thread_id: row.attached_to_thread_id.clone(),
        parent_thread_id: row.parent_thread_id.clone(),
        preview: row.preview.clone(),
        ephemeral: false,
        section: None,
        section_entered_at: row.section_entered_at_ms.map(seconds),
        project_id: row.project_id.clone(),
        history_mode: match row.history_mode.as_str() {
            "legacy" => ThreadHistoryMode::Legacy,
            _ => ThreadHistoryMode::Paginated,
        },
        model_provider: row.model_provider.clone(),
        model: row.model.clone(),
        reasoning_effort: row.reasoning_effort.clone(),
        created_at: seconds(row.created_at_ms),
        updated_at: seconds(row.updated_at_ms),
        recency_at: Some(seconds(row.recency_at_ms)),
        status,
        path: row.rollout_path.clone(),
        cwd: row.cwd.clone().into(),
        cli_version: row.cli_version.clone(),
        originator: row.originator.clone(),
        source: serde_json::from_str(&row.source_json).unwrap_or(SessionSource::Unknown),
        can_accept_direct_input: None,
        thread_source: row.thread_source.clone(),
        agent_nickname: row.agent_nickname.clone(),
        agent_role: row.agent_role.clone(),
        git_info: git_info(row),
        name: row.name.clone(),
        daybreak_enabled: None,
        turns: Vec::new(),
    }
}

/// `gitInfo` of a stored thread; `None` when nothing is known.
pub fn git_info(row: &ThreadRow) -> Option<GitInfo> {
    let info = GitInfo {
        sha: row.git_sha.clone(),
        branch: row.git_branch.clone(),
        origin_url: row.git_origin_url.clone(),
    };
    (info.sha.is_some() || info.branch.is_some() || info.origin_url.is_some()).then_some(info)
}

/// A stored turn with these items.
pub fn turn(row: &TurnRow, items: Vec<Box<RawValue>>, items_view: TurnItemsView) -> Turn {
    Turn {
        id: row.turn_id.clone(),
        root_turn_id: row.root_turn_id.clone(),
        items,
        items_view,
        status: turn_status(&row.status),
        error: row.error_json.as_deref().and_then(|json| serde_json::from_str::<TurnError>(json).ok()),
        started_at: row.started_at_ms.map(seconds),
        completed_at: row.completed_at_ms.map(seconds),
        duration_ms: row.duration_ms,
    }
}

fn turn_status(word: &str) -> TurnStatus {
    match word {
        "completed" => TurnStatus::Completed,
        "failed" => TurnStatus::Failed,
        "inProgress" => TurnStatus::InProgress,
        _ => TurnStatus::Interrupted,
    }
}

/// The word that a status is stored as.
pub fn status_word(status: TurnStatus) -> &'static str {
    match status {
        TurnStatus::Completed => "completed",
        TurnStatus::Failed => "failed",
        TurnStatus::InProgress => "inProgress",
        TurnStatus::Interrupted => "interrupted",
    }
}

/// Token counts as clients see them.
pub fn tokens(counts: TokenCounts) -> TokenUsageBreakdown {
    TokenUsageBreakdown {
        total_tokens: counts.total,
        input_tokens: counts.input,
        cached_input_tokens: counts.cached_input,
        cache_write_input_tokens: counts.cache_write_input,
        output_tokens: counts.output,
        reasoning_output_tokens: counts.reasoning_output,
    }
}

/// `tokenUsage` of a thread.
pub fn token_usage(total: TokenCounts, last: TokenCounts, window: Option<i64>) -> ThreadTokenUsage {
    ThreadTokenUsage { total: tokens(total), last: tokens(last), model_context_window: window }
}

/// The wire's threads and turns have seconds.
pub fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1000)
}

/// An item as wire JSON text.
pub fn raw(item: &Value) -> Box<RawValue> {
    // The keys of a value are texts and its numbers finite, so that it can always be written.
    serde_json::value::to_raw_value(item).unwrap_or_default()
}
