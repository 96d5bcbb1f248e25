//! What happens to a thread as a whole: names, metadata, archiving, deleting, subscriptions
//! (`protocol/threads.md`, sections 9 and 10); and what is asked of a loaded one (`protocol/turns.md`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::client::Request;
use super::error::{Result, RuntimeError};
use super::input::UserMessage;
use super::notify::Notify;
use super::reading::handle_of;
use super::settings::Overrides;
use super::thread::{Command, Submission, Unload};
use super::turn::{TurnKind, TurnOptions};
use super::{Runtime, parse_id, view};
use crate::protocol::review::{ReviewStartParams, ReviewStartResponse};
use crate::protocol::settings::{
    ThreadSettingsUpdateParams, TurnSettingsUpdateParams, TurnSettingsUpdateStatus,
};
use crate::protocol::thread::{
    Thread, ThreadCompactStartParams, ThreadInjectItemsParams, ThreadMetadataUpdateParams,
    ThreadSetNameParams, ThreadStatus, ThreadUnsubscribeStatus,
};
use crate::protocol::turn::{Turn, TurnInterruptParams, TurnStartParams, TurnSteerParams};
use crate::rollout::name;
use crate::store::rows::{ThreadPatch, ThreadRow};

impl Runtime {
    // Names and metadata ------------------------------------------------------------------------------------------

    /// `thread/name/set`.
    ///
    /// # Errors
    /// The name is empty, or there is no such active thread.
    pub async fn set_name(&self, params: ThreadSetNameParams, request: &Arc<dyn Request>) -> Result<()> {
        let thread_id = parse_id("thread", &params.thread_id)?;
        let name = params.name.trim().to_owned();
        if name.is_empty() {
            return Err(RuntimeError::invalid("thread name must not be empty"));
        }
        let patch = ThreadPatch {
            name: Some(Some(name.clone())),
            updated_at_ms: Some(self.clock.now_ms()),
            ..ThreadPatch::default()
        };
        self.patch_metadata(&thread_id, patch).await?;
        self.append_name(&thread_id, &name);
        request.reserve_reply();
        self.clients.broadcast(&Notify::new(self.clock.clone(), &thread_id).name_updated(Some(name)));
        Ok(())
    }

