//! Appending to a thread: its lines and all that is derived from them, in one transaction.

use sqlx::SqliteConnection;

use super::error::{Result, StoreError};
use super::rows::{Append, Appended, LeaseChange};
use super::{Process, Store, items, journal, leases, ledger, threads, turns};

impl Store {
    /// Record a change of a thread.
    ///
    /// # Errors
    /// [`StoreError::NoThread`], [`StoreError::JournalMoved`], [`StoreError::LeaseHeld`], or a failure of the
    /// database; nothing is stored then.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the change back.
    pub async fn append(&self, append: Append) -> Result<Appended> {
        let process = self.process.clone();
        let now_ms = self.clock.now_ms();
        self.write(move |db| Box::pin(async move { apply(db, &append, &process, now_ms).await })).await
    }
}

/// The counters of a thread's journal.
pub(super) struct Counters {
    pub(super) thread_key: i64,
    pub(super) lines: i64,
    pub(super) bytes: i64,
}

/// Apply a change inside the writer's transaction.
pub(super) async fn apply(
    db: &mut SqliteConnection,
    append: &Append,
    process: &Process,
    now_ms: i64,
) -> Result<Appended> {
    if let Some(row) = &append.create {
        threads::insert(db, row).await?;
    }
    let Some(before) = threads::counters(db, &append.thread_id).await? else {
        return Err(StoreError::NoThread(append.thread_id.clone()));
    };
    if append.expected_lines.is_some_and(|expected| expected != before.lines) {
        return Err(StoreError::JournalMoved(append.thread_id.clone()));
    }
    match &append.lease {
        LeaseChange::Keep => {}
        LeaseChange::Claim { turn_id } => {
            leases::claim(db, &before, &append.thread_id, turn_id, process, now_ms).await?;
        }
        LeaseChange::Release => leases::release(db, before.thread_key, process).await?,
    }
    journal::append(db, &before, &append.lines).await?;
    for turn in &append.turns {
        turns::upsert(db, before.thread_key, turn).await?;
    }
    for item in &append.items {
        items::upsert(db, before.thread_key, item).await?;
    }
    for usage in &append.usage {
        ledger::insert(db, before.thread_key, usage).await?;
    }
    let after = Counters {
        thread_key: before.thread_key,
        lines: before.lines + append.lines.count,
        bytes: before.bytes + append.lines.bytes.len() as i64,
    };
    let context_from = append.context_restart.map(|index| before.lines + index);
    threads::patch(db, &after, context_from, &append.patch).await?;
    let total_usage = if append.usage.is_empty() {
        Default::default()
    } else {
        ledger::totals(db, before.thread_key).await?
    };
    Ok(Appended { lines: before.lines..after.lines, bytes: before.bytes..after.bytes, total_usage })
}
