//! Threads (`protocol/threads.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::{ApprovalsReviewer, AskForApproval};
use super::item::CollaborationMode;
use super::misc::{AgentPath, SelectedCapabilityRoot};
use super::path::AbsolutePath;
use super::settings::{ActivePermissionProfile, MultiAgentMode, Personality, SandboxMode, SandboxPolicy};
use super::turn::{ThreadResumeInitialTurnsPageParams, Turn, TurnEnvironmentParams, TurnsPage};

/// Params of `thread/start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartParams {
    /// `allowProviderModelFallback`.
    #[serde(default)]
    pub allow_provider_model_fallback: bool,
    /// `approvalPolicy`.
    #[serde(default)]
    pub approval_policy: Option<AskForApproval>,
    /// `approvalsReviewer`.
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// `baseInstructions`.
    #[serde(default)]
    pub base_instructions: Option<String>,
    /// `config`.
    #[serde(default)]
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// `daybreakEnabled`.
    #[serde(default)]
    pub daybreak_enabled: Option<bool>,
    /// `developerInstructions`.
    #[serde(default)]
    pub developer_instructions: Option<String>,
    /// `dynamicTools`.
    #[serde(default)]
    pub dynamic_tools: Option<Vec<serde_json::Value>>,
    /// `environments`.
    #[serde(default)]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    /// `ephemeral`.
    #[serde(default)]
    pub ephemeral: Option<bool>,
    /// `experimentalRawEvents`.
    #[serde(default)]
    pub experimental_raw_events: bool,
    /// `historyMode`.
    #[serde(default)]
    pub history_mode: Option<ThreadHistoryMode>,
    /// `mockExperimentalField`.
    #[serde(default)]
    pub mock_experimental_field: Option<String>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `modelProvider`.
    #[serde(default)]
    pub model_provider: Option<String>,
    /// `multiAgentMode`.
    #[serde(default)]
    pub multi_agent_mode: Option<MultiAgentMode>,
    /// `permissions`.
    #[serde(default)]
    pub permissions: Option<String>,
    /// `personality`.
    #[serde(default)]
    pub personality: Option<Personality>,
    /// `projectId`.
    #[serde(default)]
    pub project_id: Option<String>,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Option<Vec<AbsolutePath>>,
    /// `sandbox`.
    #[serde(default)]
    pub sandbox: Option<SandboxMode>,
    /// `selectedCapabilityRoots`.
    #[serde(default)]
    pub selected_capability_roots: Option<Vec<SelectedCapabilityRoot>>,
    /// `serviceName`.
    #[serde(default)]
    pub service_name: Option<String>,
    /// `serviceTier`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Option<String>>,
    /// `sessionStartSource`.
    #[serde(default)]
    pub session_start_source: Option<ThreadStartSource>,
    /// `threadSource`.
    #[serde(default)]
    pub thread_source: Option<ThreadSource>,
}

/// Result of `thread/start`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartResponse {
    /// `activePermissionProfile`.
    #[serde(default)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// `approvalPolicy`.
    pub approval_policy: AskForApproval,
    /// `approvalsReviewer`.
    pub approvals_reviewer: ApprovalsReviewer,
    /// Working directory, absolute.
    pub cwd: AbsolutePath,
    /// `disabledPluginIds`.
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
    /// `instructionSources`.
    #[serde(default)]
    pub instruction_sources: Vec<String>,
    /// `model`.
    pub model: String,
    /// `modelProvider`.
    pub model_provider: String,
    /// `multiAgentMode`.
    #[serde(default)]
    pub multi_agent_mode: MultiAgentMode,
    /// `reasoningEffort`.
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Vec<AbsolutePath>,
    /// `sandbox`.
    pub sandbox: SandboxPolicy,
    /// `serviceTier`.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// `thread`.
    pub thread: Thread,
}

