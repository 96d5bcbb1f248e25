//! Recording a thread: every change of its history goes through here, as lines with what is derived from them.
//!
//! One recorder belongs to a loaded thread; whoever records holds it for the time of one append. A thread that has no
//! first message yet keeps its lines here, and they are stored with that message; an ephemeral thread's are never
//! stored. After the commit the lines go to the rollout file (`import::mirror`).

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::error::{Result, RuntimeError};
use super::input::{self, UserMessage};
use super::settings::Settings;
use super::turn::GoalStart;
use super::turn::compaction;
use super::view;
use super::{git, prompt};
use crate::clock::Clock;
use crate::history::context::{self, Context};
use crate::import::mirror::Mirror;
use crate::protocol::turn::{Turn, TurnItemsView, TurnStatus};
use crate::rollout::line::{Parsed, Record, Tokens, parse};
use crate::rollout::read;
use crate::rollout::write::{Form, LineWriter, TokenUsageLines};
use crate::store::goals::{GoalCharge, GoalRow};
use crate::store::rows::{
    Append, Appended, ItemRow, LeaseChange, Lines, ThreadPatch, ThreadRow, TokenCounts, TurnRow, UsageRow,
};
use crate::store::{Store, StoreError};

/// How many runs of the journal are read at a time.
const RUNS_AT_A_TIME: i64 = 64;

/// Above this, the model context of an idle thread is read again rather than kept.
const KEPT_CONTEXT_BYTES: usize = 256 << 10;

/// Writes the history of one thread.
#[derive(Debug)]
pub struct Recorder {
    store: Store,
    clock: Clock,
    mirror: Mirror,
    row: ThreadRow,
    ephemeral: bool,
    materialized: bool,
    /// Lines of a thread that is not stored (yet).
    memory: Vec<u8>,
    memory_lines: i64,
    /// The last line recorded is known to have its end; that of an imported file may lack it.
    is_ended: bool,
    next_ordinal: u64,
    /// The model context as of the last line, while it is known.
    context: Option<Vec<Arc<RawValue>>>,
    total_usage: TokenCounts,
    /// How many compactions the context has seen.
    window_number: u64,
    /// The claim by which the running turn holds the thread. Set with its start, cleared with its end; what is recorded
    /// in between is refused when another process has claimed the thread since.
    fence: Option<i64>,
    /// How many tokens the context takes up, as the last response or an estimate has it.
    context_tokens: Option<i64>,
}

/// What a turn starts with.
#[derive(Debug)]
pub struct TurnSeed {
    /// Its id.
    pub turn_id: String,
    /// Its root, if it is not its own.
    pub root_turn_id: Option<String>,
    /// The user's message.
    pub message: UserMessage,
    /// The message as the model gets it; empty when the message is not for the thread's own model.
    pub content: Vec<Value>,
    /// Text of the instruction files.
    pub instructions: Option<String>,
    /// An item that stands before the message.
    pub first_item: Option<Value>,
    /// What started the turn, unless a client did.
    pub trigger: Option<String>,
    /// The submission that leaves the queue with this.
    pub queued: Option<String>,
    /// What the model is told of its goal, and what that changes of it.
    pub goal: Option<GoalStart>,
    /// The settings that hold.
    pub settings: Settings,
}

/// A turn whose start is stored.
#[derive(Debug)]
pub struct Started {
    /// As the reply shows it.
    pub turn: Turn,
    /// When.
    pub started_at_ms: i64,
    /// The user's message, if there is one.
    pub user_item: Option<WholeItem>,
    /// The settings, with what the model has been told now.
    pub settings: Settings,
    /// The thread's row.
    pub row: ThreadRow,
}

/// An item that is whole at once.
#[derive(Clone, Debug)]
pub struct WholeItem {
    /// As `item/started` shows it.
    pub started: Box<RawValue>,
    /// As `item/completed` shows it.
    pub completed: Box<RawValue>,
    /// When.
    pub at_ms: i64,
}

/// Lines in the making, with what is derived from them.
struct Draft {
    lines: LineWriter,
    append: Append,
    context: Vec<Arc<RawValue>>,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    /// The turn.
    pub turn_id: String,
    /// Its root.
    pub root_turn_id: Option<String>,
    /// How.
    pub status: TurnStatus,
    /// `TurnError` as wire JSON, for a failed turn.
    pub error: Option<Value>,
    /// When it started.
    pub started_at_ms: i64,
    /// Text of its last message.
    pub last_message: Option<String>,
}

/// Tokens of a model response.
#[derive(Clone, Debug)]
pub struct ResponseUsage {
    /// The provider's id of the response.
    pub response_id: String,
    /// The tokens.
    pub tokens: TokenCounts,
    /// Sum over the turn, this response included.
    pub turn_tokens: TokenCounts,
    /// Model asked.
    pub model: String,
    /// Provider asked.
    pub model_provider: String,
    /// The model's context window.
    pub window: i64,
    /// The model was shown the thread's context, and not a conversation beside it.
    pub is_of_context: bool,
}

