//! `thread/start` and `thread/resume`: making and loading threads (`protocol/threads.md`, sections 3 and 4).

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::account::Initialization;
use super::client::Request;
use super::error::{Result, RuntimeError};
use super::notify::Notify;
use super::reading::ItemsView;
use super::recorder::Recorder;
use super::redact;
use super::settings::{Overrides, Settings};
use super::thread::{self, Command, Live, ThreadHandle, ThreadSeed, Unload, WhatWaits};
use super::{Runtime, parse_id, view};
use crate::config::instructions::{self, Instructions};
use crate::config::keys::RolloutForm;
use crate::config::{Config, ConfigError};
use crate::history::preview;
use crate::protocol::settings::MultiAgentMode;
use crate::protocol::thread::{
    SortDirection, Thread, ThreadResumeParams, ThreadResumeResponse, ThreadStartParams, ThreadStartResponse,
    ThreadStatus,
};
use crate::protocol::turn::TurnsPage;
use crate::rollout::name;
use crate::store::rows::{ThreadPatch, ThreadRow};

/// Clients that get payloads without what tools were given and gave.
const MOBILE_CLIENTS: &[&str] = &["codex_chatgpt_android_remote", "codex_chatgpt_ios_remote"];

/// Overrides that a request to load a thread can have.
macro_rules! overrides_of {
    ($params:expr) => {
        Overrides {
            model: $params.model.clone(),
            model_provider: $params.model_provider.clone(),
            service_tier: $params.service_tier.clone(),
            approval_policy: $params.approval_policy.clone(),
            approvals_reviewer: $params.approvals_reviewer,
            sandbox_mode: $params.sandbox,
            permissions: $params.permissions.clone(),
            cwd: $params.cwd.clone(),
            workspace_roots: $params
                .runtime_workspace_roots
                .as_ref()
                .map(|roots| roots.iter().map(|root| root.0.clone()).collect()),
            base_instructions: $params.base_instructions.clone(),
            developer_instructions: $params.developer_instructions.clone(),
            ..Overrides::default()
        }
    };
}
pub(super) use overrides_of;

/// Whether a thread that is loaded is in the database.
#[derive(Debug)]
pub(super) enum Stored {
    /// It is ephemeral.
    Never,
    /// It will be, with its first message.
    NotYet,
    /// It is, with what waits for it.
    Yes(WhatWaits),
}

impl Stored {
    /// Of a new thread.
    pub(super) fn new(ephemeral: bool) -> Stored {
        if ephemeral { Stored::Never } else { Stored::NotYet }
    }
}

impl Runtime {
    /// `thread/start`.
    ///
    /// # Errors
    /// Settings that cannot be; the texts are those of the page.
    pub async fn start_thread(
        self: &Arc<Self>,
        params: ThreadStartParams,
        request: &Arc<dyn Request>,
    ) -> Result<ThreadStartResponse> {
        if params.sandbox.is_some() && params.permissions.is_some() {
            return Err(RuntimeError::invalid("`permissions` cannot be combined with `sandbox`"));
        }
        let overrides = Overrides {
            personality: params.personality,
            environments: params
                .environments
                .as_ref()
                .map(|list| list.iter().map(|environment| environment.environment_id.clone()).collect()),
            ..overrides_of!(params)
        };
        let ephemeral = params.ephemeral.unwrap_or(false);
        if ephemeral && params.daybreak_enabled.is_some() {
            return Err(RuntimeError::invalid("daybreakEnabled is not supported for ephemeral threads"));
        }
        self.account.check_managed_config().await?;
        let config = self.thread_config(params.cwd.as_deref(), params.config.as_ref())?;
        let mut settings = Settings::new(&config, &overrides)?;
        settings.dynamic_tools = params.dynamic_tools.clone().unwrap_or_default();
        config.provider(&settings.model_provider).map_err(RuntimeError::configuration)?;
        let mut row = self.new_row(&settings, &config, request);
        row.thread_source = params.thread_source.as_ref().map(|source| source.to_string());
        if let Some(mode) = params.history_mode {
            row.history_mode = mode_word(mode).to_owned();
        }
        let recorder = Recorder::new(
            self.store.clone(),
            self.clock.clone(),
            self.mirror.clone(),
            row.clone(),
            ephemeral,
        );
        let handle = self.load(row, settings, config, recorder, Stored::new(ephemeral));
        let thread_id = handle.with_live(|live| live.row.thread_id.clone());
        self.require_servers(&thread_id, "creating").await?;
        let live = handle.ask_subscribe(request.clone()).await?;
        self.account.thread_initialized(&live, Initialization::New, &**request, self.clock.now_ms());
        let mut announced = live.to_wire();
        announced.turns = Vec::new();
        self.clients
            .broadcast(&Notify::new(self.clock.clone(), &live.row.thread_id).thread_started(announced));
        Ok(started_response(&live))
    }

