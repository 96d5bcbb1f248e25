//! How a thread goes on by itself when it is idle: first the queue, then the goal; and what holds it back
//! (`protocol/queue.md`, section 3; `protocol/goals.md`, section 5).
//!
//! Beyond the peer: a goal whose turns bring nothing, or come too fast, is blocked with the reason in its history, and
//! one that met the provider's limit goes on by itself when that ends, once.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Runtime;
use super::client::Request;
use super::error::{Result, RuntimeError};
use super::goals::rules::{Around, Edit, booked};
use super::goals::{self, texts};
use super::input::UserMessage;
use super::settings::Overrides;
use super::submissions::{Prepared, PreparedTurn};
use super::thread::{Actor, Command, Reply, Submission, lock};
use super::turn::{GoalStart, TurnKind, TurnOptions};
use crate::config::keys::Goals;
use crate::protocol::goal::ThreadGoalStatus;
use crate::protocol::settings::ModeKind;
use crate::protocol::turn::{Turn, TurnStatus};
use crate::store::StoreError;
use crate::store::goals::{GoalChanged, GoalCharge, GoalEvent, GoalRow};
use crate::store::queue::QueuedRow;

/// How often other processes' changes of queues are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The time that a limit on turns an hour looks back.
const HOUR_MS: i64 = 60 * 60 * 1000;

/// What holds a thread back, and how its goal has been getting on.
#[derive(Debug, Default)]
pub(super) struct Onward {
    /// The last turn was interrupted: the queue waits for a turn that ends otherwise.
    pub(super) queue_held: bool,
    /// The last turn was interrupted in this process: the goal waits, too.
    pub(super) goal_held: bool,
    /// There may be submissions in the queue.
    pub(super) has_queue: bool,
    /// Nothing starts any more: the thread is being unloaded.
    pub(super) leaving: bool,
    /// Goal turns in a row without a single call of a tool.
    idle_turns: u32,
    /// When goal turns started, the last hour's.
    started_ms: VecDeque<i64>,
}

impl Onward {
    /// Of a thread that is loaded now.
    pub(super) fn new(has_queue: bool, was_interrupted: bool) -> Onward {
        Onward { has_queue, queue_held: was_interrupted, ..Onward::default() }
    }

    /// Why the goal must not go on, if it must not.
    fn brake(&mut self, limits: &Goals, now_ms: i64) -> Option<String> {
        while self.started_ms.front().is_some_and(|at| *at <= now_ms - HOUR_MS) {
            self.started_ms.pop_front();
        }
        let (most_idle, most_an_hour) =
            (limits.max_continuations_without_progress, limits.max_turns_per_hour);
        if most_idle > 0 && self.idle_turns >= most_idle {
            return Some(format!(
                "{most_idle} turns in a row called no tool (goals.max_continuations_without_progress)"
            ));
        }
        if most_an_hour > 0 && self.started_ms.len() >= most_an_hour as usize {
            return Some(format!("{most_an_hour} turns started within an hour (goals.max_turns_per_hour)"));
        }
        None
    }

    /// A turn has ended.
    pub(super) fn turn_ended(&mut self, status: TurnStatus, calls: usize, by_goal: bool) {
        let interrupted = status == TurnStatus::Interrupted;
        self.queue_held = interrupted;
        self.goal_held = interrupted;
        self.idle_turns = if by_goal && calls == 0 { self.idle_turns + 1 } else { 0 };
    }

    /// A person has taken the goal in hand.
    fn fresh_start(&mut self) {
        self.goal_held = false;
        self.idle_turns = 0;
        self.started_ms.clear();
    }
}

impl Actor {
    /// If nothing runs: start what waits.
    pub(super) async fn go_on(&mut self) {
        if self.running.is_some() || self.onward.leaving || self.runtime.is_draining() {
            return;
        }
        if self.onward.has_queue && !self.onward.queue_held && self.start_next_queued().await {
            return;
        }
        if !self.onward.goal_held {
            self.continue_goal().await;
        }
    }

    // The queue ---------------------------------------------------------------------------------------------------

