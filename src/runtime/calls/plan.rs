//! `update_plan`: the plan of the model, shown to the clients. It makes no item.

use std::sync::Arc;

use serde_json::json;

use super::super::turn::TurnContext;
use super::{Call, Output};
use crate::protocol::turn::{TurnPlanStep, TurnPlanStepStatus, TurnPlanUpdatedNotification};
use crate::tools;
use crate::tools::plan::{PLAN_UPDATED, PlanArguments, StepStatus};

pub(super) fn update_plan(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: PlanArguments = tools::arguments(call.input)?;
    let plan = arguments
        .plan
        .into_iter()
        .map(|step| TurnPlanStep {
            status: match step.status {
                StepStatus::Pending => TurnPlanStepStatus::Pending,
                StepStatus::InProgress => TurnPlanStepStatus::InProgress,
                StepStatus::Completed => TurnPlanStepStatus::Completed,
            },
            step: step.step,
        })
        .collect();
    let params = TurnPlanUpdatedNotification {
        explanation: arguments.explanation,
        plan,
        thread_id: turn.notify.thread_id.to_string(),
        turn_id: turn.turn.id.clone(),
    };
    turn.tell(turn.notify.event("turn/plan/updated", &params));
    Ok(json!(PLAN_UPDATED))
}
