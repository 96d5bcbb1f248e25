//! The MCP servers of a thread: started with it, in the background, and ended with it (`tools::mcp`).
//!
//! A server that is `required` keeps its thread from starting when it fails; of any other the status list tells. The
//! model's first request waits until every server is either ready or failed, so that it knows all tools.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Runtime;
use super::asking::{Asking, Waiting};
use super::client::Event;
use super::thread::Command;
use crate::config::Config;
use crate::config::mcp_server::ServerConfig;
use crate::protocol::mcp::{
    McpAuthStatus, McpServerConnectionStatus, McpServerStartupState, McpServerStatus, McpServerStatusDetail,
    McpServerStatusUpdatedNotification,
};
use crate::tools::mcp::server::{Elicit, Elicitation, ElicitationAnswer, Server};

/// The servers of one thread.
#[derive(Debug)]
pub struct Servers {
    entries: Vec<Arc<Entry>>,
    /// Ends starts that are under way, and questions.
    cancel: CancellationToken,
}

/// One configured server.
#[derive(Debug)]
pub struct Entry {
    /// Its name in the configuration.
    pub name: String,
    /// How to reach it.
    pub config: ServerConfig,
    state: watch::Receiver<State>,
    /// Who is asked when it elicits: the turn whose call it serves.
    caller: Arc<Mutex<Option<Caller>>>,
}

/// A turn that calls a server.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Asks the clients, as long as the turn goes on.
    pub asking: Asking,
    /// The turn.
    pub turn_id: String,
}

/// How far a server is.
#[derive(Clone)]
enum State {
    Starting,
    Ready(Arc<Server>),
    Failed(String),
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            State::Starting => "Starting",
            State::Ready(_) => "Ready",
            State::Failed(_) => "Failed",
        })
    }
}

/// For whom servers are started.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) runtime: Arc<Runtime>,
    /// `None` when they are only looked at.
    pub(super) thread: Option<(String, mpsc::UnboundedSender<Command>)>,
    /// Where servers without a folder of their own run.
    pub(super) cwd: PathBuf,
}

impl Servers {
    /// Start every enabled server of a configuration.
    pub(super) fn start(owner: &Arc<Owner>, config: &Config) -> Servers {
        let cancel = CancellationToken::new();
        let enabled = config.mcp_servers.iter().filter(|(_, config)| config.enabled);
        let entries =
            enabled.map(|(name, config)| Arc::new(Entry::start(owner, name, config, &cancel))).collect();
        Servers { entries, cancel }
    }

    /// All of them.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The server of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Wait until none is starting any more. Their starts have their own limits.
    pub async fn settled(&self) {
        for entry in &self.entries {
            entry.settled().await;
        }
    }

    /// Wait for the required ones: the failures among them, each with its reason.
    pub async fn required_failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.config.required) {
            if let Err(reason) = entry.server().await {
                failures.push(format!("{}: {reason}", entry.name));
            }
        }
        failures
    }

    /// End them all, and wait until their processes are gone.
    pub async fn shutdown(&self) {
        self.cancel.cancel();
        let ends = self.entries.iter().map(|entry| async move {
            entry.settled().await;
            let State::Ready(server) = entry.state.borrow().clone() else { return };
            server.shutdown().await;
        });
        futures_util::future::join_all(ends).await;
    }
}

