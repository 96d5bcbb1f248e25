//! The keys of `config.toml` that mean something here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Value;

use super::environment::EnvironmentPolicy;
use super::layers::ConfigError;
use super::mcp_server::ServerConfig;
use super::provider::{OPENAI, ProviderConfig};
use crate::protocol::approval::{ApprovalsReviewer, AskForApproval};
use crate::protocol::settings::{Personality, ReasoningSummary, SandboxMode};

/// One typed configuration, all layers merged.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Model of new threads.
    pub model: Option<String>,
    /// Provider of new threads.
    pub model_provider: String,
    /// Providers by id, built-in ones included.
    pub model_providers: BTreeMap<String, ProviderConfig>,
    /// Reasoning effort of new threads.
    pub model_reasoning_effort: Option<String>,
    /// Reasoning summary of new threads.
    pub model_reasoning_summary: Option<ReasoningSummary>,
    /// Context window of the model, in tokens, over what is known of it.
    pub model_context_window: Option<i64>,
    /// Tokens of context from which a turn compacts first.
    pub model_auto_compact_token_limit: Option<i64>,
    /// Model of reviews; that of the thread when left out.
    pub review_model: Option<String>,
    /// Asks for the summary of a compaction, instead of our own words.
    pub compact_prompt: Option<String>,
    /// Service tier of new threads.
    pub service_tier: Option<String>,
    /// When a client is asked.
    #[serde(deserialize_with = "approval_policy")]
    pub approval_policy: AskForApproval,
    /// Who is asked.
    pub approvals_reviewer: ApprovalsReviewer,
    /// What commands may touch.
    pub sandbox_mode: SandboxMode,
    /// Details of `workspace-write`.
    pub sandbox_workspace_write: WorkspaceWrite,
    /// What commands inherit of the server's environment.
    pub shell_environment_policy: EnvironmentPolicy,
    /// The most output of a command that the model gets, in tokens.
    pub tool_output_token_limit: Option<u64>,
    /// The longest wait of a mere look at a running command.
    #[serde(deserialize_with = "milliseconds")]
    pub background_terminal_max_timeout: Duration,
    /// Limits of goals.
    pub goals: Goals,
    /// MCP servers by name.
    pub mcp_servers: BTreeMap<String, ServerConfig>,
    /// Switches of single tools.
    pub tools: Tools,
    /// Switches by name.
    pub features: BTreeMap<String, bool>,
    /// Stored and reported.
    pub personality: Option<Personality>,
    /// Replaces the base instructions.
    pub instructions: Option<String>,
    /// Added to the base instructions.
    pub developer_instructions: Option<String>,
    /// The most bytes of project instructions.
    pub project_doc_max_bytes: usize,
    /// Further names of instruction files.
    pub project_doc_fallback_filenames: Vec<String>,
    /// What marks the root of a project.
    pub project_root_markers: Vec<String>,
    /// Trust by folder.
    pub projects: BTreeMap<String, Project>,
    /// How long an idle thread without subscribers stays loaded.
    #[serde(rename = "thread_unload_delay_secs", deserialize_with = "seconds")]
    pub thread_unload_delay: Duration,
    /// How long a drain waits for running turns before they are interrupted.
    #[serde(deserialize_with = "seconds")]
    pub shutdown_timeout: Duration,
    /// `paginated` or `legacy`: the form of the files of new threads.
    pub rollout_form: RolloutForm,
    /// The folder of the database.
    pub sqlite_home: Option<PathBuf>,
    /// The most bytes that the database may have; a change beyond them is refused.
    pub database_max_bytes: Option<u64>,
    /// The backend of a ChatGPT login.
    pub chatgpt_base_url: Option<String>,
    /// What is told to that backend.
    pub analytics: Analytics,
}

/// `[sandbox_workspace_write]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct WorkspaceWrite {
    /// Folders that may be written, beside the workspace.
    pub writable_roots: Vec<PathBuf>,
    /// Whether the network may be used.
    pub network_access: bool,
    /// Whether `$TMPDIR` may not be written.
    pub exclude_tmpdir_env_var: bool,
    /// Whether `/tmp` may not be written.
    pub exclude_slash_tmp: bool,
}

/// `[tools]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Tools {
    /// The model may show a plan.
    pub update_plan: Toggle,
}

/// `[goals]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Goals {
    /// The most that a token budget may be; also that of a goal which names none.
    pub max_goal_token_budget: Option<i64>,
    /// So many turns in a row that call no tool block a goal; 0: never.
    pub max_continuations_without_progress: u32,
    /// So many turns within an hour block a goal; 0: never.
    pub max_turns_per_hour: u32,
}

impl Default for Goals {
    fn default() -> Goals {
        Goals { max_goal_token_budget: None, max_continuations_without_progress: 25, max_turns_per_hour: 600 }
    }
}

/// `[analytics]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Analytics {
    /// Whether usage events are sent for a ChatGPT login.
    pub enabled: bool,
}

impl Default for Analytics {
    fn default() -> Analytics {
        Analytics { enabled: true }
    }
}

/// `enabled = true` or not.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Toggle {
    /// Whether it is on.
    pub enabled: bool,
}

/// `[projects."DIR"]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Project {
    /// `trusted` or `untrusted`.
    pub trust_level: Option<String>,
}

