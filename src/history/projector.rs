//! The incremental reducer: lines in, changes out.

use std::borrow::Cow;
use std::collections::BTreeSet;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::Facts;
use super::turns::Turns;
use super::{bare, legacy, paginated};
use crate::rollout::line::{Event, Line, Record, SessionMeta, TokenInfo, Tokens};

/// Something to store.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A turn, new or changed, by its id.
    Turn(TurnState),
    /// An item as the wire has it, new or replaced by its id, of this turn.
    Item {
        /// The turn.
        turn_id: String,
        /// The item.
        item: Value,
    },
    /// These turns were rolled back.
    DropTurns(Vec<String>),
    /// A model response's tokens.
    Usage(UsageChange),
    /// The model context starts anew at this line.
    ContextRestart(i64),
}

/// A turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnState {
    /// Its id.
    pub turn_id: String,
    /// `rootTurnId`.
    pub root_turn_id: Option<String>,
    /// `inProgress`, `completed`, `interrupted` or `failed`.
    pub status: String,
    /// `TurnError` as the wire has it.
    pub error: Option<Value>,
    /// Unix milliseconds.
    pub started_at_ms: Option<i64>,
    /// Unix milliseconds.
    pub completed_at_ms: Option<i64>,
    /// Milliseconds.
    pub duration_ms: Option<i64>,
    /// Its first line.
    pub first_line: i64,
    /// The line after its last so far.
    pub end_line: i64,
    /// Whether it was announced by an event of its own.
    pub explicit: bool,
    /// How many items it has.
    pub items: usize,
    /// Whether a compaction keeps it though it is empty.
    pub compaction: bool,
    /// Whether a user's message is in it: such turns are counted when turns are rolled back.
    pub has_user: bool,
    /// Whether its lines were copied from another thread.
    pub inherited: bool,
}

/// A model response's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageChange {
    /// The turn.
    pub turn_id: String,
    /// Unique within the thread.
    pub response_id: String,
    /// The tokens.
    pub tokens: Tokens,
    /// When, RFC 3339.
    pub at: Option<String>,
    /// Model of the turn, as far as known.
    pub model: Option<String>,
    /// Provider of the thread.
    pub model_provider: Option<String>,
    /// The model's context window.
    pub model_context_window: Option<i64>,
}

/// The reducer. Its state can be stored between lines.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Projector {
    pub(super) facts: Facts,
    pub(super) turns: Turns,
    /// Index of the open turn.
    pub(super) open: Option<usize>,
    /// Items that were numbered so far, in the legacy form.
    pub(super) numbered: usize,
    /// Lines that were understood so far.
    pub(super) parsed: usize,
    /// The last item of the open turn, when it is reasoning: more may be added to it.
    #[serde(alias = "last_item")]
    pub(super) last_reasoning: Option<Value>,
    /// Totals seen so far: a count that comes again is no new response.
    seen_totals: BTreeSet<[i64; 5]>,
    has_meta: bool,
    /// Lines without a wrapper stand among others; they tell nothing that the others don't.
    is_wrapped: bool,
    /// Lines before this ordinal are a parent's, and not shown.
    own_from: Option<u64>,
    /// Lines copied from a parent are still going on.
    pub(super) inheriting: bool,
    /// Lines of a parent were copied.
    is_copy: bool,
    /// Turn ids tell by their time where the copy ends; before there were such, the time between lines does.
    has_timed_turns: bool,
    /// When the last line was written, while lines are copied.
    last_line_ms: Option<i64>,
    /// A response that was recorded by itself: the token count that follows repeats it.
    recorded: Option<Tokens>,
    /// Events told of users' messages; items that do the same are repetitions then.
    pub(super) has_user_events: bool,
    /// Turns of other threads that were echoed here.
    pub(super) foreign_turns: BTreeSet<String>,
    pub(super) bare: bare::State,
    /// Turns that were shown at the end of the lines so far, and are made anew when there are more.
    provisional: Vec<String>,
    /// What is known of the thread with them.
    #[serde(skip)]
    shown: Option<Box<Facts>>,
}

impl Projector {
    /// Before the first line.
    pub fn new() -> Projector {
        Projector::default()
    }

    /// Before the first line of a thread that begins with lines of another: this is its own metadata.
    pub fn of_fork(meta: &SessionMeta) -> Projector {
        let mut projector = Projector::new();
        projector.on_meta(meta);
        projector
    }

    /// What is known of the thread so far.
    pub fn facts(&self) -> &Facts {
        self.shown.as_deref().unwrap_or(&self.facts)
    }

    /// How many turns there are now.
    pub fn turn_count(&self) -> usize {
        self.turns.len() + self.provisional.len()
    }

    /// Whether any metadata was there.
    pub fn has_meta(&self) -> bool {
        self.has_meta
    }

