//! The sticky settings of a thread: where they come from, how requests change them, how they are kept.
//!
//! `thread/start` fills them from its params and the configuration; `turn/start`, `thread/resume`, `thread/fork` and
//! `thread/settings/update` change the same values (`protocol/settings.md`, section 1). They are stored with the
//! thread as JSON and restored by a resume without overrides.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::{Result, RuntimeError};
use crate::config::Config;
use crate::protocol;
use crate::protocol::approval::{ApprovalsReviewer, AskForApproval};
use crate::protocol::item::CollaborationMode;
use crate::protocol::settings::{
    ActivePermissionProfile, ModeKind, MultiAgentMode, Personality, ReasoningSummary, SandboxMode,
    SandboxPolicy, ThreadSettings,
};

/// The settings of a thread, as stored in `threads.settings_json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Model of the next turn.
    pub model: String,
    /// Provider id.
    pub model_provider: String,
    /// Reasoning effort; `None` leaves it to the model.
    #[serde(default)]
    pub effort: Option<String>,
    /// Reasoning summary; `None` leaves it to the model.
    #[serde(default)]
    pub summary: Option<ReasoningSummary>,
    /// Service tier, as reported.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// When a client is asked.
    pub approval_policy: AskForApproval,
    /// Who is asked.
    pub approvals_reviewer: ApprovalsReviewer,
    /// What commands may touch.
    pub sandbox_policy: SandboxPolicy,
    /// The named profile that the policy came from.
    #[serde(default)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// Working directory, absolute.
    pub cwd: String,
    /// Roots of the workspace, absolute, each once.
    pub workspace_roots: Vec<String>,
    /// Environments named by the client; `None` is the built-in `local` one.
    #[serde(default)]
    pub environments: Option<Vec<String>>,
    /// Plan or default.
    pub mode: ModeKind,
    /// Instructions that came with the mode.
    #[serde(default)]
    pub mode_instructions: Option<String>,
    /// Stored and reported.
    #[serde(default)]
    pub personality: Option<Personality>,
    /// Stored and reported.
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
    /// Replaces the base instructions.
    #[serde(default)]
    pub base_instructions: Option<String>,
    /// Added after the base instructions.
    #[serde(default)]
    pub developer_instructions: Option<String>,
    /// Tools that the client of `thread/start` brings along, as it gave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dynamic_tools: Vec<Value>,
    /// What the model was last told of these settings (see `prompt`): empty until the first turn.
    #[serde(default)]
    pub told: Vec<String>,
}

/// What a request wants changed. A missing member leaves a setting as it is.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// See [`Settings::model`].
    pub model: Option<String>,
    /// See [`Settings::model_provider`].
    pub model_provider: Option<String>,
    /// See [`Settings::effort`].
    pub effort: Option<String>,
    /// See [`Settings::summary`].
    pub summary: Option<ReasoningSummary>,
    /// See [`Settings::service_tier`]; `Some(None)` clears it.
    pub service_tier: Option<Option<String>>,
    /// See [`Settings::approval_policy`].
    pub approval_policy: Option<AskForApproval>,
    /// See [`Settings::approvals_reviewer`].
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// A sandbox by its short name.
    pub sandbox_mode: Option<SandboxMode>,
    /// A sandbox in full.
    pub sandbox_policy: Option<SandboxPolicy>,
    /// A named permission profile.
    pub permissions: Option<String>,
    /// See [`Settings::cwd`]; relative is taken from the server's directory.
    pub cwd: Option<String>,
    /// See [`Settings::workspace_roots`].
    pub workspace_roots: Option<Vec<String>>,
    /// See [`Settings::environments`].
    pub environments: Option<Vec<String>>,
    /// Model, effort and instructions together.
    pub collaboration_mode: Option<CollaborationMode>,
    /// See [`Settings::personality`].
    pub personality: Option<Personality>,
    /// See [`Settings::disabled_plugin_ids`].
    pub disabled_plugin_ids: Option<Vec<String>>,
    /// See [`Settings::base_instructions`].
    pub base_instructions: Option<String>,
    /// See [`Settings::developer_instructions`].
    pub developer_instructions: Option<String>,
}

impl Settings {
    /// The settings of a new thread: the configuration, then the request.
    pub fn new(config: &Config, overrides: &Overrides) -> Result<Settings> {
        let cwd = server_directory();
        let mut settings = Settings {
            model: config.model.clone().unwrap_or_else(|| crate::model::catalog::DEFAULT_MODEL.to_owned()),
            model_provider: config.model_provider.clone(),
            effort: config.model_reasoning_effort.clone(),
            summary: config.model_reasoning_summary,
            service_tier: config.service_tier.clone(),
            approval_policy: config.approval_policy.clone(),
            approvals_reviewer: config.approvals_reviewer,
            sandbox_policy: sandbox_policy(config.sandbox_mode, config),
            active_permission_profile: None,
            workspace_roots: vec![cwd.clone()],
            cwd,
            environments: None,
            mode: ModeKind::Default,
            mode_instructions: None,
            personality: config.personality,
            disabled_plugin_ids: Vec::new(),
            base_instructions: config.instructions.clone(),
            developer_instructions: config.developer_instructions.clone(),
            dynamic_tools: Vec::new(),
            told: Vec::new(),
        };
        settings.apply(overrides, config)?;
        if settings.model.is_empty() {
            return Err(RuntimeError::invalid(
                "No models are available. Set `model` explicitly or check your model catalog configuration.",
            ));
        }
        Ok(settings)
    }

