//! What is submitted to a thread: messages, users' commands, compactions, reviews; and the turn that they start or join.
//!
//! Everything here runs in the thread's actor ([`super::thread`]): a submission is checked and its start recorded
//! ([`Actor::prepare_turn`]) before anything is told, and its turn then runs as a task of its own.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::asking::Asking;
use super::client::{Event, Request};
use super::error::{Result, RuntimeError};
use super::input::{self, UserMessage};
use super::prompt;
use super::recorder::{TurnSeed, WholeItem, whole_item};
use super::settings::{Overrides, Settings};
use super::thread::{Actor, Command, Reply, Submission, lock};
use super::turn::review::{Review, Side};
use super::turn::steering::Steering;
use super::turn::step::NextStep;
use super::turn::user_shell::{self, UserCommand};
use super::turn::{self, GoalStart, TurnContext, TurnKind, TurnOptions, compaction};
use super::view;
use crate::protocol::input::UserInput;
use crate::protocol::review::ReviewTarget;
use crate::protocol::thread::ThreadStatus;
use crate::protocol::turn::{Turn, TurnItemsView, TurnStatus};
use crate::tools::turn_diff::TurnDiff;

/// The running turn, seen from its thread.
pub(super) struct Running {
    pub(super) turn_id: String,
    pub(super) context: Arc<TurnContext>,
    pub(super) cancel: CancellationToken,
    pub(super) steering: Arc<Steering>,
    /// Messages that carried a client's id: the same id again is the same message.
    pub(super) client_messages: HashMap<String, UserMessage>,
    /// Submissions that came too late to join: they start a turn of their own when this one is over.
    pub(super) late: Vec<Command>,
}

impl Running {
    /// Give a message to the turn; `false` when the turn has already taken its last one.
    fn join(&mut self, message: &UserMessage) -> bool {
        if !self.steering.push(message.clone()) {
            return false;
        }
        if let Some(id) = &message.client_id {
            self.client_messages.insert(id.clone(), message.clone());
        }
        true
    }

    /// The turn as a reply to a submission shows it.
    fn to_wire(&self) -> Turn {
        Turn {
            id: self.turn_id.clone(),
            root_turn_id: Some(self.turn_id.clone()),
            items: Vec::new(),
            items_view: TurnItemsView::NotLoaded,
            status: TurnStatus::InProgress,
            error: None,
            started_at: None,
            completed_at: None,
            duration_ms: None,
        }
    }
}

