//! What a provider is asked.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The body, its members in the order that providers' caches are used to.
#[derive(Clone, Debug, Serialize)]
pub struct Body {
    /// Model asked.
    pub model: String,
    /// Base instructions.
    pub instructions: String,
    /// Always true.
    pub stream: bool,
    /// The conversation, oldest first; recorded JSON is passed on as it is.
    pub input: Vec<Arc<RawValue>>,
    /// What the model may call.
    pub tools: Vec<Value>,
    /// `auto`.
    pub tool_choice: &'static str,
    /// Whether several calls may come in one reply.
    pub parallel_tool_calls: bool,
    /// Effort and summary.
    pub reasoning: Reasoning,
    /// Always false: the history is ours.
    pub store: bool,
    /// What the reply should hold beside the usual.
    pub include: [&'static str; 1],
    /// Service tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// The thread id.
    pub prompt_cache_key: String,
    /// Verbosity, output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Value>,
    /// Who asks.
    pub client_metadata: Value,
}

/// Effort and summary; an absent one is the provider's choice.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reasoning {
    /// Effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Value>,
}

/// A request: the body and what goes into headers.
#[derive(Clone, Debug)]
pub struct Request {
    /// The body.
    pub body: Body,
    /// The thread.
    pub thread_id: String,
    /// The root of its tree.
    pub session_id: String,
    /// Name of the process's first client.
    pub originator: String,
    /// The process's user agent.
    pub user_agent: String,
    /// `THREAD:N`, N rises with every compaction.
    pub window_id: String,
    /// JSON text about the turn.
    pub turn_metadata: String,
    /// Value of that header in the turn's first reply.
    pub turn_state: Option<String>,
    /// What asks in the thread's place, as a header tells it.
    pub subagent: Option<&'static str>,
}
