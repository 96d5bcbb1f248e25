//! Rollout files seen on disk: what makes an import incremental.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::append::Counters;
use super::bulk::{self, Prepared};
use super::error::{Result, StoreError};
use super::journal;
pub use super::journal::PackedLines;
pub use super::payload::Packer;
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
    /// `indexed` (only its head was read), `imported`, `conflict`, `not_a_rollout` or `unreadable`.
    pub verdict: String,
    /// Why, for the last three, and for a file that a newer one has superseded.
    pub reason: Option<String>,
    /// State of the reducer, packed, at a position that it tells itself. In an import `None` leaves what is stored, and
    /// no bytes are no state.
    pub reducer: Option<Vec<u8>>,
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
    /// The lines that the thread's journal has; when it has others by then, nothing of this import is stored.
    pub expected_lines: Option<i64>,
    /// Throw away the thread's recorded history first: the file is taken from its beginning.
    pub start_anew: bool,
    /// Take off the journal from this line on first: it had not ended when it was taken.
    pub cut_off_line: Option<i64>,
    /// The lines.
    pub lines: PackedLines,
    /// What is derived from them; its own lines are not looked at.
    pub append: Option<Append>,
    /// Turns to drop, by their ids: the file rolled them back.
    pub dropped_turns: Vec<String>,
    /// The file.
    pub file: RolloutFileRow,
    /// Its bad lines among those taken now.
    pub problems: Vec<ImportProblem>,
    /// Problems known from this line of the file on are gone: it is taken again.
    pub forget_problems_from: Option<i64>,
}

/// What came of one import.
#[derive(Clone, Debug)]
pub enum Imported {
    /// It is stored.
    Stored,
    /// The thread's journal has other lines than expected: somebody else has written. Nothing of it is stored.
    Moved,
    /// The database refused it. Nothing of it is stored, and the others of its transaction are.
    Failed(StoreError),
}

/// How soon an import is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// Somebody waits for it.
    #[default]
    Awaited,
    /// After what clients wait for.
    Behind,
}

/// Imports, packed; made by those who read the files, so that the writer has less to do.
#[derive(Debug, Default)]
pub struct PreparedImports {
    imports: Vec<PreparedImport>,
}

impl PreparedImports {
    /// Add an import.
    ///
    /// # Errors
    /// An item is large, and could not be packed.
    pub fn add(&mut self, mut import: FileImport, packer: &mut Packer) -> Result<()> {
        let lines = std::mem::take(&mut import.lines);
        let prepared = import.append.take().map(|append| Prepared::new(lines, append, packer)).transpose()?;
        self.imports.push((import, prepared));
        Ok(())
    }

    /// How many imports these are.
    pub fn len(&self) -> usize {
        self.imports.len()
    }

    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.imports.is_empty()
    }
}

/// A file as it was when last looked at, and the end of the journal of the thread whose file it is.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownFile {
    /// Absolute path, as found.
    pub path: String,
    /// Size in bytes.
    pub size: i64,
    /// Modification time, Unix nanoseconds.
    pub mtime_ns: i64,
    /// Bytes of the file taken into the journal.
    pub bytes_taken: i64,
    /// See [`RolloutFileRow::verdict`].
    pub verdict: String,
}

/// A thread with a rollout file, and how much of it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct MirroredThread {
    /// The thread.
    pub thread_id: String,
    /// Its file, without `.zst`.
    pub path: String,
    /// Bytes of the file that are in the journal.
    pub bytes: i64,
}

