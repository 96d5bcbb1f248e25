//! Compaction: the model's context starts anew with a summary of what was before (`protocol/turns.md`, section 9).
//!
//! Only the context is replaced, never the history: one line is appended that holds the summary and points at the
//! messages of the user that the model is still shown. So nothing is stored twice, however often a thread is compacted,
//! and every turn stays readable. It happens on `thread/compact/start`, and by itself when a response shows that the
//! model's limit is near: before the user's message of the next turn, or between two responses of a turn.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{RunningTurn, TurnContext, internal};
use crate::config::Config;
use crate::model::catalog;
use crate::model::error::ModelError;
use crate::model::event::ModelEvent;
use crate::protocol::error::CodexErrorInfo;
use crate::protocol::turn::TurnStatus;
use crate::runtime::calls::Stop;
use crate::runtime::error::RuntimeError;
use crate::runtime::prompt;
use crate::runtime::recorder::{Compaction, ResponseUsage};
use crate::runtime::thread::TurnReport;
use crate::runtime::view::{self, raw};
use crate::store::rows::TokenCounts;

/// The most that the kept messages of the user take up, in tokens.
const KEPT_TOKENS_MAX: usize = 20_000;

/// What an image takes up, roughly.
const IMAGE_TOKENS: usize = 1_500;

/// The part of the window from which a thread is compacted, when the configuration does not say.
const LIMIT_PERCENT: i64 = 90;

/// The size of the context, in tokens, from which it is compacted.
pub(in crate::runtime) fn limit(model: &str, config: &Config) -> i64 {
    config.model_auto_compact_token_limit.unwrap_or_else(|| {
        catalog::reported_window(model, config.model_context_window).saturating_mul(LIMIT_PERCENT) / 100
    })
}

/// A rough count of a model item's tokens, for what no response has counted; images by their number.
pub(in crate::runtime) fn tokens_of(item: &str) -> usize {
    let mut bytes = item.len();
    let mut images = 0;
    for (at, _) in item.match_indices("\"data:") {
        let length = item[at + 1..].find('"').unwrap_or(0);
        bytes = bytes.saturating_sub(length);
        images += 1;
    }
    bytes / 4 + images * IMAGE_TOKENS
}

/// Which of the user's messages the model is still shown: the newest that fit, in order.
fn kept(said: &[(i64, Box<RawValue>)]) -> Vec<i64> {
    let mut left = KEPT_TOKENS_MAX;
    let mut kept: Vec<i64> = said
        .iter()
        .rev()
        .map_while(|(line, item)| {
            left = left.checked_sub(tokens_of(item.get()))?;
            Some(*line)
        })
        .collect();
    kept.reverse();
    kept
}

/// The response that holds the summary.
struct Summary {
    text: String,
    usage: Option<ResponseUsage>,
    tokens: TokenCounts,
}

impl RunningTurn {
    /// Compact the thread's context. `is_all`: the turn is nothing else, and ends with it.
    pub(in crate::runtime) async fn compact(&mut self, is_all: bool) -> Result<(), Stop> {
        let context = self.context.clone();
        let started_at_ms = context.runtime.clock.now_ms();
        let mut wire = json!({"type": "contextCompaction", "id": context.runtime.clock.new_id().to_string(),
            "startedAtMs": started_at_ms, "completedAtMs": null});
        context.item_started(&wire);
        if is_all {
            self.tell_unchanged_usage().await;
        }
        let summary = self.summarize().await?;
        let said = context.recorder.lock().await.said().await.map_err(internal)?;
        let text = format!("{}\n{}", prompt::SUMMARY_HEAD, summary.text.trim());
        wire["completedAtMs"] = json!(context.runtime.clock.now_ms());
        let end = is_all.then(|| self.turn_end(TurnStatus::Completed, None));
        let (kept, context_again) = (kept(&said), context_again(&context));
        let ((total, goal), size) = {
            let mut recorder = context.recorder.lock().await;
            let charge = self.charge(None);
            let time_ms = charge.as_ref().map_or(0, |charge| charge.time_ms);
            let compaction = Compaction {
                summary: &text,
                kept: &kept,
                context: &context_again,
                wire: &wire,
                usage: summary.usage.as_ref(),
                end: end.as_ref(),
                charge,
            };
            let outcome = recorder.compacted(&context.turn.id, &compaction).await;
            (self.charged(outcome, time_ms)?, recorder.context_tokens().unwrap_or(0))
        };
        match goal {
            // The turn ends with it: the model is asked no more.
            Some(shown) if is_all => self.report(TurnReport::ToAll(self.goal_event(&shown))),
            goal => self.tell_goal(goal).await?,
        }
        if summary.usage.is_some() {
            self.tell_usage(total, Some(summary.tokens));
        }
        self.tell_usage(total, Some(TokenCounts { total: size, ..TokenCounts::default() }));
        context.tell_done(&wire);
        Ok(())
    }

