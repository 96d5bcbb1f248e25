//! What clients ask of MCP servers (`protocol/utility.md`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::{Result, RuntimeError};
use super::mcp::{Entry, Owner, Servers};
use super::reading::handle_of;
use super::{Runtime, parse_id};
use crate::protocol::mcp::{
    ListMcpServerStatusParams, ListMcpServerStatusResponse, McpResourceReadParams, McpResourceReadResponse,
    McpServerStatusDetail, McpServerToolCallParams, McpServerToolCallResponse,
};
use crate::tools::mcp::server::McpError;

/// How many servers a page has when the client does not say.
const PAGE: u32 = 100;

impl Runtime {
    /// The servers of a loaded thread; without one, those of the configuration, started for the occasion.
    async fn servers_of(self: &Arc<Self>, thread_id: Option<&str>) -> Result<(Arc<Servers>, bool)> {
        if let Some(thread_id) = thread_id {
            return Ok((handle_of(self, thread_id)?.tools().servers(), false));
        }
        let cwd = super::settings::server_directory();
        let config = self.thread_config(Some(&cwd), None)?;
        let owner = Arc::new(Owner { runtime: self.clone(), thread: None, cwd: PathBuf::from(cwd) });
        Ok((Arc::new(Servers::start(&owner, &config)), true))
    }

    /// `mcpServerStatus/list`: by name, which is also the cursor. Waits until the servers are ready or failed.
    ///
    /// # Errors
    /// The thread is not loaded, or the cursor is none.
    pub async fn list_servers(
        self: &Arc<Self>,
        params: ListMcpServerStatusParams,
    ) -> Result<ListMcpServerStatusResponse> {
        let (servers, borrowed) = self.servers_of(params.thread_id.as_deref()).await?;
        let found = page(&servers, &params).await;
        if borrowed {
            servers.shutdown().await;
        }
        found
    }

    /// `mcpServer/tool/call`: a client calls a tool itself. No item, no question.
    ///
    /// # Errors
    /// There is no such server or tool, or the call failed.
    pub async fn call_server_tool(
        self: &Arc<Self>,
        params: McpServerToolCallParams,
    ) -> Result<McpServerToolCallResponse> {
        let servers = handle_of(self, &params.thread_id)?.tools().servers();
        let server = ready(&servers, &params.server).await?;
        if server.tool(&params.tool).is_none() {
            let McpServerToolCallParams { server, tool, .. } = params;
            return Err(RuntimeError::invalid(format!("MCP server `{server}` has no tool `{tool}`")));
        }
        let arguments = match params.arguments {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(RuntimeError::invalid("`arguments` of an MCP tool must be an object")),
        };
        let result = server.call(&params.tool, Some(arguments), None).await.map_err(failed)?;
        Ok(McpServerToolCallResponse {
            meta: result.meta,
            content: result.content,
            is_error: Some(result.is_error),
            structured_content: result.structured_content,
        })
    }

    /// `mcpServer/resource/read`.
    ///
    /// # Errors
    /// There is no such server, or it refused.
    pub async fn read_server_resource(
        self: &Arc<Self>,
        params: McpResourceReadParams,
    ) -> Result<McpResourceReadResponse> {
        let (servers, borrowed) = self.servers_of(params.thread_id.as_deref()).await?;
        let read = async {
            let server = ready(&servers, &params.server).await?;
            server.read_resource(&params.uri).await.map_err(failed)
        };
        let read = read.await;
        if borrowed {
            servers.shutdown().await;
        }
        let contents = match read?["contents"].take() {
            Value::Array(contents) => contents,
            _ => Vec::new(),
        };
        Ok(McpResourceReadResponse { contents, origin_call_id: params.origin_call_id })
    }

    /// `config/mcpServer/reload`: loaded threads start the servers of today's configuration.
    ///
    /// # Errors
    /// The configuration cannot be read.
    pub fn reload_servers(&self) -> Result<()> {
        let handles: Vec<_> = self.lock().values().cloned().collect();
        for handle in handles {
            let cwd = handle.with_live(|live| live.settings.cwd.clone());
            let config =
                self.config.for_thread(Path::new(&cwd), None).map_err(RuntimeError::configuration)?;
            handle.reload_servers(config);
        }
        Ok(())
    }

    /// Wait for the servers that a thread cannot do without.
    ///
    /// # Errors
    /// One of them failed; the thread is not loaded any more then. `what` is `creating` or `resuming`.
    pub(super) async fn require_servers(self: &Arc<Self>, thread_id: &str, what: &str) -> Result<()> {
        let thread_id = parse_id("thread", thread_id)?;
        let handle = self.must_be_loaded(&thread_id)?;
        let failures = handle.tools().servers().required_failures().await;
        if failures.is_empty() {
            return Ok(());
        }
        let _ =
            handle.ask(|reply| super::thread::Command::Unload(super::thread::Unload::Silent, reply)).await;
        Err(RuntimeError::Failed(format!(
            "error {what} thread: Fatal error: Failed to initialize session: required MCP servers failed to \
             initialize: {}",
            failures.join(", ")
        )))
    }
}

async fn page(servers: &Servers, params: &ListMcpServerStatusParams) -> Result<ListMcpServerStatusResponse> {
    servers.settled().await;
    let entries: Vec<&Arc<Entry>> = servers
        .entries()
        .iter()
        .filter(|entry| params.server_name.as_ref().is_none_or(|name| *name == entry.name))
        .collect();
    let first = match &params.cursor {
        None => 0,
        Some(cursor) => match entries.iter().position(|entry| entry.name == *cursor) {
            Some(place) => place + 1,
            None => return Err(RuntimeError::invalid(format!("invalid cursor: {cursor}"))),
        },
    };
    let limit = params.limit.unwrap_or(PAGE).max(1) as usize;
    let detail = params.detail.unwrap_or(McpServerStatusDetail::Full);
    let mut data = Vec::new();
    for entry in entries.iter().skip(first).take(limit) {
        data.push(entry.status(detail).await);
    }
    let more = entries.len() > first + limit;
    let next_cursor = data.last().filter(|_| more).map(|last| last.name.clone());
    Ok(ListMcpServerStatusResponse { data, next_cursor })
}

async fn ready(servers: &Servers, name: &str) -> Result<Arc<crate::tools::mcp::server::Server>> {
    let entry = servers.find(name).ok_or_else(|| {
        RuntimeError::invalid(format!("unknown MCP server `{name}`; see `mcp_servers` in config.toml"))
    })?;
    let unusable = |reason| RuntimeError::Failed(format!("MCP server `{name}` cannot be used: {reason}"));
    entry.server().await.map_err(unusable)
}

fn failed(error: McpError) -> RuntimeError {
    RuntimeError::Failed(error.to_string())
}