impl Store {
    /// All files known.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn known_files(&self) -> Result<Vec<KnownFile>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_as!(KnownFile, "select path, size, mtime_ns, bytes_taken, verdict from rollout_files")
            .fetch_all(&mut *reader)
            .await?)
    }

    /// All threads that have a rollout file and recorded lines.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn mirrored_threads(&self) -> Result<Vec<MirroredThread>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_as!(
            MirroredThread,
            r#"select thread_id, rollout_path as "path!", journal_bytes - base_bytes as "bytes!: i64" from threads
               where rollout_path is not null and journal_lines > 0"#
        )
        .fetch_all(&mut *reader)
        .await?)
    }

    /// The bad lines of a file.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn import_problems(&self, path: &str) -> Result<Vec<ImportProblem>> {
        let mut reader = self.reader().await?;
        Ok(sqlx::query_as!(
            ImportProblem,
            "select line, reason from import_problems where path = ?1 order by line",
            path
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
                    reducer
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
    pub async fn import_files(&self, imports: PreparedImports, urgency: Urgency) -> Result<Vec<Imported>> {
        let imports = Arc::new(imports);
        match urgency {
            Urgency::Awaited => self.write(move |db| carry_out_all(db, imports.clone())).await,
            Urgency::Behind => self.write_behind(move |db| carry_out_all(db, imports.clone())).await,
        }
    }
}

fn carry_out_all(
    db: &mut SqliteConnection,
    imports: Arc<PreparedImports>,
) -> BoxFuture<'_, Result<Vec<Imported>>> {
    Box::pin(async move {
        let imports = &imports.imports;
        match under_savepoint(db, imports).await? {
            Ok(outcomes) => Ok(outcomes),
            // One that the database refuses must not take the others with it.
            Err(error) if imports.len() == 1 => Ok(vec![Imported::Failed(error)]),
            Err(_) => {
                let mut outcomes = Vec::with_capacity(imports.len());
                for import in imports {
                    match under_savepoint(db, std::slice::from_ref(import)).await? {
                        Ok(mut outcome) => outcomes.append(&mut outcome),
                        Err(error) => outcomes.push(Imported::Failed(error)),
                    }
                }
                Ok(outcomes)
            }
        }
    })
}

type PreparedImport = (FileImport, Option<Prepared>);

async fn under_savepoint(
    db: &mut SqliteConnection,
    imports: &[PreparedImport],
) -> Result<Result<Vec<Imported>>> {
    sqlx::query("savepoint imports").execute(&mut *db).await?;
    let outcomes = carry_out(db, imports).await;
    if outcomes.is_err() {
        sqlx::query("rollback to imports").execute(&mut *db).await?;
    }
    sqlx::query("release imports").execute(&mut *db).await?;
    Ok(outcomes)
}

/// Carry out imports together, as far as no thread comes twice.
async fn carry_out(db: &mut SqliteConnection, imports: &[PreparedImport]) -> Result<Vec<Imported>> {
    let mut outcomes = Vec::with_capacity(imports.len());
    let mut rest = imports;
    while !rest.is_empty() {
        let mut threads = HashSet::new();
        let once = rest.iter().map(|(import, _)| import.thread.as_deref().map(|thread| &thread.thread_id));
        let once = once.take_while(|thread| thread.is_none_or(|thread| threads.insert(thread)));
        let (together, after) = rest.split_at(once.count());
        carry_out_once(db, together, &mut outcomes).await?;
        rest = after;
    }
    Ok(outcomes)
}

async fn carry_out_once(
    db: &mut SqliteConnection,
    imports: &[PreparedImport],
    outcomes: &mut Vec<Imported>,
) -> Result<()> {
    let threads = imports.iter().filter_map(|(import, _)| import.thread.as_ref());
    let known = counters_of(db, threads.map(|thread| thread.thread_id.as_str())).await?;
    let mut targets = Vec::with_capacity(imports.len());
    let mut stored = Vec::with_capacity(imports.len());
    for (import, prepared) in imports {
        let Some(thread) = &import.thread else {
            stored.push(import);
            outcomes.push(Imported::Stored);
            continue;
        };
        let known = known.get(&thread.thread_id).copied();
        let lines = known.map_or(0, |counters| counters.lines);
        if import.expected_lines.is_some_and(|expected| expected != lines) {
            outcomes.push(Imported::Moved);
            continue;
        }
        let mut before = put_thread(db, thread, known).await?;
        if import.start_anew && 0 < before.lines {
            threads::clear_history(db, before.thread_key).await?;
            before = Counters { lines: 0, bytes: 0, ..before };
        }
        if let Some(line) = import.cut_off_line {
            journal::cut_off(db, &mut before, line).await?;
        }
        if let Some(prepared) = prepared {
            targets.push(bulk::Target { before, prepared, dropped_turns: &import.dropped_turns });
        }
        stored.push(import);
        outcomes.push(Imported::Stored);
    }
    bulk::apply(db, &targets).await?;
    for chunk in bulk::chunks(&stored) {
        put_files(db, chunk).await?;
    }
    put_problems(db, &stored).await
}