    async fn tell_unchanged_usage(&self) {
        let context = &self.context;
        let thread_id = context.notify.thread_id.to_string();
        if let Ok(Some(usage)) = context.runtime.store.last_usage(&thread_id).await {
            let tokens = view::token_usage(usage.total, usage.last, usage.model_context_window);
            self.tell(context.notify.token_usage(&context.turn.id, tokens));
        }
    }

    /// Ask the model for a summary, in as many rounds as it takes. A context that is too large for the model by now
    /// loses its oldest items first.
    async fn summarize(&mut self) -> Result<Summary, Stop> {
        let instructions =
            self.context.config.compact_prompt.clone().unwrap_or_else(|| prompt::COMPACTION.to_owned());
        let task = json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": instructions}]});
        let task: Arc<RawValue> = raw(&task).into();
        let (mut dropped, mut round) = (0, 0);
        loop {
            match self.one_summary(&task, dropped).await? {
                Ok(summary) => return Ok(summary),
                Err((error, items))
                    if error.info == CodexErrorInfo::ContextWindowExceeded && dropped < items =>
                {
                    dropped += ((items - dropped) / 8).max(1);
                }
                Err((error, _)) => {
                    round += 1;
                    if !self.next_round(&error, round).await? {
                        return Err(Stop::Interrupted);
                    }
                }
            }
        }
    }

    /// One request for a summary, without the `dropped` oldest items; a failure comes with the number of items.
    async fn one_summary(
        &mut self,
        task: &Arc<RawValue>,
        dropped: usize,
    ) -> Result<Result<Summary, (ModelError, usize)>, Stop> {
        let mut request = self.request().await?;
        let items = request.body.input.len();
        request.body.input.drain(..dropped);
        request.body.input.push(task.clone());
        request.body.text = None;
        let cancel = self.context.cancel.clone();
        let read = async {
            let mut stream = self.open_stream(&request).await?;
            let mut text = String::new();
            loop {
                match stream.next().await {
                    Some(Ok(ModelEvent::ItemDone(item))) if item["type"] == "message" => {
                        text = message_text(&item);
                    }
                    Some(Ok(ModelEvent::Completed { response_id, usage, .. })) => {
                        return Ok((response_id, usage.map(super::response::counts), text));
                    }
                    Some(Ok(ModelEvent::Failed { code, message })) => {
                        return Err(ModelError::failed(&code, &message));
                    }
                    Some(Ok(ModelEvent::Incomplete { reason })) => {
                        return Err(ModelError::incomplete(&reason));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error),
                    None => return Err(ModelError::disconnected("stream closed before response.completed")),
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Stop::Interrupted),
            outcome = read => outcome,
        };
        Ok(match outcome {
            Ok((response_id, tokens, text)) => {
                let usage = tokens.map(|tokens| self.take_usage(response_id, tokens));
                Ok(Summary { text, usage, tokens: tokens.unwrap_or_default() })
            }
            Err(error) => Err((error, items)),
        })
    }
}

fn message_text(item: &Value) -> String {
    let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

/// The context that the model must be told again, since the compaction took it away.
fn context_again(turn: &TurnContext) -> Vec<Value> {
    let settings = crate::runtime::settings::Settings { told: Vec::new(), ..turn.settings.clone() };
    let today = turn.runtime.clock.today();
    prompt::context_messages(&settings, turn.instructions.as_deref(), &today).0
}

/// The failure of a message to a turn that takes none (`protocol/turns.md`, section 3).
pub(in crate::runtime) fn not_steerable(kind: &str) -> RuntimeError {
    RuntimeError::InvalidWith {
        message: format!("cannot steer a {kind} turn"),
        data: json!({"codexErrorInfo": {"activeTurnNotSteerable": {"turnKind": kind}}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(texts: &[&str]) -> Vec<(i64, Box<RawValue>)> {
        let raw = |text: &&str| serde_json::value::to_raw_value(text).unwrap();
        texts.iter().enumerate().map(|(line, text)| (line as i64, raw(text))).collect()
    }

    #[test]
    fn the_newest_messages_that_fit_are_kept() {
        assert_eq!(kept(&said(&["a", "b"])), [0, 1]);
        let long = "x".repeat(4 * KEPT_TOKENS_MAX - 100);
        assert_eq!(kept(&said(&[&long, &long, "b"])), [1, 2]);
        assert_eq!(kept(&said(&["a", &long, &long])), [2]);
        assert!(kept(&said(&[&"x".repeat(5 * KEPT_TOKENS_MAX)])).is_empty());
    }

    #[test]
    fn an_image_counts_by_its_number() {
        let item = json!({"image_url": format!("data:image/png;base64,{}", "A".repeat(1 << 20))}).to_string();
        assert_eq!(tokens_of(&item), IMAGE_TOKENS + 4);
    }
}
