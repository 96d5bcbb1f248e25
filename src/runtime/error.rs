//! What can go wrong in the runtime, in the words that clients get (`protocol/threads.md`, `protocol/turns.md`).

use serde_json::Value;
use thiserror::Error;

use crate::store::StoreError;

/// A failure of a request to the runtime. `rpc::error` gives each variant its code.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The client asked for something that cannot be (-32600).
    #[error("{0}")]
    Invalid(String),
    /// The same, with data that a client may act on (-32600).
    #[error("{message}")]
    InvalidWith {
        /// The text.
        message: String,
        /// `error.data`.
        data: Value,
    },
    /// A checked limit was passed (-32602).
    #[error("{message}")]
    Limit {
        /// The text.
        message: String,
        /// `error.data`, if there is any.
        data: Option<Value>,
    },
    /// The thread cannot do this (-32601).
    #[error("{0}")]
    Unsupported(String),
    /// A session could not be made (-32603), told in full.
    #[error("{0}")]
    Failed(String),
    /// The database failed; told in general terms, logged in full.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Short for the results of this module.
pub type Result<T, E = RuntimeError> = std::result::Result<T, E>;

impl RuntimeError {
    /// A request that cannot be served as it stands.
    pub fn invalid(message: impl Into<String>) -> RuntimeError {
        RuntimeError::Invalid(message.into())
    }

    /// A thread that has to be loaded and is not.
    pub fn thread_not_found(thread_id: &str) -> RuntimeError {
        RuntimeError::Invalid(format!("thread not found: {thread_id}"))
    }

    /// A thread that is neither loaded nor stored.
    pub fn thread_not_loaded(thread_id: &str) -> RuntimeError {
        RuntimeError::Invalid(format!("thread not loaded: {thread_id}"))
    }

    /// A thread that is not stored.
    pub fn no_rollout(thread_id: &str) -> RuntimeError {
        RuntimeError::Invalid(format!("no rollout found for thread id {thread_id}"))
    }

    /// A configuration that cannot be used.
    pub fn configuration(error: impl std::fmt::Display) -> RuntimeError {
        RuntimeError::Invalid(format!("failed to load configuration: {error}"))
    }
}
