//! The table of all methods, and how a request finds its handler.
//!
//! Order of checks: the shape of the params, whether the connection has initialized, the experimental gate, the drain,
//! then the content, which is the handler's (`protocol/connection.md`, section 2).

use std::future::Future;
use std::sync::Arc;

use jsonrpsee::{Extensions, RpcModule};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::connection::{self, Introduced};
use super::error::RpcError;
use super::{about, goal, mcp, queue, terminal, thread, turn, usage};
use crate::protocol::id::ThreadId;
use crate::protocol::method;
use crate::runtime::Runtime;
use crate::runtime::client::Request;

/// What a request comes with, in the extensions of the call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asks, and the place of the reply.
    pub request: Arc<dyn Request>,
    /// What the connection said of itself.
    pub introduced: Introduced,
}

/// Methods that are refused while the process is about to end, also those that are not offered: a client of the peer
/// then knows what to do.
const REFUSED_IN_A_DRAIN: &[&str] = &[
    "turn/start",
    "turn/steer",
    "turn/settings/update",
    "thread/start",
    "thread/resume",
    "thread/fork",
    "thread/delete",
    "thread/archive",
    "thread/revert",
    "thread/shellCommand",
    "thread/compact/start",
    "thread/settings/update",
    "thread/queue/start",
    "thread/guardianReview",
    "review/start",
];

/// Whether a method is refused while the process is about to end.
pub fn starts_work(method: &str) -> bool {
    REFUSED_IN_A_DRAIN.contains(&method)
}

/// Methods whose requests are not kept in order though they may name a thread: they touch none that is loaded, or wait
/// for another program, which must not hold up the thread.
const UNORDERED: &[&str] = &[
    "thread/list",
    "thread/start",
    "thread/loaded/list",
    "initialize",
    "usage/report",
    "mcpServer/resource/read",
    "mcpServer/tool/call",
    "mcpServerStatus/list",
];

/// What requests of this method wait for each other by: those that name one thread run one after another.
pub fn lane(method: &str, params: Option<&RawValue>) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        #[serde(rename = "threadId")]
        thread_id: String,
    }
    if UNORDERED.contains(&method) {
        return None;
    }
    let named: Named = serde_json::from_str(params?.get()).ok()?;
    // A UUID has several forms; what is none is refused in any lane.
    Some(ThreadId::parse(&named.thread_id).map_or(named.thread_id, |id| id.to_string()))
}

/// All methods.
///
/// # Errors
/// A method was registered twice.
pub fn build(runtime: Arc<Runtime>) -> anyhow::Result<RpcModule<Arc<Runtime>>> {
    let mut router = Router { module: RpcModule::new(runtime) };
    router.initialize()?;
    router.method("account/rateLimits/read", about::rate_limits_read)?;
    router.method("account/read", about::account_read)?;
    router.method("account/usage/read", about::usage_read)?;
    router.method("collaborationMode/list", about::collaboration_mode_list)?;
    router.method("config/read", about::config_read)?;
    router.method_without_params("config/mcpServer/reload", mcp::reload)?;
    router.method_without_params("configRequirements/read", about::config_requirements_read)?;
    router.method("hooks/list", about::hooks_list)?;
    router.method("model/list", about::model_list)?;
    router.method("mcpServer/resource/read", mcp::resource_read)?;
    router.method("mcpServer/tool/call", mcp::tool_call)?;
    router.method("mcpServerStatus/list", mcp::status_list)?;
    router.method("review/start", turn::review)?;
    router.method("skills/list", about::skills_list)?;
    router.method("thread/archive", thread::archive)?;
    router.method("thread/backgroundTerminals/clean", terminal::clean)?;
    router.method("thread/backgroundTerminals/list", terminal::list)?;
    router.method("thread/backgroundTerminals/terminate", terminal::terminate)?;
    router.method("thread/compact/start", thread::compact)?;
    router.method("thread/delete", thread::delete)?;
    router.method("thread/fork", thread::fork)?;
    router.method("thread/goal/clear", goal::clear)?;
    router.method("thread/goal/get", goal::get)?;
    router.method("thread/goal/set", goal::set)?;
    router.method("thread/inject_items", thread::inject_items)?;
    router.method("thread/items/list", thread::items_list)?;
    router.method("thread/items/read", thread::items_read)?;
    router.method("thread/list", thread::list)?;
    router.method("thread/loaded/list", thread::loaded_list)?;
    router.method("thread/metadata/update", thread::metadata_update)?;
    router.method("thread/name/set", thread::name_set)?;
    router.method("thread/queue/add", queue::add)?;
    router.method("thread/queue/delete", queue::delete)?;
    router.method("thread/queue/list", queue::list)?;
    router.method("thread/queue/reorder", queue::reorder)?;
    router.method("thread/queue/start", queue::start)?;
    router.method("thread/queue/update", queue::update)?;
    router.method("thread/read", thread::read)?;
    router.method("thread/resume", thread::resume)?;
    router.method("thread/settings/update", thread::settings_update)?;
    router.method("thread/shellCommand", terminal::shell_command)?;
    router.method("thread/start", thread::start)?;
    router.method("thread/turns/list", thread::turns_list)?;
    router.method("thread/unarchive", thread::unarchive)?;
    router.method("thread/unsubscribe", thread::unsubscribe)?;
    router.method("turn/interrupt", turn::interrupt)?;
    router.method("turn/settings/update", turn::settings_update)?;
    router.method("turn/start", turn::start)?;
    router.method("turn/steer", turn::steer)?;
    router.method("usage/report", usage::report)?;
    Ok(router.module)
}