    /// Start the head of the queue. `false`: there is none, or it cannot be started now.
    async fn start_next_queued(&mut self) -> bool {
        loop {
            let head = match self.runtime.store.queued(&self.thread_id, 0, 1).await {
                Ok(mut rows) => rows.pop(),
                Err(error) => {
                    tracing::error!(%error, "the queue of a thread could not be read");
                    return false;
                }
            };
            let Some(row) = head else {
                self.onward.has_queue = false;
                return false;
            };
            match self.start_queued(&row).await {
                Ok(prepared) => {
                    self.tell_queue_changed();
                    self.announce_and_spawn(*prepared);
                    return true;
                }
                // Another process was faster, or the row could not be read and is gone.
                Err(QueueStart::Gone) => self.tell_queue_changed(),
                Err(QueueStart::Failed(error)) => {
                    tracing::error!(%error, "a queued submission could not be started");
                    return false;
                }
            }
        }
    }

    /// Record the start of a submission's turn, which takes it out of the queue.
    async fn start_queued(&mut self, row: &QueuedRow) -> std::result::Result<Box<PreparedTurn>, QueueStart> {
        let Ok(content) = serde_json::from_str(&row.input_json) else {
            tracing::error!(
                submission = row.submission_id,
                "a queued submission cannot be read and is dropped"
            );
            self.runtime
                .store
                .delete_queued(&self.thread_id, &row.submission_id)
                .await
                .map_err(|error| QueueStart::Failed(error.into()))?;
            return Err(QueueStart::Gone);
        };
        let metadata = row.metadata_json.as_deref().and_then(|json| serde_json::from_str(json).ok());
        let submission = Submission {
            message: UserMessage { client_id: Some(row.client_id.clone()), content },
            overrides: Overrides::default(),
            options: TurnOptions {
                queued: Some(row.submission_id.clone()),
                trigger: Some("queue".to_owned()),
                metadata: metadata.unwrap_or_default(),
                ..TurnOptions::default()
            },
        };
        match self.prepare_turn(submission).await {
            Ok(Prepared::Run(prepared)) => Ok(prepared),
            // Nothing runs and no id is looked at, so that it is never put off.
            Ok(Prepared::Same(_) | Prepared::Later(_)) => Err(QueueStart::Gone),
            Err(RuntimeError::Store(StoreError::QueueTaken(_))) => Err(QueueStart::Gone),
            Err(error) => Err(QueueStart::Failed(error)),
        }
    }

    /// `thread/queue/add` on a loaded thread.
    pub(super) async fn queue_add(
        &mut self,
        row: QueuedRow,
        request: Arc<dyn Request>,
        reply: Reply<crate::store::queue::QueueChange>,
    ) {
        let outcome = async {
            self.materialize().await?;
            Ok(self.runtime.store.enqueue(&self.thread_id, row).await?)
        };
        let outcome = outcome.await;
        let is_queued = matches!(outcome, Ok(crate::store::queue::QueueChange::Done));
        if is_queued {
            self.onward.has_queue = true;
            self.tell_queue_changed();
        }
        request.reserve_reply();
        let _ = reply.send(outcome);
        if is_queued {
            self.go_on().await;
        }
    }

    /// `thread/queue/start`.
    pub(super) async fn queue_start(
        &mut self,
        id: Option<String>,
        request: Arc<dyn Request>,
        reply: Reply<Turn>,
    ) {
        match self.started_by_hand(id).await {
            Err(error) => drop(reply.send(Err(error))),
            Ok(prepared) => {
                request.reserve_reply();
                let _ = reply.send(Ok(prepared.started.turn.clone()));
                self.tell_queue_changed();
                self.announce_and_spawn(*prepared);
            }
        }
    }

    async fn started_by_hand(&mut self, id: Option<String>) -> Result<Box<PreparedTurn>> {
        let store = &self.runtime.store;
        let row = match &id {
            Some(id) => store.queued_submission(&self.thread_id, id).await?.ok_or_else(|| not_found(id))?,
            None if self.running.is_some() => return Err(busy()),
            None => store
                .queued(&self.thread_id, 0, 1)
                .await?
                .pop()
                .ok_or_else(|| RuntimeError::invalid("queue is empty"))?,
        };
        if self.running.is_some() {
            return Err(busy());
        }
        match self.start_queued(&row).await {
            Ok(prepared) => Ok(prepared),
            Err(QueueStart::Gone) => Err(not_found(&row.submission_id)),
            Err(QueueStart::Failed(error)) => Err(error),
        }
    }

