//! Sticky settings of threads (`protocol/settings.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::{ApprovalsReviewer, AskForApproval};
use super::item::CollaborationMode;
use super::path::AbsolutePath;
use super::thread::ThreadEnvironment;
use super::turn::TurnEnvironmentParams;

/// Params of `thread/settings/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdateParams {
    /// `approvalPolicy`.
    #[serde(default)]
    pub approval_policy: Option<AskForApproval>,
    /// `approvalsReviewer`.
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// `collaborationMode`.
    #[serde(default)]
    pub collaboration_mode: Option<CollaborationMode>,
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// `disabledPluginIds`.
    #[serde(default)]
    pub disabled_plugin_ids: Option<Vec<String>>,
    /// `effort`.
    #[serde(default)]
    pub effort: Option<String>,
    /// `environments`.
    #[serde(default)]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `multiAgentMode`.
    #[serde(default)]
    pub multi_agent_mode: Option<MultiAgentMode>,
    /// `permissions`.
    #[serde(default)]
    pub permissions: Option<String>,
    /// `personality`.
    #[serde(default)]
    pub personality: Option<Personality>,
    /// `sandboxPolicy`.
    #[serde(default)]
    pub sandbox_policy: Option<SandboxPolicy>,
    /// `serviceTier`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Option<String>>,
    /// `summary`.
    #[serde(default)]
    pub summary: Option<ReasoningSummary>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/settings/update`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdateResponse {}

/// Params of `turn/settings/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnSettingsUpdateParams {
    /// `approvalsReviewer`.
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// `effort`.
    #[serde(default)]
    pub effort: Option<String>,
    /// `environments`.
    #[serde(default)]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `serviceTier`.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// `summary`.
    #[serde(default)]
    pub summary: Option<ReasoningSummary>,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Result of `turn/settings/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnSettingsUpdateResponse {
    /// `status`.
    pub status: TurnSettingsUpdateStatus,
}

/// Params of `permissionProfile/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionProfileListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `permissionProfile/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionProfileListResponse {
    /// `data`.
    pub data: Vec<PermissionProfileSummary>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of the notification `thread/settings/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdatedNotification {
    /// The thread.
    pub thread_id: String,
    /// `threadSettings`.
    pub thread_settings: ThreadSettings,
}

/// A union of the wire: `MultiAgentMode` in the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum MultiAgentMode {
    /// `explicitRequestOnly`.
    #[serde(rename = "explicitRequestOnly")]
    #[default]
    ExplicitRequestOnly,
    /// `proactive`.
    #[serde(rename = "proactive")]
    Proactive,
    /// `custom`.
    #[serde(rename = "custom")]
    Custom(String),
}

/// A word of the wire: `Personality` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Personality {
    /// `none`.
    #[serde(rename = "none")]
    None,
    /// `friendly`.
    #[serde(rename = "friendly")]
    Friendly,
    /// `pragmatic`.
    #[serde(rename = "pragmatic")]
    Pragmatic,
}

/// A word of the wire: `SandboxMode` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SandboxMode {
    /// `read-only`.
    #[serde(rename = "read-only")]
    ReadOnly,
    /// `workspace-write`.
    #[serde(rename = "workspace-write")]
    WorkspaceWrite,
    /// `danger-full-access`.
    #[serde(rename = "danger-full-access")]
    DangerFullAccess,
}

/// A structure of the wire: `ActivePermissionProfile` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivePermissionProfile {
    /// `extends`.
    #[serde(default)]
    pub extends: Option<String>,
    /// `id`.
    pub id: String,
}