/// Params of `thread/resume`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeParams {
    /// `approvalPolicy`.
    #[serde(default)]
    pub approval_policy: Option<AskForApproval>,
    /// `approvalsReviewer`.
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// `baseInstructions`.
    #[serde(default)]
    pub base_instructions: Option<String>,
    /// `config`.
    #[serde(default)]
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// `developerInstructions`.
    #[serde(default)]
    pub developer_instructions: Option<String>,
    /// `excludeTurns`.
    #[serde(default)]
    pub exclude_turns: bool,
    /// `history`.
    #[serde(default)]
    pub history: Option<Vec<serde_json::Value>>,
    /// `initialTurnsPage`.
    #[serde(default)]
    pub initial_turns_page: Option<ThreadResumeInitialTurnsPageParams>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `modelProvider`.
    #[serde(default)]
    pub model_provider: Option<String>,
    /// `path`.
    #[serde(default)]
    pub path: Option<String>,
    /// `permissions`.
    #[serde(default)]
    pub permissions: Option<String>,
    /// `personality`.
    #[serde(default)]
    pub personality: Option<Personality>,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Option<Vec<AbsolutePath>>,
    /// `sandbox`.
    #[serde(default)]
    pub sandbox: Option<SandboxMode>,
    /// `serviceTier`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Option<String>>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/resume`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeResponse {
    /// `activePermissionProfile`.
    #[serde(default)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// `approvalPolicy`.
    pub approval_policy: AskForApproval,
    /// `approvalsReviewer`.
    pub approvals_reviewer: ApprovalsReviewer,
    /// `collaborationMode`.
    #[serde(default)]
    pub collaboration_mode: Option<CollaborationMode>,
    /// Working directory, absolute.
    pub cwd: AbsolutePath,
    /// `disabledPluginIds`.
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
    /// `initialTurnsPage`.
    #[serde(default)]
    pub initial_turns_page: Option<TurnsPage>,
    /// `instructionSources`.
    #[serde(default)]
    pub instruction_sources: Vec<String>,
    /// `itemsBackwardsCursor`.
    #[serde(default)]
    pub items_backwards_cursor: Option<String>,
    /// `model`.
    pub model: String,
    /// `modelProvider`.
    pub model_provider: String,
    /// `multiAgentMode`.
    #[serde(default)]
    pub multi_agent_mode: MultiAgentMode,
    /// `reasoningEffort`.
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Vec<AbsolutePath>,
    /// `sandbox`.
    pub sandbox: SandboxPolicy,
    /// `serviceTier`.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// `thread`.
    pub thread: Thread,
    /// `turnsBackwardsCursor`.
    #[serde(default)]
    pub turns_backwards_cursor: Option<String>,
}

/// Params of `thread/fork`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadForkParams {
    /// `approvalPolicy`.
    #[serde(default)]
    pub approval_policy: Option<AskForApproval>,
    /// `approvalsReviewer`.
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// `attachToSource`.
    #[serde(default)]
    pub attach_to_source: bool,
    /// `baseInstructions`.
    #[serde(default)]
    pub base_instructions: Option<String>,
    /// `beforeTurnId`.
    #[serde(default)]
    pub before_turn_id: Option<String>,
    /// `config`.
    #[serde(default)]
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// `deferGoalContinuation`.
    #[serde(default)]
    pub defer_goal_continuation: bool,
    /// `developerInstructions`.
    #[serde(default)]
    pub developer_instructions: Option<String>,
    /// `ephemeral`.
    #[serde(default)]
    pub ephemeral: bool,
    /// `excludeTurns`.
    #[serde(default)]
    pub exclude_turns: bool,
    /// `experimentalDisablePredictionMcp`.
    #[serde(default)]
    pub experimental_disable_prediction_mcp: bool,
    /// `experimentalPredictionMode`.
    #[serde(default)]
    pub experimental_prediction_mode: bool,
    /// `lastTurnId`.
    #[serde(default)]
    pub last_turn_id: Option<String>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `modelProvider`.
    #[serde(default)]
    pub model_provider: Option<String>,
    /// `path`.
    #[serde(default)]
    pub path: Option<String>,
    /// `permissions`.
    #[serde(default)]
    pub permissions: Option<String>,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Option<Vec<AbsolutePath>>,
    /// `sandbox`.
    #[serde(default)]
    pub sandbox: Option<SandboxMode>,
    /// `serviceTier`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Option<String>>,
    /// The thread.
    pub thread_id: String,
    /// `threadSource`.
    #[serde(default)]
    pub thread_source: Option<ThreadSource>,
}