/// The form of rollout files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutForm {
    /// Every item with its id and times.
    #[default]
    Paginated,
    /// Messages as events only.
    Legacy,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            model: None,
            model_provider: OPENAI.to_owned(),
            model_providers: ProviderConfig::built_in(),
            model_reasoning_effort: None,
            model_reasoning_summary: None,
            model_context_window: None,
            model_auto_compact_token_limit: None,
            review_model: None,
            compact_prompt: None,
            service_tier: None,
            approval_policy: AskForApproval::OnRequest,
            approvals_reviewer: ApprovalsReviewer::User,
            sandbox_mode: SandboxMode::ReadOnly,
            sandbox_workspace_write: WorkspaceWrite::default(),
            shell_environment_policy: EnvironmentPolicy::default(),
            tool_output_token_limit: None,
            background_terminal_max_timeout: Duration::from_secs(300),
            goals: Goals::default(),
            mcp_servers: BTreeMap::new(),
            tools: Tools::default(),
            features: BTreeMap::new(),
            personality: None,
            instructions: None,
            developer_instructions: None,
            project_doc_max_bytes: 32_768,
            project_doc_fallback_filenames: Vec::new(),
            project_root_markers: vec![".git".to_owned()],
            projects: BTreeMap::new(),
            thread_unload_delay: Duration::from_secs(30 * 60),
            shutdown_timeout: Duration::from_secs(10 * 60),
            rollout_form: RolloutForm::Paginated,
            sqlite_home: None,
            database_max_bytes: None,
            chatgpt_base_url: None,
            analytics: Analytics::default(),
        }
    }
}

/// Keys that other programs on the same file know, which have no meaning here: no warning is due for them.
pub(super) const FOREIGN_KEYS: &[&str] = &[
    "apps",
    "check_for_update_on_startup",
    "cli_auth_credentials_store",
    "default_permissions",
    "disable_paste_burst",
    "file_opener",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "hide_agent_reasoning",
    "history",
    "hooks",
    "log_dir",
    "marketplaces",
    "mcp_oauth_credentials_store",
    "memories",
    "model_catalog_json",
    "model_instructions_file",
    "model_verbosity",
    "notice",
    "notify",
    "otel",
    "permissions",
    "plan_mode_reasoning_effort",
    "plugins",
    "profiles",
    "show_raw_agent_reasoning",
    "skills",
    "tui",
    "web_search",
    "windows",
];

/// The keys of [`Config`].
pub(super) const OWN_KEYS: &[&str] = &[
    "model",
    "model_provider",
    "model_providers",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_context_window",
    "model_auto_compact_token_limit",
    "service_tier",
    "approval_policy",
    "approvals_reviewer",
    "sandbox_mode",
    "sandbox_workspace_write",
    "features",
    "personality",
    "instructions",
    "developer_instructions",
    "project_doc_max_bytes",
    "project_doc_fallback_filenames",
    "project_root_markers",
    "projects",
    "thread_unload_delay_secs",
    "shutdown_timeout",
    "rollout_form",
    "sqlite_home",
    "database_max_bytes",
    "chatgpt_base_url",
    "analytics",
];

impl Config {
    /// A configuration from merged layers.
    pub(super) fn from_table(table: toml::Table) -> Result<Config, ConfigError> {
        if let Some(profile) = table.get("profile").and_then(Value::as_str) {
            return Err(ConfigError(format!(
                "legacy `profile = \"{profile}\"` config is no longer supported; use `--profile {profile}` with \
                 `{profile}.config.toml` instead"
            )));
        }
        let mut key = None;
        for (name, value) in &table {
            // Each key is tried alone first, so that an error can name it.
            let alone = toml::Table::from_iter([(name.clone(), value.clone())]);
            if let Err(error) = Value::Table(alone).try_into::<Config>() {
                key = Some((name.clone(), error));
                break;
            }
        }
        if let Some((name, error)) = key {
            return Err(ConfigError(format!("{}\nin `{name}`\n", error.message())));
        }
        let mut config: Config = Value::Table(table)
            .try_into()
            .map_err(|error: toml::de::Error| ConfigError(error.message().to_owned()))?;
        if let Some(problem) = config.mcp_servers.iter().find_map(|(name, server)| server.problem(name)) {
            return Err(ConfigError(problem));
        }
        for (id, provider) in ProviderConfig::built_in() {
            config.model_providers.entry(id).or_insert(provider);
        }
        for (id, provider) in &mut config.model_providers {
            provider.id.clone_from(id);
            if provider.wire_api.as_deref().is_some_and(|api| api != "responses") {
                return Err(ConfigError(format!(
                    "`wire_api` of model provider `{id}` is not supported: set it to \"responses\""
                )));
            }
        }
        Ok(config)
    }

    /// A provider by its id.
    ///
    /// # Errors
    /// It is not configured.
    pub fn provider(&self, id: &str) -> Result<&ProviderConfig, ConfigError> {
        self.model_providers.get(id).ok_or_else(|| ConfigError(format!("Model provider `{id}` not found")))
    }

    /// Whether a feature is on.
    pub fn feature(&self, name: &str, default: bool) -> bool {
        self.features.get(name).copied().unwrap_or(default)
    }
}

fn milliseconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

fn seconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    f64::deserialize(from).map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO))
}

/// `on-failure` is an old word for `on-request` that files may still have.
fn approval_policy<'de, D: serde::Deserializer<'de>>(from: D) -> Result<AskForApproval, D::Error> {
    let value = Value::deserialize(from)?;
    if value.as_str() == Some("on-failure") {
        return Ok(AskForApproval::OnRequest);
    }
    value.try_into().map_err(|error: toml::de::Error| serde::de::Error::custom(error.message()))
}
