//! What a ChatGPT login brings: usage events to its backend, and a managed configuration that must be readable.
//!
//! Without such a login, or with `analytics.enabled = false`, nothing is sent. Events say that something happened and
//! how often, never what was said: no message, no objective, no path. They are sent behind everything else, and are
//! dropped rather than waited for.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc};

use super::client::Request;
use super::error::{Result, RuntimeError};
use super::thread::Live;
use crate::config::ConfigSource;
use crate::model::account::{self, Bundle};
use crate::model::client::ModelClient;
use crate::store::goals::GoalRow;

/// Events that wait to be sent; more are dropped.
const MAX_WAITING: usize = 256;

/// Events in one request.
const MAX_TOGETHER: usize = 32;

/// Plans whose configuration is managed by their workspace.
const MANAGED_PLANS: &[&str] =
    &["business", "team", "enterprise", "edu", "education", "self_serve_business_usage_based", "hc"];

/// How a thread came to be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialization {
    /// `thread/start`.
    New,
    /// `thread/resume`.
    Resumed,
    /// `thread/fork`.
    Forked,
}

/// The account of the process.
#[derive(Debug)]
pub struct Account {
    events: mpsc::Sender<Value>,
    config: ConfigSource,
    model: Arc<ModelClient>,
    /// What carries the messages of clients, as events name it. Set once, at the start.
    transport: OnceLock<&'static str>,
    /// The managed configuration was readable; it is not asked for again.
    managed: OnceCell<()>,
}

impl Account {
    /// The account of this configuration's home. Nothing is read before there is something to tell.
    pub fn start(config: ConfigSource, model: Arc<ModelClient>) -> Account {
        let (events, waiting) = mpsc::channel(MAX_WAITING);
        tokio::spawn(send(waiting, config.clone(), model.clone()));
        Account { events, config, model, transport: OnceLock::new(), managed: OnceCell::new() }
    }

    /// Say what carries the messages of clients: `stdio`, `websocket`, `unix` or `http`.
    pub fn set_transport(&self, transport: &'static str) {
        let _ = self.transport.set(transport);
    }

    /// A thread was loaded.
    pub fn thread_initialized(&self, live: &Live, how: Initialization, request: &dyn Request, now_ms: i64) {
        let mode = match how {
            Initialization::New => "new",
            Initialization::Resumed => "resumed",
            Initialization::Forked => "forked",
        };
        let row = &live.row;
        let source: Value = serde_json::from_str(&row.source_json).unwrap_or_default();
        self.tell(
            "codex_thread_initialized",
            json!({
                "thread_id": row.thread_id, "session_id": row.session_id, "ephemeral": live.ephemeral,
                "thread_source": row.thread_source, "subagent_source": source.get("subAgent"),
                "parent_thread_id": row.parent_thread_id, "initialization_mode": mode, "model": live.settings.model,
                "app_server_client": self.client(request.client_name()), "created_at": now_ms / 1000,
            }),
        );
    }

    /// The client that an event is about.
    pub fn client(&self, name: String) -> Value {
        json!({
            "client_name": name, "rpc_transport": self.transport.get().copied().unwrap_or("stdio"),
            "client_version": crate::PROTOCOL_VERSION,
        })
    }

    /// Any event.
    pub fn tell(&self, kind: &str, params: Value) {
        // A full queue says that the backend cannot be reached: what is lost is a count.
        let _ = self.events.try_send(json!({"event_type": kind, "event_params": params}));
    }

    /// Make sure that the managed configuration of the login's workspace can be read, where there is one. What it
    /// demands is not applied here.
    ///
    /// # Errors
    /// The login is not accepted any more, and could not be renewed.
    pub async fn check_managed_config(&self) -> Result<()> {
        self.managed.get_or_try_init(|| self.read_managed_config()).await.map(drop)
    }

