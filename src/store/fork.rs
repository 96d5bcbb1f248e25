//! Forking: a new thread with the beginning of another's history.

use std::sync::Arc;

use sqlx::SqliteConnection;

use super::append::Counters;
use super::error::{Result, StoreError};
use super::journal;
use super::ledger;
use super::payload::unpack;
use super::rows::{Lines, ThreadRow, TokenCounts};
use super::{PLACE_MASK, Store, key_range, threads};

/// What is taken over from a thread, and as what.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The thread that is forked.
    pub source_id: String,
    /// The new thread.
    pub row: ThreadRow,
    /// The new journal's own first lines.
    pub head: Lines,
    /// How many of the source's first lines `head` stands for.
    pub skip_lines: i64,
    /// Lines of the source from this one on are left out.
    pub end_line: i64,
    /// Turns of the source after this place are left out; `None` leaves out all.
    pub last_turn_place: Option<i64>,
    /// Lines that follow those of the source.
    pub tail: Lines,
}

/// Tokens that came with a fork.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inherited {
    /// Sums over what was taken over.
    pub total: TokenCounts,
    /// The last response in it, and its turn.
    pub last: Option<(String, TokenCounts)>,
}

impl Store {
    /// Make a fork in one transaction. Turns of the source that still run are `interrupted` in it.
    ///
    /// # Errors
    /// [`StoreError::NoThread`], or a failure of the database.
    pub async fn fork_thread(&self, fork: Fork) -> Result<Inherited> {
        let fork = Arc::new(fork);
        self.write(move |db| {
            let fork = fork.clone();
            Box::pin(async move { apply(db, &fork).await })
        })
        .await
    }
}

async fn apply(db: &mut SqliteConnection, fork: &Fork) -> Result<Inherited> {
    let Some(source) = threads::counters(db, &fork.source_id).await? else {
        return Err(StoreError::NoThread(fork.source_id.clone()));
    };
    let inherited = inherited_usage(db, &source, fork.last_turn_place).await?;
    let row = ThreadRow { inherited_usage: inherited.total, ..fork.row.clone() };
    threads::insert(db, &row).await?;
    let Some(mut target) = threads::counters(db, &row.thread_id).await? else {
        return Err(StoreError::NoThread(row.thread_id));
    };
    push(db, &mut target, &fork.head).await?;
    copy_lines(db, &source, &mut target, fork.skip_lines, fork.end_line).await?;
    let shift = fork.head.count - fork.skip_lines;
    if let Some(last_place) = fork.last_turn_place {
        copy_turns(db, &source, &target, last_place, shift).await?;
    }
    push(db, &mut target, &fork.tail).await?;
    let context_from =
        sqlx::query_scalar!("select context_from_line from threads where thread_key = ?1", source.thread_key)
            .fetch_one(&mut *db)
            .await?;
    // A compaction that is not taken over leaves the context to start at the beginning.
    let context_from =
        if context_from < fork.end_line && context_from > 0 { context_from + shift } else { 0 };
    sqlx::query!(
        "update threads set journal_lines = ?2, journal_bytes = ?3, context_from_line = ?4 where thread_key = ?1",
        target.thread_key,
        target.lines,
        target.bytes,
        context_from
    )
    .execute(db)
    .await?;
    Ok(inherited)
}

async fn push(db: &mut SqliteConnection, target: &mut Counters, lines: &Lines) -> Result<()> {
    journal::append(db, target, &journal::cut_into_runs(lines)?).await
}

/// Copy the lines from `skip` up to `end`, run by run.
async fn copy_lines(
    db: &mut SqliteConnection,
    source: &Counters,
    target: &mut Counters,
    skip: i64,
    end: i64,
) -> Result<()> {
    let keys = key_range(source.thread_key);
    let (mut from, to) = (keys.start, keys.start + end.clamp(0, keys.end - keys.start));
    while let Some(run) = sqlx::query!(
        r#"select run_key as "run_key!", line_count, byte_count, encoding, payload from journal
           where run_key >= ?1 and run_key < ?2 order by run_key limit 1"#,
        from,
        to
    )
    .fetch_optional(&mut *db)
    .await?
    {
        from = run.run_key + 1;
        let first_line = run.run_key & PLACE_MASK;
        let bytes = unpack(run.encoding, run.payload, run.byte_count)?;
        let first = (skip - first_line).clamp(0, run.line_count);
        let last = (end - first_line).clamp(first, run.line_count);
        let kept = cut(&bytes, first, last);
        push(db, target, &Lines { bytes: kept.to_vec(), count: last - first }).await?;
    }
    Ok(())
}

