//! The actor of a loaded thread: it owns the thread's settings, its subscribers, its status and the running turn.
//!
//! Everything that can move a loaded thread is a [`Command`] in its mailbox, and the order of the mailbox is the
//! order on the wire: a reply has its place in the outbox before the notifications it causes
//! ([`Request::reserve_reply`]), replays follow the resume reply. A turn is a child task (`turn`) that reports back
//! through the same mailbox.
//!
//! **Invariant:** at most one turn runs; the lease in the store holds that across processes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Runtime;
use super::account::GoalReport;
use super::asking::{Question, Questions};
use super::calls::ThreadTools;
use super::client::{Client, ConnectionId, Event, Request};
use super::error::{Result, RuntimeError};
use super::goals::keeper::Keeper;
use super::goals::{self, rules::Edit};
use super::input::UserMessage;
use super::mcp::{self, Servers};
use super::notify::Notify;
use super::onward::Onward;
use super::recorder::Recorder;
use super::settings::{Overrides, Settings};
use super::submissions::Running;
use super::turn::user_shell::UserCommand;
use super::turn::{TurnOptions, step};
use super::view;
use crate::config::Config;
use crate::protocol::review::ReviewTarget;
use crate::protocol::settings::{TurnSettingsUpdateParams, TurnSettingsUpdateStatus};
use crate::protocol::thread::{Thread, ThreadActiveFlag, ThreadStatus};
use crate::protocol::turn::{Turn, TurnStatus};
use crate::store::goals::GoalRow;
use crate::store::queue::{QueueChange, QueuedRow};
use crate::store::rows::{ThreadPatch, ThreadRow};

/// What the rest of the process sees of a loaded thread.
#[derive(Clone, Debug)]
pub struct ThreadHandle {
    mailbox: mpsc::UnboundedSender<Command>,
    live: Arc<Mutex<Live>>,
    tools: Arc<ThreadTools>,
    goals: Arc<Keeper>,
}

/// The live part of a thread that lists and reads show. The actor writes it, anybody reads it.
#[derive(Clone, Debug)]
pub struct Live {
    /// Status on the wire.
    pub status: ThreadStatus,
    /// The settings in force.
    pub settings: Settings,
    /// The thread's row as last known here.
    pub row: ThreadRow,
    /// Not stored, gone when unloaded.
    pub ephemeral: bool,
    /// Whether the thread is in the database yet.
    pub materialized: bool,
    /// Whether a first user message, shell command or goal has been there: only then there are turns to list.
    pub has_turns: bool,
    /// `AGENTS.md` files found when the thread was loaded.
    pub instruction_sources: Vec<String>,
    /// The running turn, if any.
    pub running_turn: Option<String>,
    /// Items of the running turn that have started and not completed, as wire JSON, in order.
    pub started_items: Vec<(String, Box<serde_json::value::RawValue>)>,
    /// How many connections are subscribed.
    pub subscribers: usize,
}

impl Live {
    /// The thread as clients see it, without turns.
    pub fn to_wire(&self) -> Thread {
        let mut thread = view::thread(&self.row, self.status.clone());
        self.decorate(&mut thread);
        thread
    }

    /// Add what only a loaded thread has to a thread made from its stored row.
    pub fn decorate(&self, thread: &mut Thread) {
        thread.status = self.status.clone();
        thread.ephemeral = self.ephemeral;
        thread.environments = Some(self.settings.environments_to_wire());
        thread.can_accept_direct_input = Some(true);
        thread.model = Some(self.settings.model.clone());
        thread.reasoning_effort = self.settings.effort.clone();
        thread.model_provider = self.settings.model_provider.clone();
        thread.cwd = self.settings.cwd.clone().into();
        if self.ephemeral {
            thread.path = None;
        }
    }
}

/// A submission to a thread.
#[derive(Debug)]
pub struct Submission {
    /// The user's message.
    pub message: UserMessage,
    /// Settings to change first.
    pub overrides: Overrides,
    /// What holds for this turn alone.
    pub options: TurnOptions,
}