/// Result of `thread/fork`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadForkResponse {
    /// `activePermissionProfile`.
    #[serde(default)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// `approvalPolicy`.
    pub approval_policy: AskForApproval,
    /// `approvalsReviewer`.
    pub approvals_reviewer: ApprovalsReviewer,
    /// Working directory, absolute.
    pub cwd: AbsolutePath,
    /// `disabledPluginIds`.
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
    /// `instructionSources`.
    #[serde(default)]
    pub instruction_sources: Vec<String>,
    /// `model`.
    pub model: String,
    /// `modelProvider`.
    pub model_provider: String,
    /// `multiAgentMode`.
    #[serde(default)]
    pub multi_agent_mode: MultiAgentMode,
    /// `reasoningEffort`.
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    /// `runtimeWorkspaceRoots`.
    #[serde(default)]
    pub runtime_workspace_roots: Vec<AbsolutePath>,
    /// `sandbox`.
    pub sandbox: SandboxPolicy,
    /// `serviceTier`.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// `thread`.
    pub thread: Thread,
}

/// Params of `thread/archive`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadArchiveParams {
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/archive`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadArchiveResponse {}

/// Params of `thread/delete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadDeleteParams {
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/delete`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadDeleteResponse {}

/// Params of `thread/unsubscribe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnsubscribeParams {
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/unsubscribe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnsubscribeResponse {
    /// `status`.
    pub status: ThreadUnsubscribeStatus,
}

/// Params of `thread/name/set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSetNameParams {
    /// `name`.
    pub name: String,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/name/set`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSetNameResponse {}

/// Params of `thread/metadata/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMetadataUpdateParams {
    /// `daybreakEnabled`.
    #[serde(default)]
    pub daybreak_enabled: Option<bool>,
    /// `gitInfo`.
    #[serde(default)]
    pub git_info: Option<ThreadMetadataGitInfoUpdateParams>,
    /// `projectId`.
    #[serde(default)]
    pub project_id: Option<String>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/metadata/update`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMetadataUpdateResponse {
    /// `thread`.
    pub thread: Thread,
}

/// Params of `thread/unarchive`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchiveParams {
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/unarchive`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchiveResponse {
    /// `thread`.
    pub thread: Thread,
}

/// Params of `thread/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadListParams {
    /// `ancestorThreadId`.
    #[serde(default)]
    pub ancestor_thread_id: Option<String>,
    /// `archived`.
    #[serde(default)]
    pub archived: Option<bool>,
    /// `attachedToThreadId`.
    #[serde(default)]
    pub attached_to_thread_id: Option<String>,
    /// `currentAccountOnly`.
    #[serde(default)]
    pub current_account_only: bool,
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<ThreadListCwdFilter>,
    /// `excludedThreadIds`.
    #[serde(default)]
    pub excluded_thread_ids: Option<Vec<String>>,
    /// `includeAttachedThreads`.
    #[serde(default)]
    pub include_attached_threads: bool,
    /// `includedThreadIds`.
    #[serde(default)]
    pub included_thread_ids: Option<Vec<String>>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `modelProviders`.
    #[serde(default)]
    pub model_providers: Option<Vec<String>>,
    /// `originators`.
    #[serde(default)]
    pub originators: Option<Vec<String>>,
    /// `parentThreadId`.
    #[serde(default)]
    pub parent_thread_id: Option<String>,
    /// `projectId`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<Option<String>>,
    /// `searchTerm`.
    #[serde(default)]
    pub search_term: Option<String>,
    /// `sectionId`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub section_id: Option<Option<String>>,
    /// `sortDirection`.
    #[serde(default)]
    pub sort_direction: Option<SortDirection>,
    /// `sortKey`.
    #[serde(default)]
    pub sort_key: Option<ThreadSortKey>,
    /// `sourceKinds`.
    #[serde(default)]
    pub source_kinds: Option<Vec<ThreadSourceKind>>,
    /// `useStateDbOnly`.
    #[serde(default)]
    pub use_state_db_only: bool,
}

/// Result of `thread/list`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadListResponse {
    /// Where the page in the other direction starts, its first row included.
    #[serde(default)]
    pub backwards_cursor: Option<String>,
    /// `data`.
    pub data: Vec<Thread>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// `readStates`.
    #[serde(default)]
    pub read_states: Option<std::collections::BTreeMap<String, ThreadReadState>>,
}

/// Params of `thread/loaded/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadLoadedListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `thread/loaded/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadLoadedListResponse {
    /// `data`.
    pub data: Vec<String>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of `thread/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadParams {
    /// `includeTurns`.
    #[serde(default)]
    pub include_turns: bool,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/read`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadResponse {
    /// `readState`.
    #[serde(default)]
    pub read_state: Option<ThreadReadState>,
    /// `thread`.
    pub thread: Thread,
}

/// Params of `thread/inject_items`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadInjectItemsParams {
    /// `items`.
    pub items: Vec<serde_json::Value>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/inject_items`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadInjectItemsResponse {}

/// Params of `thread/compact/start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCompactStartParams {
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/compact/start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCompactStartResponse {}

/// Params of `thread/shellCommand`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadShellCommandParams {
    /// `command`.
    pub command: String,
    /// The thread.
    pub thread_id: String,
    /// `timeoutMs`.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
}

/// Result of `thread/shellCommand`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadShellCommandResponse {}

/// Params of `thread/backgroundTerminals/clean`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBackgroundTerminalsCleanParams {
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/backgroundTerminals/clean`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBackgroundTerminalsCleanResponse {}

/// Params of `thread/backgroundTerminals/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBackgroundTerminalsListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/backgroundTerminals/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBackgroundTerminalsListResponse {
    /// `data`.
    pub data: Vec<ThreadBackgroundTerminal>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of `thread/backgroundTerminals/terminate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBackgroundTerminalsTerminateParams {
    /// `processId`.
    pub process_id: String,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/backgroundTerminals/terminate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBackgroundTerminalsTerminateResponse {
    /// `terminated`.
    pub terminated: bool,
}

/// Params of the notification `thread/started`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartedNotification {
    /// `thread`.
    pub thread: Thread,
}

/// Params of the notification `thread/status/changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStatusChangedNotification {
    /// `status`.
    pub status: ThreadStatus,
    /// The thread.
    pub thread_id: String,
}

/// Params of the notification `thread/archived`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadArchivedNotification {
    /// The thread.
    pub thread_id: String,
}

/// Params of the notification `thread/deleted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadDeletedNotification {
    /// The thread.
    pub thread_id: String,
}

