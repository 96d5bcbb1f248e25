//! What the server asks its clients (`protocol/approvals.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::CommandAction;
use super::misc::RequestId;

/// Params of the notification `serverRequest/resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerRequestResolvedNotification {
    /// `requestId`.
    pub request_id: RequestId,
    /// The thread.
    pub thread_id: String,
}

/// Params of the server's request `item/commandExecution/requestApproval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionRequestApprovalParams {
    /// `additionalPermissions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_permissions: Option<AdditionalPermissionProfile>,
    /// `approvalId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// `availableDecisions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_decisions: Option<Vec<CommandExecutionApprovalDecision>>,
    /// `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// `commandActions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_actions: Option<Vec<CommandAction>>,
    /// Working directory, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `environmentId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// The item.
    pub item_id: String,
    /// `kind`.
    #[serde(default)]
    pub kind: CommandExecutionApprovalKind,
    /// `networkApprovalContext`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_approval_context: Option<NetworkApprovalContext>,
    /// `proposedExecpolicyAmendment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_execpolicy_amendment: Option<Vec<String>>,
    /// `proposedNetworkPolicyAmendments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_network_policy_amendments: Option<Vec<NetworkPolicyAmendment>>,
    /// `reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// A client's answer to `item/commandExecution/requestApproval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionRequestApprovalResponse {
    /// `decision`.
    pub decision: CommandExecutionApprovalDecision,
}

/// Params of the server's request `item/fileChange/requestApproval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeRequestApprovalParams {
    /// `grantRoot`.
    #[serde(default)]
    pub grant_root: Option<String>,
    /// The item.
    pub item_id: String,
    /// `reason`.
    #[serde(default)]
    pub reason: Option<String>,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// A client's answer to `item/fileChange/requestApproval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeRequestApprovalResponse {
    /// `decision`.
    pub decision: FileChangeApprovalDecision,
}

/// Params of the server's request `item/tool/requestUserInput`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputParams {
    /// `autoResolutionMs`.
    #[serde(default)]
    pub auto_resolution_ms: Option<u64>,
    /// `isBlocking`.
    pub is_blocking: bool,
    /// The item.
    pub item_id: String,
    /// `questions`.
    pub questions: Vec<ToolRequestUserInputQuestion>,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// A client's answer to `item/tool/requestUserInput`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputResponse {
    /// `answers`.
    pub answers: std::collections::BTreeMap<String, ToolRequestUserInputAnswer>,
}

/// Params of the server's request `mcpServer/elicitation/request`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerElicitationRequestParams {
    /// The thread.
    pub thread_id: String,
    /// The turn whose tool call the MCP server asks for; `None` when it asks on its own.
    #[serde(default)]
    pub turn_id: Option<String>,
    /// The MCP server, by its name in the configuration.
    pub server_name: String,
    /// The environment that the MCP server runs in.
    #[serde(default)]
    pub environment_id: Option<String>,
    /// What it asks.
    #[serde(flatten)]
    pub request: McpServerElicitationRequest,
}

/// What an MCP server asks the user, by the form of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode")]
pub enum McpServerElicitationRequest {
    /// `openai/userVerification`.
    #[serde(rename = "openai/userVerification", rename_all = "camelCase")]
    OpenaiUserVerificationSlash {
        /// `_meta`.
        #[serde(rename = "_meta", default)]
        meta: Option<serde_json::Value>,
        /// `challenge`.
        challenge: String,
        /// `description`.
        description: String,
        /// `title`.
        title: String,
    },
    /// `form`.
    #[serde(rename = "form", rename_all = "camelCase")]
    Form {
        /// `_meta`.
        #[serde(rename = "_meta", default)]
        meta: Option<serde_json::Value>,
        /// `message`.
        message: String,
        /// `requestedSchema`.
        requested_schema: serde_json::Value,
    },
    /// `openai/form`.
    #[serde(rename = "openai/form", rename_all = "camelCase")]
    OpenaiFormSlash {
        /// `_meta`.
        #[serde(rename = "_meta", default)]
        meta: Option<serde_json::Value>,
        /// `message`.
        message: String,
        /// `requestedSchema`.
        requested_schema: serde_json::Value,
    },
    /// `openaiForm`.
    #[serde(rename = "openaiForm", rename_all = "camelCase")]
    OpenaiForm {
        /// `_meta`.
        #[serde(rename = "_meta", default)]
        meta: Option<serde_json::Value>,
        /// `message`.
        message: String,
        /// `requestedSchema`.
        requested_schema: serde_json::Value,
    },
    /// `url`.
    #[serde(rename = "url", rename_all = "camelCase")]
    Url {
        /// `_meta`.
        #[serde(rename = "_meta", default)]
        meta: Option<serde_json::Value>,
        /// `elicitationId`.
        elicitation_id: String,
        /// `message`.
        message: String,
        /// `url`.
        url: String,
    },
}

