//! An import as a job: many files, with progress, a way to stop, and a report of each file.
//!
//! [`run`] is what `threadkeep import` and the server's background import are made of. It may be stopped, or killed, at
//! any moment: the next run goes on where it was.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::discover::{self, Found};
use super::lineage::{self, Rollouts};
use super::take::{Around, BATCH_BYTES, BATCH_BYTES_ALONE, Listener, Taker};
use crate::rollout::name;
use crate::store::Store;
use crate::store::rollout_files::{ImportProblem, KnownFile, Urgency};

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
    /// Turns that the thread has then.
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
    progress: impl Fn(Progress) + Send + Sync + 'static,
) -> anyhow::Result<Report> {
    let roots = options.roots.clone();
    let (found, mut around) = tokio::task::spawn_blocking(move || look(&roots)).await?;
    let known = Known::of(store).await?;
    let (unchanged, changed): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|file| known.is_unchanged(file));
    let size = |files: &[Found]| files.iter().map(|file| file.size as u64).sum::<u64>();
    progress(Progress::Found {
        files: unchanged.len() + changed.len(),
        bytes: size(&unchanged) + size(&changed),
        changed: changed.len(),
        bytes_to_take: changed.iter().map(|file| known.bytes_to_take(file)).sum(),
    });
    around.known = Some(known);
    let run = Run {
        queue: Mutex::new(grouped(changed)),
        cancel: cancel.clone(),
        progress: Box::new(progress),
        reports: Mutex::new(unchanged.into_iter().map(unchanged_report).collect()),
        large: Mutex::default(),
    };
    let work = Work {
        urgency: Urgency::Behind,
        dry_run: options.dry_run,
        batch_bytes: BATCH_BYTES_ALONE,
        ..Work::new(store.clone(), around)
    };
    let (run, _) = work_off(run, work, options.jobs, Priority::Usual).await?;
    let mut files = run.into_reports();
    files.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()).then_with(|| a.path.cmp(&b.path)));
    Ok(Report { files, cancelled: cancel.is_cancelled() })
}

/// The files below some roots, and what is known of their homes.
pub(super) fn look(roots: &[PathBuf]) -> (Vec<Found>, Around) {
    let mut found = Vec::new();
    let mut names = HashMap::new();
    for root in roots {
        found.extend(discover::find(root));
        names.extend(discover::names(root));
    }
    // A single file may continue one that was not asked for.
    let rollouts = roots.iter().all(|root| root.is_dir()).then(|| Rollouts::of(&found));
    (found, Around { names, rollouts, ..Around::default() })
}

/// What the database knows of files.
#[derive(Debug)]
pub(super) struct Known {
    files: HashMap<String, KnownFile>,
    mirrored: HashMap<String, i64>,
    thread_ids: HashSet<String>,
}

impl Known {
    pub(super) async fn of(store: &Store) -> anyhow::Result<Known> {
        let files = store.known_files().await?.into_iter().map(|file| (file.path.clone(), file));
        let mirrored = store.mirrored_threads().await?.into_iter().map(|thread| (thread.path, thread.bytes));
        let thread_ids = store.thread_ids().await?.into_iter().collect();
        Ok(Known { files: files.collect(), mirrored: mirrored.collect(), thread_ids })
    }

    /// Whether a thread was there.
    pub(super) fn has_thread(&self, thread_id: &str) -> bool {
        self.thread_ids.contains(thread_id)
    }

    /// Whether nothing is to be taken of a file, as far as can be told without opening it.
    pub(super) fn is_unchanged(&self, file: &Found) -> bool {
        let Some(path) = file.path.to_str() else { return false };
        let known = self.files.get(path);
        let is_as_noted =
            known.is_some_and(|known| known.size == file.size && known.mtime_ns == file.mtime_ns);
        if is_as_noted {
            return known.is_some_and(|known| known.verdict != "indexed");
        }
        // Our own mirror has written it.
        let recorded = self.mirrored.get(path).copied();
        recorded == Some(file.size) && known.is_none_or(|known| Some(known.bytes_taken) != recorded)
    }

    /// Whether a file, or its thread, was never seen.
    pub(super) fn is_new(&self, file: &Found) -> bool {
        let path = file.path.display().to_string();
        !self.files.contains_key(&path) && !self.mirrored.contains_key(&file.plain_path())
    }

    fn bytes_to_take(&self, file: &Found) -> u64 {
        let taken =
            file.path.to_str().and_then(|path| self.files.get(path)).map_or(0, |known| known.bytes_taken);
        (file.size - taken).max(0) as u64
    }
}

