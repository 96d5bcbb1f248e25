//! Items of turns, and the notifications that tell of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::input::UserInput;
use super::mcp::McpAppUi;
use super::misc::{AnswerAnnotation, AnswerReplacement, BlockReason, TrustedContacts};
use super::path::AbsolutePath;
use super::settings::{ModeKind, Settings};
use super::thread::SortDirection;

/// Params of `thread/items/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<ThreadItemsListCursor>,
    /// `deferOutput`.
    #[serde(default)]
    pub defer_output: Option<ThreadItemOutputDeferral>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `sortDirection`.
    #[serde(default)]
    pub sort_direction: Option<SortDirection>,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    #[serde(default)]
    pub turn_id: Option<String>,
}

/// Result of `thread/items/list`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsListResponse {
    /// Where the page in the other direction starts, its first row included.
    #[serde(default)]
    pub backwards_cursor: Option<String>,
    /// `data`.
    pub data: Vec<ThreadItemEntry>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of `thread/items/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsReadParams {
    /// `itemIds`.
    pub item_ids: Vec<String>,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Result of `thread/items/read`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsReadResponse {
    /// `data`.
    pub data: Vec<ThreadItemEntry>,
}

/// Params of `collaborationMode/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollaborationModeListParams {}

/// Result of `collaborationMode/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollaborationModeListResponse {
    /// `data`.
    pub data: Vec<CollaborationModeMask>,
}

/// Params of the notification `item/started`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemStartedNotification {
    /// `item`.
    #[schemars(with = "crate::protocol::item::ThreadItem")]
    pub item: Box<RawValue>,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/completed`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemCompletedNotification {
    /// Unix milliseconds.
    pub completed_at_ms: i64,
    /// `contentTokenCount`.
    #[serde(default)]
    pub content_token_count: Option<u64>,
    /// `item`.
    #[schemars(with = "crate::protocol::item::ThreadItem")]
    pub item: Box<RawValue>,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/agentMessage/delta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessageDeltaNotification {
    /// `delta`.
    pub delta: String,
    /// The item.
    pub item_id: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/plan/delta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDeltaNotification {
    /// `delta`.
    pub delta: String,
    /// The item.
    pub item_id: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/commandExecution/outputDelta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionOutputDeltaNotification {
    /// `delta`.
    pub delta: String,
    /// The item.
    pub item_id: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/commandExecution/terminalInteraction`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TerminalInteractionNotification {
    /// The item.
    pub item_id: String,
    /// `processId`.
    pub process_id: String,
    /// `stdin`.
    pub stdin: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/fileChange/outputDelta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeOutputDeltaNotification {
    /// `delta`.
    pub delta: String,
    /// The item.
    pub item_id: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/fileChange/patchUpdated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangePatchUpdatedNotification {
    /// `changes`.
    pub changes: Vec<FileUpdateChange>,
    /// The item.
    pub item_id: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/mcpToolCall/progress`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallProgressNotification {
    /// The item.
    pub item_id: String,
    /// `message`.
    pub message: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/reasoning/summaryTextDelta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningSummaryTextDeltaNotification {
    /// `delta`.
    pub delta: String,
    /// The item.
    pub item_id: String,
    /// `summaryIndex`.
    pub summary_index: i64,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/reasoning/summaryPartAdded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningSummaryPartAddedNotification {
    /// The item.
    pub item_id: String,
    /// `summaryIndex`.
    pub summary_index: i64,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `item/reasoning/textDelta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningTextDeltaNotification {
    /// `contentIndex`.
    pub content_index: i64,
    /// `delta`.
    pub delta: String,
    /// The item.
    pub item_id: String,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// Params of the server's request `item/tool/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCallParams {
    /// `arguments`.
    pub arguments: serde_json::Value,
    /// `callId`.
    pub call_id: String,
    /// `namespace`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The thread.
    pub thread_id: String,
    /// `tool`.
    pub tool: String,
    /// The turn.
    pub turn_id: String,
}

/// A client's answer to `item/tool/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCallResponse {
    /// `contentItems`.
    pub content_items: Vec<DynamicToolCallOutputContentItem>,
    /// `success`.
    pub success: bool,
}

/// A structure of the wire: `CollaborationMode` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollaborationMode {
    /// `mode`.
    pub mode: ModeKind,
    /// `settings`.
    pub settings: Settings,
}

/// A union of the wire: `ThreadItemsListCursor` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ThreadItemsListCursor {
    /// `String`.
    One(String),
    /// `ThreadItemsListAnchor`.
    ThreadItemsListAnchor(ThreadItemsListAnchor),
}

