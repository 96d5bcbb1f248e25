//! The database: migrations, the writer, all SQL, one file an aggregate.
//!
//! It promises that what [`Store::append`] and the other changes have acknowledged is on disk, that a change is
//! stored whole or not at all, and that reading never waits for writing. Start reading at [`Store::open`] and
//! [`rows::Append`].
//!
//! **Invariants:** SQL lives nowhere else. Only `writer` begins transactions. Readers cannot write.

pub mod error;
pub mod rows;

mod open;
mod writer;

pub mod append;
pub mod bulk;
pub mod check;
pub mod fork;
pub mod goals;
pub mod items;
pub mod journal;
pub mod leases;
pub mod ledger;
pub mod list;
mod payload;
pub mod peer;
pub mod queue;
pub mod report;
pub mod rollout_files;
pub mod threads;
pub mod turns;

use std::ops::Range;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, SqliteConnection};

pub use self::error::Result;
pub use self::error::StoreError;
use self::leases::Process;
pub use self::open::OpenOptions;
use self::writer::{Writer, WriterOptions};
use crate::clock::Clock;

/// The database's name within its folder.
pub const FILE_NAME: &str = "threadkeep.sqlite";

/// The open database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
    writer: Writer,
    readers: SqlitePool,
    clock: Clock,
    process: Process,
}

impl Store {
    /// Open the database at this path, making it or bringing its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`], [`StoreError::Damaged`], [`StoreError::ReadOnly`]: the file is left untouched.
    pub async fn open(path: &Path, clock: Clock) -> Result<Store> {
        Store::open_with(path, clock, &OpenOptions::default()).await
    }

    /// [`Store::open`] with other than the usual options.
    ///
    /// # Errors
    /// As there.
    pub async fn open_with(path: &Path, clock: Clock, options: &OpenOptions) -> Result<Store> {
        let open::Opened { connection, connect, readers } = open::open(path, options).await?;
        let process = Process::this(&clock);
        let writer_options = WriterOptions {
            connect,
            busy_patience: options.busy_patience,
            process: process.clone(),
            clock: clock.clone(),
        };
        let writer = Writer::start(connection, writer_options);
        Ok(Store { path: path.to_owned(), writer, readers, clock, process })
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Write what is queued, hand back this process's leases, bring the write-ahead log into the database and close
    /// the file. Later changes get [`StoreError::Closed`].
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Run a change in the writer and wait until it is on disk.
    ///
    /// It may be run more than once (the earlier run is rolled back then), and must not begin transactions.
    async fn write<T, F>(&self, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnMut(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        self.writer.write(change).await
    }

    /// The same for a part of something big, which gives way to what clients wait for.
    async fn write_behind<T, F>(&self, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnMut(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        self.writer.write_behind(change).await
    }

    /// A connection that reads; a method takes it once.
    async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        match self.readers.acquire().await {
            Err(sqlx::Error::PoolClosed) => Err(StoreError::Closed),
            result => Ok(result?),
        }
    }
}

/// The short key of a thread.
async fn thread_key(db: &mut SqliteConnection, thread_id: &str) -> Result<Option<i64>> {
    Ok(sqlx::query_scalar!("select thread_key from threads where thread_id = ?1", thread_id)
        .fetch_optional(db)
        .await?)
}

/// The keys of a thread's rows in tables that are clustered by thread: `thread_key << 32 | place`.
fn key_range(thread_key: i64) -> Range<i64> {
    (thread_key << 32)..((thread_key + 1) << 32)
}

/// The place of a row in its thread: the lower half of a clustered key.
const PLACE_MASK: i64 = 0xffff_ffff;
