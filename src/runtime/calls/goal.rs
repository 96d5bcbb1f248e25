//! The model's tools for the goal of its thread (`protocol/goals.md`, section 6).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::goals::rules::{Around, Edit};
use super::super::goals::{self, texts};
use super::super::thread::TurnReport;
use super::super::turn::{TurnContext, internal};
use super::{Call, Output, Stop};
use crate::protocol::goal::ThreadGoalStatus;
use crate::store::goals::{GoalEvent, GoalRow};
use crate::tools;

const OTHER_STATUS: &str = "update_goal can only mark the existing goal complete, blocked, or paused at the user's \
                            explicit request; resume, budget-limited, and usage-limited status changes are controlled \
                            by the user or system";
const UNFINISHED: &str = "cannot create a new goal because this thread has an unfinished goal; complete the existing \
                          goal first";

#[derive(Deserialize)]
struct Create {
    objective: String,
    #[serde(default)]
    token_budget: Option<i64>,
}

#[derive(Deserialize)]
struct Update {
    status: String,
}

/// Whether the model has these tools.
pub(super) fn is_offered(turn: &TurnContext) -> bool {
    turn.goals.enabled && turn.side.is_none()
}

pub(super) async fn get_goal(turn: &Arc<TurnContext>) -> Output {
    let goal = turn.runtime.store.goal(&turn.notify.thread_id).await.map_err(failed)?;
    Ok(result(turn, goal.as_ref(), None))
}

pub(super) async fn create_goal(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let Create { objective, token_budget } = tools::arguments(call.input)
        .map_err(|text| text.trim_start_matches("failed to parse function arguments: ").to_owned())?;
    let edit = Edit {
        objective: Some(objective),
        status: Some(ThreadGoalStatus::Active),
        token_budget: token_budget.map(Some),
    };
    change(turn, GoalEvent::set(), false, move |goal, around| match goal {
        Some(goal) if goal.status != "complete" => Err(UNFINISHED.to_owned()),
        // A goal that is complete makes room for another.
        _ => edit.apply(None, around),
    })
    .await
}

pub(super) async fn update_goal(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let Update { status } = tools::arguments(call.input)?;
    let status = match status.as_str() {
        "complete" => ThreadGoalStatus::Complete,
        "blocked" => ThreadGoalStatus::Blocked,
        "paused" => ThreadGoalStatus::Paused,
        _ => return Err(OTHER_STATUS.to_owned().into()),
    };
    let edit = Edit { status: Some(status), ..Edit::default() };
    let event = GoalEvent { reason: Some("the model said so".to_owned()), ..GoalEvent::of("status") };
    change(turn, event, status == ThreadGoalStatus::Complete, move |goal, around| match goal {
        None => Err("cannot update goal because this thread has no goal".to_owned()),
        goal => edit.apply(goal, around),
    })
    .await
}

/// Change the goal by a rule, and tell of it.
async fn change(
    turn: &TurnContext,
    event: GoalEvent,
    reports: bool,
    rule: impl Fn(Option<&GoalRow>, &Around) -> Result<GoalRow, String> + Send + Sync + 'static,
) -> Output {
    let (thread_id, clock) = (&turn.notify.thread_id, &turn.runtime.clock);
    let event = GoalEvent { turn_id: Some(turn.turn.id.clone()), ..event };
    let around = Around::now(clock, thread_id, turn.goals.max_budget);
    let changed = {
        let _in_order = turn.recorder.lock().await;
        let rule = move |goal: Option<&GoalRow>, time_ms| {
            rule(goal, &Around { time_ms, ..around.clone() }).map(Some)
        };
        turn.goals.change(&turn.runtime.store, thread_id, event, rule).await.map_err(failed)?
    };
    let (_, goal) = changed?;
    if let Some(goal) = &goal {
        turn.report(TurnReport::ToAll(goals::updated(clock, thread_id, goal, Some(&turn.turn.id))));
    }
    let report = goal.as_ref().filter(|_| reports).and_then(texts::completion_report);
    Ok(result(turn, goal.as_ref(), report))
}

fn result(turn: &TurnContext, goal: Option<&GoalRow>, report: Option<&str>) -> Value {
    let result = json!({
        "goal": goal.map(|goal| goals::to_json(&turn.notify.thread_id, goal)),
        "remainingTokens": goal.and_then(texts::remaining),
        "completionBudgetReport": report,
    });
    json!(result.to_string())
}

fn failed(error: crate::store::StoreError) -> Stop {
    Stop::Failed(internal(error.into()))
}
