//! Writing threads out as rollout files again: the bytes that were taken in or recorded, as they are.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;

use crate::rollout::name;
use crate::store::Store;
use crate::store::rows::ThreadRow;

/// Runs of the journal that are read at a time.
const RUNS_AT_A_TIME: i64 = 64;

/// Where a thread's file lies below a folder that is laid out like a home.
pub fn place_below(folder: &Path, row: &ThreadRow) -> PathBuf {
    let created = chrono::DateTime::from_timestamp_millis(row.created_at_ms).unwrap_or_default();
    let path = match &row.rollout_path {
        Some(path) => PathBuf::from(path),
        None => name::new_path(folder, &row.thread_id, created),
    };
    let placed = match row.archived_at_ms {
        Some(_) => name::archived_path(folder, &path),
        None => name::active_path(folder, &path),
    };
    placed.unwrap_or_else(|| name::new_path(folder, &row.thread_id, created))
}

/// Write a thread's file: of its journal what is its own, and not what it continues. Gives the bytes written.
///
/// # Errors
/// The store failed, or `out` did.
pub async fn write(store: &Store, row: &ThreadRow, out: &mut impl Write) -> anyhow::Result<u64> {
    let mut at = row.base_bytes;
    loop {
        let bytes = store.journal_from_byte(&row.thread_id, at, RUNS_AT_A_TIME).await?;
        if bytes.is_empty() {
            return Ok((at - row.base_bytes).unsigned_abs());
        }
        out.write_all(&bytes)?;
        at += bytes.len() as i64;
    }
}

/// Write a thread's file below a folder that is laid out like a home. Other files are never written over: a file that
/// is there already must be the same.
///
/// # Errors
/// Another file is there, the folder cannot be written, or the store failed.
pub async fn write_below(store: &Store, row: &ThreadRow, folder: &Path) -> anyhow::Result<PathBuf> {
    let path = place_below(folder, row);
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent).with_context(|| format!("making the folder {}", parent.display()))?;
    // Whole or not at all: it appears under its name when it is complete.
    let mut file = tempfile::NamedTempFile::new_in(parent)
        .with_context(|| format!("writing below {}", parent.display()))?;
    let mut out = io::BufWriter::new(file.as_file_mut());
    write(store, row, &mut out).await?;
    out.flush()?;
    drop(out);
    if path.exists() {
        let (new, old) = (fs::read(file.path())?, fs::read(&path)?);
        anyhow::ensure!(
            new == old,
            "{} is there already and differs from thread {}: export into an empty folder",
            path.display(),
            row.thread_id
        );
        return Ok(path);
    }
    // Other programs take the time of a thread from its file.
    let updated = UNIX_EPOCH + Duration::from_millis(row.updated_at_ms.max(0).unsigned_abs());
    file.as_file().set_modified(updated)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(&path).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