/// What commands may touch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum SandboxPolicy {
    /// `dangerFullAccess`.
    #[serde(rename = "dangerFullAccess")]
    DangerFullAccess,
    /// `readOnly`.
    #[serde(rename = "readOnly", rename_all = "camelCase")]
    ReadOnly {
        /// `networkAccess`.
        #[serde(default)]
        network_access: bool,
    },
    /// `externalSandbox`.
    #[serde(rename = "externalSandbox", rename_all = "camelCase")]
    ExternalSandbox {
        /// `networkAccess`.
        #[serde(default)]
        network_access: NetworkAccess,
    },
    /// `workspaceWrite`.
    #[serde(rename = "workspaceWrite", rename_all = "camelCase")]
    WorkspaceWrite {
        /// `excludeSlashTmp`.
        #[serde(default)]
        exclude_slash_tmp: bool,
        /// `excludeTmpdirEnvVar`.
        #[serde(default)]
        exclude_tmpdir_env_var: bool,
        /// `networkAccess`.
        #[serde(default)]
        network_access: bool,
        /// `writableRoots`.
        #[serde(default)]
        writable_roots: Vec<AbsolutePath>,
    },
}

/// A union of the wire: `ReasoningSummary` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReasoningSummary {
    /// `auto`.
    #[serde(rename = "auto")]
    Auto,
    /// `concise`.
    #[serde(rename = "concise")]
    Concise,
    /// `detailed`.
    #[serde(rename = "detailed")]
    Detailed,
    /// `none`.
    #[serde(rename = "none")]
    None,
}

/// A union of the wire: `TurnSettingsUpdateStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TurnSettingsUpdateStatus {
    /// `applied`.
    #[serde(rename = "applied")]
    Applied,
    /// `targetUnavailable`.
    #[serde(rename = "targetUnavailable")]
    TargetUnavailable,
}

/// A structure of the wire: `PermissionProfileSummary` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionProfileSummary {
    /// `allowed`.
    pub allowed: bool,
    /// `description`.
    #[serde(default)]
    pub description: Option<String>,
    /// `id`.
    pub id: String,
}

/// The sticky settings of a thread (`protocol/settings.md`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettings {
    /// `activePermissionProfile`.
    #[serde(default)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// `approvalPolicy`.
    pub approval_policy: AskForApproval,
    /// `approvalsReviewer`.
    pub approvals_reviewer: ApprovalsReviewer,
    /// `collaborationMode`.
    pub collaboration_mode: CollaborationMode,
    /// Working directory, absolute.
    pub cwd: AbsolutePath,
    /// `disabledPluginIds`.
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
    /// `effort`.
    #[serde(default)]
    pub effort: Option<String>,
    /// `environments`.
    #[serde(default)]
    pub environments: Option<Vec<ThreadEnvironment>>,
    /// `model`.
    pub model: String,
    /// `modelProvider`.
    pub model_provider: String,
    /// `multiAgentMode`.
    #[serde(default)]
    pub multi_agent_mode: MultiAgentMode,
    /// `personality`.
    #[serde(default)]
    pub personality: Option<Personality>,
    /// `sandboxPolicy`.
    pub sandbox_policy: SandboxPolicy,
    /// `serviceTier`.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// `summary`.
    #[serde(default)]
    pub summary: Option<ReasoningSummary>,
}

/// A word of the wire: `NetworkAccess` in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum NetworkAccess {
    /// `restricted`.
    #[serde(rename = "restricted")]
    #[default]
    Restricted,
    /// `enabled`.
    #[serde(rename = "enabled")]
    Enabled,
}

/// A word of the wire: `ModeKind` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ModeKind {
    /// `plan`.
    #[serde(rename = "plan")]
    Plan,
    /// `default`; the other words are older names of modes that are gone.
    #[serde(
        rename = "default",
        alias = "code",
        alias = "custom",
        alias = "execute",
        alias = "pair_programming"
    )]
    Default,
}

/// A structure of the wire: `Settings` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// `developer_instructions`.
    #[serde(rename = "developer_instructions", default)]
    pub developer_instructions: Option<String>,
    /// `model`.
    pub model: String,
    /// `reasoning_effort`.
    #[serde(rename = "reasoning_effort", default)]
    pub reasoning_effort: Option<String>,
}

/// A structure of the wire: `ReasoningEffortOption` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningEffortOption {
    /// `description`.
    pub description: String,
    /// `reasoningEffort`.
    pub reasoning_effort: String,
}