/// A compaction that is to be recorded.
#[derive(Debug)]
pub struct Compaction<'a> {
    /// What stands for the past.
    pub summary: &'a str,
    /// Lines of the user's messages that the model is still shown.
    pub kept: &'a [i64],
    /// The context that the model is told again.
    pub context: &'a [Value],
    /// The item.
    pub wire: &'a Value,
    /// Tokens of the response that has the summary.
    pub usage: Option<&'a ResponseUsage>,
    /// The end of the turn, if the compaction is all of it.
    pub end: Option<&'a TurnEnd>,
    /// What is charged to the goal.
    pub charge: Option<GoalCharge>,
}

impl Recorder {
    /// For a new thread, which is not stored yet.
    pub fn new(store: Store, clock: Clock, mirror: Mirror, row: ThreadRow, ephemeral: bool) -> Recorder {
        let total_usage = row.inherited_usage;
        Recorder {
            store,
            clock,
            mirror,
            row,
            ephemeral,
            materialized: false,
            memory: Vec::new(),
            memory_lines: 0,
            is_ended: false,
            next_ordinal: 0,
            context: Some(Vec::new()),
            total_usage,
            window_number: 0,
            fence: None,
            context_tokens: None,
        }
    }

    /// For a stored thread.
    pub fn stored(
        store: Store,
        clock: Clock,
        mirror: Mirror,
        row: ThreadRow,
        total_usage: TokenCounts,
    ) -> Recorder {
        let next_ordinal = row.journal_lines as u64;
        Recorder {
            materialized: true,
            context: None,
            total_usage,
            next_ordinal,
            ..Recorder::new(store, clock, mirror, row, false)
        }
    }

    /// For an ephemeral thread that begins with another's history.
    pub fn ephemeral_fork(
        store: Store,
        clock: Clock,
        mirror: Mirror,
        row: ThreadRow,
        history: Vec<u8>,
    ) -> Recorder {
        let lines = read::lines(&history).count() as i64;
        Recorder {
            memory: history,
            memory_lines: lines,
            context: None,
            ..Recorder::new(store, clock, mirror, row, true)
        }
    }

    /// The thread's row, as of the last change.
    pub fn row(&self) -> &ThreadRow {
        &self.row
    }

    /// Number of the context window, for the model's headers.
    pub fn window_number(&self) -> u64 {
        self.window_number
    }

    // Turns -------------------------------------------------------------------------------------------------------

    /// Record the start of a turn: the context the model has not been told of, and the user's message.
    ///
    /// # Errors
    /// Another process runs a turn on the thread, or the store failed; nothing is recorded then.
    pub async fn start_turn(&mut self, seed: TurnSeed) -> Result<Started> {
        let now_ms = self.clock.now_ms();
        let TurnSeed {
            turn_id,
            root_turn_id,
            message,
            content,
            instructions,
            first_item,
            trigger,
            queued,
            goal,
            mut settings,
        } = seed;
        let today = self.clock.today();
        let (context, told) = prompt::context_messages(&settings, instructions.as_deref(), &today);
        settings.told = told;
        if !self.materialized && self.row.git_sha.is_none() && self.row.git_branch.is_none() {
            self.take_git_info(&settings.cwd);
        }
        let root = root_turn_id.clone().unwrap_or_else(|| turn_id.clone());
        let turn = TurnRow {
            turn_id: turn_id.clone(),
            root_turn_id: Some(root.clone()),
            status: "inProgress".to_owned(),
            started_at_ms: Some(now_ms),
            client_user_message_id: message.client_id.clone(),
            ..TurnRow::default()
        };
        let user_item = (!message.content.is_empty()).then(|| user_item(&self.clock, &message, now_ms));
        let window = self.row.model_context_window;
        let outcome = self
            .record(|draft, this| {
                let mut started = json!({
                    "type": "task_started", "turn_id": turn_id, "root_turn_id": root, "started_at": now_ms / 1000,
                    "model_context_window": window, "collaboration_mode_kind": settings.mode,
                });
                if let Some(trigger) = &trigger {
                    started["turn_attribution"] = json!({"turn_trigger": trigger});
                }
                draft.lines.event(&started);
                draft.append.take_queued.clone_from(&queued);
                draft.append.goal = goal.as_ref().map(|goal| goal.charge.clone());
                for item in &context {
                    this.push_item(draft, item);
                }
                draft.lines.record("turn_context", &turn_context(&turn_id, &root, &settings));
                draft.lines.event(&settings_applied(&this.row.thread_id, &settings));
                if let Some(wire) = &first_item {
                    this.push_wire_item(draft, &turn_id, wire);
                }
                if let Some(wire) = &user_item {
                    if !content.is_empty() {
                        this.push_item(draft, &json!({"type": "message", "role": "user", "content": content}));
                    }
                    this.push_wire_item(draft, &turn_id, wire);
                }
                for item in goal.iter().flat_map(|goal| &goal.items) {
                    this.push_item(draft, item);
                }
                draft.append.turns.push(turn.clone());
                draft.append.lease = LeaseChange::Claim { turn_id: turn_id.clone() };
                draft.append.patch = ThreadPatch {
                    preview_if_empty: this.wants_preview().then(|| message.preview()).filter(|text| !text.is_empty()),
                    model_provider: Some(settings.model_provider.clone()),
                    model: Some(Some(settings.model.clone())),
                    reasoning_effort: Some(settings.effort.clone()),
                    cwd: Some(settings.cwd.clone()),
                    settings_json: Some(settings.to_json()),
                    updated_at_ms: Some(now_ms),
                    recency_at_ms: Some(now_ms),
                    ..ThreadPatch::default()
                };
            })
            .await;
        outcome?;
        let turn = view::turn(&TurnRow { started_at_ms: None, ..turn }, Vec::new(), TurnItemsView::NotLoaded);
        let user_item = user_item.map(|wire| whole_item(&wire, now_ms));
        Ok(Started { turn, started_at_ms: now_ms, user_item, settings, row: self.row.clone() })
    }

