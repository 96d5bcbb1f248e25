//! What the store takes and gives: one plain struct a row, and [`Append`], the unit of change of a thread.
//!
//! Times are Unix milliseconds UTC, ids are text as on the wire, `…_json` members hold JSON text that the
//! store does not look into.

use super::goals::{GoalCharge, GoalRow};
use std::ops::Range;

use serde_json::Value;

/// A thread's metadata and settings, as stored. `thread/list` filters and sorts by these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadRow {
    /// The id on the wire.
    pub thread_id: String,
    /// The root thread of the tree of sub-agents; its own id for a root.
    pub session_id: String,
    /// Where a fork came from.
    pub forked_from_id: Option<String>,
    /// The thread that spawned this sub-agent.
    pub parent_thread_id: Option<String>,
    /// The thread a fork is attached to; attached forks are left out of ordinary lists.
    pub attached_to_thread_id: Option<String>,
    /// Text of the first user message; empty until then, and then the thread is not listed.
    pub preview: String,
    /// The name given by a user.
    pub name: Option<String>,
    /// `SessionSource` as wire JSON, for example `"vscode"`.
    pub source_json: String,
    /// The `ThreadSourceKind` that `thread/list` filters by, for example `vscode` or `subAgentReview`.
    pub source_kind: String,
    /// `threadSource` as the client gave it.
    pub thread_source: Option<String>,
    /// The first client of the process that made the thread.
    pub originator: Option<String>,
    /// Version of the program that made the thread.
    pub cli_version: String,
    /// Provider id.
    pub model_provider: String,
    /// Model of the next turn.
    pub model: Option<String>,
    /// Reasoning effort of the next turn.
    pub reasoning_effort: Option<String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// All sticky settings, as the runtime writes them; `{}` when unknown.
    pub settings_json: String,
    /// `gitInfo.sha`.
    pub git_sha: Option<String>,
    /// `gitInfo.branch`.
    pub git_branch: Option<String>,
    /// `gitInfo.originUrl`.
    pub git_origin_url: Option<String>,
    /// `paginated` or `legacy`: the form of the rollout file.
    pub history_mode: String,
    /// When it was made.
    pub created_at_ms: i64,
    /// When anything was last written to it.
    pub updated_at_ms: i64,
    /// When its last turn started.
    pub recency_at_ms: i64,
    /// When it was archived; `None` for an active thread.
    pub archived_at_ms: Option<i64>,
    /// The rollout file, absolute, without `.zst`; `None` when there is none.
    pub rollout_path: Option<String>,
    /// Nickname of a sub-agent.
    pub agent_nickname: Option<String>,
    /// Role of a sub-agent.
    pub agent_role: Option<String>,
    /// `enabled` or `disabled`.
    pub memory_mode: Option<String>,
    /// Project it belongs to.
    pub project_id: Option<String>,
    /// Section it is placed in.
    pub section_id: Option<String>,
    /// When it was placed there.
    pub section_entered_at_ms: Option<i64>,
    /// Place within the section.
    pub section_position: Option<i64>,
    /// Token totals that a fork inherits; its own are sums over the ledger.
    pub inherited_usage: TokenCounts,
    /// Context window of the model, as last reported.
    pub model_context_window: Option<i64>,
    /// Lines recorded in the journal so far; the next line's sequence number.
    pub journal_lines: i64,
    /// Bytes recorded in the journal so far: `base_bytes` and the length of a rollout file that is in step.
    pub journal_bytes: i64,
    /// Bytes at the beginning of the journal that stand in other files: the rollout file is what follows them.
    pub base_bytes: i64,
    /// Sequence number of the line the model context starts with (the last compaction), else 0.
    pub context_from_line: i64,
}

/// Tokens of one model response, or a sum of such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Input, the cached part included.
    pub input: i64,
    /// The part of the input that came from the provider's cache.
    pub cached_input: i64,
    /// The part of the input that was written to the provider's cache.
    pub cache_write_input: i64,
    /// Output, the reasoning part included.
    pub output: i64,
    /// The part of the output that was reasoning.
    pub reasoning_output: i64,
    /// The provider's own total; not recomputed.
    pub total: i64,
}

/// A turn. `items` are rows of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnRow {
    /// The id on the wire, unique within the thread.
    pub turn_id: String,
    /// `rootTurnId`.
    pub root_turn_id: Option<String>,
    /// `inProgress`, `completed`, `interrupted` or `failed`.
    pub status: String,
    /// `TurnError` as wire JSON, for a failed turn.
    pub error_json: Option<String>,
    /// When it started.
    pub started_at_ms: Option<i64>,
    /// When it ended.
    pub completed_at_ms: Option<i64>,
    /// How long it ran.
    pub duration_ms: Option<i64>,
    /// Sequence number of the turn's first journal line; set when the turn is made, kept by later upserts.
    pub first_line: i64,
    /// Sequence number after the turn's last journal line so far.
    pub end_line: i64,
    /// `clientUserMessageId` of the submission that started it, and the hash of its input: the same id again
    /// returns this turn.
    pub client_user_message_id: Option<String>,
}

/// An item as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemRow {
    /// The turn it belongs to.
    pub turn_id: String,
    /// The id on the wire, unique within its turn.
    pub item_id: String,
    /// Its `type`, for example `agentMessage`.
    pub kind: String,
    /// `ThreadItem` as wire JSON.
    pub json: String,
    /// When it started.
    pub started_at_ms: Option<i64>,
    /// When it completed.
    pub completed_at_ms: Option<i64>,
}