/// A client's answer to `mcpServer/elicitation/request`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerElicitationRequestResponse {
    /// `_meta`.
    #[serde(rename = "_meta", default)]
    pub meta: Option<serde_json::Value>,
    /// `action`.
    pub action: McpServerElicitationAction,
    /// `content`.
    #[serde(default)]
    pub content: Option<serde_json::Value>,
}

/// Params of the server's request `item/permissions/requestApproval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsRequestApprovalParams {
    /// Working directory, absolute.
    pub cwd: String,
    /// `environmentId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// The item.
    pub item_id: String,
    /// `permissions`.
    pub permissions: RequestPermissionProfile,
    /// `reason`.
    #[serde(default)]
    pub reason: Option<String>,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// A client's answer to `item/permissions/requestApproval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsRequestApprovalResponse {
    /// `permissions`.
    pub permissions: GrantedPermissionProfile,
    /// `scope`.
    #[serde(default)]
    pub scope: PermissionGrantScope,
    /// `strictAutoReview`.
    #[serde(default)]
    pub strict_auto_review: Option<bool>,
}

/// When a client is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum AskForApproval {
    /// `untrusted`.
    #[serde(rename = "untrusted")]
    Untrusted,
    /// `on-request`.
    #[serde(rename = "on-request")]
    OnRequest,
    /// `never`.
    #[serde(rename = "never")]
    Never,
    /// `granular`.
    #[serde(rename = "granular")]
    Granular(AskForApprovalGranular),
}

/// A structure of the wire: `AskForApprovalGranular` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskForApprovalGranular {
    /// `mcp_elicitations`.
    #[serde(rename = "mcp_elicitations")]
    pub mcp_elicitations: bool,
    /// `request_permissions`.
    #[serde(rename = "request_permissions", default)]
    pub request_permissions: bool,
    /// `rules`.
    pub rules: bool,
    /// `sandbox_approval`.
    #[serde(rename = "sandbox_approval")]
    pub sandbox_approval: bool,
    /// `skill_approval`.
    #[serde(rename = "skill_approval", default)]
    pub skill_approval: bool,
}

/// A word of the wire: `ApprovalsReviewer` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalsReviewer {
    /// `user`.
    #[serde(rename = "user")]
    User,
    /// `auto_review`.
    #[serde(rename = "auto_review")]
    AutoReview,
    /// `guardian_subagent`.
    #[serde(rename = "guardian_subagent")]
    GuardianSubagent,
}

/// A structure of the wire: `AdditionalPermissionProfile` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalPermissionProfile {
    /// `fileSystem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<AdditionalFileSystemPermissions>,
    /// `network`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<AdditionalNetworkPermissions>,
}

