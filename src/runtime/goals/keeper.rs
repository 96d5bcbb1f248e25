//! What a loaded thread knows of its goal: the last state seen, and since when its time counts.
//!
//! The database is the truth; this is a copy that is refreshed by every change made here, so that a thread without a
//! goal pays nothing for goals.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rules;
use crate::clock::Clock;
use crate::protocol::goal::ThreadGoalStatus;
use crate::runtime::account::GoalReport;
use crate::store::goals::{GoalChanged, GoalCharge, GoalEvent, GoalRow, GoalStop};
use crate::store::{Store, StoreError};

/// The goal of a loaded thread. Shared by its actor and its turn.
#[derive(Debug)]
pub struct Keeper {
    clock: Clock,
    /// The thread can have a goal: it is stored, and the feature is on.
    pub enabled: bool,
    /// The most that a budget may be.
    pub max_budget: Option<i64>,
    /// Held only to copy in and out.
    state: Mutex<State>,
    /// Is told what happens.
    report: Option<GoalReport>,
}

#[derive(Debug, Default)]
struct State {
    goal: Option<GoalRow>,
    /// Since when time counts that is not charged yet.
    since_ms: Option<i64>,
    /// How many times a goal has begun to count here.
    beginnings: u64,
}

/// A charge as clients are to see it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The goal as the charge left it.
    pub goal: GoalRow,
    /// The charge has used up the budget.
    pub has_crossed: bool,
}

impl Keeper {
    /// For a thread with this goal; its time counts from now on.
    pub fn new(clock: Clock, enabled: bool, max_budget: Option<i64>, goal: Option<GoalRow>) -> Keeper {
        let keeper = Keeper { clock, enabled, max_budget, state: Mutex::default(), report: None };
        keeper.replace(goal);
        keeper
    }

    /// The same, telling what happens from now on.
    pub fn reporting_to(self, report: GoalReport) -> Keeper {
        Keeper { report: Some(report), ..self }
    }

    /// The goal as last seen.
    pub fn goal(&self) -> Option<GoalRow> {
        self.lock().goal.clone()
    }

    /// The goal is this one now, not by a charge.
    fn replace(&self, goal: Option<GoalRow>) {
        self.take_over(goal, None);
    }

    fn take_over(&self, goal: Option<GoalRow>, turn_id: Option<&str>) {
        if let Some(report) = &self.report {
            report.changed(self.goal().as_ref(), goal.as_ref(), turn_id);
        }
        let now_ms = self.clock.now_ms();
        let mut state = self.lock();
        let counted = |goal: &Option<GoalRow>| {
            goal.as_ref().filter(|goal| rules::is_counted(&goal.status)).map(|goal| goal.goal_id.clone())
        };
        let (before, after) = (counted(&state.goal), counted(&goal));
        if after.is_none() {
            state.since_ms = None;
        } else if before != after || state.since_ms.is_none() {
            state.since_ms = Some(now_ms);
            state.beginnings += 1;
        }
        state.goal = goal;
    }

    /// The time that counts since the last charge; it counts from now on anew.
    fn take_time(&self) -> i64 {
        let now_ms = self.clock.now_ms();
        let mut state = self.lock();
        match &mut state.since_ms {
            Some(since) => (now_ms - std::mem::replace(since, now_ms)).max(0),
            None => 0,
        }
    }

    /// What time has passed counts for nothing.
    pub fn skip_time(&self) {
        self.take_time();
    }

    /// Time that was taken is not charged after all: it counts still.
    pub fn give_back(&self, time_ms: i64) {
        if let Some(since) = &mut self.lock().since_ms {
            *since -= time_ms;
        }
    }

    /// Change the goal by a rule, which is given the time to book on the old state. To be called under the thread's
    /// recorder lock, as a turn charges, so that what is seen here is in the order of the commits.
    ///
    /// # Errors
    /// The store failed; the time counts still.
    pub async fn change(
        &self,
        store: &Store,
        thread_id: &str,
        event: GoalEvent,
        rule: impl Fn(Option<&GoalRow>, i64) -> Result<Option<GoalRow>, String> + Send + Sync + 'static,
    ) -> Result<GoalChanged, StoreError> {
        let time_ms = self.take_time();
        let changed = store.change_goal(thread_id, event, Arc::new(move |goal| rule(goal, time_ms))).await;
        match &changed {
            Ok(Ok((_, goal))) => self.replace(goal.clone()),
            Ok(Err(_)) | Err(_) => self.give_back(time_ms),
        }
        changed
    }

