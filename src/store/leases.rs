//! Leases: at most one turn runs on a thread, across all processes on the same home.
//!
//! A lease belongs to a process, shows its heartbeat and a fence that counts up with every claim. A holder that is
//! dead, or has not been heard of for [`STALE_MS`], is replaced.

use sqlx::SqliteConnection;

use super::append::Counters;
use super::error::{Result, StoreError};
use super::{Process, Store};

/// A holder that has been silent for so long is taken for dead.
pub const STALE_MS: i64 = 30_000;

/// How often a holder should be heard of.
pub const HEARTBEAT_MS: u64 = 5_000;

impl Store {
    /// Tell that this process still lives, if it holds any lease.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn heartbeat_if_held(&self) -> Result<()> {
        let (owner, now_ms) = (self.process.owner.clone(), self.clock.now_ms());
        if self.readers.is_closed() {
            return Err(StoreError::Closed);
        }
        let held = sqlx::query_scalar!("select count(*) from leases where owner = ?1", owner)
            .fetch_one(&self.readers)
            .await?;
        if held == 0 {
            return Ok(());
        }
        self.write(move |db| {
            Box::pin(async move {
                sqlx::query!("update leases set heartbeat_at_ms = ?1 where owner = ?2", now_ms, owner)
                    .execute(db)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Make turns that nobody runs any more `interrupted`, of this thread or (`None`) of all. Returns how many.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn interrupt_cut_turns(&self, thread_id: Option<&str>) -> Result<u64> {
        let thread_id = thread_id.map(str::to_owned);
        let (process, now_ms) = (self.process.clone(), self.clock.now_ms());
        self.write(move |db| {
            Box::pin(async move { interrupt_cut(db, thread_id.as_deref(), &process, now_ms).await })
        })
        .await
    }

    /// Whether a turn in progress may be running in some living process.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn turn_is_held(&self, thread_id: &str) -> Result<bool> {
        let now_ms = self.clock.now_ms();
        let lease = sqlx::query!(
            "select pid, owner, heartbeat_at_ms from leases join threads using (thread_key) where thread_id = ?1",
            thread_id
        )
        .fetch_optional(&self.readers)
        .await?;
        Ok(lease.is_some_and(|lease| {
            lease.owner == self.process.owner || lives(lease.pid, lease.heartbeat_at_ms, now_ms)
        }))
    }
}

/// Take the lease of a thread; what a dead holder left running is `interrupted`.
pub(super) async fn claim(
    db: &mut SqliteConnection,
    thread: &Counters,
    thread_id: &str,
    turn_id: &str,
    process: &Process,
    now_ms: i64,
) -> Result<()> {
    let held = sqlx::query!(
        "select turn_id, owner, pid, heartbeat_at_ms from leases where thread_key = ?1",
        thread.thread_key
    )
    .fetch_optional(&mut *db)
    .await?;
    if let Some(held) = held
        && held.owner != process.owner
        && lives(held.pid, held.heartbeat_at_ms, now_ms)
    {
        return Err(StoreError::LeaseHeld {
            thread_id: thread_id.to_owned(),
            turn_id: held.turn_id,
            pid: held.pid,
        });
    }
    sqlx::query!(
        "update turns set status = 'interrupted' where thread_key = ?1 and status = 'inProgress'",
        thread.thread_key
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into leases (thread_key, turn_id, owner, pid, fence, heartbeat_at_ms)
         values (?1, ?2, ?3, ?4, 1, ?5)
         on conflict (thread_key) do update set
             turn_id = excluded.turn_id, owner = excluded.owner, pid = excluded.pid, fence = fence + 1,
             heartbeat_at_ms = excluded.heartbeat_at_ms",
        thread.thread_key,
        turn_id,
        process.owner,
        process.pid,
        now_ms
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Give a lease back, if it is still ours.
pub(super) async fn release(db: &mut SqliteConnection, thread_key: i64, process: &Process) -> Result<()> {
    sqlx::query!("delete from leases where thread_key = ?1 and owner = ?2", thread_key, process.owner)
        .execute(db)
        .await?;
    Ok(())
}

async fn interrupt_cut(
    db: &mut SqliteConnection,
    thread_id: Option<&str>,
    process: &Process,
    now_ms: i64,
) -> Result<u64> {
    let running = sqlx::query!(
        r#"select distinct turns.thread_key as "thread_key!", leases.pid as "pid?", leases.owner as "owner?",
                  leases.heartbeat_at_ms as "heartbeat_at_ms?"
           from turns join threads using (thread_key) left join leases using (thread_key)
           where status = 'inProgress' and (?1 is null or thread_id = ?1)"#,
        thread_id
    )
    .fetch_all(&mut *db)
    .await?;
    let mut interrupted = 0;
    for row in running {
        let held = match (&row.owner, row.pid, row.heartbeat_at_ms) {
            (Some(owner), Some(pid), Some(heartbeat)) => {
                *owner == process.owner || lives(pid, heartbeat, now_ms)
            }
            _ => false,
        };
        if held {
            continue;
        }
        let done = sqlx::query!(
            "update turns set status = 'interrupted' where thread_key = ?1 and status = 'inProgress'",
            row.thread_key
        )
        .execute(&mut *db)
        .await?;
        interrupted += done.rows_affected();
        sqlx::query!("delete from leases where thread_key = ?1", row.thread_key).execute(&mut *db).await?;
    }
    Ok(interrupted)
}

/// A process that holds a lease: heard of lately, and still there on this host.
fn lives(pid: i64, heartbeat_at_ms: i64, now_ms: i64) -> bool {
    now_ms - heartbeat_at_ms < STALE_MS && is_running(pid)
}

/// Whether a process of this number runs here; one that is dead and not yet collected by its parent does not.
fn is_running(pid: i64) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the name in brackets, which may hold anything.
        Ok(stat) => !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(_) => false,
    }
}