    /// Record a message that joins a running turn.
    ///
    /// # Errors
    /// The store failed.
    pub async fn steer(
        &mut self,
        turn: &TurnRow,
        message: &UserMessage,
        settings: &Settings,
    ) -> Result<WholeItem> {
        let now_ms = self.clock.now_ms();
        let content = input::to_model(&message.content, &settings.cwd);
        let wire = user_item(&self.clock, message, now_ms);
        self.record(|draft, this| {
            this.push_item(draft, &json!({"type": "message", "role": "user", "content": content}));
            this.push_wire_item(draft, &turn.turn_id, &wire);
            draft.append.turns.push(TurnRow { client_user_message_id: None, ..turn.clone() });
            draft.append.patch.preview_if_empty =
                this.wants_preview().then(|| message.preview()).filter(|text| !text.is_empty());
        })
        .await?;
        Ok(whole_item(&wire, now_ms))
    }

    /// Record model items, and an item of the wire that they make, of a running turn.
    ///
    /// # Errors
    /// The store failed.
    pub async fn items(&mut self, turn_id: &str, model_items: &[Value], wire: Option<&Value>) -> Result<()> {
        self.record(|draft, this| {
            if let Some(wire) = wire {
                this.push_wire_item(draft, turn_id, wire);
            }
            for item in model_items {
                this.push_item(draft, item);
            }
        })
        .await
        .map(drop)
    }

    /// Record what is left of a response: a message that came with its end (as the model has it and as clients see it),
    /// the outputs of its calls, its tokens, and with it, if it was the last, the end of the turn.
    /// Returns the new totals.
    ///
    /// # Errors
    /// The store failed.
    pub async fn response_done(
        &mut self,
        turn_id: &str,
        last_item: Option<(&Value, &Value)>,
        outputs: &[Value],
        usage: Option<&ResponseUsage>,
        end: Option<&TurnEnd>,
        charge: Option<GoalCharge>,
    ) -> Result<(TokenCounts, Option<GoalRow>)> {
        let now_ms = self.clock.now_ms();
        let appended = self
            .record(|draft, this| {
                draft.append.goal.clone_from(&charge);
                if let Some((model_item, wire)) = last_item {
                    this.push_wire_item(draft, turn_id, wire);
                    this.push_item(draft, model_item);
                }
                for output in outputs {
                    this.push_item(draft, output);
                }
                if let Some(usage) = usage {
                    this.push_usage(draft, turn_id, usage, now_ms);
                }
                if let Some(end) = end {
                    this.push_end(draft, end, now_ms);
                }
            })
            .await?;
        if let Some(usage) = usage {
            if usage.is_of_context {
                self.context_tokens = Some(usage.tokens.total);
            }
            self.total_usage =
                if self.ephemeral { self.total_usage + usage.tokens } else { appended.total_usage };
        }
        if let Some(end) = end {
            if end.status == TurnStatus::Interrupted {
                // Calls that were cut are given an output when the context is read again.
                self.context = None;
            }
            self.settle();
        }
        Ok((self.total_usage, appended.goal))
    }

    /// The turn that a client's message id started, with the content of that message.
    ///
    /// # Errors
    /// The store failed.
    pub async fn turn_of_client_message(&self, client_id: &str) -> Result<Option<(TurnRow, Value)>> {
        if !self.materialized {
            return Ok(None);
        }
        let thread_id = &self.row.thread_id;
        let Some(turn) = self.store.turn_of_client_message(thread_id, client_id).await? else {
            return Ok(None);
        };
        let items = self.store.items_of_turns(turn.place, turn.place).await?;
        let content = items
            .iter()
            .filter_map(|item| serde_json::from_str::<Value>(&item.row.json).ok())
            .find(|item| item["clientId"] == client_id)
            .map(|item| item["content"].clone());
        Ok(Some((turn.row, content.unwrap_or(Value::Null))))
    }