    /// Which beginning of a goal counts now; a response is charged if it was asked for under the same. `None`: no goal
    /// counts.
    pub fn counting(&self) -> Option<u64> {
        let state = self.lock();
        state.goal.as_ref().filter(|goal| rules::is_counted(&goal.status)).map(|_| state.beginnings)
    }

    /// What a step of a turn charges to the goal that counted when it began, or to whichever is stopped; `None` when
    /// there is nothing to charge. A goal that has begun to count since keeps its time for the next charge.
    pub fn charge(&self, turn_id: &str, counted: Option<u64>, stop: Option<GoalStop>) -> Option<GoalCharge> {
        let counting = self.counting()?;
        if counted != Some(counting) && stop.is_none() {
            return None;
        }
        let goal_id = self.goal()?.goal_id;
        let time_ms = self.take_time();
        Some(GoalCharge { goal_id, time_ms, stop, turn_id: turn_id.to_owned(), objective_told: None })
    }

    /// The goal as a turn's charge left it; handed back if clients see a difference.
    pub fn charged(&self, goal: Option<GoalRow>, turn_id: &str) -> Option<Shown> {
        let goal = goal?;
        let before = self.goal();
        self.take_over(Some(goal.clone()), Some(turn_id));
        let seen = |goal: &GoalRow| {
            (goal.status.clone(), goal.tokens_used, goal.time_used_ms / 1000, goal.objective.clone())
        };
        let differs = before.as_ref().is_none_or(|before| seen(before) != seen(&goal));
        let was_active = before.is_some_and(|before| before.status == rules::word(ThreadGoalStatus::Active));
        let has_crossed = was_active && goal.status == rules::word(ThreadGoalStatus::BudgetLimited);
        differs.then_some(Shown { goal, has_crossed })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(goal_id: &str, status: &str) -> Option<GoalRow> {
        Some(GoalRow { goal_id: goal_id.to_owned(), status: status.to_owned(), ..GoalRow::default() })
    }

    fn keeper(clock: &Clock, goal: Option<GoalRow>) -> Keeper {
        Keeper::new(clock.clone(), true, None, goal)
    }

    fn time_of(charge: Option<GoalCharge>) -> Option<i64> {
        charge.map(|charge| charge.time_ms)
    }

    #[test]
    fn a_goal_set_while_a_response_comes_keeps_its_time_for_the_next_charge() {
        let clock = Clock::fixed(1000);
        let keeper = keeper(&clock, None);
        let asked = keeper.counting();
        clock.advance(500);
        keeper.replace(goal("g", "active"));
        clock.advance(700);
        assert_eq!(
            keeper.charge("t", asked, None),
            None,
            "the response was asked for before there was a goal"
        );
        let asked = keeper.counting();
        clock.advance(300);
        assert_eq!(time_of(keeper.charge("t", asked, None)), Some(1000));
    }

    #[test]
    fn a_response_that_a_pause_falls_into_is_not_charged() {
        let clock = Clock::fixed(1000);
        let keeper = keeper(&clock, goal("g", "active"));
        let asked = keeper.counting();
        keeper.replace(goal("g", "paused"));
        keeper.replace(goal("g", "active"));
        clock.advance(400);
        assert_eq!(keeper.charge("t", asked, None), None);
        let stop = GoalStop { status: "blocked".to_owned(), ..GoalStop::default() };
        assert_eq!(
            time_of(keeper.charge("t", asked, Some(stop))),
            Some(400),
            "a stop is for the goal as it is"
        );
    }

    #[test]
    fn time_that_could_not_be_charged_counts_still() {
        let clock = Clock::fixed(1000);
        let keeper = keeper(&clock, goal("g", "active"));
        clock.advance(400);
        let taken = keeper.take_time();
        clock.advance(10);
        keeper.give_back(taken);
        assert_eq!(keeper.take_time(), 410);
    }
}