    /// `thread/resume`.
    ///
    /// # Errors
    /// There is nothing to resume, or not like this; the texts are those of the page.
    pub async fn resume_thread(
        self: &Arc<Self>,
        params: ThreadResumeParams,
        request: &Arc<dyn Request>,
    ) -> Result<ThreadResumeResponse> {
        let path = params.path.as_deref().filter(|path| !path.is_empty());
        let by_id = path.is_none() && params.history.is_none();
        if let Some(handle) = self.find_loaded(&params, path)? {
            return self.rejoin(&params, handle, request).await;
        }
        if let Some(history) = &params.history {
            return self.resume_from_history(&params, history, request).await;
        }
        let row = match path {
            Some(path) => self.row_of_path(path).await?,
            None => self.row_of_id(&params.thread_id).await?,
        };
        if by_id {
            refuse_archived(&row)?;
        }
        if let Some(handle) = self.loaded(&row.thread_id) {
            return self.rejoin(&params, handle, request).await;
        }
        self.account.check_managed_config().await?;
        let handle = self.load_stored(row, &overrides_of_resume(&params), params.config.as_ref()).await?;
        let notify = Notify::new(self.clock.clone(), &handle.with_live(|live| live.row.thread_id.clone()));
        self.clients.broadcast(&notify.status_changed(ThreadStatus::Idle));
        self.resumed(&params, &handle, request, true).await
    }

    /// The loaded thread that a resume names, if it does.
    fn find_loaded(&self, params: &ThreadResumeParams, path: Option<&str>) -> Result<Option<ThreadHandle>> {
        let Ok(thread_id) = parse_id("session", &params.thread_id) else {
            return if path.is_some() || params.history.is_some() {
                Ok(None)
            } else {
                parse_id("session", &params.thread_id).map(|_| None)
            };
        };
        let Some(handle) = self.loaded(&thread_id) else { return Ok(None) };
        let (materialized, own_path) =
            handle.with_live(|live| (live.materialized, live.row.rollout_path.clone()));
        if !materialized && path.is_none() {
            return if params.history.is_some() {
                Ok(None)
            } else {
                Err(RuntimeError::no_rollout(&thread_id))
            };
        }
        if params.history.is_some() {
            return Err(RuntimeError::invalid(format!(
                "cannot resume thread {thread_id} with history while it is already running"
            )));
        }
        if let Some(path) = path {
            let own = own_path.unwrap_or_default();
            if same_file(&self.in_home(path), &own) {
                return Ok(Some(handle));
            }
            return Err(RuntimeError::invalid(format!(
                "cannot resume running thread {thread_id} with stale path: requested `{path}`, active `{own}`"
            )));
        }
        Ok(Some(handle))
    }

