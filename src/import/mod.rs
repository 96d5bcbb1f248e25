//! Rollout files ↔ store: finding and taking in files, mirroring what is recorded.
//!
//! A file and a thread's journal are the same bytes, so that one is compared with the other by its length: a file that
//! is shorter is caught up, one that is longer has lines of another program to take in. Start reading at
//! [`Importer`].

pub mod discover;
pub mod export;
mod index;
pub mod job;
mod lineage;
mod load;
pub mod mirror;
pub mod peer;
mod rows;
mod take;
#[cfg(test)]
mod tests;
mod unpack;
pub mod verify;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::{Mutex, watch as watched};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::discover::Found;
use self::job::{FileReport, Known, Outcome, Priority, Run, Work};
use self::watch::{Changes, Watcher};
use crate::store::rollout_files::Urgency;
use crate::store::rows::ThreadRow;
use crate::store::{Store, StoreError};

/// How long a list waits for the first look at a home's files; then it shows what is known.
const INDEX_PATIENCE: Duration = Duration::from_secs(2);

/// Files that have grown by no more than this are taken while a list waits.
const AT_ONCE_BYTES: i64 = 1 << 20;

/// Changes are gathered for so long before they are looked at in the background.
const GATHER: Duration = Duration::from_millis(200);

/// How often a home is looked through where the system does not tell of changes, and somebody asks.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long a reader waits for a file that another one is taking in.
const TAKE_PATIENCE: Duration = Duration::from_secs(60);

/// Takes in the rollout files of a home: their heads first, the rest in the background. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Importer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    home: PathBuf,
    /// Whether the first look is over.
    indexed: watched::Sender<bool>,
    /// Held while changes are looked at.
    changes: Mutex<Watching>,
    stop: CancellationToken,
}

/// What is known of changes.
#[derive(Debug, Default)]
struct Watching {
    /// `None`: the system does not tell.
    watcher: Option<Watcher>,
    /// Files to be taken in the background.
    later: Vec<Found>,
    look_again: bool,
    looked_at: Option<Instant>,
}

impl Importer {
    /// Start looking at the home's files in the background.
    pub fn start(store: Store, home: PathBuf) -> Importer {
        let (indexed, _) = watched::channel(false);
        let (changes, stop) = (Mutex::default(), CancellationToken::new());
        let importer = Importer { inner: Arc::new(Inner { store, home, indexed, changes, stop }) };
        let background = importer.clone();
        tokio::spawn(async move {
            let stop = background.inner.stop.clone();
            // Dropped half-way nothing is lost: what is being stored is stored, and the rest is found again.
            tokio::select! {
                () = stop.cancelled() => {}
                () = background.work() => {}
            }
        });
        importer
    }

    /// Take in nothing more.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }

    /// Wait until every file of the home is listed, as far as that does not take long.
    pub async fn indexed(&self) {
        let mut indexed = self.inner.indexed.subscribe();
        if !*indexed.borrow_and_update() {
            let first = indexed.wait_for(|indexed| *indexed);
            if tokio::time::timeout(INDEX_PATIENCE, first).await.is_err() {
                return;
            }
        }
        self.catch_up().await;
    }

