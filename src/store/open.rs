//! From a path to a database that is ready: check the file, connect, migrate. One path for program and tests.
//!
//! **Invariant:** until a file has proved to be ours and of a schema we know, nothing is written to it.

use std::fmt::Display;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::Access;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::time::Instant;

use super::error::{Result, StoreError, code, primary_code};

/// All schema versions, in order.
static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// Marks the file as ours; the first migration sets it.
const APPLICATION_ID: i64 = 0x7468_6b70;

/// What is rarely changed about opening a store.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Reading connections at most; they are opened when needed.
    pub readers_max: u32,
    /// How long a change waits for a lock of another process before it fails.
    pub busy_patience: Duration,
    /// Bytes the file may have at most, in whole pages.
    pub bytes_max: Option<u64>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        // Enough readers for a few clients that page at once; each costs a thread and a page cache.
        OpenOptions { readers_max: 4, busy_patience: Duration::from_secs(60), bytes_max: None }
    }
}

/// A database with the current schema.
pub(super) struct Opened {
    /// The writing connection.
    pub connection: SqliteConnection,
    /// How it was opened.
    pub connect: SqliteConnectOptions,
    /// Reading connections, which connect when first used.
    pub readers: SqlitePool,
}

/// Open or make the database at a path.
pub(super) async fn open(path: &Path, options: &OpenOptions) -> Result<Opened> {
    prepare_file(path)?;
    let connect = writer_options(path, options);
    let named = |error: sqlx::Error| open_error(path, &error);
    let mut connection = connect.connect().await.map_err(named)?;
    if !is_current(&mut connection, path).await? {
        use_wal(&mut connection, options.busy_patience).await.map_err(named)?;
        migrate(&mut connection, path, options.busy_patience).await?;
    }
    let readers = SqlitePoolOptions::new()
        .max_connections(options.readers_max)
        .min_connections(0)
        // Neither a ping before each use nor a file opened anew brings anything with a local file.
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(reader_options(path));
    Ok(Opened { connection, connect, readers })
}

/// What both kinds of connection have in common.
fn connect_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        // Sorting a page needs no file of its own.
        .pragma("temp_store", "memory")
        .statement_cache_capacity(200)
        .disable_statement_logging()
}

fn writer_options(path: &Path, options: &OpenOptions) -> SqliteConnectOptions {
    let connect = connect_options(path)
        .busy_timeout(options.busy_patience.min(BUSY_TIMEOUT))
        .foreign_keys(true)
        // Acknowledged means on disk: NORMAL could lose the last commits on power loss.
        .synchronous(SqliteSynchronous::Full)
        // KiB. Enough for the ends of a hundred threads' tables; taken only when needed.
        .pragma("cache_size", "-16384")
        // Pages. A checkpoint happens within somebody's commit, so not too often; 8 MiB of WAL.
        .pragma("wal_autocheckpoint", "2000")
        // Bytes. What a big import leaves of the WAL is given back.
        .pragma("journal_size_limit", "67108864")
        .thread_name(|_| "store-writer".to_owned());
    match options.bytes_max {
        Some(bytes_max) => connect.pragma("max_page_count", (bytes_max / PAGE_BYTES).max(1).to_string()),
        None => connect,
    }
}

fn reader_options(path: &Path) -> SqliteConnectOptions {
    connect_options(path)
        .read_only(true)
        // KiB a connection; the operating system's cache does the rest.
        .pragma("cache_size", "-4096")
        // Bytes. Reading by mapping saves a copy of each page.
        .pragma("mmap_size", "1073741824")
        .thread_name(|number| format!("store-reader-{number}"))
}

/// The size of a page: SQLite's default.
const PAGE_BYTES: u64 = 4096;