/// Files by thread, since of several of one thread the newest counts: the newest thread first, and of its files the
/// one that counts.
pub(super) fn grouped(files: Vec<Found>) -> VecDeque<Vec<Found>> {
    let mut groups: HashMap<String, Vec<Found>> = HashMap::new();
    for file in files {
        let name = file.path.file_name().and_then(|name| name.to_str());
        let id = name.and_then(name::parse).and_then(|name| name.thread_id);
        let key = id.map_or_else(|| file.path.display().to_string(), |id| id.to_string());
        groups.entry(key).or_default().push(file);
    }
    let mut groups: Vec<Vec<Found>> = groups.into_values().collect();
    for group in &mut groups {
        group.sort_by_key(|file| std::cmp::Reverse(lineage::rank(&file.path)));
    }
    groups.sort_by_cached_key(|group| {
        std::cmp::Reverse(group.first().and_then(|file| file.path.file_name().map(ToOwned::to_owned)))
    });
    groups.into()
}

/// What the threads of a job share.
pub(super) struct Run {
    pub(super) queue: Mutex<VecDeque<Vec<Found>>>,
    pub(super) cancel: CancellationToken,
    pub(super) progress: Box<dyn Fn(Progress) + Send + Sync>,
    pub(super) reports: Mutex<Vec<FileReport>>,
    /// Held by the one who has a large line in memory.
    pub(super) large: Mutex<()>,
}

impl Run {
    /// A job that tells nobody.
    pub(super) fn quiet(files: Vec<Found>, cancel: CancellationToken) -> Run {
        let queue = Mutex::new(grouped(files));
        Run { queue, cancel, progress: Box::new(|_| {}), reports: Mutex::default(), large: Mutex::default() }
    }

    pub(super) fn into_reports(self) -> Vec<FileReport> {
        self.reports.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Run {
    fn bytes(&self, count: u64) {
        (self.progress)(Progress::Bytes(count));
    }

    fn file(&self, report: FileReport) {
        if report.outcome != Outcome::Unchanged {
            (self.progress)(Progress::File(report.clone()));
        }
        lock(&self.reports).push(report);
    }

    fn large(&self) -> MutexGuard<'_, ()> {
        lock(&self.large)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

/// How files are taken.
pub(super) struct Work {
    pub(super) store: Store,
    pub(super) around: Around,
    pub(super) urgency: Urgency,
    pub(super) dry_run: bool,
    /// Bytes of rollouts that are stored together.
    pub(super) batch_bytes: usize,
    /// Only threads' rows are made, of the files' heads.
    pub(super) only_heads: bool,
}

impl Work {
    pub(super) fn new(store: Store, around: Around) -> Work {
        let urgency = Urgency::Awaited;
        Work { store, around, urgency, dry_run: false, batch_bytes: BATCH_BYTES, only_heads: false }
    }
}

/// How much of the processors a job gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    Usual,
    /// What others leave.
    Low,
}

/// The nice value of threads that work in the background.
const NICE: i32 = 10;

/// Work off a queue on threads of its own; gives back what they shared.
///
/// # Errors
/// No thread could be started.
pub(super) async fn work_off(
    run: Run,
    work: Work,
    jobs: usize,
    priority: Priority,
) -> anyhow::Result<(Run, Work)> {
    let jobs = match jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let runtime = Handle::current();
    let (done, all_done) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("import".to_owned()).spawn(move || {
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| work_off_queue(&run, &work, &runtime, priority));
            }
        });
        let _ = done.send((run, work));
    })?;
    Ok(all_done.await?)
}

fn work_off_queue(run: &Run, work: &Work, runtime: &Handle, priority: Priority) {
    if priority == Priority::Low
        && let Err(error) = rustix::process::setpriority_process(None, NICE)
    {
        tracing::debug!(%error, "the import keeps its priority");
    }
    let mut taker = Taker::new(work, runtime.clone(), run);
    while !run.cancel.is_cancelled() {
        let Some(group) = lock(&run.queue).pop_front() else { break };
        let is_several = 1 < group.len();
        for file in group {
            if work.only_heads {
                taker.take_head(&file);
            } else {
                taker.take(&file);
            }
            if is_several {
                // What the next one is compared with must be stored.
                taker.finish();
            }
        }
    }
    taker.finish();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unchanged_report(file: Found) -> FileReport {
    FileReport {
        path: file.path,
        thread_id: None,
        outcome: Outcome::Unchanged,
        reason: None,
        counts: Counts::default(),
        problems: Vec::new(),
    }
}