/// A structure of the wire: `ThreadItemOutputDeferral` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemOutputDeferral {
    /// `commandExecution`.
    #[serde(default)]
    pub command_execution: bool,
    /// `mcpToolCall`.
    #[serde(default)]
    pub mcp_tool_call: bool,
}

/// A structure of the wire: `ThreadItemEntry` in the schema.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemEntry {
    /// Unix milliseconds.
    #[serde(default)]
    pub completed_at_ms: Option<i64>,
    /// `item`.
    #[schemars(with = "crate::protocol::item::ThreadItem")]
    pub item: Box<RawValue>,
    /// `outputDeferred`.
    #[serde(default)]
    pub output_deferred: bool,
    /// Unix milliseconds.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// The turn.
    pub turn_id: String,
}

/// A structure of the wire: `CollaborationModeMask` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollaborationModeMask {
    /// `mode`.
    #[serde(default)]
    pub mode: Option<ModeKind>,
    /// `model`.
    #[serde(default)]
    pub model: Option<String>,
    /// `name`.
    pub name: String,
    /// `reasoning_effort`.
    #[serde(rename = "reasoning_effort", default)]
    pub reasoning_effort: Option<String>,
}

/// An item of a turn (`protocol/turns.md`, section 6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ThreadItem {
    /// `userMessage`.
    #[serde(rename = "userMessage", rename_all = "camelCase")]
    UserMessage {
        /// `clientId`.
        #[serde(default)]
        client_id: Option<String>,
        /// `content`.
        content: Vec<UserInput>,
        /// `id`.
        id: String,
    },
    /// `hookPrompt`.
    #[serde(rename = "hookPrompt", rename_all = "camelCase")]
    HookPrompt {
        /// `fragments`.
        fragments: Vec<HookPromptFragment>,
        /// `id`.
        id: String,
    },
    /// `agentMessage`.
    #[serde(rename = "agentMessage", rename_all = "camelCase")]
    AgentMessage {
        /// `delivery`.
        #[serde(default)]
        delivery: Option<AgentMessageDelivery>,
        /// `id`.
        id: String,
        /// `memoryCitation`.
        #[serde(default)]
        memory_citation: Option<MemoryCitation>,
        /// `moderation`.
        #[serde(default)]
        moderation: Option<AgentMessageModeration>,
        /// `phase`.
        #[serde(default)]
        phase: Option<MessagePhase>,
        /// `questions`.
        #[serde(default)]
        questions: Option<Vec<AsyncUserInputQuestion>>,
        /// `text`.
        text: String,
    },
    /// `functionCallOutput`.
    #[serde(rename = "functionCallOutput", rename_all = "camelCase")]
    FunctionCallOutput {
        /// `id`.
        id: String,
        /// `name`.
        name: String,
        /// `namespace`.
        #[serde(default)]
        namespace: Option<String>,
        /// `output`.
        output: serde_json::Value,
    },
    /// `plan`.
    #[serde(rename = "plan", rename_all = "camelCase")]
    Plan {
        /// `id`.
        id: String,
        /// `text`.
        text: String,
    },
    /// `reasoning`.
    #[serde(rename = "reasoning", rename_all = "camelCase")]
    Reasoning {
        /// `content`.
        #[serde(default)]
        content: Vec<String>,
        /// `id`.
        id: String,
        /// `summary`.
        #[serde(default)]
        summary: Vec<String>,
    },
    /// `commandExecution`.
    #[serde(rename = "commandExecution", rename_all = "camelCase")]
    CommandExecution {
        /// `aggregatedOutput`.
        #[serde(default)]
        aggregated_output: Option<String>,
        /// `command`.
        command: String,
        /// `commandActions`.
        command_actions: Vec<CommandAction>,
        /// `cwd`.
        cwd: String,
        /// `durationMs`.
        #[serde(default)]
        duration_ms: Option<i64>,
        /// `exitCode`.
        #[serde(default)]
        exit_code: Option<i32>,
        /// `id`.
        id: String,
        /// `pluginId`.
        #[serde(default)]
        plugin_id: Option<String>,
        /// `processId`.
        #[serde(default)]
        process_id: Option<String>,
        /// `scriptPath`.
        #[serde(default)]
        script_path: Option<String>,
        /// `source`.
        #[serde(default)]
        source: CommandExecutionSource,
        /// `status`.
        status: CommandExecutionStatus,
    },
    /// `fileChange`.
    #[serde(rename = "fileChange", rename_all = "camelCase")]
    FileChange {
        /// `changes`.
        changes: Vec<FileUpdateChange>,
        /// `id`.
        id: String,
        /// `status`.
        status: PatchApplyStatus,
    },
    /// `mcpToolCall`.
    #[serde(rename = "mcpToolCall", rename_all = "camelCase")]
    McpToolCall {
        /// `appContext`.
        #[serde(default)]
        app_context: Option<McpToolCallAppContext>,
        /// `arguments`.
        arguments: serde_json::Value,
        /// `durationMs`.
        #[serde(default)]
        duration_ms: Option<i64>,
        /// `environmentId`.
        #[serde(default)]
        environment_id: Option<String>,
        /// `error`.
        #[serde(default)]
        error: Option<McpToolCallError>,
        /// `id`.
        id: String,
        /// `mcpAppResourceUri`.
        #[serde(default)]
        mcp_app_resource_uri: Option<String>,
        /// `mcpAppUi`.
        #[serde(default)]
        mcp_app_ui: Option<McpAppUi>,
        /// `pluginId`.
        #[serde(default)]
        plugin_id: Option<String>,
        /// `readOnlyHint`.
        #[serde(default)]
        read_only_hint: Option<bool>,
        /// `result`.
        #[serde(default)]
        result: Option<McpToolCallResult>,
        /// `server`.
        server: String,
        /// `status`.
        status: McpToolCallStatus,
        /// `tool`.
        tool: String,
    },
    /// `dynamicToolCall`.
    #[serde(rename = "dynamicToolCall", rename_all = "camelCase")]
    DynamicToolCall {
        /// `arguments`.
        arguments: serde_json::Value,
        /// `contentItems`.
        #[serde(default)]
        content_items: Option<Vec<DynamicToolCallOutputContentItem>>,
        /// `durationMs`.
        #[serde(default)]
        duration_ms: Option<i64>,
        /// `id`.
        id: String,
        /// `namespace`.
        #[serde(default)]
        namespace: Option<String>,
        /// `status`.
        status: DynamicToolCallStatus,
        /// `success`.
        #[serde(default)]
        success: Option<bool>,
        /// `tool`.
        tool: String,
    },
    /// `collabAgentToolCall`.
    #[serde(rename = "collabAgentToolCall", rename_all = "camelCase")]
    CollabAgentToolCall {
        /// `agentsStates`.
        agents_states: std::collections::BTreeMap<String, CollabAgentState>,
        /// `id`.
        id: String,
        /// `model`.
        #[serde(default)]
        model: Option<String>,
        /// `prompt`.
        #[serde(default)]
        prompt: Option<String>,
        /// `reasoningEffort`.
        #[serde(default)]
        reasoning_effort: Option<String>,
        /// `receiverThreadIds`.
        receiver_thread_ids: Vec<String>,
        /// `senderThreadId`.
        sender_thread_id: String,
        /// `status`.
        status: CollabAgentToolCallStatus,
        /// `tool`.
        tool: CollabAgentTool,
    },
    /// `subAgentActivity`.
    #[serde(rename = "subAgentActivity", rename_all = "camelCase")]
    SubAgentActivity {
        /// `agentPath`.
        agent_path: String,
        /// `agentThreadId`.
        agent_thread_id: String,
        /// `id`.
        id: String,
        /// `kind`.
        kind: SubAgentActivityKind,
        /// `model`.
        #[serde(default)]
        model: Option<String>,
        /// `reasoningEffort`.
        #[serde(default)]
        reasoning_effort: Option<String>,
    },
    /// `webSearch`.
    #[serde(rename = "webSearch", rename_all = "camelCase")]
    WebSearch {
        /// `action`.
        #[serde(default)]
        action: Option<WebSearchAction>,
        /// `id`.
        id: String,
        /// `query`.
        query: String,
        /// `results`.
        #[serde(default)]
        results: Option<Vec<serde_json::Value>>,
    },
    /// `imageView`.
    #[serde(rename = "imageView", rename_all = "camelCase")]
    ImageView {
        /// `id`.
        id: String,
        /// `path`.
        path: String,
    },
    /// `sleep`.
    #[serde(rename = "sleep", rename_all = "camelCase")]
    Sleep {
        /// `durationMs`.
        duration_ms: u64,
        /// `id`.
        id: String,
    },
    /// `imageGeneration`.
    #[serde(rename = "imageGeneration", rename_all = "camelCase")]
    ImageGeneration {
        /// `failure`.
        #[serde(default)]
        failure: Option<ImageGenerationFailure>,
        /// `generationId`.
        #[serde(default)]
        generation_id: Option<String>,
        /// `id`.
        id: String,
        /// `inputImages`.
        #[serde(default)]
        input_images: Vec<ImageGenerationInputImage>,
        /// `revisedPrompt`.
        #[serde(default)]
        revised_prompt: Option<String>,
        /// `savedPath`.
        #[serde(default)]
        saved_path: Option<AbsolutePath>,
        /// `status`.
        status: String,
        /// `transparentBackground`.
        #[serde(default)]
        transparent_background: Option<bool>,
        /// `fileId` or `result`: one is there.
        #[serde(flatten)]
        output: ImageGenerationOutput,
    },
    /// `enteredReviewMode`.
    #[serde(rename = "enteredReviewMode", rename_all = "camelCase")]
    EnteredReviewMode {
        /// `id`.
        id: String,
        /// `review`.
        review: String,
    },
    /// `exitedReviewMode`.
    #[serde(rename = "exitedReviewMode", rename_all = "camelCase")]
    ExitedReviewMode {
        /// `id`.
        id: String,
        /// `review`.
        review: String,
    },
    /// `contextCompaction`.
    #[serde(rename = "contextCompaction", rename_all = "camelCase")]
    ContextCompaction {
        /// `id`.
        id: String,
    },
}

