//! A running turn: asks the model, records what it says, answers its calls, until a reply has none.
//!
//! The task reports to its thread's actor; everything that it tells of is stored first. It looks for an interrupt and
//! for messages that join only while it waits for the model, never in the middle of recording.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::Runtime;
use super::asking::Asking;
use super::calls::{self, CarriedOut, Stop, ThreadTools};
use super::client::Event;
use super::compaction;
use super::goals::keeper::Keeper;
use super::goals::{self, rules, texts};
use super::input::UserMessage;
use super::notify::Notify;
use super::prompt;
use super::recorder::{Recorder, ResponseUsage, TurnEnd};
use super::response::{DoneItem, Outcome, Response};
use super::review::{Review, Side};
use super::settings::Settings;
use super::steering::Steering;
use super::step::{NextStep, StepSettings};
use super::thread::{Command, TurnEnded, TurnReport};
use super::user_shell::{self, UserCommand};
use super::view;
use crate::config::{Config, ProviderConfig};
use crate::model::catalog;
use crate::model::client::ResponseStream;
use crate::model::error::{ModelError, Retry, delay};
use crate::model::request::{Body, Reasoning, Request};
use crate::protocol::error::{CodexErrorInfo, TurnError, WarningNotification};
use crate::protocol::goal::ThreadGoalStatus;
use crate::protocol::settings::ModeKind;
use crate::protocol::turn::{Turn, TurnItemsView, TurnStatus};
use crate::store::goals::{GoalCharge, GoalRow, GoalStop};
use crate::store::rows::{TokenCounts, TurnRow};
use crate::tools::turn_diff::TurnDiff;

/// What holds for one turn alone.
#[derive(Clone, Debug, Default)]
pub struct TurnOptions {
    /// The shape of the answer.
    pub output_schema: Option<Value>,
    /// Service tier of this turn.
    pub service_tier: Option<String>,
    /// The turn that this one belongs to.
    pub root_turn_id: Option<String>,
    /// What the turn consists of.
    pub kind: TurnKind,
    /// What started it, unless a client did: `queue` or `goal`.
    pub trigger: Option<String>,
    /// Members for the metadata of its model requests.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// The submission that it is, in the queue until its start is stored.
    pub queued: Option<String>,
    /// The turn goes on with the goal.
    pub goal: Option<GoalStart>,
}

/// What a turn begins with that a goal has started.
#[derive(Clone, Debug)]
pub struct GoalStart {
    /// What the model is told.
    pub items: Vec<Value>,
    /// What that changes of the goal.
    pub charge: GoalCharge,
}

/// What a turn consists of.
#[derive(Clone, Debug, Default)]
pub enum TurnKind {
    /// The model answers.
    #[default]
    Model,
    /// The context is compacted, then the model answers.
    CompactFirst,
    /// The context is compacted, and that is all.
    Compact,
    /// A user's own command, and that is all.
    UserCommand(UserCommand),
    /// A review, in a conversation of its own.
    Review(Review),
}

impl TurnKind {
    /// The word for a kind that no message may join.
    pub fn closed_to_messages(&self) -> Option<&'static str> {
        match self {
            TurnKind::Compact => Some("compact"),
            TurnKind::Review(_) => Some("review"),
            _ => None,
        }
    }
}

/// What a turn runs with.
pub struct TurnContext {
    pub(super) runtime: Arc<Runtime>,
    pub(super) notify: Notify,
    pub(super) recorder: Arc<Mutex<Recorder>>,
    pub(super) settings: Settings,
    /// What the next request asks with.
    pub(super) step: NextStep,
    pub(super) config: Arc<Config>,
    pub(super) provider: ProviderConfig,
    pub(super) options: TurnOptions,
    pub(super) turn: Turn,
    pub(super) started_at_ms: i64,
    pub(super) cancel: CancellationToken,
    pub(super) steering: Arc<Steering>,
    pub(super) reports: mpsc::UnboundedSender<Command>,
    /// Text of the project's instruction files.
    pub(super) instructions: Option<String>,
    /// The conversation of a review, which is not the thread's.
    pub(super) side: Option<Side>,
    /// Asks the clients.
    pub(super) asking: Asking,
    /// What the thread knows of its goal.
    pub(super) goals: Arc<Keeper>,
    /// What the thread's tools keep.
    pub(super) tools: Arc<ThreadTools>,
    /// What the turn's patches have changed.
    pub(super) diff: Mutex<TurnDiff>,
}

