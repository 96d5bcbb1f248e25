//! Turns (`protocol/turns.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::approval::{ApprovalsReviewer, AskForApproval};
use super::error::TurnError;
use super::input::UserInput;
use super::item::CollaborationMode;
use super::misc::{AdditionalContextEntry, CyberAccessProgram};
use super::path::AbsolutePath;
use super::settings::{MultiAgentMode, Personality, ReasoningSummary, SandboxPolicy};
use super::thread::SortDirection;

/// Params of `thread/turns/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTurnsListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// `itemsView`.
    #[serde(default)]
    pub items_view: Option<TurnItemsView>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `sortDirection`.
    #[serde(default)]
    pub sort_direction: Option<SortDirection>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/turns/list`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTurnsListResponse {
    /// Where the page in the other direction starts, its first row included.
    #[serde(default)]
    pub backwards_cursor: Option<String>,
    /// `data`.
    pub data: Vec<Turn>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of `turn/start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartParams {
    /// `additionalContext`.
    #[serde(default)]
    pub additional_context: Option<std::collections::BTreeMap<String, AdditionalContextEntry>>,
    /// `approvalPolicy`.
    #[serde(default)]
    pub approval_policy: Option<AskForApproval>,
    /// `approvalsReviewer`.
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// `clientUserMessageId`.
    #[serde(default)]
    pub client_user_message_id: Option<String>,
    /// `collaborationMode`.
    #[serde(default)]
    pub collaboration_mode: Option<CollaborationMode>,
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// `cyberAccessProgram`.
    #[serde(default)]
    pub cyber_access_program: Option<CyberAccessProgram>,
    /// `disabledPluginIds`.
    #[serde(default)]
    pub disabled_plugin_ids: Option<Vec<String>>,
    /// `effort`.
    #[serde(default)]
    pub effort: Option<String>,
    /// `environments`.
    #[serde(default)]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    /// `input`.
    pub input: Vec<UserInput>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `multiAgentMode`.
    #[serde(default)]
    pub multi_agent_mode: Option<MultiAgentMode>,
    /// `outputSchema`.
    #[serde(default)]
    pub output_schema: Option<serde_json::Value>,
    /// `parentTurnId`.
    #[serde(default)]
    pub parent_turn_id: Option<String>,
    /// `permissions`.
    #[serde(default)]
    pub permissions: Option<String>,
    /// `personality`.
    #[serde(default)]
    pub personality: Option<Personality>,
    /// `responsesapiClientMetadata`.
    #[serde(default)]
    pub responsesapi_client_metadata: Option<std::collections::BTreeMap<String, String>>,
    /// `responsesapiClientMetadataPatch`.
    #[serde(default)]
    pub responsesapi_client_metadata_patch: Option<std::collections::BTreeMap<String, String>>,
    /// `rootTurnId`.
    #[serde(default)]
    pub root_turn_id: Option<String>,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Option<Vec<AbsolutePath>>,
    /// `sandboxPolicy`.
    #[serde(default)]
    pub sandbox_policy: Option<SandboxPolicy>,
    /// `serviceTier`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Option<String>>,
    /// `serviceTierForTurn`.
    #[serde(default)]
    pub service_tier_for_turn: Option<String>,
    /// `summary`.
    #[serde(default)]
    pub summary: Option<ReasoningSummary>,
    /// The thread.
    pub thread_id: String,
    /// `toolOutput`.
    #[serde(default)]
    pub tool_output: Option<TurnToolOutput>,
    /// `turnTrigger`.
    #[serde(default)]
    pub turn_trigger: Option<String>,
}

/// Result of `turn/start`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartResponse {
    /// `turn`.
    pub turn: Turn,
}