/// A structure of the wire: `FileUpdateChange` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileUpdateChange {
    /// `diff`.
    pub diff: String,
    /// `kind`.
    pub kind: PatchChangeKind,
    /// `path`.
    pub path: String,
}

/// A union of the wire: `CommandAction` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum CommandAction {
    /// `read`.
    #[serde(rename = "read", rename_all = "camelCase")]
    Read {
        /// `command`.
        command: String,
        /// `name`.
        name: String,
        /// `path`.
        path: String,
    },
    /// `listFiles`.
    #[serde(rename = "listFiles", rename_all = "camelCase")]
    ListFiles {
        /// `command`.
        command: String,
        /// `path`.
        #[serde(default)]
        path: Option<String>,
    },
    /// `search`.
    #[serde(rename = "search", rename_all = "camelCase")]
    Search {
        /// `command`.
        command: String,
        /// `path`.
        #[serde(default)]
        path: Option<String>,
        /// `query`.
        #[serde(default)]
        query: Option<String>,
    },
    /// `unknown`.
    #[serde(rename = "unknown", rename_all = "camelCase")]
    Unknown {
        /// `command`.
        command: String,
    },
}

/// A union of the wire: `DynamicToolCallOutputContentItem` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum DynamicToolCallOutputContentItem {
    /// `inputText`.
    #[serde(rename = "inputText", rename_all = "camelCase")]
    InputText {
        /// `text`.
        text: String,
    },
    /// `inputImage`.
    #[serde(rename = "inputImage", rename_all = "camelCase")]
    InputImage {
        /// `imageUrl`.
        image_url: String,
    },
    /// `inputAudio`.
    #[serde(rename = "inputAudio", rename_all = "camelCase")]
    InputAudio {
        /// `audioUrl`.
        audio_url: String,
    },
}

