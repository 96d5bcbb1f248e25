//! The one task that changes the database.
//!
//! It takes what is waiting, runs each unit under a savepoint inside one `begin immediate`, commits once, and then
//! answers all: a lone change pays one fsync, a hundred at a time share it.
//!
//! # Promises
//!
//! - An answer comes after the commit. A failing unit is rolled back alone; a failing commit fails all its units.
//! - A unit that is queued is run, whether or not anybody still waits for its answer.
//! - Units of the second queue (a big import) give way to those of the first, and hold them up for one unit at most.
//! - While another process holds the lock nothing fails until [`WriterOptions::busy_patience`] is over.
//!
//! **Invariant:** transactions are begun and ended here, by plain statements; a unit must not begin one.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::{Result, StoreError, code, primary_code};
use super::{Process, leases};
use crate::clock::Clock;

/// Changes that may wait; a caller with one more waits for a place.
const QUEUE_MAX: usize = 1024;

/// Units in one commit: enough to make the fsync cheap, few enough to answer soon.
const BATCH_UNITS_MAX: usize = 128;

/// After so long a batch is committed with the units it has, so that a big import does not hold up a turn.
const BATCH_TIME_MAX: Duration = Duration::from_millis(20);

/// The same for changes of the second queue, which give way as soon as one of the first waits.
const BATCH_TIME_BEHIND_MAX: Duration = Duration::from_millis(100);

/// Changes of the second queue that may wait; each is large.
const BEHIND_MAX: usize = 8;

/// So many commits of the first queue may come before a change of the second one that waits.
const COMMITS_AHEAD_MAX: usize = 8;

/// Handle of the writer task. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Box<dyn Unit>>,
    behind: mpsc::Sender<Box<dyn Unit>>,
    close: CancellationToken,
    closed: CancellationToken,
}

/// What the task needs beside its connection.
#[derive(Debug)]
pub(super) struct WriterOptions {
    /// How to open the connection again should it break.
    pub connect: SqliteConnectOptions,
    /// How long to wait for another process's lock before a change fails.
    pub busy_patience: Duration,
    /// Whose leases are kept alive, and handed back at the end.
    pub process: Process,
    /// The time of heartbeats.
    pub clock: Clock,
}

impl Writer {
    /// Start the task on its connection.
    pub fn start(connection: SqliteConnection, options: WriterOptions) -> Writer {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (behind, waiting_behind) = mpsc::channel(BEHIND_MAX);
        let close = CancellationToken::new();
        let closed = CancellationToken::new();
        let next_heartbeat = Instant::now() + leases::HEARTBEAT;
        let task = WriterTask {
            connection,
            options,
            waiting,
            waiting_behind,
            left_behind: VecDeque::new(),
            commits_ahead: 0,
            close: close.clone(),
            next_heartbeat,
        };
        let closed_guard = closed.clone().drop_guard();
        tokio::spawn(async move {
            task.work().await;
            drop(closed_guard);
        });
        Writer { queue, behind, close, closed }
    }

    /// Queue a unit and wait for its commit.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for a place in the queue nothing happens; dropped later the unit is still run.
    pub async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'c> FnMut(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        send(&self.queue, work).await
    }

    /// The same in the second queue, which gives way to the first. What waits there when the store is closed is not
    /// run.
    ///
    /// # Cancel safety
    ///
    /// As above.
    pub async fn write_behind<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'c> FnMut(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        send(&self.behind, work).await
    }

    /// Take no more changes, commit the queued ones, close the file; returns when that is done.
    pub async fn close(&self) {
        self.close.cancel();
        self.closed.cancelled().await;
    }
}

async fn send<T, W>(queue: &mpsc::Sender<Box<dyn Unit>>, work: W) -> Result<T>
where
    T: Send + 'static,
    W: for<'c> FnMut(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let unit = Box::new(Change { work, value: None, reply });
    queue.send(unit).await.map_err(|_| StoreError::Closed)?;
    answer.await.unwrap_or(Err(StoreError::Closed))
}

/// A change with a place for its answer.
trait Unit: Send {
    /// Do it; called again after a rollback.
    fn run<'u>(&'u mut self, connection: &'u mut SqliteConnection) -> BoxFuture<'u, Result<()>>;
    /// Tell the one who asked.
    fn answer(self: Box<Self>, outcome: Result<()>);
}

