//! Is the database sound, how big is it, and a copy of it.

use std::path::Path;

use super::Store;
use super::error::{Result, StoreError};

/// How much is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Threads, archived ones included.
    pub threads: i64,
    /// Turns of all threads.
    pub turns: i64,
    /// Items of all turns.
    pub items: i64,
    /// Bytes recorded, uncompressed.
    pub journal_bytes: i64,
    /// Size of the database file.
    pub database_bytes: i64,
}

impl Store {
    /// What is wrong with the database; empty when it is sound.
    ///
    /// # Errors
    /// A failure of the database that keeps the check from being made.
    pub async fn check(&self) -> Result<Vec<String>> {
        let mut reader = self.reader().await?;
        let mut problems: Vec<String> =
            sqlx::query_scalar("pragma integrity_check").fetch_all(&mut *reader).await?;
        problems.retain(|line| line != "ok");
        let counters = sqlx::query!(
            r#"select thread_id, journal_lines, journal_bytes,
                      (select coalesce(sum(line_count), 0) from journal
                       where run_key >= thread_key << 32 and run_key < (thread_key + 1) << 32) as "lines!: i64",
                      (select coalesce(sum(byte_count), 0) from journal
                       where run_key >= thread_key << 32 and run_key < (thread_key + 1) << 32) as "bytes!: i64"
               from threads"#
        )
        .fetch_all(&mut *reader)
        .await?;
        for thread in counters {
            if (thread.lines, thread.bytes) != (thread.journal_lines, thread.journal_bytes) {
                problems.push(format!(
                    "thread {}: the journal's counters do not match its runs",
                    thread.thread_id
                ));
            }
        }
        let orphans: Vec<(String, Option<i64>, String, i64)> =
            sqlx::query_as("pragma foreign_key_check").fetch_all(&mut *reader).await?;
        for (table, row, parent, _) in orphans {
            let row = row.map_or_else(String::new, |row| format!(" {row}"));
            problems.push(format!("row{row} of {table} belongs to nothing in {parent}"));
        }
        let strays = sqlx::query_scalar!(
            r#"select count(*) as "strays!: i64" from journal
               where run_key >> 32 not in (select thread_key from threads)"#
        )
        .fetch_one(&mut *reader)
        .await?;
        if 0 < strays {
            problems.push(format!("{strays} runs of the journal belong to no thread"));
        }
        Ok(problems)
    }

    /// How much is stored.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn stats(&self) -> Result<Stats> {
        let mut reader = self.reader().await?;
        let row = sqlx::query!(
            r#"select (select count(*) from threads) as "threads!: i64", (select count(*) from turns) as "turns!: i64",
                      (select count(*) from items) as "items!: i64",
                      (select coalesce(sum(journal_bytes), 0) from threads) as "journal_bytes!: i64""#
        )
        .fetch_one(&mut *reader)
        .await?;
        let database_bytes = std::fs::metadata(&self.path).map_or(0, |data| data.len() as i64);
        Ok(Stats {
            threads: row.threads,
            turns: row.turns,
            items: row.items,
            journal_bytes: row.journal_bytes,
            database_bytes,
        })
    }

    /// Write a copy of the database, as of one moment, to a file that must not exist yet.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub async fn backup(&self, to: &Path) -> Result<()> {
        let Some(target) = to.to_str() else {
            return Err(StoreError::Database(format!("{}: the name is no UTF-8 text", to.display())));
        };
        let mut reader = self.reader().await?;
        sqlx::query("vacuum into ?1").bind(target).execute(&mut *reader).await?;
        Ok(())
    }
}