/// The lines `first..last` of a run.
fn cut(bytes: &[u8], first: i64, last: i64) -> &[u8] {
    let offset = |line: i64| match line {
        0 => 0,
        line => {
            let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            ends.nth(line as usize - 1).map_or(bytes.len(), |(at, _)| at + 1)
        }
    };
    &bytes[offset(first)..offset(last)]
}

async fn copy_turns(
    db: &mut SqliteConnection,
    source: &Counters,
    target: &Counters,
    last_place: i64,
    shift: i64,
) -> Result<()> {
    let keys = key_range(source.thread_key);
    let (from, to) = (keys.start, keys.end);
    let move_key = key_range(target.thread_key).start - from;
    sqlx::query!(
        "insert into turns (turn_key, thread_key, turn_id, root_turn_id, status, error_json, started_at_ms,
             completed_at_ms, duration_ms, first_line, end_line)
         select turn_key + ?3, ?4, turn_id, root_turn_id, iif(status = 'inProgress', 'interrupted', status), error_json,
                started_at_ms, completed_at_ms, duration_ms, first_line + ?5, end_line + ?5
         from turns where turn_key >= ?1 and turn_key <= ?2",
        from,
        last_place,
        move_key,
        target.thread_key,
        shift
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into items (item_key, turn_key, item_id, kind, encoding, payload, started_at_ms, completed_at_ms)
         select item_key + ?4, turn_key + ?4, item_id, kind, encoding, payload, started_at_ms, completed_at_ms
         from items where item_key >= ?1 and item_key < ?2 and turn_key <= ?3",
        from,
        to,
        last_place,
        move_key
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The tokens of the turns taken over, those that the source inherited included.
async fn inherited_usage(
    db: &mut SqliteConnection,
    source: &Counters,
    last_place: Option<i64>,
) -> Result<Inherited> {
    let first_place = key_range(source.thread_key).start;
    let last_place = last_place.unwrap_or(first_place - 1);
    let left_out = sqlx::query!(
        r#"select coalesce(sum(input), 0) as "input!: i64", coalesce(sum(cached_input), 0) as "cached_input!: i64",
                  coalesce(sum(cache_write_input), 0) as "cache_write_input!: i64",
                  coalesce(sum(output), 0) as "output!: i64",
                  coalesce(sum(reasoning_output), 0) as "reasoning_output!: i64",
                  coalesce(sum(total), 0) as "total!: i64"
           from token_usage
           where thread_key = ?1
             and turn_id not in (select turn_id from turns where turn_key >= ?2 and turn_key <= ?3)"#,
        source.thread_key,
        first_place,
        last_place
    )
    .fetch_one(&mut *db)
    .await?;
    let all = ledger::totals(&mut *db, source.thread_key).await?;
    let last = sqlx::query!(
        "select turn_id, input, cached_input, cache_write_input, output, reasoning_output, total from token_usage
         where thread_key = ?1 and turn_id in (select turn_id from turns where turn_key >= ?2 and turn_key <= ?3)
         order by usage_key desc limit 1",
        source.thread_key,
        first_place,
        last_place
    )
    .fetch_optional(db)
    .await?;
    Ok(Inherited {
        total: TokenCounts {
            input: all.input - left_out.input,
            cached_input: all.cached_input - left_out.cached_input,
            cache_write_input: all.cache_write_input - left_out.cache_write_input,
            output: all.output - left_out.output,
            reasoning_output: all.reasoning_output - left_out.reasoning_output,
            total: all.total - left_out.total,
        },
        last: last.map(|row| {
            let tokens = TokenCounts {
                input: row.input,
                cached_input: row.cached_input,
                cache_write_input: row.cache_write_input,
                output: row.output,
                reasoning_output: row.reasoning_output,
                total: row.total,
            };
            (row.turn_id, tokens)
        }),
    })
}
