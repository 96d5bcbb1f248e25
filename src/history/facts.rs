//! A thread's metadata, gathered from its lines.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rollout::line::{SessionMeta, Tokens};

/// What the lines tell of the thread as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of protocol/rollout.md, section 3")]
pub struct Facts {
    pub thread_id: Option<String>,
    pub session_id: Option<String>,
    /// RFC 3339.
    pub created_at: Option<String>,
    /// The largest line time, RFC 3339.
    pub updated_at: Option<String>,
    pub cwd: Option<String>,
    pub originator: Option<String>,
    pub cli_version: Option<String>,
    pub source: Option<Value>,
    pub thread_source: Option<String>,
    pub model_provider: Option<String>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub forked_from_id: Option<String>,
    pub parent_thread_id: Option<String>,
    pub history_mode: Option<String>,
    pub agent_nickname: Option<String>,
    pub agent_role: Option<String>,
    pub memory_mode: Option<String>,
    pub git_sha: Option<String>,
    pub git_branch: Option<String>,
    pub git_origin_url: Option<String>,
    /// The rollout that this file continues, its end as ordinal and as byte.
    pub history_base: Option<(String, Option<u64>, Option<u64>)>,
    pub preview: String,
    /// Settings members in the words of the runtime's stored settings.
    pub settings: serde_json::Map<String, Value>,
    pub model_context_window: Option<i64>,
    /// Totals of the last token count.
    pub final_tokens: Option<Tokens>,
    /// Totals inherited from a parent, when lines were copied from it.
    pub inherited_tokens: Tokens,
    /// Sum over the responses that the lines tell of.
    pub own_tokens: Tokens,
    pub next_ordinal: u64,
}

impl Facts {
    /// What the last token count has beyond the responses that the lines tell of: a parent's tokens, or those of
    /// responses whose lines are gone. A counter that began again at nothing leaves nothing of it.
    pub fn tokens_before(&self) -> Tokens {
        let last = self.final_tokens.unwrap_or_default();
        let own = self.own_tokens;
        let beyond = |last: i64, own: i64| last.saturating_sub(own).max(0);
        Tokens {
            input_tokens: beyond(last.input_tokens, own.input_tokens),
            cached_input_tokens: beyond(last.cached_input_tokens, own.cached_input_tokens),
            cache_write_input_tokens: beyond(last.cache_write_input_tokens, own.cache_write_input_tokens),
            output_tokens: beyond(last.output_tokens, own.output_tokens),
            reasoning_output_tokens: beyond(last.reasoning_output_tokens, own.reasoning_output_tokens),
            total_tokens: beyond(last.total_tokens, own.total_tokens),
        }
    }

    /// Count a response.
    pub(super) fn add_tokens(&mut self, tokens: Tokens) {
        let own = &mut self.own_tokens;
        let add = |into: &mut i64, more: i64| *into = into.saturating_add(more);
        add(&mut own.input_tokens, tokens.input_tokens);
        add(&mut own.cached_input_tokens, tokens.cached_input_tokens);
        add(&mut own.cache_write_input_tokens, tokens.cache_write_input_tokens);
        add(&mut own.output_tokens, tokens.output_tokens);
        add(&mut own.reasoning_output_tokens, tokens.reasoning_output_tokens);
        add(&mut own.total_tokens, tokens.total_tokens);
    }

    /// Take over metadata: the first of a file, or a later one of the same thread.
    pub(super) fn meta(&mut self, meta: &SessionMeta, first: bool) {
        let take = |into: &mut Option<String>, from: &Option<String>| {
            if from.is_some() {
                into.clone_from(from);
            }
        };
        if first {
            self.thread_id.clone_from(&meta.id);
            self.created_at.clone_from(&meta.timestamp);
            self.history_mode.clone_from(&meta.history_mode);
            self.forked_from_id.clone_from(&meta.forked_from_id);
            self.history_base = meta
                .history_base
                .as_ref()
                .map(|base| (base.thread_id.clone(), base.end_ordinal_exclusive, base.end_byte_offset));
        }
        take(&mut self.session_id, &meta.session_id);
        take(&mut self.cwd, &meta.cwd);
        take(&mut self.originator, &meta.originator);
        take(&mut self.cli_version, &meta.cli_version);
        take(&mut self.thread_source, &meta.thread_source);
        take(&mut self.model_provider, &meta.model_provider);
        take(&mut self.agent_nickname, &meta.agent_nickname);
        take(&mut self.agent_role, &meta.agent_role);
        take(&mut self.memory_mode, &meta.memory_mode);
        if let Some(source) = &meta.source {
            self.source = Some(source.clone());
        }
        let spawn = meta.source.as_ref().and_then(|source| source.pointer("/subagent/thread_spawn"));
        let spawned =
            |key: &str| spawn.and_then(|spawn| spawn.get(key)).and_then(Value::as_str).map(str::to_owned);
        take(
            &mut self.parent_thread_id,
            &meta.parent_thread_id.clone().or_else(|| spawned("parent_thread_id")),
        );
        take(&mut self.agent_nickname, &spawned("agent_nickname"));
        take(&mut self.agent_role, &spawned("agent_role"));
        if let Some(git) = &meta.git {
            take(&mut self.git_sha, &git.commit_hash);
            take(&mut self.git_branch, &git.branch);
            take(&mut self.git_origin_url, &git.repository_url);
        }
    }

