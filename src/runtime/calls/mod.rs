//! What the model calls: which tools it is offered, and how each call is carried out.
//!
//! To add a tool: an arm in `dispatch` that calls a function of the form `async fn(&Arc<TurnContext>, &Call) ->
//! Output`, and its description in `offered`. A tool tells and records its items (`TurnContext::item_started`,
//! `TurnContext::item_done`), asks the clients through `TurnContext::asking`, and stops with `Stop::Interrupted` when that
//! gives no answer. What the model did wrong is told to it (`CallError::Told`), and the turn goes on.
//!
//! The calls of one response run side by side; their outputs are given in the order of the calls.

mod client_tool;
pub mod command;
mod goal;
mod image;
mod judge;
mod mcp;
mod patch;
pub mod permissions;
mod plan;
mod user_input;

pub(super) use patch::last_diff;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::mcp::Servers;
use super::turn::TurnContext;
use crate::clock::Clock;
use crate::model::catalog;
use crate::protocol::error::TurnError;
use crate::protocol::settings::ModeKind;
use crate::tools::exec::session::Sessions;
use crate::tools::specs;

/// One call of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    /// Its id, which is also that of its item.
    pub(super) id: &'a str,
    /// The group that the tool belongs to (`mcp__SERVER`).
    pub(super) namespace: Option<&'a str>,
    /// The tool.
    pub(super) name: &'a str,
    /// JSON text of the arguments, or the text that a custom tool gets.
    pub(super) input: &'a str,
    /// A custom tool's call.
    pub(super) custom: bool,
}

impl<'a> Call<'a> {
    fn of(item: &'a Value) -> Call<'a> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let custom = item["type"] == "custom_tool_call";
        Call {
            id: text("call_id"),
            namespace: item["namespace"].as_str().filter(|namespace| !namespace.is_empty()),
            name: text("name"),
            input: if custom { text("input") } else { text("arguments") },
            custom,
        }
    }
}

/// Why a call has no output.
#[derive(Debug)]
pub(super) enum Stop {
    /// The turn is interrupted.
    Interrupted,
    /// The turn cannot go on.
    Failed(TurnError),
}

impl From<TurnError> for Stop {
    fn from(error: TurnError) -> Stop {
        Stop::Failed(error)
    }
}

/// Why a call was not carried out.
#[derive(Debug)]
pub(super) enum CallError {
    /// The model did something wrong, or was refused: it is told this, and the turn goes on.
    Told(String),
    /// The turn does not go on.
    Stopped(Stop),
}

impl From<String> for CallError {
    fn from(text: String) -> CallError {
        CallError::Told(text)
    }
}

impl<S: Into<Stop>> From<S> for CallError {
    fn from(stop: S) -> CallError {
        CallError::Stopped(stop.into())
    }
}

/// What the model gets for a call: a text, or a list of parts.
pub(super) type Output = Result<Value, CallError>;

/// What became of the calls of a response.
pub(super) struct CarriedOut {
    /// Model items: the outputs of the calls that have one, in the order of the calls.
    pub(super) outputs: Vec<Value>,
    /// Why others have none.
    pub(super) stop: Option<Stop>,
}

/// Carry out the calls of a response.
pub(super) async fn carry_out(turn: &Arc<TurnContext>, calls: &[Value]) -> CarriedOut {
    let running = calls.iter().map(|item| async move {
        let call = Call::of(item);
        let kind = if call.custom { "custom_tool_call_output" } else { "function_call_output" };
        let output = match dispatch(turn, &call).await {
            Ok(output) => output,
            Err(CallError::Told(text)) => json!(text),
            Err(CallError::Stopped(stop)) => return Err(stop),
        };
        Ok::<Value, Stop>(json!({"type": kind, "call_id": call.id, "output": output}))
    });
    let mut carried = CarriedOut { outputs: Vec::new(), stop: None };
    for outcome in futures_util::future::join_all(running).await {
        match (outcome, &carried.stop) {
            (Ok(output), _) => carried.outputs.push(output),
            (Err(stop), None | Some(Stop::Interrupted)) => carried.stop = Some(stop),
            (Err(_), Some(Stop::Failed(_))) => {}
        }
    }
    carried
}

