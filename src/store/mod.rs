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
pub mod check;
pub mod fork;
pub mod items;
pub mod journal;
pub mod leases;
pub mod ledger;
pub mod list;
pub mod rollout_files;
pub mod threads;
pub mod turns;

use std::ops::Range;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use self::error::Result;
pub use self::error::StoreError;
use self::writer::Writer;
use crate::clock::Clock;

/// The database's name within its folder.
pub const FILE_NAME: &str = "threadkeep.sqlite";

/// This process, as leases name it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Unique among all processes that ever were.
    owner: String,
    /// Its number on this host.
    pid: i64,
}

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
        let (connection, readers) = open::open(path).await?;
        let process = Process { owner: clock.new_id().to_string(), pid: i64::from(std::process::id()) };
        Ok(Store { path: path.to_owned(), writer: Writer::start(connection), readers, clock, process })
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finish what is waiting and close.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Run a change in the writer.
    async fn write<T, F>(&self, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        self.writer.write(change).await
    }

    async fn thread_key(&self, thread_id: &str) -> Result<Option<i64>> {
        Ok(sqlx::query_scalar!("select thread_key from threads where thread_id = ?1", thread_id)
            .fetch_optional(&self.readers)
            .await?)
    }
}

/// The keys of a thread's rows in tables that are clustered by thread: `thread_key << 32 | place`.
fn key_range(thread_key: i64) -> Range<i64> {
    (thread_key << 32)..((thread_key + 1) << 32)
}
