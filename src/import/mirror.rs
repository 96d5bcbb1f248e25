//! The rollout mirror: what is recorded is appended to the thread's file, after the commit.
//!
//! The file is never ahead of the database. When it is behind (the process was killed between commit and append), the
//! next append finds that and writes what is missing. A failure to write is logged and made good the same way: the
//! database is the truth.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use tokio::sync::{mpsc, oneshot};

use crate::store::Store;
use crate::store::rows::ThreadRow;

/// Runs of the journal that are read at a time when a file is caught up.
const RUNS_AT_A_TIME: i64 = 64;

/// Sends lines to the mirror. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mirror {
    jobs: mpsc::UnboundedSender<Job>,
}

#[derive(Debug)]
enum Job {
    Append(Append),
    /// Everything before is written.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug)]
struct Append {
    thread_id: String,
    path: String,
    /// Where the bytes belong in the file.
    at: i64,
    /// Where the file begins in the journal.
    base: i64,
    bytes: Vec<u8>,
}

impl Mirror {
    /// Start the task that writes.
    pub fn start(store: Store) -> Mirror {
        let (jobs, mut waiting) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(job) = waiting.recv().await {
                match job {
                    Job::Append(append) => write(&store, append).await,
                    Job::Flush(done) => {
                        let _ = done.send(());
                    }
                }
            }
        });
        Mirror { jobs }
    }

    /// Append lines that are stored, which begin at this byte of the journal.
    pub fn append(&self, row: &ThreadRow, at: i64, bytes: Vec<u8>) {
        let Some(path) = &row.rollout_path else { return };
        if bytes.is_empty() {
            return;
        }
        // The task lives as long as any sender.
        let _ = self.jobs.send(Job::Append(Append {
            thread_id: row.thread_id.clone(),
            path: path.clone(),
            at: at - row.base_bytes,
            base: row.base_bytes,
            bytes,
        }));
    }

    /// Wait until everything told so far is written.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.jobs.send(Job::Flush(done)).is_ok() {
            let _ = flushed.await;
        }
    }
}

async fn write(store: &Store, append: Append) {
    let path = Path::new(&append.path);
    let outcome = match append_at(path, append.at as u64, &append.bytes) {
        Ok(Place::There) => Ok(()),
        Ok(Place::Behind(length)) => catch_up(store, &append.thread_id, path, append.base, length).await,
        Ok(Place::Ahead) => {
            tracing::warn!(path = %path.display(), "the rollout file has lines that are not in the database yet; it is left alone");
            Ok(())
        }
        Err(error) => Err(anyhow::Error::from(error)),
    };
    if let Err(error) = outcome {
        tracing::error!(%error, path = %path.display(), "the rollout file could not be written; it is caught up later");
    }
}

/// How a file stands to the lines that come next.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// They were appended.
    There,
    /// It is this long, and lacks earlier lines.
    Behind(u64),
    /// It has more than is known of.
    Ahead,
}

fn append_at(path: &Path, at: u64, bytes: &[u8]) -> std::io::Result<Place> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    if length < at {
        return Ok(Place::Behind(length));
    }
    if length > at {
        return Ok(Place::Ahead);
    }
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)?;
    Ok(Place::There)
}

fn open(path: &Path) -> std::io::Result<File> {
    let options = |create: bool| {
        let mut options = OpenOptions::new();
        options.write(true).create(create).truncate(false);
        options
    };
    match options(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir)?;
            }
            options(true).open(path)
        }
        opened => opened,
    }
}

/// Write what a file lacks, from the journal.
async fn catch_up(store: &Store, thread_id: &str, path: &Path, base: i64, length: u64) -> anyhow::Result<()> {
    let mut at = length;
    loop {
        let bytes = store.journal_from_byte(thread_id, base + at as i64, RUNS_AT_A_TIME).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut file = open(path)?;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&bytes)?;
        at += bytes.len() as u64;
    }
}

/// Bring a thread's file up to its journal, after a crash. Tells whether anything was missing.
///
/// # Errors
/// The file cannot be read or written, or the store failed.
pub async fn repair(store: &Store, row: &ThreadRow) -> anyhow::Result<bool> {
    let Some(path) = row.rollout_path.as_deref().map(Path::new) else { return Ok(false) };
    let length = fs::metadata(path).map_or(0, |data| data.len());
    if length as i64 >= row.journal_bytes - row.base_bytes {
        return Ok(false);
    }
    catch_up(store, &row.thread_id, path, row.base_bytes, length).await?;
    Ok(true)
}
