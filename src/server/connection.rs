//! A connection, whatever carries it: messages in, messages out.
//!
//! Requests that name one thread run one after another in the order in which they came, over all connections; others
//! run at the same time. A handler runs to its end even when its connection is gone.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jsonrpsee::types::{Id, Params};
use jsonrpsee::{ConnectionId as RouterConnectionId, Extensions, MethodCallback};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::Server;
use super::outbox::Outbox;
use crate::protocol::method;
use crate::rpc::connection::Introduced;
use crate::rpc::error::RpcError;
use crate::rpc::router::{self, Call};
use crate::runtime::client::{Client, ConnectionId, Event, EventKind, Request};

/// The most requests of a connection that wait or run.
const MAX_REQUESTS: usize = 512;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    server: Server,
    id: ConnectionId,
    outbox: Arc<Outbox>,
    introduced: Introduced,
    requests: Arc<AtomicUsize>,
}

/// The envelope of a message, told apart by which members are there.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

impl Connection {
    /// A new connection.
    pub fn new(server: Server) -> Connection {
        let id = server.new_connection_id();
        Connection {
            server,
            id,
            outbox: Arc::default(),
            introduced: Arc::default(),
            requests: Arc::default(),
        }
    }

    /// Where its messages wait to be written.
    pub fn outbox(&self) -> Arc<Outbox> {
        self.outbox.clone()
    }

    /// Take one message. What cannot be read is logged and left out.
    pub fn receive(&self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let envelope: Envelope<'_> = match serde_json::from_str(text) {
            Ok(envelope) => envelope,
            Err(error) => {
                tracing::warn!(%error, "a message that cannot be read is left out");
                return;
            }
        };
        let id = envelope.id.filter(|id| is_request_id(id));
        match (envelope.method, id) {
            (Some(method), Some(id)) => {
                self.request(&method, id, envelope.params, envelope.jsonrpc.is_some())
            }
            (Some(method), None) => tracing::debug!(%method, "a notification of a client"),
            (None, Some(id)) => match id.get().parse() {
                Ok(id) => self.answer(id, envelope.result, envelope.error),
                Err(_) => tracing::debug!(%id, "an answer to a request that is not ours is left out"),
            },
            (None, None) => tracing::warn!("a message that is none is left out"),
        }
    }

    /// A client answers a request of the server.
    fn answer(&self, id: i64, result: Option<Value>, error: Option<Value>) {
        let outcome = match error {
            Some(error) => Err(error),
            None => Ok(result.unwrap_or_default()),
        };
        self.server.runtime.requests.answer(id, outcome);
    }

    /// The connection is gone.
    pub fn closed(&self) {
        self.outbox.close();
        self.server.runtime.connection_closed(self.id);
    }

    fn request(&self, method: &str, id: &RawValue, params: Option<&RawValue>, versioned: bool) {
        let head = Head { id: id.get().to_owned(), versioned };
        if self.requests.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            self.requests.fetch_sub(1, Ordering::Relaxed);
            self.outbox.push_text(head.error(&RpcError::overloaded()));
            return;
        }
        let client = Arc::new(ConnectedClient {
            id: self.id,
            outbox: self.outbox.clone(),
            introduced: self.introduced.clone(),
        });
        let served = Arc::new(ServedRequest { client, place: Mutex::new(Place::Open) });
        let call = Call { request: served.clone(), introduced: self.introduced.clone() };
        let work = serve(self.server.clone(), method.to_owned(), params.map(ToOwned::to_owned), call);
        let requests = self.requests.clone();
        let (runtime, connection_id) = (self.server.runtime.clone(), self.id);
        let answered = async move {
            let reply = AssertUnwindSafe(work).catch_unwind().await;
            let reply = reply.unwrap_or_else(|_| {
                tracing::error!("a handler panicked");
                Err(RpcError::internal())
            });
            requests.fetch_sub(1, Ordering::Relaxed);
            served.answer(match reply {
                Ok(response) => head.answer(&response),
                Err(error) => head.error(&error),
            });
            if served.client.outbox.is_closed() {
                // It may have subscribed after its connection had gone.
                runtime.connection_closed(connection_id);
            }
        };
        match router::lane(method, params) {
            Some(lane) => self.server.lanes.run(lane, Box::pin(answered)),
            None if method == "initialize" => {
                // Requests behind it on the wire must find the connection initialized; it does not wait for anything.
                if answered.now_or_never().is_none() {
                    tracing::error!("initialize did not end at once");
                }
            }
            None => {
                tokio::spawn(answered);
            }
        }
    }
}

/// A string, or an integer of 64 bits; a message with another id is taken for a notification.
fn is_request_id(id: &RawValue) -> bool {
    id.get().starts_with('"') || id.get().parse::<i64>().is_ok()
}