    /// Whether any record was there. A file whose metadata is damaged is a thread's too; its name tells of which.
    pub fn has_records(&self) -> bool {
        self.has_meta || 0 < self.parsed
    }

    pub(super) fn is_paginated(&self) -> bool {
        self.facts.history_mode.as_deref() == Some("paginated")
    }

    /// Take a line, and an item out of it; `line_number` counts all lines of the file from 0.
    pub fn feed(&mut self, line: &mut Line<'_>, line_number: i64, changes: &mut Vec<Change>) {
        self.go_on(changes);
        if matches!(line.record, Record::Unknown) {
            return;
        }
        self.note_time(line);
        self.end_copy_by_time(line);
        if let Some(ordinal) = line.ordinal {
            self.note_ordinal(ordinal, changes);
        }
        let Line { timestamp, record, .. } = line;
        let timestamp = timestamp.as_deref();
        match record {
            Record::SessionMeta(meta) => {
                self.is_wrapped = true;
                self.on_meta(meta);
            }
            Record::BareMeta(meta) => self.on_meta(meta),
            Record::TurnContext(context) => self.facts.turn_context(context),
            Record::TokenUsage(record) => {
                self.seen_totals.insert(key(record.thread_token_usage));
                self.recorded = Some(record.usage);
                let foreign = record.thread_id.is_some() && record.thread_id != self.facts.thread_id;
                if !foreign && !self.inheriting {
                    let response_id =
                        record.response_id.clone().unwrap_or_else(|| total_key(record.thread_token_usage));
                    let turn_id = record.turn_id.clone().unwrap_or_else(|| self.latest_turn_id());
                    self.usage(timestamp, turn_id, response_id, record.usage, None, changes);
                }
            }
            Record::Event(event) => self.on_event(timestamp, event, line_number, changes),
            Record::Compacted(_) => {
                changes.push(Change::ContextRestart(line_number));
                if !self.is_paginated() {
                    legacy::compacted(self, line_number, changes);
                }
            }
            Record::BareItem(item) if !self.is_wrapped => bare::item(self, item, line_number, changes),
            Record::ResponseItem(item) | Record::BareItem(item) => {
                bare::response_item(self, item, line_number, changes);
            }
            Record::Session(meta, items) => {
                self.on_meta(meta);
                items.iter().for_each(|item| {
                    bare::item(self, item, line_number, changes);
                    self.parsed += 1;
                });
            }
            Record::Other | Record::Unknown => {}
        }
        self.parsed += usize::from(self.is_counted(record));
    }

    /// There are more lines after [`Projector::finish`]: what was shown of the end for the time being goes.
    pub fn go_on(&mut self, changes: &mut Vec<Change>) {
        self.shown = None;
        if !self.provisional.is_empty() {
            changes.push(Change::DropTurns(std::mem::take(&mut self.provisional)));
        }
    }

    /// What [`Projector::go_on`] of another one, at an earlier line of the same file, has to take back.
    pub fn take_over_shown(&mut self, from: &Projector) {
        self.provisional.clone_from(&from.provisional);
    }

    /// The end of the lines there are: turns that were not ended, and those of messages that no event has told of.
    /// Nothing of this is more than a view of the state, which more lines may follow.
    pub fn finish(&mut self, changes: &mut Vec<Change>) {
        self.go_on(changes);
        if bare::has_silent(self) {
            let mut shown = self.clone();
            bare::show_silent(&mut shown, changes);
            self.provisional = shown.turns.iter().map(|turn| turn.turn_id.clone()).collect();
            self.shown = Some(Box::new(shown.facts));
        }
        if let Some(turn) = self.open.and_then(|open| self.turns.get(open))
            && turn.status == "inProgress"
        {
            changes.push(Change::Turn(TurnState { status: "interrupted".to_owned(), ..turn.clone() }));
        }
    }

    fn note_time(&mut self, line: &Line<'_>) {
        if let Some(time) = line.timestamp.as_deref().and_then(in_utc)
            && self.facts.updated_at.as_deref().is_none_or(|latest| latest < time.as_ref())
        {
            self.facts.updated_at = Some(time.into_owned());
        }
    }

    fn note_ordinal(&mut self, ordinal: u64, changes: &mut Vec<Change>) {
        self.facts.next_ordinal = ordinal.saturating_add(1);
        if !self.has_meta && self.facts.history_mode.is_none() {
            // Only this form has ordinals; the line that says so may be damaged.
            self.facts.history_mode = Some("paginated".to_owned());
        }
        if self.own_from.is_some_and(|start| start <= ordinal) {
            self.own_from = None;
            self.inheriting = false;
            self.open = None;
            let dropped = self.turns.split_off(0);
            if !dropped.is_empty() {
                changes.push(Change::DropTurns(dropped.into_iter().map(|turn| turn.turn_id).collect()));
            }
        }
    }