/// Let a turn run. Its end is reported whatever happens.
pub fn spawn(context: Arc<TurnContext>) {
    tokio::spawn(async move {
        let mut running = RunningTurn {
            asked: context.step.current(),
            context,
            tokens: TokenCounts::default(),
            turn_state: None,
            last_message: None,
            before_status: Vec::new(),
            goal_at_start: None,
            goal_event: None,
            calls_made: 0,
            resets_at: None,
        };
        let end = running.run().await;
        running.finish(end).await;
    });
}

/// The warning that a model is not known, to the subscribers of the thread.
pub fn fallback_metadata_warning(notify: &Notify, model: &str) -> Option<Event> {
    if catalog::find(model).is_some() {
        return None;
    }
    let message = format!(
        "Model metadata for `{model}` not found. Defaulting to fallback metadata; this can degrade performance and \
         cause issues."
    );
    Some(
        notify.event(
            "warning",
            &WarningNotification { thread_id: Some(notify.thread_id.to_string()), message },
        ),
    )
}

pub(super) struct RunningTurn {
    pub(super) context: Arc<TurnContext>,
    /// What the last request asked with.
    asked: StepSettings,
    /// Sum over the turn.
    tokens: TokenCounts,
    turn_state: Option<String>,
    /// The last whole message, as wire JSON.
    pub(super) last_message: Option<Value>,
    /// Told just before the thread's status changes.
    before_status: Vec<Event>,
    /// The goal when the last response was asked for: its tokens count for no other.
    goal_at_start: Option<String>,
    /// What the end of the turn did to the goal, for everybody.
    goal_event: Option<Event>,
    /// How many tools the model has called.
    calls_made: usize,
    /// When the provider's limit ends that the turn met (Unix seconds).
    resets_at: Option<i64>,
}

/// How a turn comes to its end.
enum End {
    /// It is stored already, with the last response.
    Stored,
    Interrupted,
    Failed(TurnError),
}

impl From<Stop> for End {
    fn from(stop: Stop) -> End {
        match stop {
            Stop::Interrupted => End::Interrupted,
            Stop::Failed(error) => End::Failed(error),
        }
    }
}

impl RunningTurn {
    async fn run(&mut self) -> End {
        match self.context.options.kind.clone() {
            TurnKind::Model | TurnKind::Review(_) => self.run_model().await,
            TurnKind::UserCommand(command) => self.run_user_command(&command).await,
            TurnKind::Compact => match self.compact(true).await {
                Ok(()) => End::Stored,
                Err(stop) => stop.into(),
            },
            TurnKind::CompactFirst => match self.compact(false).await {
                Ok(()) => self.run_model().await,
                Err(stop) => stop.into(),
            },
        }
    }

    /// Ask the model until it has no more calls and nobody has more to say.
    async fn run_model(&mut self) -> End {
        loop {
            if self.context.cancel.is_cancelled() {
                return End::Interrupted;
            }
            if let Err(error) = self.take_steered().await {
                return End::Failed(error);
            }
            match self.ask().await {
                Ok(Asked::Again) => {}
                Ok(Asked::Done) => return End::Stored,
                Ok(Asked::Interrupted) => return End::Interrupted,
                Err(error) => return End::Failed(error),
            }
        }
    }

    /// The whole of a turn that is a user's own command; a message that joined it is answered by the model.
    async fn run_user_command(&mut self, command: &UserCommand) -> End {
        let message = match user_shell::run(&self.context, command).await {
            Ok(message) => message,
            Err(stop) => return stop.into(),
        };
        let end = self.context.steering.close_if_empty().then(|| self.turn_end(TurnStatus::Completed, None));
        match self.record_response(std::slice::from_ref(&message), None, end.as_ref()).await {
            Err(error) => End::Failed(error),
            Ok((_, goal)) if end.is_some() => {
                self.goal_event = self.goal_event_of(goal);
                End::Stored
            }
            Ok(_) => self.run_model().await,
        }
    }

    /// Record the messages that have joined, and what jobs beside the turn have for the model.
    async fn take_steered(&mut self) -> Result<(), TurnError> {
        let outputs = self.context.steering.take_outputs();
        if !outputs.is_empty() {
            self.record_items(&outputs, None).await?;
        }
        for message in self.context.steering.take() {
            self.record_message(&message).await?;
        }
        Ok(())
    }