    /// The queue was changed by a client of this process.
    pub(super) async fn queue_changed(&mut self) {
        self.onward.has_queue = true;
        self.tell_queue_changed();
        self.go_on().await;
    }

    /// There is something in the queue; if that is news, another process has put it there.
    pub(super) async fn look_at_queue(&mut self) {
        if self.onward.has_queue {
            self.go_on().await;
        } else {
            self.queue_changed().await;
        }
    }

    fn tell_queue_changed(&self) {
        self.tell(&self.notify.queue_changed());
    }

    // The goal ----------------------------------------------------------------------------------------------------

    /// Start a turn towards the goal, if it is to go on.
    async fn continue_goal(&mut self) {
        let Some(goal) = self.goals.goal().filter(|goal| goal.status == "active" && !goal.deferred) else {
            return;
        };
        let mode = self.live_settings().mode;
        if !self.goals.enabled || mode == ModeKind::Plan {
            return;
        }
        let now_ms = self.runtime.clock.now_ms();
        if let Some(reason) = self.onward.brake(&self.config.goals, now_ms) {
            self.block_goal(reason).await;
            return;
        }
        let mut items = Vec::new();
        if !goal.objective_told {
            items.push(texts::objective_item(&goal));
        }
        items.push(texts::continuation(&goal));
        let charge =
            GoalCharge { goal_id: goal.goal_id.clone(), objective_told: Some(true), ..GoalCharge::default() };
        let submission = Submission {
            message: UserMessage::default(),
            overrides: Overrides::default(),
            options: TurnOptions {
                kind: TurnKind::Model,
                trigger: Some("goal".to_owned()),
                goal: Some(GoalStart { items, charge }),
                ..TurnOptions::default()
            },
        };
        match self.prepare_turn(submission).await {
            Ok(Prepared::Run(prepared)) => {
                self.onward.started_ms.push_back(now_ms);
                self.announce_and_spawn(*prepared);
            }
            Ok(Prepared::Same(_) | Prepared::Later(_)) => {}
            Err(error) => tracing::error!(%error, "a goal's turn could not be started"),
        }
    }

    async fn block_goal(&mut self, reason: String) {
        let edit = Edit { status: Some(ThreadGoalStatus::Blocked), ..Edit::default() };
        let event = GoalEvent { reason: Some(reason.clone()), ..GoalEvent::of("status") };
        tracing::warn!(thread = self.thread_id, reason, "a goal is blocked");
        match self.edit_goal(edit, event).await {
            Ok(goal) => self.tell_goal(&goal),
            Err(error) => tracing::error!(%error, "a goal could not be blocked"),
        }
    }

    /// Change the goal by a rule, in the order of what the running turn charges.
    async fn change_goal(
        &self,
        event: GoalEvent,
        rule: impl Fn(Option<&GoalRow>, i64) -> std::result::Result<Option<GoalRow>, String>
        + Send
        + Sync
        + 'static,
    ) -> Result<GoalChanged> {
        let _in_order = self.recorder.lock().await;
        Ok(self.goals.change(&self.runtime.store, &self.thread_id, event, rule).await?)
    }

    async fn edit_goal(&self, edit: Edit, event: GoalEvent) -> Result<GoalRow> {
        let around = Around::now(&self.runtime.clock, &self.thread_id, self.goals.max_budget);
        let rule = move |goal: Option<&GoalRow>, time_ms| {
            edit.apply(goal, &Around { time_ms, ..around.clone() }).map(Some)
        };
        goals::edited(self.change_goal(event, rule).await?)
    }

    fn tell_goal(&self, goal: &GoalRow) {
        let told = goals::updated(&self.runtime.clock, &self.thread_id, goal, None);
        self.runtime.clients.broadcast(&told);
    }

    /// `thread/goal/set` on a loaded thread.
    pub(super) async fn set_goal(&mut self, edit: Edit, request: Arc<dyn Request>, reply: Reply<GoalRow>) {
        let outcome = self.goal_set(&edit).await;
        match outcome {
            Err(error) => drop(reply.send(Err(error))),
            Ok(goal) => {
                request.reserve_reply();
                let _ = reply.send(Ok(goal.clone()));
                self.tell_goal(&goal);
                if edit.status == Some(ThreadGoalStatus::Active) || edit.objective.is_some() {
                    self.onward.fresh_start();
                }
                self.go_on().await;
            }
        }
    }