/// Params of the notification `thread/unarchived`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchivedNotification {
    /// The thread.
    pub thread_id: String,
}

/// Params of the notification `thread/closed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadClosedNotification {
    /// The thread.
    pub thread_id: String,
}

/// Params of the notification `thread/name/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadNameUpdatedNotification {
    /// The thread.
    pub thread_id: String,
    /// `threadName`.
    #[serde(default)]
    pub thread_name: Option<String>,
}

/// A word of the wire: `ThreadHistoryMode` in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadHistoryMode {
    /// `legacy`.
    #[serde(rename = "legacy")]
    #[default]
    Legacy,
    /// `paginated`.
    #[serde(rename = "paginated")]
    Paginated,
}

/// A word of the wire: `ThreadStartSource` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadStartSource {
    /// `startup`.
    #[serde(rename = "startup")]
    Startup,
    /// `clear`.
    #[serde(rename = "clear")]
    Clear,
}

/// A value of the wire: `ThreadSource` in the schema.
pub type ThreadSource = String;

/// A thread as clients see it (`protocol/threads.md`, section 2).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    /// `agentNickname`.
    #[serde(default)]
    pub agent_nickname: Option<String>,
    /// `agentRole`.
    #[serde(default)]
    pub agent_role: Option<String>,
    /// `attachedToThreadId`.
    #[serde(default)]
    pub attached_to_thread_id: Option<String>,
    /// `canAcceptDirectInput`.
    #[serde(default)]
    pub can_accept_direct_input: Option<bool>,
    /// `cliVersion`.
    pub cli_version: String,
    /// Unix seconds.
    pub created_at: i64,
    /// Working directory, absolute.
    pub cwd: AbsolutePath,
    /// `daybreakEnabled`.
    #[serde(default)]
    pub daybreak_enabled: Option<bool>,
    /// `environments`.
    #[serde(default)]
    pub environments: Option<Vec<ThreadEnvironment>>,
    /// `ephemeral`.
    pub ephemeral: bool,
    /// `extra`.
    #[serde(default)]
    pub extra: Option<serde_json::Value>,
    /// `forkedFromId`.
    #[serde(default)]
    pub forked_from_id: Option<String>,
    /// `gitInfo`.
    #[serde(default)]
    pub git_info: Option<GitInfo>,
    /// `historyMode`.
    #[serde(default)]
    pub history_mode: ThreadHistoryMode,
    /// `id`.
    pub id: String,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `modelProvider`.
    pub model_provider: String,
    /// `name`.
    #[serde(default)]
    pub name: Option<String>,
    /// `originator`.
    #[serde(default)]
    pub originator: Option<String>,
    /// `parentThreadId`.
    #[serde(default)]
    pub parent_thread_id: Option<String>,
    /// `path`.
    #[serde(default)]
    pub path: Option<String>,
    /// `preview`.
    pub preview: String,
    /// `projectId`.
    pub project_id: Option<String>,
    /// `reasoningEffort`.
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    /// `recencyAt`.
    #[serde(default)]
    pub recency_at: Option<i64>,
    /// `section`.
    #[serde(default)]
    pub section: Option<ThreadSection>,
    /// `sectionEnteredAt`.
    #[serde(default)]
    pub section_entered_at: Option<i64>,
    /// `sessionId`.
    pub session_id: String,
    /// `source`.
    pub source: SessionSource,
    /// `status`.
    pub status: ThreadStatus,
    /// `threadSource`.
    #[serde(default)]
    pub thread_source: Option<ThreadSource>,
    /// `turns`.
    pub turns: Vec<Turn>,
    /// Unix seconds.
    pub updated_at: i64,
}

