//! One file against the store: what is to be done with it, and doing it.
//!
//! The database is the truth for what it holds; a file is taken from where the journal ends, or left alone where the
//! two have gone different ways.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::discover::Found;
use super::index;
use super::job::{Counts, FileReport, Known, Outcome, Work};
use super::lineage::{self, Rollouts};
use super::load::{Reading, Taken, goes_on};
use super::rows::moved;
use crate::store::rollout_files::{FileImport, Imported, Packer, PreparedImports, RolloutFileRow, Urgency};
use crate::store::rows::ThreadRow;
use crate::store::{Result as StoreResult, Store};

/// Bytes of rollouts that are stored in one transaction: some milliseconds of the writer's time.
pub(super) const BATCH_BYTES: usize = 1 << 20;

/// The same where no client of this process waits: fewer and larger statements.
pub(super) const BATCH_BYTES_ALONE: usize = 4 << 20;

/// Imports in one transaction, for files that are nearly empty.
const BATCH_IMPORTS: usize = 64;

/// Batches that wait for the writer: it shares a commit among them, and the next is read meanwhile.
const IN_FLIGHT_MAX: usize = 4;

/// Runs of the journal that are read at a time when a file is compared with it.
const RUNS_AT_A_TIME: i64 = 64;

/// Why a file was not taken to its end this time.
pub(super) const MOVED: &str =
    "the thread was written to by another one meanwhile; the file is looked at again";

/// What is known of the home beside the file.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// Names by thread id.
    pub(super) names: HashMap<String, String>,
    /// The home's files; looked for when they are needed if `None`.
    pub(super) rollouts: Option<Rollouts>,
    /// What the database knew at the beginning, if that was asked.
    pub(super) known: Option<Known>,
    /// Threads of which a file was taken since.
    pub(super) begun: Mutex<HashSet<String>>,
}

impl Around {
    /// Whether the database cannot know this file and thread, so that it need not be asked. A thread is new once.
    fn are_new(&self, file: &Found, thread_id: &str) -> bool {
        let Some(known) = &self.known else { return false };
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.insert(thread_id.to_owned()) && known.is_new(file) && !known.has_thread(thread_id)
    }
}

/// Told of what goes on.
pub(super) trait Listener: Send + Sync {
    /// Bytes were read.
    fn bytes(&self, count: u64);
    /// A file is done.
    fn file(&self, report: FileReport);
    /// Whether to stop.
    fn is_cancelled(&self) -> bool;
    /// Wait until nobody else has a large line in memory.
    fn large(&self) -> MutexGuard<'_, ()>;
}

/// Takes files in, one after another, on a thread of its own: it blocks.
pub(super) struct Taker<'a> {
    store: Store,
    runtime: Handle,
    around: &'a Around,
    listener: &'a dyn Listener,
    urgency: Urgency,
    dry_run: bool,
    batch_bytes: usize,
    packer: Packer,
    /// Held while a large line is in memory.
    large: Option<MutexGuard<'a, ()>>,
    batch: Batch,
    in_flight: VecDeque<InFlight>,
    /// Files of which a part could not be stored, since.
    broken: Vec<(std::path::PathBuf, Outcome, String)>,
}

/// Imports that are stored together.
#[derive(Default)]
struct Batch {
    imports: PreparedImports,
    bytes: usize,
    /// The file of each import.
    owners: Vec<Arc<std::path::PathBuf>>,
    /// Files that are done when this is stored.
    ending: Vec<FileReport>,
}

struct InFlight {
    answer: JoinHandle<StoreResult<Vec<Imported>>>,
    owners: Vec<Arc<std::path::PathBuf>>,
    ending: Vec<FileReport>,
}

/// What is to be done with a file.
enum Plan<'a> {
    /// Nothing.
    Leave(Outcome, Option<String>),
    /// This is all.
    Note(Box<FileImport>, Outcome, Option<String>),
    /// Take it in.
    Read(Box<Reading<'a>>, Outcome),
}

/// How a file and the journal stand to each other.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    /// The file begins with the whole journal, and may have more.
    Whole,
    /// The file is the beginning of the journal.
    Beginning,
    /// They differ.
    Otherwise,
}