/// A union of the wire: `ThreadItemsListAnchor` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ThreadItemsListAnchor {
    /// `item`.
    #[serde(rename = "item", rename_all = "camelCase")]
    Item {
        /// `itemId`.
        item_id: String,
    },
}

/// A structure of the wire: `HookPromptFragment` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookPromptFragment {
    /// `hookRunId`.
    pub hook_run_id: String,
    /// `text`.
    pub text: String,
}

/// A word of the wire: `AgentMessageDelivery` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AgentMessageDelivery {
    /// `async`.
    #[serde(rename = "async")]
    Async,
}

/// A structure of the wire: `MemoryCitation` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCitation {
    /// `entries`.
    pub entries: Vec<MemoryCitationEntry>,
    /// `threadIds`.
    pub thread_ids: Vec<String>,
}

/// A structure of the wire: `AgentMessageModeration` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessageModeration {
    /// `display`.
    #[serde(default)]
    pub display: Option<AgentMessageDisplay>,
    /// `moderated`.
    pub moderated: bool,
}

/// A union of the wire: `MessagePhase` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MessagePhase {
    /// `commentary`.
    #[serde(rename = "commentary")]
    Commentary,
    /// `partial_answer`.
    #[serde(rename = "partial_answer")]
    PartialAnswer,
    /// `final_answer`.
    #[serde(rename = "final_answer")]
    FinalAnswer,
}

