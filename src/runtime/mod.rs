//! Threads at work: one actor a loaded thread, its turns, and what clients ask of them.
//!
//! It promises that a reply or notification that tells of a change is sent only after the change is stored, that at
//! most one turn runs on a thread, and that a reply comes before the notifications it causes. Start reading at
//! [`Runtime`], then [`thread`] (the actor) and [`turn`].
//!
//! **Invariant:** connections are known only as [`client::Client`]; no transport is met here.

pub mod account;
pub mod asking;
pub mod calls;
pub mod client;
pub mod clients;
pub mod error;
pub mod requests;

pub mod goals;
pub mod input;
pub mod mcp;
mod onward;
pub mod prompt;
pub mod queue;
pub mod recorder;
pub mod settings;
mod submissions;
pub mod thread;
pub mod turn;

mod redact;

pub mod fork;
pub mod lifecycle;
pub mod load;
pub mod reading;
pub mod servers;
pub mod terminals;
pub mod view;

mod git;
mod notify;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use self::account::Account;
use self::clients::Clients;
use self::error::{Result, RuntimeError};
use self::requests::Requests;
use self::thread::{Command, ThreadHandle, Unload};
use crate::clock::Clock;
use crate::config::ConfigSource;
use crate::import::Importer;
use crate::import::mirror::Mirror;
use crate::model::client::ModelClient;
use crate::protocol::id::ThreadId;
use crate::store::Store;

/// How long the end of the process waits for interrupted turns to be recorded.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Everything that is shared by the process's threads.
#[derive(Debug)]
pub struct Runtime {
    /// The time and new ids.
    pub clock: Clock,
    /// The database.
    pub store: Store,
    /// The configuration.
    pub config: ConfigSource,
    /// The initialized connections.
    pub clients: Clients,
    /// What clients have been asked and not yet answered.
    pub requests: Requests,
    /// Talks to model providers.
    pub model: Arc<ModelClient>,
    /// Its usage events and managed configuration.
    pub account: Arc<Account>,
    /// Takes in rollout files.
    pub importer: Importer,
    mirror: Mirror,
    turns: RunningTurns,
    /// Loaded threads by id. Held only to copy in and out.
    threads: Mutex<HashMap<String, ThreadHandle>>,
    /// Tells that a goal waits for a time that was not known before.
    goal_waits: Arc<tokio::sync::Notify>,
    originator: OnceLock<String>,
    draining: AtomicBool,
}

/// How many turns run.
#[derive(Debug)]
struct RunningTurns(watch::Sender<usize>);

impl RunningTurns {
    fn started(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    fn ended(&self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Runtime {
    /// Start on an open database.
    pub fn start(clock: Clock, store: Store, config: ConfigSource) -> Arc<Runtime> {
        let mirror = Mirror::start(store.clone());
        let importer = Importer::start(store.clone(), config.home().path().to_owned());
        let model = Arc::new(ModelClient::default());
        let runtime = Arc::new(Runtime {
            account: Arc::new(Account::start(config.clone(), model.clone())),
            clock,
            store,
            config,
            clients: Clients::default(),
            requests: Requests::default(),
            model,
            importer,
            mirror,
            turns: RunningTurns(watch::Sender::new(0)),
            threads: Mutex::default(),
            goal_waits: Arc::default(),
            originator: OnceLock::new(),
            draining: AtomicBool::new(false),
        });
        runtime.watch();
        runtime
    }

    /// Name of the process's first client; this one's, if it is the first.
    pub fn set_originator(&self, client_name: &str) -> &str {
        self.originator.get_or_init(|| client_name.to_owned())
    }

    /// Name of the process's first client.
    pub fn originator(&self) -> String {
        self.originator.get().cloned().unwrap_or_else(|| "threadkeep".to_owned())
    }

    /// The first part of every user agent.
    pub fn user_agent(&self) -> String {
        format!("{}/{} (Linux; {})", self.originator(), crate::PROTOCOL_VERSION, std::env::consts::ARCH)
    }

    // Loaded threads ----------------------------------------------------------------------------------------------

    /// A loaded thread.
    pub fn loaded(&self, thread_id: &str) -> Option<ThreadHandle> {
        self.lock().get(thread_id).cloned()
    }

    /// The ids of all loaded threads, sorted.
    pub fn loaded_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.lock().keys().cloned().collect();
        ids.sort();
        ids
    }

    /// A loaded thread, or the error for one that is not.
    fn must_be_loaded(&self, thread_id: &str) -> Result<ThreadHandle> {
        self.loaded(thread_id).ok_or_else(|| RuntimeError::thread_not_found(thread_id))
    }

    fn keep(&self, thread_id: &str, handle: ThreadHandle) {
        self.lock().insert(thread_id.to_owned(), handle);
    }

    /// An actor ends.
    fn forget(&self, thread_id: &str) {
        self.lock().remove(thread_id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ThreadHandle>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection is gone: its subscriptions go, its turns stay.
    pub fn connection_closed(&self, id: client::ConnectionId) {
        self.clients.remove(id);
        let handles: Vec<ThreadHandle> = self.lock().values().cloned().collect();
        tokio::spawn(async move {
            for handle in handles {
                let _ = handle.ask(|reply| Command::Unsubscribe(id, reply)).await;
            }
        });
    }

    // The end -----------------------------------------------------------------------------------------------------

    /// From now on nothing new is started.
    pub fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the process is about to end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Wait until no turn runs.
    pub async fn idle(&self) {
        let mut count = self.turns.0.subscribe();
        // The sender lives as long as this runtime.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// Interrupt what runs, record that, and close the database.
    pub async fn stop(&self) {
        self.begin_drain();
        let handles: Vec<ThreadHandle> = self.lock().values().cloned().collect();
        let unloads = handles.iter().map(|handle| handle.ask(|reply| Command::Unload(Unload::Silent, reply)));
        let all = futures_util::future::join_all(unloads);
        if tokio::time::timeout(STOP_PATIENCE, all).await.is_err() {
            tracing::error!("some turns could not be ended in time; they are interrupted at the next start");
        }
        self.importer.stop();
        self.mirror.flush().await;
        self.store.close().await;
    }
}

/// A thread id of a client; `what` is `thread` or `session`, as the method says it.
fn parse_id(what: &str, text: &str) -> Result<String> {
    ThreadId::parse(text)
        .map(|id| id.to_string())
        .map_err(|error| RuntimeError::invalid(format!("invalid {what} id: {error}")))
}