    fn on_meta(&mut self, meta: &SessionMeta) {
        if !self.has_meta {
            self.has_meta = true;
            self.facts.meta(meta, true);
            // A fork of ours has its own metadata in the place of its source's, and then the source's lines.
            self.inheriting = meta.forked_from_id.is_some() && meta.history_base.is_none();
            self.is_copy = self.inheriting;
            self.own_from = meta.subagent_history_start_ordinal;
            self.inheriting |= self.own_from.is_some();
        } else if meta.id == self.facts.thread_id {
            self.facts.meta(meta, false);
            // Where lines are a base's and not a copy, the thread's own begin with its metadata.
            self.inheriting &= self.facts.history_base.is_none() || self.own_from.is_some();
        } else {
            // A legacy fork has copied its parent's lines, its metadata first.
            self.inheriting = true;
            self.is_copy = true;
        }
    }

    /// In 2025 no turn tells whose it is; copied lines were written at once, own ones after a while.
    fn end_copy_by_time(&mut self, line: &Line<'_>) {
        let is_known_otherwise =
            self.has_timed_turns || self.own_from.is_some() || self.facts.history_base.is_some();
        if !self.inheriting || is_known_otherwise {
            return;
        }
        let time = line.timestamp.as_deref().and_then(|time| DateTime::parse_from_rfc3339(time).ok());
        let Some(now_ms) = time.map(|time| time.timestamp_millis()) else { return };
        if self.last_line_ms.is_some_and(|before| now_ms - before >= COPY_GAP_MS) {
            self.inheriting = false;
        }
        self.last_line_ms = Some(now_ms);
    }

    fn on_event(
        &mut self,
        timestamp: Option<&str>,
        event: &mut Event,
        line_number: i64,
        changes: &mut Vec<Change>,
    ) {
        match event {
            Event::TokenCount { info } => {
                if let Some(info) = info {
                    self.token_count(timestamp, info, changes);
                }
                return;
            }
            Event::ThreadSettingsApplied { thread_settings } => {
                self.facts.settings_applied(thread_settings);
                return;
            }
            Event::ThreadGoalUpdated(goal) => {
                if self.facts.preview.is_empty()
                    && let Some(objective) = goal.pointer("/goal/objective").and_then(Value::as_str)
                {
                    self.facts.preview = objective.trim().to_owned();
                }
                return;
            }
            Event::TaskStarted { turn_id: Some(turn_id), model_context_window, .. } => {
                if self.is_copy
                    && self.own_from.is_none()
                    && let Some(began_ms) = millis_of(turn_id)
                {
                    self.has_timed_turns = true;
                    self.inheriting = !self.is_own_time(began_ms);
                }
                if model_context_window.is_some() {
                    self.facts.model_context_window = *model_context_window;
                }
            }
            _ => {}
        }
        bare::hide_silent(self, event, changes);
        if let Event::TaskComplete { turn_id: Some(turn_id), .. }
        | Event::TurnAborted { turn_id: Some(turn_id), .. } = event
        {
            if self.foreign_turns.contains(turn_id) {
                return;
            }
            self.begin_unannounced(turn_id, line_number);
        }
        if self.is_paginated() {
            paginated::event(self, event, line_number, changes);
        } else {
            legacy::event(self, event, line_number, changes);
        }
    }

    /// Whether a turn began after the fork was made.
    fn is_own_time(&self, began_ms: i64) -> bool {
        let made_ms = self.facts.thread_id.as_deref().and_then(millis_of).or_else(|| {
            let time = self.facts.created_at.as_deref()?;
            Some(DateTime::parse_from_rfc3339(time).ok()?.timestamp_millis())
        });
        made_ms.is_some_and(|made_ms| made_ms <= began_ms)
    }

    /// A turn that ends without having been announced, as a review's, is a turn of its own; it does not end the open
    /// one. Where the open one has no id of its own, it may be that one.
    pub(super) fn begin_unannounced(&mut self, turn_id: &str, line_number: i64) {
        let is_open_unnamed =
            self.open.and_then(|open| self.turns.get(open)).is_some_and(|turn| !turn.explicit);
        if is_open_unnamed || self.turns.position(turn_id).is_some() {
            return;
        }
        let status = "inProgress".to_owned();
        let turn =
            TurnState { turn_id: turn_id.to_owned(), status, explicit: true, ..self.new_turn(line_number) };
        self.turns.push(turn);
    }

    /// A turn that begins at this line.
    pub(super) fn new_turn(&self, line_number: i64) -> TurnState {
        TurnState { first_line: line_number, inherited: self.inheriting, ..TurnState::default() }
    }