/// A structure of the wire: `AsyncUserInputQuestion` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AsyncUserInputQuestion {
    /// `options`.
    #[serde(default)]
    pub options: Option<Vec<String>>,
    /// `title`.
    pub title: String,
}

/// A word of the wire: `CommandExecutionSource` in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CommandExecutionSource {
    /// `agent`.
    #[serde(rename = "agent")]
    #[default]
    Agent,
    /// `userShell`.
    #[serde(rename = "userShell")]
    UserShell,
    /// `unifiedExecStartup`.
    #[serde(rename = "unifiedExecStartup")]
    UnifiedExecStartup,
    /// `unifiedExecInteraction`.
    #[serde(rename = "unifiedExecInteraction")]
    UnifiedExecInteraction,
}

/// A word of the wire: `CommandExecutionStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CommandExecutionStatus {
    /// `inProgress`.
    #[serde(rename = "inProgress")]
    InProgress,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
    /// `declined`.
    #[serde(rename = "declined")]
    Declined,
}

/// A word of the wire: `PatchApplyStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PatchApplyStatus {
    /// `inProgress`.
    #[serde(rename = "inProgress")]
    InProgress,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
    /// `declined`.
    #[serde(rename = "declined")]
    Declined,
}

/// A structure of the wire: `McpToolCallAppContext` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallAppContext {
    /// `actionName`.
    #[serde(default)]
    pub action_name: Option<String>,
    /// `appName`.
    #[serde(default)]
    pub app_name: Option<String>,
    /// `connectorId`.
    pub connector_id: String,
    /// `linkId`.
    #[serde(default)]
    pub link_id: Option<String>,
    /// `resourceUri`.
    #[serde(default)]
    pub resource_uri: Option<String>,
}

/// A structure of the wire: `McpToolCallError` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallError {
    /// `message`.
    pub message: String,
}

/// A structure of the wire: `McpToolCallResult` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallResult {
    /// `_meta`.
    #[serde(rename = "_meta", default)]
    pub meta: Option<serde_json::Value>,
    /// `content`.
    pub content: Vec<serde_json::Value>,
    /// `structuredContent`.
    #[serde(default)]
    pub structured_content: Option<serde_json::Value>,
}

/// A word of the wire: `McpToolCallStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum McpToolCallStatus {
    /// `inProgress`.
    #[serde(rename = "inProgress")]
    InProgress,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
}

/// A word of the wire: `DynamicToolCallStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DynamicToolCallStatus {
    /// `inProgress`.
    #[serde(rename = "inProgress")]
    InProgress,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
}

/// A structure of the wire: `CollabAgentState` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollabAgentState {
    /// `message`.
    #[serde(default)]
    pub message: Option<String>,
    /// `status`.
    pub status: CollabAgentStatus,
}

/// A word of the wire: `CollabAgentToolCallStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CollabAgentToolCallStatus {
    /// `inProgress`.
    #[serde(rename = "inProgress")]
    InProgress,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
    /// `failed`.
    #[serde(rename = "failed")]
    Failed,
    /// `interrupted`.
    #[serde(rename = "interrupted")]
    Interrupted,
}

/// A word of the wire: `CollabAgentTool` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CollabAgentTool {
    /// `spawnAgent`.
    #[serde(rename = "spawnAgent")]
    SpawnAgent,
    /// `sendInput`.
    #[serde(rename = "sendInput")]
    SendInput,
    /// `resumeAgent`.
    #[serde(rename = "resumeAgent")]
    ResumeAgent,
    /// `wait`.
    #[serde(rename = "wait")]
    Wait,
    /// `closeAgent`.
    #[serde(rename = "closeAgent")]
    CloseAgent,
    /// `sendMessage`.
    #[serde(rename = "sendMessage")]
    SendMessage,
    /// `followupTask`.
    #[serde(rename = "followupTask")]
    FollowupTask,
    /// `interruptAgent`.
    #[serde(rename = "interruptAgent")]
    InterruptAgent,
    /// `listAgents`.
    #[serde(rename = "listAgents")]
    ListAgents,
}

