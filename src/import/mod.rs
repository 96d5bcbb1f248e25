//! Rollout files ↔ store: finding and taking in files, mirroring what is recorded.
//!
//! A file and a thread's journal are the same bytes, so that one is compared with the other by its length: a file that
//! is shorter is caught up, one that is longer has lines of another program to take in. Start reading at
//! [`Importer`].

pub mod discover;
pub mod job;
mod lineage;
pub mod load;
pub mod mirror;
mod rows;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::store::Store;

/// How old a look at the folders may be before a list looks again.
const FRESH: Duration = Duration::from_secs(2);

/// Takes in the rollout files of a home. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Importer {
    store: Store,
    home: PathBuf,
    /// When the folders were last looked at; held while they are.
    scanned: Arc<Mutex<Option<Instant>>>,
}

impl Importer {
    /// Start looking at the home's files in the background.
    pub fn start(store: Store, home: PathBuf) -> Importer {
        let importer = Importer { store, home, scanned: Arc::default() };
        let first = importer.clone();
        tokio::spawn(async move { first.indexed().await });
        importer
    }

    /// Wait until every file of the home is known, looking again if the last look is too old.
    pub async fn indexed(&self) {
        let mut scanned = self.scanned.lock().await;
        if scanned.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        if let Err(error) = load::import_home(&self.store, &self.home).await {
            tracing::error!(%error, "the rollout files could not be looked through");
        }
        *scanned = Some(Instant::now());
    }

    /// Take in one file, wherever it lies, and tell its thread's id.
    ///
    /// # Errors
    /// The file cannot be read, or holds no thread.
    pub async fn bring_in_file(&self, path: &Path) -> anyhow::Result<String> {
        if let Some(path) = path.to_str()
            && let Some(row) = self.store.thread_of_rollout(path).await?
        {
            return Ok(row.thread_id);
        }
        load::import_file(&self.store, &discover::Found::one(path)?).await?;
        let path_text = path.display().to_string();
        let file = self.store.rollout_file(&path_text).await?;
        match file.and_then(|file| file.thread_id) {
            Some(thread_id) => Ok(thread_id),
            None => anyhow::bail!("the file holds no thread"),
        }
    }
}
