//! The model's tools for the goal of its thread (`protocol/goals.md`, section 6).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::goals::rules::Edit;
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
    let Create { objective, token_budget } = match tools::arguments(call.input) {
        Ok(arguments) => arguments,
        Err(text) => return Ok(json!(text.trim_start_matches("failed to parse function arguments: "))),
    };
    let edit = Edit {
        objective: Some(objective),
        status: Some(ThreadGoalStatus::Active),
        token_budget: token_budget.map(Some),
    };
    let around = around(turn);
    let rule = Arc::new(move |goal: Option<&GoalRow>| match goal {
        Some(goal) if goal.status != "complete" => Err(UNFINISHED.to_owned()),
        // A goal that is complete makes room for another.
        _ => edit.apply(None, &around).map(Some),
    });
    change(turn, GoalEvent { turn_id: Some(turn.turn.id.clone()), ..GoalEvent::set() }, rule, false).await
}

pub(super) async fn update_goal(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let Update { status } = match tools::arguments(call.input) {
        Ok(arguments) => arguments,
        Err(text) => return Ok(json!(text)),
    };
    let status = match status.as_str() {
        "complete" => ThreadGoalStatus::Complete,
        "blocked" => ThreadGoalStatus::Blocked,
        "paused" => ThreadGoalStatus::Paused,
        _ => return Ok(json!(OTHER_STATUS)),
    };
    let edit = Edit { status: Some(status), ..Edit::default() };
    let around = around(turn);
    let rule = Arc::new(move |goal: Option<&GoalRow>| match goal {
        None => Err("cannot update goal because this thread has no goal".to_owned()),
        goal => edit.apply(goal, &around).map(Some),
    });
    let event = GoalEvent {
        kind: "status".to_owned(),
        turn_id: Some(turn.turn.id.clone()),
        reason: Some("the model said so".to_owned()),
    };
    change(turn, event, rule, status == ThreadGoalStatus::Complete).await
}

fn around(turn: &TurnContext) -> goals::rules::Around {
    goals::rules::Around {
        thread_id: turn.notify.thread_id.to_string(),
        max_budget: turn.goals.max_budget,
        now_ms: turn.runtime.clock.now_ms(),
        new_id: turn.runtime.clock.new_random_id().to_string(),
        time_ms: turn.goals.take_time(),
    }
}

async fn change(
    turn: &Arc<TurnContext>,
    event: GoalEvent,
    rule: crate::store::goals::GoalRule,
    reports: bool,
) -> Output {
    let thread_id = &turn.notify.thread_id;
    match turn.runtime.store.change_goal(thread_id, event, rule).await.map_err(failed)? {
        Err(text) => Ok(json!(text)),
        Ok((_, goal)) => {
            turn.goals.replace(goal.clone());
            if let Some(goal) = &goal {
                let told = goals::updated(&turn.runtime.clock, thread_id, goal, Some(&turn.turn.id));
                turn.report(TurnReport::ToAll(told));
            }
            let report = goal.as_ref().filter(|_| reports).and_then(texts::completion_report);
            Ok(result(turn, goal.as_ref(), report))
        }
    }
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
