//! The handshake (`protocol/connection.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::path::AbsolutePath;

/// Params of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// `capabilities`.
    #[serde(default)]
    pub capabilities: Option<InitializeCapabilities>,
    /// `clientInfo`.
    pub client_info: ClientInfo,
}

/// Result of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// `codexHome`.
    pub codex_home: AbsolutePath,
    /// `platformFamily`.
    pub platform_family: String,
    /// `platformOs`.
    pub platform_os: String,
    /// `userAgent`.
    pub user_agent: String,
}

/// A structure of the wire: `InitializeCapabilities` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeCapabilities {
    /// `experimentalApi`.
    #[serde(default)]
    pub experimental_api: bool,
    /// `explicitGatewayOauth`.
    #[serde(default)]
    pub explicit_gateway_oauth: bool,
    /// `extensions`.
    #[serde(default)]
    pub extensions: Option<serde_json::Map<String, serde_json::Value>>,
    /// `mcpServerOpenaiFormElicitation`.
    #[serde(default)]
    pub mcp_server_openai_form_elicitation: bool,
    /// `optOutNotificationMethods`.
    #[serde(default)]
    pub opt_out_notification_methods: Option<Vec<String>>,
    /// `requestAttestation`.
    #[serde(default)]
    pub request_attestation: bool,
    /// `requiredHumanApproval`.
    #[serde(default)]
    pub required_human_approval: bool,
}

/// A structure of the wire: `ClientInfo` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    /// `name`.
    pub name: String,
    /// `title`.
    #[serde(default)]
    pub title: Option<String>,
    /// `version`.
    pub version: String,
}
