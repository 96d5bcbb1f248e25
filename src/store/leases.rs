//! Leases: at most one turn runs on a thread, across all processes on the same home.
//!
//! A lease belongs to an open store and shows its process and its last heartbeat, which the writer task renews; a
//! fence counts up with every claim of the thread. A holder whose process is gone, or that has not been heard of for
//! [`STALE_MS`], is replaced. Should it come back (it was stopped, or its host slept), the fence keeps it from writing:
//! what a turn records names its claim, and is refused when there has been another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::SqliteConnection;

use super::Store;
use super::append::Counters;
use super::error::{Result, StoreError};
use crate::clock::Clock;

/// A holder that has been silent for so long is taken for dead: it was on another host, or hangs.
pub const STALE_MS: i64 = 30_000;

/// How often a holder tells that it lives.
pub const HEARTBEAT_MS: u64 = 5_000;

/// The same, for timers.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);

/// This process and this open store, as leases name them.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Unique among all open stores that ever were.
    owner: String,
    /// Its number on this host.
    pid: i64,
    /// When it started, in ticks after boot: tells it from a later process with its number; 0 when unknown.
    pid_started: i64,
    /// Host, boot and pid namespace: where the number means anything.
    host: String,
    /// Whether a lease was claimed since the last heartbeat that found none.
    may_hold_leases: Arc<AtomicBool>,
}

/// A lease as it is stored.
struct Lease {
    turn_id: String,
    owner: String,
    pid: i64,
    pid_started: i64,
    host: String,
    heartbeat_at_ms: i64,
}

impl Process {
    pub(super) fn this(clock: &Clock) -> Process {
        let pid = i64::from(std::process::id());
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let pid_started = process_started(pid).unwrap_or(0);
        let host = format!(
            "{}/{}/{}",
            read("/proc/sys/kernel/hostname"),
            read("/proc/sys/kernel/random/boot_id"),
            namespace.display()
        );
        // The pid keeps two processes apart whose clocks are fixed by a test.
        let owner = format!("{}-{pid}", clock.new_id());
        Process { owner, pid, pid_started, host, may_hold_leases: Arc::default() }
    }

    /// The token of this open store.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    pub(super) fn may_hold_leases(&self) -> bool {
        self.may_hold_leases.load(Ordering::Relaxed)
    }

    /// Whether the holder of a lease still runs its turn, as far as we can see.
    fn sees_alive(&self, lease: &Lease, now_ms: i64) -> bool {
        if lease.owner == self.owner {
            return true;
        }
        if STALE_MS <= now_ms - lease.heartbeat_at_ms {
            return false;
        }
        // Elsewhere only the heartbeat tells.
        lease.host != self.host || process_started(lease.pid) == Some(lease.pid_started)
    }
}

/// When a process started, in ticks after boot; `None` when it does not run (any more).
fn process_started(pid: i64) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state follows the name in brackets, which may hold anything; the time is field 22 (proc(5)).
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    // One that is dead and not yet collected by its parent does not run.
    let is_dead = matches!(fields.next()?, "Z" | "X");
    if is_dead { None } else { fields.nth(18)?.parse().ok() }
}

impl Store {
    /// Tell that this process still lives, if it holds any lease. The writer does so by itself every
    /// [`HEARTBEAT_MS`].
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn heartbeat_if_held(&self) -> Result<()> {
        if self.readers.is_closed() {
            return Err(StoreError::Closed);
        }
        if !self.process.may_hold_leases() {
            return Ok(());
        }
        let (process, now_ms) = (self.process.clone(), self.clock.now_ms());
        self.write(move |db| {
            let process = process.clone();
            Box::pin(async move { beat(db, &process, now_ms).await })
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
            let (thread_id, process) = (thread_id.clone(), process.clone());
            Box::pin(async move { interrupt_cut(db, thread_id.as_deref(), &process, now_ms).await })
        })
        .await
    }

    /// Whether a turn in progress may be running in some living process, this one included.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn turn_is_held(&self, thread_id: &str) -> Result<bool> {
        let now_ms = self.clock.now_ms();
        let mut reader = self.reader().await?;
        let lease = sqlx::query_as!(
            Lease,
            r#"select turn_id as "turn_id!", owner as "owner!", pid as "pid!", pid_started as "pid_started!",
                      host as "host!", heartbeat_at_ms as "heartbeat_at_ms!"
               from leases
               where thread_key = (select thread_key from threads where thread_id = ?1) and owner is not null"#,
            thread_id
        )
        .fetch_optional(&mut *reader)
        .await?;
        Ok(lease.is_some_and(|lease| self.process.sees_alive(&lease, now_ms)))
    }
}

