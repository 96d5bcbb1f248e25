//! Another program's databases in a home (`protocol/config.md`, section 6): read without a trace, and what of it is
//! taken over.
//!
//! Their schemas are not ours and change with versions, so that these statements are put together from the columns that
//! are there; a table or column that is missing is left out.

use std::collections::HashSet;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

use super::error::Result;
use super::goals::{self, GoalRow};
use super::{Store, thread_key};

/// What other databases know of threads, as far as it concerns us.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerData {
    /// Metadata of threads.
    pub threads: Vec<PeerThread>,
    /// Goals.
    pub goals: Vec<(String, GoalRow)>,
    /// Submissions in order, by thread.
    pub queue: Vec<PeerSubmission>,
    /// Sections: id, name, appearance.
    pub sections: Vec<(String, String, Option<String>)>,
}

/// What is known of a thread that its rollout does not tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerThread {
    /// The thread.
    pub thread_id: String,
    /// The name that a user gave.
    pub name: Option<String>,
    /// When it was archived, Unix milliseconds.
    pub archived_at_ms: Option<i64>,
    /// Commit.
    pub git_sha: Option<String>,
    /// Branch.
    pub git_branch: Option<String>,
    /// Where it was cloned from.
    pub git_origin_url: Option<String>,
    /// `enabled` or `disabled`.
    pub memory_mode: Option<String>,
    /// When its last turn started, Unix milliseconds.
    pub recency_at_ms: Option<i64>,
    /// The section it is placed in.
    pub section_id: Option<String>,
    /// Its place there.
    pub section_position: Option<i64>,
    /// When it was placed there.
    pub section_entered_at_ms: Option<i64>,
}

/// A submission that waits there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerSubmission {
    /// Its id.
    pub submission_id: String,
    /// Its thread.
    pub thread_id: String,
    /// `clientUserMessageId`.
    pub client_id: String,
    /// The input parts as wire JSON.
    pub input_json: String,
    /// Metadata as JSON.
    pub metadata_json: Option<String>,
    /// When it was queued.
    pub created_at_ms: i64,
}

/// How much was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Threads whose name, archiving, git or section changed.
    pub threads: u64,
    /// Names among them.
    pub names: u64,
    /// Goals.
    pub goals: u64,
    /// Submissions.
    pub queued: u64,
    /// Sections.
    pub sections: u64,
}

/// A foreign database, opened to be read.
pub struct PeerDatabase(SqliteConnection);

impl PeerDatabase {
    /// Open a file; `None` when it is not there or is none.
    pub async fn open(path: &Path) -> Option<PeerDatabase> {
        if !path.is_file() {
            return None;
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .create_if_missing(false)
            .disable_statement_logging();
        match options.connect().await {
            Ok(connection) => Some(PeerDatabase(connection)),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "another program's database cannot be read");
                None
            }
        }
    }

    /// The rows of a table, of these columns those that it has; nothing when it is not there.
    pub async fn rows(
        &mut self,
        table: &'static str,
        columns: &[&'static str],
        order: &'static str,
    ) -> Vec<SqliteRow> {
        let known: HashSet<String> = match sqlx::query_scalar("select name from pragma_table_info(?1)")
            .bind(table)
            .fetch_all(&mut self.0)
            .await
        {
            Ok(names) => names.into_iter().collect(),
            Err(error) => {
                tracing::warn!(%error, table, "a table of another program's database cannot be read");
                return Vec::new();
            }
        };
        let there: Vec<&str> = columns.iter().copied().filter(|column| known.contains(*column)).collect();
        if there.is_empty() {
            return Vec::new();
        }
        let order = if known.contains(order) { format!(" order by \"{order}\"") } else { String::new() };
        let sql = format!("select {} from \"{table}\"{order}", there.join(", "));
        // Only names from this program are in it, none from the file.
        match sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut self.0).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, table, "a table of another program's database cannot be read");
                Vec::new()
            }
        }
    }

    /// Close it.
    pub async fn close(self) {
        let _ = self.0.close().await;
    }
}

/// A text of a row, if there is one.
pub fn text(row: &SqliteRow, column: &str) -> Option<String> {
    row.try_get::<Option<String>, _>(column).ok().flatten().filter(|text| !text.is_empty())
}

/// A number of a row, if there is one.
pub fn number(row: &SqliteRow, column: &str) -> Option<i64> {
    row.try_get::<Option<i64>, _>(column).ok().flatten()
}

