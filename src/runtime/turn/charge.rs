//! What a turn charges to the goal of its thread, in the transaction of what it records (`protocol/goals.md`, section 4),
//! and what clients are told of tokens and goals.

use serde_json::{Value, json};

use super::response::DoneItem;
use super::{RunningTurn, internal};
use crate::protocol::error::{CodexErrorInfo, TurnError};
use crate::protocol::goal::ThreadGoalStatus;
use crate::protocol::settings::ModeKind;
use crate::runtime::client::Event;
use crate::runtime::error::Result as RuntimeResult;
use crate::runtime::goals::keeper::Shown;
use crate::runtime::goals::{self, rules, texts};
use crate::runtime::recorder::{ResponseUsage, TurnEnd};
use crate::runtime::thread::TurnReport;
use crate::runtime::view;
use crate::store::goals::{GoalCharge, GoalRow, GoalStop};
use crate::store::rows::TokenCounts;

/// What is left of a response when it is whole.
#[derive(Clone, Copy, Default)]
pub(super) struct Rest<'a> {
    /// The message that it ends with, if that is not recorded yet.
    pub(super) last_item: Option<&'a DoneItem>,
    /// The outputs of its calls, or other model items.
    pub(super) outputs: &'a [Value],
    /// Its tokens.
    pub(super) usage: Option<&'a ResponseUsage>,
    /// The end of the turn, if it was the last.
    pub(super) end: Option<&'a TurnEnd>,
}

/// The thread's totals, and the goal if clients see that it has changed.
pub(super) type Recorded = (TokenCounts, Option<Shown>);

impl RunningTurn {
    /// Record what is left of a response, and charge it. `stop`: the goal ends with it.
    pub(super) async fn record_response(
        &self,
        rest: Rest<'_>,
        stop: Option<GoalStop>,
    ) -> Result<Recorded, TurnError> {
        let context = &self.context;
        let outputs = context.of_thread(rest.outputs).await;
        let last_item = rest.last_item.map(|item| (&item.model_item, &item.wire));
        let mut recorder = context.recorder.lock().await;
        let charge = self.charge(stop);
        let time_ms = charge.as_ref().map_or(0, |charge| charge.time_ms);
        let outcome =
            recorder.response_done(&context.turn.id, last_item, outputs, rest.usage, rest.end, charge).await;
        self.charged(outcome, time_ms)
    }

    /// What is charged to the goal with the next record. In plan mode nothing counts, neither tokens nor time. To be
    /// called, recorded and `charged` under the recorder's lock, as are all changes of a goal.
    pub(super) fn charge(&self, stop: Option<GoalStop>) -> Option<GoalCharge> {
        let context = &self.context;
        if context.settings.mode == ModeKind::Plan {
            context.goals.skip_time();
            return None;
        }
        context.goals.charge(&context.turn.id, self.counted, stop)
    }

    /// Take over what a charge has come to; time that was not charged counts still.
    pub(super) fn charged(
        &self,
        outcome: RuntimeResult<(TokenCounts, Option<GoalRow>)>,
        time_ms: i64,
    ) -> Result<Recorded, TurnError> {
        let goals = &self.context.goals;
        match outcome {
            Ok((total, goal)) => Ok((total, goals.charged(goal, &self.context.turn.id))),
            Err(error) => {
                goals.give_back(time_ms);
                Err(internal(error))
            }
        }
    }

    /// What everybody is told of a charge.
    pub(super) fn goal_event(&self, shown: &Shown) -> Event {
        let context = &self.context;
        goals::updated(&context.runtime.clock, &context.notify.thread_id, &shown.goal, Some(&context.turn.id))
    }

    /// Tell of a charge in the midst of a turn. A budget that it has used up is told to the model, too.
    pub(super) async fn tell_goal(&self, shown: Option<Shown>) -> Result<(), TurnError> {
        let Some(shown) = shown else { return Ok(()) };
        self.report(TurnReport::ToAll(self.goal_event(&shown)));
        if shown.has_crossed {
            self.context.record_items(&[texts::budget_crossed(&shown.goal)], None).await?;
        }
        Ok(())
    }

    /// How a failure of the turn stops the goal.
    pub(super) fn goal_stop(&self, error: &TurnError) -> GoalStop {
        let limited = error.codex_error_info == Some(CodexErrorInfo::UsageLimitExceeded);
        let status = if limited { ThreadGoalStatus::UsageLimited } else { ThreadGoalStatus::Blocked };
        GoalStop {
            status: rules::word(status).to_owned(),
            reason: format!("a turn failed: {}", error.message),
            wakes_at_ms: self.resets_at.filter(|_| limited).map(|seconds| seconds.saturating_mul(1000)),
        }
    }

    /// What is told of a response's tokens; without tokens, of the limits alone.
    pub(super) fn usage_events(&self, total: TokenCounts, last: Option<TokenCounts>) -> Vec<Event> {
        let notify = &self.context.notify;
        let usage = last.map(|last| {
            let usage = view::token_usage(total, last, Some(self.window()));
            notify.token_usage(&self.context.turn.id, usage)
        });
        let limits = json!({"rateLimits": {
            "limitId": "codex", "limitName": null, "normalModelSlug": null, "primary": null, "secondary": null,
            "credits": null, "individualLimit": null, "spendControlReached": null, "planType": null,
            "rateLimitReachedType": null,
        }});
        usage.into_iter().chain([notify.event("account/rateLimits/updated", &limits)]).collect()
    }

    pub(super) fn tell_usage(&self, total: TokenCounts, last: Option<TokenCounts>) {
        for event in self.usage_events(total, last) {
            self.tell(event);
        }
    }
}
