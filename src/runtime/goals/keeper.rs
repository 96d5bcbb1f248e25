//! What a loaded thread knows of its goal: the last state seen, and since when its time counts.
//!
//! The database is the truth; this is a copy that is refreshed by every change made here, so that a thread without a
//! goal pays nothing for goals.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::rules;
use crate::clock::Clock;
use crate::runtime::account::GoalReport;
use crate::store::goals::{GoalCharge, GoalRow};

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
    /// The turn that was last to be charged.
    charged_turn: Option<String>,
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

    /// The goal has changed otherwise than by a charge.
    pub fn replace(&self, goal: Option<GoalRow>) {
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
        }
        state.goal = goal;
    }

    /// The time that counts since the last charge; it counts from now on anew.
    pub fn take_time(&self) -> i64 {
        let now_ms = self.clock.now_ms();
        let mut state = self.lock();
        match &mut state.since_ms {
            Some(since) => (now_ms - std::mem::replace(since, now_ms)).max(0),
            None => 0,
        }
    }

    /// What a step of a turn charges; `None` when there is nothing to charge.
    pub fn charge(&self, turn_id: &str) -> Option<GoalCharge> {
        let goal_id = {
            let state = self.lock();
            state.goal.as_ref().filter(|goal| rules::is_counted(&goal.status))?.goal_id.clone()
        };
        let time_ms = self.take_time();
        self.lock().charged_turn = Some(turn_id.to_owned());
        Some(GoalCharge { goal_id, time_ms, turn_id: turn_id.to_owned(), ..GoalCharge::default() })
    }

    /// The goal as a charge left it; handed back if clients see a difference.
    pub fn charged(&self, goal: Option<GoalRow>) -> Option<GoalRow> {
        let goal = goal?;
        let before = self.goal();
        let turn_id = self.lock().charged_turn.clone();
        self.take_over(Some(goal.clone()), turn_id.as_deref());
        let seen = |goal: &GoalRow| {
            (goal.status.clone(), goal.tokens_used, goal.time_used_ms / 1000, goal.objective.clone())
        };
        let differs = before.as_ref().is_none_or(|before| seen(before) != seen(&goal));
        differs.then_some(goal)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
