//! A connection to one server.

use std::{collections::HashMap, io, path::Path, process::Command, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    RoleClient,
    handler::client::progress::ProgressDispatcher,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientRequest, ReadResourceRequestParams, RequestId, ServerResult,
    },
    service::{Peer, PeerRequestOptions, RunningService, ServiceError, serve_client},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use rustix::process::Signal;
use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::{Mutex, mpsc, watch},
    time::timeout,
};

use super::handler::Handler;
use crate::config::environment::{EnvironmentPolicy, Inherit};
use crate::config::mcp_server::ServerConfig;
use crate::tools::exec::{process::Process, spawn};

/// How long a server may take to end by itself, and then after being told to.
const END_TIME: Duration = Duration::from_millis(500);

/// Why a server cannot be used.
#[derive(Debug, Error)]
pub enum McpError {
    /// Its program could not be started, or its streams failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The configuration of its transport is wrong.
    #[error("{0}")]
    Config(String),
    /// It did not answer in time.
    #[error("{what} timed out after {seconds} seconds")]
    Timeout {
        /// Its start, or the call.
        what: String,
        /// The limit.
        seconds: f64,
    },
    /// It answered with an error, or not as the protocol says.
    #[error("{0}")]
    Server(String),
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name at the server.
    pub name: String,
    /// For the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// The server says that it changes nothing.
    pub read_only: bool,
    /// The whole definition as the server sent it.
    pub definition: Value,
}

/// The result of a call, as on the wire.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallResult {
    /// Content blocks.
    pub content: Vec<Value>,
    /// The same for programs.
    pub structured_content: Option<Value>,
    /// The tool says that it failed.
    pub is_error: bool,
    /// Metadata.
    pub meta: Option<Value>,
}

/// News of a running call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Of how much.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// A question of a server to the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// Who asks.
    pub server: String,
    /// The params as on the wire: `mode`, `message`, `requestedSchema` or `url`, `_meta`.
    pub request: Value,
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationAnswer {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// What was asked for.
    pub content: Option<Value>,
}

/// Asks the user; made by the runtime. The call's time does not run meanwhile.
pub type Elicit = Arc<dyn Fn(Elicitation) -> BoxFuture<'static, ElicitationAnswer> + Send + Sync>;

/// A running server.
pub struct Server {
    name: String,
    tools: Vec<Tool>,
    peer: Peer<RoleClient>,
    progress: ProgressDispatcher,
    waiting: watch::Receiver<usize>,
    tool_timeout: Duration,
    /// What ends it; `None` once it was ended.
    running: Mutex<Option<Running>>,
}

/// The connection and the process of a server.
struct Running {
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
}

impl Server {
    /// Starts or reaches a server and learns its tools, within the configured time.
    pub async fn start(
        name: &str,
        config: &ServerConfig,
        cwd: &Path,
        elicit: Elicit,
    ) -> Result<Server, McpError> {
        if let Some(problem) = config.problem(name) {
            return Err(McpError::Config(problem));
        }
        let limit = config.startup_timeout();
        let late = |_| McpError::Timeout {
            what: format!("starting the MCP server {name}"),
            seconds: limit.as_secs_f64(),
        };
        timeout(limit, Server::connect(name, config, cwd, elicit)).await.map_err(late)?
    }

    async fn connect(
        name: &str,
        config: &ServerConfig,
        cwd: &Path,
        elicit: Elicit,
    ) -> Result<Server, McpError> {
        let (waiting_sender, waiting) = watch::channel(0);
        let progress = ProgressDispatcher::new();
        let handler = Handler {
            server: name.to_owned(),
            elicit,
            progress: progress.clone(),
            waiting: Arc::new(waiting_sender),
        };
        let failed = |error: rmcp::service::ClientInitializeError| McpError::Server(error.to_string());
        let (service, process) = match &config.url {
            Some(url) => (serve_client(handler, http(url, config)?).await.map_err(failed)?, None),
            None => {
                let (streams, process) = stdio(name, config, cwd).await?;
                (serve_client(handler, streams).await.map_err(failed)?, Some(process))
            }
        };
        let peer = service.peer().clone();
        let tools = peer.list_all_tools().await.map_err(refused)?;
        let tools = tools.iter().map(tool).filter(|tool| config.uses(&tool.name)).collect();
        let tool_timeout = config.tool_timeout();
        let running = Mutex::new(Some(Running { service, process }));
        Ok(Server { name: name.to_owned(), tools, peer, progress, waiting, tool_timeout, running })
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tools that may be used.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The tool with this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// What the server told of itself when it was started.
    pub fn info(&self) -> Value {
        self.peer.peer_info().map_or(Value::Null, |info| to_value(&*info))
    }

    /// Calls a tool. News go to `progress`; if that is full they are left out.
    ///
    /// *Cancel safety*: a dropped call is cancelled at the server.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Option<Map<String, Value>>,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<CallResult, McpError> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = arguments;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(refused)?;
        let news = self.progress.subscribe(handle.progress_token.clone()).await;
        let mut open = OpenCall { peer: self.peer.clone(), id: Some(handle.id.clone()) };
        let response = self.await_response(tool, handle.await_response(), news, progress).await?;
        open.id = None;
        match response {
            ServerResult::CallToolResult(result) => Ok(CallResult {
                content: result.content.iter().map(to_value).collect(),
                structured_content: result.structured_content.clone(),
                is_error: result.is_error.unwrap_or(false),
                meta: result.meta.as_ref().map(to_value),
            }),
            _ => Err(McpError::Server(format!("the MCP server {} gave an unexpected answer", self.name))),
        }
    }