    /// The model context for the next request.
    ///
    /// # Errors
    /// The store failed.
    pub async fn context(&mut self) -> Result<Vec<Arc<RawValue>>> {
        if let Some(context) = &self.context {
            return Ok(context.clone());
        }
        let gathered = self.gather().await?;
        self.window_number = gathered.window_number();
        let context: Vec<Arc<RawValue>> = gathered.finish().into_iter().map(Arc::from).collect();
        self.context = Some(context.clone());
        Ok(context)
    }

    /// Read the past from the last compaction on.
    async fn gather(&self) -> Result<Context> {
        let mut line = if self.materialized { self.row.context_from_line } else { 0 };
        let mut gathered = Context::starting_at(line);
        if !self.materialized {
            feed(&mut gathered, read::lines(&self.memory));
            return Ok(gathered);
        }
        self.offer_kept(line, &mut gathered).await?;
        loop {
            let runs = self.store.journal_from_line(&self.row.thread_id, line, RUNS_AT_A_TIME).await?;
            let Some(last) = runs.last() else { return Ok(gathered) };
            let next = last.first_line + read::lines(&last.bytes).count() as i64;
            for run in &runs {
                let skip = usize::try_from(line - run.first_line).unwrap_or(0);
                feed(&mut gathered, read::lines(&run.bytes).skip(skip));
            }
            line = next;
        }
    }

    /// The messages that the compaction at `line` keeps stand before it.
    async fn offer_kept(&self, line: i64, gathered: &mut Context) -> Result<()> {
        let Some(bytes) = self.journal_line(line).await? else { return Ok(()) };
        let Parsed::Line(first) = parse(read::content(&bytes)) else { return Ok(()) };
        let Record::Compacted(compacted) = &first.record else { return Ok(()) };
        for number in compacted.kept_lines_back.iter().map(|back| line - back) {
            let Some(bytes) = self.journal_line(number).await? else { continue };
            if let Parsed::Line(kept) = parse(read::content(&bytes)) {
                gathered.offer(number, &kept);
            }
        }
        Ok(())
    }

    /// The bytes of one line of the journal.
    async fn journal_line(&self, number: i64) -> Result<Option<Vec<u8>>> {
        if number < 0 {
            return Ok(None);
        }
        let runs = self.store.journal_from_line(&self.row.thread_id, number, 1).await?;
        let Some(run) = runs.first() else { return Ok(None) };
        let skip = usize::try_from(number - run.first_line).unwrap_or(0);
        Ok(read::lines(&run.bytes).nth(skip).map(<[u8]>::to_vec))
    }

    // Compaction --------------------------------------------------------------------------------------------------

    /// What the user said that a compaction may keep, with the numbers of the lines.
    ///
    /// # Errors
    /// The store failed.
    pub async fn said(&self) -> Result<Vec<(i64, Box<RawValue>)>> {
        Ok(self.gather().await?.said().to_vec())
    }

    /// How many tokens the model's context takes up: as the last response said, or about so many.
    ///
    /// # Errors
    /// The store failed.
    pub async fn context_size(&mut self) -> Result<i64> {
        match self.context_tokens {
            Some(tokens) => Ok(tokens),
            None if self.materialized => {
                let estimate = self.estimate().await?;
                self.context_tokens = Some(estimate);
                Ok(estimate)
            }
            None => Ok(0),
        }
    }

    async fn estimate(&mut self) -> Result<i64> {
        let tokens: usize = self.context().await?.iter().map(|item| compaction::tokens_of(item.get())).sum();
        Ok(i64::try_from(tokens).unwrap_or(i64::MAX))
    }

    /// How many tokens the model's context takes up, as far as is known; `None` until a response or an estimate.
    pub fn context_tokens(&self) -> Option<i64> {
        self.context_tokens
    }

    /// Record a compaction: the model's context starts anew with it. Returns the new totals.
    ///
    /// # Errors
    /// The store failed.
    pub async fn compacted(
        &mut self,
        turn_id: &str,
        compaction: &Compaction<'_>,
    ) -> Result<(TokenCounts, Option<GoalRow>)> {
        let now_ms = self.clock.now_ms();
        let window_number = self.window_number + 1;
        let outcome = self
            .record(|draft, this| {
                let at = this.draft_line(draft);
                let back: Vec<i64> = compaction.kept.iter().map(|line| at - line).collect();
                draft.append.context_restart = Some(draft.lines.count());
                // The objective was in the context that goes.
                draft.append.goal = compaction
                    .charge
                    .clone()
                    .map(|charge| GoalCharge { objective_told: Some(false), ..charge });
                draft.lines.record(
                    "compacted",
                    &json!({"message": compaction.summary, "kept_lines_back": back, "window_number": window_number}),
                );
                for item in compaction.context {
                    this.push_item(draft, item);
                }
                this.push_wire_item(draft, turn_id, compaction.wire);
                if let Some(usage) = compaction.usage {
                    this.push_usage(draft, turn_id, usage, now_ms);
                }
                if let Some(end) = compaction.end {
                    this.push_end(draft, end, now_ms);
                }
            })
            .await?;
        self.window_number = window_number;
        self.context = None;
        if let Some(usage) = compaction.usage {
            self.total_usage =
                if self.ephemeral { self.total_usage + usage.tokens } else { outcome.total_usage };
        }
        // It is recorded; a size that cannot be told now is estimated when it is asked for.
        self.context_tokens = self.estimate().await.ok();
        Ok((self.total_usage, outcome.goal))
    }

