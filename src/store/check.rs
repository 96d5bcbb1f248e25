//! Is the database sound, and a copy of it.

use std::path::Path;

use super::Store;
use super::error::{Result, StoreError};

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