/// A word of the wire: `ThreadUnsubscribeStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadUnsubscribeStatus {
    /// `notLoaded`.
    #[serde(rename = "notLoaded")]
    NotLoaded,
    /// `notSubscribed`.
    #[serde(rename = "notSubscribed")]
    NotSubscribed,
    /// `unsubscribed`.
    #[serde(rename = "unsubscribed")]
    Unsubscribed,
}

/// A structure of the wire: `ThreadMetadataGitInfoUpdateParams` in the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMetadataGitInfoUpdateParams {
    /// `branch`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub branch: Option<Option<String>>,
    /// `originUrl`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub origin_url: Option<Option<String>>,
    /// `sha`.
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub sha: Option<Option<String>>,
}

/// A union of the wire: `ThreadListCwdFilter` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ThreadListCwdFilter {
    /// `String`.
    One(String),
    /// `Vec<String>`.
    List(Vec<String>),
}

/// A word of the wire: `SortDirection` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SortDirection {
    /// `asc`.
    #[serde(rename = "asc")]
    Asc,
    /// `desc`.
    #[serde(rename = "desc")]
    Desc,
}

/// A word of the wire: `ThreadSortKey` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadSortKey {
    /// `created_at`.
    #[serde(rename = "created_at")]
    CreatedAt,
    /// `updated_at`.
    #[serde(rename = "updated_at")]
    UpdatedAt,
    /// `recency_at`.
    #[serde(rename = "recency_at")]
    RecencyAt,
    /// `section_position`.
    #[serde(rename = "section_position")]
    SectionPosition,
}