struct Router {
    module: RpcModule<Arc<Runtime>>,
}

impl Router {
    /// Register a method whose params are an object.
    fn method<P, R, F, H>(&mut self, name: &'static str, handler: F) -> anyhow::Result<()>
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(Arc<Runtime>, P, Arc<dyn Request>) -> H + Copy + Send + Sync + 'static,
        H: Future<Output = Result<R, RpcError>> + Send + 'static,
    {
        self.module.register_async_method(name, move |params, runtime, extensions| async move {
            let text = params.as_str().filter(|text| *text != "null");
            let parsed: P = match text {
                Some(text) => serde_json::from_str(text).map_err(|error| RpcError::malformed(&error))?,
                None => return Err(RpcError::invalid("Invalid request: missing field `params`")),
            };
            let call = admit(name, text, &runtime, &extensions)?;
            let reply = handler(runtime.as_ref().clone(), parsed, call.request).await?;
            to_raw(&reply)
        })?;
        Ok(())
    }

    /// Register a method whose params may be missing.
    fn method_without_params<R, F, H>(&mut self, name: &'static str, handler: F) -> anyhow::Result<()>
    where
        R: Serialize + Send + 'static,
        F: Fn(Arc<Runtime>) -> H + Copy + Send + Sync + 'static,
        H: Future<Output = Result<R, RpcError>> + Send + 'static,
    {
        self.module.register_async_method(name, move |params, runtime, extensions| async move {
            admit(name, params.as_str(), &runtime, &extensions)?;
            let reply = handler(runtime.as_ref().clone()).await?;
            to_raw(&reply)
        })?;
        Ok(())
    }

    /// The one method that comes before all others.
    fn initialize(&mut self) -> anyhow::Result<()> {
        self.module.register_async_method("initialize", |params, runtime, extensions| async move {
            let Some(text) = params.as_str().filter(|text| *text != "null") else {
                return Err(RpcError::invalid("Invalid request: missing field `params`"));
            };
            let parsed = serde_json::from_str(text).map_err(|error| RpcError::malformed(&error))?;
            let call = call(&extensions)?;
            to_raw(&connection::initialize(&runtime, &call.introduced, parsed, &call.request)?)
        })?;
        Ok(())
    }
}

fn call(extensions: &Extensions) -> Result<Call, RpcError> {
    extensions.get::<Call>().cloned().ok_or_else(RpcError::internal)
}

/// The checks between the shape of a request and its content.
fn admit(
    name: &str,
    params: Option<&str>,
    runtime: &Runtime,
    extensions: &Extensions,
) -> Result<Call, RpcError> {
    let call = call(extensions)?;
    let Some(introduction) = call.introduced.get() else {
        return Err(RpcError::invalid("Not initialized"));
    };
    if !introduction.experimental && method::may_be_gated(name) {
        let params: Option<Value> = params.and_then(|text| serde_json::from_str(text).ok());
        if let Some(text) = method::gate(name, params.as_ref()) {
            return Err(RpcError::invalid(text));
        }
    }
    if runtime.is_draining() && starts_work(name) {
        return Err(RpcError::draining());
    }
    Ok(call)
}

/// The reply, written once.
fn to_raw<R: Serialize>(reply: &R) -> Result<Box<RawValue>, RpcError> {
    serde_json::value::to_raw_value(reply).map_err(|error| {
        tracing::error!(%error, "a reply could not be written");
        RpcError::internal()
    })
}
