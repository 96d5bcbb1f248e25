//! `mcpServer*`, `config/mcpServer/reload`.

use std::sync::Arc;

use super::error::RpcError;
use crate::protocol::mcp::{
    ListMcpServerStatusParams, ListMcpServerStatusResponse, McpResourceReadParams, McpResourceReadResponse,
    McpServerReloadResponse, McpServerToolCallParams, McpServerToolCallResponse,
};
use crate::runtime::Runtime;
use crate::runtime::client::Request;

type Reply<T> = Result<T, RpcError>;

pub(super) async fn status_list(
    runtime: Arc<Runtime>,
    params: ListMcpServerStatusParams,
    _: Arc<dyn Request>,
) -> Reply<ListMcpServerStatusResponse> {
    Ok(runtime.list_servers(params).await?)
}

pub(super) async fn tool_call(
    runtime: Arc<Runtime>,
    params: McpServerToolCallParams,
    _: Arc<dyn Request>,
) -> Reply<McpServerToolCallResponse> {
    Ok(runtime.call_server_tool(params).await?)
}

pub(super) async fn resource_read(
    runtime: Arc<Runtime>,
    params: McpResourceReadParams,
    _: Arc<dyn Request>,
) -> Reply<McpResourceReadResponse> {
    Ok(runtime.read_server_resource(params).await?)
}

pub(super) async fn reload(runtime: Arc<Runtime>) -> Reply<McpServerReloadResponse> {
    runtime.reload_servers()?;
    Ok(McpServerReloadResponse {})
}