impl Entry {
    fn start(owner: &Arc<Owner>, name: &str, config: &ServerConfig, cancel: &CancellationToken) -> Entry {
        let (sender, state) = watch::channel(State::Starting);
        let caller = Arc::new(Mutex::new(None));
        let elicit = elicit(owner.clone(), caller.clone(), cancel.clone());
        let (owner, cancel) = (owner.clone(), cancel.clone());
        let (of_task, config_of_task) = (name.to_owned(), config.clone());
        tokio::spawn(async move {
            owner.tell(&of_task, McpServerStartupState::Starting, None);
            let started = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                started = Server::start(&of_task, &config_of_task, &owner.cwd, elicit) => Some(started),
            };
            let state = match started {
                None => {
                    owner.tell(&of_task, McpServerStartupState::Cancelled, None);
                    State::Failed("its start was cancelled".to_owned())
                }
                Some(Ok(server)) => {
                    owner.tell(&of_task, McpServerStartupState::Ready, None);
                    State::Ready(Arc::new(server))
                }
                Some(Err(error)) => {
                    tracing::warn!(server = of_task, %error, "an MCP server could not be started");
                    owner.tell(&of_task, McpServerStartupState::Failed, Some(error.to_string()));
                    State::Failed(error.to_string())
                }
            };
            let _ = sender.send(state);
        });
        Entry { name: name.to_owned(), config: config.clone(), state, caller }
    }

    async fn settled(&self) -> State {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, State::Starting)).await;
        settled.map_or_else(|_| State::Failed("its start was given up".to_owned()), |state| state.clone())
    }

    /// The server once it is ready; else why it is not.
    ///
    /// # Errors
    /// The reason of its failure.
    pub async fn server(&self) -> Result<Arc<Server>, String> {
        match self.settled().await {
            State::Ready(server) => Ok(server),
            State::Failed(reason) => Err(reason),
            State::Starting => Err("it is still starting".to_owned()),
        }
    }

    /// The server if it is ready now.
    pub fn ready(&self) -> Option<Arc<Server>> {
        match &*self.state.borrow() {
            State::Ready(server) => Some(server.clone()),
            _ => None,
        }
    }

    /// As long as the guard lives a turn calls the server: its clients are asked what the server wants to know.
    #[must_use]
    pub fn called_by(&self, caller: Caller) -> Called<'_> {
        *lock(&self.caller) = Some(caller);
        Called(self)
    }

    /// As `mcpServerStatus/list` shows it.
    pub async fn status(&self, detail: McpServerStatusDetail) -> McpServerStatus {
        let state = self.state.borrow().clone();
        let mut status = McpServerStatus {
            auth_status: if self.config.bearer_token_env_var.is_some() {
                McpAuthStatus::BearerToken
            } else {
                McpAuthStatus::Unsupported
            },
            environment_id: None,
            http_origin: self.config.url.as_deref().and_then(origin),
            name: self.name.clone(),
            plugin_id: None,
            resource_templates: Vec::new(),
            resources: Vec::new(),
            runtime_status: Some(McpServerConnectionStatus::Starting),
            server_capabilities: None,
            server_info: None,
            tool_list_meta: None,
            tools: std::collections::BTreeMap::new(),
            tools_error: None,
        };
        match state {
            State::Starting => {}
            State::Failed(reason) => {
                status.runtime_status = Some(McpServerConnectionStatus::Failed);
                status.tools_error = Some(format!("MCP startup failed: {reason}"));
            }
            State::Ready(server) => {
                status.runtime_status = Some(McpServerConnectionStatus::Connected);
                let info = server.info();
                status.server_capabilities = info.get("capabilities").cloned();
                status.server_info = serde_json::from_value(info["serverInfo"].clone()).ok();
                status.tools =
                    server.tools().iter().map(|tool| (tool.name.clone(), tool.definition.clone())).collect();
                if detail == McpServerStatusDetail::Full {
                    // A server without resources refuses to list them.
                    status.resources = server.resources().await.unwrap_or_default();
                    status.resource_templates = server.resource_templates().await.unwrap_or_default();
                }
            }
        }
        status
    }
}

/// A call of a turn that goes on.
#[derive(Debug)]
pub struct Called<'a>(&'a Entry);

impl Drop for Called<'_> {
    fn drop(&mut self) {
        *lock(&self.0.caller) = None;
    }
}

impl Owner {
    fn tell(&self, name: &str, status: McpServerStartupState, error: Option<String>) {
        let Some((thread_id, _)) = &self.thread else { return };
        let params = McpServerStatusUpdatedNotification {
            environment_id: None,
            error,
            failure_reason: None,
            name: name.to_owned(),
            status,
            thread_id: Some(thread_id.clone()),
        };
        let event =
            Event::notification("mcpServer/startupStatus/updated", &params, self.runtime.clock.now_ms());
        self.runtime.clients.broadcast(&event);
    }
}

/// Asks the clients what a server wants to know.
fn elicit(owner: Arc<Owner>, caller: Arc<Mutex<Option<Caller>>>, cancel: CancellationToken) -> Elicit {
    Arc::new(move |question: Elicitation| {
        let (owner, cancel) = (owner.clone(), cancel.clone());
        let caller = lock(&caller).clone();
        async move {
            let nobody = ElicitationAnswer { action: "cancel".to_owned(), content: None };
            let Some((thread_id, actor)) = owner.thread.clone() else { return nobody };
            let (asking, turn_id) = match caller {
                Some(Caller { asking, turn_id }) => (asking, Some(turn_id)),
                None => (Asking::new(owner.runtime.clone(), actor, cancel), None),
            };
            let Some(params) = elicitation_params(&thread_id, turn_id, &question) else { return nobody };
            let answer = asking.ask("mcpServer/elicitation/request", Waiting::Approval, &params).await;
            let Some(Ok(answer)) = answer else { return nobody };
            ElicitationAnswer {
                action: answer["action"].as_str().unwrap_or("cancel").to_owned(),
                content: answer.get("content").filter(|content| !content.is_null()).cloned(),
            }
        }
        .boxed()
    })
}

/// The request of a server as clients get it (`protocol/approvals.md`, section 7).
fn elicitation_params(thread_id: &str, turn_id: Option<String>, question: &Elicitation) -> Option<Value> {
    let request = &question.request;
    let mut params = json!({"threadId": thread_id, "turnId": turn_id, "serverName": question.server,
        "environmentId": null, "mode": request["mode"].as_str().unwrap_or("form"), "_meta": request["_meta"],
        "message": request["message"]});
    let members = params.as_object_mut()?;
    for key in ["requestedSchema", "url", "elicitationId"] {
        if let Some(value) = request.get(key) {
            members.insert(key.to_owned(), value.clone());
        }
    }
    Some(params)
}

/// `scheme://host:port` of an address.
fn origin(url: &str) -> Option<String> {
    reqwest::Url::parse(url).ok().map(|url| url.origin().ascii_serialization())
}

/// Only ever copied in and out.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