/// Params of `turn/steer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteerParams {
    /// `additionalContext`.
    #[serde(default)]
    pub additional_context: Option<std::collections::BTreeMap<String, AdditionalContextEntry>>,
    /// `clientUserMessageId`.
    #[serde(default)]
    pub client_user_message_id: Option<String>,
    /// `expectedTurnId`.
    pub expected_turn_id: String,
    /// `input`.
    pub input: Vec<UserInput>,
    /// `responsesapiClientMetadata`.
    #[serde(default)]
    pub responsesapi_client_metadata: Option<std::collections::BTreeMap<String, String>>,
    /// `responsesapiClientMetadataPatch`.
    #[serde(default)]
    pub responsesapi_client_metadata_patch: Option<std::collections::BTreeMap<String, String>>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `turn/steer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteerResponse {
    /// The turn.
    pub turn_id: String,
}

/// Params of `turn/interrupt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptParams {
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Result of `turn/interrupt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptResponse {}

/// Params of the notification `turn/started`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartedNotification {
    /// The thread.
    pub thread_id: String,
    /// `turn`.
    pub turn: Turn,
}

/// Params of the notification `turn/completed`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnCompletedNotification {
    /// The thread.
    pub thread_id: String,
    /// `turn`.
    pub turn: Turn,
}

/// Params of the notification `turn/diff/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffUpdatedNotification {
    /// `diff`.
    pub diff: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `turn/plan/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnPlanUpdatedNotification {
    /// `explanation`.
    #[serde(default)]
    pub explanation: Option<String>,
    /// `plan`.
    pub plan: Vec<TurnPlanStep>,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `turn/moderationMetadata`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnModerationMetadataNotification {
    /// `metadata`.
    pub metadata: serde_json::Value,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// A structure of the wire: `TurnEnvironmentParams` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnvironmentParams {
    /// Working directory, absolute.
    pub cwd: String,
    /// `environmentId`.
    pub environment_id: String,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Option<Vec<String>>,
}

/// A structure of the wire: `ThreadResumeInitialTurnsPageParams` in the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeInitialTurnsPageParams {
    /// `itemsView`.
    #[serde(default)]
    pub items_view: Option<TurnItemsView>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `sortDirection`.
    #[serde(default)]
    pub sort_direction: Option<SortDirection>,
}

/// A structure of the wire: `TurnsPage` in the schema.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnsPage {
    /// Where the page in the other direction starts, its first row included.
    #[serde(default)]
    pub backwards_cursor: Option<String>,
    /// `data`.
    pub data: Vec<Turn>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A union of the wire: `TurnItemsView` in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TurnItemsView {
    /// `notLoaded`.
    #[serde(rename = "notLoaded")]
    NotLoaded,
    /// `summary`.
    #[serde(rename = "summary")]
    Summary,
    /// `full`.
    #[serde(rename = "full")]
    #[default]
    Full,
}

/// A turn (`protocol/turns.md`, section 1).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// `id`.
    pub id: String,
    /// `rootTurnId`.
    #[serde(default)]
    pub root_turn_id: Option<String>,
    /// `items`.
    #[schemars(with = "Vec<crate::protocol::item::ThreadItem>")]
    pub items: Vec<Box<RawValue>>,
    /// `itemsView`.
    #[serde(default)]
    pub items_view: TurnItemsView,
    /// `status`.
    pub status: TurnStatus,
    /// `error`.
    #[serde(default)]
    pub error: Option<TurnError>,
    /// Unix seconds.
    #[serde(default)]
    pub started_at: Option<i64>,
    /// Unix seconds.
    #[serde(default)]
    pub completed_at: Option<i64>,
    /// Milliseconds.
    #[serde(default)]
    pub duration_ms: Option<i64>,
}

/// A structure of the wire: `TurnToolOutput` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnToolOutput {
    /// `name`.
    pub name: String,
    /// `namespace`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// `output`.
    pub output: serde_json::Value,
    /// `retain`.
    #[serde(default)]
    pub retain: bool,
}

/// A structure of the wire: `TurnPlanStep` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnPlanStep {
    /// `status`.
    pub status: TurnPlanStepStatus,
    /// `step`.
    pub step: String,
}

/// A word of the wire: `TurnStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TurnStatus {
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
    /// `interrupted`.
    #[serde(rename = "interrupted")]
    Interrupted,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
    /// `inProgress`.
    #[serde(rename = "inProgress")]
    InProgress,
}

/// A word of the wire: `TurnPlanStepStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TurnPlanStepStatus {
    /// `pending`.
    #[serde(rename = "pending")]
    Pending,
    /// `inProgress`.
    #[serde(rename = "inProgress")]
    InProgress,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
}
