//! MCP servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `mcpServerStatus/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMcpServerStatusParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// `detail`.
    #[serde(default)]
    pub detail: Option<McpServerStatusDetail>,
    /// `environmentId`.
    #[serde(default)]
    pub environment_id: Option<String>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `serverName`.
    #[serde(default)]
    pub server_name: Option<String>,
    /// The thread.
    #[serde(default)]
    pub thread_id: Option<String>,
}

/// Result of `mcpServerStatus/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMcpServerStatusResponse {
    /// `data`.
    pub data: Vec<McpServerStatus>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of `mcpServer/resource/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpResourceReadParams {
    /// `_meta`.
    #[serde(rename = "_meta", default)]
    pub meta: Option<serde_json::Map<String, serde_json::Value>>,
    /// `connectorId`.
    #[serde(default)]
    pub connector_id: Option<String>,
    /// `environmentId`.
    #[serde(default)]
    pub environment_id: Option<String>,
    /// `originCallId`.
    #[serde(default)]
    pub origin_call_id: Option<String>,
    /// `server`.
    pub server: String,
    /// `target`.
    #[serde(default)]
    pub target: Option<McpResourceReadTarget>,
    /// The thread.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// `uri`.
    pub uri: String,
}

/// Result of `mcpServer/resource/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpResourceReadResponse {
    /// `contents`.
    pub contents: Vec<serde_json::Value>,
    /// `originCallId`.
    #[serde(default)]
    pub origin_call_id: Option<String>,
}

/// Params of `mcpServer/tool/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerToolCallParams {
    /// `_meta`.
    #[serde(rename = "_meta", default)]
    pub meta: Option<serde_json::Value>,
    /// `arguments`.
    #[serde(default)]
    pub arguments: Option<serde_json::Value>,
    /// `environmentId`.
    #[serde(default)]
    pub environment_id: Option<String>,
    /// `server`.
    pub server: String,
    /// The thread.
    pub thread_id: String,
    /// `tool`.
    pub tool: String,
}

/// Result of `mcpServer/tool/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerToolCallResponse {
    /// `_meta`.
    #[serde(rename = "_meta", default)]
    pub meta: Option<serde_json::Value>,
    /// `content`.
    pub content: Vec<serde_json::Value>,
    /// `isError`.
    #[serde(default)]
    pub is_error: Option<bool>,
    /// `structuredContent`.
    #[serde(default)]
    pub structured_content: Option<serde_json::Value>,
}

/// Params of the notification `mcpServer/startupStatus/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatusUpdatedNotification {
    /// `environmentId`.
    #[serde(default)]
    pub environment_id: Option<String>,
    /// `error`.
    #[serde(default)]
    pub error: Option<String>,
    /// `failureReason`.
    #[serde(default)]
    pub failure_reason: Option<McpServerStartupFailureReason>,
    /// `name`.
    pub name: String,
    /// `status`.
    pub status: McpServerStartupState,
    /// The thread.
    #[serde(default)]
    pub thread_id: Option<String>,
}

/// Result of `config/mcpServer/reload`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerReloadResponse {}

/// A word of the wire: `McpServerStatusDetail` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpServerStatusDetail {
    /// `full`.
    #[serde(rename = "full")]
    Full,
    /// `toolsAndAuthOnly`.
    #[serde(rename = "toolsAndAuthOnly")]
    ToolsAndAuthOnly,
}

/// A structure of the wire: `McpServerStatus` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    /// `authStatus`.
    pub auth_status: McpAuthStatus,
    /// `environmentId`.
    #[serde(default)]
    pub environment_id: Option<String>,
    /// `httpOrigin`.
    #[serde(default)]
    pub http_origin: Option<String>,
    /// `name`.
    pub name: String,
    /// `pluginId`.
    #[serde(default)]
    pub plugin_id: Option<String>,
    /// `resourceTemplates`.
    pub resource_templates: Vec<serde_json::Value>,
    /// `resources`.
    pub resources: Vec<serde_json::Value>,
    /// `runtimeStatus`.
    #[serde(default)]
    pub runtime_status: Option<McpServerConnectionStatus>,
    /// `serverCapabilities`.
    #[serde(default)]
    pub server_capabilities: Option<serde_json::Value>,
    /// `serverInfo`.
    #[serde(default)]
    pub server_info: Option<McpServerInfo>,
    /// `toolListMeta`.
    #[serde(default)]
    pub tool_list_meta: Option<serde_json::Value>,
    /// `tools`.
    pub tools: std::collections::BTreeMap<String, serde_json::Value>,
    /// `toolsError`.
    #[serde(default)]
    pub tools_error: Option<String>,
}

/// A structure of the wire: `McpResourceReadTarget` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["connectorId", "linkId"]))]
pub struct McpResourceReadTarget {
    /// `connectorId`.
    pub connector_id: String,
    /// `linkId`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub link_id: Option<String>,
}

/// A word of the wire: `McpServerStartupFailureReason` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpServerStartupFailureReason {
    /// `reauthenticationRequired`.
    #[serde(rename = "reauthenticationRequired")]
    ReauthenticationRequired,
}

/// A word of the wire: `McpServerStartupState` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpServerStartupState {
    /// `starting`.
    #[serde(rename = "starting")]
    Starting,
    /// `ready`.
    #[serde(rename = "ready")]
    Ready,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
    /// `cancelled`.
    #[serde(rename = "cancelled")]
    Cancelled,
}

/// A word of the wire: `McpAuthStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpAuthStatus {
    /// `unknown`.
    #[serde(rename = "unknown")]
    Unknown,
    /// `unsupported`.
    #[serde(rename = "unsupported")]
    Unsupported,
    /// `notLoggedIn`.
    #[serde(rename = "notLoggedIn")]
    NotLoggedIn,
    /// `bearerToken`.
    #[serde(rename = "bearerToken")]
    BearerToken,
    /// `oAuth`.
    #[serde(rename = "oAuth")]
    OAuth,
}

/// A word of the wire: `McpServerConnectionStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpServerConnectionStatus {
    /// `notStarted`.
    #[serde(rename = "notStarted")]
    NotStarted,
    /// `starting`.
    #[serde(rename = "starting")]
    Starting,
    /// `connected`.
    #[serde(rename = "connected")]
    Connected,
    /// `authenticationRequired`.
    #[serde(rename = "authenticationRequired")]
    AuthenticationRequired,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
    /// `cancelled`.
    #[serde(rename = "cancelled")]
    Cancelled,
    /// `disabled`.
    #[serde(rename = "disabled")]
    Disabled,
}

/// A structure of the wire: `McpServerInfo` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerInfo {
    /// `description`.
    #[serde(default)]
    pub description: Option<String>,
    /// `icons`.
    #[serde(default)]
    pub icons: Option<Vec<serde_json::Value>>,
    /// `name`.
    pub name: String,
    /// `title`.
    #[serde(default)]
    pub title: Option<String>,
    /// `version`.
    pub version: String,
    /// `websiteUrl`.
    #[serde(default)]
    pub website_url: Option<String>,
}

/// A structure of the wire: `McpAppUi` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpAppUi {
    /// `preferredModelDisplayMode`.
    pub preferred_model_display_mode: McpAppDisplayMode,
    /// `resourceUri`.
    pub resource_uri: String,
}

/// A word of the wire: `McpAppDisplayMode` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpAppDisplayMode {
    /// `inline`.
    #[serde(rename = "inline")]
    Inline,
    /// `fullscreen`.
    #[serde(rename = "fullscreen")]
    Fullscreen,
}
