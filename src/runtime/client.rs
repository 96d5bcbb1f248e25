//! What the runtime knows of a connected client: a place to send to. The server implements it.

use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;

/// Names a connection within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A message to a client, serialised once; the same bytes go to every subscriber.
#[derive(Clone, Debug)]
pub struct Event {
    /// The method, which a client may have opted out of (notifications only).
    pub method: &'static str,
    /// What may be done with it when a reader is slow.
    pub kind: EventKind,
    /// The whole message, without a line end.
    pub json: Arc<str>,
}

/// What a connection may do with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Tells of something stored or of a change of state: never dropped.
    Notification,
    /// A part of a text of this item (`delta` member): neighbours may be merged for a slow reader.
    Delta {
        /// Item the delta belongs to; equal neighbours may be merged.
        item_id: Arc<str>,
    },
    /// A request of the server: a client cannot opt out of it.
    Request,
}

impl Event {
    /// A notification with its `emittedAtMs` (`protocol/connection.md`, section 1).
    pub fn notification<P: Serialize>(method: &'static str, params: &P, emitted_at_ms: i64) -> Event {
        Event {
            method,
            kind: EventKind::Notification,
            json: message(method, None, params, Some(emitted_at_ms)),
        }
    }

    /// A streaming delta of an item.
    pub fn delta<P: Serialize>(
        method: &'static str,
        item_id: Arc<str>,
        params: &P,
        emitted_at_ms: i64,
    ) -> Event {
        Event {
            method,
            kind: EventKind::Delta { item_id },
            json: message(method, None, params, Some(emitted_at_ms)),
        }
    }

    /// A request of the server to its clients.
    pub fn request<P: Serialize>(method: &'static str, id: i64, params: &P) -> Event {
        Event { method, kind: EventKind::Request, json: message(method, Some(id), params, None) }
    }
}

#[derive(Serialize)]
struct Message<'a, P> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    params: &'a P,
    #[serde(rename = "emittedAtMs", skip_serializing_if = "Option::is_none")]
    emitted_at_ms: Option<i64>,
}

fn message<P: Serialize>(method: &str, id: Option<i64>, params: &P, emitted_at_ms: Option<i64>) -> Arc<str> {
    match serde_json::to_string(&Message { method, id, params, emitted_at_ms }) {
        Ok(json) => json.into(),
        Err(error) => {
            // Wire types have string keys and finite numbers only, so that this is a fault of ours.
            tracing::error!(method, %error, "a message could not be written as JSON");
            format!(r#"{{"method":"{method}","params":null}}"#).into()
        }
    }
}

/// A connected client.
///
/// `send` never blocks and never fails: a connection that is gone drops what it gets, one that is too slow is
/// disconnected by its owner.
pub trait Client: Send + Sync + Debug {
    /// Which connection it is.
    fn id(&self) -> ConnectionId;

    /// Put an event into the connection's outbox.
    fn send(&self, event: &Event);
}

/// The request that is being served: who asks, and the place of its reply.
///
/// The reply to a request comes before the notifications that it causes. Whoever causes them calls
/// [`Request::reserve_reply`] first: from then on the place of the reply in the connection's outbox is fixed, and
/// events sent later follow it, though the reply is written by the connection when the handler returns.
pub trait Request: Send + Sync + Debug {
    /// The client that asks.
    fn client(&self) -> Arc<dyn Client>;

    /// Fix the place of the reply in the outbox. The first call counts.
    fn reserve_reply(&self);

    /// `clientInfo.name` given at initialize.
    fn client_name(&self) -> String;

    /// Whether the connection has the `experimentalApi` capability.
    fn experimental(&self) -> bool;
}