    async fn goal_set(&mut self, edit: &Edit) -> Result<GoalRow> {
        // Checked before anything is stored for it; the writer applies it to the goal as it is then.
        let known = self.goals.goal();
        let around = Around::now(&self.runtime.clock, &self.thread_id, self.goals.max_budget);
        edit.apply(known.as_ref(), &around).map_err(RuntimeError::invalid)?;
        self.materialize().await?;
        let goal = self.edit_goal(edit.clone(), GoalEvent::set()).await?;
        let is_other = known.is_some_and(|known| known.objective != goal.objective);
        self.record_goal(&goal).await?;
        if let Some(running) = self.running.as_ref().filter(|_| is_other && goal.status == "active") {
            running.steering.push_notice(texts::objective_changed(&goal));
        }
        Ok(goal)
    }

    /// `thread/goal/clear` on a loaded thread.
    pub(super) async fn clear_goal(&mut self, request: Arc<dyn Request>, reply: Reply<bool>) {
        let outcome = if self.goals.goal().is_some() || lock(&self.live).materialized {
            self.change_goal(GoalEvent::of("cleared"), |_, _| Ok(None)).await
        } else {
            Ok(Ok((None, None)))
        };
        let outcome = outcome.map(|changed| changed.is_ok_and(|(before, _)| before.is_some()));
        request.reserve_reply();
        let cleared = matches!(outcome, Ok(true));
        let _ = reply.send(outcome);
        if cleared {
            self.runtime.clients.broadcast(&goals::goal_cleared(&self.runtime.clock, &self.thread_id));
        }
    }

    /// Everybody is told of the goal as it is, or that there is none.
    pub(super) fn tell_goal_snapshot(&self) {
        match self.goals.goal() {
            Some(goal) => self.tell_goal(&goal),
            None => {
                self.runtime.clients.broadcast(&goals::goal_cleared(&self.runtime.clock, &self.thread_id));
            }
        }
    }

    /// Charge the time up to now.
    pub(super) async fn book_goal(&mut self) -> Result<()> {
        if self.goals.goal().is_none() {
            return Ok(());
        }
        let goal = self.edit_goal(Edit::default(), GoalEvent::of("edited")).await?;
        self.tell_goal(&goal);
        Ok(())
    }

    /// The first turn of a fork is over: its goal may go on.
    pub(super) async fn end_deferral(&mut self) {
        if !self.goals.goal().is_some_and(|goal| goal.deferred) {
            return;
        }
        let released = |goal: Option<&GoalRow>, time_ms| {
            Ok(goal.map(|goal| GoalRow { deferred: false, ..booked(goal, time_ms) }))
        };
        match self.change_goal(GoalEvent::of("edited"), released).await {
            Ok(Ok(_)) => {}
            Ok(Err(text)) => tracing::error!(text, "the goal of a fork could not be released"),
            Err(error) => tracing::error!(%error, "the goal of a fork could not be released"),
        }
    }

    /// The provider's limit is over: a goal that waited for that goes on, once.
    pub(super) async fn wake_goal(&mut self) {
        let now_ms = self.runtime.clock.now_ms();
        let reason = Some("the provider's limit is over".to_owned());
        let event = GoalEvent { reason, ..GoalEvent::of("woken") };
        let rule = move |goal: Option<&GoalRow>, time_ms| Ok(goal.map(|goal| woken(goal, time_ms, now_ms)));
        match self.change_goal(event, rule).await {
            Ok(Ok((Some(before), Some(goal)))) if before.status != goal.status => {
                self.tell_goal(&goal);
                self.onward.fresh_start();
                self.go_on().await;
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "a goal could not be woken"),
        }
    }
}

/// The goal with its wait over, if that is due: the provider's limit is the only thing that is waited for.
fn woken(goal: &GoalRow, time_ms: i64, now_ms: i64) -> GoalRow {
    let goal = booked(goal, time_ms);
    if goal.wakes_at_ms.is_none_or(|at| at > now_ms) {
        return goal;
    }
    let status = if goal.status == "usageLimited" { "active".to_owned() } else { goal.status };
    GoalRow { status, wakes_at_ms: None, updated_at_ms: now_ms, ..goal }
}