    /// The index of names that other programs on the same home read.
    fn append_name(&self, thread_id: &str, name: &str) {
        let path = self.config.home().path().join("session_index.jsonl");
        let line = serde_json::json!({
            "id": thread_id, "thread_name": name, "updated_at": crate::rollout::write::rfc3339(self.clock.now_ms()),
        });
        let written = fs::OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| {
            use std::io::Write;
            file.write_all(format!("{line}\n").as_bytes())
        });
        if let Err(error) = written {
            tracing::warn!(%error, path = %path.display(), "the name could not be added to the index of names");
        }
    }

    /// `thread/metadata/update`.
    ///
    /// # Errors
    /// Nothing to change, or there is no such active thread.
    pub async fn update_metadata(&self, params: ThreadMetadataUpdateParams) -> Result<Thread> {
        let thread_id = parse_id("thread", &params.thread_id)?;
        let Some(git) = params.git_info else {
            return Err(RuntimeError::invalid("thread metadata update must include at least one field"));
        };
        if git.branch.is_none() && git.sha.is_none() && git.origin_url.is_none() {
            return Err(RuntimeError::invalid("gitInfo must include at least one field"));
        }
        for (name, value) in [("branch", &git.branch), ("sha", &git.sha), ("originUrl", &git.origin_url)] {
            if let Some(Some(text)) = value
                && text.trim().is_empty()
            {
                return Err(RuntimeError::invalid(format!("gitInfo.{name} must not be empty")));
            }
        }
        let patch = ThreadPatch {
            git_sha: git.sha,
            git_branch: git.branch,
            git_origin_url: git.origin_url,
            updated_at_ms: Some(self.clock.now_ms()),
            ..ThreadPatch::default()
        };
        let row = self.patch_metadata(&thread_id, patch).await?;
        let mut thread = view::thread(&row, ThreadStatus::NotLoaded);
        if let Some(handle) = self.loaded(&thread_id) {
            handle.with_live(|live| live.decorate(&mut thread));
        }
        Ok(thread)
    }

    /// Change a thread's row, through its actor when it is loaded.
    async fn patch_metadata(&self, thread_id: &str, patch: ThreadPatch) -> Result<ThreadRow> {
        if let Some(handle) = self.loaded(thread_id) {
            if handle.with_live(|live| live.ephemeral) {
                return Err(RuntimeError::invalid(format!(
                    "ephemeral thread does not support metadata updates: {thread_id}"
                )));
            }
            return handle.ask(|reply| Command::Patch(Box::new(patch), reply)).await;
        }
        let row = self.find_row(thread_id).await?.filter(|row| row.archived_at_ms.is_none());
        if row.is_none() {
            return Err(RuntimeError::no_rollout(thread_id));
        }
        let patched = self.store.patch_thread(thread_id, patch).await?;
        patched.ok_or_else(|| RuntimeError::no_rollout(thread_id))
    }

    // Archive, delete ---------------------------------------------------------------------------------------------

    /// `thread/archive`.
    ///
    /// # Errors
    /// There is no such active thread.
    pub async fn archive(&self, thread_id: &str, request: &Arc<dyn Request>) -> Result<()> {
        let thread_id = parse_id("session", thread_id)?;
        self.unload_for_good(&thread_id, true).await?;
        let row = self.find_row(&thread_id).await?.filter(|row| row.archived_at_ms.is_none());
        let row = row.ok_or_else(|| RuntimeError::no_rollout(&thread_id))?;
        let target = row.rollout_path.as_deref().and_then(|path| self.archived_place(Path::new(path)));
        self.move_thread(&row, target, Some(self.clock.now_ms())).await?;
        request.reserve_reply();
        self.clients.broadcast(&Notify::new(self.clock.clone(), &thread_id).archived());
        Ok(())
    }

    fn archived_place(&self, path: &Path) -> Option<PathBuf> {
        name::archived_path(self.config.home().path(), path)
    }

    /// `thread/unarchive`.
    ///
    /// # Errors
    /// There is no such archived thread.
    pub async fn unarchive(&self, thread_id: &str, request: &Arc<dyn Request>) -> Result<Thread> {
        let thread_id = parse_id("session", thread_id)?;
        let row = self.find_row(&thread_id).await?.filter(|row| row.archived_at_ms.is_some());
        let row = row.ok_or_else(|| {
            RuntimeError::invalid(format!("no archived rollout found for thread id {thread_id}"))
        })?;
        let target = row
            .rollout_path
            .as_deref()
            .and_then(|path| name::active_path(self.config.home().path(), Path::new(path)));
        let row = self.move_thread(&row, target, None).await?;
        request.reserve_reply();
        self.clients.broadcast(&Notify::new(self.clock.clone(), &thread_id).unarchived());
        Ok(view::thread(&row, ThreadStatus::NotLoaded))
    }

    /// Record where a thread is from now on, then move its file there.
    async fn move_thread(
        &self,
        row: &ThreadRow,
        target: Option<PathBuf>,
        archived_at_ms: Option<i64>,
    ) -> Result<ThreadRow> {
        self.mirror.flush().await;
        let source = row.rollout_path.clone();
        let target_text = target.as_ref().map(|path| path.display().to_string());
        let patch = ThreadPatch {
            archived_at_ms: Some(archived_at_ms),
            rollout_path: Some(target_text.clone().or_else(|| source.clone())),
            updated_at_ms: Some(self.clock.now_ms()),
            ..ThreadPatch::default()
        };
        let patched = self.store.patch_thread(&row.thread_id, patch).await?;
        if let (Some(source), Some(target)) = (&source, &target) {
            let target_text = target.display().to_string();
            self.store.move_rollout_file(source, &target_text).await?;
            if let Err(error) = move_file(Path::new(source), target) {
                tracing::warn!(%error, from = %source, to = %target.display(), "the rollout file could not be moved");
            }
        }
        patched.ok_or_else(|| RuntimeError::no_rollout(&row.thread_id))
    }

    /// `thread/delete`.
    ///
    /// # Errors
    /// There is no such thread.
    pub async fn delete(&self, thread_id: &str, request: &Arc<dyn Request>) -> Result<()> {
        let thread_id = parse_id("session", thread_id)?;
        if let Some(handle) = self.loaded(&thread_id)
            && handle.with_live(|live| live.ephemeral)
        {
            return Err(RuntimeError::invalid(format!(
                "thread is not persisted and cannot be deleted: {thread_id}"
            )));
        }
        let was_loaded = self.unload_for_good(&thread_id, false).await?;
        let row = self.find_row(&thread_id).await?;
        if row.is_none() && !was_loaded {
            return Err(RuntimeError::no_rollout(&thread_id));
        }
        self.mirror.flush().await;
        if let Some(row) = row {
            let mut files = self.store.files_of_thread(&thread_id).await?;
            files.extend(row.rollout_path);
            self.store.delete_thread(&thread_id).await?;
            for file in files {
                for path in [file.clone(), format!("{file}.zst")] {
                    if let Err(error) = fs::remove_file(&path)
                        && error.kind() != std::io::ErrorKind::NotFound
                    {
                        tracing::warn!(%error, path, "a rollout file of a deleted thread could not be removed");
                    }
                }
            }
        }
        request.reserve_reply();
        self.clients.broadcast(&Notify::new(self.clock.clone(), &thread_id).deleted());
        Ok(())
    }

    /// Unload a thread before it is archived or deleted, storing it first if it has to outlive this.
    async fn unload_for_good(&self, thread_id: &str, store_first: bool) -> Result<bool> {
        let Some(handle) = self.loaded(thread_id) else { return Ok(false) };
        let (ephemeral, materialized) = handle.with_live(|live| (live.ephemeral, live.materialized));
        if ephemeral {
            return Err(RuntimeError::no_rollout(thread_id));
        }
        if store_first && !materialized {
            handle.ask(|reply| Command::Patch(Box::default(), reply)).await?;
        }
        handle.ask(|reply| Command::Unload(Unload::Announced, reply)).await?;
        Ok(true)
    }

    // Subscriptions -----------------------------------------------------------------------------------------------

    /// `thread/unsubscribe`.
    ///
    /// # Errors
    /// The id is none.
    pub async fn unsubscribe(
        &self,
        thread_id: &str,
        request: &Arc<dyn Request>,
    ) -> Result<ThreadUnsubscribeStatus> {
        let thread_id = parse_id("thread", thread_id)?;
        let Some(handle) = self.loaded(&thread_id) else { return Ok(ThreadUnsubscribeStatus::NotLoaded) };
        let connection = request.client().id();
        match handle.ask(|reply| Command::Unsubscribe(connection, reply)).await {
            Ok(true) => Ok(ThreadUnsubscribeStatus::Unsubscribed),
            Ok(false) => Ok(ThreadUnsubscribeStatus::NotSubscribed),
            Err(_) => Ok(ThreadUnsubscribeStatus::NotLoaded),
        }
    }

    // Asked of a loaded thread ------------------------------------------------------------------------------------

    /// `turn/start`.
    ///
    /// # Errors
    /// The thread is not loaded, or the submission cannot be.
    pub async fn start_turn(
        self: &Arc<Self>,
        params: TurnStartParams,
        request: &Arc<dyn Request>,
    ) -> Result<Turn> {
        let handle = handle_of(self, &params.thread_id)?;
        if params.permissions.is_some() && params.sandbox_policy.is_some() {
            return Err(RuntimeError::invalid("`permissions` cannot be combined with `sandboxPolicy`"));
        }
        let overrides = Overrides {
            model: params.model,
            effort: params.effort,
            summary: params.summary,
            service_tier: params.service_tier,
            approval_policy: params.approval_policy,
            approvals_reviewer: params.approvals_reviewer,
            sandbox_policy: params.sandbox_policy,
            permissions: params.permissions,
            cwd: params.cwd,
            workspace_roots: params
                .runtime_workspace_roots
                .map(|roots| roots.into_iter().map(|root| root.0).collect()),
            environments: params
                .environments
                .map(|list| list.into_iter().map(|environment| environment.environment_id).collect()),
            collaboration_mode: params.collaboration_mode,
            personality: params.personality,
            disabled_plugin_ids: params.disabled_plugin_ids,
            ..Overrides::default()
        };
        let submission = Submission {
            message: UserMessage::new(params.input, params.client_user_message_id)?,
            overrides,
            options: TurnOptions {
                output_schema: params.output_schema.filter(|schema| !schema.is_null()),
                service_tier: params.service_tier_for_turn,
                root_turn_id: params.root_turn_id,
                kind: TurnKind::Model,
                trigger: params.turn_trigger,
                metadata: params.responsesapi_client_metadata.unwrap_or_default(),
                queued: None,
                goal: None,
            },
        };
        let request = request.clone();
        handle.ask(|reply| Command::StartTurn(Box::new(submission), request, reply)).await
    }

    /// `turn/steer`.
    ///
    /// # Errors
    /// No turn runs, or another.
    pub async fn steer_turn(self: &Arc<Self>, params: TurnSteerParams) -> Result<String> {
        let handle = handle_of(self, &params.thread_id)?;
        let message = UserMessage::new(params.input, params.client_user_message_id)?;
        handle.ask(|reply| Command::Steer(params.expected_turn_id, message, reply)).await
    }

    /// `turn/interrupt`.
    ///
    /// # Errors
    /// No turn runs, or another.
    pub async fn interrupt_turn(
        self: &Arc<Self>,
        params: TurnInterruptParams,
        request: &Arc<dyn Request>,
    ) -> Result<()> {
        let handle = handle_of(self, &params.thread_id)?;
        let request = request.clone();
        handle.ask(|reply| Command::Interrupt(params.turn_id, request, reply)).await
    }

    /// `thread/settings/update`.
    ///
    /// # Errors
    /// The thread is not loaded, or the settings cannot be.
    pub async fn update_settings(
        self: &Arc<Self>,
        params: ThreadSettingsUpdateParams,
        request: &Arc<dyn Request>,
    ) -> Result<()> {
        let handle = handle_of(self, &params.thread_id)?;
        let overrides = Overrides {
            model: params.model,
            effort: params.effort,
            summary: params.summary,
            service_tier: params.service_tier,
            approval_policy: params.approval_policy,
            approvals_reviewer: params.approvals_reviewer,
            sandbox_policy: params.sandbox_policy,
            permissions: params.permissions,
            cwd: params.cwd,
            environments: params
                .environments
                .map(|list| list.into_iter().map(|environment| environment.environment_id).collect()),
            collaboration_mode: params.collaboration_mode,
            personality: params.personality,
            disabled_plugin_ids: params.disabled_plugin_ids,
            ..Overrides::default()
        };
        let request = request.clone();
        handle.ask(|reply| Command::UpdateSettings(Box::new(overrides), request, reply)).await
    }

    /// `turn/settings/update`.
    ///
    /// # Errors
    /// The thread is not loaded, the feature is off, or nothing is known of a model.
    pub async fn update_turn_settings(
        self: &Arc<Self>,
        params: TurnSettingsUpdateParams,
    ) -> Result<TurnSettingsUpdateStatus> {
        let handle = handle_of(self, &params.thread_id)?;
        handle.ask(|reply| Command::UpdateStep(Box::new(params), reply)).await
    }

    /// `thread/compact/start`.
    ///
    /// # Errors
    /// The thread is not loaded, or a turn runs.
    pub async fn compact_thread(
        self: &Arc<Self>,
        params: &ThreadCompactStartParams,
        request: &Arc<dyn Request>,
    ) -> Result<()> {
        let handle = handle_of(self, &params.thread_id)?;
        let request = request.clone();
        handle.ask(|reply| Command::Compact(request, reply)).await
    }

    /// `review/start`.
    ///
    /// # Errors
    /// The thread is not loaded, a turn runs, or the target is incomplete.
    pub async fn start_review(
        self: &Arc<Self>,
        params: ReviewStartParams,
        request: &Arc<dyn Request>,
    ) -> Result<ReviewStartResponse> {
        let handle = handle_of(self, &params.thread_id)?;
        let request = request.clone();
        let turn = handle.ask(|reply| Command::Review(Box::new(params.target), request, reply)).await?;
        Ok(ReviewStartResponse { review_thread_id: params.thread_id, turn })
    }

    /// `thread/inject_items`.
    ///
    /// # Errors
    /// The thread is not loaded, or an item is none.
    pub async fn inject_items(self: &Arc<Self>, params: ThreadInjectItemsParams) -> Result<()> {
        let handle = handle_of(self, &params.thread_id)?;
        if params.items.is_empty() {
            return Err(RuntimeError::invalid("items must not be empty"));
        }
        for (at, item) in params.items.iter().enumerate() {
            if !item.get("type").is_some_and(Value::is_string) {
                return Err(RuntimeError::invalid(format!(
                    "items[{at}] is not a valid response item: missing field `type`"
                )));
            }
        }
        handle.ask(|reply| Command::InjectItems(params.items, reply)).await
    }
}

/// Move a file and its packed form, making the folder.
fn move_file(source: &Path, target: &Path) -> std::io::Result<()> {
    if let Some(dir) = target.parent() {
        fs::create_dir_all(dir)?;
    }
    let packed = |path: &Path| PathBuf::from(format!("{}.zst", path.display()));
    if packed(source).exists() {
        fs::rename(packed(source), packed(target))?;
    }
    if source.exists() { fs::rename(source, target) } else { Ok(()) }
}