async fn lease_of(db: &mut SqliteConnection, thread_key: i64) -> Result<Option<Lease>> {
    Ok(sqlx::query_as!(
        Lease,
        r#"select turn_id as "turn_id!", owner as "owner!", pid as "pid!", pid_started as "pid_started!",
                  host as "host!", heartbeat_at_ms as "heartbeat_at_ms!"
           from leases where thread_key = ?1 and owner is not null"#,
        thread_key
    )
    .fetch_optional(db)
    .await?)
}

/// Who holds the lease of a thread, for people.
pub(super) async fn holder(db: &mut SqliteConnection, thread_key: i64) -> Result<String> {
    let lease = lease_of(db, thread_key).await?;
    Ok(lease.map_or_else(
        || "another process, which has given it back".to_owned(),
        |lease| format!("another process (pid {}, turn {})", lease.pid, lease.turn_id),
    ))
}

/// Take the lease of a thread; what a dead holder left running is `interrupted`. Returns the number of the claim.
pub(super) async fn claim(
    db: &mut SqliteConnection,
    thread: &Counters,
    thread_id: &str,
    turn_id: &str,
    process: &Process,
    now_ms: i64,
) -> Result<i64> {
    if let Some(lease) = lease_of(db, thread.thread_key).await?
        && lease.owner != process.owner
        && process.sees_alive(&lease, now_ms)
    {
        return Err(StoreError::LeaseHeld {
            thread_id: thread_id.to_owned(),
            turn_id: lease.turn_id,
            pid: lease.pid,
        });
    }
    interrupt_turns(db, thread.thread_key).await?;
    process.may_hold_leases.store(true, Ordering::Relaxed);
    let fence = sqlx::query_scalar!(
        "insert into leases (thread_key, turn_id, owner, pid, pid_started, host, claimed_at_ms, heartbeat_at_ms, fence)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1)
         on conflict (thread_key) do update set
             turn_id = excluded.turn_id, owner = excluded.owner, pid = excluded.pid,
             pid_started = excluded.pid_started, host = excluded.host, claimed_at_ms = excluded.claimed_at_ms,
             heartbeat_at_ms = excluded.heartbeat_at_ms, fence = fence + 1
         returning fence",
        thread.thread_key,
        turn_id,
        process.owner,
        process.pid,
        process.pid_started,
        process.host,
        now_ms
    )
    .fetch_one(db)
    .await?;
    Ok(fence)
}

/// Give a lease back, if it is still ours. Its row stays and with it the fence.
pub(super) async fn release(db: &mut SqliteConnection, thread_key: i64, process: &Process) -> Result<()> {
    sqlx::query!(
        "update leases set owner = null where thread_key = ?1 and owner = ?2",
        thread_key,
        process.owner
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Give back all that this open store holds.
pub(super) async fn release_all(db: &mut SqliteConnection, process: &Process) -> Result<()> {
    sqlx::query!("update leases set owner = null where owner = ?1", process.owner).execute(db).await?;
    Ok(())
}

/// Renew the heartbeat of all that this open store holds.
pub(super) async fn beat(db: &mut SqliteConnection, process: &Process, now_ms: i64) -> Result<()> {
    // Only the writer task claims and beats, so no claim can come in between.
    let done = sqlx::query!("update leases set heartbeat_at_ms = ?1 where owner = ?2", now_ms, process.owner)
        .execute(db)
        .await?;
    process.may_hold_leases.store(0 < done.rows_affected(), Ordering::Relaxed);
    Ok(())
}

async fn interrupt_cut(
    db: &mut SqliteConnection,
    thread_id: Option<&str>,
    process: &Process,
    now_ms: i64,
) -> Result<u64> {
    let running = sqlx::query_scalar!(
        r#"select distinct thread_key as "thread_key!" from turns
           where status = 'inProgress'
             and (?1 is null or thread_key = (select thread_key from threads where thread_id = ?1))"#,
        thread_id
    )
    .fetch_all(&mut *db)
    .await?;
    let mut interrupted = 0;
    for thread_key in running {
        let lease = lease_of(db, thread_key).await?;
        if lease.is_some_and(|lease| process.sees_alive(&lease, now_ms)) {
            continue;
        }
        interrupted += interrupt_turns(db, thread_key).await?;
        sqlx::query!("update leases set owner = null where thread_key = ?1", thread_key)
            .execute(&mut *db)
            .await?;
    }
    Ok(interrupted)
}

async fn interrupt_turns(db: &mut SqliteConnection, thread_key: i64) -> Result<u64> {
    let done = sqlx::query!(
        "update turns set status = 'interrupted' where thread_key = ?1 and status = 'inProgress'",
        thread_key
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}
