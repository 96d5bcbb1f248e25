//! What clients ask at their start beside threads: the account, models, the configuration, modes, skills and hooks
//! (`protocol/clients.md`, section 1).

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::RpcError;
use crate::config::provider::OPENAI;
use crate::model::catalog::{DEFAULT_MODEL, MODELS};
use crate::protocol::id::ThreadId;
use crate::protocol::usage::GetAccountTokenUsageParams;
use crate::runtime::Runtime;
use crate::runtime::client::Request;

/// Params of which nothing is used.
#[derive(Debug, Deserialize)]
pub(super) struct Anything {}

/// Params that name folders.
#[derive(Debug, Deserialize)]
pub(super) struct Folders {
    #[serde(default)]
    cwds: Option<Vec<String>>,
}

/// Params of `config/read`.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigReadParams {
    #[serde(default)]
    cwd: Option<String>,
}

type Reply = Result<Value, RpcError>;

pub(super) async fn account_read(runtime: Arc<Runtime>, _: Anything, _: Arc<dyn Request>) -> Reply {
    let provider = runtime.config.load().config.model_provider;
    let account = runtime.config.home().api_key().map(|_| json!({"type": "apiKey"}));
    Ok(json!({"account": account, "requiresOpenaiAuth": provider == OPENAI}))
}

pub(super) async fn rate_limits_read(runtime: Arc<Runtime>, _: Anything, _: Arc<dyn Request>) -> Reply {
    Err(RpcError::invalid(no_account(&runtime, "read rate limits")))
}

/// `account/usage/read`: what the provider has counted for an account. Our own count is `usage/report`.
pub(super) async fn usage_read(
    runtime: Arc<Runtime>,
    params: GetAccountTokenUsageParams,
    _: Arc<dyn Request>,
) -> Reply {
    if let Some(id) = &params.thread_id {
        ThreadId::parse(id).map_err(|error| RpcError::invalid(format!("invalid thread id: {error}")))?;
    }
    Err(RpcError::invalid(no_account(&runtime, "read token usage")))
}

/// Why nothing can be said of an account (`protocol/usage.md`, section 6).
fn no_account(runtime: &Runtime, what: &str) -> String {
    let home = runtime.config.home();
    if home.chatgpt_login().is_some() {
        format!("cannot {what} of a ChatGPT account: this server counts for itself, see `usage/report`")
    } else if home.api_key().is_some() {
        format!("chatgpt authentication required to {what}")
    } else {
        format!("codex account authentication required to {what}")
    }
}

pub(super) async fn model_list(runtime: Arc<Runtime>, _: Anything, _: Arc<dyn Request>) -> Reply {
    let configured = runtime.config.load().config.model.unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    let mut names: Vec<(String, &str)> =
        MODELS.iter().map(|info| (info.model.to_owned(), info.default_effort)).collect();
    if !names.iter().any(|(name, _)| *name == configured) {
        names.insert(0, (configured.clone(), "medium"));
    }
    let data: Vec<Value> = names
        .into_iter()
        .map(|(name, effort)| {
            json!({
                "id": name, "model": name, "displayName": name, "description": "", "hidden": false,
                "isDefault": name == configured, "defaultReasoningEffort": effort,
                "supportedReasoningEfforts": [
                    {"reasoningEffort": "low", "description": "Answers fast"},
                    {"reasoningEffort": "medium", "description": "Thinks as much as most tasks need"},
                    {"reasoningEffort": "high", "description": "Thinks longer"},
                ],
            })
        })
        .collect();
    Ok(json!({"data": data, "nextCursor": null}))
}

pub(super) async fn config_read(
    runtime: Arc<Runtime>,
    params: ConfigReadParams,
    _: Arc<dyn Request>,
) -> Reply {
    let cwd = params.cwd.unwrap_or_else(|| ".".to_owned());
    let config = runtime.config.for_thread(Path::new(&cwd), None);
    let config =
        config.map_err(|error| RpcError::invalid(format!("failed to load configuration: {error}")))?;
    Ok(json!({
        "config": {
            "model": config.model, "model_provider": config.model_provider, "approval_policy": config.approval_policy,
            "sandbox_mode": config.sandbox_mode, "model_reasoning_effort": config.model_reasoning_effort,
            "model_context_window": config.model_context_window, "service_tier": config.service_tier,
        },
        "origins": {},
        "layers": null,
    }))
}

pub(super) async fn config_requirements_read(_: Arc<Runtime>) -> Reply {
    Ok(json!({"requirements": null}))
}

pub(super) async fn collaboration_mode_list(_: Arc<Runtime>, _: Anything, _: Arc<dyn Request>) -> Reply {
    Ok(json!({"data": [
        {"name": "Plan", "mode": "plan", "model": null, "reasoning_effort": "medium"},
        {"name": "Default", "mode": "default", "model": null, "reasoning_effort": null},
    ]}))
}

pub(super) async fn skills_list(_: Arc<Runtime>, params: Folders, _: Arc<dyn Request>) -> Reply {
    let cwds = params.cwds.unwrap_or_default();
    let data: Vec<Value> = cwds.iter().map(|cwd| json!({"cwd": cwd, "skills": [], "errors": []})).collect();
    Ok(json!({"data": data}))
}

pub(super) async fn hooks_list(_: Arc<Runtime>, params: Folders, _: Arc<dyn Request>) -> Reply {
    let cwds = params.cwds.unwrap_or_default();
    let data: Vec<Value> =
        cwds.iter().map(|cwd| json!({"cwd": cwd, "hooks": [], "warnings": [], "errors": []})).collect();
    Ok(json!({"data": data}))
}