/// A union of the wire: `CommandExecutionApprovalDecision` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum CommandExecutionApprovalDecision {
    /// `accept`.
    #[serde(rename = "accept")]
    Accept,
    /// `acceptForSession`.
    #[serde(rename = "acceptForSession")]
    AcceptForSession,
    /// `acceptWithExecpolicyAmendment`.
    #[serde(rename = "acceptWithExecpolicyAmendment")]
    AcceptWithExecpolicyAmendment(CommandExecutionApprovalDecisionAcceptWithExecpolicyAmendment),
    /// `applyNetworkPolicyAmendment`.
    #[serde(rename = "applyNetworkPolicyAmendment")]
    ApplyNetworkPolicyAmendment(CommandExecutionApprovalDecisionApplyNetworkPolicyAmendment),
    /// `decline`.
    #[serde(rename = "decline")]
    Decline,
    /// `cancel`.
    #[serde(rename = "cancel")]
    Cancel,
}

/// A structure of the wire: `CommandExecutionApprovalDecisionAcceptWithExecpolicyAmendment` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionApprovalDecisionAcceptWithExecpolicyAmendment {
    /// `execpolicy_amendment`.
    #[serde(rename = "execpolicy_amendment")]
    pub execpolicy_amendment: Vec<String>,
}

/// A structure of the wire: `CommandExecutionApprovalDecisionApplyNetworkPolicyAmendment` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionApprovalDecisionApplyNetworkPolicyAmendment {
    /// `network_policy_amendment`.
    #[serde(rename = "network_policy_amendment")]
    pub network_policy_amendment: NetworkPolicyAmendment,
}

/// A union of the wire: `CommandExecutionApprovalKind` in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CommandExecutionApprovalKind {
    /// `command`.
    #[serde(rename = "command")]
    #[default]
    Command,
    /// `writeStdin`.
    #[serde(rename = "writeStdin")]
    WriteStdin,
    /// `humanCommand`.
    #[serde(rename = "humanCommand")]
    HumanCommand,
}

/// A structure of the wire: `NetworkApprovalContext` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkApprovalContext {
    /// `host`.
    pub host: String,
    /// `protocol`.
    pub protocol: NetworkApprovalProtocol,
}

/// A structure of the wire: `NetworkPolicyAmendment` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicyAmendment {
    /// `action`.
    pub action: NetworkPolicyRuleAction,
    /// `host`.
    pub host: String,
}

/// A union of the wire: `FileChangeApprovalDecision` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FileChangeApprovalDecision {
    /// `accept`.
    #[serde(rename = "accept")]
    Accept,
    /// `acceptForSession`.
    #[serde(rename = "acceptForSession")]
    AcceptForSession,
    /// `decline`.
    #[serde(rename = "decline")]
    Decline,
    /// `cancel`.
    #[serde(rename = "cancel")]
    Cancel,
}

/// A structure of the wire: `ToolRequestUserInputQuestion` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputQuestion {
    /// `header`.
    pub header: String,
    /// `id`.
    pub id: String,
    /// `isOther`.
    #[serde(default)]
    pub is_other: bool,
    /// `isSecret`.
    #[serde(default)]
    pub is_secret: bool,
    /// `options`.
    #[serde(default)]
    pub options: Option<Vec<ToolRequestUserInputOption>>,
    /// `question`.
    pub question: String,
}

/// A structure of the wire: `ToolRequestUserInputAnswer` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputAnswer {
    /// `answers`.
    pub answers: Vec<String>,
}

/// A word of the wire: `McpServerElicitationAction` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpServerElicitationAction {
    /// `accept`.
    #[serde(rename = "accept")]
    Accept,
    /// `decline`.
    #[serde(rename = "decline")]
    Decline,
    /// `cancel`.
    #[serde(rename = "cancel")]
    Cancel,
}

/// A structure of the wire: `RequestPermissionProfile` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestPermissionProfile {
    /// `fileSystem`.
    #[serde(default)]
    pub file_system: Option<AdditionalFileSystemPermissions>,
    /// `network`.
    #[serde(default)]
    pub network: Option<AdditionalNetworkPermissions>,
}

/// A structure of the wire: `GrantedPermissionProfile` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantedPermissionProfile {
    /// `fileSystem`.
    #[serde(default)]
    pub file_system: Option<AdditionalFileSystemPermissions>,
    /// `network`.
    #[serde(default)]
    pub network: Option<AdditionalNetworkPermissions>,
}

