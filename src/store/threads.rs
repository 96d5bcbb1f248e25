//! Thread rows: metadata and settings.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row, Sqlite, SqliteConnection};

use super::append::Counters;
use super::error::{Result, StoreError};
use super::rows::{ThreadPatch, ThreadRow, TokenCounts};
use super::{Store, key_range, thread_key};

impl FromRow<'_, SqliteRow> for ThreadRow {
    fn from_row(row: &SqliteRow) -> Result<ThreadRow, sqlx::Error> {
        Ok(ThreadRow {
            thread_id: row.try_get("thread_id")?,
            session_id: row.try_get("session_id")?,
            forked_from_id: row.try_get("forked_from_id")?,
            parent_thread_id: row.try_get("parent_thread_id")?,
            attached_to_thread_id: row.try_get("attached_to_thread_id")?,
            preview: row.try_get("preview")?,
            name: row.try_get("name")?,
            source_json: row.try_get("source_json")?,
            source_kind: row.try_get("source_kind")?,
            thread_source: row.try_get("thread_source")?,
            originator: row.try_get("originator")?,
            cli_version: row.try_get("cli_version")?,
            model_provider: row.try_get("model_provider")?,
            model: row.try_get("model")?,
            reasoning_effort: row.try_get("reasoning_effort")?,
            cwd: row.try_get("cwd")?,
            settings_json: row.try_get("settings_json")?,
            git_sha: row.try_get("git_sha")?,
            git_branch: row.try_get("git_branch")?,
            git_origin_url: row.try_get("git_origin_url")?,
            history_mode: row.try_get("history_mode")?,
            created_at_ms: row.try_get("created_at_ms")?,
            updated_at_ms: row.try_get("updated_at_ms")?,
            recency_at_ms: row.try_get("recency_at_ms")?,
            archived_at_ms: row.try_get("archived_at_ms")?,
            rollout_path: row.try_get("rollout_path")?,
            agent_nickname: row.try_get("agent_nickname")?,
            agent_role: row.try_get("agent_role")?,
            memory_mode: row.try_get("memory_mode")?,
            project_id: row.try_get("project_id")?,
            section_id: row.try_get("section_id")?,
            section_entered_at_ms: row.try_get("section_entered_at_ms")?,
            section_position: row.try_get("section_position")?,
            model_context_window: row.try_get("model_context_window")?,
            journal_lines: row.try_get("journal_lines")?,
            journal_bytes: row.try_get("journal_bytes")?,
            base_bytes: row.try_get("base_bytes")?,
            context_from_line: row.try_get("context_from_line")?,
            inherited_usage: TokenCounts {
                input: row.try_get("inherited_input")?,
                cached_input: row.try_get("inherited_cached_input")?,
                cache_write_input: row.try_get("inherited_cache_write_input")?,
                output: row.try_get("inherited_output")?,
                reasoning_output: row.try_get("inherited_reasoning_output")?,
                total: row.try_get("inherited_total")?,
            },
        })
    }
}

