//! Asking the model: one request, its reply read as it comes, its calls carried out, and rounds after a failure.

use serde_json::{Value, json};

use super::RunningTurn;
use super::charge::{Recorded, Rest};
use super::response::{DoneItem, Outcome, Response, Whole};
use crate::model::client::ResponseStream;
use crate::model::error::{ModelError, Retry, delay};
use crate::model::request::Request;
use crate::protocol::error::TurnError;
use crate::protocol::turn::TurnStatus;
use crate::runtime::calls::{self, CarriedOut, Stop};
use crate::runtime::recorder::ResponseUsage;
use crate::store::rows::TokenCounts;

impl RunningTurn {
    /// Ask the model once, in as many rounds as it takes, and carry out its calls.
    pub(super) async fn ask(&mut self) -> Result<Asked, TurnError> {
        let mut round = 0;
        loop {
            let outcome = self.one_response().await?;
            match outcome {
                Outcome::Interrupted => return Ok(Asked::Interrupted),
                Outcome::Cut { calls } => {
                    return Ok(self.carry_out(&calls).await?.unwrap_or(Asked::Again));
                }
                Outcome::Whole(response) => return self.response_done(response).await,
                Outcome::Failed { error, calls } => {
                    if let Some(stopped) = self.carry_out(&calls).await? {
                        return Ok(stopped);
                    }
                    round += 1;
                    if !self.next_round(&error, round).await? {
                        return Ok(Asked::Interrupted);
                    }
                }
            }
        }
    }

    /// Send the request and read the reply.
    async fn one_response(&mut self) -> Result<Outcome, TurnError> {
        let request = self.request().await?;
        let cancel = self.context.cancel.clone();
        let started = tokio::select! {
            started = self.open_stream(&request) => started,
            () = cancel.cancelled() => return Ok(Outcome::Interrupted),
        };
        match started {
            Ok(stream) => Response::new(self, stream).read().await,
            Err(error) => Ok(Outcome::Failed { error, calls: Vec::new() }),
        }
    }

    /// Send a request; the stream of the reply.
    pub(super) async fn open_stream(&mut self, request: &Request) -> Result<ResponseStream, ModelError> {
        let runtime = &self.context.runtime;
        let key = self.context.provider.requires_openai_auth.then(|| runtime.config.home().api_key());
        let stream = runtime.model.start(&self.context.provider, key.flatten(), request).await?;
        if self.turn_state.is_none() {
            self.turn_state.clone_from(&stream.turn_state);
        }
        Ok(stream)
    }