    /// Resume a thread that is loaded: its own settings hold, unless nobody is subscribed.
    async fn rejoin(
        self: &Arc<Self>,
        params: &ThreadResumeParams,
        handle: ThreadHandle,
        request: &Arc<dyn Request>,
    ) -> Result<ThreadResumeResponse> {
        let (unused, thread_id) = handle.with_live(|live| {
            (live.subscribers == 0 && live.running_turn.is_none(), live.row.thread_id.clone())
        });
        if unused && has_overrides(params) {
            handle.ask(|reply| Command::Unload(Unload::Announced, reply)).await?;
            let row = self.row_of_id(&thread_id).await?;
            let handle = self.load_stored(row, &overrides_of_resume(params), params.config.as_ref()).await?;
            let notify = Notify::new(self.clock.clone(), &thread_id);
            self.clients.broadcast(&notify.status_changed(ThreadStatus::Idle));
            return self.resumed(params, &handle, request, true).await;
        }
        self.resumed(params, &handle, request, false).await
    }

    /// Subscribe and build the reply; replays follow it.
    async fn resumed(
        self: &Arc<Self>,
        params: &ThreadResumeParams,
        handle: &ThreadHandle,
        request: &Arc<dyn Request>,
        cold: bool,
    ) -> Result<ThreadResumeResponse> {
        let live = handle.ask_subscribe(request.clone()).await?;
        if cold {
            self.account.thread_initialized(&live, Initialization::Resumed, &**request, self.clock.now_ms());
        }
        let thread_id = live.row.thread_id.clone();
        let mut thread = self.thread_to_wire(&live).await?;
        if !params.exclude_turns {
            thread.turns = self.all_turns(&thread_id, &live.started_items).await?;
        }
        let mut page = match &params.initial_turns_page {
            Some(page) => {
                let view = page.items_view.map_or(ItemsView::Summary, ItemsView::from);
                let descending = page.sort_direction.is_none_or(|direction| direction == SortDirection::Desc);
                let (data, next_cursor, backwards_cursor) =
                    self.turns_page(&thread_id, None, page.limit, descending, view).await?;
                Some(TurnsPage { data, next_cursor, backwards_cursor })
            }
            None => None,
        };
        if MOBILE_CLIENTS.contains(&request.client_name().as_str()) {
            redact::turns(&mut thread.turns);
            if let Some(page) = &mut page {
                redact::turns(&mut page.data);
            }
        }
        if cold || !params.exclude_turns {
            self.replay_usage(&thread_id, request).await?;
        }
        handle.resumed(request.client());
        let (turns_cursor, items_cursor) = self.newest_cursors(&thread_id).await?;
        let started = started_response(&live);
        Ok(ThreadResumeResponse {
            active_permission_profile: started.active_permission_profile,
            approval_policy: started.approval_policy,
            approvals_reviewer: started.approvals_reviewer,
            collaboration_mode: Some(live.settings.collaboration_mode()),
            cwd: started.cwd,
            disabled_plugin_ids: started.disabled_plugin_ids,
            initial_turns_page: page,
            instruction_sources: started.instruction_sources,
            items_backwards_cursor: items_cursor,
            model: started.model,
            model_provider: started.model_provider,
            multi_agent_mode: started.multi_agent_mode,
            reasoning_effort: started.reasoning_effort,
            runtime_workspace_roots: started.runtime_workspace_roots,
            sandbox: started.sandbox,
            service_tier: started.service_tier,
            thread,
            turns_backwards_cursor: turns_cursor,
        })
    }

    /// Tell the resuming client the tokens so far.
    async fn replay_usage(&self, thread_id: &str, request: &Arc<dyn Request>) -> Result<()> {
        if let Some(usage) = self.store.last_usage(thread_id).await? {
            let tokens = view::token_usage(usage.total, usage.last, usage.model_context_window);
            let event = Notify::new(self.clock.clone(), thread_id).token_usage(&usage.turn_id, tokens);
            request.client().send(&event);
        }
        Ok(())
    }

