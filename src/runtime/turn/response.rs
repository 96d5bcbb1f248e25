//! Reading one response of the model: items are recorded as they become whole, deltas are told as they come.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::RunningTurn;
use crate::model::client::ResponseStream;
use crate::model::error::ModelError;
use crate::model::event::{ModelEvent, Usage};
use crate::protocol::error::TurnError;
use crate::store::rows::TokenCounts;

/// What came of a response.
pub(super) enum Outcome {
    /// It is whole.
    Whole(Whole),
    /// A message has joined: what was streaming is dropped, and the model is asked again.
    Cut { calls: Vec<Value> },
    /// It broke; the calls that were whole are to be carried out.
    Failed { error: ModelError, calls: Vec<Value> },
    /// The turn is interrupted.
    Interrupted,
}

/// A whole response.
pub(super) struct Whole {
    /// The provider's id.
    pub(super) response_id: String,
    /// Its tokens, if told.
    pub(super) usage: Option<TokenCounts>,
    /// `false`: another request follows.
    pub(super) end_turn: Option<bool>,
    /// What the model calls.
    pub(super) calls: Vec<Value>,
    /// The message that it ends with, when the two came together: not recorded yet, so that they share a commit.
    pub(super) last_item: Option<DoneItem>,
}

/// An item that is whole, before it is recorded and told.
pub(super) struct DoneItem {
    /// As the model has it.
    pub(super) model_item: Value,
    /// As clients see it.
    pub(super) wire: Value,
}

/// An item that has begun.
struct Open {
    /// The model's id of it.
    model_id: String,
    /// The id that clients know.
    id: Arc<str>,
    started_at_ms: i64,
}

pub(super) struct Response<'a> {
    turn: &'a mut RunningTurn,
    stream: ResponseStream,
    open: Vec<Open>,
    calls: Vec<Value>,
    /// The next event, when it was there together with the last one.
    next: Option<Option<Result<ModelEvent, ModelError>>>,
    /// See [`Whole::last_item`]; the end of the response is the next event then.
    last_item: Option<DoneItem>,
}

impl<'a> Response<'a> {
    pub(super) fn new(turn: &'a mut RunningTurn, stream: ResponseStream) -> Response<'a> {
        Response { turn, stream, open: Vec::new(), calls: Vec::new(), next: None, last_item: None }
    }

    /// Read to the end.
    pub(super) async fn read(mut self) -> Result<Outcome, TurnError> {
        let (cancel, steering) = (self.turn.context.cancel.clone(), self.turn.context.steering.clone());
        loop {
            let event = match self.next.take() {
                Some(event) => event,
                None => tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Ok(Outcome::Interrupted),
                    event = self.stream.next() => event,
                    () = steering.wait() => return Ok(Outcome::Cut { calls: self.calls }),
                },
            };
            let error = match event {
                Some(Ok(ModelEvent::Completed { response_id, usage, end_turn })) => {
                    let usage = usage.map(counts);
                    let (calls, last_item) = (self.calls, self.last_item);
                    return Ok(Outcome::Whole(Whole { response_id, usage, end_turn, calls, last_item }));
                }
                Some(Ok(ModelEvent::Failed { code, message })) => ModelError::failed(&code, &message),
                Some(Ok(ModelEvent::Incomplete { reason })) => ModelError::incomplete(&reason),
                Some(Ok(event)) => {
                    self.on_event(event).await?;
                    continue;
                }
                Some(Err(error)) => error,
                None => ModelError::disconnected("stream closed before response.completed"),
            };
            return Ok(Outcome::Failed { error, calls: self.calls });
        }
    }

    async fn on_event(&mut self, event: ModelEvent) -> Result<(), TurnError> {
        match event {
            ModelEvent::ItemAdded(item) => self.item_added(&item),
            ModelEvent::TextDelta { item_id, delta } => {
                self.delta(&item_id, "item/agentMessage/delta", &delta, &[])
            }
            ModelEvent::SummaryPartAdded { item_id, summary_index } => {
                if let Some(open) = self.find(&item_id) {
                    let params = json!({"threadId": &*self.turn.context.notify.thread_id,
                        "turnId": self.turn.context.turn.id, "itemId": &*open.id, "summaryIndex": summary_index});
                    let event = self.turn.context.notify.event("item/reasoning/summaryPartAdded", &params);
                    self.turn.tell(event);
                }
            }
            ModelEvent::SummaryDelta { item_id, delta, summary_index } => {
                self.delta(
                    &item_id,
                    "item/reasoning/summaryTextDelta",
                    &delta,
                    &[("summaryIndex", summary_index)],
                );
            }
            ModelEvent::ReasoningDelta { item_id, delta, content_index } => {
                self.delta(&item_id, "item/reasoning/textDelta", &delta, &[("contentIndex", content_index)]);
            }
            ModelEvent::ItemDone(item) => self.item_done(item).await?,
            ModelEvent::Completed { .. } | ModelEvent::Failed { .. } | ModelEvent::Incomplete { .. } => {}
        }
        Ok(())
    }

    fn find(&self, model_id: &str) -> Option<&Open> {
        self.open.iter().find(|open| open.model_id == model_id)
    }

    /// A part of an item that was announced; of another it is dropped.
    fn delta(&self, item_id: &str, method: &'static str, delta: &str, more: &[(&str, i64)]) {
        let Some(open) = self.find(item_id) else { return };
        let context = &self.turn.context;
        let mut params = json!({"threadId": &*context.notify.thread_id, "turnId": context.turn.id, "itemId": &*open.id,
            "delta": delta});
        for (key, value) in more {
            params[*key] = json!(value);
        }
        self.turn.tell(context.notify.delta(method, &open.id, &params));
    }

