//! Rollout files seen on disk: what makes an import incremental.

use std::sync::Arc;

use sqlx::SqliteConnection;

use super::append::{Counters, Prepared, apply};
use super::error::Result;
use super::rows::{Append, ThreadRow};
use super::{Store, threads};

/// A file as it was when last looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutFileRow {
    /// Absolute path, as found.
    pub path: String,
    /// The thread it belongs to.
    pub thread_id: Option<String>,
    /// Size in bytes.
    pub size: i64,
    /// Modification time, Unix nanoseconds.
    pub mtime_ns: i64,
    /// Bytes of the file taken into the journal.
    pub bytes_taken: i64,
    /// Lines in the journal after them, those of files that this one continues included.
    pub lines_taken: i64,
    /// Hash of the first bytes taken.
    pub head_hash: Option<Vec<u8>>,
    /// Hash of the last bytes taken.
    pub tail_hash: Option<Vec<u8>>,
    /// `indexed`, `imported`, `conflict`, `not_a_rollout` or `unreadable`.
    pub verdict: String,
    /// Why, for the last three.
    pub reason: Option<String>,
    /// State of the reducer after the lines taken.
    pub reducer_json: Option<String>,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportProblem {
    /// Line number, from 1.
    pub line: i64,
    /// Why.
    pub reason: String,
}

/// What an import does with one file, in one transaction.
#[derive(Clone, Debug, Default)]
pub struct FileImport {
    /// The thread's row: added, or its derived members renewed when it is there.
    pub thread: Option<Box<ThreadRow>>,
    /// Throw away the thread's recorded history first: the file was rewritten.
    pub start_anew: bool,
    /// Lines and what is derived from them.
    pub append: Option<Append>,
    /// Turns to drop, oldest place first, by their ids: the file rolled them back.
    pub dropped_turns: Vec<String>,
    /// The file.
    pub file: RolloutFileRow,
    /// Its bad lines among those taken now.
    pub problems: Vec<ImportProblem>,
}