/// Everything that can move a loaded thread.
#[derive(Debug)]
pub enum Command {
    /// `turn/start`: start a turn, or join the running one.
    StartTurn(Box<Submission>, Arc<dyn Request>, Reply<Turn>),
    /// `turn/steer`: add to the running turn, which must be this one.
    Steer(String, UserMessage, Reply<String>),
    /// `thread/shellCommand`: a turn of its own, or a part of the running one.
    UserCommand(UserCommand, Arc<dyn Request>, Reply<()>),
    /// `review/start`.
    Review(Box<ReviewTarget>, Arc<dyn Request>, Reply<Turn>),
    /// `thread/compact/start`.
    Compact(Arc<dyn Request>, Reply<()>),
    /// `turn/interrupt`: end the running turn, which must be this one.
    Interrupt(String, Arc<dyn Request>, Reply<()>),
    /// A connection wants the thread's events; the reply's place is fixed, and `then` is sent after it.
    Subscribe(Arc<dyn Request>, Reply<Live>),
    /// `thread/unsubscribe`, or the connection is gone. Tells whether it was subscribed.
    Unsubscribe(ConnectionId, Reply<bool>),
    /// `thread/goal/set`.
    SetGoal(Box<Edit>, Arc<dyn Request>, Reply<GoalRow>),
    /// `thread/goal/clear`.
    ClearGoal(Arc<dyn Request>, Reply<bool>),
    /// `thread/queue/add`.
    QueueAdd(Box<QueuedRow>, Arc<dyn Request>, Reply<QueueChange>),
    /// `thread/queue/start`.
    QueueStart(Option<String>, Arc<dyn Request>, Reply<Turn>),
    /// The queue was changed otherwise.
    QueueChanged,
    /// There is something in the queue: another process may have put it there.
    LookAtQueue,
    /// The time of a goal that waits has come.
    WakeGoal,
    /// Charge the time of the goal up to now (a fork takes a copy).
    BookGoal(Reply<()>),
    /// `thread/settings/update`.
    UpdateSettings(Box<Overrides>, Arc<dyn Request>, Reply<()>),
    /// `turn/settings/update`: for the later requests of the running turn, if it is this one.
    UpdateStep(Box<TurnSettingsUpdateParams>, Reply<TurnSettingsUpdateStatus>),
    /// A client has resumed, and its replays are in the outbox: tell of the goal, send the questions that are open, and
    /// start what waits.
    Resumed(Arc<dyn Client>),
    /// `config/mcpServer/reload`: start the servers of this configuration in the place of those that run.
    ReloadServers(Box<Config>),
    /// `thread/inject_items`.
    InjectItems(Vec<Value>, Reply<()>),
    /// Change members of the row, making the thread durable if it is not yet.
    Patch(Box<ThreadPatch>, Reply<ThreadRow>),
    /// Interrupt what runs and end the actor, telling that the thread is not loaded any more if asked to.
    Unload(Unload, Reply<()>),
    /// The running turn reports.
    Turn(TurnReport),
}

/// How a thread is unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unload {
    /// With `thread/status/changed notLoaded`: archive, delete, reload with other settings.
    Announced,
    /// Without a word: the process ends.
    Silent,
}

/// What a running turn tells its thread.
#[derive(Debug)]
pub enum TurnReport {
    /// To every subscriber.
    Event(Event),
    /// To every connection.
    ToAll(Event),
    /// An item has started (with its event, unless that was sent before).
    ItemStarted(String, Box<serde_json::value::RawValue>, Option<Event>),
    /// An item has completed and is stored (with its event).
    ItemCompleted(String, Event),
    /// The clients are asked something.
    Asked(Box<Question>),
    /// A question is answered or withdrawn.
    Settled(i64),
    /// The turn has ended and that is stored; `events` go out before the status change, `before_completed` after it.
    Ended(Box<TurnEnded>),
}

/// The end of a turn.
#[derive(Debug)]
pub struct TurnEnded {
    /// The turn as `turn/completed` shows it.
    pub turn: Turn,
    /// Sent before the status changes (token usage).
    pub before_status: Vec<Event>,
    /// Sent between the status change and `turn/completed` (the final error).
    pub after_status: Vec<Event>,
    /// What it did to the goal, for every connection; sent before the status changes.
    pub goal: Option<Event>,
    /// How many tools the model has called.
    pub calls: usize,
}

pub(super) type Reply<T> = oneshot::Sender<Result<T>>;

impl ThreadHandle {
    /// What its tools keep.
    pub fn tools(&self) -> &ThreadTools {
        &self.tools
    }

    /// A client has resumed the thread, and its replays are in the outbox.
    pub fn resumed(&self, client: Arc<dyn Client>) {
        self.post(Command::Resumed(client));
    }