impl Actor {
    pub(super) async fn start_turn(
        &mut self,
        submission: Submission,
        request: Arc<dyn Request>,
        reply: Reply<Turn>,
    ) {
        let prepared = match self.prepare_turn(submission).await {
            Ok(prepared) => prepared,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        match prepared {
            Prepared::Same(turn) => {
                let _ = reply.send(Ok(*turn));
            }
            Prepared::Later(submission) => {
                if let Some(running) = &mut self.running {
                    running.late.push(Command::StartTurn(Box::new(submission), request, reply));
                }
            }
            Prepared::Run(prepared) => {
                if prepared.settings_changed {
                    self.tell_settings();
                }
                if let Some(warning) = &prepared.warning {
                    self.tell(warning);
                }
                request.reserve_reply();
                let _ = reply.send(Ok(prepared.started.turn.clone()));
                self.announce_and_spawn(*prepared);
            }
        }
    }

    pub(super) async fn user_command(
        &mut self,
        command: UserCommand,
        request: Arc<dyn Request>,
        reply: Reply<()>,
    ) {
        if let Some(running) = &mut self.running {
            match running.steering.begin_job() {
                Some(job) => {
                    request.reserve_reply();
                    let _ = reply.send(Ok(()));
                    user_shell::join(running.context.clone(), command, job);
                }
                None => running.late.push(Command::UserCommand(command, request, reply)),
            }
            return;
        }
        let submission = Submission {
            message: UserMessage::default(),
            overrides: Overrides::default(),
            options: TurnOptions { kind: TurnKind::UserCommand(command), ..TurnOptions::default() },
        };
        match self.prepare_turn(submission).await {
            Ok(Prepared::Run(prepared)) => {
                request.reserve_reply();
                let _ = reply.send(Ok(()));
                self.announce_and_spawn(*prepared);
            }
            // Nothing runs and the submission has no id: it is new, and starts at once.
            Ok(Prepared::Same(_) | Prepared::Later(_)) => drop(reply.send(Ok(()))),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Check a submission and record the start of its turn; nothing is told yet.
    pub(super) async fn prepare_turn(&mut self, submission: Submission) -> Result<Prepared> {
        let Submission { message, overrides, mut options } = submission;
        if options.queued.is_none()
            && let Some(turn) = self.same_submission(&message).await?
        {
            return Ok(Prepared::Same(Box::new(turn)));
        }
        if let Some(running) = &mut self.running {
            let joins = running.context.options.kind.closed_to_messages().is_none();
            if joins && running.join(&message) {
                return Ok(Prepared::Same(Box::new(running.to_wire())));
            }
            return Ok(Prepared::Later(Submission { message, overrides, options }));
        }
        let before = lock(&self.live).settings.clone();
        let mut settings = before.clone();
        settings.apply(&overrides, &self.config)?;
        let settings_changed = settings != before;
        let provider =
            self.config.provider(&settings.model_provider).map_err(RuntimeError::configuration)?.clone();
        let turn_id = self.runtime.clock.new_id().to_string();
        let compacts_first =
            matches!(options.kind, TurnKind::Model) && self.is_nearly_full(&settings).await?;
        if compacts_first {
            options.kind = TurnKind::CompactFirst;
        }
        // After the compaction the message joins the turn as one that came while it ran.
        let at_once = if compacts_first {
            UserMessage { client_id: message.client_id.clone(), content: Vec::new() }
        } else {
            message.clone()
        };
        let (content, first_item) = match &options.kind {
            TurnKind::Review(review) => (Vec::new(), Some(self.entered_review(review))),
            _ => (input::to_model(&at_once.content, &settings.cwd), None),
        };
        let warning = turn::fallback_metadata_warning(&self.notify, &settings.model);
        let seed = TurnSeed {
            turn_id,
            root_turn_id: options.root_turn_id.clone(),
            message: at_once,
            content,
            instructions: self.instructions.clone(),
            first_item: first_item.clone(),
            trigger: options.trigger.clone(),
            queued: options.queued.clone(),
            goal: options.goal.clone().map(|goal| GoalStart {
                // After a compaction they would be gone; then they are told behind it.
                items: if compacts_first { Vec::new() } else { goal.items },
                charge: goal.charge,
            }),
            settings,
        };
        let started = self.recorder.lock().await.start_turn(seed).await;
        let started = match started {
            Ok(started) => started,
            Err(error) => return Err(error),
        };
        {
            let mut live = lock(&self.live);
            live.settings = started.settings.clone();
            live.row = started.row.clone();
            live.materialized = !live.ephemeral;
            live.has_turns = true;
        }
        Ok(Prepared::Run(Box::new(PreparedTurn {
            started,
            message,
            options,
            provider,
            settings_changed,
            warning,
            first_item,
        })))
    }

    /// Tell of a turn whose start is stored, and let it run.
    pub(super) fn announce_and_spawn(&mut self, prepared: PreparedTurn) {
        let PreparedTurn { started, message, options, provider, first_item, .. } = prepared;
        let turn_id = started.turn.id.clone();
        if let (Some(item), TurnKind::Review(review)) = (first_item, &options.kind) {
            self.tell_whole(&review.announced, whole_item(&item, started.started_at_ms));
        }
        self.set_status(ThreadStatus::Active { active_flags: Vec::new() });
        let mut announced = started.turn.clone();
        announced.started_at = Some(view::seconds(started.started_at_ms));
        self.tell(&self.notify.turn_started(announced));
        if let Some(item) = started.user_item {
            self.tell_whole(&turn_id, item);
        }
        let cancel = CancellationToken::new();
        let steering = Arc::new(Steering::default());
        if matches!(options.kind, TurnKind::CompactFirst) {
            if !message.content.is_empty() {
                steering.push(message.clone());
            }
            for item in options.goal.iter().flat_map(|goal| &goal.items) {
                steering.push_output(item.clone());
            }
        }
        let mut client_messages = HashMap::new();
        if let Some(id) = &message.client_id {
            client_messages.insert(id.clone(), message);
        }
        {
            let mut live = lock(&self.live);
            live.running_turn = Some(turn_id.clone());
            live.started_items.clear();
        }
        self.runtime.turns.started();
        let mut settings = started.settings;
        let side = match &options.kind {
            TurnKind::Review(review) => {
                settings.model = self.config.review_model.clone().unwrap_or(settings.model);
                settings.base_instructions = Some(prompt::REVIEW_INSTRUCTIONS.to_owned());
                Some(Side::of_review(&settings, &self.runtime.clock.today(), &review.task))
            }
            _ => None,
        };
        let context = Arc::new(TurnContext {
            side,
            goals: self.goals.clone(),
            instructions: self.instructions.clone(),
            asking: Asking::new(self.runtime.clone(), self.mailbox.clone(), cancel.clone()),
            tools: self.tools.clone(),
            diff: tokio::sync::Mutex::new(TurnDiff::new(Path::new(&settings.cwd))),
            runtime: self.runtime.clone(),
            notify: self.notify.clone(),
            recorder: self.recorder.clone(),
            step: NextStep::new(&settings, options.service_tier.as_deref()),
            settings,
            config: self.config.clone(),
            provider,
            options,
            turn: started.turn,
            started_at_ms: started.started_at_ms,
            cancel: cancel.clone(),
            steering: steering.clone(),
            reports: self.mailbox.clone(),
        });
        turn::spawn(context.clone());
        self.running =
            Some(Running { turn_id, context, cancel, steering, client_messages, late: Vec::new() });
    }

    /// Whether the model's context is to be compacted before more comes.
    async fn is_nearly_full(&self, settings: &Settings) -> Result<bool> {
        let limit = compaction::limit(&settings.model, &self.config);
        Ok(self.recorder.lock().await.context_size().await? >= limit)
    }

    /// `thread/compact/start`.
    pub(super) async fn compact(&mut self, request: &dyn Request) -> Result<()> {
        if self.running.is_some() {
            return Err(RuntimeError::invalid("cannot compact a thread while a turn is running"));
        }
        let submission = Submission {
            message: UserMessage::default(),
            overrides: Overrides::default(),
            options: TurnOptions { kind: TurnKind::Compact, ..TurnOptions::default() },
        };
        if let Prepared::Run(prepared) = self.prepare_turn(submission).await? {
            request.reserve_reply();
            self.announce_and_spawn(*prepared);
        }
        Ok(())
    }

    /// `review/start`. The turn of the reply has the message alone; the one that runs has it as its root.
    pub(super) async fn review(
        &mut self,
        target: &ReviewTarget,
        request: Arc<dyn Request>,
        reply: Reply<Turn>,
    ) {
        let announced = self.runtime.clock.new_id().to_string();
        let outcome = match Review::new(target, announced.clone()) {
            Ok(_) if self.running.is_some() => {
                Err(RuntimeError::invalid("cannot start a review while a turn is running"))
            }
            Ok(review) => {
                let content = vec![UserInput::text(&review.task)];
                let options = TurnOptions {
                    root_turn_id: Some(announced.clone()),
                    kind: TurnKind::Review(review),
                    ..TurnOptions::default()
                };
                let message = UserMessage { client_id: None, content };
                self.prepare_turn(Submission { message, overrides: Overrides::default(), options }).await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Prepared::Run(prepared)) => {
                let mut turn =
                    Turn { id: announced.clone(), root_turn_id: None, ..prepared.started.turn.clone() };
                if let Some(item) = &prepared.started.user_item
                    && let Ok(mut shown) = serde_json::from_str::<Value>(item.completed.get())
                {
                    shown["id"] = Value::String(announced);
                    turn.items.push(view::raw(&shown));
                    turn.items_view = TurnItemsView::Full;
                }
                request.reserve_reply();
                let _ = reply.send(Ok(turn));
                self.announce_and_spawn(*prepared);
            }
            Ok(Prepared::Same(turn)) => drop(reply.send(Ok(*turn))),
            // Nothing runs, so that nothing is put off.
            Ok(Prepared::Later(_)) => {}
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn entered_review(&self, review: &Review) -> Value {
        let now_ms = self.runtime.clock.now_ms();
        serde_json::json!({"type": "enteredReviewMode", "id": self.runtime.clock.new_id().to_string(),
            "review": review.hint, "startedAtMs": now_ms, "completedAtMs": now_ms})
    }

    /// Tell both moments of an item that was whole at once.
    fn tell_whole(&self, turn_id: &str, item: WholeItem) {
        for event in self.notify.whole_item(turn_id, item) {
            self.tell(&event);
        }
    }

    /// The turn that a client's message id already stands for. The same id with other input is an error.
    async fn same_submission(&self, message: &UserMessage) -> Result<Option<Turn>> {
        let Some(client_id) = &message.client_id else { return Ok(None) };
        if let Some(running) = &self.running
            && let Some(earlier) = running.client_messages.get(client_id)
        {
            return if earlier.content == message.content {
                Ok(Some(running.to_wire()))
            } else {
                Err(other_input(client_id))
            };
        }
        let found = self.recorder.lock().await.turn_of_client_message(client_id).await?;
        match found {
            None => Ok(None),
            Some((row, content)) if content == input::content_to_json(&message.content) => {
                Ok(Some(view::turn(&row, Vec::new(), TurnItemsView::NotLoaded)))
            }
            Some(_) => Err(other_input(client_id)),
        }
    }

    pub(super) fn steer(&mut self, expected: &str, message: UserMessage) -> Result<String> {
        if message.content.is_empty() {
            return Err(RuntimeError::invalid("input must not be empty"));
        }
        if expected.is_empty() {
            return Err(RuntimeError::invalid("expectedTurnId must not be empty"));
        }
        let Some(running) = &mut self.running else {
            return Err(RuntimeError::invalid("no active turn to steer"));
        };
        if running.turn_id != expected {
            let found = &running.turn_id;
            return Err(RuntimeError::invalid(format!(
                "expected active turn id `{expected}` but found `{found}`"
            )));
        }
        if let Some(kind) = running.context.options.kind.closed_to_messages() {
            return Err(compaction::not_steerable(kind));
        }
        if let Some(id) = &message.client_id
            && let Some(earlier) = running.client_messages.get(id)
        {
            return if earlier.content == message.content {
                Ok(expected.to_owned())
            } else {
                Err(other_input(id))
            };
        }
        if running.join(&message) {
            Ok(expected.to_owned())
        } else {
            Err(RuntimeError::invalid("no active turn to steer"))
        }
    }

    pub(super) fn interrupt(&mut self, turn_id: &str, request: &dyn Request) -> Result<()> {
        match &self.running {
            None if turn_id.is_empty() => Ok(()),
            None => Err(RuntimeError::invalid("no active turn to interrupt")),
            Some(running) if !turn_id.is_empty() && running.turn_id != turn_id => {
                let found = &running.turn_id;
                Err(RuntimeError::invalid(format!("expected active turn id {turn_id} but found {found}")))
            }
            Some(running) => {
                request.reserve_reply();
                running.cancel.cancel();
                Ok(())
            }
        }
    }
}

pub(super) enum Prepared {
    /// The submission was there already, or joined the running turn.
    Same(Box<Turn>),
    /// The running turn has taken its last message: start one when it is over.
    Later(Submission),
    Run(Box<PreparedTurn>),
}

pub(super) struct PreparedTurn {
    pub(super) started: super::recorder::Started,
    message: UserMessage,
    options: TurnOptions,
    provider: crate::config::ProviderConfig,
    settings_changed: bool,
    warning: Option<Event>,
    first_item: Option<Value>,
}

fn other_input(client_id: &str) -> RuntimeError {
    RuntimeError::invalid(format!("clientUserMessageId `{client_id}` was already used with other input"))
}
