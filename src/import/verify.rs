//! Comparing the database with the rollout files, byte by byte.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use super::discover::{self, Found};
use super::lineage;
use crate::store::Store;
use crate::store::rows::ThreadRow;

/// Runs of the journal that are read at a time.
const RUNS_AT_A_TIME: i64 = 16;

/// How a file and its thread stand to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are the same.
    Same,
    /// The file has lines that are not taken in yet.
    FileIsAhead {
        /// How many bytes.
        bytes: u64,
    },
    /// The file lacks lines that the database has.
    FileIsBehind {
        /// How many bytes.
        bytes: u64,
    },
    /// They differ from this line of the file on (from 1).
    Differs {
        /// The line.
        line: u64,
    },
    /// No thread has this file.
    NotTaken {
        /// Why, if the import noted it.
        reason: Option<String>,
    },
    /// The file of a thread is not there.
    NoFile,
    /// The file cannot be read.
    Unreadable {
        /// Why.
        reason: String,
    },
}

/// A file or a thread without one, and what was found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The thread.
    pub thread_id: Option<String>,
    /// What was found.
    pub standing: Standing,
}

/// Compare every rollout file below a home, and every thread that has one.
///
/// # Errors
/// The store failed.
pub async fn verify(store: &Store, home: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let files = discover::find(home);
    for file in &files {
        findings.push(verify_file(store, file).await?);
    }
    for thread in store.mirrored_threads().await? {
        let path = PathBuf::from(&thread.path);
        let packed = PathBuf::from(format!("{}.zst", thread.path));
        if thread.bytes > 0 && !path.exists() && !packed.exists() {
            findings.push(Finding { path, thread_id: Some(thread.thread_id), standing: Standing::NoFile });
        }
    }
    Ok(findings)
}

async fn verify_file(store: &Store, file: &Found) -> anyhow::Result<Finding> {
    let path = file.path.clone();
    let Some(row) = store.thread_of_rollout(&file.plain_path()).await? else {
        let known = match file.path.to_str() {
            Some(path) => store.rollout_file(path).await?,
            None => None,
        };
        let thread_id = known.as_ref().and_then(|known| known.thread_id.clone());
        let reason = known.and_then(|known| known.reason.or(Some(known.verdict)));
        return Ok(Finding { path, thread_id, standing: Standing::NotTaken { reason } });
    };
    let standing = match lineage::open(&file.path, 0) {
        Ok(reader) => compare(store, &row, reader).await?,
        Err(error) => Standing::Unreadable { reason: error.to_string() },
    };
    Ok(Finding { path, thread_id: Some(row.thread_id), standing })
}

/// Compare what a thread's journal has of its own with its file.
async fn compare(
    store: &Store,
    row: &ThreadRow,
    mut file: Box<dyn BufRead + Send>,
) -> anyhow::Result<Standing> {
    let (mut at, mut line) = (row.base_bytes, 1);
    loop {
        let recorded = store.journal_from_byte(&row.thread_id, at, RUNS_AT_A_TIME).await?;
        if recorded.is_empty() {
            let bytes = std::io::copy(&mut file, &mut std::io::sink());
            return Ok(match bytes {
                Ok(0) => Standing::Same,
                Ok(bytes) => Standing::FileIsAhead { bytes },
                Err(error) => Standing::Unreadable { reason: error.to_string() },
            });
        }
        let mut found = Vec::with_capacity(recorded.len());
        if let Err(error) = (&mut file).take(recorded.len() as u64).read_to_end(&mut found) {
            return Ok(Standing::Unreadable { reason: error.to_string() });
        }
        let same = recorded.iter().zip(&found).take_while(|(one, other)| one == other).count();
        line += found[..same].iter().filter(|byte| **byte == b'\n').count() as u64;
        if same < found.len() {
            return Ok(Standing::Differs { line });
        }
        if found.len() < recorded.len() {
            let end = row.journal_bytes.max(at + recorded.len() as i64);
            let bytes = (end - at).unsigned_abs() - found.len() as u64;
            return Ok(Standing::FileIsBehind { bytes });
        }
        at += recorded.len() as i64;
    }
}