async fn dispatch(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    match (call.namespace, call.custom, call.name) {
        (None, false, "exec_command") => command::exec_command(turn, call).await,
        (None, false, "write_stdin") => command::write_stdin(turn, call).await,
        (None, false, "shell_command") => command::shell_command(turn, call).await,
        (None, true, "apply_patch") if has_patch_tool(turn) => patch::custom_tool(turn, call).await,
        (None, false, "view_image") => image::view_image(turn, call).await,
        (None, false, "request_user_input") => user_input::request_user_input(turn, call).await,
        (None, false, "update_plan") if turn.config.tools.update_plan.enabled => {
            plan::update_plan(turn, call)
        }
        (None, false, "get_goal") if goal::is_offered(turn) => goal::get_goal(turn).await,
        (None, false, "create_goal") if goal::is_offered(turn) => goal::create_goal(turn, call).await,
        (None, false, "update_goal") if goal::is_offered(turn) => goal::update_goal(turn, call).await,
        (None, false, "request_permissions") if turn.config.feature(permissions::FEATURE, false) => {
            permissions::request_permissions(turn, call).await
        }
        (_, false, _) if let Some(found) = mcp::find(turn, call) => mcp::call(turn, call, found).await,
        (namespace, false, name) if client_tool::is_known(turn, namespace, name) => {
            client_tool::call(turn, call).await
        }
        (_, false, name) => Ok(json!(format!("unsupported call: {name}"))),
        (_, true, name) => Ok(json!(format!("unsupported custom tool call: {name}"))),
    }
}

/// The tools that the model is offered, in the order of `protocol/model-api.md`, section 3.
pub(super) fn offered(turn: &TurnContext) -> Vec<Value> {
    let mut tools = vec![specs::exec_command(), specs::write_stdin()];
    if turn.config.tools.update_plan.enabled {
        tools.push(specs::update_plan());
    }
    tools.push(specs::request_user_input());
    if turn.config.feature(permissions::FEATURE, false) {
        tools.push(specs::request_permissions());
    }
    if has_patch_tool(turn) {
        tools.push(specs::apply_patch());
    }
    tools.push(specs::view_image());
    if goal::is_offered(turn) {
        tools.extend([specs::get_goal(), specs::create_goal(), specs::update_goal()]);
    }
    tools.extend(mcp::offered(turn));
    tools.extend(client_tool::offered(turn));
    tools
}

/// Only some models write patches as a custom tool; all may send them as a heredoc in a command.
fn has_patch_tool(turn: &TurnContext) -> bool {
    catalog::find(&turn.settings.model).is_some()
}

/// The name of a thread's mode, for a text to the model.
fn mode_name(mode: ModeKind) -> &'static str {
    match mode {
        ModeKind::Plan => "Plan",
        _ => "Default",
    }
}

/// What a thread's tools keep from one turn to the next.
#[derive(Debug)]
pub struct ThreadTools {
    /// The commands that run.
    pub(super) sessions: Sessions,
    /// The items of running commands, by session. Held only to put in and take out.
    running: Mutex<HashMap<i64, command::Running>>,
    /// The MCP servers. Held only to copy out and to replace.
    servers: Mutex<Arc<Servers>>,
    /// What a client has allowed for as long as the thread is loaded.
    allowed: Mutex<Allowed>,
}

/// What needs no further question in this thread.
#[derive(Debug, Default)]
struct Allowed {
    /// Commands, with their folder and whether they run free.
    commands: HashSet<(Vec<String>, PathBuf, bool)>,
    /// Files that patches may change.
    files: HashSet<PathBuf>,
    /// MCP tools, by server and name.
    mcp_tools: HashSet<(String, String)>,
    /// Granted by `request_permissions`.
    grants: permissions::Grants,
}

impl ThreadTools {
    /// For a thread that is loaded now.
    pub fn new(clock: Clock, servers: Servers) -> ThreadTools {
        ThreadTools {
            servers: Mutex::new(Arc::new(servers)),
            sessions: Sessions::new(clock),
            running: Mutex::default(),
            allowed: Mutex::default(),
        }
    }

    /// End every command and server, and wait until that is recorded.
    pub async fn shutdown(&self) {
        command::end(self, |_| true).await;
        self.sessions.shutdown().await;
        self.servers().shutdown().await;
    }

    /// The MCP servers.
    pub fn servers(&self) -> Arc<Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Put other servers in the place of those that are there, which are handed back.
    pub(super) fn replace_servers(&self, servers: Servers) -> Arc<Servers> {
        let mut place = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, Arc::new(servers))
    }

    fn allowed(&self) -> MutexGuard<'_, Allowed> {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<i64, command::Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A path that the model or a client wrote, from the thread's folder.
fn path_in(cwd: &Path, path: &str) -> PathBuf {
    crate::tools::patch::verify::absolute(cwd, path)
}
