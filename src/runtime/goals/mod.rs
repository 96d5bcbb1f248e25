//! Goals: what a thread works towards by itself, with a budget and an exact account (`protocol/goals.md`).
//!
//! [`rules`] has the transitions as pure functions, [`keeper`] what a loaded thread knows of its goal, [`texts`] what
//! the model is told; the store charges usage in the transaction of the ledger's row. Going on by itself, and what stops
//! that, is in `onward`.

pub mod keeper;
pub mod rules;
pub mod texts;

use std::sync::Arc;

use super::client::{Event, Request};
use super::error::{Result, RuntimeError};
use super::thread::Command;
use super::{Runtime, parse_id};
use crate::clock::Clock;
use crate::protocol::goal::{
    ThreadGoal, ThreadGoalClearParams, ThreadGoalClearedNotification, ThreadGoalGetParams,
    ThreadGoalSetParams, ThreadGoalUpdatedNotification,
};
use crate::store::goals::{GoalChanged, GoalEvent, GoalRow};
use rules::{Around, Edit};

/// The switch of goals; they are on unless it says otherwise.
pub const FEATURE: &str = "goals";

impl Runtime {
    /// `thread/goal/set`.
    ///
    /// # Errors
    /// The thread has no goals, or the goal cannot be; the texts are those of the page.
    pub async fn set_goal(
        self: &Arc<Self>,
        params: ThreadGoalSetParams,
        request: &Arc<dyn Request>,
    ) -> Result<ThreadGoal> {
        let thread_id = self.thread_with_goals(&params.thread_id).await?;
        let edit =
            Edit { objective: params.objective, status: params.status, token_budget: params.token_budget };
        if let Some(handle) = self.loaded(&thread_id) {
            let request = request.clone();
            let goal = handle.ask(|reply| Command::SetGoal(Box::new(edit), request, reply)).await?;
            return Ok(to_wire(&thread_id, &goal));
        }
        let max_budget = self.config.load().config.goals.max_goal_token_budget;
        let goal = self.edit_goal(&thread_id, edit, max_budget, GoalEvent::set()).await?;
        request.reserve_reply();
        self.clients.broadcast(&updated(&self.clock, &thread_id, &goal, None));
        Ok(to_wire(&thread_id, &goal))
    }

    /// `thread/goal/get`.
    ///
    /// # Errors
    /// The thread has no goals.
    pub async fn get_goal(self: &Arc<Self>, params: &ThreadGoalGetParams) -> Result<Option<ThreadGoal>> {
        let thread_id = self.thread_with_goals(&params.thread_id).await?;
        Ok(self.store.goal(&thread_id).await?.map(|goal| to_wire(&thread_id, &goal)))
    }

    /// `thread/goal/clear`: whether there was one.
    ///
    /// # Errors
    /// The thread has no goals.
    pub async fn clear_goal(
        self: &Arc<Self>,
        params: &ThreadGoalClearParams,
        request: &Arc<dyn Request>,
    ) -> Result<bool> {
        let thread_id = self.thread_with_goals(&params.thread_id).await?;
        if let Some(handle) = self.loaded(&thread_id) {
            let request = request.clone();
            return handle.ask(|reply| Command::ClearGoal(request, reply)).await;
        }
        let outcome = self.store.change_goal(&thread_id, GoalEvent::of("cleared"), Arc::new(|_| Ok(None)));
        let cleared = outcome.await?.is_ok_and(|(before, _)| before.is_some());
        request.reserve_reply();
        if cleared {
            self.clients.broadcast(&goal_cleared(&self.clock, &thread_id));
        }
        Ok(cleared)
    }

    /// Edit the goal of a stored thread that is not loaded.
    async fn edit_goal(
        &self,
        thread_id: &str,
        edit: Edit,
        max_budget: Option<i64>,
        event: GoalEvent,
    ) -> Result<GoalRow> {
        let around = Around::now(&self.clock, thread_id, max_budget);
        let rule = Arc::new(move |goal: Option<&GoalRow>| edit.apply(goal, &around).map(Some));
        edited(self.store.change_goal(thread_id, event, rule).await?)
    }

    /// The id of a thread that may have a goal, loaded or not.
    async fn thread_with_goals(self: &Arc<Self>, thread_id: &str) -> Result<String> {
        let thread_id = parse_id("thread", thread_id)?;
        if let Some(handle) = self.loaded(&thread_id) {
            if handle.with_live(|live| live.ephemeral) {
                return Err(RuntimeError::invalid(format!(
                    "ephemeral thread does not support goals: {thread_id}"
                )));
            }
            if !handle.goals().enabled {
                return Err(feature_disabled());
            }
            return Ok(thread_id);
        }
        if !self.config.load().config.feature(FEATURE, true) {
            return Err(feature_disabled());
        }
        self.importer.indexed().await;
        match self.store.thread(&thread_id).await? {
            Some(row) if row.archived_at_ms.is_none() => Ok(thread_id),
            _ => Err(RuntimeError::thread_not_found(&thread_id)),
        }
    }
}

fn feature_disabled() -> RuntimeError {
    RuntimeError::invalid("goals feature is disabled")
}

/// The goal that an edit has come to.
pub(super) fn edited(changed: GoalChanged) -> Result<GoalRow> {
    match changed {
        Ok((_, Some(goal))) => Ok(goal),
        Ok((_, None)) => Err(RuntimeError::Failed("the goal was lost while it was edited".to_owned())),
        Err(text) => Err(RuntimeError::invalid(text)),
    }
}

impl GoalEvent {
    /// A change of this kind.
    pub(super) fn of(kind: &str) -> GoalEvent {
        GoalEvent { kind: kind.to_owned(), ..GoalEvent::default() }
    }

    /// A client or the model sets it.
    pub(super) fn set() -> GoalEvent {
        GoalEvent::of("set")
    }
}

/// A goal as clients see it.
pub fn to_wire(thread_id: &str, goal: &GoalRow) -> ThreadGoal {
    ThreadGoal {
        created_at: goal.created_at_ms / 1000,
        objective: goal.objective.clone(),
        status: rules::status(&goal.status),
        thread_id: thread_id.to_owned(),
        time_used_seconds: goal.time_used_ms / 1000,
        token_budget: goal.token_budget,
        tokens_used: goal.tokens_used,
        updated_at: goal.updated_at_ms / 1000,
    }
}

/// A goal as the model and rollouts have it: as on the wire, without a budget that is not there.
pub fn to_json(thread_id: &str, goal: &GoalRow) -> serde_json::Value {
    let mut json = serde_json::to_value(to_wire(thread_id, goal)).unwrap_or_default();
    if let Some(members) = json.as_object_mut()
        && goal.token_budget.is_none()
    {
        members.remove("tokenBudget");
    }
    json
}

/// `thread/goal/updated`, to every connection.
pub fn updated(clock: &Clock, thread_id: &str, goal: &GoalRow, turn_id: Option<&str>) -> Event {
    let params = ThreadGoalUpdatedNotification {
        goal: to_wire(thread_id, goal),
        thread_id: thread_id.to_owned(),
        turn_id: turn_id.map(str::to_owned),
    };
    Event::notification("thread/goal/updated", &params, clock.now_ms())
}

/// `thread/goal/cleared`, to every connection.
pub fn goal_cleared(clock: &Clock, thread_id: &str) -> Event {
    let params = ThreadGoalClearedNotification { thread_id: thread_id.to_owned() };
    Event::notification("thread/goal/cleared", &params, clock.now_ms())
}