    /// Announce another round and wait for it; an error that allows none is the turn's end. `false`: interrupted.
    pub(super) async fn next_round(&mut self, error: &ModelError, round: u32) -> Result<bool, TurnError> {
        let most = self.context.provider.stream_retries();
        let (message, wait) = match error.retry {
            Retry::WhileOffline if most > 0 => ("Reconnecting... waiting for network".to_owned(), None),
            Retry::Round(after) if round <= most => (format!("Reconnecting... {round}/{most}"), after),
            _ => {
                self.resets_at = error.resets_at;
                return Err(turn_error(error));
            }
        };
        let info = json!({"responseStreamDisconnected": {"httpStatusCode": error.http_status}});
        let announced = TurnError {
            message,
            codex_error_info: serde_json::from_value(info).ok(),
            additional_details: Some(error.message.clone()),
            misalignment: None,
        };
        self.tell(self.context.notify.error(&self.context.turn.id, announced, true));
        let jitter = f64::from((self.context.runtime.clock.now_ms() % 100) as i32) / 100.0;
        let wait = wait.unwrap_or_else(|| delay(round, jitter));
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(true),
            () = self.context.cancel.cancelled() => Ok(false),
        }
    }

    /// Count a response's tokens to the turn's, and make its row of the ledger.
    pub(super) fn take_usage(&mut self, response_id: String, tokens: TokenCounts) -> ResponseUsage {
        self.tokens += tokens;
        ResponseUsage {
            response_id: if response_id.is_empty() {
                self.context.runtime.clock.new_id().to_string()
            } else {
                response_id
            },
            tokens,
            turn_tokens: self.tokens,
            model: self.asked.model.clone(),
            model_provider: self.context.settings.model_provider.clone(),
            window: self.window(),
            is_of_context: self.context.side.is_none(),
        }
    }

    /// A response is whole: record its tokens, and carry out its calls or end the turn with it.
    async fn response_done(&mut self, response: Whole) -> Result<Asked, TurnError> {
        let Whole { response_id, usage: tokens, end_turn, calls, last_item } = response;
        let usage = tokens.map(|tokens| self.take_usage(response_id, tokens));
        let has_more = !calls.is_empty() || end_turn == Some(false);
        if has_more || !self.context.steering.close_if_empty() {
            if let Some(item) = &last_item {
                self.record_done(item).await?;
            }
            return self.go_on(&calls, usage, has_more).await;
        }
        let (total, goal) = if self.context.side.is_some() {
            self.finish_review(usage.as_ref()).await?
        } else {
            self.end_with(last_item.as_ref(), usage.as_ref()).await?
        };
        self.goal_shown = goal;
        self.before_status.extend(self.usage_events(total, tokens));
        Ok(Asked::Done)
    }

    /// Carry out the calls of a response, after which the model is asked again.
    async fn go_on(
        &mut self,
        calls: &[Value],
        usage: Option<ResponseUsage>,
        has_more: bool,
    ) -> Result<Asked, TurnError> {
        self.calls_made += calls.len();
        let CarriedOut { outputs, stop } = calls::carry_out(&self.context, calls).await;
        let rest = Rest { outputs: &outputs, usage: usage.as_ref(), ..Rest::default() };
        let (total, goal) = self.record_response(rest, None).await?;
        self.tell_goal(goal).await?;
        let tokens = usage.map(|usage| usage.tokens);
        self.tell_usage(total, tokens);
        if stop.is_none() && !has_more {
            let (steering, cancel) = (&self.context.steering, &self.context.cancel);
            tokio::select! {
                () = steering.settled() => {}
                () = cancel.cancelled() => return Ok(Asked::Interrupted),
            }
        }
        let is_full = tokens.unwrap_or_default().total >= self.compaction_limit();
        let stop = match stop {
            None if self.context.side.is_none() && is_full => self.compact(false).await.err(),
            stop => stop,
        };
        match stop {
            None => Ok(Asked::Again),
            Some(Stop::Interrupted) => Ok(Asked::Interrupted),
            Some(Stop::Failed(error)) => Err(error),
        }
    }

    /// The turn ends with this response.
    async fn end_with(
        &mut self,
        last_item: Option<&DoneItem>,
        usage: Option<&ResponseUsage>,
    ) -> Result<Recorded, TurnError> {
        let end = self.turn_end(TurnStatus::Completed, None);
        let rest = Rest { last_item, usage, end: Some(&end), ..Rest::default() };
        let recorded = self.record_response(rest, None).await;
        if recorded.is_err() {
            // A message that could not be stored is none; the end of the turn must not carry it.
            self.last_message = self.last_message.take().filter(|_| last_item.is_none());
        }
        let recorded = recorded?;
        if let Some(item) = last_item {
            self.context.tell_done(&item.wire);
        }
        Ok(recorded)
    }

    /// Carry out the calls of a response and record their outputs.
    async fn carry_out(&mut self, calls: &[Value]) -> Result<Option<Asked>, TurnError> {
        let CarriedOut { outputs, stop } = calls::carry_out(&self.context, calls).await;
        if !outputs.is_empty() {
            self.context.record_items(&outputs, None).await?;
        }
        match stop {
            None => Ok(None),
            Some(Stop::Interrupted) => Ok(Some(Asked::Interrupted)),
            Some(Stop::Failed(error)) => Err(error),
        }
    }

    /// Record an item that is whole, then tell.
    pub(super) async fn record_done(&self, item: &DoneItem) -> Result<(), TurnError> {
        self.context.record_items(std::slice::from_ref(&item.model_item), Some(&item.wire)).await?;
        self.context.tell_done(&item.wire);
        Ok(())
    }
}

/// What comes after a response.
pub(super) enum Asked {
    Again,
    Done,
    Interrupted,
}

/// A model's failure as the turn's.
fn turn_error(error: &ModelError) -> TurnError {
    TurnError {
        message: error.message.clone(),
        codex_error_info: Some(error.info.clone()),
        additional_details: None,
        misalignment: None,
    }
}