    async fn record_message(&mut self, message: &UserMessage) -> Result<(), TurnError> {
        let context = &self.context;
        let row = self.row();
        let item =
            context.recorder.lock().await.steer(&row, message, &context.settings).await.map_err(internal)?;
        let turn_id = &context.turn.id;
        self.tell(context.notify.item_started(turn_id, item.started, item.at_ms));
        self.tell(context.notify.item_completed(turn_id, item.completed, item.at_ms));
        Ok(())
    }

    fn row(&self) -> TurnRow {
        TurnRow {
            turn_id: self.context.turn.id.clone(),
            root_turn_id: self.context.turn.root_turn_id.clone(),
            status: "inProgress".to_owned(),
            started_at_ms: Some(self.context.started_at_ms),
            ..TurnRow::default()
        }
    }

    /// Ask the model once, in as many rounds as it takes, and carry out its calls.
    async fn ask(&mut self) -> Result<Asked, TurnError> {
        let mut round = 0;
        loop {
            let outcome = self.one_response().await?;
            match outcome {
                Outcome::Interrupted => return Ok(Asked::Interrupted),
                Outcome::Cut { calls } => {
                    return Ok(self.carry_out(&calls).await?.unwrap_or(Asked::Again));
                }
                Outcome::Whole(response) => return self.response_done(response).await,
                Outcome::Failed { error, calls } => {
                    if let Some(stopped) = self.carry_out(&calls).await? {
                        return Ok(stopped);
                    }
                    round += 1;
                    if !self.next_round(&error, round).await? {
                        return Ok(Asked::Interrupted);
                    }
                }
            }
        }
    }

    /// Send the request and read the reply.
    async fn one_response(&mut self) -> Result<Outcome, TurnError> {
        self.goal_at_start = self.context.goals.goal().map(|goal| goal.goal_id);
        let request = self.request().await?;
        let cancel = self.context.cancel.clone();
        let started = tokio::select! {
            started = self.open_stream(&request) => started,
            () = cancel.cancelled() => return Ok(Outcome::Interrupted),
        };
        match started {
            Ok(stream) => Response::new(self, stream).read().await,
            Err(error) => Ok(Outcome::Failed { error, calls: Vec::new() }),
        }
    }

    /// Send a request; the stream of the reply.
    pub(super) async fn open_stream(&mut self, request: &Request) -> Result<ResponseStream, ModelError> {
        let runtime = &self.context.runtime;
        let key = self.context.provider.requires_openai_auth.then(|| runtime.config.home().api_key());
        let stream = runtime.model.start(&self.context.provider, key.flatten(), request).await?;
        if self.turn_state.is_none() {
            self.turn_state.clone_from(&stream.turn_state);
        }
        Ok(stream)
    }

    /// Count a response's tokens to the turn's, and make its row of the ledger.
    pub(super) fn take_usage(&mut self, response_id: String, tokens: TokenCounts) -> ResponseUsage {
        self.tokens += tokens;
        ResponseUsage {
            response_id: if response_id.is_empty() {
                self.context.runtime.clock.new_id().to_string()
            } else {
                response_id
            },
            tokens,
            turn_tokens: self.tokens,
            model: self.asked.model.clone(),
            model_provider: self.context.settings.model_provider.clone(),
            window: self.window(),
            is_of_context: self.context.side.is_none(),
        }
    }

