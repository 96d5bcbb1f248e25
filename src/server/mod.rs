//! Bytes ↔ messages, and who is connected.
//!
//! Our own framing over standard input and output, WebSocket and unix sockets; requests go to the one router
//! (`rpc::router`), messages of the runtime to the connections' outboxes. Start reading at [`Server`] and
//! [`connection`].
//!
//! **Invariants:** framing knows nothing of methods; a slow reader is never waited for.

pub mod auth;
pub mod connection;
pub mod outbox;
pub mod stdio;
pub mod unix;
pub mod websocket;

mod http;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonrpsee::RpcModule;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::rpc::router;
use crate::runtime::Runtime;
use crate::runtime::client::ConnectionId;

/// What all transports share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    /// The threads.
    pub runtime: Arc<Runtime>,
    module: RpcModule<Arc<Runtime>>,
    lanes: connection::Lanes,
    next_connection: Arc<AtomicU64>,
}

impl Server {
    /// A server on this runtime.
    ///
    /// # Errors
    /// The router cannot be built.
    pub fn new(runtime: Arc<Runtime>) -> anyhow::Result<Server> {
        let module = router::build(runtime.clone())?;
        Ok(Server { runtime, module, lanes: connection::Lanes::default(), next_connection: Arc::default() })
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

/// Wait for a signal, then until no turn runs, a second signal forces, or the wait is too long; then end the threads
/// (`protocol/connection.md`, section 10).
pub async fn drain(runtime: &Runtime, mut signals: Signals) {
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
    runtime.stop().await;
}