impl Store {
    /// The ids of all threads.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn thread_ids(&self) -> Result<Vec<String>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_scalar!("select thread_id from threads").fetch_all(&mut *reader).await?)
    }

    /// A thread by its id.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn thread(&self, thread_id: &str) -> Result<Option<ThreadRow>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_as("select * from threads where thread_id = ?1")
            .bind(thread_id)
            .fetch_optional(&mut *reader)
            .await?)
    }

    /// All threads, in the order in which they came.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn all_threads(&self) -> Result<Vec<ThreadRow>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_as("select * from threads order by thread_key").fetch_all(&mut *reader).await?)
    }

    /// The thread whose rollout file this is; the newest should there be several.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn thread_of_rollout(&self, path: &str) -> Result<Option<ThreadRow>> {
        let mut reader = self.reader().await?;
        let sql = "select * from threads where rollout_path = ?1 order by updated_at_ms desc limit 1";
        Ok(sqlx::query_as(sql).bind(path).fetch_optional(&mut *reader).await?)
    }

    /// Change members of a thread. Returns the row as it is then, or `None` when there is no such thread.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn patch_thread(&self, thread_id: &str, patch: ThreadPatch) -> Result<Option<ThreadRow>> {
        let thread_id = thread_id.to_owned();
        self.write(move |db| {
            let (thread_id, patch) = (thread_id.clone(), patch.clone());
            Box::pin(async move {
                let Some(thread_key) = thread_key(db, &thread_id).await? else { return Ok(None) };
                self::patch(db, thread_key, &patch).await?;
                let sql = "select * from threads where thread_key = ?1";
                Ok(sqlx::query_as(sql).bind(thread_key).fetch_optional(db).await?)
            })
        })
        .await
    }

    /// Delete a thread: it is gone from every table, by a trigger on its row. Tells whether it was there.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn delete_thread(&self, thread_id: &str) -> Result<bool> {
        let thread_id = thread_id.to_owned();
        self.write(move |db| {
            let thread_id = thread_id.clone();
            Box::pin(async move {
                let done =
                    sqlx::query!("delete from threads where thread_id = ?1", thread_id).execute(db).await?;
                Ok(0 < done.rows_affected())
            })
        })
        .await
    }
}

/// Delete a thread's journal and all that is derived from it; the thread's row stays.
pub(super) async fn clear_history(db: &mut SqliteConnection, thread_key: i64) -> Result<()> {
    let keys = key_range(thread_key);
    let (from, to) = (keys.start, keys.end);
    sqlx::query!("delete from items where item_key >= ?1 and item_key < ?2", from, to)
        .execute(&mut *db)
        .await?;
    sqlx::query!("delete from turns where turn_key >= ?1 and turn_key < ?2", from, to)
        .execute(&mut *db)
        .await?;
    sqlx::query!("delete from journal where run_key >= ?1 and run_key < ?2", from, to)
        .execute(&mut *db)
        .await?;
    sqlx::query!("delete from token_usage where usage_key >= ?1 and usage_key < ?2", from, to)
        .execute(&mut *db)
        .await?;
    sqlx::query!(
        "update threads set journal_lines = 0, journal_bytes = 0, context_from_line = 0 where thread_key = ?1",
        thread_key
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The journal's counters of a thread, or `None` when there is no such thread.
pub(super) async fn counters(db: &mut SqliteConnection, thread_id: &str) -> Result<Option<Counters>> {
    let row = sqlx::query!(
        r#"select thread_key as "thread_key!", journal_lines, journal_bytes from threads where thread_id = ?1"#,
        thread_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Counters {
        thread_key: row.thread_key,
        lines: row.journal_lines,
        bytes: row.journal_bytes,
    }))
}

/// Add a thread; its journal is empty. Gives its key.
pub(super) async fn insert(db: &mut SqliteConnection, row: &ThreadRow) -> Result<i64> {
    let inherited = row.inherited_usage;
    let done = sqlx::query!(
        "insert into threads (thread_id, session_id, forked_from_id, parent_thread_id, attached_to_thread_id, preview, name,
             source_json, source_kind, thread_source, originator, cli_version, model_provider,
             model, reasoning_effort, cwd, settings_json, git_sha, git_branch, git_origin_url,
             history_mode, created_at_ms, updated_at_ms, recency_at_ms, archived_at_ms,
             rollout_path, agent_nickname, agent_role, memory_mode, project_id, section_id,
             section_entered_at_ms, section_position, inherited_input, inherited_cached_input,
             inherited_cache_write_input, inherited_output, inherited_reasoning_output,
             inherited_total, model_context_window, base_bytes)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
             ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37,
             ?38, ?39, ?40, ?41)",
        row.thread_id,
        row.session_id,
        row.forked_from_id,
        row.parent_thread_id,
        row.attached_to_thread_id,
        row.preview,
        row.name,
        row.source_json,
        row.source_kind,
        row.thread_source,
        row.originator,
        row.cli_version,
        row.model_provider,
        row.model,
        row.reasoning_effort,
        row.cwd,
        row.settings_json,
        row.git_sha,
        row.git_branch,
        row.git_origin_url,
        row.history_mode,
        row.created_at_ms,
        row.updated_at_ms,
        row.recency_at_ms,
        row.archived_at_ms,
        row.rollout_path,
        row.agent_nickname,
        row.agent_role,
        row.memory_mode,
        row.project_id,
        row.section_id,
        row.section_entered_at_ms,
        row.section_position,
        inherited.input,
        inherited.cached_input,
        inherited.cache_write_input,
        inherited.output,
        inherited.reasoning_output,
        inherited.total,
        row.model_context_window,
        row.base_bytes
    )
    .execute(db)
    .await
    .map_err(|error| StoreError::Database(format!("adding thread {}: {error}", row.thread_id)))?;
    Ok(done.last_insert_rowid())
}