    /// Announce another round and wait for it; an error that allows none is the turn's end. `false`: interrupted.
    pub(super) async fn next_round(&mut self, error: &ModelError, round: u32) -> Result<bool, TurnError> {
        let most = self.context.provider.stream_retries();
        let (message, wait) = match error.retry {
            Retry::WhileOffline if most > 0 => ("Reconnecting... waiting for network".to_owned(), None),
            Retry::Round(after) if round <= most => (format!("Reconnecting... {round}/{most}"), after),
            _ => {
                self.resets_at = error.resets_at;
                return Err(turn_error(error));
            }
        };
        let info = json!({"responseStreamDisconnected": {"httpStatusCode": error.http_status}});
        let announced = TurnError {
            message,
            codex_error_info: serde_json::from_value(info).ok(),
            additional_details: Some(error.message.clone()),
            misalignment: None,
        };
        self.tell(self.context.notify.error(&self.context.turn.id, announced, true));
        let jitter = f64::from((self.context.runtime.clock.now_ms() % 100) as i32) / 100.0;
        let wait = wait.unwrap_or_else(|| delay(round, jitter));
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(true),
            () = self.context.cancel.cancelled() => Ok(false),
        }
    }

    /// A response is whole: record its tokens, carry out its calls, or end the turn with it.
    async fn response_done(&mut self, response: super::response::Whole) -> Result<Asked, TurnError> {
        let super::response::Whole { response_id, usage, end_turn, calls, last_item } = response;
        let tokens = usage.unwrap_or_default();
        let recorded = usage.map(|tokens| self.take_usage(response_id, tokens));
        let goes_on = !calls.is_empty() || end_turn == Some(false) || !self.context.steering.close_if_empty();
        if goes_on {
            if let Some(item) = &last_item {
                self.record_done(item).await?;
            }
            self.calls_made += calls.len();
            let CarriedOut { outputs, stop } = calls::carry_out(&self.context, &calls).await;
            let before = self.context.goals.goal();
            let (total, goal) = self.record_response(&outputs, recorded.as_ref(), None).await?;
            self.tell_goal(before, goal).await?;
            if recorded.is_some() {
                self.tell(self.usage_event(total, tokens));
            }
            self.tell(self.limits_event());
            if stop.is_none() && calls.is_empty() && end_turn != Some(false) {
                let (steering, cancel) = (&self.context.steering, &self.context.cancel);
                tokio::select! {
                    () = steering.settled() => {}
                    () = cancel.cancelled() => return Ok(Asked::Interrupted),
                }
            }
            let stop = match stop {
                None if self.context.side.is_none() && tokens.total >= self.compaction_limit() => {
                    self.compact(false).await.err()
                }
                stop => stop,
            };
            return match stop {
                None => Ok(Asked::Again),
                Some(Stop::Interrupted) => Ok(Asked::Interrupted),
                Some(Stop::Failed(error)) => Err(error),
            };
        }
        let total = if self.context.side.is_some() {
            let (total, goal) = self.finish_review(recorded.as_ref()).await?;
            self.goal_event = self.goal_event_of(goal);
            total
        } else {
            let end = self.turn_end(TurnStatus::Completed, None);
            let charge = self.charge(None);
            let recorded =
                self.record_charged(last_item.as_ref(), &[], recorded.as_ref(), Some(&end), charge);
            let (total, goal) = match recorded.await {
                Ok(recorded) => recorded,
                Err(error) => {
                    // A message that could not be stored is none; the end of the turn must not carry it.
                    self.last_message = self.last_message.take().filter(|_| last_item.is_none());
                    return Err(error);
                }
            };
            if let Some(item) = &last_item {
                self.tell_done(item)?;
            }
            self.goal_event = self.goal_event_of(goal);
            total
        };
        if recorded.is_some() {
            self.before_status.push(self.usage_event(total, tokens));
        }
        self.before_status.push(self.limits_event());
        Ok(Asked::Done)
    }

    async fn record_response(
        &self,
        outputs: &[Value],
        usage: Option<&ResponseUsage>,
        end: Option<&TurnEnd>,
    ) -> Result<(TokenCounts, Option<GoalRow>), TurnError> {
        let charge = self.charge(None);
        self.record_charged(None, outputs, usage, end, charge).await
    }

    async fn record_charged(
        &self,
        last_item: Option<&DoneItem>,
        outputs: &[Value],
        usage: Option<&ResponseUsage>,
        end: Option<&TurnEnd>,
        charge: Option<GoalCharge>,
    ) -> Result<(TokenCounts, Option<GoalRow>), TurnError> {
        let context = &self.context;
        let outputs = context.of_thread(outputs).await;
        let mut recorder = context.recorder.lock().await;
        let last_item = last_item.map(|item| (&item.model_item, &item.wire));
        recorder
            .response_done(&context.turn.id, last_item, outputs, usage, end, charge)
            .await
            .map_err(internal)
    }

    /// Record an item that is whole, then tell.
    pub(super) async fn record_done(&self, item: &DoneItem) -> Result<(), TurnError> {
        self.record_items(std::slice::from_ref(&item.model_item), Some(&item.wire)).await?;
        self.tell_done(item)
    }

    /// Tell of an item that is recorded.
    fn tell_done(&self, item: &DoneItem) -> Result<(), TurnError> {
        let json = super::recorder::raw(&item.wire).map_err(internal)?;
        self.tell(self.context.notify.item_completed(&self.context.turn.id, json, item.at_ms));
        Ok(())
    }

    // The goal ----------------------------------------------------------------------------------------------------

    /// What is charged to the goal with the next record. In plan mode nothing counts, neither tokens nor time.
    pub(super) fn charge(&self, stop: Option<GoalStop>) -> Option<GoalCharge> {
        let context = &self.context;
        if context.settings.mode == ModeKind::Plan {
            context.goals.take_time();
            return None;
        }
        let charge = context.goals.charge(&context.turn.id)?;
        if self.goal_at_start.as_ref() != Some(&charge.goal_id) && stop.is_none() {
            return None;
        }
        Some(GoalCharge { stop, ..charge })
    }

    /// What everybody is told of a charge, if it shows.
    pub(super) fn goal_event_of(&self, goal: Option<GoalRow>) -> Option<Event> {
        let context = &self.context;
        let goal = context.goals.charged(goal)?;
        let (clock, thread_id) = (&context.runtime.clock, &context.notify.thread_id);
        Some(goals::updated(clock, thread_id, &goal, Some(&context.turn.id)))
    }

    /// Tell of a charge in the midst of a turn. A budget that it has used up is told to the model, too.
    async fn tell_goal(&self, before: Option<GoalRow>, goal: Option<GoalRow>) -> Result<(), TurnError> {
        let active = |goal: &GoalRow| rules::status(&goal.status) == ThreadGoalStatus::Active;
        let crossed = goal
            .as_ref()
            .filter(|goal| goal.status == rules::word(ThreadGoalStatus::BudgetLimited))
            .filter(|_| before.as_ref().is_some_and(active))
            .map(texts::budget_crossed);
        if let Some(event) = self.goal_event_of(goal) {
            self.report(TurnReport::ToAll(event));
        }
        match crossed {
            Some(notice) => self.record_items(&[notice], None).await,
            None => Ok(()),
        }
    }

    /// How a failure of the turn stops the goal.
    fn goal_stop(&self, error: &TurnError) -> GoalStop {
        let limited = error.codex_error_info == Some(CodexErrorInfo::UsageLimitExceeded);
        let status = if limited { ThreadGoalStatus::UsageLimited } else { ThreadGoalStatus::Blocked };
        GoalStop {
            status: rules::word(status).to_owned(),
            reason: format!("a turn failed: {}", error.message),
            wakes_at_ms: self.resets_at.filter(|_| limited).map(|seconds| seconds.saturating_mul(1000)),
        }
    }

    pub(super) fn usage_event(&self, total: TokenCounts, last: TokenCounts) -> Event {
        let usage = view::token_usage(total, last, Some(self.window()));
        self.context.notify.token_usage(&self.context.turn.id, usage)
    }

    pub(super) fn limits_event(&self) -> Event {
        let limits = json!({"rateLimits": {
            "limitId": "codex", "limitName": null, "normalModelSlug": null, "primary": null, "secondary": null,
            "credits": null, "individualLimit": null, "spendControlReached": null, "planType": null,
            "rateLimitReachedType": null,
        }});
        self.context.notify.event("account/rateLimits/updated", &limits)
    }

    fn compaction_limit(&self) -> i64 {
        compaction::limit(&self.asked.model, &self.context.config)
    }

    fn window(&self) -> i64 {
        catalog::reported_window(&self.asked.model, self.context.config.model_context_window)
    }

    /// Carry out the calls of a response and record their outputs.
    async fn carry_out(&mut self, calls: &[Value]) -> Result<Option<Asked>, TurnError> {
        let CarriedOut { outputs, stop } = calls::carry_out(&self.context, calls).await;
        if !outputs.is_empty() {
            self.record_items(&outputs, None).await?;
        }
        match stop {
            None => Ok(None),
            Some(Stop::Interrupted) => Ok(Some(Asked::Interrupted)),
            Some(Stop::Failed(error)) => Err(error),
        }
    }

    /// Record model items of this turn, and the item that they make.
    pub(super) async fn record_items(
        &self,
        model_items: &[Value],
        wire: Option<&Value>,
    ) -> Result<(), TurnError> {
        self.context.record_items(model_items, wire).await
    }

    pub(super) async fn request(&mut self) -> Result<Request, TurnError> {
        self.asked = self.context.step.current();
        let (context, asked) = (&self.context, &self.asked);
        tokio::select! {
            () = async { context.tools.servers().settled().await } => {}
            () = context.cancel.cancelled() => {}
        }
        let (input, window_number, session_id) = {
            let mut recorder = context.recorder.lock().await;
            let input = match &context.side {
                Some(side) => side.input().await,
                None => recorder.context().await.map_err(internal)?,
            };
            (input, recorder.window_number(), recorder.row().session_id.clone())
        };
        let settings = &context.settings;
        let thread_id = context.notify.thread_id.to_string();
        let window_id = format!("{thread_id}:{window_number}");
        let turn_metadata = json!({
            "session_id": session_id, "thread_id": thread_id, "turn_id": context.turn.id, "window_id": window_id,
            "window_number": window_number, "request_kind": "turn", "root_turn_id": context.turn.root_turn_id,
            "turn_started_at_unix_ms": context.started_at_ms, "model": asked.model,
        });
        let turn_metadata = with_members(turn_metadata, &context.options);
        let effort = asked
            .effort
            .clone()
            .or_else(|| catalog::find(&asked.model).map(|info| info.default_effort.to_owned()));
        let summary =
            asked.summary.as_ref().map(|summary| json!(summary)).filter(|summary| summary != "none");
        let text = context.options.output_schema.as_ref().map(|schema| {
            json!({"format": {"type": "json_schema", "strict": true, "schema": schema, "name": "output_schema"}})
        });
        let client_metadata = json!({
            "turn_id": context.turn.id, "root_turn_id": context.turn.root_turn_id, "x-codex-window-id": window_id,
            "x-codex-turn-metadata": turn_metadata, "thread_id": thread_id, "session_id": session_id,
        });
        let instructions =
            settings.base_instructions.clone().unwrap_or_else(|| prompt::BASE_INSTRUCTIONS.to_owned());
        Ok(Request {
            body: Body {
                model: asked.model.clone(),
                instructions,
                stream: true,
                input,
                tools: calls::offered(context),
                tool_choice: "auto",
                parallel_tool_calls: true,
                reasoning: Reasoning { effort, summary },
                store: false,
                include: ["reasoning.encrypted_content"],
                service_tier: asked.tier_on_the_wire(),
                prompt_cache_key: thread_id.clone(),
                text,
                client_metadata,
            },
            thread_id,
            session_id,
            originator: context.runtime.originator(),
            user_agent: context.runtime.user_agent(),
            window_id,
            turn_metadata,
            turn_state: self.turn_state.clone(),
            subagent: context.side.is_some().then_some("review"),
        })
    }

    pub(super) fn turn_end(&self, status: TurnStatus, error: Option<&TurnError>) -> TurnEnd {
        TurnEnd {
            turn_id: self.context.turn.id.clone(),
            root_turn_id: self.context.turn.root_turn_id.clone(),
            status,
            error: error.and_then(|error| serde_json::to_value(error).ok()),
            started_at_ms: self.context.started_at_ms,
            last_message: self
                .last_message
                .as_ref()
                .and_then(|item| item["text"].as_str())
                .map(str::to_owned),
        }
    }

    /// Record the end, if it is not yet, and report it.
    async fn finish(&mut self, end: End) {
        let (status, error) = match end {
            End::Stored => (TurnStatus::Completed, None),
            End::Interrupted => (TurnStatus::Interrupted, None),
            End::Failed(error) => (TurnStatus::Failed, Some(error)),
        };
        if status == TurnStatus::Interrupted {
            calls::command::end_those_of(&self.context).await;
        }
        if status != TurnStatus::Completed {
            // A message that was accepted is kept, though nobody answers it any more.
            for message in self.context.steering.close() {
                if let Err(error) = self.record_message(&message).await {
                    tracing::error!(error = %error.message, "a message could not be recorded");
                }
            }
            let charge = self.charge(error.as_ref().map(|error| self.goal_stop(error)));
            let turn_end = self.turn_end(status, error.as_ref());
            match self.record_charged(None, &[], None, Some(&turn_end), charge).await {
                Ok((_, goal)) => self.goal_event = self.goal_event_of(goal),
                Err(error) => {
                    tracing::error!(error = %error.message, "the end of a turn could not be recorded");
                }
            }
        }
        self.context.recorder.lock().await.turn_is_over();
        let last_diff = calls::last_diff(&self.context, &*self.context.diff.lock().await);
        self.before_status.extend(last_diff);
        let context = &self.context;
        let completed_at_ms = context.runtime.clock.now_ms();
        let shown = self.last_message.take().filter(|_| status == TurnStatus::Completed);
        let items: Vec<_> = shown.iter().filter_map(|item| super::recorder::raw(item).ok()).collect();
        let turn = Turn {
            items_view: if items.is_empty() { TurnItemsView::NotLoaded } else { TurnItemsView::Summary },
            items,
            status,
            error: error.clone(),
            started_at: Some(view::seconds(context.started_at_ms)),
            completed_at: Some(view::seconds(completed_at_ms)),
            duration_ms: Some(completed_at_ms - context.started_at_ms),
            ..context.turn.clone()
        };
        let after_status = error.map(|error| context.notify.error(&context.turn.id, error, false));
        let ended = TurnEnded {
            turn,
            before_status: std::mem::take(&mut self.before_status),
            after_status: after_status.into_iter().collect(),
            goal: self.goal_event.take(),
            calls: self.calls_made,
        };
        let _ = context.reports.send(Command::Turn(TurnReport::Ended(Box::new(ended))));
    }

    pub(super) fn tell(&self, event: Event) {
        self.context.tell(event);
    }

    pub(super) fn report(&self, report: TurnReport) {
        self.context.report(report);
    }
}

