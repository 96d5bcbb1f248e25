//! `threadkeep schema --out DIR`: the JSON Schema of what this server offers.
//!
//! The file has the form of the protocol's own schema: `methods` (stability, params, result), `notifications`,
//! `serverRequests`, and the `definitions` they name. It is made from the wire's types, so it cannot say anything else
//! than what is parsed and written. The methods are the router's; a method without an entry here is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::exit::Exit;
use crate::clock::Clock;
use crate::config::{ConfigSource, Home};
use crate::protocol::account::{GetAccountParams, GetAccountResponse};
use crate::protocol::approval::{
    CommandExecutionRequestApprovalParams, CommandExecutionRequestApprovalResponse,
    FileChangeRequestApprovalParams, FileChangeRequestApprovalResponse, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, PermissionsRequestApprovalParams,
    PermissionsRequestApprovalResponse, ServerRequestResolvedNotification, ToolRequestUserInputParams,
    ToolRequestUserInputResponse,
};
use crate::protocol::configuration::{
    ConfigReadParams, ConfigReadResponse, ConfigRequirementsReadResponse, ExperimentalFeatureListParams,
    ExperimentalFeatureListResponse,
};
use crate::protocol::connection::{InitializeParams, InitializeResponse};
use crate::protocol::error::{
    ConfigWarningNotification, DeprecationNoticeNotification, ErrorNotification, WarningNotification,
};
use crate::protocol::goal::{
    ThreadGoalClearParams, ThreadGoalClearResponse, ThreadGoalClearedNotification, ThreadGoalGetParams,
    ThreadGoalGetResponse, ThreadGoalSetParams, ThreadGoalSetResponse, ThreadGoalUpdatedNotification,
};
use crate::protocol::item::{
    AgentMessageDeltaNotification, CollaborationModeListParams, CollaborationModeListResponse,
    CommandExecutionOutputDeltaNotification, DynamicToolCallParams, DynamicToolCallResponse,
    FileChangeOutputDeltaNotification, FileChangePatchUpdatedNotification, ItemCompletedNotification,
    ItemStartedNotification, McpToolCallProgressNotification, PlanDeltaNotification,
    ReasoningSummaryPartAddedNotification, ReasoningSummaryTextDeltaNotification,
    ReasoningTextDeltaNotification, TerminalInteractionNotification, ThreadItemsListParams,
    ThreadItemsListResponse, ThreadItemsReadParams, ThreadItemsReadResponse,
};
use crate::protocol::mcp::{
    ListMcpServerStatusParams, ListMcpServerStatusResponse, McpResourceReadParams, McpResourceReadResponse,
    McpServerReloadResponse, McpServerStatusUpdatedNotification, McpServerToolCallParams,
    McpServerToolCallResponse,
};
use crate::protocol::method::is_experimental;
use crate::protocol::misc::ContextCompactedNotification;
use crate::protocol::model::{
    ModelListParams, ModelListResponse, ModelProviderListParams, ModelProviderListResponse,
    ModelReroutedNotification,
};
use crate::protocol::queue::{
    ThreadQueueAddParams, ThreadQueueAddResponse, ThreadQueueChangedNotification, ThreadQueueDeleteParams,
    ThreadQueueDeleteResponse, ThreadQueueListParams, ThreadQueueListResponse, ThreadQueueReorderParams,
    ThreadQueueReorderResponse, ThreadQueueStartParams, ThreadQueueStartResponse, ThreadQueueUpdateParams,
    ThreadQueueUpdateResponse,
};
use crate::protocol::report::{UsageReportParams, UsageReportResponse};
use crate::protocol::review::{ReviewStartParams, ReviewStartResponse};
use crate::protocol::settings::{
    PermissionProfileListParams, PermissionProfileListResponse, ThreadSettingsUpdateParams,
    ThreadSettingsUpdateResponse, ThreadSettingsUpdatedNotification, TurnSettingsUpdateParams,
    TurnSettingsUpdateResponse,
};
use crate::protocol::skills::{HooksListParams, HooksListResponse, SkillsListParams, SkillsListResponse};
use crate::protocol::thread::{
    ThreadArchiveParams, ThreadArchiveResponse, ThreadArchivedNotification,
    ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse,
    ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse,
    ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse,
    ThreadClosedNotification, ThreadCompactStartParams, ThreadCompactStartResponse, ThreadDeleteParams,
    ThreadDeleteResponse, ThreadDeletedNotification, ThreadForkParams, ThreadForkResponse,
    ThreadInjectItemsParams, ThreadInjectItemsResponse, ThreadListParams, ThreadListResponse,
    ThreadLoadedListParams, ThreadLoadedListResponse, ThreadMetadataUpdateParams,
    ThreadMetadataUpdateResponse, ThreadNameUpdatedNotification, ThreadReadParams, ThreadReadResponse,
    ThreadResumeParams, ThreadResumeResponse, ThreadSetNameParams, ThreadSetNameResponse,
    ThreadShellCommandParams, ThreadShellCommandResponse, ThreadStartParams, ThreadStartResponse,
    ThreadStartedNotification, ThreadStatusChangedNotification, ThreadUnarchiveParams,
    ThreadUnarchiveResponse, ThreadUnarchivedNotification, ThreadUnsubscribeParams,
    ThreadUnsubscribeResponse,
};
use crate::protocol::turn::{
    ThreadTurnsListParams, ThreadTurnsListResponse, TurnCompletedNotification, TurnDiffUpdatedNotification,
    TurnInterruptParams, TurnInterruptResponse, TurnModerationMetadataNotification,
    TurnPlanUpdatedNotification, TurnStartParams, TurnStartResponse, TurnStartedNotification,
    TurnSteerParams, TurnSteerResponse,
};
use crate::protocol::usage::{
    AccountRateLimitsUpdatedNotification, GetAccountRateLimitsParams, GetAccountRateLimitsResponse,
    GetAccountTokenUsageParams, GetAccountTokenUsageResponse, ThreadTokenUsageUpdatedNotification,
};
use crate::rpc::router;
use crate::runtime::Runtime;
use crate::store::{self, Store};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  threadkeep schema --out target/schema")]
pub(super) struct Schema {
    /// The folder to write schema.json into; it is made when it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) async fn run(command: Schema) -> anyhow::Result<Exit> {
    let names = offered().await?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    write_schema(&command.out, &names)?;
    Ok(Exit::Good)
}