    /// A new conversation from model items.
    async fn resume_from_history(
        self: &Arc<Self>,
        params: &ThreadResumeParams,
        history: &[Value],
        request: &Arc<dyn Request>,
    ) -> Result<ThreadResumeResponse> {
        if history.is_empty() {
            return Err(RuntimeError::invalid("history must not be empty"));
        }
        let config = self.thread_config(params.cwd.as_deref(), params.config.as_ref())?;
        let settings = Settings::new(&config, &overrides_of_resume(params))?;
        config.provider(&settings.model_provider).map_err(RuntimeError::configuration)?;
        let mut row = self.new_row(&settings, &config, request);
        row.preview =
            history.iter().find_map(user_text).map(|text| preview::of_text(&text)).unwrap_or_default();
        let mut recorder =
            Recorder::new(self.store.clone(), self.clock.clone(), self.mirror.clone(), row.clone(), false);
        recorder.inject(history).await?;
        recorder.patch(ThreadPatch::default()).await?;
        let handle =
            self.load(recorder.row().clone(), settings, config, recorder, Stored::Yes(WhatWaits::default()));
        self.resumed(params, &handle, request, true).await
    }

    // Loading -----------------------------------------------------------------------------------------------------

    /// Load a stored thread.
    pub(super) async fn load_stored(
        self: &Arc<Self>,
        row: ThreadRow,
        overrides: &Overrides,
        request_config: Option<&Map<String, Value>>,
    ) -> Result<ThreadHandle> {
        let cwd = overrides.cwd.clone().unwrap_or_else(|| row.cwd.clone());
        let config = self.thread_config(Some(&cwd), request_config)?;
        let mut settings = Settings::restore(&stored_settings(&row), &config)?;
        if overrides.model.is_some() {
            settings.effort = None;
        }
        settings.apply(overrides, &config)?;
        if config.provider(&settings.model_provider).is_err() {
            let provider = &settings.model_provider;
            return Err(RuntimeError::InvalidWith {
                message: format!(
                    "This chat uses model provider “{provider}”, which is no longer configured. Add it to config.toml, \
                     or resume the thread with another `modelProvider`."
                ),
                data: serde_json::json!({"type": "modelProviderNotConfigured", "modelProvider": provider}),
            });
        }
        if !self.store.turn_is_held(&row.thread_id).await? {
            self.store.interrupt_cut_turns(Some(&row.thread_id)).await?;
        }
        if let Err(error) = crate::import::mirror::repair(&self.store, &row).await {
            tracing::error!(%error, "the rollout file could not be caught up");
        }
        let usage =
            self.store.last_usage(&row.thread_id).await?.map_or(row.inherited_usage, |usage| usage.total);
        let recorder =
            Recorder::stored(self.store.clone(), self.clock.clone(), self.mirror.clone(), row.clone(), usage);
        let thread_id = row.thread_id.clone();
        let (has_queue, was_interrupted) = self.store.queue_at_rest(&thread_id).await?;
        let waiting = WhatWaits { goal: self.store.goal(&thread_id).await?, has_queue, was_interrupted };
        let handle = self.load(row, settings, config, recorder, Stored::Yes(waiting));
        self.require_servers(&thread_id, "resuming").await?;
        Ok(handle)
    }

    /// Start the actor of a thread and keep it.
    pub(super) fn load(
        self: &Arc<Self>,
        row: ThreadRow,
        settings: Settings,
        config: Config,
        recorder: Recorder,
        stored: Stored,
    ) -> ThreadHandle {
        let ephemeral = matches!(stored, Stored::Never);
        let materialized = matches!(stored, Stored::Yes(_));
        let waiting = match stored {
            Stored::Yes(waiting) => waiting,
            Stored::Never | Stored::NotYet => WhatWaits::default(),
        };
        let Instructions { sources, text } =
            instructions::discover(&config, self.config.home(), Path::new(&settings.cwd));
        let thread_id = row.thread_id.clone();
        let live = Live {
            status: ThreadStatus::Idle,
            settings,
            has_turns: materialized,
            row,
            ephemeral,
            materialized,
            instruction_sources: sources.iter().map(|path| path.display().to_string()).collect(),
            running_turn: None,
            started_items: Vec::new(),
            subscribers: 0,
        };
        let seed = ThreadSeed { live, recorder, config: Arc::new(config), instructions: text, waiting };
        let handle = thread::spawn(self.clone(), seed);
        self.keep(&thread_id, handle.clone());
        handle
    }