    /// Take over the settings of a turn.
    pub(super) fn turn_context(&mut self, context: &Value) {
        self.settings_of(context, "effort", "model_provider");
        for (key, name) in [("summary", "summary"), ("personality", "personality")] {
            if let Some(value) = context.get(key).filter(|value| value.is_string() && *value != "none") {
                self.settings.insert(name.to_owned(), value.clone());
            }
        }
        if let Some(policy) = context.get("sandbox_policy").and_then(sandbox_to_wire) {
            self.settings.insert("sandbox_policy".to_owned(), policy);
        }
    }

    /// Take over settings that were applied.
    pub(super) fn settings_applied(&mut self, settings: &Value) {
        self.settings_of(settings, "reasoning_effort", "model_provider_id");
        if let Some(tier) = settings.get("service_tier") {
            self.settings.insert("service_tier".to_owned(), tier.clone());
        }
        if let Some(roots) = settings.get("runtime_workspace_roots").filter(|roots| roots.is_array()) {
            self.settings.insert("workspace_roots".to_owned(), roots.clone());
        }
        if let Some(policy) = settings.get("sandbox_policy").and_then(sandbox_to_wire) {
            self.settings.insert("sandbox_policy".to_owned(), policy);
        }
    }

    fn settings_of(&mut self, from: &Value, effort_key: &str, provider_key: &str) {
        let text = |key: &str| from.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(model) = text("model") {
            self.settings.insert("model".to_owned(), json!(model));
            self.model = Some(model);
            self.effort = text(effort_key);
            self.settings.insert("effort".to_owned(), json!(self.effort));
        }
        if let Some(provider) = text(provider_key) {
            self.settings.insert("model_provider".to_owned(), json!(provider));
            self.model_provider = Some(provider);
        }
        if let Some(cwd) = text("cwd") {
            self.settings.insert("cwd".to_owned(), json!(cwd));
            if self.cwd.is_none() {
                self.cwd = Some(cwd);
            }
        }
        for key in ["approval_policy", "approvals_reviewer"] {
            if let Some(value) = from.get(key) {
                self.settings.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(mode) = from.get("collaboration_mode").and_then(|mode| mode.get("mode")) {
            self.settings.insert("mode".to_owned(), mode.clone());
            let text = from.pointer("/collaboration_mode/settings/developer_instructions").cloned();
            self.settings.insert("mode_instructions".to_owned(), text.unwrap_or(Value::Null));
        }
    }
}

/// A sandbox policy of a line (tagged `type`, or `mode` in 2025) → as the wire has it.
fn sandbox_to_wire(policy: &Value) -> Option<Value> {
    let kind = policy.get("type").or_else(|| policy.get("mode"))?.as_str()?;
    let flag = |key: &str| policy.get(key).and_then(Value::as_bool).unwrap_or(false);
    Some(match kind {
        "read-only" => json!({"type": "readOnly", "networkAccess": flag("network_access")}),
        "danger-full-access" => json!({"type": "dangerFullAccess"}),
        "workspace-write" => json!({
            "type": "workspaceWrite", "writableRoots": policy.get("writable_roots").cloned().unwrap_or_else(|| json!([])),
            "networkAccess": flag("network_access"), "excludeTmpdirEnvVar": flag("exclude_tmpdir_env_var"),
            "excludeSlashTmp": flag("exclude_slash_tmp"),
        }),
        _ => return None,
    })
}

/// `SessionSource` as the wire has it, and the kind that lists filter by.
pub fn source_to_wire(source: Option<&Value>) -> (Value, String) {
    match source {
        None | Some(Value::Null) => (json!("vscode"), "vscode".to_owned()),
        Some(Value::String(word)) => {
            let word = match word.as_str() {
                "cli" | "vscode" | "exec" => word.as_str(),
                "mcp" | "appServer" | "app_server" => "appServer",
                _ => "unknown",
            };
            (json!(word), word.to_owned())
        }
        Some(Value::Object(object)) => {
            if let Some(custom) = object.get("custom") {
                return (json!({"custom": custom}), "unknown".to_owned());
            }
            match object.get("subagent").or_else(|| object.get("subAgent")) {
                Some(Value::String(word)) => {
                    let kind = match word.as_str() {
                        "review" => "subAgentReview",
                        "compact" => "subAgentCompact",
                        _ => "subAgentOther",
                    };
                    (json!({"subAgent": word}), kind.to_owned())
                }
                Some(other) if other.get("thread_spawn").is_some() => {
                    let mut spawn = other["thread_spawn"].clone();
                    if let Some(spawn) = spawn.as_object_mut() {
                        for key in ["agent_path", "agent_nickname", "agent_role"] {
                            spawn.entry(key).or_insert(Value::Null);
                        }
                    }
                    (json!({"subAgent": {"thread_spawn": spawn}}), "subAgentThreadSpawn".to_owned())
                }
                Some(other) => (json!({"subAgent": other}), "subAgentOther".to_owned()),
                None => (json!("unknown"), "unknown".to_owned()),
            }
        }
        Some(_) => (json!("unknown"), "unknown".to_owned()),
    }
}