    /// Take over what a request wants changed.
    ///
    /// # Errors
    /// A combination that cannot be, or a name that the configuration does not have; nothing is changed then.
    pub fn apply(&mut self, overrides: &Overrides, config: &Config) -> Result<()> {
        let mut next = self.clone();
        next.apply_model(overrides, config)?;
        next.apply_places(overrides)?;
        next.apply_policies(overrides, config)?;
        if let Some(personality) = overrides.personality {
            next.personality = Some(personality);
        }
        if let Some(ids) = &overrides.disabled_plugin_ids {
            next.disabled_plugin_ids = ids.clone();
        }
        if let Some(text) = &overrides.base_instructions {
            next.base_instructions = Some(text.clone());
        }
        if let Some(text) = &overrides.developer_instructions {
            next.developer_instructions = Some(text.clone());
        }
        *self = next;
        Ok(())
    }

    fn apply_model(&mut self, overrides: &Overrides, config: &Config) -> Result<()> {
        if let Some(id) = &overrides.model_provider {
            config.provider(id).map_err(RuntimeError::configuration)?;
            self.model_provider = id.clone();
        }
        if let Some(model) = &overrides.model {
            self.model = model.clone();
        }
        if let Some(effort) = &overrides.effort {
            check_effort(effort)?;
            self.effort = Some(effort.clone());
        }
        if let Some(summary) = overrides.summary {
            self.summary = Some(summary);
        }
        match &overrides.service_tier {
            Some(Some(tier)) if tier == "fast" => self.service_tier = Some("priority".to_owned()),
            Some(Some(tier)) => self.service_tier = Some(tier.clone()),
            // That is how a cleared tier is reported.
            Some(None) => self.service_tier = Some("default".to_owned()),
            None => {}
        }
        if let Some(mode) = &overrides.collaboration_mode {
            mode.settings.reasoning_effort.as_deref().map_or(Ok(()), check_effort)?;
            self.mode = mode.mode;
            self.model = mode.settings.model.clone();
            self.effort = mode.settings.reasoning_effort.clone();
            self.mode_instructions = mode
                .settings
                .developer_instructions
                .clone()
                .or_else(|| super::prompt::mode_instructions(mode.mode).map(str::to_owned));
        }
        Ok(())
    }

    fn apply_places(&mut self, overrides: &Overrides) -> Result<()> {
        if let Some(environments) = &overrides.environments {
            if let Some(unknown) = environments.iter().find(|id| *id != "local") {
                return Err(RuntimeError::invalid(format!("unknown turn environment id `{unknown}`")));
            }
            self.environments = Some(environments.clone());
        }
        if let Some(cwd) = &overrides.cwd {
            let followed = self.workspace_roots == [self.cwd.clone()];
            self.cwd = absolute(cwd);
            if followed {
                self.workspace_roots = vec![self.cwd.clone()];
            }
        }
        if let Some(roots) = &overrides.workspace_roots {
            self.workspace_roots.clear();
            for root in roots.iter().map(|root| absolute(root)) {
                if !self.workspace_roots.contains(&root) {
                    self.workspace_roots.push(root);
                }
            }
        }
        Ok(())
    }

    fn apply_policies(&mut self, overrides: &Overrides, config: &Config) -> Result<()> {
        if let Some(policy) = &overrides.approval_policy {
            self.approval_policy = policy.clone();
        }
        if let Some(reviewer) = overrides.approvals_reviewer {
            self.approvals_reviewer = reviewer;
        }
        if let Some(id) = &overrides.permissions {
            if overrides.sandbox_policy.is_some() {
                return Err(RuntimeError::invalid("`permissions` cannot be combined with `sandboxPolicy`"));
            }
            if overrides.sandbox_mode.is_some() {
                return Err(RuntimeError::invalid("`permissions` cannot be combined with `sandbox`"));
            }
            self.sandbox_policy = sandbox_policy(profile_mode(id)?, config);
            self.active_permission_profile = Some(ActivePermissionProfile { id: id.clone(), extends: None });
        }
        if let Some(mode) = overrides.sandbox_mode {
            self.sandbox_policy = sandbox_policy(mode, config);
            self.active_permission_profile = None;
        }
        if let Some(policy) = &overrides.sandbox_policy {
            self.sandbox_policy = policy.clone();
            self.active_permission_profile = None;
        }
        Ok(())
    }

