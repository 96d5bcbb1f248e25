//! The handshake, and what a connection has said of itself (`protocol/connection.md`, section 3).

use std::sync::{Arc, OnceLock};

use serde_json::json;

use super::error::RpcError;
use crate::protocol::connection::{InitializeParams, InitializeResponse};
use crate::runtime::Runtime;
use crate::runtime::client::{Client, Event, Request};

/// What a connection said at initialize.
#[derive(Clone, Debug, Default)]
pub struct Introduction {
    /// `clientInfo.name`.
    pub client_name: String,
    /// Whether it has the `experimentalApi` capability.
    pub experimental: bool,
    /// Notifications that it does not want.
    pub opted_out: Vec<String>,
}

/// A connection's introduction, made once.
pub type Introduced = Arc<OnceLock<Introduction>>;

/// `initialize`.
///
/// # Errors
/// The name cannot be a header's value, or the connection has initialized already.
pub fn initialize(
    runtime: &Arc<Runtime>,
    introduced: &Introduced,
    params: InitializeParams,
    request: &Arc<dyn Request>,
) -> Result<InitializeResponse, RpcError> {
    if introduced.get().is_some() {
        return Err(RpcError::invalid("Already initialized"));
    }
    let info = params.client_info;
    if !info.name.bytes().all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte) || byte >= 0x80) {
        let name = info.name.replace('\n', "\\n");
        return Err(RpcError::invalid(format!(
            "Invalid clientInfo.name: '{name}'. Must be a valid HTTP header value."
        )));
    }
    let capabilities = params.capabilities;
    let introduction = Introduction {
        client_name: info.name.clone(),
        experimental: capabilities.as_ref().is_some_and(|capabilities| capabilities.experimental_api),
        opted_out: capabilities
            .and_then(|capabilities| capabilities.opt_out_notification_methods)
            .unwrap_or_default(),
    };
    if introduced.set(introduction).is_err() {
        return Err(RpcError::invalid("Already initialized"));
    }
    runtime.set_originator(&info.name);
    let user_agent = format!("{} threadkeep ({}; {})", runtime.user_agent(), info.name, info.version);
    request.reserve_reply();
    greet(runtime, request.client());
    Ok(InitializeResponse {
        user_agent,
        codex_home: runtime.config.home().path().display().to_string().into(),
        platform_family: "unix".to_owned(),
        platform_os: std::env::consts::OS.to_owned(),
    })
}

/// What follows the reply: warnings about the configuration, the state of remote control; then broadcasts.
fn greet(runtime: &Arc<Runtime>, client: Arc<dyn Client>) {
    let now_ms = runtime.clock.now_ms();
    for warning in runtime.config.load().warnings {
        let place = |(line, column): (usize, usize)| json!({"line": line, "column": column});
        let mut params = json!({"summary": warning.summary, "details": warning.details});
        if let Some(path) = warning.path {
            params["path"] = json!(path);
        }
        if let Some([start, end]) = warning.range {
            params["range"] = json!({"start": place(start), "end": place(end)});
        }
        client.send(&Event::notification("configWarning", &params, now_ms));
    }
    let installation_id = runtime.config.home().installation_id(|| runtime.clock.new_id().to_string());
    let params = json!({"status": "disabled", "serverName": host_name(), "installationId": installation_id,
        "environmentId": null});
    client.send(&Event::notification("remoteControl/status/changed", &params, now_ms));
    runtime.clients.add(client);
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
