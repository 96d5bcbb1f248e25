//! What a provider's stream tells.

use serde::Deserialize;
use serde_json::Value;

/// An event of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// An item has begun.
    ItemAdded(Value),
    /// A part of a message.
    TextDelta {
        /// The item.
        item_id: String,
        /// The part.
        delta: String,
    },
    /// A new part of a reasoning summary.
    SummaryPartAdded {
        /// The item.
        item_id: String,
        /// Which part.
        summary_index: i64,
    },
    /// A part of a reasoning summary.
    SummaryDelta {
        /// The item.
        item_id: String,
        /// The part.
        delta: String,
        /// Which part of the summary.
        summary_index: i64,
    },
    /// A part of raw reasoning.
    ReasoningDelta {
        /// The item.
        item_id: String,
        /// The part.
        delta: String,
        /// Which part of the content.
        content_index: i64,
    },
    /// An item is whole.
    ItemDone(Value),
    /// The response is whole.
    Completed {
        /// The provider's id of it.
        response_id: String,
        /// Its tokens, if told.
        usage: Option<Usage>,
        /// `false`: the turn goes on with another request.
        end_turn: Option<bool>,
    },
    /// The response failed.
    Failed {
        /// Kind of failure.
        code: String,
        /// Text of it.
        message: String,
    },
    /// The response ended early.
    Incomplete {
        /// Why.
        reason: String,
    },
}

/// Tokens of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the members are those of protocol/usage.md, section 1")]
pub struct Usage {
    pub input_tokens: i64,
    pub cached_tokens: i64,
    pub cache_write_tokens: i64,
    pub output_tokens: i64,
    pub reasoning_tokens: i64,
    pub total_tokens: i64,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    item: Option<Value>,
    #[serde(default)]
    item_id: Option<String>,
    #[serde(default)]
    delta: Option<Value>,
    #[serde(default)]
    summary_index: i64,
    #[serde(default)]
    content_index: i64,
    #[serde(default)]
    response: Option<Value>,
}

/// Read the data of one event; `None` for a kind that is not used.
pub fn parse(data: &str) -> Option<ModelEvent> {
    let raw: Raw = match serde_json::from_str(data) {
        Ok(raw) => raw,
        Err(error) => {
            tracing::debug!(%error, "an event of the model is left out");
            return None;
        }
    };
    let item_id = raw.item_id.unwrap_or_default();
    let delta = || raw.delta.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let response = raw.response.unwrap_or_default();
    let text =
        |pointer: &str| response.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(match raw.kind.as_str() {
        "response.output_item.added" => ModelEvent::ItemAdded(raw.item?),
        "response.output_text.delta" => ModelEvent::TextDelta { item_id, delta: delta() },
        "response.reasoning_summary_part.added" => {
            ModelEvent::SummaryPartAdded { item_id, summary_index: raw.summary_index }
        }
        "response.reasoning_summary_text.delta" => {
            ModelEvent::SummaryDelta { item_id, delta: delta(), summary_index: raw.summary_index }
        }
        "response.reasoning_text.delta" => {
            ModelEvent::ReasoningDelta { item_id, delta: delta(), content_index: raw.content_index }
        }
        "response.output_item.done" => ModelEvent::ItemDone(raw.item?),
        "response.completed" => ModelEvent::Completed {
            response_id: text("/id"),
            usage: response.get("usage").and_then(usage),
            end_turn: response.get("end_turn").and_then(Value::as_bool),
        },
        "response.failed" => {
            ModelEvent::Failed { code: text("/error/code"), message: text("/error/message") }
        }
        "response.incomplete" => ModelEvent::Incomplete { reason: text("/incomplete_details/reason") },
        _ => return None,
    })
}

fn usage(usage: &Value) -> Option<Usage> {
    let object = usage.as_object()?;
    let number = |key: &str| object.get(key).and_then(Value::as_i64).unwrap_or(0);
    let detail = |pointer: &str| usage.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    Some(Usage {
        input_tokens: number("input_tokens"),
        cached_tokens: detail("/input_tokens_details/cached_tokens"),
        cache_write_tokens: detail("/input_tokens_details/cache_write_tokens"),
        output_tokens: number("output_tokens"),
        reasoning_tokens: detail("/output_tokens_details/reasoning_tokens"),
        total_tokens: number("total_tokens"),
    })
}