    /// The number that the next line of a draft will have.
    fn draft_line(&self, draft: &Draft) -> i64 {
        let before = if self.materialized { self.row.journal_lines } else { self.memory_lines };
        before + draft.lines.count()
    }

    // Other changes -----------------------------------------------------------------------------------------------

    /// `thread/inject_items`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn inject(&mut self, items: &[Value]) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let push = |draft: &mut Draft, this: &Recorder| {
            for item in items {
                this.push_item(draft, item);
            }
            draft.append.patch.updated_at_ms = Some(now_ms);
        };
        if self.materialized || self.ephemeral {
            self.record(push).await.map(drop)
        } else {
            self.remember(push);
            Ok(())
        }
    }

    /// The settings have changed without a turn.
    ///
    /// # Errors
    /// The store failed.
    pub async fn settings_changed(&mut self, settings: &Settings) -> Result<()> {
        if !self.materialized {
            self.row.settings_json = settings.to_json();
            return Ok(());
        }
        self.record(|draft, this| {
            draft.lines.event(&settings_applied(&this.row.thread_id, settings));
            draft.append.patch = ThreadPatch {
                settings_json: Some(settings.to_json()),
                model: Some(Some(settings.model.clone())),
                reasoning_effort: Some(settings.effort.clone()),
                cwd: Some(settings.cwd.clone()),
                ..ThreadPatch::default()
            };
        })
        .await
        .map(drop)
    }

    /// Make a thread durable that is not yet, and record an event line with it or after it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn event(&mut self, event: Option<&Value>, patch: ThreadPatch) -> Result<()> {
        self.record(|draft, _| {
            if let Some(event) = event {
                draft.lines.event(event);
            }
            draft.append.patch = patch.clone();
        })
        .await
        .map(drop)
    }

    /// Whether the thread is stored.
    pub fn is_materialized(&self) -> bool {
        self.materialized
    }

    /// A turn is over, whether its end could be recorded or not.
    pub fn turn_is_over(&mut self) {
        self.fence = None;
    }

    /// Change members of the row; a thread that is not stored yet is stored with it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn patch(&mut self, patch: ThreadPatch) -> Result<()> {
        self.record(|draft, _| draft.append.patch = patch.clone()).await.map(drop)
    }

    // Recording ---------------------------------------------------------------------------------------------------

    /// Record what `fill` puts into a draft: lines, rows and context together.
    async fn record(&mut self, fill: impl Fn(&mut Draft, &Recorder)) -> Result<Appended> {
        if self.ephemeral {
            self.remember(fill);
            return Ok(Appended::default());
        }
        loop {
            let mut draft = self.draft();
            if !self.materialized {
                self.push_meta(&mut draft);
            }
            fill(&mut draft, self);
            let draft = self.with_memory(draft);
            let mut append = draft.append;
            let (mut bytes, mut count) = draft.lines.finish();
            if !bytes.is_empty() && !self.ends_with_a_line().await? {
                // It becomes an empty line, so that none runs into the one that was cut.
                bytes.insert(0, b'\n');
                count += 1;
                append.context_restart = append.context_restart.map(|line| line + 1);
            }
            place_turns(&mut append, self.row.journal_lines, count);
            append.lines = Lines { bytes, count };
            let patch = append.patch.clone();
            let mirrored = append.lines.bytes.clone();
            let claims = matches!(append.lease, LeaseChange::Claim { .. });
            let releases = append.lease == LeaseChange::Release;
            append.expected_fence = self.fence.filter(|_| !claims);
            match self.store.append(append).await {
                Ok(appended) => {
                    // A failed release leaves the fence up: what the turn still tries is refused as well.
                    self.fence = appended.fence.or(self.fence).filter(|_| !releases);
                    self.is_ended |= count > 0;
                    self.take_over(&appended, &patch, draft.context, count);
                    self.mirror.append(&self.row, appended.bytes.start, mirrored);
                    return Ok(appended);
                }
                Err(StoreError::JournalMoved(_)) => self.reload().await?,
                Err(error @ (StoreError::LeaseHeld { .. } | StoreError::LeaseLost { .. })) => {
                    return Err(RuntimeError::Invalid(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn ends_with_a_line(&self) -> Result<bool> {
        if self.is_ended || !self.materialized || self.row.journal_bytes == 0 {
            return Ok(true);
        }
        let last = self.row.journal_bytes - 1;
        Ok(self.store.journal_from_byte(&self.row.thread_id, last, 1).await?.ends_with(b"\n"))
    }

    /// Keep in memory what cannot be stored.
    fn remember(&mut self, fill: impl Fn(&mut Draft, &Recorder)) {
        let mut draft = self.draft();
        fill(&mut draft, self);
        let patch = draft.append.patch.clone();
        let context = draft.context;
        let (bytes, count) = draft.lines.finish();
        self.memory.extend_from_slice(&bytes);
        self.memory_lines += count;
        self.patch_row(&patch);
        if let Some(kept) = &mut self.context {
            kept.extend(context);
        }
    }

    fn draft(&self) -> Draft {
        let form = Form::from_word(&self.row.history_mode);
        Draft {
            lines: LineWriter::new(form, self.next_ordinal, self.clock.now_ms()),
            append: Append {
                thread_id: self.row.thread_id.clone(),
                expected_lines: self.materialized.then_some(self.row.journal_lines),
                ..Append::default()
            },
            context: Vec::new(),
        }
    }

    /// The lines kept so far come between the metadata and the new ones.
    fn with_memory(&self, mut draft: Draft) -> Draft {
        if !self.materialized && self.memory_lines > 0 {
            let form = draft.lines.form();
            let (bytes, _) = draft.lines.finish();
            let mut all = LineWriter::new(form, 0, self.clock.now_ms());
            let mut lines = read::lines(&bytes);
            let head: Vec<&[u8]> = lines.by_ref().take(1).collect();
            for line in head.into_iter().chain(read::lines(&self.memory)).chain(lines) {
                if let Ok(value) = serde_json::from_slice::<Value>(line) {
                    all.record(value["type"].as_str().unwrap_or_default(), &value["payload"]);
                }
            }
            draft.lines = all;
        }
        draft
    }

    /// Whether the thread has no preview yet.
    fn wants_preview(&self) -> bool {
        self.row.preview.is_empty()
    }

    fn push_meta(&self, draft: &mut Draft) {
        draft.lines.record("session_meta", &session_meta(&self.row));
        draft.append.create = Some(Box::new(self.row.clone()));
    }

    fn push_item(&self, draft: &mut Draft, item: &Value) {
        let item_has_no_id = item.get("id").is_none();
        let mut item = item.clone();
        let prefix = item["type"].as_str().and_then(id_prefix);
        if let (Some(prefix), Some(object), true) = (prefix, item.as_object_mut(), item_has_no_id) {
            object.insert("id".to_owned(), json!(format!("{prefix}{}", self.clock.new_id())));
        }
        draft.lines.response_item(&item);
        if let Ok(raw) = serde_json::value::to_raw_value(&item)
            && let Some(input) = context::to_input(&raw)
        {
            draft.context.push(input.into());
        }
    }

    fn push_wire_item(&self, draft: &mut Draft, turn_id: &str, wire: &Value) {
        draft.lines.item(&self.row.thread_id, turn_id, wire);
        draft.append.items.push(ItemRow::of_wire(turn_id.to_owned(), wire));
    }

    fn push_usage(&self, draft: &mut Draft, turn_id: &str, usage: &ResponseUsage, now_ms: i64) {
        let total = self.total_usage + usage.tokens;
        draft.lines.token_usage(&TokenUsageLines {
            thread_id: &self.row.thread_id,
            session_id: &self.row.session_id,
            turn_id,
            response_id: Some(&usage.response_id),
            last: to_line(usage.tokens),
            turn: to_line(usage.turn_tokens),
            total: to_line(total),
            model_context_window: Some(usage.window),
        });
        draft.append.usage.push(UsageRow {
            turn_id: turn_id.to_owned(),
            response_id: usage.response_id.clone(),
            model: Some(usage.model.clone()),
            model_provider: Some(usage.model_provider.clone()),
            goal_id: draft.append.goal.as_ref().map(|charge| charge.goal_id.clone()),
            at_ms: now_ms,
            tokens: usage.tokens,
            model_context_window: Some(usage.window),
        });
        draft.append.patch.model_context_window = Some(usage.window);
    }

    fn push_end(&self, draft: &mut Draft, end: &TurnEnd, now_ms: i64) {
        let duration_ms = now_ms - end.started_at_ms;
        let root = end.root_turn_id.clone().unwrap_or_else(|| end.turn_id.clone());
        let (started_at, completed_at) = (end.started_at_ms / 1000, now_ms / 1000);
        if end.status == TurnStatus::Interrupted {
            let marker = json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": prompt::TURN_ABORTED}]});
            self.push_item(draft, &marker);
            draft.lines.event(&json!({
                "type": "turn_aborted", "root_turn_id": root, "turn_id": end.turn_id, "reason": "interrupted",
                "started_at": started_at, "completed_at": completed_at, "duration_ms": duration_ms,
            }));
        } else {
            let mut event = json!({
                "type": "task_complete", "root_turn_id": root, "turn_id": end.turn_id,
                "last_agent_message": end.last_message, "started_at": started_at, "completed_at": completed_at,
                "duration_ms": duration_ms,
            });
            if let Some(error) = &end.error {
                event["error"] =
                    json!({"message": error["message"], "codex_error_info": error["codexErrorInfo"]});
            }
            draft.lines.event(&event);
        }
        draft.append.turns.push(TurnRow {
            turn_id: end.turn_id.clone(),
            root_turn_id: end.root_turn_id.clone(),
            status: view::status_word(end.status).to_owned(),
            error_json: end.error.as_ref().map(Value::to_string),
            started_at_ms: Some(end.started_at_ms),
            completed_at_ms: Some(now_ms),
            duration_ms: Some(duration_ms),
            ..TurnRow::default()
        });
        draft.append.lease = LeaseChange::Release;
        draft.append.patch.updated_at_ms = Some(now_ms);
    }

    /// The change is stored: take over what it did to the row and the context.
    fn take_over(
        &mut self,
        appended: &Appended,
        patch: &ThreadPatch,
        context: Vec<Arc<RawValue>>,
        count: i64,
    ) {
        if !self.materialized {
            self.materialized = true;
            self.memory = Vec::new();
            self.memory_lines = 0;
        }
        self.row.journal_lines = appended.lines.end;
        self.row.journal_bytes = appended.bytes.end;
        self.next_ordinal += count as u64;
        self.patch_row(patch);
        if let Some(kept) = &mut self.context {
            kept.extend(context);
        }
    }

    fn patch_row(&mut self, patch: &ThreadPatch) {
        let row = &mut self.row;
        if let (Some(preview), true) = (&patch.preview_if_empty, row.preview.is_empty()) {
            row.preview.clone_from(preview);
        }
        let set = |into: &mut Option<String>, from: &Option<Option<String>>| {
            if let Some(value) = from {
                into.clone_from(value);
            }
        };
        set(&mut row.name, &patch.name);
        set(&mut row.model, &patch.model);
        set(&mut row.reasoning_effort, &patch.reasoning_effort);
        set(&mut row.git_sha, &patch.git_sha);
        set(&mut row.git_branch, &patch.git_branch);
        set(&mut row.git_origin_url, &patch.git_origin_url);
        set(&mut row.rollout_path, &patch.rollout_path);
        row.model_provider = patch.model_provider.clone().unwrap_or_else(|| row.model_provider.clone());
        row.cwd = patch.cwd.clone().unwrap_or_else(|| row.cwd.clone());
        row.settings_json = patch.settings_json.clone().unwrap_or_else(|| row.settings_json.clone());
        row.updated_at_ms = patch.updated_at_ms.unwrap_or(row.updated_at_ms);
        row.recency_at_ms = patch.recency_at_ms.unwrap_or(row.recency_at_ms);
        row.model_context_window = patch.model_context_window.or(row.model_context_window);
        row.archived_at_ms = patch.archived_at_ms.unwrap_or(row.archived_at_ms);
    }

    /// Another process has written: look again.
    async fn reload(&mut self) -> Result<()> {
        let thread_id = self.row.thread_id.clone();
        let Some(row) = self.store.thread(&thread_id).await? else {
            return Err(RuntimeError::thread_not_found(&thread_id));
        };
        self.total_usage =
            self.store.last_usage(&thread_id).await?.map_or(row.inherited_usage, |usage| usage.total);
        self.next_ordinal = row.journal_lines as u64;
        self.row = row;
        self.context = None;
        self.is_ended = false;
        Ok(())
    }

    /// A turn is over: a large context is read again when it is needed, so that idle threads stay small.
    fn settle(&mut self) {
        let size: usize = self.context.iter().flatten().map(|item| item.get().len()).sum();
        if size > KEPT_CONTEXT_BYTES && !self.ephemeral {
            self.context = None;
        }
    }

    fn take_git_info(&mut self, cwd: &str) {
        if let Some(info) = git::info(std::path::Path::new(cwd)) {
            self.row.git_sha = info.sha;
            self.row.git_branch = info.branch;
            self.row.git_origin_url = info.origin_url;
        }
    }
}

fn feed<'a>(gathered: &mut Context, lines: impl Iterator<Item = &'a [u8]>) {
    for line in lines {
        match parse(read::content(line)) {
            Parsed::Line(line) => gathered.feed(&line),
            _ => gathered.skip(),
        }
    }
}

/// Turns span the lines of the appends that touch them.
fn place_turns(append: &mut Append, first_line: i64, count: i64) {
    for turn in &mut append.turns {
        turn.first_line = first_line;
        turn.end_line = first_line + count;
    }
}

fn user_item(clock: &Clock, message: &UserMessage, now_ms: i64) -> Value {
    json!({
        "type": "userMessage", "id": clock.new_id().to_string(), "clientId": message.client_id,
        "content": input::content_to_json(&message.content), "startedAtMs": now_ms, "completedAtMs": now_ms,
    })
}

/// An item that is whole at once, with both its moments.
pub fn whole_item(wire: &Value, at_ms: i64) -> WholeItem {
    let mut started = wire.clone();
    started["completedAtMs"] = Value::Null;
    WholeItem { started: view::raw(&started), completed: view::raw(wire), at_ms }
}

fn id_prefix(kind: &str) -> Option<&'static str> {
    match kind {
        "message" => Some("msg_"),
        "reasoning" => Some("rs_"),
        "function_call" => Some("fc_"),
        "function_call_output" => Some("fco_"),
        "custom_tool_call" => Some("ctc_"),
        "custom_tool_call_output" => Some("ctco_"),
        _ => None,
    }
}

/// The first line of a thread's file.
pub fn session_meta(row: &ThreadRow) -> Value {
    let settings: Value = serde_json::from_str(&row.settings_json).unwrap_or_default();
    let mut meta = json!({
        "session_id": row.session_id, "id": row.thread_id,
        "timestamp": crate::rollout::write::rfc3339(row.created_at_ms), "cwd": row.cwd,
        "originator": row.originator.as_deref().unwrap_or("threadkeep"), "cli_version": row.cli_version,
        "source": source_to_line(&row.source_json), "model_provider": row.model_provider,
        "history_mode": row.history_mode,
        "base_instructions": {"text": settings["base_instructions"].as_str().unwrap_or(prompt::BASE_INSTRUCTIONS)},
    });
    if let Some(source) = &row.thread_source {
        meta["thread_source"] = json!(source);
    }
    if let Some(parent) = &row.forked_from_id {
        meta["forked_from_id"] = json!(parent);
    }
    if row.git_sha.is_some() || row.git_branch.is_some() {
        meta["git"] = json!({"commit_hash": row.git_sha, "branch": row.git_branch, "repository_url": row.git_origin_url});
    }
    meta
}

/// `SessionSource` of the wire as lines have it.
fn source_to_line(source_json: &str) -> Value {
    let source: Value = serde_json::from_str(source_json).unwrap_or_default();
    match source.get("subAgent") {
        Some(sub_agent) => json!({"subagent": sub_agent}),
        None if source == "appServer" => json!("mcp"),
        None => source,
    }
}

fn turn_context(turn_id: &str, root_turn_id: &str, settings: &Settings) -> Value {
    let mut context = json!({
        "turn_id": turn_id, "root_turn_id": root_turn_id, "cwd": settings.cwd,
        "approval_policy": settings.approval_policy, "approvals_reviewer": settings.approvals_reviewer,
        "sandbox_policy": sandbox_to_line(settings), "model": settings.model,
        "collaboration_mode": settings.collaboration_mode(), "realtime_active": false,
        "summary": settings.summary.map_or_else(|| json!("auto"), |summary| json!(summary)),
        "disabled_plugin_ids": settings.disabled_plugin_ids,
    });
    if let Some(effort) = &settings.effort {
        context["effort"] = json!(effort);
    }
    context
}

fn settings_applied(thread_id: &str, settings: &Settings) -> Value {
    json!({
        "type": "thread_settings_applied", "thread_id": thread_id,
        "thread_settings": {
            "model": settings.model, "model_provider_id": settings.model_provider,
            "service_tier": settings.service_tier, "approval_policy": settings.approval_policy,
            "approvals_reviewer": settings.approvals_reviewer, "permission_profile": {"type": "disabled"},
            "sandbox_policy": sandbox_to_line(settings), "cwd": settings.cwd,
            "runtime_workspace_roots": settings.workspace_roots, "reasoning_effort": settings.effort,
            "collaboration_mode": settings.collaboration_mode(), "personality": settings.personality,
            "disabled_plugin_ids": settings.disabled_plugin_ids,
        },
    })
}

fn sandbox_to_line(settings: &Settings) -> Value {
    use crate::protocol::settings::SandboxPolicy;
    match &settings.sandbox_policy {
        SandboxPolicy::ReadOnly { network_access } => {
            json!({"type": "read-only", "network_access": network_access})
        }
        SandboxPolicy::WorkspaceWrite {
            writable_roots,
            network_access,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
        } => json!({
            "type": "workspace-write", "writable_roots": writable_roots, "network_access": network_access,
            "exclude_tmpdir_env_var": exclude_tmpdir_env_var, "exclude_slash_tmp": exclude_slash_tmp,
        }),
        SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => {
            json!({"type": "danger-full-access"})
        }
    }
}

fn to_line(counts: TokenCounts) -> Tokens {
    Tokens {
        input_tokens: counts.input,
        cached_input_tokens: counts.cached_input,
        cache_write_input_tokens: counts.cache_write_input,
        output_tokens: counts.output,
        reasoning_output_tokens: counts.reasoning_output,
        total_tokens: counts.total,
    }
}
