//! Appending to a thread: its lines and all that is derived from them, in one transaction.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::SqliteConnection;

use super::error::{Result, StoreError};
use super::journal::{self, PackedRun};
use super::leases::Process;
use super::payload::{Packed, Packer};
use super::rows::{Append, Appended, LeaseChange, TokenCounts};
use super::{PLACE_MASK, Store, goals, items, leases, ledger, queue, threads, turns};

impl Store {
    /// Record a change of a thread.
    ///
    /// # Errors
    /// [`StoreError::NoThread`], [`StoreError::JournalMoved`], [`StoreError::LeaseHeld`], [`StoreError::LeaseLost`], or
    /// a failure of the database; nothing is stored then.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the change back.
    pub async fn append(&self, append: Append) -> Result<Appended> {
        // Packed here, in the caller's task, and not while everybody waits for the writer.
        let prepared = Arc::new(Prepared::new(append)?);
        let process = self.process.clone();
        let now_ms = self.clock.now_ms();
        self.write(move |db| {
            let (prepared, process) = (prepared.clone(), process.clone());
            Box::pin(async move { apply(db, &prepared, &process, now_ms).await })
        })
        .await
    }
}

/// An append whose lines are cut into runs and whose texts are packed.
pub(super) struct Prepared {
    /// The rest of it; its lines and the JSON of its items are moved out.
    append: Append,
    runs: Vec<PackedRun>,
    items: Vec<Packed>,
}

impl Prepared {
    /// Pack an append.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the lines are not as many as announced.
    pub(super) fn new(mut append: Append) -> Result<Prepared> {
        let runs = journal::cut_into_runs(&std::mem::take(&mut append.lines))?;
        let texts = append.items.iter_mut().map(|item| std::mem::take(&mut item.json));
        let items = texts.map(|json| Packer::once().pack(json)).collect::<Result<_>>()?;
        Ok(Prepared { append, runs, items })
    }
}

/// The counters of a thread's journal.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub(super) thread_key: i64,
    pub(super) lines: i64,
    pub(super) bytes: i64,
}

/// What an append has to know of its thread beforehand.
struct ThreadState {
    counters: Counters,
    next_turn: i64,
    next_item: i64,
    next_usage: i64,
    total_usage: TokenCounts,
    /// The claim by which this open store holds the lease, if it does.
    fence: Option<i64>,
}

/// Apply a change inside the writer's transaction.
pub(super) async fn apply(
    db: &mut SqliteConnection,
    prepared: &Prepared,
    process: &Process,
    now_ms: i64,
) -> Result<Appended> {
    let append = &prepared.append;
    if let Some(row) = &append.create {
        threads::insert(db, row).await?;
    }
    let Some(state) = read_state(db, &append.thread_id, process).await? else {
        return Err(StoreError::NoThread(append.thread_id.clone()));
    };
    let before = state.counters;
    if append.expected_lines.is_some_and(|expected| expected != before.lines) {
        return Err(StoreError::JournalMoved(append.thread_id.clone()));
    }
    if append.expected_fence.is_some() && append.expected_fence != state.fence {
        let holder = leases::holder(db, before.thread_key).await?;
        return Err(StoreError::LeaseLost { thread_id: append.thread_id.clone(), holder });
    }
    let mut fence = None;
    match &append.lease {
        LeaseChange::Keep => {}
        LeaseChange::Claim { turn_id } => {
            let claim = leases::claim(db, &before, &append.thread_id, turn_id, process, now_ms);
            fence = Some(claim.await?);
        }
        LeaseChange::Release => leases::release(db, before.thread_key, process).await?,
    }
    let mut after = before;
    journal::append(db, &mut after, &prepared.runs).await?;
    let mut turn_keys = HashMap::new();
    turns::upsert(db, before.thread_key, state.next_turn, &append.turns, &mut turn_keys).await?;
    let items = append.items.iter().zip(&prepared.items);
    items::upsert(db, before.thread_key, state.next_item, items, &mut turn_keys).await?;
    let charged = ledger::insert(db, before.thread_key, state.next_usage, &append.usage).await?;
    let goal = match &append.goal {
        Some(charge) => goals::charge(db, before.thread_key, charge, charged, now_ms).await?,
        None => None,
    };
    if let Some(submission_id) = &append.take_queued {
        queue::take(db, before.thread_key, submission_id).await?;
    }
    let context_from = append.context_restart.map(|index| before.lines + index);
    threads::move_end(db, &after, context_from).await?;
    threads::patch(db, before.thread_key, &append.patch).await?;
    Ok(Appended {
        fence,
        lines: before.lines..after.lines,
        bytes: before.bytes..after.bytes,
        total_usage: state.total_usage + charged,
        goal,
    })
}

/// One statement, since it is part of every step of every turn: the ends of the thread's key ranges and its sums.
async fn read_state(
    db: &mut SqliteConnection,
    thread_id: &str,
    process: &Process,
) -> Result<Option<ThreadState>> {
    let owner = process.owner();
    let row = sqlx::query!(
        r#"with bounds as materialized (
               select thread_key << 32 as low, (thread_key + 1) << 32 as high from threads where thread_id = ?1
           )
           select threads.thread_key, journal_lines, journal_bytes,
                  (select fence from leases where leases.thread_key = threads.thread_key and owner = ?2)
                      as "fence: i64",
                  (select max(turn_key) from turns, bounds where low <= turn_key and turn_key < high)
                      as "last_turn: i64",
                  (select max(item_key) from items, bounds where low <= item_key and item_key < high)
                      as "last_item: i64",
                  (select max(usage_key) from token_usage, bounds where low <= usage_key and usage_key < high)
                      as "last_usage: i64",
                  inherited_input + own.input as "input!: i64",
                  inherited_cached_input + own.cached_input as "cached_input!: i64",
                  inherited_cache_write_input + own.cache_write_input as "cache_write_input!: i64",
                  inherited_output + own.output as "output!: i64",
                  inherited_reasoning_output + own.reasoning_output as "reasoning_output!: i64",
                  inherited_total + own.total as "total!: i64"
           from threads
           cross join (
               select coalesce(sum(input), 0) as input, coalesce(sum(cached_input), 0) as cached_input,
                      coalesce(sum(cache_write_input), 0) as cache_write_input,
                      coalesce(sum(output), 0) as output,
                      coalesce(sum(reasoning_output), 0) as reasoning_output, coalesce(sum(total), 0) as total
               from token_usage, bounds
               where low <= usage_key and usage_key < high
           ) as own
           where threads.thread_id = ?1"#,
        thread_id,
        owner
    )
    .fetch_optional(db)
    .await?;
    let next = |last: Option<i64>| last.map_or(0, |key| (key & PLACE_MASK) + 1);
    Ok(row.map(|row| ThreadState {
        counters: Counters { thread_key: row.thread_key, lines: row.journal_lines, bytes: row.journal_bytes },
        next_turn: next(row.last_turn),
        next_item: next(row.last_item),
        next_usage: next(row.last_usage),
        fence: row.fence,
        total_usage: TokenCounts {
            input: row.input,
            cached_input: row.cached_input,
            cache_write_input: row.cache_write_input,
            output: row.output,
            reasoning_output: row.reasoning_output,
            total: row.total,
        },
    }))
}