    async fn read_managed_config(&self) -> Result<()> {
        let Some(login) = self.config.home().chatgpt_login() else { return Ok(()) };
        let plan = account::plan(&login);
        if !plan.is_some_and(|plan| MANAGED_PLANS.contains(&plan.as_str())) {
            return Ok(());
        }
        let base = self.config.load().config.chatgpt_base_url;
        let mut outcome = account::bundle(&self.model, base.as_deref(), &login).await;
        if let Bundle::Refused(_) = outcome
            && let Some(tokens) = account::refresh(&self.model, &login).await
        {
            let renewed = self.config.home().renew_login(
                &login,
                tokens.access_token,
                tokens.id_token,
                tokens.refresh_token,
            );
            outcome = account::bundle(&self.model, base.as_deref(), &renewed).await;
        }
        match outcome {
            Bundle::Given => tracing::warn!("the managed configuration of the workspace is not applied here"),
            Bundle::Unknown(reason) => tracing::warn!(reason, "the managed configuration could not be read"),
            Bundle::Refused(status) => {
                let detail = "Your ChatGPT login is no longer valid. Log in again.";
                return Err(RuntimeError::InvalidWith {
                    message: format!("failed to load configuration: {detail}"),
                    data: json!({"reason": "cloudConfigBundle", "errorCode": "Auth", "action": "relogin",
                        "statusCode": status, "detail": detail}),
                });
            }
        }
        Ok(())
    }
}

/// Tells what happens to the goal of one thread.
#[derive(Debug)]
pub struct GoalReport {
    account: Arc<Account>,
    thread_id: String,
    session_id: String,
    client_name: String,
}

impl GoalReport {
    /// For this thread, as a client of this name knows it.
    pub fn new(account: Arc<Account>, live: &Live, client_name: String) -> GoalReport {
        let (thread_id, session_id) = (live.row.thread_id.clone(), live.row.session_id.clone());
        GoalReport { account, thread_id, session_id, client_name }
    }

    /// A goal was made, changed or taken away, or a turn has been charged to it.
    pub fn changed(&self, before: Option<&GoalRow>, after: Option<&GoalRow>, turn_id: Option<&str>) {
        match (before, after) {
            (None, None) => {}
            (Some(before), None) => self.tell("cleared", before, turn_id, false),
            (Some(before), Some(after)) if before.goal_id == after.goal_id => {
                if turn_id.is_some() && before.tokens_used != after.tokens_used {
                    self.tell("usage_accounted", after, turn_id, true);
                }
                if before.status != after.status {
                    self.tell("status_changed", after, turn_id, false);
                }
            }
            (_, Some(after)) => self.tell("created", after, turn_id, false),
        }
    }

    fn tell(&self, kind: &str, goal: &GoalRow, turn_id: Option<&str>, with_usage: bool) {
        self.account.tell(
            "codex_goal_event",
            json!({
                "event_kind": kind, "goal_id": goal.goal_id,
                "goal_status": crate::rollout::item::snake(&goal.status),
                "has_token_budget": goal.token_budget.is_some(), "thread_id": self.thread_id,
                "session_id": self.session_id, "turn_id": turn_id,
                "cumulative_tokens_accounted": with_usage.then_some(goal.tokens_used),
                "cumulative_time_accounted_seconds": with_usage.then_some(goal.time_used_ms / 1000),
                "app_server_client": self.account.client(self.client_name.clone()),
            }),
        );
    }
}

/// Send what comes, several events at a time when several wait.
async fn send(mut waiting: mpsc::Receiver<Value>, config: ConfigSource, model: Arc<ModelClient>) {
    let mut events = Vec::new();
    while 0 < waiting.recv_many(&mut events, MAX_TOGETHER).await {
        let Some(login) = config.home().chatgpt_login() else {
            events.clear();
            continue;
        };
        let settings = config.load().config;
        if settings.analytics.enabled
            && let Err(error) =
                account::send_events(&model, settings.chatgpt_base_url.as_deref(), &login, &events).await
        {
            tracing::debug!(error, "usage events were not taken");
        }
        events.clear();
    }
}
