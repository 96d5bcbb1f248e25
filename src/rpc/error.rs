//! The one place that builds wire errors (`protocol/connection.md`, section 2).

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{Value, json};

use crate::runtime::error::RuntimeError;
use crate::store::StoreError;

/// Almost every refusal.
pub const INVALID_REQUEST: i32 = -32600;

/// Not supported by this thread.
pub const METHOD_NOT_FOUND: i32 = -32601;

/// A checked limit was passed.
pub const INVALID_PARAMS: i32 = -32602;

/// A fault of ours, or of the database.
pub const INTERNAL_ERROR: i32 = -32603;

/// Too many requests wait.
pub const OVERLOADED: i32 = -32001;

/// An error as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// The code.
    pub code: i32,
    /// The text.
    pub message: String,
    /// More, for programs.
    pub data: Option<Value>,
}

impl RpcError {
    /// A request that cannot be served as it stands.
    pub fn invalid(message: impl Into<String>) -> RpcError {
        RpcError { code: INVALID_REQUEST, message: message.into(), data: None }
    }

    /// A request that has not the form of its method; `serde`'s text without the place in the JSON.
    pub fn malformed(error: &serde_json::Error) -> RpcError {
        let text = error.to_string();
        let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
        RpcError::invalid(format!("Invalid request: {text}"))
    }

    /// The process is about to end.
    pub fn draining() -> RpcError {
        RpcError {
            data: Some(json!({"reason": "serverShuttingDown"})),
            ..RpcError::invalid("Server is draining; retry after reconnecting")
        }
    }

    /// Too many requests of a connection wait.
    pub fn overloaded() -> RpcError {
        RpcError { code: OVERLOADED, message: "Server overloaded; retry later.".to_owned(), data: None }
    }

    /// A fault of ours: told in general terms, logged in full by the caller.
    pub fn internal() -> RpcError {
        let message = "internal error; the server's log has the details".to_owned();
        RpcError { code: INTERNAL_ERROR, message, data: None }
    }
}

impl From<RuntimeError> for RpcError {
    fn from(error: RuntimeError) -> RpcError {
        let message = error.to_string();
        match error {
            RuntimeError::Invalid(_) => RpcError::invalid(message),
            RuntimeError::InvalidWith { data, .. } => {
                RpcError { data: Some(data), ..RpcError::invalid(message) }
            }
            RuntimeError::Limit { data, .. } => RpcError { code: INVALID_PARAMS, message, data },
            RuntimeError::Unsupported(_) => RpcError { code: METHOD_NOT_FOUND, message, data: None },
            RuntimeError::Failed(_) => RpcError { code: INTERNAL_ERROR, message, data: None },
            RuntimeError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> RpcError {
        tracing::error!(%error, "the database failed a request");
        match error {
            // These say what the one who asked, or an admin, can do.
            StoreError::Full | StoreError::Busy | StoreError::LeaseHeld { .. } => {
                RpcError { code: INTERNAL_ERROR, message: error.to_string(), data: None }
            }
            _ => RpcError::internal(),
        }
    }
}

impl From<RpcError> for ErrorObjectOwned {
    fn from(error: RpcError) -> ErrorObjectOwned {
        ErrorObjectOwned::owned(error.code, error.message, error.data)
    }
}