/// A word of the wire: `PermissionGrantScope` in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PermissionGrantScope {
    /// `turn`.
    #[serde(rename = "turn")]
    #[default]
    Turn,
    /// `session`.
    #[serde(rename = "session")]
    Session,
}

/// A structure of the wire: `AdditionalFileSystemPermissions` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalFileSystemPermissions {
    /// `entries`.
    #[serde(default)]
    pub entries: Option<Vec<FileSystemSandboxEntry>>,
    /// `globScanMaxDepth`.
    #[serde(default)]
    pub glob_scan_max_depth: Option<u64>,
    /// `read`.
    #[serde(default)]
    pub read: Option<Vec<String>>,
    /// `write`.
    #[serde(default)]
    pub write: Option<Vec<String>>,
}

/// A structure of the wire: `AdditionalNetworkPermissions` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalNetworkPermissions {
    /// `enabled`.
    #[serde(default)]
    pub enabled: Option<bool>,
}

/// A word of the wire: `NetworkApprovalProtocol` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum NetworkApprovalProtocol {
    /// `http`.
    #[serde(rename = "http")]
    Http,
    /// `https`.
    #[serde(rename = "https")]
    Https,
    /// `socks5Tcp`.
    #[serde(rename = "socks5Tcp")]
    Socks5Tcp,
    /// `socks5Udp`.
    #[serde(rename = "socks5Udp")]
    Socks5Udp,
}

/// A word of the wire: `NetworkPolicyRuleAction` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum NetworkPolicyRuleAction {
    /// `allow`.
    #[serde(rename = "allow")]
    Allow,
    /// `deny`.
    #[serde(rename = "deny")]
    Deny,
}

/// A structure of the wire: `ToolRequestUserInputOption` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputOption {
    /// `description`.
    pub description: String,
    /// `label`.
    pub label: String,
}

/// A structure of the wire: `FileSystemSandboxEntry` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileSystemSandboxEntry {
    /// `access`.
    pub access: FileSystemAccessMode,
    /// `path`.
    pub path: FileSystemPath,
}

/// A word of the wire: `FileSystemAccessMode` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FileSystemAccessMode {
    /// `read`.
    #[serde(rename = "read")]
    Read,
    /// `write`.
    #[serde(rename = "write")]
    Write,
    /// `deny`.
    #[serde(rename = "deny")]
    Deny,
}

/// A union of the wire: `FileSystemPath` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum FileSystemPath {
    /// `path`.
    #[serde(rename = "path", rename_all = "camelCase")]
    Path {
        /// `path`.
        path: String,
    },
    /// `glob_pattern`.
    #[serde(rename = "glob_pattern", rename_all = "camelCase")]
    GlobPattern {
        /// `pattern`.
        pattern: String,
    },
    /// `special`.
    #[serde(rename = "special", rename_all = "camelCase")]
    Special {
        /// `value`.
        value: FileSystemSpecialPath,
    },
}

/// A union of the wire: `FileSystemSpecialPath` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum FileSystemSpecialPath {
    /// `root`.
    #[serde(rename = "root")]
    Root,
    /// `minimal`.
    #[serde(rename = "minimal")]
    Minimal,
    /// `project_roots`.
    #[serde(rename = "project_roots", rename_all = "camelCase")]
    ProjectRoots {
        /// `subpath`.
        #[serde(default)]
        subpath: Option<String>,
    },
    /// `tmpdir`.
    #[serde(rename = "tmpdir")]
    Tmpdir,
    /// `slash_tmp`.
    #[serde(rename = "slash_tmp")]
    SlashTmp,
    /// `unknown`.
    #[serde(rename = "unknown", rename_all = "camelCase")]
    Unknown {
        /// `path`.
        path: String,
        /// `subpath`.
        #[serde(default)]
        subpath: Option<String>,
    },
}
