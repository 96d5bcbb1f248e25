//! The journal: the exact bytes of a thread's rollout file, in runs of whole lines.
//!
//! **Invariants:** the runs of a thread follow each other without gaps, in lines and in bytes, and the counters in
//! its row are where the last one ends. A run's key is its thread and its first line, so the run that holds a line is
//! the last one at or before it.

use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::append::Counters;
use super::error::{Result, StoreError};
use super::payload::{Blob, Packed, Packer, unpack};
use super::rows::Lines;
use super::{PLACE_MASK, Store, key_range, thread_key};

/// Runs are cut at the first line end after so many bytes. Longer ones hardly compress better, and who wants one line
/// unpacks its whole run.
const RUN_BYTES: usize = 128 * 1024;

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

/// A run of lines as it will be stored.
#[derive(Clone, Debug)]
pub(super) struct PackedRun {
    pub(super) line_count: i64,
    pub(super) byte_count: i64,
    pub(super) packed: Packed,
}

impl Store {
    /// The runs of a thread from the one that holds this line on, oldest first, at most `limit` of them.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn journal_from_line(&self, thread_id: &str, line: i64, limit: i64) -> Result<Vec<Run>> {
        let mut reader = self.reader().await?;
        let Some(thread_key) = thread_key(&mut reader, thread_id).await? else { return Ok(Vec::new()) };
        let keys = key_range(thread_key);
        let (from, to) = (keys.start, keys.end);
        let at = from + line.clamp(0, PLACE_MASK);
        let rows = sqlx::query!(
            r#"select run_key as "run_key!", first_byte, byte_count, encoding, payload from journal
               where run_key >= (select max(run_key) from journal where run_key between ?1 and ?3)
                 and run_key < ?2
               order by run_key limit ?4"#,
            from,
            to,
            at,
            limit
        )
        .fetch_all(&mut *reader)
        .await?;
        drop(reader);
        let mut runs = Vec::with_capacity(rows.len());
        for row in rows {
            let bytes = unpack(row.encoding, row.payload, row.byte_count)?;
            let run = Run { first_line: row.run_key & PLACE_MASK, first_byte: row.first_byte, bytes };
            // The last run of all may end before the line.
            if line < run.first_line + count_lines(&run.bytes) {
                runs.push(run);
            }
        }
        Ok(runs)
    }

    /// The bytes of a thread's journal from this position on, at most about `limit` runs of them.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn journal_from_byte(&self, thread_id: &str, byte: i64, limit: i64) -> Result<Vec<u8>> {
        let mut reader = self.reader().await?;
        let Some(thread_key) = thread_key(&mut reader, thread_id).await? else { return Ok(Vec::new()) };
        let keys = key_range(thread_key);
        let (from, to) = (keys.start, keys.end);
        // The run is looked for from the end, since it is mostly there that a mirror is behind.
        let rows = sqlx::query!(
            r#"select first_byte, byte_count, encoding, payload from journal
               where run_key >= (
                       select run_key from journal
                       where run_key >= ?1 and run_key < ?2 and first_byte <= ?3
                       order by run_key desc limit 1)
                 and run_key < ?2
               order by run_key limit ?4"#,
            from,
            to,
            byte,
            limit
        )
        .fetch_all(&mut *reader)
        .await?;
        drop(reader);
        let mut bytes = Vec::new();
        for row in rows {
            let run = unpack(row.encoding, row.payload, row.byte_count)?;
            let skip = usize::try_from(byte - row.first_byte).unwrap_or(0).min(run.len());
            bytes.extend_from_slice(&run[skip..]);
        }
        Ok(bytes)
    }
}

/// Take off the end of a thread's journal from this line on, which begins a run, moving the counters back.
///
/// # Errors
/// [`StoreError::Database`] when no run begins there.
pub(super) async fn cut_off(db: &mut SqliteConnection, end: &mut Counters, line: i64) -> Result<()> {
    let keys = key_range(end.thread_key);
    let (from, to) = (keys.start + line, keys.end);
    let first_byte = sqlx::query_scalar!("select first_byte from journal where run_key = ?1", from)
        .fetch_optional(&mut *db)
        .await?;
    let Some(first_byte) = first_byte else {
        return Err(StoreError::Database(format!("taking a line again: no run begins with line {line}")));
    };
    sqlx::query!("delete from journal where run_key >= ?1 and run_key < ?2", from, to).execute(db).await?;
    (end.lines, end.bytes) = (line, first_byte);
    Ok(())
}

/// Add runs after those that are there, moving the counters along.
pub(super) async fn append(db: &mut SqliteConnection, end: &mut Counters, runs: &[PackedRun]) -> Result<()> {
    for run in runs {
        let run_key = key_range(end.thread_key).start + end.lines;
        put(db, &[(run_key, end.bytes, run)]).await?;
        end.lines += run.line_count;
        end.bytes += run.byte_count;
    }
    Ok(())
}