/// Call the method, as jsonrpsee's own server does, and give its whole answer, which has a null id.
async fn serve(
    server: Server,
    method: String,
    params: Option<Box<RawValue>>,
    call: Call,
) -> Result<Box<RawValue>, RpcError> {
    let Some((_, callback)) = server.module.method_with_name(&method) else {
        if call.introduced.get().is_some() && server.runtime.is_draining() && router::starts_work(&method) {
            return Err(RpcError::draining());
        }
        if call.introduced.get().is_some_and(|said| !said.experimental)
            && let Some(gate) = method::gate(&method, None)
        {
            return Err(RpcError::invalid(gate));
        }
        let mut names: Vec<&str> = server.module.method_names().collect();
        names.sort_unstable();
        let known: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        return Err(RpcError::invalid(format!(
            "Invalid request: unknown variant `{method}`, expected one of {}",
            known.join(", ")
        )));
    };
    let mut extensions = Extensions::new();
    extensions.insert(call);
    let text = params.as_ref().map(|params| params.get().to_owned());
    let params = Params::new(text.as_deref()).into_owned();
    let response = match callback {
        MethodCallback::Async(run) => {
            run(Id::Null, params, RouterConnectionId(0), usize::MAX, extensions).await
        }
        MethodCallback::Sync(run) => run(Id::Null, params, usize::MAX, extensions),
        MethodCallback::Subscription(_) | MethodCallback::Unsubscription(_) => {
            return Err(RpcError::internal());
        }
    };
    Ok(response.into_json())
}

/// How every answer of the router begins, since it is called with a null id.
const ROUTER_HEAD: &str = r#"{"jsonrpc":"2.0","id":null,"#;

/// What every answer to a request begins with.
struct Head {
    /// The id as it came.
    id: String,
    /// Whether the request had a `jsonrpc` member: the answer has one then.
    versioned: bool,
}

impl Head {
    fn start(&self) -> &'static str {
        if self.versioned { r#"{"jsonrpc":"2.0","id":"# } else { r#"{"id":"# }
    }

    /// The router's answer under this head.
    fn answer(&self, response: &RawValue) -> Arc<str> {
        match response.get().strip_prefix(ROUTER_HEAD) {
            Some(rest) => [self.start(), &self.id, ",", rest].concat().into(),
            None => {
                tracing::error!("the router's answer has another form than expected");
                self.error(&RpcError::internal())
            }
        }
    }

    fn error(&self, error: &RpcError) -> Arc<str> {
        let mut object = serde_json::json!({"code": error.code, "message": error.message});
        if let Some(data) = &error.data {
            object["data"] = data.clone();
        }
        [self.start(), &self.id, r#","error":"#, &object.to_string(), "}"].concat().into()
    }
}

/// A connection as the runtime sees it.
#[derive(Debug)]
struct ConnectedClient {
    id: ConnectionId,
    outbox: Arc<Outbox>,
    introduced: Introduced,
}

impl Client for ConnectedClient {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn send(&self, event: &Event) {
        let unwanted = event.kind != EventKind::Request
            && self
                .introduced
                .get()
                .is_some_and(|said| said.opted_out.iter().any(|method| method == event.method));
        if !unwanted {
            self.outbox.push(event);
        }
    }
}

/// A request that is being served.
struct ServedRequest {
    client: Arc<ConnectedClient>,
    place: Mutex<Place>,
}

/// The place of a reply.
enum Place {
    /// Where the outbox ends when the reply is there.
    Open,
    /// Fixed.
    Reserved(oneshot::Sender<Arc<str>>),
    /// The reply has been given.
    Answered,
}

impl fmt::Debug for ServedRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ServedRequest").field("client", &self.client.id).finish_non_exhaustive()
    }
}

impl ServedRequest {
    fn answer(&self, text: Arc<str>) {
        let place = std::mem::replace(&mut *self.lock(), Place::Answered);
        match place {
            Place::Open => self.client.outbox.push_text(text),
            Place::Reserved(sender) => {
                // The outbox is gone only with its connection.
                let _ = sender.send(text);
            }
            Place::Answered => {}
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request for ServedRequest {
    fn client(&self) -> Arc<dyn Client> {
        self.client.clone()
    }

    fn reserve_reply(&self) {
        let mut place = self.lock();
        if matches!(*place, Place::Open) {
            *place = Place::Reserved(self.client.outbox.reserve());
        }
    }

    fn client_name(&self) -> String {
        self.client.introduced.get().map(|said| said.client_name.clone()).unwrap_or_default()
    }

    fn experimental(&self) -> bool {
        self.client.introduced.get().is_some_and(|said| said.experimental)
    }
}

/// Requests that wait for others of their thread. Cheap to clone.
#[derive(Clone, Default)]
pub struct Lanes {
    /// Lanes in use; a lane is here as long as one of its requests runs.
    waiting: Arc<Mutex<HashMap<String, VecDeque<BoxFuture<'static, ()>>>>>,
}

impl fmt::Debug for Lanes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Lanes")
    }
}

impl Lanes {
    /// Run work after all that came before it in its lane.
    pub(super) fn run(&self, lane: String, work: BoxFuture<'static, ()>) {
        {
            let mut lanes = self.lock();
            if let Some(waiting) = lanes.get_mut(&lane) {
                waiting.push_back(work);
                return;
            }
            lanes.insert(lane.clone(), VecDeque::new());
        }
        let lanes = self.clone();
        tokio::spawn(async move {
            let mut next = Some(work);
            while let Some(work) = next {
                work.await;
                next = lanes.take(&lane);
            }
        });
    }

    /// The next work of a lane; an empty lane is given up.
    fn take(&self, lane: &str) -> Option<BoxFuture<'static, ()>> {
        let mut lanes = self.lock();
        let next = lanes.get_mut(lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            lanes.remove(lane);
        }
        next
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, VecDeque<BoxFuture<'static, ()>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