    pub(super) fn thread_config(
        &self,
        cwd: Option<&str>,
        request: Option<&Map<String, Value>>,
    ) -> Result<Config> {
        let cwd = cwd.map_or_else(super::settings::server_directory, super::settings::absolute);
        self.config
            .for_thread(Path::new(&cwd), request)
            .map_err(|error: ConfigError| RuntimeError::configuration(error))
    }

    /// The row of a thread that is made now.
    pub(super) fn new_row(
        &self,
        settings: &Settings,
        config: &Config,
        request: &Arc<dyn Request>,
    ) -> ThreadRow {
        let thread_id = self.clock.new_id().to_string();
        let now_ms = self.clock.now_ms();
        let path = name::new_path(self.config.home().path(), &thread_id, self.clock.now());
        self.set_originator(&request.client_name());
        ThreadRow {
            session_id: thread_id.clone(),
            thread_id,
            source_json: "\"vscode\"".to_owned(),
            source_kind: "vscode".to_owned(),
            originator: Some(self.originator()),
            cli_version: crate::PROTOCOL_VERSION.to_owned(),
            model_provider: settings.model_provider.clone(),
            model: Some(settings.model.clone()),
            reasoning_effort: settings.effort.clone(),
            cwd: settings.cwd.clone(),
            settings_json: settings.to_json(),
            history_mode: match config.rollout_form {
                RolloutForm::Paginated => "paginated".to_owned(),
                RolloutForm::Legacy => "legacy".to_owned(),
            },
            created_at_ms: now_ms,
            updated_at_ms: now_ms,
            recency_at_ms: now_ms,
            rollout_path: Some(path.display().to_string()),
            model_context_window: Some(crate::model::catalog::reported_window(
                &settings.model,
                config.model_context_window,
            )),
            ..ThreadRow::default()
        }
    }

    // Finding -----------------------------------------------------------------------------------------------------

    /// The row of a thread by its id, for methods that say `session`.
    pub(super) async fn row_of_id(&self, thread_id: &str) -> Result<ThreadRow> {
        let thread_id = parse_id("session", thread_id)?;
        self.find_row(&thread_id).await?.ok_or_else(|| RuntimeError::no_rollout(&thread_id))
    }

    /// The row of a thread, its files taken in first.
    pub(super) async fn find_row(&self, thread_id: &str) -> Result<Option<ThreadRow>> {
        let mut row = self.store.thread(thread_id).await?;
        if row.is_none() {
            self.importer.indexed().await;
            row = self.store.thread(thread_id).await?;
        }
        match row {
            Some(row) => Ok(Some(self.importer.fresh(row).await?)),
            None => Ok(None),
        }
    }

    /// The row of the thread in a file.
    pub(super) async fn row_of_path(&self, path: &str) -> Result<ThreadRow> {
        let full = self.in_home(path);
        if !Path::new(&full).exists() {
            return Err(RuntimeError::invalid(format!(
                "failed to resolve rollout path `{path}`: file does not exist"
            )));
        }
        let thread_id =
            self.importer.bring_in_file(Path::new(&full)).await.map_err(|error| {
                RuntimeError::invalid(format!("failed to read rollout `{path}`: {error}"))
            })?;
        let row = self.store.thread(&thread_id).await?;
        row.ok_or_else(|| RuntimeError::no_rollout(&thread_id))
    }

    fn in_home(&self, path: &str) -> String {
        self.config.home().path().join(path).display().to_string()
    }