    /// A thread's row, after the lines that its file has beyond the journal are taken.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn fresh(&self, row: ThreadRow) -> Result<ThreadRow, StoreError> {
        let Some(file) = self.ahead(&row) else { return Ok(row) };
        self.take_now(&file).await;
        Ok(self.inner.store.thread(&row.thread_id).await?.unwrap_or(row))
    }

    /// The thread's file, when it has more than is recorded.
    fn ahead(&self, row: &ThreadRow) -> Option<Found> {
        let path = row.rollout_path.as_deref()?;
        let recorded = row.journal_bytes - row.base_bytes;
        match Found::one(Path::new(path)) {
            Ok(file) => Some(file).filter(|file| recorded < file.size),
            Err(_) if recorded <= 0 => Found::one(Path::new(&format!("{path}.zst"))).ok(),
            Err(_) => None,
        }
    }

    /// Take in one file, wherever it lies, and tell its thread's id.
    ///
    /// # Errors
    /// The file cannot be read, or holds no thread.
    pub async fn bring_in_file(&self, path: &Path) -> anyhow::Result<String> {
        let store = &self.inner.store;
        if let Some(path) = path.to_str()
            && let Some(row) = store.thread_of_rollout(path).await?
        {
            return Ok(self.fresh(row).await?.thread_id);
        }
        let report = self.take_now(&Found::one(path)?).await;
        let path = path.display().to_string();
        if let Some(row) = store.thread_of_rollout(path.strip_suffix(".zst").unwrap_or(&path)).await? {
            return Ok(row.thread_id);
        }
        match report.and_then(|report| report.thread_id) {
            Some(thread_id) if store.thread(&thread_id).await?.is_some() => Ok(thread_id),
            _ => anyhow::bail!("the file holds no thread"),
        }
    }

    /// Take in one file before anything else. While another one takes it in, wait for that.
    async fn take_now(&self, file: &Found) -> Option<FileReport> {
        let deadline = Instant::now() + TAKE_PATIENCE;
        loop {
            let report = self.take_all(vec![file.clone()], 1, Urgency::Awaited, Priority::Usual).await.pop();
            let is_moved = report.as_ref().is_some_and(FileReport::is_moved);
            if !is_moved || deadline <= Instant::now() || self.inner.stop.is_cancelled() {
                return report;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn take_all(
        &self,
        files: Vec<Found>,
        jobs: usize,
        urgency: Urgency,
        priority: Priority,
    ) -> Vec<FileReport> {
        let home = self.inner.home.clone();
        let names = tokio::task::spawn_blocking(move || discover::names(&home)).await.unwrap_or_default();
        let around = take::Around { names, ..take::Around::default() };
        let work = Work { urgency, ..Work::new(self.inner.store.clone(), around) };
        let run = Run::quiet(files, self.inner.stop.child_token());
        match job::work_off(run, work, jobs, priority).await {
            Ok((run, _)) => run.into_reports(),
            Err(error) => {
                tracing::error!(%error, "rollout files could not be taken in");
                Vec::new()
            }
        }
    }

    // In the background -------------------------------------------------------------------------------------------

    async fn work(&self) {
        let home = self.inner.home.clone();
        match tokio::task::spawn_blocking(move || Watcher::start(&home)).await {
            Ok(Ok(watcher)) => self.inner.changes.lock().await.watcher = Some(watcher),
            Ok(Err(error)) => {
                tracing::info!(%error, "changes of rollout files are looked for when threads are listed");
            }
            Err(_) => {}
        }
        self.look().await;
        loop {
            self.changed().await;
            tokio::time::sleep(GATHER).await;
            self.catch_up().await;
            let (later, look_again) = {
                let mut watching = self.inner.changes.lock().await;
                (std::mem::take(&mut watching.later), std::mem::take(&mut watching.look_again))
            };
            if look_again {
                self.look().await;
            } else if !later.is_empty() {
                self.take_all(later, 1, Urgency::Behind, Priority::Low).await;
            }
        }
    }

    /// Look at all files: index those that are new, then take in what has changed.
    async fn look(&self) {
        self.inner.changes.lock().await.looked_at = Some(Instant::now());
        if let Err(error) = self.try_look().await {
            tracing::error!(%error, "the rollout files could not be looked through");
        }
        if let Err(error) = peer::take_over(&self.inner.store, &self.inner.home).await {
            tracing::error!(%error, "what other databases of the home know could not be taken over");
        }
        self.inner.indexed.send_replace(true);
    }

    async fn try_look(&self) -> anyhow::Result<()> {
        let (store, roots) = (self.inner.store.clone(), vec![self.inner.home.clone()]);
        let (found, around) = tokio::task::spawn_blocking(move || job::look(&roots)).await?;
        let known = Known::of(&store).await?;
        let changed: Vec<Found> = found.into_iter().filter(|file| !known.is_unchanged(file)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let stop = || self.inner.stop.child_token();
        let work = Work::new(store, around);
        let work = index::index(&changed, &known, Run::quiet(Vec::new(), stop()), work).await?;
        self.inner.indexed.send_replace(true);
        let work = Work { urgency: Urgency::Behind, only_heads: false, ..work };
        job::work_off(Run::quiet(changed, stop()), work, 1, Priority::Low).await?;
        Ok(())
    }

    /// Wait until the system tells of a change, or somebody wants the files to be looked at.
    async fn changed(&self) {
        let events = {
            let watching = self.inner.changes.lock().await;
            watching.watcher.as_ref().and_then(|watcher| watcher.events().try_clone().ok())
        };
        // Waiting is all that is wanted of it, and that a pipe and a queue of events have in common.
        match events.map(pipe::Receiver::from_owned_fd_unchecked) {
            Some(Ok(events)) => {
                let _ = events.readable().await;
            }
            _ => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }

    /// Look at what has changed: small things at once, large ones later.
    async fn catch_up(&self) {
        let mut watching = self.inner.changes.lock().await;
        let Some(watcher) = &mut watching.watcher else {
            let is_old = watching.looked_at.is_none_or(|at| LOOK_AGAIN <= at.elapsed());
            watching.look_again |= is_old;
            return;
        };
        let Changes { files, all } = watcher.changes();
        watching.look_again |= all;
        if files.is_empty() {
            return;
        }
        let mut now = Vec::new();
        for path in files {
            let Ok(file) = Found::one(&path) else { continue };
            match self.left_to_take(&file).await {
                Ok(0) => {}
                Ok(bytes) if bytes <= AT_ONCE_BYTES => now.push(file),
                Ok(_) => watching.later.push(file),
                Err(error) => tracing::warn!(%error, path = %path.display(), "a file cannot be looked up"),
            }
        }
        if !now.is_empty() {
            self.take_all(now, 1, Urgency::Awaited, Priority::Usual).await;
        }
    }

    /// How many bytes of a file are not in the journal; a file that is shorter than that counts as new.
    async fn left_to_take(&self, file: &Found) -> Result<i64, StoreError> {
        let row = self.inner.store.thread_of_rollout(&file.plain_path()).await?;
        let Some(row) = row.filter(|row| row.base_bytes < row.journal_bytes) else {
            return Ok(file.size.max(1));
        };
        let recorded = row.journal_bytes - row.base_bytes;
        // What is shorter is a mirror that is behind; it is looked at with the next look at everything.
        Ok((file.size - recorded).max(0))
    }
}

impl FileReport {
    /// Whether the thread was written to by another one meanwhile.
    fn is_moved(&self) -> bool {
        self.outcome == Outcome::Conflict && self.reason.as_deref() == Some(take::MOVED)
    }
}