/// A word of the wire: `ThreadSourceKind` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadSourceKind {
    /// `cli`.
    #[serde(rename = "cli")]
    Cli,
    /// `vscode`.
    #[serde(rename = "vscode")]
    Vscode,
    /// `exec`.
    #[serde(rename = "exec")]
    Exec,
    /// `appServer`.
    #[serde(rename = "appServer")]
    AppServer,
    /// `subAgent`.
    #[serde(rename = "subAgent")]
    SubAgent,
    /// `subAgentReview`.
    #[serde(rename = "subAgentReview")]
    SubAgentReview,
    /// `subAgentCompact`.
    #[serde(rename = "subAgentCompact")]
    SubAgentCompact,
    /// `subAgentThreadSpawn`.
    #[serde(rename = "subAgentThreadSpawn")]
    SubAgentThreadSpawn,
    /// `subAgentOther`.
    #[serde(rename = "subAgentOther")]
    SubAgentOther,
    /// `unknown`.
    #[serde(rename = "unknown")]
    Unknown,
}

/// A structure of the wire: `ThreadReadState` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadState {
    /// `firstUnread`.
    #[serde(default)]
    pub first_unread: Option<ThreadUnreadPosition>,
    /// `revision`.
    pub revision: String,
}

/// A structure of the wire: `ThreadBackgroundTerminal` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBackgroundTerminal {
    /// `command`.
    pub command: String,
    /// `cpuPercent`.
    #[serde(default)]
    pub cpu_percent: Option<f64>,
    /// Working directory, absolute.
    pub cwd: String,
    /// The item.
    pub item_id: String,
    /// `osPid`.
    #[serde(default)]
    pub os_pid: Option<u32>,
    /// `processId`.
    pub process_id: String,
    /// `rssKb`.
    #[serde(default)]
    pub rss_kb: Option<u64>,
}

/// A structure of the wire: `ThreadUsage` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUsage {
    /// `estimatedUsageCreditsMicros`.
    pub estimated_usage_credits_micros: i64,
    /// `estimatedUsageUsdMicros`.
    #[serde(default)]
    pub estimated_usage_usd_micros: Option<i64>,
    /// `groups`.
    pub groups: Vec<ThreadUsageBreakdownGroup>,
    /// `nativeUsageUsdMicros`.
    #[serde(default)]
    pub native_usage_usd_micros: Option<i64>,
    /// The thread.
    pub thread_id: String,
}

/// What a thread is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ThreadStatus {
    /// `notLoaded`.
    #[serde(rename = "notLoaded")]
    NotLoaded,
    /// `idle`.
    #[serde(rename = "idle")]
    Idle,
    /// `systemError`.
    #[serde(rename = "systemError")]
    SystemError,
    /// `active`.
    #[serde(rename = "active", rename_all = "camelCase")]
    Active {
        /// `activeFlags`.
        active_flags: Vec<ThreadActiveFlag>,
    },
}

/// A structure of the wire: `ThreadEnvironment` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadEnvironment {
    /// Working directory, absolute.
    pub cwd: String,
    /// `environmentId`.
    pub environment_id: String,
    /// `runtimeWorkspaceRoots`.
    pub runtime_workspace_roots: Vec<String>,
}

/// A structure of the wire: `GitInfo` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitInfo {
    /// `branch`.
    #[serde(default)]
    pub branch: Option<String>,
    /// `originUrl`.
    #[serde(default)]
    pub origin_url: Option<String>,
    /// `sha`.
    #[serde(default)]
    pub sha: Option<String>,
}