/// The ends of several threads' journals.
async fn counters_of<'a>(
    db: &mut SqliteConnection,
    thread_ids: impl Iterator<Item = &'a str>,
) -> Result<HashMap<String, Counters>> {
    let ids = serde_json::json!(thread_ids.collect::<Vec<_>>()).to_string();
    let rows = sqlx::query!(
        r#"select thread_id, thread_key as "thread_key!", journal_lines, journal_bytes from threads
           where thread_id in (select value from json_each(?1))"#,
        ids
    )
    .fetch_all(db)
    .await?;
    let counters = rows.into_iter().map(|row| {
        let counters =
            Counters { thread_key: row.thread_key, lines: row.journal_lines, bytes: row.journal_bytes };
        (row.thread_id, counters)
    });
    Ok(counters.collect())
}

/// Add a thread, or renew what its file tells of it; what a user has set here stays.
async fn put_thread(
    db: &mut SqliteConnection,
    row: &ThreadRow,
    before: Option<Counters>,
) -> Result<Counters> {
    let Some(before) = before else {
        return Ok(Counters { thread_key: threads::insert(db, row).await?, lines: 0, bytes: 0 });
    };
    let thread_key = before.thread_key;
    let inherited = row.inherited_usage;
    sqlx::query!(
        "update threads set preview = iif(?2 = '', preview, ?2), name = coalesce(name, ?3),
             model_provider = ?4, model = coalesce(?5, model), reasoning_effort = ?6, cwd = ?7, settings_json = ?8,
             git_sha = coalesce(?9, git_sha), git_branch = coalesce(?10, git_branch),
             git_origin_url = coalesce(?11, git_origin_url), updated_at_ms = ?12, recency_at_ms = ?13,
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
    Ok(before)
}

async fn put_files(db: &mut SqliteConnection, imports: &[&FileImport]) -> Result<()> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "insert into rollout_files (path, thread_id, size, mtime_ns, bytes_taken, lines_taken, head_hash, tail_hash,
             verdict, reason, reducer) ",
    );
    insert.push_values(imports, |mut values, import| {
        let file = &import.file;
        values
            .push_bind(&file.path)
            .push_bind(&file.thread_id)
            .push_bind(file.size)
            .push_bind(file.mtime_ns)
            .push_bind(file.bytes_taken)
            .push_bind(file.lines_taken)
            .push_bind(file.head_hash.as_deref())
            .push_bind(file.tail_hash.as_deref())
            .push_bind(&file.verdict)
            .push_bind(&file.reason)
            .push_bind(file.reducer.as_deref());
    });
    // A state that is not told stays.
    insert.push(
        " on conflict (path) do update set
             thread_id = excluded.thread_id, size = excluded.size, mtime_ns = excluded.mtime_ns,
             bytes_taken = excluded.bytes_taken, lines_taken = excluded.lines_taken, head_hash = excluded.head_hash,
             tail_hash = excluded.tail_hash, verdict = excluded.verdict, reason = excluded.reason,
             reducer = coalesce(excluded.reducer, reducer)",
    );
    insert.build().execute(db).await?;
    Ok(())
}

async fn put_problems(db: &mut SqliteConnection, imports: &[&FileImport]) -> Result<()> {
    let anew = imports.iter().filter(|import| import.start_anew).map(|import| &import.file.path);
    let anew = serde_json::json!(anew.collect::<Vec<_>>()).to_string();
    sqlx::query!("delete from import_problems where path in (select value from json_each(?1))", anew)
        .execute(&mut *db)
        .await?;
    for import in imports {
        let path = &import.file.path;
        if let Some(from) = import.forget_problems_from {
            sqlx::query!("delete from import_problems where path = ?1 and line >= ?2", path, from)
                .execute(&mut *db)
                .await?;
        }
        for problem in &import.problems {
            sqlx::query!(
                "insert or replace into import_problems (path, line, reason) values (?1, ?2, ?3)",
                path,
                problem.line,
                problem.reason
            )
            .execute(&mut *db)
            .await?;
        }
    }
    Ok(())
}