/// Insert runs with their keys and first bytes.
pub(super) async fn put(db: &mut SqliteConnection, rows: &[(i64, i64, &PackedRun)]) -> Result<()> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "insert into journal (run_key, line_count, first_byte, byte_count, encoding, payload) ",
    );
    insert.push_values(rows, |mut values, (run_key, first_byte, run)| {
        values
            .push_bind(*run_key)
            .push_bind(run.line_count)
            .push_bind(*first_byte)
            .push_bind(run.byte_count)
            .push_bind(run.packed.encoding);
        run.packed.payload.bind(&mut values);
    });
    insert.build().execute(&mut *db).await?;
    for (run_key, _, run) in rows {
        run.packed.payload.fill(db, Blob::OfRun(*run_key)).await?;
    }
    Ok(())
}

/// Cut lines into runs and pack them.
///
/// # Errors
/// [`StoreError::Database`] when they are not as many as announced.
pub(super) fn cut_into_runs(lines: &Lines) -> Result<Vec<PackedRun>> {
    Packer::once().runs(&lines.bytes, lines.count)
}

/// Lines cut into runs and packed.
#[derive(Clone, Debug, Default)]
pub struct PackedLines {
    pub(super) runs: Vec<PackedRun>,
}

impl PackedLines {
    /// How many bytes the lines were.
    pub fn byte_count(&self) -> usize {
        self.runs.iter().map(|run| run.byte_count as usize).sum()
    }
}

impl Packer {
    /// Pack lines.
    ///
    /// # Errors
    /// [`StoreError::Database`] when they are not as many as announced.
    pub fn lines(&mut self, lines: Lines) -> Result<PackedLines> {
        Ok(PackedLines { runs: self.runs(&lines.bytes, lines.count)? })
    }

    /// Cut lines into runs and pack them. A last line that has not ended gets a run of its own, so that it can be
    /// taken off again.
    pub(super) fn runs(&mut self, bytes: &[u8], announced: i64) -> Result<Vec<PackedRun>> {
        let counted = count_lines(bytes);
        if counted != announced {
            return Err(StoreError::Database(format!(
                "recording lines: {announced} announced, {counted} given"
            )));
        }
        let ended = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (mut rest, unended) = bytes.split_at(ended);
        let mut runs = Vec::new();
        while !rest.is_empty() {
            let (run, after) = rest.split_at(run_length(rest));
            runs.push(self.run(run)?);
            rest = after;
        }
        if !unended.is_empty() {
            runs.push(self.run(unended)?);
        }
        Ok(runs)
    }

    fn run(&mut self, bytes: &[u8]) -> Result<PackedRun> {
        Ok(PackedRun {
            line_count: count_lines(bytes),
            byte_count: bytes.len() as i64,
            packed: self.pack_slice(bytes)?,
        })
    }
}

/// How many lines that is; the last one of an imported file may lack its end.
fn count_lines(bytes: &[u8]) -> i64 {
    // In chunks whose sums fit into a byte, which processors add up many at a time.
    let ends = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    let ends: usize = bytes.chunks(255).map(|chunk| usize::from(ends(chunk))).sum();
    let unended = bytes.last().is_some_and(|byte| *byte != b'\n');
    (ends + usize::from(unended)) as i64
}

/// The length of the first run: to the line end at or after [`RUN_BYTES`].
fn run_length(bytes: &[u8]) -> usize {
    let Some(beyond) = bytes.get(RUN_BYTES..) else { return bytes.len() };
    beyond.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| RUN_BYTES + end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::payload::Payload;
    use super::*;

    proptest! {
        #[test]
        fn runs_hold_just_the_lines_given(
            lengths in prop::collection::vec(0_usize..40_000, 0..30),
            ended in any::<bool>(),
        ) {
            let mut bytes = Vec::new();
            for length in &lengths {
                bytes.extend(std::iter::repeat_n(b'x', *length));
                bytes.push(b'\n');
            }
            if !ended {
                bytes.extend(b"cut");
            }
            let count = count_lines(&bytes);
            let runs = cut_into_runs(&Lines { bytes: bytes.clone(), count }).unwrap();
            prop_assert_eq!(runs.iter().map(|run| run.line_count).sum::<i64>(), count);
            let mut joined = Vec::new();
            for run in runs {
                let Payload::Bound(payload) = run.packed.payload else { panic!("a large run") };
                joined.extend(unpack(run.packed.encoding, payload, run.byte_count).unwrap());
            }
            prop_assert_eq!(joined, bytes);
        }
    }

    #[test]
    fn lines_other_than_announced_are_refused() {
        assert!(cut_into_runs(&Lines { bytes: b"a\nb\n".to_vec(), count: 1 }).is_err());
    }
}