impl ItemRow {
    /// The row of an item as the wire has it.
    pub fn of_wire(turn_id: String, item: &Value) -> ItemRow {
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        ItemRow {
            turn_id,
            item_id: text("id"),
            kind: text("type"),
            json: item.to_string(),
            started_at_ms: item["startedAtMs"].as_i64(),
            completed_at_ms: item["completedAtMs"].as_i64(),
        }
    }
}

/// A row of the ledger: one model response's tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageRow {
    /// The turn that asked.
    pub turn_id: String,
    /// The provider's response id, or a made-up key that is unique within the thread: a second row with the
    /// same key is ignored, so that nothing is charged twice.
    pub response_id: String,
    /// Model asked.
    pub model: Option<String>,
    /// Provider asked.
    pub model_provider: Option<String>,
    /// Goal the tokens count for.
    pub goal_id: Option<String>,
    /// When the response ended.
    pub at_ms: i64,
    /// The tokens.
    pub tokens: TokenCounts,
    /// `modelContextWindow` told with it.
    pub model_context_window: Option<i64>,
}

/// Members of a thread that an append changes; `None` leaves a member as it is, `Some(None)` clears it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadPatch {
    /// See [`ThreadRow::preview`]; only taken while the stored preview is empty.
    pub preview_if_empty: Option<String>,
    /// See [`ThreadRow::name`].
    pub name: Option<Option<String>>,
    /// See [`ThreadRow::model_provider`].
    pub model_provider: Option<String>,
    /// See [`ThreadRow::model`].
    pub model: Option<Option<String>>,
    /// See [`ThreadRow::reasoning_effort`].
    pub reasoning_effort: Option<Option<String>>,
    /// See [`ThreadRow::cwd`].
    pub cwd: Option<String>,
    /// See [`ThreadRow::settings_json`].
    pub settings_json: Option<String>,
    /// See [`ThreadRow::git_sha`].
    pub git_sha: Option<Option<String>>,
    /// See [`ThreadRow::git_branch`].
    pub git_branch: Option<Option<String>>,
    /// See [`ThreadRow::git_origin_url`].
    pub git_origin_url: Option<Option<String>>,
    /// See [`ThreadRow::updated_at_ms`].
    pub updated_at_ms: Option<i64>,
    /// See [`ThreadRow::recency_at_ms`].
    pub recency_at_ms: Option<i64>,
    /// See [`ThreadRow::archived_at_ms`].
    pub archived_at_ms: Option<Option<i64>>,
    /// See [`ThreadRow::rollout_path`].
    pub rollout_path: Option<Option<String>>,
    /// See [`ThreadRow::model_context_window`].
    pub model_context_window: Option<i64>,
    /// See [`ThreadRow::memory_mode`].
    pub memory_mode: Option<String>,
}

/// Lines to record: the exact bytes of a rollout file, each line with its line end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// Whole lines, end of line included.
    pub bytes: Vec<u8>,
    /// How many lines that is.
    pub count: i64,
}

/// What happens to the lease of a thread in the same transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LeaseChange {
    /// Nothing.
    #[default]
    Keep,
    /// Take it for a turn; fails with [`super::StoreError::LeaseHeld`] while another process holds it.
    Claim {
        /// The turn that will run.
        turn_id: String,
    },
    /// Give it back.
    Release,
}

/// One change of one thread: recorded lines and all that is derived from them, in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Append {
    /// The thread.
    pub thread_id: String,
    /// The whole row when this append makes the thread; its journal counters are ignored.
    pub create: Option<Box<ThreadRow>>,
    /// Refuse with [`super::StoreError::JournalMoved`] unless the journal has just so many lines: another process
    /// has written since the caller looked.
    pub expected_lines: Option<i64>,
    /// The lines.
    pub lines: Lines,
    /// The index within `lines` of the line from which the model context starts anew.
    pub context_restart: Option<i64>,
    /// Turns, inserted or updated by their id, in order.
    pub turns: Vec<TurnRow>,
    /// Items, inserted or replaced by (turn id, item id), in order.
    pub items: Vec<ItemRow>,
    /// Rows of the ledger.
    pub usage: Vec<UsageRow>,
    /// What it does to the goal.
    pub goal: Option<GoalCharge>,
    /// The submission that leaves the queue with this: it becomes a turn now.
    pub take_queued: Option<String>,
    /// Other members.
    pub patch: ThreadPatch,
    /// The lease.
    pub lease: LeaseChange,
    /// Refuse with [`super::StoreError::LeaseLost`] unless the lease is still held by this claim of it: another process
    /// has taken the thread over since.
    pub expected_fence: Option<i64>,
}

/// What an append came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Appended {
    /// Sequence numbers of the lines recorded.
    pub lines: Range<i64>,
    /// The number of the claim, if the lease was taken.
    pub fence: Option<i64>,
    /// Byte positions of the lines recorded, which are those in a rollout file that is in step.
    pub bytes: Range<i64>,
    /// Sums over the ledger after this append, inherited tokens included.
    pub total_usage: TokenCounts,
    /// The goal that was charged, as it is now.
    pub goal: Option<GoalRow>,
}
