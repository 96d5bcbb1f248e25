//! The journal: the exact bytes of a thread's rollout file, in runs of whole lines.

use std::borrow::Cow;

use sqlx::SqliteConnection;

use super::append::Counters;
use super::error::{Result, StoreError};
use super::rows::Lines;
use super::{Store, key_range};

/// Below this, compressing a run does not pay.
const COMPRESS_FROM_BYTES: usize = 1024;

/// Fast, and most of what higher levels reach on JSON lines.
const ZSTD_LEVEL: i32 = 1;

/// A run of lines as read back.
#[derive(Clone, Debug)]
pub struct Run {
    /// Sequence number of its first line.
    pub first_line: i64,
    /// Position of its first byte.
    pub first_byte: i64,
    /// The lines.
    pub bytes: Vec<u8>,
}

impl Store {
    /// The runs of a thread from the one that holds this line on, oldest first, at most `limit` of them.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn journal_from_line(&self, thread_id: &str, line: i64, limit: i64) -> Result<Vec<Run>> {
        let Some(thread_key) = self.thread_key(thread_id).await? else { return Ok(Vec::new()) };
        let keys = key_range(thread_key);
        let (from, to) = (keys.start, keys.end);
        let rows = sqlx::query!(
            "select first_line, first_byte, encoding, payload from journal
             where run_key >= ?1 and run_key < ?2 and first_line + line_count > ?3
             order by run_key limit ?4",
            from,
            to,
            line,
            limit
        )
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter()
            .map(|row| {
                let bytes = unpack(row.encoding, row.payload)?;
                Ok(Run { first_line: row.first_line, first_byte: row.first_byte, bytes })
            })
            .collect()
    }

    /// The bytes of a thread's journal from this position on, at most about `limit` runs of them.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn journal_from_byte(&self, thread_id: &str, byte: i64, limit: i64) -> Result<Vec<u8>> {
        let Some(thread_key) = self.thread_key(thread_id).await? else { return Ok(Vec::new()) };
        let keys = key_range(thread_key);
        let (from, to) = (keys.start, keys.end);
        let rows = sqlx::query!(
            "select first_byte, encoding, payload from journal
             where run_key >= ?1 and run_key < ?2 and first_byte + byte_count > ?3
             order by run_key limit ?4",
            from,
            to,
            byte,
            limit
        )
        .fetch_all(&self.readers)
        .await?;
        let mut bytes = Vec::new();
        for row in rows {
            let run = unpack(row.encoding, row.payload)?;
            let skip = usize::try_from(byte - row.first_byte).unwrap_or(0).min(run.len());
            bytes.extend_from_slice(&run[skip..]);
        }
        Ok(bytes)
    }
}

/// Add lines after those that are there.
pub(super) async fn append(db: &mut SqliteConnection, before: &Counters, lines: &Lines) -> Result<()> {
    if lines.count == 0 {
        return Ok(());
    }
    let keys = key_range(before.thread_key);
    let (from, to) = (keys.start, keys.end);
    let (encoding, payload) = pack(&lines.bytes);
    let payload: &[u8] = &payload;
    let byte_count = lines.bytes.len() as i64;
    sqlx::query!(
        "insert into journal (run_key, first_line, line_count, first_byte, byte_count, encoding, payload)
         select coalesce(max(run_key) + 1, ?1), ?3, ?4, ?5, ?6, ?7, ?8
         from journal where run_key >= ?1 and run_key < ?2",
        from,
        to,
        before.lines,
        lines.count,
        before.bytes,
        byte_count,
        encoding,
        payload
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The bytes as stored, and how: compressed when that pays.
pub(super) fn pack(bytes: &[u8]) -> (i64, Cow<'_, [u8]>) {
    if bytes.len() >= COMPRESS_FROM_BYTES
        && let Ok(packed) = zstd::bulk::compress(bytes, ZSTD_LEVEL)
        && packed.len() < bytes.len() - bytes.len() / 8
    {
        return (1, Cow::Owned(packed));
    }
    (0, Cow::Borrowed(bytes))
}

/// The bytes that were packed.
pub(super) fn unpack(encoding: i64, payload: Vec<u8>) -> Result<Vec<u8>> {
    match encoding {
        0 => Ok(payload),
        _ => zstd::decode_all(payload.as_slice())
            .map_err(|error| StoreError::Database(format!("unpacking a stored payload: {error}"))),
    }
}