enum QueueStart {
    /// It is not in the queue any more.
    Gone,
    Failed(RuntimeError),
}

fn not_found(id: &str) -> RuntimeError {
    RuntimeError::invalid(format!("queued submission not found: {id}"))
}

fn busy() -> RuntimeError {
    RuntimeError::invalid("thread already has an active or pending turn")
}

impl Runtime {
    /// Look for what waits, as long as the process serves: queues that other processes have filled, goals whose time has
    /// come.
    pub(super) fn watch(self: &Arc<Self>) {
        let runtime: Weak<Runtime> = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let Some(strong) = runtime.upgrade().filter(|runtime| !runtime.is_draining()) else { return };
                let wait = strong.look().await;
                let woken = strong.goal_waits.clone();
                drop(strong);
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = woken.notified() => {}
                }
            }
        });
    }

    /// One look; how long until the next.
    async fn look(self: &Arc<Self>) -> Duration {
        match self.store.threads_with_a_queue().await {
            Ok(threads) => {
                for handle in threads.iter().filter_map(|thread_id| self.loaded(thread_id)) {
                    handle.look_at_queue();
                }
            }
            Err(StoreError::Closed) => return LOOK_EVERY,
            Err(error) => tracing::error!(%error, "queues could not be looked at"),
        }
        let now_ms = self.clock.now_ms();
        let (due, next) = match self.store.goals_to_wake(now_ms).await {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "goals could not be looked at");
                return LOOK_EVERY;
            }
        };
        for thread_id in due {
            self.wake(&thread_id).await;
        }
        let until = next.map(|at| Duration::from_millis((at - now_ms).max(1).unsigned_abs()));
        until.map_or(LOOK_EVERY, |until| until.min(LOOK_EVERY))
    }

    /// Wake the goal of a thread, which is loaded for it.
    async fn wake(self: &Arc<Self>, thread_id: &str) {
        let handle = match self.loaded(thread_id) {
            Some(handle) => Ok(handle),
            None => self.load_for_goal(thread_id).await,
        };
        match handle {
            Ok(handle) => handle.wake_goal(),
            Err(error) => {
                tracing::warn!(%error, thread_id, "a thread could not be loaded to go on with its goal")
            }
        }
    }

    async fn load_for_goal(self: &Arc<Self>, thread_id: &str) -> Result<super::thread::ThreadHandle> {
        let row =
            self.store.thread(thread_id).await?.ok_or_else(|| RuntimeError::thread_not_found(thread_id))?;
        self.load_stored(row, &Overrides::default(), None).await
    }
}

impl super::thread::ThreadHandle {
    /// A client has changed the queue.
    pub(super) fn queue_changed(&self) {
        self.post(Command::QueueChanged);
    }

    /// There is something in the queue.
    fn look_at_queue(&self) {
        self.post(Command::LookAtQueue);
    }

    /// The time of a goal that waits has come.
    pub(super) fn wake_goal(&self) {
        self.post(Command::WakeGoal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Goals =
        Goals { max_goal_token_budget: None, max_continuations_without_progress: 2, max_turns_per_hour: 3 };

    #[test]
    fn turns_without_calls_in_a_row_are_braked() {
        let mut onward = Onward::default();
        onward.turn_ended(TurnStatus::Completed, 0, true);
        assert_eq!(onward.brake(&LIMITS, 0), None);
        onward.turn_ended(TurnStatus::Completed, 1, true);
        onward.turn_ended(TurnStatus::Completed, 0, true);
        assert_eq!(onward.brake(&LIMITS, 0), None);
        onward.turn_ended(TurnStatus::Completed, 0, true);
        assert!(onward.brake(&LIMITS, 0).is_some_and(|reason| reason.starts_with("2 turns in a row")));
        onward.fresh_start();
        assert_eq!(onward.brake(&LIMITS, 0), None);
    }

    #[test]
    fn turns_within_an_hour_are_braked() {
        let mut onward = Onward::default();
        onward.started_ms.extend([0, 1, 2]);
        assert!(onward.brake(&LIMITS, 10).is_some());
        assert_eq!(onward.brake(&LIMITS, HOUR_MS + 1), None, "the first two are older than an hour");
    }
}