    /// `collaborationMode` as clients see it.
    pub fn collaboration_mode(&self) -> CollaborationMode {
        CollaborationMode {
            mode: self.mode,
            settings: protocol::settings::Settings {
                model: self.model.clone(),
                reasoning_effort: self.effort.clone(),
                developer_instructions: self.mode_instructions.clone(),
            },
        }
    }

    /// `threadSettings` of `thread/settings/updated`.
    pub fn to_wire(&self) -> ThreadSettings {
        ThreadSettings {
            active_permission_profile: self.active_permission_profile.clone(),
            approval_policy: self.approval_policy.clone(),
            approvals_reviewer: self.approvals_reviewer,
            collaboration_mode: self.collaboration_mode(),
            cwd: self.cwd.clone().into(),
            disabled_plugin_ids: self.disabled_plugin_ids.clone(),
            effort: self.effort.clone(),
            environments: Some(self.environments_to_wire()),
            model: self.model.clone(),
            model_provider: self.model_provider.clone(),
            multi_agent_mode: MultiAgentMode::ExplicitRequestOnly,
            personality: self.personality,
            sandbox_policy: self.sandbox_policy.clone(),
            service_tier: self.service_tier.clone(),
            summary: self.summary,
        }
    }

    /// `thread.environments` of a loaded thread.
    pub fn environments_to_wire(&self) -> Vec<protocol::thread::ThreadEnvironment> {
        let ids = self.environments.clone().unwrap_or_else(|| vec!["local".to_owned()]);
        ids.into_iter()
            .map(|environment_id| protocol::thread::ThreadEnvironment {
                environment_id,
                cwd: self.cwd.clone(),
                runtime_workspace_roots: self.workspace_roots.clone(),
            })
            .collect()
    }

    /// The settings as stored.
    pub fn to_json(&self) -> String {
        // String keys and plain values only: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The settings of a stored thread: what its record holds, over the configuration's values for what it lacks
    /// (a thread imported from a rollout has only some).
    pub fn restore(stored: &str, config: &Config) -> Result<Settings> {
        let base = Settings::new(config, &Overrides::default())?;
        let mut value = serde_json::to_value(&base).unwrap_or_else(|_| json!({}));
        if let (Some(into), Ok(Value::Object(from))) = (value.as_object_mut(), serde_json::from_str(stored)) {
            if let (Some(cwd), false) = (from.get("cwd"), from.contains_key("workspace_roots")) {
                into.insert("workspace_roots".to_owned(), json!([cwd]));
            }
            for (key, member) in from {
                // A member of a shape that is not known any more is left at the configuration's value.
                let old = into.insert(key.clone(), member);
                if Settings::deserialize(&Value::Object(into.clone())).is_err()
                    && let Some(old) = old
                {
                    into.insert(key, old);
                }
            }
        }
        Ok(Settings::deserialize(&value).unwrap_or(base))
    }
}

/// Refuse an effort that is none.
///
/// # Errors
/// It is empty.
pub(super) fn check_effort(effort: &str) -> Result<()> {
    if effort.is_empty() {
        return Err(RuntimeError::invalid("Invalid request: reasoning_effort must not be empty"));
    }
    Ok(())
}

/// The policy that a short name stands for, with the configuration's details.
fn sandbox_policy(mode: SandboxMode, config: &Config) -> SandboxPolicy {
    let workspace = &config.sandbox_workspace_write;
    match mode {
        SandboxMode::ReadOnly => SandboxPolicy::ReadOnly { network_access: false },
        SandboxMode::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        SandboxMode::WorkspaceWrite => SandboxPolicy::WorkspaceWrite {
            writable_roots: workspace
                .writable_roots
                .iter()
                .map(|root| root.display().to_string().into())
                .collect(),
            network_access: workspace.network_access,
            exclude_tmpdir_env_var: workspace.exclude_tmpdir_env_var,
            exclude_slash_tmp: workspace.exclude_slash_tmp,
        },
    }
}

/// The sandbox of a built-in permission profile.
fn profile_mode(id: &str) -> Result<SandboxMode> {
    match id {
        ":read-only" => Ok(SandboxMode::ReadOnly),
        ":workspace" => Ok(SandboxMode::WorkspaceWrite),
        ":danger-full-access" => Ok(SandboxMode::DangerFullAccess),
        _ if id.starts_with(':') => Err(RuntimeError::configuration(format!(
            "default_permissions refers to unknown built-in profile `{id}`"
        ))),
        _ => Err(RuntimeError::configuration("default_permissions requires a `[permissions]` table")),
    }
}

/// Where relative paths start: the server's own directory.
pub fn server_directory() -> String {
    std::env::current_dir().map_or_else(|_| "/".to_owned(), |dir| dir.display().to_string())
}

/// A path made absolute and free of `.` and `..` parts, without asking the file system: it need not exist.
pub fn absolute(path: &str) -> String {
    let joined = Path::new(&server_directory()).join(path);
    let mut out = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out.display().to_string()
}