/// How long SQLite itself waits for a lock; the writer waits on in rounds of this.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Make what is missing, and find out whether we may write.
fn prepare_file(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = |what: &Path, error: &dyn Display| StoreError::ReadOnly {
        path: path.to_owned(),
        reason: format!("{}: {error}", what.display()),
    };
    std::fs::create_dir_all(directory).map_err(|error| refused(directory, &error))?;
    // Conversations are nobody else's business; SQLite gives its side files the same mode.
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refused(path, &error)),
    }
    // Asked of the kernel and not by opening the file: closing it would drop this process's SQLite locks on it.
    for (what, access) in [(path, Access::READ_OK | Access::WRITE_OK), (directory, Access::WRITE_OK)] {
        rustix::fs::access(what, access).map_err(|error| refused(what, &error))?;
    }
    Ok(())
}

/// Whether the schema is just ours, so that nothing is written at a start; an error for a file that is not ours.
async fn is_current(connection: &mut SqliteConnection, path: &Path) -> Result<bool> {
    let named = |error: sqlx::Error| open_error(path, &error);
    let sql =
        "select (select count(*) from sqlite_schema), (select application_id from pragma_application_id)";
    let (tables, application_id): (i64, i64) =
        sqlx::query_as(sql).fetch_one(&mut *connection).await.map_err(named)?;
    if tables == 0 {
        return Ok(false);
    }
    if application_id != APPLICATION_ID {
        let reason = "it is another program's database".to_owned();
        return Err(StoreError::Damaged { path: path.to_owned(), reason });
    }
    // The migrator's own table, which `query!` does not know.
    let sql = "select version, checksum from _sqlx_migrations order by version";
    let applied: Vec<(i64, Vec<u8>)> =
        sqlx::query_as(sql).fetch_all(&mut *connection).await.map_err(named)?;
    let known = MIGRATOR.iter().map(|migration| (migration.version, &migration.checksum[..]));
    let newest = known.clone().map(|(version, _)| version).max();
    match applied.last() {
        Some((found, _)) if newest < Some(*found) => {
            Err(StoreError::NewerSchema { path: path.to_owned(), found: *found })
        }
        _ => Ok(known.eq(applied.iter().map(|(version, checksum)| (*version, &checksum[..])))),
    }
}

/// Switch to write-ahead logging, which the file remembers. SQLite does not wait for locks here by itself.
async fn use_wal(connection: &mut SqliteConnection, patience: Duration) -> Result<(), sqlx::Error> {
    let deadline = Instant::now() + patience;
    loop {
        match sqlx::query("pragma journal_mode = wal").execute(&mut *connection).await {
            Err(error) if primary_code(&error) == Some(code::BUSY) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            result => return result.map(drop),
        }
    }
}

/// Bring the schema up to date inside one immediate transaction: the migrator's own lock does nothing on SQLite, and
/// a second process that starts at the same moment waits here and then finds the work done.
async fn migrate(connection: &mut SqliteConnection, path: &Path, patience: Duration) -> Result<()> {
    let named = |error: sqlx::Error| open_error(path, &error);
    let deadline = Instant::now() + patience;
    let mut transaction = loop {
        match connection.begin_with("begin immediate").await {
            Err(error) if primary_code(&error) == Some(code::BUSY) && Instant::now() < deadline => {}
            result => break result.map_err(named)?,
        }
    };
    MIGRATOR.run(&mut *transaction).await.map_err(|error| migrate_error(path, error))?;
    transaction.commit().await.map_err(named)
}

fn migrate_error(path: &Path, error: MigrateError) -> StoreError {
    match error {
        MigrateError::VersionMissing(found) => StoreError::NewerSchema { path: path.to_owned(), found },
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => open_error(path, &error),
        other => StoreError::Damaged { path: path.to_owned(), reason: other.to_string() },
    }
}

fn open_error(path: &Path, error: &sqlx::Error) -> StoreError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match primary_code(error) {
        Some(code::NOT_A_DATABASE | code::CORRUPT) => StoreError::Damaged { path, reason },
        Some(code::READ_ONLY | code::CANNOT_OPEN | code::IO_ERROR) => StoreError::ReadOnly { path, reason },
        Some(code::FULL) => StoreError::Full,
        Some(code::BUSY) => StoreError::Busy,
        _ => StoreError::Database(format!("{}: {reason}", path.display())),
    }
}