    /// A loaded thread as clients see it, its stored row fresh.
    pub(super) async fn thread_to_wire(&self, live: &Live) -> Result<Thread> {
        if !live.materialized {
            return Ok(live.to_wire());
        }
        let row = self.store.thread(&live.row.thread_id).await?;
        let mut thread = view::thread(row.as_ref().unwrap_or(&live.row), live.status.clone());
        live.decorate(&mut thread);
        Ok(thread)
    }
}

/// What `thread/start`, `thread/fork` and (with more) `thread/resume` answer.
pub(super) fn started_response(live: &Live) -> ThreadStartResponse {
    let settings = &live.settings;
    ThreadStartResponse {
        active_permission_profile: settings.active_permission_profile.clone(),
        approval_policy: settings.approval_policy.clone(),
        approvals_reviewer: settings.approvals_reviewer,
        cwd: settings.cwd.clone().into(),
        disabled_plugin_ids: settings.disabled_plugin_ids.clone(),
        instruction_sources: live.instruction_sources.clone(),
        model: settings.model.clone(),
        model_provider: settings.model_provider.clone(),
        multi_agent_mode: MultiAgentMode::ExplicitRequestOnly,
        reasoning_effort: settings.effort.clone(),
        runtime_workspace_roots: settings.workspace_roots.iter().cloned().map(Into::into).collect(),
        sandbox: settings.sandbox_policy.clone(),
        service_tier: settings.service_tier.clone(),
        thread: live.to_wire(),
    }
}

fn overrides_of_resume(params: &ThreadResumeParams) -> Overrides {
    Overrides { personality: params.personality, ..overrides_of!(params) }
}

fn has_overrides(params: &ThreadResumeParams) -> bool {
    params.model.is_some()
        || params.model_provider.is_some()
        || params.cwd.is_some()
        || params.approval_policy.is_some()
        || params.approvals_reviewer.is_some()
        || params.sandbox.is_some()
        || params.permissions.is_some()
        || params.service_tier.is_some()
        || params.runtime_workspace_roots.is_some()
        || params.base_instructions.is_some()
        || params.developer_instructions.is_some()
        || params.config.as_ref().is_some_and(|config| !config.is_empty())
}

/// The stored settings, with what older rows have only in their columns.
fn stored_settings(row: &ThreadRow) -> String {
    let mut settings: Value = serde_json::from_str(&row.settings_json).unwrap_or_default();
    if !settings.is_object() {
        settings = Value::Object(Map::new());
    }
    settings["model_provider"] = row.model_provider.clone().into();
    if let Some(model) = &row.model {
        settings["model"] = model.clone().into();
    }
    settings["effort"] = row.reasoning_effort.clone().into();
    settings["cwd"] = row.cwd.clone().into();
    settings.to_string()
}

/// A thread that is archived is loaded or forked by its path only.
pub(super) fn refuse_archived(row: &ThreadRow) -> Result<()> {
    if row.archived_at_ms.is_none() {
        return Ok(());
    }
    let id = &row.thread_id;
    Err(RuntimeError::invalid(format!(
        "session {id} is archived. Run `codex unarchive {id}` to unarchive it first."
    )))
}

pub(super) fn mode_word(mode: crate::protocol::thread::ThreadHistoryMode) -> &'static str {
    match mode {
        crate::protocol::thread::ThreadHistoryMode::Legacy => "legacy",
        crate::protocol::thread::ThreadHistoryMode::Paginated => "paginated",
    }
}

fn user_text(item: &Value) -> Option<String> {
    if item["role"] != "user" {
        return None;
    }
    let texts: Vec<&str> =
        item["content"].as_array()?.iter().filter_map(|part| part["text"].as_str()).collect();
    Some(texts.join("\n")).filter(|text| !preview::is_injected(text))
}

fn same_file(a: &str, b: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    real(a) == real(b)
}