    /// An item that names another thread is an echo of that thread's turn, and so is the turn.
    pub(super) fn is_foreign(
        &mut self,
        thread_id: Option<&str>,
        turn_id: Option<&str>,
        changes: &mut Vec<Change>,
    ) -> bool {
        let own_id = self.facts.thread_id.as_deref();
        let foreign =
            !self.inheriting && thread_id.zip(own_id).is_some_and(|(thread_id, own_id)| thread_id != own_id);
        if foreign
            && let Some(turn_id) = turn_id
            && let Some(at) = self.turns.position(turn_id).filter(|at| self.turns[*at].items == 0)
        {
            self.turns.remove(at);
            self.open = self.open.filter(|open| *open != at).map(|open| open - usize::from(at < open));
            self.foreign_turns.insert(turn_id.to_owned());
            changes.push(Change::DropTurns(vec![turn_id.to_owned()]));
        }
        foreign
    }

    fn token_count(&mut self, timestamp: Option<&str>, info: &TokenInfo, changes: &mut Vec<Change>) {
        self.facts.final_tokens = Some(info.total_token_usage);
        if info.model_context_window.is_some() {
            self.facts.model_context_window = info.model_context_window;
        }
        let repeats_record = self.recorded.take() == Some(info.last_token_usage);
        let is_new = self.seen_totals.insert(key(info.total_token_usage)) && !repeats_record;
        if self.inheriting {
            self.facts.inherited_tokens = info.total_token_usage;
        } else if is_new {
            let (turn_id, response_id) = (self.latest_turn_id(), total_key(info.total_token_usage));
            self.usage(
                timestamp,
                turn_id,
                response_id,
                info.last_token_usage,
                info.model_context_window,
                changes,
            );
        }
    }

    fn usage(
        &mut self,
        timestamp: Option<&str>,
        turn_id: String,
        response_id: String,
        tokens: Tokens,
        window: Option<i64>,
        changes: &mut Vec<Change>,
    ) {
        self.facts.add_tokens(tokens);
        changes.push(Change::Usage(UsageChange {
            turn_id,
            response_id,
            tokens,
            at: timestamp.map(str::to_owned),
            model: self.facts.model.clone(),
            model_provider: self.facts.model_provider.clone(),
            model_context_window: window.or(self.facts.model_context_window),
        }));
    }

    /// Whether the peer counts a line for the ids of turns that have none of their own: its parser knows only events
    /// that it writes itself, and refuses the settings of 2025, whose sandbox policy is tagged otherwise.
    fn is_counted(&self, record: &Record<'_>) -> bool {
        match record {
            Record::TurnContext(context) => {
                context.get("sandbox_policy").is_none_or(|policy| policy.get("type").is_some())
            }
            Record::Event(event) => !matches!(**event, Event::Other | Event::Error { .. }),
            Record::BareItem(_) => !self.is_wrapped,
            _ => true,
        }
    }

    fn latest_turn_id(&self) -> String {
        self.turns.last().map(|turn| turn.turn_id.clone()).unwrap_or_default()
    }

    /// Tell of a turn that was changed.
    pub(super) fn tell_turn(&mut self, index: usize, line_number: i64, changes: &mut Vec<Change>) {
        if let Some(turn) = self.turns.get_mut(index) {
            turn.end_line = line_number + 1;
            changes.push(Change::Turn(turn.clone()));
        }
    }
}

/// Copied lines were written within less than this of each other.
const COPY_GAP_MS: i64 = 1000;

/// A moment in the one form in which moments can be compared by their texts: RFC 3339 in UTC. `None` for other texts.
fn in_utc(timestamp: &str) -> Option<Cow<'_, str>> {
    let time = DateTime::parse_from_rfc3339(timestamp).ok()?;
    match timestamp.ends_with('Z') {
        true => Some(Cow::Borrowed(timestamp)),
        false => Some(Cow::Owned(time.to_utc().to_rfc3339_opts(SecondsFormat::Millis, true))),
    }
}

/// When an id was made, in Unix milliseconds, as those of version 7 tell.
pub fn millis_of(id: &str) -> Option<i64> {
    let id = uuid::Uuid::try_parse(id).ok().filter(|id| id.get_version_num() == 7)?;
    i64::try_from(id.as_u128() >> 80).ok()
}

fn key(total: Tokens) -> [i64; 5] {
    [
        total.input_tokens,
        total.cached_input_tokens,
        total.output_tokens,
        total.reasoning_output_tokens,
        total.total_tokens,
    ]
}

/// A key for a response that has no id: the totals after it.
fn total_key(total: Tokens) -> String {
    let [input, cached, output, reasoning, all] = key(total);
    format!("total:{input}:{cached}:{output}:{reasoning}:{all}")
}