struct Change<T, W> {
    work: W,
    value: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, W> Unit for Change<T, W>
where
    T: Send + 'static,
    W: for<'c> FnMut(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send,
{
    fn run<'u>(&'u mut self, connection: &'u mut SqliteConnection) -> BoxFuture<'u, Result<()>> {
        Box::pin(async move {
            self.value = Some((self.work)(connection).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let Change { value, reply, .. } = *self;
        // A unit that ended well has left a value.
        let answer = outcome.and_then(|()| value.ok_or(StoreError::Closed));
        // An error here says that nobody waits any more.
        let _ = reply.send(answer);
    }
}

struct WriterTask {
    connection: SqliteConnection,
    options: WriterOptions,
    waiting: mpsc::Receiver<Box<dyn Unit>>,
    waiting_behind: mpsc::Receiver<Box<dyn Unit>>,
    /// Units of the second queue that were taken from it and gave way.
    left_behind: VecDeque<Box<dyn Unit>>,
    /// Commits of the first queue since the last of the second.
    commits_ahead: usize,
    close: CancellationToken,
    next_heartbeat: Instant,
}

impl WriterTask {
    async fn work(mut self) {
        while let Some(taken) = self.take_waiting().await {
            match taken {
                Taken::Units(units) => {
                    self.commits_ahead += 1;
                    self.commit(units).await;
                }
                Taken::Behind => {
                    self.commits_ahead = 0;
                    self.commit_behind().await;
                }
            }
        }
        self.finish().await;
    }

    /// The units that wait, at least one; `None` when there will be no more.
    async fn take_waiting(&mut self) -> Option<Taken> {
        let first = loop {
            self.take_behind();
            if !self.left_behind.is_empty()
                && !self.close.is_cancelled()
                && (self.waiting.is_empty() || COMMITS_AHEAD_MAX <= self.commits_ahead)
            {
                return Some(Taken::Behind);
            }
            if self.waiting.is_closed() {
                // Not `recv`: it would also wait for senders that have a place but are not being polled.
                break self.waiting.try_recv().ok();
            }
            // Only waiting is selected over; what is taken is worked off before the next round.
            tokio::select! {
                biased;
                () = self.close.cancelled() => self.waiting.close(),
                () = tokio::time::sleep_until(self.next_heartbeat) => self.heartbeat().await,
                first = self.waiting.recv() => break first,
                Some(unit) = self.waiting_behind.recv() => self.left_behind.push_back(unit),
            }
        };
        let mut units = VecDeque::from([first?]);
        while units.len() < BATCH_UNITS_MAX
            && let Ok(unit) = self.waiting.try_recv()
        {
            units.push_back(unit);
        }
        Some(Taken::Units(units))
    }

    /// Bring over what waits in the second queue.
    fn take_behind(&mut self) {
        while self.left_behind.len() < BEHIND_MAX
            && let Ok(unit) = self.waiting_behind.try_recv()
        {
            self.left_behind.push_back(unit);
        }
    }

    /// Units of the second queue in one transaction, until one of the first queue waits.
    async fn commit_behind(&mut self) {
        let mut units = std::mem::take(&mut self.left_behind);
        if let [_] = units.make_contiguous()
            && let Some(unit) = units.pop_front()
        {
            return self.commit_alone(unit).await;
        }
        self.commit_together(&mut units, BATCH_TIME_BEHIND_MAX, |task| !task.waiting.is_empty()).await;
        units.append(&mut self.left_behind);
        self.left_behind = units;
    }

    /// Tell that we live, if we may hold leases. A failure shows at the next beat or as a lost lease.
    async fn heartbeat(&mut self) {
        self.next_heartbeat = Instant::now() + leases::HEARTBEAT;
        if !self.options.process.may_hold_leases() {
            return;
        }
        let now_ms = self.options.clock.now_ms();
        if let Err(error) = leases::beat(&mut self.connection, &self.options.process, now_ms).await {
            tracing::warn!(%error, "a heartbeat could not be written");
        }
    }

    async fn commit(&mut self, mut units: VecDeque<Box<dyn Unit>>) {
        while let Some(unit) = units.pop_front() {
            if units.is_empty() {
                self.commit_alone(unit).await;
            } else {
                units.push_front(unit);
                self.commit_together(&mut units, BATCH_TIME_MAX, |_| false).await;
            }
        }
    }

    /// One unit, one transaction: no savepoint needed.
    async fn commit_alone(&mut self, mut unit: Box<dyn Unit>) {
        let outcome = match self.begin().await {
            Ok(()) => match run_unit(unit.as_mut(), &mut self.connection).await {
                Ok(()) => self.end().await,
                Err(error) => {
                    self.roll_back().await;
                    Err(error)
                }
            },
            Err(error) => Err(error),
        };
        unit.answer(outcome);
    }

    /// As many units as fit into the time of one transaction, at least one, or until they are to give way.
    async fn commit_together(
        &mut self,
        units: &mut VecDeque<Box<dyn Unit>>,
        time_max: Duration,
        gives_way: fn(&Self) -> bool,
    ) {
        if let Err(error) = self.begin().await {
            units.drain(..).for_each(|unit| unit.answer(Err(error.clone())));
            return;
        }
        let began = Instant::now();
        let mut done = Vec::with_capacity(units.len());
        while (done.is_empty() || began.elapsed() < time_max && !gives_way(self))
            && let Some(mut unit) = units.pop_front()
        {
            match self.run_under_savepoint(unit.as_mut()).await {
                Ok(outcome) => done.push((unit, outcome)),
                Err(TransactionLost) => {
                    self.roll_back().await;
                    done.push((unit, Ok(())));
                    return self.commit_each_again(done).await;
                }
            }
        }
        let committed = self.end().await;
        for (unit, outcome) in done {
            unit.answer(outcome.and(committed.clone()));
        }
    }

    async fn run_under_savepoint(&mut self, unit: &mut dyn Unit) -> Result<Result<()>, TransactionLost> {
        self.execute("savepoint unit").await.map_err(|_| TransactionLost)?;
        let outcome = run_unit(unit, &mut self.connection).await;
        let end = if outcome.is_ok() { "release unit" } else { "rollback to unit; release unit" };
        self.execute(end).await.map_err(|_| TransactionLost)?;
        Ok(outcome)
    }

    /// The transaction these units had succeeded in is gone: one of them, say, filled the disk. Each gets
    /// another one for itself, so that only the guilty fail.
    async fn commit_each_again(&mut self, units: Vec<(Box<dyn Unit>, Result<()>)>) {
        for (unit, outcome) in units {
            match outcome {
                Ok(()) => self.commit_alone(unit).await,
                Err(_) => unit.answer(outcome),
            }
        }
    }

    /// Begin a transaction that may write, after waiting for other processes.
    async fn begin(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.options.busy_patience;
        loop {
            match self.execute("begin immediate").await {
                Ok(()) => return Ok(()),
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(sqlx::Error::WorkerCrashed) => {
                    tracing::error!("the writing connection broke; opening it again");
                    self.connection = self.options.connect.connect().await?;
                    self.execute("begin immediate").await?;
                    return Ok(());
                }
                Err(error) => {
                    // The last unit may have left a transaction open if it was lost half-way.
                    self.roll_back().await;
                    return Err(error.into());
                }
            }
        }
    }

    /// Commit, after waiting for other processes; when that fails nothing of the transaction is stored.
    async fn end(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.options.busy_patience;
        loop {
            match self.execute("commit").await {
                Ok(()) => return Ok(()),
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(error) => {
                    self.roll_back().await;
                    return Err(error.into());
                }
            }
        }
    }

    /// Roll back; SQLite may have done so by itself already (on a full disk, for example), which is as good.
    async fn roll_back(&mut self) {
        let _ = self.execute("rollback").await;
    }

    async fn execute(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        sqlx::query(sql).execute(&mut self.connection).await.map(drop)
    }

    /// Leave the file as one that nobody has open: leases free, WAL in the database, statistics fresh. All of it
    /// is a courtesy to the next one who opens it, so failures are only logged.
    async fn finish(mut self) {
        if let Err(error) = leases::release_all(&mut self.connection, &self.options.process).await {
            tracing::warn!("handing back leases: {error}");
        }
        for sql in ["pragma optimize", "pragma wal_checkpoint(truncate)"] {
            if let Err(error) = self.execute(sql).await {
                tracing::debug!("{sql}: {error}");
            }
        }
        if let Err(error) = self.connection.close().await {
            tracing::warn!("closing the database: {error}");
        }
    }
}

/// What is to be done next.
enum Taken {
    /// These units of the first queue.
    Units(VecDeque<Box<dyn Unit>>),
    /// Those of the second that were brought over.
    Behind,
}

/// SQLite rolled the whole transaction back in the middle of it.
struct TransactionLost;

/// Pause between attempts beyond SQLite's own `busy_timeout`, which does most of the waiting.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::BUSY)
}

/// Run a unit; a panic in it is its own failure and not the end of the writer.
async fn run_unit(unit: &mut dyn Unit, connection: &mut SqliteConnection) -> Result<()> {
    let run = AssertUnwindSafe(unit.run(connection)).catch_unwind();
    run.await.unwrap_or_else(|_| Err(StoreError::Database("a change panicked".to_owned())))
}