impl TurnContext {
    /// To every subscriber.
    pub(super) fn tell(&self, event: Event) {
        self.report(TurnReport::Event(event));
    }

    /// The actor lives until its turn has ended, and takes reports as long; what comes later is dropped.
    pub(super) fn report(&self, report: TurnReport) {
        let _ = self.reports.send(Command::Turn(report));
    }

    /// Record model items of this turn, and the item that they make.
    pub(super) async fn record_items(
        &self,
        model_items: &[Value],
        wire: Option<&Value>,
    ) -> Result<(), TurnError> {
        let model_items = self.of_thread(model_items).await;
        if model_items.is_empty() && wire.is_none() {
            return Ok(());
        }
        let mut recorder = self.recorder.lock().await;
        recorder.items(&self.turn.id, model_items, wire).await.map_err(internal)
    }

    /// Those of the model items that are part of the thread's conversation; a review's go to its own.
    async fn of_thread<'a>(&self, items: &'a [Value]) -> &'a [Value] {
        match &self.side {
            None => items,
            Some(side) => {
                side.push(items).await;
                &[]
            }
        }
    }

    /// An item is complete: record it, with model items that belong to it, then tell.
    pub(super) async fn item_done(
        &self,
        model_items: &[Value],
        wire: Value,
        now_ms: i64,
    ) -> Result<(), TurnError> {
        self.record_items(model_items, Some(&wire)).await?;
        let id = wire["id"].as_str().unwrap_or_default().to_owned();
        let json = super::recorder::raw(&wire).map_err(internal)?;
        let event = self.notify.item_completed(&self.turn.id, json, now_ms);
        self.report(TurnReport::ItemCompleted(id, event));
        Ok(())
    }
}

enum Asked {
    Again,
    Done,
    Interrupted,
}

/// The turn's metadata as text, with what started it and what the client has for it.
fn with_members(mut metadata: Value, options: &TurnOptions) -> String {
    if let Some(trigger) = &options.trigger {
        metadata["turn_trigger"] = json!(trigger);
    }
    for (key, value) in &options.metadata {
        metadata[key] = json!(value);
    }
    metadata.to_string()
}

/// A model's failure as the turn's.
fn turn_error(error: &ModelError) -> TurnError {
    TurnError {
        message: error.message.clone(),
        codex_error_info: Some(error.info.clone()),
        additional_details: None,
        misalignment: None,
    }
}

/// A failure of ours as the turn's.
pub(super) fn internal(error: super::error::RuntimeError) -> TurnError {
    tracing::error!(%error, "a turn failed");
    TurnError {
        message: error.to_string(),
        codex_error_info: Some(CodexErrorInfo::Other),
        additional_details: None,
        misalignment: None,
    }
}