impl<'a> Taker<'a> {
    pub(super) fn new(work: &'a Work, runtime: Handle, listener: &'a dyn Listener) -> Taker<'a> {
        Taker {
            store: work.store.clone(),
            runtime,
            around: &work.around,
            listener,
            urgency: work.urgency,
            dry_run: work.dry_run,
            batch_bytes: work.batch_bytes,
            packer: Packer::kept(),
            large: None,
            batch: Batch::default(),
            in_flight: VecDeque::new(),
            broken: Vec::new(),
        }
    }

    /// Take in a file; it is told when it is stored.
    pub(super) fn take(&mut self, file: &Found) {
        let mut report = FileReport {
            path: file.path.clone(),
            thread_id: None,
            outcome: Outcome::Unchanged,
            reason: None,
            counts: Counts::default(),
            problems: Vec::new(),
        };
        match self.try_take(file, &mut report) {
            Ok(()) => {}
            Err(error) => {
                report.outcome = Outcome::Failed;
                report.reason = Some(format!("{error:#}"));
                tracing::warn!(path = %file.path.display(), error = report.reason, "a rollout file could not be taken in");
            }
        }
        self.batch.ending.push(report);
    }

    /// Make a thread's row of a file's head; nothing is told.
    pub(super) fn take_head(&mut self, file: &Found) {
        let taken = index::of_head(file, self.around).map_err(anyhow::Error::from);
        let added =
            taken.and_then(|head| head.map_or(Ok(()), |head| self.add(head, &Arc::new(file.path.clone()))));
        if let Err(error) = added {
            tracing::warn!(path = %file.path.display(), %error, "the head of a rollout file could not be read");
        }
    }

    /// Store what waits, and tell.
    pub(super) fn finish(&mut self) {
        self.send();
        self.settle(0);
    }

    fn try_take(&mut self, file: &Found, report: &mut FileReport) -> anyhow::Result<()> {
        match self.plan(file, report)? {
            Plan::Leave(outcome, reason) => (report.outcome, report.reason) = (outcome, reason),
            Plan::Note(import, outcome, reason) => {
                (report.outcome, report.reason) = (outcome, reason);
                self.add(*import, &Arc::new(file.path.clone()))?;
            }
            Plan::Read(mut reading, outcome) => {
                report.outcome = outcome;
                let owner = Arc::new(file.path.clone());
                let mut told = 0;
                while !self.listener.is_cancelled()
                    && !self.is_broken(&file.path)
                    && let Some(part) = {
                        let (listener, large) = (self.listener, &mut self.large);
                        reading.next_part(&mut self.packer, &mut || {
                            large.get_or_insert_with(|| listener.large());
                        })?
                    }
                {
                    let counts = reading.counts();
                    self.listener.bytes(counts.bytes - told);
                    told = counts.bytes;
                    report.counts = counts;
                    report.thread_id.clone_from(&part.file.thread_id);
                    report.problems.extend(part.problems.iter().cloned());
                    if part.file.verdict == "not_a_rollout" {
                        (report.outcome, report.reason) = (Outcome::NotARollout, part.file.reason.clone());
                    }
                    self.add(part, &owner)?;
                }
            }
        }
        Ok(())
    }

    fn plan(&self, file: &'a Found, report: &mut FileReport) -> anyhow::Result<Plan<'a>> {
        let path = file.path.display().to_string();
        let plain_path = file.plain_path();
        let base = lineage::base_of(&file.path, self.around.rollouts.as_ref())?;
        if let Some(id) = &base.thread_id
            && self.around.are_new(file, id)
        {
            report.thread_id.clone_from(&base.thread_id);
            let reading = Reading::anew(file, &self.around.names, base, 0);
            return Ok(Plan::Read(Box::new(reading), Outcome::Imported));
        }
        let before = self.runtime.block_on(self.store.rollout_file(&path))?;
        let mut thread = self.runtime.block_on(self.store.thread_of_rollout(&plain_path))?;
        let id = base.thread_id.clone().or_else(|| thread.as_ref().map(|row| row.thread_id.clone()));
        report.thread_id.clone_from(&id);
        if thread.is_none()
            && let Some(id) = &id
        {
            thread = self.runtime.block_on(self.store.thread(id))?;
        }
        let names = &self.around.names;
        let expected_lines = thread.as_ref().map_or(0, |row| row.journal_lines);
        let is_of = |row: &ThreadRow| row.rollout_path.as_deref() == Some(&plain_path);
        if let Some(row) = thread.as_ref().filter(|row| !is_of(row))
            && let Some(other) = newer_file(row, file)
        {
            let reason = Some(format!("superseded by {other}"));
            let note = self.note(file, before, row, reason.clone());
            return Ok(Plan::Note(Box::new(note), Outcome::Superseded, reason));
        }
        // Nothing of the file itself is recorded.
        let Some(row) = thread.filter(|row| row.base_bytes < row.journal_bytes) else {
            let reading = Reading::anew(file, names, base, expected_lines);
            return Ok(Plan::Read(Box::new(reading), Outcome::Imported));
        };
        let is_of_thread = is_of(&row);
        let recorded = row.journal_bytes - row.base_bytes;
        let all_from_file = before.as_ref().is_some_and(|before| before.bytes_taken == recorded);
        let trusted = before.as_ref().filter(|before| goes_on(before, file)).map_or(0, |row| row.bytes_taken);
        let is_plain = !file.is_packed() && !file.is_single_object();
        if is_of_thread && is_plain && file.size == recorded {
            let is_noted = before.as_ref().is_none_or(|before| before.mtime_ns == file.mtime_ns);
            // What grew by our own mirror is as long as the journal; what only an import knows may be rewritten.
            if is_noted || !all_from_file {
                return Ok(Plan::Leave(Outcome::Unchanged, None));
            }
        }
        let is_longer = is_plain && recorded < file.size;
        let compared = if is_longer && trusted == recorded {
            Compared::Whole
        } else {
            self.compare(file, &row, if is_longer { trusted } else { 0 })?
        };
        let taken = Taken { bytes: recorded, lines: row.journal_lines };
        match compared {
            Compared::Whole if is_longer || !is_plain => {
                let reading = Reading::after(file, names, base, before.as_ref(), taken)?;
                Ok(Plan::Read(Box::new(reading), Outcome::Extended))
            }
            Compared::Whole => Ok(self.unchanged(file, before, &row, None)),
            Compared::Beginning => {
                let reason = "the file is shorter than what is recorded of it; it is written on when the thread goes on";
                Ok(self.unchanged(file, before, &row, Some(reason.to_owned())))
            }
            Compared::Otherwise if all_from_file || !is_of_thread => {
                let reading = Reading::anew(file, names, base, expected_lines);
                Ok(Plan::Read(Box::new(reading), Outcome::Renewed))
            }
            Compared::Otherwise => {
                let reason = Some("the thread has gone on otherwise in the database".to_owned());
                let mut note = self.note(file, before, &row, reason.clone());
                note.file.verdict = "conflict".to_owned();
                Ok(Plan::Note(Box::new(note), Outcome::Conflict, reason))
            }
        }
    }

    fn unchanged(
        &self,
        file: &Found,
        before: Option<RolloutFileRow>,
        row: &ThreadRow,
        reason: Option<String>,
    ) -> Plan<'a> {
        let mut note = self.note(file, before, row, reason.clone());
        note.file.bytes_taken = row.journal_bytes - row.base_bytes;
        note.file.lines_taken = row.journal_lines;
        if row.rollout_path.as_deref() != Some(&file.plain_path()) {
            note.thread = Some(Box::new(moved(row, file)));
        }
        Plan::Note(Box::new(note), Outcome::Unchanged, reason)
    }

    /// What is known of a file of which nothing is taken now.
    fn note(
        &self,
        file: &Found,
        before: Option<RolloutFileRow>,
        row: &ThreadRow,
        reason: Option<String>,
    ) -> FileImport {
        let before = before.unwrap_or_else(|| RolloutFileRow {
            path: file.path.display().to_string(),
            thread_id: Some(row.thread_id.clone()),
            ..RolloutFileRow::default()
        });
        let verdict = "imported".to_owned();
        let row = RolloutFileRow { size: file.size, mtime_ns: file.mtime_ns, verdict, reason, ..before };
        FileImport { file: row, ..FileImport::default() }
    }

    /// Hold a file against a thread's journal, from a byte of the file on.
    fn compare(&self, file: &Found, row: &ThreadRow, from: i64) -> anyhow::Result<Compared> {
        let mut source = lineage::open(&file.path, from as u64)?;
        let mut at = row.base_bytes + from;
        let mut buffer = Vec::new();
        while at < row.journal_bytes {
            let next = self.store.journal_from_byte(&row.thread_id, at, RUNS_AT_A_TIME);
            let recorded = self.runtime.block_on(next)?;
            if recorded.is_empty() {
                return Ok(Compared::Otherwise);
            }
            buffer.clear();
            source.by_ref().take(recorded.len() as u64).read_to_end(&mut buffer)?;
            if !recorded.starts_with(&buffer) {
                return Ok(Compared::Otherwise);
            }
            if buffer.len() < recorded.len() {
                return Ok(Compared::Beginning);
            }
            at += recorded.len() as i64;
        }
        Ok(Compared::Whole)
    }

    // Storing -----------------------------------------------------------------------------------------------------

    fn add(&mut self, import: FileImport, owner: &Arc<std::path::PathBuf>) -> anyhow::Result<()> {
        if self.dry_run {
            self.large = None;
            return Ok(());
        }
        let replaces = import.start_anew && import.expected_lines.is_some_and(|lines| 0 < lines);
        self.batch.bytes += import.lines.byte_count();
        self.batch.imports.add(import, &mut self.packer)?;
        self.batch.owners.push(owner.clone());
        if self.batch_bytes <= self.batch.bytes || BATCH_IMPORTS <= self.batch.imports.len() {
            self.send();
        }
        if self.large.is_some() || replaces {
            // A large line is stored and gone before anything else, and what goes on after replaced lines must not
            // meet those.
            self.finish();
            self.large = None;
        }
        Ok(())
    }

    /// Hand the batch to the writer, when not too many wait for it.
    fn send(&mut self) {
        self.settle(IN_FLIGHT_MAX - 1);
        let Batch { imports, owners, ending, .. } = std::mem::take(&mut self.batch);
        let (store, urgency) = (self.store.clone(), self.urgency);
        let answer = self.runtime.spawn(async move {
            if imports.is_empty() { Ok(Vec::new()) } else { store.import_files(imports, urgency).await }
        });
        self.in_flight.push_back(InFlight { answer, owners, ending });
    }

    /// Wait until only so many batches are being stored, and tell of the files that the others end.
    fn settle(&mut self, in_flight_max: usize) {
        while self.in_flight.len() > in_flight_max
            && let Some(batch) = self.in_flight.pop_front()
        {
            self.settle_one(batch);
        }
    }

    fn settle_one(&mut self, InFlight { answer, owners, ending }: InFlight) {
        match self.runtime.block_on(answer) {
            Ok(Ok(outcomes)) => {
                for (owner, outcome) in owners.iter().zip(outcomes) {
                    match outcome {
                        Imported::Stored => {}
                        Imported::Moved => self.broke(owner, Outcome::Conflict, MOVED.to_owned()),
                        Imported::Failed(error) => self.broke(owner, Outcome::Failed, error.to_string()),
                    }
                }
            }
            Ok(Err(error)) => {
                owners.iter().for_each(|owner| self.broke(owner, Outcome::Failed, error.to_string()))
            }
            Err(error) => {
                owners.iter().for_each(|owner| self.broke(owner, Outcome::Failed, error.to_string()))
            }
        }
        for mut report in ending {
            if let Some(at) = self.broken.iter().position(|(path, ..)| *path == report.path) {
                let (_, outcome, reason) = self.broken.swap_remove(at);
                (report.outcome, report.reason) = (outcome, Some(reason));
            }
            self.listener.file(report);
        }
    }

    fn broke(&mut self, path: &Path, outcome: Outcome, reason: String) {
        if !self.is_broken(path) {
            self.broken.push((path.to_owned(), outcome, reason));
        }
    }

    fn is_broken(&self, path: &Path) -> bool {
        self.broken.iter().any(|(broken, ..)| broken == path)
    }
}

/// Another file of the thread that counts, and not this one.
fn newer_file(row: &ThreadRow, file: &Found) -> Option<String> {
    let other = row.rollout_path.clone()?;
    let is_there = Path::new(&other).exists() || Path::new(&format!("{other}.zst")).exists();
    let is_newer = lineage::rank(Path::new(&other)) >= lineage::rank(&file.path);
    (is_there && is_newer).then_some(other)
}