    async fn await_response(
        &self,
        tool: &str,
        response: impl Future<Output = Result<ServerResult, ServiceError>>,
        mut news: rmcp::handler::client::progress::ProgressSubscriber,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<ServerResult, McpError> {
        let mut response = std::pin::pin!(response);
        let mut waiting = self.waiting.clone();
        let mut limit = std::pin::pin!(tokio::time::sleep(self.tool_timeout));
        loop {
            tokio::select! {
                response = &mut response => return response.map_err(refused),
                Some(one) = news.next() => {
                    if let Some(progress) = &progress {
                        let _ = progress.try_send(Progress { progress: one.progress, total: one.total, message: one.message });
                    }
                }
                // While a user thinks, time stands still; afterwards it begins anew.
                Ok(()) = waiting.changed() => {
                    limit.as_mut().reset(tokio::time::Instant::now() + self.tool_timeout);
                }
                () = &mut limit, if *waiting.borrow() == 0 => {
                    let seconds = self.tool_timeout.as_secs_f64();
                    return Err(McpError::Timeout { what: format!("tool {tool} of the MCP server {}", self.name), seconds });
                }
            }
        }
    }

    /// All resources, as on the wire.
    pub async fn resources(&self) -> Result<Vec<Value>, McpError> {
        let found = self.in_time("listing resources", self.peer.list_all_resources()).await?;
        Ok(found.iter().map(to_value).collect())
    }

    /// All resource templates, as on the wire.
    pub async fn resource_templates(&self) -> Result<Vec<Value>, McpError> {
        let found =
            self.in_time("listing resource templates", self.peer.list_all_resource_templates()).await?;
        Ok(found.iter().map(to_value).collect())
    }

    /// The contents of a resource, as on the wire.
    pub async fn read_resource(&self, uri: &str) -> Result<Value, McpError> {
        let params = ReadResourceRequestParams::new(uri);
        Ok(to_value(&self.in_time("reading a resource", self.peer.read_resource(params)).await?))
    }

    async fn in_time<T>(
        &self,
        what: &str,
        answer: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, McpError> {
        let seconds = self.tool_timeout.as_secs_f64();
        let late = |_| McpError::Timeout { what: format!("{what} of the MCP server {}", self.name), seconds };
        timeout(self.tool_timeout, answer).await.map_err(late)?.map_err(refused)
    }

    /// Ends the connection, and the process: first its input closes, then it is asked to end, then made to. A second
    /// call finds nothing to do.
    pub async fn shutdown(&self) {
        let Some(Running { mut service, process }) = self.running.lock().await.take() else { return };
        let _ = timeout(END_TIME, service.close()).await;
        let Some(mut process) = process else { return };
        if timeout(END_TIME, process.wait()).await.is_err() {
            process.signal(Signal::TERM);
            if timeout(END_TIME, process.wait()).await.is_err() {
                process.signal(Signal::KILL);
                let _ = process.wait().await;
            }
        }
    }
}

/// Tells the server when nobody waits for a call any more.
struct OpenCall {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let params =
                CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".into()));
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}

async fn stdio(
    name: &str,
    config: &ServerConfig,
    cwd: &Path,
) -> Result<((ChildStdout, ChildStdin), Process), McpError> {
    let policy = EnvironmentPolicy { inherit: Inherit::Core, ..EnvironmentPolicy::default() };
    let mut command = Command::new(config.command.as_deref().unwrap_or_default());
    command
        .args(&config.args)
        .current_dir(config.cwd.as_deref().unwrap_or(cwd))
        .env_clear()
        .envs(policy.environment());
    command
        .envs(config.env_vars.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(&config.env);
    let mut child = spawn::spawn_helper(command).await?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Process::new(child);
    if let Some(stderr) = stderr {
        tokio::spawn(log_lines(name.to_owned(), stderr));
    }
    match (stdout, stdin) {
        (Some(stdout), Some(stdin)) => Ok(((stdout, stdin), process)),
        _ => Err(io::Error::other("the process has no standard streams").into()),
    }
}

/// A server's remarks go to the log, line by line.
async fn log_lines(server: String, stderr: ChildStderr) {
    const LINE_BYTES_MAX: u64 = 8 * 1024;
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
        tracing::debug!(server, "{}", String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}

fn http(
    url: &str,
    config: &ServerConfig,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, McpError> {
    let mut headers = HashMap::new();
    let from_environment = config
        .env_http_headers
        .iter()
        .filter_map(|(name, variable)| Some((name, std::env::var(variable).ok()?)));
    let fixed = config.http_headers.iter().map(|(name, value)| (name, value.clone()));
    for (name, value) in fixed.chain(from_environment) {
        let wrong = || McpError::Config(format!("the header `{name}` is not valid in HTTP"));
        let value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    let mut transport = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    if let Some(variable) = &config.bearer_token_env_var {
        let missing = |_| {
            McpError::Config(format!("environment variable {variable} for the MCP server's token is not set"))
        };
        transport = transport.auth_header(std::env::var(variable).map_err(missing)?);
    }
    // The client needs one provider for the whole process; it may have been chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().build().map_err(|error| McpError::Config(error.to_string()))?;
    Ok(StreamableHttpClientTransport::with_client(client, transport))
}

fn tool(tool: &rmcp::model::Tool) -> Tool {
    Tool {
        name: tool.name.to_string(),
        description: tool.description.as_ref().map(ToString::to_string),
        input_schema: Value::Object((*tool.input_schema).clone()),
        read_only: tool.annotations.as_ref().and_then(|hints| hints.read_only_hint).unwrap_or(false),
        definition: to_value(tool),
    }
}

fn refused(error: ServiceError) -> McpError {
    match error {
        ServiceError::McpError(error) => McpError::Server(error.message.into_owned()),
        other => McpError::Server(other.to_string()),
    }
}

/// The SDK's types are made from JSON and always go back to it.
fn to_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({"error": error.to_string()}))
}