/// The names of all methods, from the router itself: it is built over an empty home that is dropped at once.
async fn offered() -> anyhow::Result<Vec<String>> {
    let home = tempfile::tempdir().context("making a folder for an empty home")?;
    let clock = Clock::system();
    let store = Store::open(&home.path().join(store::FILE_NAME), clock.clone()).await?;
    let config = ConfigSource::new(Home::find(Some(home.path()))?, &[])?;
    let module = router::build(Runtime::start(clock, store, config))?;
    let mut names: Vec<String> = module.method_names().map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}

/// Write `schema.json` for these methods, all notifications and all requests of the server into a folder.
///
/// # Errors
/// A method has no types in this file's table, or the file cannot be written.
fn write_schema(out: &Path, offered: &[&str]) -> anyhow::Result<()> {
    let schema = schema(offered)?;
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let path = out.join("schema.json");
    let text = serde_json::to_string_pretty(&schema)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

fn schema(offered: &[&str]) -> anyhow::Result<Value> {
    let known: BTreeMap<&str, &Method> = METHODS.iter().map(|method| (method.name, method)).collect();
    let mut types = Types::new();
    let mut methods = Map::new();
    for name in offered {
        let method = known
            .get(name)
            .with_context(|| format!("the schema knows no types of {name}: name them in cli/schema.rs"))?;
        let stability = if is_experimental(name) { "experimental" } else { "stable" };
        let params = method.params.map(|params| params.add(&mut types.read));
        let result = method.result.add(&mut types.written);
        methods
            .insert((*name).to_owned(), json!({"stability": stability, "params": params, "result": result}));
    }
    let mut notifications = Map::new();
    for notification in NOTIFICATIONS {
        let params = notification.params.add(&mut types.written);
        notifications.insert(notification.name.to_owned(), json!(params));
    }
    let mut requests = Map::new();
    for request in SERVER_REQUESTS {
        let params = request.params.add(&mut types.written);
        let result = request.result.add(&mut types.read);
        requests.insert(request.name.to_owned(), json!({"params": params, "result": result}));
    }
    Ok(json!({
        "source": concat!("threadkeep ", env!("CARGO_PKG_VERSION")),
        "methods": methods,
        "notifications": notifications,
        "serverRequests": requests,
        "definitions": types.definitions(),
    }))
}

/// What clients send and what they get differ: a member with a default may be missing from the one and never is from
/// the other. So there are two generators.
struct Types {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Types {
    fn new() -> Types {
        let settings = SchemaSettings::draft07;
        Types {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }

    /// All definitions. A type that goes both ways is told as it is read, which is the weaker promise and true of both.
    fn definitions(mut self) -> BTreeMap<String, Value> {
        let mut all: BTreeMap<String, Value> = self.written.take_definitions(true).into_iter().collect();
        all.extend(self.read.take_definitions(true));
        all
    }
}

/// A type that can be put into the definitions.
#[derive(Clone, Copy)]
struct Named {
    name: fn() -> std::borrow::Cow<'static, str>,
    define: fn(&mut SchemaGenerator),
}

impl Named {
    const fn of<T: JsonSchema>() -> Named {
        Named { name: T::schema_name, define: |generator| drop(generator.subschema_for::<T>()) }
    }

    /// Add the type to the definitions, with all that it names; its own name there.
    fn add(self, generator: &mut SchemaGenerator) -> String {
        (self.define)(generator);
        (self.name)().into_owned()
    }
}

struct Method {
    name: &'static str,
    params: Option<Named>,
    result: Named,
}

struct Notification {
    name: &'static str,
    params: Named,
}

struct ServerRequest {
    name: &'static str,
    params: Named,
    result: Named,
}

const fn method<P: JsonSchema, R: JsonSchema>(name: &'static str) -> Method {
    Method { name, params: Some(Named::of::<P>()), result: Named::of::<R>() }
}

const fn method_without_params<R: JsonSchema>(name: &'static str) -> Method {
    Method { name, params: None, result: Named::of::<R>() }
}

const fn notification<P: JsonSchema>(name: &'static str) -> Notification {
    Notification { name, params: Named::of::<P>() }
}

const fn server_request<P: JsonSchema, R: JsonSchema>(name: &'static str) -> ServerRequest {
    ServerRequest { name, params: Named::of::<P>(), result: Named::of::<R>() }
}

/// The types of every method that has any, in the order of the protocol's schema.
const METHODS: &[Method] = &[
    method::<InitializeParams, InitializeResponse>("initialize"),
    method::<ThreadStartParams, ThreadStartResponse>("thread/start"),
    method::<ThreadResumeParams, ThreadResumeResponse>("thread/resume"),
    method::<ThreadForkParams, ThreadForkResponse>("thread/fork"),
    method::<ThreadArchiveParams, ThreadArchiveResponse>("thread/archive"),
    method::<ThreadDeleteParams, ThreadDeleteResponse>("thread/delete"),
    method::<ThreadUnsubscribeParams, ThreadUnsubscribeResponse>("thread/unsubscribe"),
    method::<ThreadSetNameParams, ThreadSetNameResponse>("thread/name/set"),
    method::<ThreadGoalSetParams, ThreadGoalSetResponse>("thread/goal/set"),
    method::<ThreadGoalGetParams, ThreadGoalGetResponse>("thread/goal/get"),
    method::<ThreadGoalClearParams, ThreadGoalClearResponse>("thread/goal/clear"),
    method::<ThreadQueueAddParams, ThreadQueueAddResponse>("thread/queue/add"),
    method::<ThreadQueueListParams, ThreadQueueListResponse>("thread/queue/list"),
    method::<ThreadQueueUpdateParams, ThreadQueueUpdateResponse>("thread/queue/update"),
    method::<ThreadQueueDeleteParams, ThreadQueueDeleteResponse>("thread/queue/delete"),
    method::<ThreadQueueReorderParams, ThreadQueueReorderResponse>("thread/queue/reorder"),
    method::<ThreadQueueStartParams, ThreadQueueStartResponse>("thread/queue/start"),
    method::<ThreadMetadataUpdateParams, ThreadMetadataUpdateResponse>("thread/metadata/update"),
    method::<ThreadSettingsUpdateParams, ThreadSettingsUpdateResponse>("thread/settings/update"),
    method::<ThreadUnarchiveParams, ThreadUnarchiveResponse>("thread/unarchive"),
    method::<ThreadCompactStartParams, ThreadCompactStartResponse>("thread/compact/start"),
    method::<ThreadShellCommandParams, ThreadShellCommandResponse>("thread/shellCommand"),
    method::<ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse>(
        "thread/backgroundTerminals/clean",
    ),
    method::<ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse>(
        "thread/backgroundTerminals/list",
    ),
    method::<ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse>(
        "thread/backgroundTerminals/terminate",
    ),
    method::<ThreadListParams, ThreadListResponse>("thread/list"),
    method::<ThreadLoadedListParams, ThreadLoadedListResponse>("thread/loaded/list"),
    method::<ThreadReadParams, ThreadReadResponse>("thread/read"),
    method::<ThreadTurnsListParams, ThreadTurnsListResponse>("thread/turns/list"),
    method::<ThreadItemsListParams, ThreadItemsListResponse>("thread/items/list"),
    method::<ThreadItemsReadParams, ThreadItemsReadResponse>("thread/items/read"),
    method::<ThreadInjectItemsParams, ThreadInjectItemsResponse>("thread/inject_items"),
    method::<SkillsListParams, SkillsListResponse>("skills/list"),
    method::<HooksListParams, HooksListResponse>("hooks/list"),
    method::<TurnStartParams, TurnStartResponse>("turn/start"),
    method::<TurnSettingsUpdateParams, TurnSettingsUpdateResponse>("turn/settings/update"),
    method::<TurnSteerParams, TurnSteerResponse>("turn/steer"),
    method::<TurnInterruptParams, TurnInterruptResponse>("turn/interrupt"),
    method::<ReviewStartParams, ReviewStartResponse>("review/start"),
    method::<ModelListParams, ModelListResponse>("model/list"),
    method::<ModelProviderListParams, ModelProviderListResponse>("modelProvider/list"),
    method::<ExperimentalFeatureListParams, ExperimentalFeatureListResponse>("experimentalFeature/list"),
    method::<PermissionProfileListParams, PermissionProfileListResponse>("permissionProfile/list"),
    method::<CollaborationModeListParams, CollaborationModeListResponse>("collaborationMode/list"),
    method::<ListMcpServerStatusParams, ListMcpServerStatusResponse>("mcpServerStatus/list"),
    method::<McpResourceReadParams, McpResourceReadResponse>("mcpServer/resource/read"),
    method::<McpServerToolCallParams, McpServerToolCallResponse>("mcpServer/tool/call"),
    method::<GetAccountRateLimitsParams, GetAccountRateLimitsResponse>("account/rateLimits/read"),
    method::<GetAccountTokenUsageParams, GetAccountTokenUsageResponse>("account/usage/read"),
    method::<ConfigReadParams, ConfigReadResponse>("config/read"),
    method_without_params::<McpServerReloadResponse>("config/mcpServer/reload"),
    method_without_params::<ConfigRequirementsReadResponse>("configRequirements/read"),
    method::<GetAccountParams, GetAccountResponse>("account/read"),
    // Beyond the protocol.
    method::<UsageReportParams, UsageReportResponse>("usage/report"),
];

/// Every notification that has types.
const NOTIFICATIONS: &[Notification] = &[
    notification::<ErrorNotification>("error"),
    notification::<ThreadStartedNotification>("thread/started"),
    notification::<ThreadStatusChangedNotification>("thread/status/changed"),
    notification::<ThreadArchivedNotification>("thread/archived"),
    notification::<ThreadDeletedNotification>("thread/deleted"),
    notification::<ThreadUnarchivedNotification>("thread/unarchived"),
    notification::<ThreadClosedNotification>("thread/closed"),
    notification::<ThreadNameUpdatedNotification>("thread/name/updated"),
    notification::<ThreadGoalUpdatedNotification>("thread/goal/updated"),
    notification::<ThreadGoalClearedNotification>("thread/goal/cleared"),
    notification::<ThreadQueueChangedNotification>("thread/queue/changed"),
    notification::<ThreadSettingsUpdatedNotification>("thread/settings/updated"),
    notification::<ThreadTokenUsageUpdatedNotification>("thread/tokenUsage/updated"),
    notification::<TurnStartedNotification>("turn/started"),
    notification::<TurnCompletedNotification>("turn/completed"),
    notification::<TurnDiffUpdatedNotification>("turn/diff/updated"),
    notification::<TurnPlanUpdatedNotification>("turn/plan/updated"),
    notification::<ItemStartedNotification>("item/started"),
    notification::<ItemCompletedNotification>("item/completed"),
    notification::<AgentMessageDeltaNotification>("item/agentMessage/delta"),
    notification::<PlanDeltaNotification>("item/plan/delta"),
    notification::<CommandExecutionOutputDeltaNotification>("item/commandExecution/outputDelta"),
    notification::<TerminalInteractionNotification>("item/commandExecution/terminalInteraction"),
    notification::<FileChangeOutputDeltaNotification>("item/fileChange/outputDelta"),
    notification::<FileChangePatchUpdatedNotification>("item/fileChange/patchUpdated"),
    notification::<ServerRequestResolvedNotification>("serverRequest/resolved"),
    notification::<McpToolCallProgressNotification>("item/mcpToolCall/progress"),
    notification::<McpServerStatusUpdatedNotification>("mcpServer/startupStatus/updated"),
    notification::<AccountRateLimitsUpdatedNotification>("account/rateLimits/updated"),
    notification::<ReasoningSummaryTextDeltaNotification>("item/reasoning/summaryTextDelta"),
    notification::<ReasoningSummaryPartAddedNotification>("item/reasoning/summaryPartAdded"),
    notification::<ReasoningTextDeltaNotification>("item/reasoning/textDelta"),
    notification::<ContextCompactedNotification>("thread/compacted"),
    notification::<ModelReroutedNotification>("model/rerouted"),
    notification::<TurnModerationMetadataNotification>("turn/moderationMetadata"),
    notification::<WarningNotification>("warning"),
    notification::<DeprecationNoticeNotification>("deprecationNotice"),
    notification::<ConfigWarningNotification>("configWarning"),
];

/// The requests that the server sends.
const SERVER_REQUESTS: &[ServerRequest] = &[
    server_request::<CommandExecutionRequestApprovalParams, CommandExecutionRequestApprovalResponse>(
        "item/commandExecution/requestApproval",
    ),
    server_request::<FileChangeRequestApprovalParams, FileChangeRequestApprovalResponse>(
        "item/fileChange/requestApproval",
    ),
    server_request::<ToolRequestUserInputParams, ToolRequestUserInputResponse>("item/tool/requestUserInput"),
    server_request::<McpServerElicitationRequestParams, McpServerElicitationRequestResponse>(
        "mcpServer/elicitation/request",
    ),
    server_request::<PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse>(
        "item/permissions/requestApproval",
    ),
    server_request::<DynamicToolCallParams, DynamicToolCallResponse>("item/tool/call"),
];