/// A word of the wire: `SubAgentActivityKind` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SubAgentActivityKind {
    /// `started`.
    #[serde(rename = "started")]
    Started,
    /// `interacted`.
    #[serde(rename = "interacted")]
    Interacted,
    /// `interrupted`.
    #[serde(rename = "interrupted")]
    Interrupted,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
}

/// A union of the wire: `WebSearchAction` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum WebSearchAction {
    /// `search`.
    #[serde(rename = "search", rename_all = "camelCase")]
    Search {
        /// `queries`.
        #[serde(default)]
        queries: Option<Vec<String>>,
        /// `query`.
        #[serde(default)]
        query: Option<String>,
    },
    /// `openPage`.
    #[serde(rename = "openPage", rename_all = "camelCase")]
    OpenPage {
        /// `url`.
        #[serde(default)]
        url: Option<String>,
    },
    /// `findInPage`.
    #[serde(rename = "findInPage", rename_all = "camelCase")]
    FindInPage {
        /// `pattern`.
        #[serde(default)]
        pattern: Option<String>,
        /// `url`.
        #[serde(default)]
        url: Option<String>,
    },
    /// `other`.
    #[serde(rename = "other")]
    Other,
}

/// A union of the wire: `ImageGenerationFailure` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ImageGenerationFailure {
    /// `usageLimitExceeded`.
    #[serde(rename = "usageLimitExceeded", rename_all = "camelCase")]
    UsageLimitExceeded {
        /// `limitId`.
        limit_id: String,
        /// `resetsAt`.
        #[serde(default)]
        resets_at: Option<i64>,
    },
}

/// Where a generated image is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ImageGenerationOutput {
    /// A file that the model provider keeps.
    File {
        /// The provider's id of it.
        #[serde(rename = "fileId")]
        file_id: String,
    },
    /// The image itself.
    Result {
        /// Its bytes in base64.
        result: String,
    },
}

/// A structure of the wire: `ImageGenerationInputImage` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageGenerationInputImage {
    /// `path`.
    pub path: AbsolutePath,
    /// `sha256`.
    pub sha256: String,
}

/// A union of the wire: `PatchChangeKind` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum PatchChangeKind {
    /// `add`.
    #[serde(rename = "add")]
    Add,
    /// `delete`.
    #[serde(rename = "delete")]
    Delete,
    /// `update`.
    #[serde(rename = "update", rename_all = "camelCase")]
    Update {
        /// `move_path`.
        #[serde(rename = "move_path", default)]
        move_path: Option<String>,
    },
}

/// A structure of the wire: `MemoryCitationEntry` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCitationEntry {
    /// `lineEnd`.
    pub line_end: u32,
    /// `lineStart`.
    pub line_start: u32,
    /// `note`.
    pub note: String,
    /// `path`.
    pub path: String,
}

/// A union of the wire: `AgentMessageDisplay` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode")]
pub enum AgentMessageDisplay {
    /// `show`.
    #[serde(rename = "show", rename_all = "camelCase")]
    Show {
        /// `annotation`.
        #[serde(default)]
        annotation: Option<AnswerAnnotation>,
        /// `trustedContacts`.
        trusted_contacts: TrustedContacts,
        /// `version`.
        version: u8,
    },
    /// `hide`.
    #[serde(rename = "hide", rename_all = "camelCase")]
    Hide {
        /// `replacement`.
        replacement: AnswerReplacement,
        /// `version`.
        version: u8,
    },
    /// `block`.
    #[serde(rename = "block", rename_all = "camelCase")]
    Block {
        /// `reason`.
        reason: BlockReason,
        /// `version`.
        version: u8,
    },
}

/// A word of the wire: `CollabAgentStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CollabAgentStatus {
    /// `pendingInit`.
    #[serde(rename = "pendingInit")]
    PendingInit,
    /// `running`.
    #[serde(rename = "running")]
    Running,
    /// `interrupted`.
    #[serde(rename = "interrupted")]
    Interrupted,
    /// `completed`.
    #[serde(rename = "completed")]
    Completed,
    /// `errored`.
    #[serde(rename = "errored")]
    Errored,
    /// `shutdown`.
    #[serde(rename = "shutdown")]
    Shutdown,
    /// `notFound`.
    #[serde(rename = "notFound")]
    NotFound,
}