/// Set the journal's counters, and where the model context starts if that moved.
pub(super) async fn move_end(
    db: &mut SqliteConnection,
    end: &Counters,
    context_from_line: Option<i64>,
) -> Result<()> {
    sqlx::query!(
        "update threads set journal_lines = ?2, journal_bytes = ?3,
             context_from_line = coalesce(?4, context_from_line)
         where thread_key = ?1",
        end.thread_key,
        end.lines,
        end.bytes,
        context_from_line
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The same of several threads by one statement.
pub(super) async fn move_ends(db: &mut SqliteConnection, ends: &[(Counters, Option<i64>)]) -> Result<()> {
    let ends = ends.iter().map(|(end, context_from)| (end.thread_key, end.lines, end.bytes, context_from));
    let ends = serde_json::json!(ends.collect::<Vec<_>>()).to_string();
    sqlx::query!(
        "update threads set journal_lines = ends.value ->> 1, journal_bytes = ends.value ->> 2,
             context_from_line = coalesce(ends.value ->> 3, context_from_line)
         from json_each(?1) as ends
         where thread_key = ends.value ->> 0",
        ends
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Set the members that a patch names, and no others: SQLite writes every index of a column that is set, also when its
/// value stays the same.
pub(super) async fn patch(db: &mut SqliteConnection, thread_key: i64, patch: &ThreadPatch) -> Result<()> {
    if *patch == ThreadPatch::default() {
        return Ok(());
    }
    let mut update = QueryBuilder::<Sqlite>::new("update threads set ");
    let mut set = update.separated(", ");
    if let Some(preview) = &patch.preview_if_empty {
        set.push("preview = iif(preview = '', ");
        set.push_bind_unseparated(preview).push_unseparated(", preview)");
    }
    for (assignment, value) in [
        ("name = ", &patch.name),
        ("model = ", &patch.model),
        ("reasoning_effort = ", &patch.reasoning_effort),
        ("git_sha = ", &patch.git_sha),
        ("git_branch = ", &patch.git_branch),
        ("git_origin_url = ", &patch.git_origin_url),
        ("rollout_path = ", &patch.rollout_path),
    ] {
        if let Some(value) = value {
            set.push(assignment).push_bind_unseparated(value);
        }
    }
    for (assignment, value) in [
        ("model_provider = ", &patch.model_provider),
        ("cwd = ", &patch.cwd),
        ("settings_json = ", &patch.settings_json),
        ("memory_mode = ", &patch.memory_mode),
    ] {
        if let Some(value) = value {
            set.push(assignment).push_bind_unseparated(value);
        }
    }
    for (assignment, value) in [
        ("updated_at_ms = ", patch.updated_at_ms.map(Some)),
        ("recency_at_ms = ", patch.recency_at_ms.map(Some)),
        ("archived_at_ms = ", patch.archived_at_ms),
        ("model_context_window = ", patch.model_context_window.map(Some)),
    ] {
        if let Some(value) = value {
            set.push(assignment).push_bind_unseparated(value);
        }
    }
    update.push(" where thread_key = ").push_bind(thread_key);
    update.build().execute(db).await?;
    Ok(())
}
