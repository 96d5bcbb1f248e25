//! Strict JSON-RPC 2.0 over HTTP and WebSocket, for curl, scripts and admin tools: jsonrpsee's own server on the one
//! router.
//!
//! A request here counts as one of an initialized connection with the `experimentalApi` capability. It gets its reply
//! and nothing else: events and questions of the server go to nobody. The same authentication and the same refusal of
//! web pages as on our own WebSocket listener hold for each HTTP request.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jsonrpsee::server::middleware::rpc::{
    Batch, MethodResponse, Notification, RpcService, RpcServiceBuilder, RpcServiceT,
};
use jsonrpsee::server::{BatchRequestConfig, HttpBody, HttpResponse, ServerConfig};
use jsonrpsee::types::{ErrorObjectOwned, Id, Request as RouterRequest};
use tokio::sync::oneshot;

use super::auth::Auth;
use super::{Server, Signals};
use crate::clock::Clock;
use crate::rpc::connection::{Introduced, Introduction};
use crate::rpc::error::RpcError;
use crate::rpc::router::{self, Call};
use crate::runtime::client::{Client, ConnectionId, Event, Request};

/// The largest request, as on a WebSocket connection.
const MAX_REQUEST_BYTES: u32 = 64 << 20;

/// The largest reply: a thread with all its turns can be large.
const MAX_REPLY_BYTES: u32 = 1 << 30;

/// The most connections.
const MAX_CONNECTIONS: u32 = 256;

/// What requests here are known as.
const CLIENT_NAME: &str = "http";

/// Listen on an address until a signal ends the process.
///
/// # Errors
/// The address cannot be used.
pub async fn serve(server: Server, address: SocketAddr, auth: Auth) -> anyhow::Result<()> {
    super::check_open(address, &auth)?;
    let signals = Signals::listen()?;
    let config = ServerConfig::builder()
        .max_request_body_size(MAX_REQUEST_BYTES)
        .max_response_body_size(MAX_REPLY_BYTES)
        .max_connections(MAX_CONNECTIONS)
        // A batch would go past the lanes.
        .set_batch_request_config(BatchRequestConfig::Disabled)
        .build();
    let clock = server.runtime.clock.clone();
    let guard = move |inner| Guard { inner, auth: auth.clone(), clock: clock.clone() };
    let calls = {
        let server = server.clone();
        move |inner| Calls { inner, server: server.clone() }
    };
    let stock = jsonrpsee::server::Server::builder()
        .set_config(config)
        .set_http_middleware(tower::ServiceBuilder::new().layer_fn(guard))
        .set_rpc_middleware(RpcServiceBuilder::new().layer_fn(calls))
        .build(address)
        .await?;
    let bound = stock.local_addr()?;
    eprintln!("threadkeep app-server (HTTP)\n  listening on: http://{bound}");
    eprintln!("  readyz: http://{bound}/readyz\n  healthz: http://{bound}/healthz");
    let handle = stock.start(server.module.clone());
    super::drain(&server, signals).await;
    // It ends with the process; connections that are idle need not be waited for.
    let _ = handle.stop();
    Ok(())
}

/// Looks at each HTTP request before jsonrpsee does.
#[derive(Clone)]
struct Guard<S> {
    inner: S,
    auth: Auth,
    clock: Clock,
}

impl<S, B> tower::Service<jsonrpsee::server::HttpRequest<B>> for Guard<S>
where
    S: tower::Service<jsonrpsee::server::HttpRequest<B>, Response = HttpResponse>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = HttpResponse;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<HttpResponse, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: jsonrpsee::server::HttpRequest<B>) -> Self::Future {
        let header = |name: &str| request.headers().get(name);
        let answer = |status: u16, body: &'static str| {
            let mut response = HttpResponse::new(HttpBody::from(body));
            // All of them are codes of the standard.
            if let Ok(status) = status.try_into() {
                *response.status_mut() = status;
            }
            std::future::ready(Ok(response)).boxed()
        };
        if header("origin").is_some() {
            return answer(403, "");
        }
        if matches!(request.uri().path(), "/readyz" | "/healthz") {
            return answer(if matches!(request.method().as_str(), "GET" | "HEAD") { 200 } else { 405 }, "");
        }
        let authorization = header("authorization").and_then(|value| value.to_str().ok());
        match self.auth.check(authorization, self.clock.now_ms() / 1000) {
            Ok(()) => self.inner.call(request).boxed(),
            Err(body) => answer(401, body),
        }
    }
}

/// Gives each call what a handler needs, and runs it to its end in the lane of its thread.
struct Calls {
    inner: RpcService,
    server: Server,
}

impl RpcServiceT for Calls {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: RouterRequest<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let (server, inner) = (self.server.clone(), self.inner.clone());
        async move {
            let id = request.id.clone().into_owned();
            // jsonrpsee drops a call when its client goes; what was begun is done all the same.
            let answered = start(server, inner, into_owned(request));
            answered.await.unwrap_or_else(|_| {
                tracing::error!("a handler panicked");
                MethodResponse::error(id, ErrorObjectOwned::from(RpcError::internal()))
            })
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.batch(batch)
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.notification(notification)
    }
}

/// Begin a call. The receiver ends without a value if the handler panics.
fn start(
    server: Server,
    inner: RpcService,
    mut request: RouterRequest<'static>,
) -> oneshot::Receiver<MethodResponse> {
    let (sender, receiver) = oneshot::channel();
    let lane = router::lane(&request.method, request.params.as_deref());
    let client = Arc::new(Nobody { id: server.new_connection_id(), named: AtomicBool::new(false) });
    let introduced = Introduced::default();
    introduced.get_or_init(|| Introduction {
        client_name: CLIENT_NAME.to_owned(),
        experimental: true,
        opted_out: Vec::new(),
    });
    request.extensions.insert(Call { request: Arc::new(Detached(client.clone())), introduced });
    let lanes = server.lanes.clone();
    let work = async move {
        let call = std::panic::AssertUnwindSafe(inner.call(request)).catch_unwind();
        if let Ok(response) = call.await {
            // Its client may be gone.
            let _ = sender.send(response);
        }
        if client.named.load(Ordering::Relaxed) {
            server.runtime.connection_closed(client.id);
        }
    };
    match lane {
        Some(lane) => lanes.run(lane, work.boxed()),
        None => {
            tokio::spawn(work);
        }
    }
    receiver
}

fn into_owned(request: RouterRequest<'_>) -> RouterRequest<'static> {
    let id: Id<'static> = request.id.into_owned();
    let params = request.params.map(|params| std::borrow::Cow::Owned(params.into_owned()));
    let mut owned = RouterRequest::owned(request.method.into_owned(), None, id);
    owned.params = params;
    owned.extensions = request.extensions;
    owned
}

/// A client that gets no events.
#[derive(Debug)]
struct Nobody {
    id: ConnectionId,
    /// Whether the runtime has been told of it, and may have kept it.
    named: AtomicBool,
}

impl Client for Nobody {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn send(&self, _: &Event) {}
}

/// A request whose reply alone is sent.
#[derive(Debug)]
struct Detached(Arc<Nobody>);

impl Request for Detached {
    fn client(&self) -> Arc<dyn Client> {
        self.0.named.store(true, Ordering::Relaxed);
        self.0.clone()
    }

    fn reserve_reply(&self) {}

    fn client_name(&self) -> String {
        CLIENT_NAME.to_owned()
    }

    fn experimental(&self) -> bool {
        true
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Calls")
    }
}
