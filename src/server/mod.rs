//! Bytes ↔ messages, and who is connected.
//!
//! Our own framing over standard input and output, WebSocket and unix sockets; requests go to the one router
//! (`rpc::router`), messages of the runtime to the connections' outboxes. Start reading at [`Server`] and
//! [`connection`].
//!
//! **Invariants:** framing knows nothing of methods; a slow reader is never waited for.

pub mod auth;
pub mod connection;
pub mod http;
pub mod outbox;
pub mod stdio;
pub mod unix;
pub mod websocket;

mod head;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jsonrpsee::RpcModule;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::auth::Auth;
use crate::rpc::router;
use crate::runtime::Runtime;
use crate::runtime::client::ConnectionId;

/// How long the end of the process waits for clients to take what was still to be sent.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// What all transports share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    /// The threads.
    pub runtime: Arc<Runtime>,
    module: RpcModule<Arc<Runtime>>,
    lanes: connection::Lanes,
    next_connection: Arc<AtomicU64>,
    /// Cancelled when the threads have ended: connections write what waits, and end.
    ending: CancellationToken,
    /// The connections that are open.
    open: TaskTracker,
}

impl Server {
    /// A server on this runtime.
    ///
    /// # Errors
    /// The router cannot be built.
    pub fn new(runtime: Arc<Runtime>) -> anyhow::Result<Server> {
        let module = router::build(runtime.clone())?;
        Ok(Server {
            runtime,
            module,
            lanes: connection::Lanes::default(),
            next_connection: Arc::default(),
            ending: CancellationToken::new(),
            open: TaskTracker::new(),
        })
    }

    fn new_connection_id(&self) -> ConnectionId {
        ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }
}

/// The signals that end a process.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGINT or SIGTERM: a second one forces the end.
    Stop,
    /// SIGHUP: never forces.
    HangUp,
}

impl Signals {
    /// Listen from now on.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.interrupt.recv() => EndSignal::Stop,
            _ = self.terminate.recv() => EndSignal::Stop,
            _ = self.hang_up.recv() => EndSignal::HangUp,
        }
    }
}

/// Whether a listener may be opened: beyond this machine only with authentication.
///
/// # Errors
/// It may not; the text says what to do.
fn check_open(address: SocketAddr, auth: &Auth) -> anyhow::Result<()> {
    if !address.ip().is_loopback() && matches!(auth, Auth::Open) {
        anyhow::bail!(
            "refusing to start non-loopback websocket listener {address} without auth; configure `--ws-auth \
             capability-token` or `--ws-auth signed-bearer-token`"
        );
    }
    Ok(())
}

/// Wait for a signal, then until no turn runs, a second signal forces, or the wait is too long; then end the threads
/// (`protocol/connection.md`, section 10), and let connections write what waits.
async fn drain(server: &Server, mut signals: Signals) {
    let runtime = &server.runtime;
    signals.next().await;
    runtime.begin_drain();
    let patience = runtime.config.load().config.shutdown_timeout;
    let forced = async { while signals.next().await == EndSignal::HangUp {} };
    tokio::select! {
        () = runtime.idle() => {}
        () = forced => {}
        () = tokio::time::sleep(patience) => {
            tracing::warn!("turns still run after the shutdown timeout; they are interrupted");
        }
    }
    stop(server, &mut signals).await;
    server.ending.cancel();
    server.open.close();
    // A client that does not read in time loses what was still to be told; it is stored.
    let _ = tokio::time::timeout(LAST_WORDS, server.open.wait()).await;
}

/// End the threads. One more signal ends the process without waiting for that.
async fn stop(server: &Server, signals: &mut Signals) {
    let forced = async { while signals.next().await == EndSignal::HangUp {} };
    tokio::select! {
        () = server.runtime.stop() => {}
        () = forced => tracing::warn!("forced to end; turns that ran are interrupted at the next start"),
    }
}
