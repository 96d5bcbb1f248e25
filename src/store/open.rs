//! Opening a database: one path for program and tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::error::{Result, StoreError, code, primary_code};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// How long SQLite itself waits for a lock before the writer tries again.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Enough readers for a few clients that page at once; each is a thread.
const READERS: u32 = 4;

/// Open the writing connection, bringing the schema up to date, and a pool of readers that connect when first used.
pub(super) async fn open(path: &Path) -> Result<(SqliteConnection, SqlitePool)> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        // Readers never wait for the writer, nor it for them.
        .journal_mode(SqliteJournalMode::Wal)
        // Acknowledged means on disk, also when the power fails.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .disable_statement_logging();
    let mut connection = match options.connect().await {
        Ok(connection) => connection,
        Err(error) => return Err(open_error(path, &error)),
    };
    migrate(path, &mut connection).await?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(
            SqliteConnectOptions::new()
                .filename(path)
                .read_only(true)
                .busy_timeout(BUSY_TIMEOUT)
                .pragma("mmap_size", "268435456")
                .disable_statement_logging(),
        );
    Ok((connection, readers))
}

/// Bring the schema up to date inside one immediate transaction: the migrator's own lock does nothing on SQLite, and
/// two processes may start at the same moment.
async fn migrate(path: &Path, connection: &mut SqliteConnection) -> Result<()> {
    if is_current(connection).await {
        return Ok(());
    }
    let outcome = async {
        let mut transaction =
            connection.begin_with("BEGIN IMMEDIATE").await.map_err(|error| open_error(path, &error))?;
        MIGRATIONS.run(&mut *transaction).await.map_err(|error| migrate_error(path, error))?;
        transaction.commit().await.map_err(|error| open_error(path, &error))
    };
    outcome.await
}

/// Whether the last migration that we know is the last one applied: then nothing is written at a start.
async fn is_current(connection: &mut SqliteConnection) -> bool {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    // The table is the migrator's own, and may not be there yet.
    let applied: Result<Option<i64>, sqlx::Error> =
        sqlx::query_scalar("select max(version) from _sqlx_migrations where success")
            .fetch_one(connection)
            .await;
    matches!((newest, applied), (Some(newest), Ok(Some(applied))) if newest == applied)
}

fn migrate_error(path: &Path, error: MigrateError) -> StoreError {
    match error {
        MigrateError::VersionMissing(found) => StoreError::NewerSchema { path: path.to_owned(), found },
        MigrateError::Execute(error) => open_error(path, &error),
        other => StoreError::Damaged { path: path.to_owned(), reason: other.to_string() },
    }
}

fn open_error(path: &Path, error: &sqlx::Error) -> StoreError {
    let (path, reason): (PathBuf, String) = (path.to_owned(), error.to_string());
    match primary_code(error) {
        Some(code::NOT_A_DATABASE | code::CORRUPT) => StoreError::Damaged { path, reason },
        Some(code::READ_ONLY | code::CANNOT_OPEN | code::IO_ERROR) => StoreError::ReadOnly { path, reason },
        Some(code::FULL) => StoreError::Full,
        Some(code::BUSY) => StoreError::Busy,
        _ => StoreError::Database(format!("{}: {reason}", path.display())),
    }
}
