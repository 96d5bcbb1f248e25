//! What can go wrong with the database.

use std::path::PathBuf;

use thiserror::Error;

/// A failure of the store. A caller decides by the variant; the text says what was being done and what to do.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The database was made by a newer version.
    #[error("{}: the database has schema version {found}, newer than this program knows: use a newer threadkeep", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// The file is no database, or is damaged.
    #[error("{}: the file is damaged or no SQLite database ({reason}): restore it from a backup, or move it away to start anew from the rollouts", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// The file or its folder cannot be written.
    #[error("{}: the database cannot be opened for writing ({reason}): make the folder and the file writable, or choose another home with --home", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// No room is left.
    #[error(
        "the database could not grow: the disk or the database's size limit is full; nothing of this change was stored"
    )]
    Full,
    /// Another program kept the database locked.
    #[error("the database stayed locked by another program; nothing of this change was stored: try again")]
    Busy,
    /// The thread is not stored.
    #[error("thread {0} is not stored")]
    NoThread(String),
    /// Another process runs a turn on the thread.
    #[error(
        "thread {thread_id} is running turn {turn_id} in another process (pid {pid}): wait for it to end, or interrupt it there"
    )]
    LeaseHeld {
        /// The thread.
        thread_id: String,
        /// The turn that runs.
        turn_id: String,
        /// Who runs it.
        pid: i64,
    },
    /// Another process has taken the thread over from a turn that still ran here.
    #[error(
        "thread {thread_id} was taken over by {holder} since this process had not been heard of for too long; nothing more of this turn is stored: look at the thread again and go on from there"
    )]
    LeaseLost {
        /// The thread.
        thread_id: String,
        /// Who has it now: a process, or nobody any more.
        holder: String,
    },
    /// The submission has left the queue since the caller looked.
    #[error("queued submission {0} is not there any more: it was taken or deleted")]
    QueueTaken(String),
    /// Another process has written to the thread since the caller looked.
    #[error("thread {0} has been written to by another process")]
    JournalMoved(String),
    /// Anything else.
    #[error("database: {0}")]
    Database(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Short for the results of this module.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The primary result code of SQLite, if the error has one.
pub(super) fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<i32>().ok().map(|code| code & 0xff)
}

/// SQLite's result codes that mean something here (<https://www.sqlite.org/rescode.html>).
pub(super) mod code {
    pub const BUSY: i32 = 5;
    pub const READ_ONLY: i32 = 8;
    pub const IO_ERROR: i32 = 10;
    pub const CORRUPT: i32 = 11;
    pub const FULL: i32 = 13;
    pub const CANNOT_OPEN: i32 = 14;
    pub const NOT_A_DATABASE: i32 = 26;
}

impl StoreError {
    /// Of one of SQLite's primary codes, with what was being done.
    pub(super) fn of_code(code: i32, doing: String) -> StoreError {
        match code {
            code::FULL => StoreError::Full,
            code::BUSY => StoreError::Busy,
            _ => StoreError::Database(doing),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        StoreError::of_code(primary_code(&error).unwrap_or_default(), error.to_string())
    }
}