/// A structure of the wire: `ThreadSection` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSection {
    /// `appearance`.
    #[serde(default)]
    pub appearance: Option<ThreadSectionAppearance>,
    /// `id`.
    pub id: String,
    /// `name`.
    pub name: String,
}

/// A union of the wire: `SessionSource` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum SessionSource {
    /// `cli`.
    #[serde(rename = "cli")]
    Cli,
    /// `vscode`.
    #[serde(rename = "vscode")]
    Vscode,
    /// `exec`.
    #[serde(rename = "exec")]
    Exec,
    /// `appServer`.
    #[serde(rename = "appServer")]
    AppServer,
    /// `unknown`.
    #[serde(rename = "unknown")]
    Unknown,
    /// `custom`.
    #[serde(rename = "custom")]
    Custom(String),
    /// `subAgent`.
    #[serde(rename = "subAgent")]
    SubAgent(SubAgentSource),
}

/// A union of the wire: `ThreadUnreadPosition` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ThreadUnreadPosition {
    /// `threadStart`.
    #[serde(rename = "threadStart")]
    ThreadStart,
    /// `turn`.
    #[serde(rename = "turn", rename_all = "camelCase")]
    Turn {
        /// `turnId`.
        turn_id: String,
    },
}

/// A structure of the wire: `ThreadUsageBreakdownGroup` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUsageBreakdownGroup {
    /// `cachedInputTokens`.
    #[serde(default)]
    pub cached_input_tokens: Option<i64>,
    /// `estimatedUsageCreditsMicros`.
    pub estimated_usage_credits_micros: i64,
    /// `inputTokens`.
    #[serde(default)]
    pub input_tokens: Option<i64>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `netNewInputTokens`.
    #[serde(default)]
    pub net_new_input_tokens: Option<i64>,
    /// `outputTokens`.
    #[serde(default)]
    pub output_tokens: Option<i64>,
    /// `reasoningEffort`.
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    /// `speed`.
    #[serde(default)]
    pub speed: Option<String>,
    /// `totalTokens`.
    #[serde(default)]
    pub total_tokens: Option<i64>,
}

/// A word of the wire: `ThreadActiveFlag` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadActiveFlag {
    /// `waitingOnApproval`.
    #[serde(rename = "waitingOnApproval")]
    WaitingOnApproval,
    /// `waitingOnUserInput`.
    #[serde(rename = "waitingOnUserInput")]
    WaitingOnUserInput,
}

/// A structure of the wire: `ThreadSectionAppearance` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSectionAppearance {
    /// `color`.
    #[serde(default)]
    pub color: Option<String>,
    /// `icon`.
    #[serde(default)]
    pub icon: Option<String>,
}

/// A union of the wire: `SubAgentSource` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum SubAgentSource {
    /// `review`.
    #[serde(rename = "review")]
    Review,
    /// `compact`.
    #[serde(rename = "compact")]
    Compact,
    /// `memory_consolidation`.
    #[serde(rename = "memory_consolidation")]
    MemoryConsolidation,
    /// `thread_spawn`.
    #[serde(rename = "thread_spawn")]
    ThreadSpawn(SubAgentSourceThreadSpawn),
    /// `other`.
    #[serde(rename = "other")]
    Other(String),
}

/// A structure of the wire: `SubAgentSourceThreadSpawn` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubAgentSourceThreadSpawn {
    /// `agent_nickname`.
    #[serde(rename = "agent_nickname", default)]
    pub agent_nickname: Option<String>,
    /// `agent_path`.
    #[serde(rename = "agent_path", default)]
    pub agent_path: Option<AgentPath>,
    /// `agent_role`.
    #[serde(rename = "agent_role", default)]
    pub agent_role: Option<String>,
    /// `depth`.
    pub depth: i32,
    /// `parent_thread_id`.
    #[serde(rename = "parent_thread_id")]
    pub parent_thread_id: String,
}