    /// What the thread knows of its goal.
    pub fn goals(&self) -> &Keeper {
        &self.goals
    }

    /// Send a command that has no reply; an actor that has ended needs none.
    pub(super) fn post(&self, command: Command) {
        let _ = self.mailbox.send(command);
    }

    /// Start the MCP servers of this configuration in the place of those that run.
    pub fn reload_servers(&self, config: Config) {
        self.post(Command::ReloadServers(Box::new(config)));
    }

    /// A copy of the live part.
    pub fn live(&self) -> Live {
        lock(&self.live).clone()
    }

    /// Look at the live part without copying it.
    pub fn with_live<T>(&self, look: impl FnOnce(&Live) -> T) -> T {
        look(&lock(&self.live))
    }

    /// Subscribe the client that asks, its reply's place fixed before what follows.
    ///
    /// # Errors
    /// The thread is unloaded meanwhile.
    pub async fn ask_subscribe(&self, request: Arc<dyn Request>) -> Result<Live> {
        self.ask(|reply| Command::Subscribe(request, reply)).await
    }

    /// Send a command and wait for its reply.
    ///
    /// # Errors
    /// What the command comes to; `thread not found` when the thread is unloaded meanwhile.
    pub async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let gone = || RuntimeError::thread_not_found(&self.with_live(|live| live.row.thread_id.clone()));
        self.mailbox.send(command(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// What it takes to run an actor.
pub struct ThreadSeed {
    /// The first state.
    pub live: Live,
    /// Writes the thread's history.
    pub recorder: Recorder,
    /// The configuration the thread was loaded with.
    pub config: Arc<Config>,
    /// Text of the instruction files found when the thread was loaded.
    pub instructions: Option<String>,
    /// What waits for the thread to be idle.
    pub waiting: WhatWaits,
}

/// What a stored thread has waiting when it is loaded.
#[derive(Clone, Debug, Default)]
pub struct WhatWaits {
    /// Its goal.
    pub goal: Option<GoalRow>,
    /// There are submissions in its queue.
    pub has_queue: bool,
    /// Its last turn was interrupted.
    pub was_interrupted: bool,
}

/// Start the actor of a loaded thread.
pub fn spawn(runtime: Arc<Runtime>, seed: ThreadSeed) -> ThreadHandle {
    let (mailbox, inbox) = mpsc::unbounded_channel();
    let live = Arc::new(Mutex::new(seed.live));
    let cwd = std::path::PathBuf::from(&lock(&live).settings.cwd);
    let servers_of = Arc::new(mcp::Owner {
        runtime: runtime.clone(),
        thread: Some((lock(&live).row.thread_id.clone(), mailbox.clone())),
        cwd,
    });
    let tools = Arc::new(ThreadTools::new(runtime.clock.clone(), Servers::start(&servers_of, &seed.config)));
    let enabled = seed.config.feature(goals::FEATURE, true) && !lock(&live).ephemeral;
    let max_budget = seed.config.goals.max_goal_token_budget;
    let report = GoalReport::new(runtime.account.clone(), &lock(&live), runtime.originator());
    let goals = Keeper::new(runtime.clock.clone(), enabled, max_budget, seed.waiting.goal);
    let goals = Arc::new(goals.reporting_to(report));
    let handle = ThreadHandle {
        mailbox: mailbox.clone(),
        live: live.clone(),
        tools: tools.clone(),
        goals: goals.clone(),
    };
    let thread_id = lock(&live).row.thread_id.clone();
    let actor = Actor {
        notify: Notify::new(runtime.clock.clone(), &thread_id),
        unload_delay: seed.config.thread_unload_delay,
        thread_id,
        runtime,
        live,
        tools,
        goals,
        onward: Onward::new(seed.waiting.has_queue, seed.waiting.was_interrupted),
        servers_of,
        recorder: Arc::new(tokio::sync::Mutex::new(seed.recorder)),
        config: seed.config,
        instructions: seed.instructions,
        subscribers: Vec::new(),
        questions: Questions::default(),
        running: None,
        mailbox,
        idle_since: Instant::now(),
    };
    tokio::spawn(actor.run(inbox));
    handle
}

pub(super) struct Actor {
    pub(super) runtime: Arc<Runtime>,
    pub(super) thread_id: String,
    pub(super) notify: Notify,
    pub(super) live: Arc<Mutex<Live>>,
    pub(super) tools: Arc<ThreadTools>,
    pub(super) servers_of: Arc<mcp::Owner>,
    /// Shared with the running turn; whoever records holds it for the time of one append.
    pub(super) recorder: Arc<tokio::sync::Mutex<Recorder>>,
    pub(super) config: Arc<Config>,
    pub(super) instructions: Option<String>,
    pub(super) subscribers: Vec<Arc<dyn Client>>,
    pub(super) questions: Questions,
    pub(super) running: Option<Running>,
    pub(super) mailbox: mpsc::UnboundedSender<Command>,
    pub(super) unload_delay: Duration,
    pub(super) idle_since: Instant,
    /// What the thread knows of its goal.
    pub(super) goals: Arc<Keeper>,
    /// How it goes on by itself.
    pub(super) onward: Onward,
}

impl Actor {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        loop {
            let command = if self.running.is_none() && self.subscribers.is_empty() {
                tokio::select! {
                    command = inbox.recv() => command,
                    () = tokio::time::sleep_until(self.idle_since + self.unload_delay) => {
                        self.unload_when_idle().await;
                        return;
                    }
                }
            } else {
                inbox.recv().await
            };
            let Some(command) = command else { return };
            if let Some(unloaded) = self.handle(command).await {
                let Unloading { how, reply } = unloaded;
                self.finish_running(&mut inbox).await;
                self.leave(how == Unload::Announced).await;
                let _ = reply.send(Ok(()));
                return;
            }
        }
    }

    /// Serve one command; a command that unloads the thread is handed back.
    async fn handle(&mut self, command: Command) -> Option<Unloading> {
        match command {
            Command::StartTurn(submission, request, reply) => {
                self.start_turn(*submission, request, reply).await;
            }
            Command::Steer(expected, message, reply) => {
                let _ = reply.send(self.steer(&expected, message));
            }
            Command::UserCommand(command, request, reply) => {
                self.user_command(command, request, reply).await;
            }
            Command::Review(target, request, reply) => self.review(&target, request, reply).await,
            Command::Compact(request, reply) => {
                let outcome = self.compact(&*request).await;
                let _ = reply.send(outcome);
            }
            Command::Interrupt(turn_id, request, reply) => {
                let _ = reply.send(self.interrupt(&turn_id, &*request));
            }
            Command::Subscribe(request, reply) => {
                request.reserve_reply();
                self.questions.forget_client(request.client().id());
                self.subscribe(request.client());
                let _ = reply.send(Ok(lock(&self.live).clone()));
            }
            Command::ReloadServers(config) => {
                let old = self.tools.replace_servers(Servers::start(&self.servers_of, &config));
                tokio::spawn(async move { old.shutdown().await });
            }
            Command::SetGoal(edit, request, reply) => self.set_goal(*edit, request, reply).await,
            Command::ClearGoal(request, reply) => self.clear_goal(request, reply).await,
            Command::QueueAdd(row, request, reply) => self.queue_add(*row, request, reply).await,
            Command::QueueStart(id, request, reply) => self.queue_start(id, request, reply).await,
            Command::QueueChanged => self.queue_changed().await,
            Command::LookAtQueue => self.look_at_queue().await,
            Command::WakeGoal => self.wake_goal().await,
            Command::BookGoal(reply) => {
                let outcome = self.book_goal().await;
                let _ = reply.send(outcome);
            }
            Command::Resumed(client) => {
                if self.goals.enabled {
                    self.tell_goal_snapshot();
                }
                self.questions.replay(&*client);
                self.go_on().await;
            }
            Command::Unsubscribe(connection, reply) => {
                let _ = reply.send(Ok(self.unsubscribe(connection)));
            }
            Command::UpdateSettings(overrides, request, reply) => {
                let outcome = self.update_settings(&overrides).await;
                request.reserve_reply();
                if let Ok(true) = outcome {
                    self.tell_settings();
                }
                let _ = reply.send(outcome.map(drop));
            }
            Command::UpdateStep(params, reply) => {
                let _ = reply.send(self.update_step(&params));
            }
            Command::InjectItems(items, reply) => {
                let outcome = self.recorder.lock().await.inject(&items).await;
                let _ = reply.send(self.recorded(outcome).await);
            }
            Command::Patch(patch, reply) => {
                let _ = reply.send(self.patch(*patch).await);
            }
            Command::Unload(how, reply) => return Some(Unloading { how, reply }),
            Command::Turn(report) => self.on_report(report).await,
        }
        None
    }

    // What the turn reports ----------------------------------------------------------------------------------------

    async fn on_report(&mut self, report: TurnReport) {
        match report {
            TurnReport::Event(event) => self.tell(&event),
            TurnReport::ToAll(event) => self.runtime.clients.broadcast(&event),
            TurnReport::ItemStarted(id, item, event) => {
                lock(&self.live).started_items.push((id, item));
                if let Some(event) = event {
                    self.tell(&event);
                }
            }
            TurnReport::ItemCompleted(id, event) => {
                lock(&self.live).started_items.retain(|(started, _)| *started != id);
                self.tell(&event);
            }
            TurnReport::Asked(question) => self.on_asked(*question),
            TurnReport::Settled(id) => self.on_settled(id),
            TurnReport::Ended(ended) => self.on_ended(*ended).await,
        }
    }

    fn on_asked(&mut self, question: Question) {
        if let Some(flag) = question.flag {
            self.set_flag(flag, true);
        }
        self.questions.asked(question, &self.subscribers);
    }

    fn on_settled(&mut self, id: i64) {
        let Some(question) = self.questions.settled(id) else { return };
        // A call of a client's own tool is between the two of them: nobody is told.
        let Some(flag) = question.flag else { return };
        self.tell(&self.notify.request_resolved(id));
        if !self.questions.hold(flag) {
            self.set_flag(flag, false);
        }
    }

    async fn on_ended(&mut self, ended: TurnEnded) {
        {
            let mut live = lock(&self.live);
            live.running_turn = None;
            live.started_items.clear();
        }
        for event in &ended.before_status {
            self.tell(event);
        }
        if let Some(event) = &ended.goal {
            self.runtime.clients.broadcast(event);
            if self.goals.goal().is_some_and(|goal| goal.wakes_at_ms.is_some()) {
                self.runtime.goal_waits.notify_one();
            }
        }
        let failed = ended.turn.status == TurnStatus::Failed;
        self.set_status(if failed { ThreadStatus::SystemError } else { ThreadStatus::Idle });
        for event in &ended.after_status {
            self.tell(event);
        }
        let status = ended.turn.status;
        self.tell(&self.notify.turn_completed(ended.turn));
        self.idle_since = Instant::now();
        let mut comes_later = false;
        if let Some(running) = self.running.take() {
            let by_goal = running.context.options.goal.is_some();
            self.onward.turn_ended(status, ended.calls, by_goal);
            comes_later = !running.late.is_empty();
            for late in running.late {
                // The mailbox is this actor's own: it is open as long as the actor runs.
                let _ = self.mailbox.send(late);
            }
        }
        self.refresh_row_later();
        self.runtime.turns.ended();
        if !self.onward.leaving {
            self.end_deferral().await;
        }
        // What came too late for the turn starts one of its own, and is in the mailbox.
        if !comes_later {
            self.go_on().await;
        }
    }

    /// The turn has changed the row through the recorder; take over what it knows.
    fn refresh_row_later(&self) {
        if let Ok(recorder) = self.recorder.try_lock() {
            lock(&self.live).row = recorder.row().clone();
        }
    }

    // Settings and rows -------------------------------------------------------------------------------------------

    /// Whether anything changed.
    async fn update_settings(&mut self, overrides: &Overrides) -> Result<bool> {
        let before = lock(&self.live).settings.clone();
        let mut settings = before.clone();
        settings.apply(overrides, &self.config)?;
        if settings == before {
            return Ok(false);
        }
        let outcome = self.recorder.lock().await.settings_changed(&settings).await;
        lock(&self.live).settings = settings;
        self.recorded(outcome).await?;
        Ok(true)
    }

    fn update_step(&self, params: &TurnSettingsUpdateParams) -> Result<TurnSettingsUpdateStatus> {
        if !self.config.feature(step::FEATURE, false) {
            return Err(RuntimeError::invalid(format!(
                "turn settings updates require the {} feature",
                step::FEATURE
            )));
        }
        match &self.running {
            Some(running) if running.turn_id == params.turn_id => {
                running.context.step.update(params)?;
                Ok(TurnSettingsUpdateStatus::Applied)
            }
            _ => Ok(TurnSettingsUpdateStatus::TargetUnavailable),
        }
    }

    async fn patch(&mut self, patch: ThreadPatch) -> Result<ThreadRow> {
        let outcome = self.recorder.lock().await.patch(patch).await;
        self.recorded(outcome).await?;
        let mut live = lock(&self.live);
        live.materialized = !live.ephemeral;
        Ok(live.row.clone())
    }

    /// Take over the row after something was recorded.
    async fn recorded(&self, outcome: Result<()>) -> Result<()> {
        outcome?;
        let row = self.recorder.lock().await.row().clone();
        lock(&self.live).row = row;
        Ok(())
    }

    pub(super) fn tell_settings(&self) {
        let settings = lock(&self.live).settings.to_wire();
        self.tell(&self.notify.settings_updated(settings));
    }

    /// The settings in force.
    pub(super) fn live_settings(&self) -> Settings {
        lock(&self.live).settings.clone()
    }

    /// Store the thread if it is not yet.
    pub(super) async fn materialize(&mut self) -> Result<()> {
        if self.recorder.lock().await.is_materialized() {
            return Ok(());
        }
        self.patch(ThreadPatch::default()).await.map(drop)
    }

    /// Record that a client has set the goal; a thread without a preview takes the objective for one.
    pub(super) async fn record_goal(&mut self, goal: &GoalRow) -> Result<()> {
        let event = serde_json::json!({"type": "thread_goal_updated", "threadId": self.thread_id,
            "goal": goals::to_json(&self.thread_id, goal)});
        let patch = ThreadPatch { preview_if_empty: Some(goal.objective.clone()), ..ThreadPatch::default() };
        let outcome = self.recorder.lock().await.event(Some(&event), patch).await;
        self.recorded(outcome).await?;
        lock(&self.live).has_turns = true;
        Ok(())
    }

    // Subscribers and status --------------------------------------------------------------------------------------

    fn subscribe(&mut self, client: Arc<dyn Client>) {
        if !self.subscribers.iter().any(|subscriber| subscriber.id() == client.id()) {
            self.subscribers.push(client);
        }
        lock(&self.live).subscribers = self.subscribers.len();
    }

    fn unsubscribe(&mut self, connection: ConnectionId) -> bool {
        let before = self.subscribers.len();
        self.subscribers.retain(|subscriber| subscriber.id() != connection);
        lock(&self.live).subscribers = self.subscribers.len();
        if self.subscribers.is_empty() && before > 0 {
            self.idle_since = Instant::now();
        }
        self.subscribers.len() < before
    }

    pub(super) fn tell(&self, event: &Event) {
        for subscriber in &self.subscribers {
            subscriber.send(event);
        }
    }

    pub(super) fn set_status(&self, status: ThreadStatus) {
        {
            let mut live = lock(&self.live);
            if live.status == status {
                return;
            }
            live.status = status.clone();
        }
        self.runtime.clients.broadcast(&self.notify.status_changed(status));
    }

    fn set_flag(&self, flag: ThreadActiveFlag, on: bool) {
        let status = lock(&self.live).status.clone();
        if let ThreadStatus::Active { mut active_flags } = status {
            active_flags.retain(|other| *other != flag);
            if on {
                active_flags.push(flag);
            }
            self.set_status(ThreadStatus::Active { active_flags });
        }
    }

    // The end -----------------------------------------------------------------------------------------------------

    /// Interrupt the running turn, if any, and serve the mailbox until it is over.
    async fn finish_running(&mut self, inbox: &mut mpsc::UnboundedReceiver<Command>) {
        self.onward.leaving = true;
        if let Some(running) = &self.running {
            running.cancel.cancel();
        }
        while self.running.is_some() {
            let Some(command) = inbox.recv().await else { return };
            if let Command::Turn(report) = command {
                self.on_report(report).await;
            }
            // Anything else drops its reply, which its sender reads as "not loaded".
        }
    }

    /// Nobody listens and nothing runs for long enough.
    async fn unload_when_idle(&self) {
        self.leave(true).await;
        self.runtime.clients.broadcast(&self.notify.closed());
    }

    async fn leave(&self, announced: bool) {
        self.tools.shutdown().await;
        self.runtime.forget(&self.thread_id);
        if announced {
            self.set_status(ThreadStatus::NotLoaded);
        }
    }
}

struct Unloading {
    how: Unload,
    reply: Reply<()>,
}

/// The live part is only ever copied in and out under its lock, so that a panic cannot leave it half written.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