impl Store {
    /// Take over what is new; what we know otherwise stays.
    ///
    /// # Errors
    /// The database failed.
    pub async fn take_over(&self, data: PeerData) -> Result<TakenOver> {
        let now_ms = self.clock.now_ms();
        self.write(move |db| {
            let data = data.clone();
            Box::pin(async move {
                let mut taken = TakenOver::default();
                for (id, name, appearance) in &data.sections {
                    taken.sections += put_section(db, id, name, appearance.as_deref()).await?;
                }
                for thread in &data.threads {
                    take_thread(db, thread, &mut taken).await?;
                }
                for (thread_id, goal) in &data.goals {
                    taken.goals += u64::from(take_goal(db, thread_id, goal, now_ms).await?);
                }
                for submission in &data.queue {
                    taken.queued += u64::from(take_submission(db, submission).await?);
                }
                Ok(taken)
            })
        })
        .await
    }
}

async fn put_section(
    db: &mut SqliteConnection,
    id: &str,
    name: &str,
    appearance: Option<&str>,
) -> Result<u64> {
    let done = sqlx::query!(
        "insert into sections (section_id, name, appearance) values (?1, ?2, ?3) on conflict do nothing",
        id,
        name,
        appearance
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

async fn take_thread(db: &mut SqliteConnection, thread: &PeerThread, taken: &mut TakenOver) -> Result<()> {
    let before = sqlx::query_scalar!(
        r#"select name is null as "unnamed: bool" from threads where thread_id = ?1"#,
        thread.thread_id
    )
    .fetch_optional(&mut *db)
    .await?;
    let Some(unnamed) = before else { return Ok(()) };
    let done = sqlx::query!(
        "update threads set
             name = coalesce(name, ?2),
             archived_at_ms = iif(archived_at_ms is null, null, coalesce(?3, archived_at_ms)),
             git_sha = coalesce(git_sha, ?4),
             git_branch = coalesce(git_branch, ?5),
             git_origin_url = coalesce(git_origin_url, ?6),
             memory_mode = coalesce(memory_mode, ?7),
             recency_at_ms = max(recency_at_ms, coalesce(?8, 0)),
             section_id = coalesce(section_id, ?9),
             section_position = coalesce(section_position, ?10),
             section_entered_at_ms = coalesce(section_entered_at_ms, ?11)
         where thread_id = ?1 and (
             (name is null and ?2 is not null)
             or (archived_at_ms is not null and ?3 is not null and archived_at_ms <> ?3)
             or (git_sha is null and ?4 is not null) or (git_branch is null and ?5 is not null)
             or (git_origin_url is null and ?6 is not null) or (memory_mode is null and ?7 is not null)
             or recency_at_ms < coalesce(?8, 0) or (section_id is null and ?9 is not null))",
        thread.thread_id,
        thread.name,
        thread.archived_at_ms,
        thread.git_sha,
        thread.git_branch,
        thread.git_origin_url,
        thread.memory_mode,
        thread.recency_at_ms,
        thread.section_id,
        thread.section_position,
        thread.section_entered_at_ms
    )
    .execute(db)
    .await?;
    if done.rows_affected() > 0 {
        taken.threads += 1;
        taken.names += u64::from(unnamed && thread.name.is_some());
    }
    Ok(())
}

/// A goal is taken over once, and followed as long as nothing has happened to it here.
async fn take_goal(db: &mut SqliteConnection, thread_id: &str, goal: &GoalRow, now_ms: i64) -> Result<bool> {
    let Some(key) = thread_key(db, thread_id).await? else { return Ok(false) };
    let ours = sqlx::query_scalar!(
        r#"select count(*) as "count!: i64" from goal_events where thread_key = ?1 and kind <> 'imported'"#,
        key
    )
    .fetch_one(&mut *db)
    .await?;
    if ours > 0 {
        return Ok(false);
    }
    if let Some(known) = goals::read(db, key).await?
        && (known.goal_id != goal.goal_id || known.updated_at_ms >= goal.updated_at_ms)
    {
        return Ok(false);
    }
    goals::put(db, key, Some(goal)).await?;
    goals::log_imported(db, key, goal, now_ms).await?;
    Ok(true)
}

async fn take_submission(db: &mut SqliteConnection, submission: &PeerSubmission) -> Result<bool> {
    let Some(key) = thread_key(db, &submission.thread_id).await? else { return Ok(false) };
    let new = sqlx::query!(
        "insert into taken_submissions (submission_id) values (?1) on conflict do nothing",
        submission.submission_id
    )
    .execute(&mut *db)
    .await?;
    if new.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "insert into queue (thread_key, submission_id, place, client_id, input_json, metadata_json, created_at_ms)
         values (?1, ?2, (select coalesce(max(place), 0) + 1 from queue where thread_key = ?1), ?3, ?4, ?5, ?6)",
        key,
        submission.submission_id,
        submission.client_id,
        submission.input_json,
        submission.metadata_json,
        submission.created_at_ms
    )
    .execute(db)
    .await?;
    Ok(true)
}
