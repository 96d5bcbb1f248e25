//! The one task that writes.
//!
//! It owns the writing connection, takes what is waiting, runs each unit under a savepoint inside one
//! `BEGIN IMMEDIATE`, commits once, and only then answers all: a lone change pays one fsync, a hundred at once share
//! it. A unit that fails is rolled back alone.
//!
//! **Invariant:** no future that a caller may drop holds the writing connection; a unit that was sent is run.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::error::{Result, StoreError, code, primary_code};

/// How many units may wait before their senders do.
const QUEUE: usize = 1024;

/// The most units that share a commit: bounds how long the first of them waits for it.
const BATCH: usize = 128;

/// How long a lock of another program is waited for before a change is refused.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// A change: run under a savepoint, answered after the commit.
trait Unit: Send {
    fn run<'c>(self: Box<Self>, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Ran>
    where
        Self: 'c;
    /// Answer without having been run.
    fn refuse(self: Box<Self>, error: StoreError);
}

/// A unit that sends what its change came to.
struct Change<T, F> {
    change: F,
    sender: oneshot::Sender<Result<T>>,
}

impl<T, F> Unit for Change<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send,
{
    fn run<'c>(self: Box<Self>, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Ran>
    where
        Self: 'c,
    {
        Box::pin(async move {
            let outcome = (self.change)(connection).await;
            let failed = outcome.is_err();
            let sender = self.sender;
            let answer = Box::new(move |committed: Result<()>| {
                let _ = sender.send(committed.and(outcome));
            });
            Ran { failed, answer }
        })
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        let _ = self.sender.send(Err(error));
    }
}

/// What came of a unit, waiting for the commit.
struct Ran {
    failed: bool,
    answer: Box<dyn FnOnce(Result<()>) + Send>,
}

enum Job {
    Unit(Box<dyn Unit>),
    Close(oneshot::Sender<()>),
}

/// Sends units to the writer. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Job")
    }
}

impl Writer {
    /// Start the task around its connection.
    pub(super) fn start(connection: SqliteConnection) -> Writer {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(run(connection, waiting));
        Writer { jobs }
    }

    /// Run a change and wait until it is committed.
    ///
    /// # Errors
    /// The change's own, or that of the commit: then nothing of it is stored.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the change back.
    pub(super) async fn write<T, F>(&self, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let unit = Box::new(Change { change, sender });
        self.jobs.send(Job::Unit(unit)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Finish what waits, then close the connection.
    pub(super) async fn close(&self) {
        let (sender, closed) = oneshot::channel();
        if self.jobs.send(Job::Close(sender)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

async fn run(mut connection: SqliteConnection, mut waiting: mpsc::Receiver<Job>) {
    let mut jobs = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut jobs, BATCH).await > 0 {
        let mut units = Vec::with_capacity(jobs.len());
        let mut closing = None;
        for job in jobs.drain(..) {
            match job {
                Job::Unit(unit) => units.push(unit),
                Job::Close(sender) => closing = Some(sender),
            }
        }
        if !units.is_empty() {
            batch(&mut connection, units).await;
        }
        if let Some(sender) = closing {
            let _ = sqlx::Connection::close(connection).await;
            let _ = sender.send(());
            return;
        }
    }
}

/// Run units in one transaction and answer them.
async fn batch(connection: &mut SqliteConnection, units: Vec<Box<dyn Unit>>) {
    if let Err(error) = begin(connection).await {
        tracing::error!(%error, "changes were refused");
        for unit in units {
            unit.refuse(error.clone());
        }
        return;
    }
    let alone = units.len() == 1;
    let mut ran = Vec::with_capacity(units.len());
    for unit in units {
        ran.extend(run_unit(connection, unit, alone).await);
    }
    let all_failed = ran.iter().all(|unit| unit.failed);
    let outcome =
        if all_failed { execute(connection, "ROLLBACK").await } else { execute(connection, "COMMIT").await };
    let outcome = match outcome {
        Ok(()) => Ok(()),
        Err(error) => {
            // A full disk or an I/O error has often ended the transaction already.
            let _ = execute(connection, "ROLLBACK").await;
            tracing::error!(%error, "a transaction could not be committed");
            Err(StoreError::from(error))
        }
    };
    for unit in ran {
        (unit.answer)(if unit.failed { Ok(()) } else { outcome.clone() });
    }
}

/// Run one unit, undoing it alone when it fails.
async fn run_unit(connection: &mut SqliteConnection, unit: Box<dyn Unit>, alone: bool) -> Option<Ran> {
    if alone {
        // The transaction itself is the savepoint.
        return Some(unit.run(connection).await);
    }
    if let Err(error) = execute(connection, "SAVEPOINT unit").await {
        unit.refuse(error.into());
        return None;
    }
    let ran = unit.run(connection).await;
    let end = if ran.failed { "ROLLBACK TO unit; RELEASE unit" } else { "RELEASE unit" };
    if let Err(error) = execute(connection, end).await {
        // The commit that follows fails for the same reason, and with it every unit.
        tracing::error!(%error, "a savepoint could not be ended");
    }
    Some(ran)
}

async fn begin(connection: &mut SqliteConnection) -> Result<()> {
    let start = Instant::now();
    loop {
        match execute(connection, "BEGIN IMMEDIATE").await {
            Ok(()) => return Ok(()),
            Err(error) if primary_code(&error) == Some(code::BUSY) && start.elapsed() < LOCK_PATIENCE => {
                tracing::warn!("the database is locked by another program; waiting");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(statement).execute(connection).await.map(drop)
}
