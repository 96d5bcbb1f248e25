//! The end of a turn: stored, then told.

use super::RunningTurn;
use super::charge::Rest;
use crate::protocol::error::TurnError;
use crate::protocol::turn::{Turn, TurnItemsView, TurnStatus};
use crate::runtime::calls::{self, Stop};
use crate::runtime::recorder::TurnEnd;
use crate::runtime::thread::{Command, TurnEnded, TurnReport};
use crate::runtime::view;

/// How a turn comes to its end.
pub(super) enum End {
    /// It is stored already, with the last response.
    Stored,
    Interrupted,
    Failed(TurnError),
}

impl From<Stop> for End {
    fn from(stop: Stop) -> End {
        match stop {
            Stop::Interrupted => End::Interrupted,
            Stop::Failed(error) => End::Failed(error),
        }
    }
}

impl RunningTurn {
    pub(super) fn turn_end(&self, status: TurnStatus, error: Option<&TurnError>) -> TurnEnd {
        TurnEnd {
            turn_id: self.context.turn.id.clone(),
            root_turn_id: self.context.turn.root_turn_id.clone(),
            status,
            error: error.and_then(|error| serde_json::to_value(error).ok()),
            started_at_ms: self.context.started_at_ms,
            last_message: self
                .last_message
                .as_ref()
                .and_then(|item| item["text"].as_str())
                .map(str::to_owned),
        }
    }

    /// Record the end, if it is not yet, and report it.
    pub(super) async fn finish(&mut self, end: End) {
        let (status, error) = match end {
            End::Stored => (TurnStatus::Completed, None),
            End::Interrupted => (TurnStatus::Interrupted, None),
            End::Failed(error) => (TurnStatus::Failed, Some(error)),
        };
        if status == TurnStatus::Interrupted {
            calls::command::end_those_of(&self.context).await;
        }
        if status != TurnStatus::Completed {
            // A message that was accepted is kept, though nobody answers it any more.
            for message in self.context.steering.close() {
                if let Err(error) = self.record_message(&message).await {
                    tracing::error!(error = %error.message, "a message could not be recorded");
                }
            }
            let stop = error.as_ref().map(|error| self.goal_stop(error));
            let turn_end = self.turn_end(status, error.as_ref());
            match self.record_response(Rest { end: Some(&turn_end), ..Rest::default() }, stop).await {
                Ok((_, goal)) => self.goal_shown = goal,
                Err(error) => {
                    tracing::error!(error = %error.message, "the end of a turn could not be recorded");
                }
            }
        }
        self.context.recorder.lock().await.turn_is_over();
        let last_diff = calls::last_diff(&self.context, &*self.context.diff.lock().await);
        self.before_status.extend(last_diff);
        let context = &self.context;
        let completed_at_ms = context.runtime.clock.now_ms();
        let shown = self.last_message.take().filter(|_| status == TurnStatus::Completed);
        let items: Vec<_> = shown.iter().map(view::raw).collect();
        let turn = Turn {
            items_view: if items.is_empty() { TurnItemsView::NotLoaded } else { TurnItemsView::Summary },
            items,
            status,
            error: error.clone(),
            started_at: Some(view::seconds(context.started_at_ms)),
            completed_at: Some(view::seconds(completed_at_ms)),
            duration_ms: Some(completed_at_ms - context.started_at_ms),
            ..context.turn.clone()
        };
        let after_status = error.map(|error| context.notify.error(&context.turn.id, error, false));
        let ended = TurnEnded {
            turn,
            before_status: std::mem::take(&mut self.before_status),
            after_status: after_status.into_iter().collect(),
            goal: self.goal_shown.take().map(|shown| self.goal_event(&shown)),
            calls: self.calls_made,
        };
        let _ = context.reports.send(Command::Turn(TurnReport::Ended(Box::new(ended))));
    }
}