impl Store {
    /// All files known.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn rollout_files(&self) -> Result<Vec<RolloutFileRow>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_as!(
            RolloutFileRow,
            r#"select path, thread_id, size, mtime_ns, bytes_taken, lines_taken, head_hash, tail_hash, verdict, reason,
                    nullif(path, path) as "reducer_json: String"
             from rollout_files"#
        )
        .fetch_all(&mut *reader)
        .await?)
    }

    /// One file by its path.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn rollout_file(&self, path: &str) -> Result<Option<RolloutFileRow>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_as!(
            RolloutFileRow,
            "select path, thread_id, size, mtime_ns, bytes_taken, lines_taken, head_hash, tail_hash, verdict, reason,
                    reducer_json
             from rollout_files where path = ?1",
            path
        )
        .fetch_optional(&mut *reader)
        .await?)
    }

    /// All files of a thread.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn files_of_thread(&self, thread_id: &str) -> Result<Vec<String>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_scalar!("select path from rollout_files where thread_id = ?1", thread_id)
            .fetch_all(&mut *reader)
            .await?)
    }

    /// A file is at another place from now on.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn move_rollout_file(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |db| {
            let (from, to) = (from.clone(), to.clone());
            Box::pin(async move {
                sqlx::query!("delete from rollout_files where path = ?1", to).execute(&mut *db).await?;
                sqlx::query!("update rollout_files set path = ?2 where path = ?1", from, to)
                    .execute(db)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Carry out several imports in one transaction.
    ///
    /// # Errors
    /// A failure of the database; nothing of these imports is stored then.
    pub async fn import_files(&self, imports: Vec<FileImport>) -> Result<()> {
        let process = self.process.clone();
        let now_ms = self.clock.now_ms();
        let mut prepared = Vec::with_capacity(imports.len());
        for mut import in imports {
            let append = import.append.take();
            let thread_id = append.as_ref().map(|append| append.thread_id.clone());
            prepared.push((import, thread_id, append.map(Prepared::new).transpose()?));
        }
        let prepared = Arc::new(prepared);
        self.write(move |db| {
            let (prepared, process) = (prepared.clone(), process.clone());
            Box::pin(async move {
                for (import, thread_id, append) in prepared.iter() {
                    if let Some(thread) = &import.thread {
                        put_thread(db, thread).await?;
                        if import.start_anew
                            && let Some(counters) = threads::counters(db, &thread.thread_id).await?
                        {
                            threads::clear_history(db, counters.thread_key).await?;
                        }
                    }
                    if let (Some(thread_id), Some(append)) = (thread_id, append) {
                        apply(db, append, &process, now_ms).await?;
                        drop_turns(db, thread_id, &import.dropped_turns).await?;
                    }
                    put_file(db, &import.file).await?;
                    put_problems(db, import).await?;
                }
                Ok(())
            })
        })
        .await
    }
}

/// Add a thread, or renew what its file tells of it; what a user has set here stays.
async fn put_thread(db: &mut SqliteConnection, row: &ThreadRow) -> Result<()> {
    let Some(Counters { thread_key, .. }) = threads::counters(db, &row.thread_id).await? else {
        return threads::insert(db, row).await;
    };
    let inherited = row.inherited_usage;
    sqlx::query!(
        "update threads set preview = iif(preview = '', ?2, preview), name = coalesce(name, ?3),
             model_provider = ?4, model = coalesce(?5, model), reasoning_effort = ?6, cwd = ?7, settings_json = ?8,
             git_sha = coalesce(git_sha, ?9), git_branch = coalesce(git_branch, ?10),
             git_origin_url = coalesce(git_origin_url, ?11), updated_at_ms = ?12, recency_at_ms = ?13,
             archived_at_ms = ?14, rollout_path = ?15, forked_from_id = coalesce(forked_from_id, ?16),
             inherited_input = ?17, inherited_cached_input = ?18, inherited_cache_write_input = ?19,
             inherited_output = ?20, inherited_reasoning_output = ?21, inherited_total = ?22,
             model_context_window = coalesce(?23, model_context_window), base_bytes = ?24
         where thread_key = ?1",
        thread_key,
        row.preview,
        row.name,
        row.model_provider,
        row.model,
        row.reasoning_effort,
        row.cwd,
        row.settings_json,
        row.git_sha,
        row.git_branch,
        row.git_origin_url,
        row.updated_at_ms,
        row.recency_at_ms,
        row.archived_at_ms,
        row.rollout_path,
        row.forked_from_id,
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
    .await?;
    Ok(())
}

async fn drop_turns(db: &mut SqliteConnection, thread_id: &str, turn_ids: &[String]) -> Result<()> {
    for turn_id in turn_ids {
        // Its items go with it.
        sqlx::query!(
            "delete from turns where turn_id = ?2
             and thread_key = (select thread_key from threads where thread_id = ?1)",
            thread_id,
            turn_id
        )
        .execute(&mut *db)
        .await?;
    }
    Ok(())
}

async fn put_file(db: &mut SqliteConnection, file: &RolloutFileRow) -> Result<()> {
    sqlx::query!(
        "insert into rollout_files (path, thread_id, size, mtime_ns, bytes_taken, lines_taken, head_hash, tail_hash,
             verdict, reason, reducer_json)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         on conflict (path) do update set
             thread_id = excluded.thread_id, size = excluded.size, mtime_ns = excluded.mtime_ns,
             bytes_taken = excluded.bytes_taken, lines_taken = excluded.lines_taken, head_hash = excluded.head_hash,
             tail_hash = excluded.tail_hash, verdict = excluded.verdict, reason = excluded.reason,
             reducer_json = excluded.reducer_json",
        file.path,
        file.thread_id,
        file.size,
        file.mtime_ns,
        file.bytes_taken,
        file.lines_taken,
        file.head_hash,
        file.tail_hash,
        file.verdict,
        file.reason,
        file.reducer_json
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn put_problems(db: &mut SqliteConnection, import: &FileImport) -> Result<()> {
    if import.start_anew {
        sqlx::query!("delete from import_problems where path = ?1", import.file.path)
            .execute(&mut *db)
            .await?;
    }
    for problem in &import.problems {
        sqlx::query!(
            "insert or replace into import_problems (path, line, reason) values (?1, ?2, ?3)",
            import.file.path,
            problem.line,
            problem.reason
        )
        .execute(&mut *db)
        .await?;
    }
    Ok(())
}