    fn item_added(&mut self, item: &Value) {
        if let Some(shown) = self.wire(item, None) {
            let opened = self.start(item, shown);
            self.open.push(opened);
        }
    }

    /// Announce an item.
    fn start(&self, item: &Value, mut shown: Value) -> Open {
        let now_ms = self.turn.context.runtime.clock.now_ms();
        shown["startedAtMs"] = json!(now_ms);
        self.turn.context.announce(&shown);
        let id = shown["id"].as_str().unwrap_or_default();
        let model_id = item["id"].as_str().unwrap_or(id).to_owned();
        Open { model_id, id: id.into(), started_at_ms: now_ms }
    }

    /// An item is whole: record it, then tell.
    async fn item_done(&mut self, item: Value) -> Result<(), TurnError> {
        match item["type"].as_str() {
            Some("function_call" | "custom_tool_call") => {
                self.turn.context.record_items(std::slice::from_ref(&item), None).await?;
                self.calls.push(item);
                return Ok(());
            }
            Some("message" | "reasoning" | "web_search_call") => {}
            _ => return self.turn.context.record_items(&[item], None).await,
        }
        let announced =
            item["id"].as_str().and_then(|id| self.open.iter().position(|open| open.model_id == id));
        let opened = announced.map(|at| self.open.swap_remove(at));
        let Some(shown) = self.wire(&item, opened.as_ref().map(|open| &*open.id)) else {
            return self.turn.context.record_items(&[item], None).await;
        };
        let opened = opened.unwrap_or_else(|| self.start(&item, shown.clone()));
        let now_ms = self.turn.context.runtime.clock.now_ms();
        let mut wire = shown;
        if wire["type"] == "agentMessage" && self.turn.context.side.is_some() {
            // A reviewer's raw answer is announced only; the turn ends with what is made of it.
            self.turn.last_message = Some(wire);
            return self.turn.context.record_items(&[item], None).await;
        }
        wire["id"] = json!(&*opened.id);
        wire["startedAtMs"] = json!(opened.started_at_ms);
        wire["completedAtMs"] = json!(now_ms);
        let is_message = wire["type"] == "agentMessage";
        if is_message {
            self.turn.last_message = Some(wire.clone());
        }
        let done = DoneItem { model_item: item, wire };
        if is_message && self.comes_with_the_end() {
            self.last_item = Some(done);
            return Ok(());
        }
        self.turn.record_done(&done).await
    }

    /// Whether the end of the response is there already, so that nobody has to wait for it.
    fn comes_with_the_end(&mut self) -> bool {
        self.next = self.stream.next().now_or_never();
        matches!(self.next, Some(Some(Ok(ModelEvent::Completed { .. }))))
    }

    /// A model item as clients see it; `None` for one that is no item to them.
    fn wire(&self, item: &Value, id: Option<&str>) -> Option<Value> {
        let made_up = |prefix: &str| format!("{prefix}{}", self.turn.context.runtime.clock.new_id());
        let id_of = |prefix: &str| {
            let own = id.or_else(|| item["id"].as_str().filter(|id| !id.is_empty()));
            own.map_or_else(|| made_up(prefix), str::to_owned)
        };
        let texts = |key: &str| -> Vec<&str> {
            let parts = item[key].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().filter_map(|part| part["text"].as_str()).collect()
        };
        match item["type"].as_str()? {
            "message" if item["role"] != "user" => {
                let refused = item["content"].as_array().is_some_and(|parts| {
                    !parts.is_empty() && parts.iter().all(|part| part["type"] == "refusal")
                });
                (!refused).then(|| {
                    json!({"type": "agentMessage", "id": id_of("msg_"), "text": texts("content").concat(),
                        "phase": item.get("phase"), "moderation": null, "memoryCitation": null, "delivery": null,
                        "questions": null, "startedAtMs": null, "completedAtMs": null})
                })
            }
            "reasoning" => Some(json!({"type": "reasoning", "id": id_of("rs_"), "summary": texts("summary"),
                "content": texts("content"), "startedAtMs": null, "completedAtMs": null})),
            "web_search_call" => Some(json!({"type": "webSearch", "id": id_of("ws_"),
                "query": item.pointer("/action/query").and_then(Value::as_str).unwrap_or_default(),
                "action": item.get("action").map_or_else(|| json!({"type": "other"}), search_action),
                "results": null, "startedAtMs": null, "completedAtMs": null})),
            _ => None,
        }
    }
}

fn search_action(action: &Value) -> Value {
    let mut out = serde_json::Map::new();
    for (key, value) in action.as_object().into_iter().flatten() {
        let value = match (key.as_str(), value.as_str()) {
            ("type", Some(kind)) => json!(crate::rollout::item::camel(kind)),
            _ => value.clone(),
        };
        out.insert(crate::rollout::item::camel(key), value);
    }
    Value::Object(out)
}

pub(super) fn counts(usage: Usage) -> TokenCounts {
    TokenCounts {
        input: usage.input_tokens,
        cached_input: usage.cached_tokens,
        cache_write_input: usage.cache_write_tokens,
        output: usage.output_tokens,
        reasoning_output: usage.reasoning_tokens,
        total: usage.total_tokens,
    }
}
