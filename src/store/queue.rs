//! Submissions that wait to become turns (`protocol/queue.md`).
//!
//! A submission leaves the queue in the transaction that stores the start of its turn (`take`): it is run once,
//! whatever happens.

use sqlx::SqliteConnection;

use super::error::{Result, StoreError};
use super::{Store, thread_key};

/// The most submissions of a thread.
pub const QUEUE_MAX: i64 = 100;

/// A submission as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedRow {
    /// The id on the wire.
    pub submission_id: String,
    /// `clientUserMessageId`.
    pub client_id: String,
    /// The input parts as wire JSON.
    pub input_json: String,
    /// `responsesapiClientMetadata` as JSON.
    pub metadata_json: Option<String>,
}

/// What became of a change of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// It is done.
    Done,
    /// There are [`QUEUE_MAX`] submissions already.
    Full,
    /// There is no such submission, or the ids are not those of the queue.
    Mismatch,
}

impl Store {
    /// Put a submission at the end.
    ///
    /// # Errors
    /// [`StoreError::NoThread`], or the database failed.
    pub async fn enqueue(&self, thread_id: &str, row: QueuedRow) -> Result<QueueChange> {
        let thread_id = thread_id.to_owned();
        let now_ms = self.clock.now_ms();
        self.write(move |db| {
            let (thread_id, row) = (thread_id.clone(), row.clone());
            Box::pin(async move {
                let key = must_be_there(db, &thread_id).await?;
                let queued = sqlx::query!(
                    r#"select count(*) as "count!: i64", coalesce(max(place), 0) as "last!: i64"
                       from queue where thread_key = ?1"#,
                    key
                )
                .fetch_one(&mut *db)
                .await?;
                if queued.count >= QUEUE_MAX {
                    return Ok(QueueChange::Full);
                }
                let place = queued.last + 1;
                sqlx::query!(
                    "insert into queue (thread_key, submission_id, place, client_id, input_json, metadata_json,
                         created_at_ms)
                     values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    key,
                    row.submission_id,
                    place,
                    row.client_id,
                    row.input_json,
                    row.metadata_json,
                    now_ms
                )
                .execute(db)
                .await?;
                Ok(QueueChange::Done)
            })
        })
        .await
    }

    /// Submissions of a thread in order, from this place of the list on.
    ///
    /// # Errors
    /// The database failed.
    pub async fn queued(&self, thread_id: &str, offset: i64, limit: i64) -> Result<Vec<QueuedRow>> {
        let mut db = self.reader().await?;
        Ok(sqlx::query_as!(
            QueuedRow,
            "select submission_id, client_id, input_json, metadata_json from queue join threads using (thread_key)
             where thread_id = ?1 order by place limit ?3 offset ?2",
            thread_id,
            offset,
            limit
        )
        .fetch_all(&mut *db)
        .await?)
    }

    /// One submission of a thread.
    ///
    /// # Errors
    /// The database failed.
    pub async fn queued_submission(&self, thread_id: &str, submission_id: &str) -> Result<Option<QueuedRow>> {
        let mut db = self.reader().await?;
        Ok(sqlx::query_as!(
            QueuedRow,
            "select submission_id, client_id, input_json, metadata_json from queue join threads using (thread_key)
             where thread_id = ?1 and submission_id = ?2",
            thread_id,
            submission_id
        )
        .fetch_optional(&mut *db)
        .await?)
    }

    /// Replace the input of a submission, and its metadata if there is any.
    ///
    /// # Errors
    /// The database failed.
    pub async fn update_queued(&self, thread_id: &str, row: QueuedRow) -> Result<QueueChange> {
        let thread_id = thread_id.to_owned();
        self.write(move |db| {
            let (thread_id, row) = (thread_id.clone(), row.clone());
            Box::pin(async move {
                let key = must_be_there(db, &thread_id).await?;
                let done = sqlx::query!(
                    "update queue set input_json = ?3, metadata_json = coalesce(?4, metadata_json)
                     where thread_key = ?1 and submission_id = ?2",
                    key,
                    row.submission_id,
                    row.input_json,
                    row.metadata_json
                )
                .execute(db)
                .await?;
                Ok(if done.rows_affected() == 1 { QueueChange::Done } else { QueueChange::Mismatch })
            })
        })
        .await
    }

    /// Take a submission out.
    ///
    /// # Errors
    /// The database failed.
    pub async fn delete_queued(&self, thread_id: &str, submission_id: &str) -> Result<bool> {
        let (thread_id, submission_id) = (thread_id.to_owned(), submission_id.to_owned());
        self.write(move |db| {
            let (thread_id, submission_id) = (thread_id.clone(), submission_id.clone());
            Box::pin(async move {
                let key = must_be_there(db, &thread_id).await?;
                delete(db, key, &submission_id).await
            })
        })
        .await
    }

    /// Put the submissions into this order, which must name each once.
    ///
    /// # Errors
    /// The database failed.
    pub async fn reorder_queue(&self, thread_id: &str, ids: Vec<String>) -> Result<QueueChange> {
        let thread_id = thread_id.to_owned();
        self.write(move |db| {
            let (thread_id, ids) = (thread_id.clone(), ids.clone());
            Box::pin(async move {
                let key = must_be_there(db, &thread_id).await?;
                let rows = sqlx::query!(
                    "select submission_id, place from queue where thread_key = ?1 order by place",
                    key
                )
                .fetch_all(&mut *db)
                .await?;
                let mut known: Vec<&str> = rows.iter().map(|row| row.submission_id.as_str()).collect();
                let mut named: Vec<&str> = ids.iter().map(String::as_str).collect();
                known.sort_unstable();
                named.sort_unstable();
                if known != named {
                    return Ok(QueueChange::Mismatch);
                }
                // Behind the last place there is room for all, so that no two ever have the same.
                let last = rows.last().map_or(0, |row| row.place);
                for (place, id) in (last + 1..).zip(&ids) {
                    sqlx::query!("update queue set place = ?2 where submission_id = ?1", id, place)
                        .execute(&mut *db)
                        .await?;
                }
                Ok(QueueChange::Done)
            })
        })
        .await
    }

    /// Whether a thread has submissions, and whether its last turn was interrupted.
    ///
    /// # Errors
    /// The database failed.
    pub async fn queue_at_rest(&self, thread_id: &str) -> Result<(bool, bool)> {
        let mut db = self.reader().await?;
        let row = sqlx::query!(
            r#"select exists (select 1 from queue where queue.thread_key = threads.thread_key) as "queued!: bool",
                      coalesce((
                          select status = 'interrupted' from turns
                          where turn_key >= threads.thread_key << 32 and turn_key < (threads.thread_key + 1) << 32
                          order by turn_key desc limit 1
                      ), 0) as "interrupted!: bool"
               from threads where thread_id = ?1"#,
            thread_id
        )
        .fetch_optional(&mut *db)
        .await?;
        Ok(row.map_or((false, false), |row| (row.queued, row.interrupted)))
    }

    /// The threads that have submissions.
    ///
    /// # Errors
    /// The database failed.
    pub async fn threads_with_a_queue(&self) -> Result<Vec<String>> {
        let mut db = self.reader().await?;
        Ok(sqlx::query_scalar!("select distinct thread_id from queue join threads using (thread_key)")
            .fetch_all(&mut *db)
            .await?)
    }
}

/// Take the submission out that becomes a turn now.
///
/// # Errors
/// [`StoreError::QueueTaken`]: it is not there any more.
pub(super) async fn take(db: &mut SqliteConnection, thread_key: i64, submission_id: &str) -> Result<()> {
    if delete(db, thread_key, submission_id).await? {
        Ok(())
    } else {
        Err(StoreError::QueueTaken(submission_id.to_owned()))
    }
}

async fn delete(db: &mut SqliteConnection, thread_key: i64, submission_id: &str) -> Result<bool> {
    let done = sqlx::query!(
        "delete from queue where thread_key = ?1 and submission_id = ?2",
        thread_key,
        submission_id
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn must_be_there(db: &mut SqliteConnection, thread_id: &str) -> Result<i64> {
    thread_key(db, thread_id).await?.ok_or_else(|| StoreError::NoThread(thread_id.to_owned()))
}
