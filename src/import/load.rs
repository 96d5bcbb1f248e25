//! Taking files in: every line into the journal, and what is derived from it.
//!
//! A file is taken in in parts, each part in a transaction of its own with the reducer's state, so that an import that
//! is killed goes on where it was, and a file of any size needs little memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::discover::{self, Found};
use super::lineage::{self, Base, Rollouts, Source};
use super::rows::{fill, thread_row};
use crate::history::{Change, Projector};
use crate::rollout::line::{Parsed, parse};
use crate::rollout::{name, read};
use crate::store::Store;
use crate::store::rollout_files::{FileImport, ImportProblem, RolloutFileRow};
use crate::store::rows::{Append, Lines, ThreadRow};

/// Bytes of a part: large enough to pack well, small enough to keep the writer free for others.
const PART_BYTES: usize = 256 << 10;

/// Bytes at the beginning of a file that tell whether it was rewritten.
const HEAD_BYTES: usize = 4096;

/// Runs of the journal that are read at a time when a file is compared with it.
const RUNS_AT_A_TIME: i64 = 64;

/// What came of a look at a home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files looked at.
    pub files: usize,
    /// Files of which something was taken in.
    pub taken: usize,
    /// Files that could not be taken in.
    pub failed: usize,
}

/// Take in all files of a home that are new or have changed.
///
/// # Errors
/// The store failed; a bad file only counts as failed.
pub async fn import_home(store: &Store, home: &Path) -> anyhow::Result<Report> {
    let known: HashMap<String, RolloutFileRow> =
        store.rollout_files().await?.into_iter().map(|file| (file.path.clone(), file)).collect();
    let home = home.to_owned();
    let (found, names) =
        tokio::task::spawn_blocking(move || (discover::find(&home), discover::names(&home))).await?;
    let rollouts = Rollouts::of(&found);
    let mut report = Report { files: found.len(), ..Report::default() };
    for file in &found {
        let before = known.get(&file.path.display().to_string());
        let unchanged = before.is_some_and(|row| row.size == file.size && row.mtime_ns == file.mtime_ns);
        if unchanged {
            continue;
        }
        match import(store, file, &names, Some(&rollouts)).await {
            Ok(taken) => report.taken += usize::from(taken),
            Err(error) => {
                report.failed += 1;
                tracing::warn!(%error, path = %file.path.display(), "a rollout file could not be taken in");
            }
        }
    }
    Ok(report)
}

/// Take in one file.
///
/// # Errors
/// It cannot be read, or the store failed.
pub async fn import_file(store: &Store, file: &Found) -> anyhow::Result<bool> {
    import(store, file, &HashMap::new(), None).await
}

async fn import(
    store: &Store,
    file: &Found,
    names: &HashMap<String, String>,
    rollouts: Option<&Rollouts>,
) -> anyhow::Result<bool> {
    let path = file.path.display().to_string();
    let before = store.rollout_file(&path).await?;
    let thread = store.thread_of_rollout(&file.plain_path()).await?.filter(|_| !file.is_packed());
    let recorded = thread.as_ref().map(|row| row.journal_bytes - row.base_bytes);
    // A file that mirrors a thread of ours is in step when it is as long as the journal.
    if let Some(row) = &thread
        && recorded.is_some_and(|recorded| file.size <= recorded)
    {
        note(store, in_step(file, before, row)).await?;
        return Ok(false);
    }
    let base = lineage::base_of(&file.path, rollouts)?;
    let mut import = match (thread, before) {
        // The thread has gone on here, and then in the file.
        (Some(row), before) if before.as_ref().map(|before| before.bytes_taken) != recorded => {
            match Taking::after(store, file, names, base, &row).await? {
                Some(import) => import,
                None => {
                    let reason = Some("the thread has gone on otherwise in the database".to_owned());
                    let row = in_step(file, None, &row);
                    note(store, RolloutFileRow { verdict: "conflict".to_owned(), reason, ..row }).await?;
                    return Ok(false);
                }
            }
        }
        (_, before) => Taking::new(file, before, names, base),
    };
    while let Some(part) = import.next_part()? {
        if part.start_anew
            && let Some(thread) = &part.thread
            && let Some(other) = newer_file(store, thread, file).await?
        {
            let reason = Some(format!("superseded by {other}"));
            note(store, RolloutFileRow { reason, reducer_json: None, ..part.file }).await?;
            return Ok(false);
        }
        store.import_files(vec![part]).await?;
    }
    Ok(import.took_any)
}

async fn note(store: &Store, file: RolloutFileRow) -> anyhow::Result<()> {
    Ok(store.import_files(vec![FileImport { file, ..FileImport::default() }]).await?)
}

/// What is known of a file that holds nothing new.
fn in_step(file: &Found, before: Option<RolloutFileRow>, row: &ThreadRow) -> RolloutFileRow {
    match before.filter(|before| before.bytes_taken == file.size) {
        Some(before) => RolloutFileRow { size: file.size, mtime_ns: file.mtime_ns, ..before },
        None => RolloutFileRow {
            path: file.path.display().to_string(),
            thread_id: Some(row.thread_id.clone()),
            size: file.size,
            mtime_ns: file.mtime_ns,
            bytes_taken: file.size,
            lines_taken: row.journal_lines,
            verdict: "imported".to_owned(),
            ..RolloutFileRow::default()
        },
    }
}

/// Another file of the thread that counts, and not this one.
async fn newer_file(store: &Store, thread: &ThreadRow, file: &Found) -> anyhow::Result<Option<String>> {
    let Some(row) = store.thread(&thread.thread_id).await? else { return Ok(None) };
    let Some(other) = row.rollout_path.filter(|path| *path != file.plain_path()) else { return Ok(None) };
    let is_there = Path::new(&other).exists() || Path::new(&format!("{other}.zst")).exists();
    let is_newer = lineage::rank(Path::new(&other)) >= lineage::rank(&file.path);
    Ok((is_there && is_newer).then_some(other))
}

/// Whether a file still begins as it did, and what was taken of it ends with a line: a line that was taken while it
/// was written is taken anew.
fn goes_on(before: &RolloutFileRow, file: &Path) -> bool {
    let Ok(mut file) = File::open(file) else { return false };
    let Ok(data) = file.metadata() else { return false };
    // A session of one JSON object is always read whole.
    if before.path.ends_with(".json") || (data.len() as i64) < before.bytes_taken {
        return false;
    }
    let mut last = [0];
    if let Ok(at) = u64::try_from(before.bytes_taken - 1) {
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut last));
        if read.is_err() || last != *b"\n" {
            return false;
        }
    }
    let mut head = vec![0; HEAD_BYTES.min(before.bytes_taken as usize)];
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut head));
    read.is_ok() && before.head_hash.as_deref() == Some(&Sha256::digest(&head))
}

/// Where the reducer stands between parts.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    projector: Projector,
    /// Bytes and lines of files that this one continues.
    base_bytes: i64,
    base_lines: i64,
}

/// An import under way.
struct Taking<'a> {
    file: &'a Found,
    names: &'a HashMap<String, String>,
    source: Source,
    progress: Progress,
    row: RolloutFileRow,
    start_anew: bool,
    head: Vec<u8>,
    problem: Option<String>,
    done: bool,
    took_any: bool,
}

/// Lines as read, and what they come to.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    /// How many of the bytes are the file's own, and not of one that it continues.
    own_bytes: i64,
    count: i64,
    changes: Vec<Change>,
    problems: Vec<ImportProblem>,
}

impl<'a> Taking<'a> {
    /// From where the last import ended, or from the beginning when that is not possible.
    fn new(
        file: &'a Found,
        before: Option<RolloutFileRow>,
        names: &'a HashMap<String, String>,
        base: Base,
    ) -> Taking<'a> {
        let continued = before.filter(|before| !file.is_packed() && goes_on(before, &file.path));
        let progress = continued
            .as_ref()
            .and_then(|row| serde_json::from_str::<Progress>(row.reducer_json.as_deref()?).ok());
        let mut taking = Taking::from_the_beginning(file, names, base);
        if let (Some(row), Some(progress)) = (continued, progress) {
            taking.source = Source::new(Vec::new(), &file.path, row.bytes_taken as u64);
            taking.progress = progress;
            taking.row = row;
            taking.start_anew = false;
            taking.problem = None;
        }
        taking
    }

    fn from_the_beginning(file: &'a Found, names: &'a HashMap<String, String>, base: Base) -> Taking<'a> {
        let projector = base.forked.as_ref().map_or_else(Projector::new, Projector::of_fork);
        Taking {
            file,
            names,
            source: Source::new(base.segments, &file.path, 0),
            progress: Progress { projector, ..Progress::default() },
            row: RolloutFileRow { path: file.path.display().to_string(), ..RolloutFileRow::default() },
            start_anew: true,
            head: Vec::new(),
            problem: base.problem,
            done: false,
            took_any: false,
        }
    }

    /// From the end of what is recorded of a thread; `None` when the file does not begin with that.
    async fn after(
        store: &Store,
        file: &'a Found,
        names: &'a HashMap<String, String>,
        base: Base,
        row: &ThreadRow,
    ) -> anyhow::Result<Option<Taking<'a>>> {
        let mut taking = Taking::from_the_beginning(file, names, base);
        let mut at = 0;
        while at < row.journal_bytes {
            let recorded = store.journal_from_byte(&row.thread_id, at, RUNS_AT_A_TIME).await?;
            let mut part = Part::default();
            while part.bytes.len() < recorded.len() {
                if !taking.next_line(&mut part)? {
                    return Ok(None);
                }
            }
            if recorded.is_empty() || part.bytes != recorded {
                return Ok(None);
            }
            at += recorded.len() as i64;
            taking.count(&part);
        }
        taking.start_anew = false;
        // A line that was cut and then ended counts twice in the journal.
        taking.row.lines_taken = row.journal_lines;
        Ok(Some(taking))
    }

    /// Read a line and reduce it.
    fn next_line(&mut self, part: &mut Part) -> anyhow::Result<bool> {
        loop {
            let start = part.bytes.len();
            let Some(is_own) = self.source.next_line(&mut part.bytes)? else { return Ok(false) };
            let number = self.row.lines_taken + part.count;
            let parsed = parse(read::content(&part.bytes[start..]));
            if let Parsed::Line(line) = &parsed
                && self.source.ends_at(line.ordinal)
            {
                part.bytes.truncate(start);
                continue;
            }
            match parsed {
                Parsed::Blank => {}
                Parsed::Line(line) => self.progress.projector.feed(&line, number, &mut part.changes),
                // What a file continues is reported with that file.
                Parsed::Bad(reason) if is_own => {
                    let line = number - self.progress.base_lines + 1;
                    part.problems.push(ImportProblem { line, reason });
                }
                Parsed::Bad(_) => {}
            }
            part.count += 1;
            let size = part.bytes.len() - start;
            if is_own {
                part.own_bytes += size as i64;
                let wanted = HEAD_BYTES.saturating_sub(self.head.len()).min(size);
                self.head.extend_from_slice(&part.bytes[start..start + wanted]);
            } else {
                self.progress.base_bytes += size as i64;
                self.progress.base_lines += 1;
            }
            return Ok(true);
        }
    }

    /// Read the next lines and make what is to be stored of them; `None` after the last part.
    fn next_part(&mut self) -> anyhow::Result<Option<FileImport>> {
        if self.done {
            return Ok(None);
        }
        let mut part = Part { bytes: Vec::with_capacity(PART_BYTES), ..Part::default() };
        while part.bytes.len() < PART_BYTES {
            if !self.next_line(&mut part)? {
                self.done = true;
                self.progress.projector.finish(&mut part.changes);
                break;
            }
        }
        self.took_any |= part.count > 0;
        Ok(Some(self.stored_form(part)))
    }

    /// Count what was read.
    fn count(&mut self, part: &Part) {
        self.row.lines_taken += part.count;
        self.row.bytes_taken += part.own_bytes;
    }

    fn stored_form(&mut self, mut part: Part) -> FileImport {
        let first_line = self.row.lines_taken;
        self.count(&part);
        self.row.size = self.file.size;
        self.row.mtime_ns = self.file.mtime_ns;
        let mut file = self.row.clone();
        if file.head_hash.is_none() && (self.done || self.head.len() == HEAD_BYTES) {
            file.head_hash = Some(Sha256::digest(&self.head).to_vec());
            self.row.head_hash.clone_from(&file.head_hash);
        }
        file.reducer_json = serde_json::to_string(&self.progress).ok();
        if let Some(reason) = self.problem.take() {
            part.problems.push(ImportProblem { line: 1, reason });
        }
        let projector = &self.progress.projector;
        let thread_id = projector.facts().thread_id.clone().or_else(|| self.id_of_name());
        let Some(thread_id) = thread_id.filter(|_| projector.has_meta()) else {
            file.verdict = "not_a_rollout".to_owned();
            file.reason = Some("no session metadata".to_owned());
            let problems = part.problems;
            return FileImport { file, problems, start_anew: true, ..FileImport::default() };
        };
        (self.row.thread_id, file.thread_id) = (Some(thread_id.clone()), Some(thread_id.clone()));
        file.verdict = "imported".to_owned();
        let name = self.names.get(&thread_id);
        let thread = ThreadRow {
            base_bytes: self.progress.base_bytes,
            ..thread_row(projector.facts(), &thread_id, self.file, name)
        };
        let lines = Lines { bytes: part.bytes, count: part.count };
        let mut append = Append { thread_id, lines, ..Append::default() };
        let dropped_turns = fill(&mut append, part.changes, first_line);
        FileImport {
            thread: Some(Box::new(thread)),
            start_anew: std::mem::take(&mut self.start_anew),
            append: Some(append),
            dropped_turns,
            file,
            problems: part.problems,
        }
    }

    fn id_of_name(&self) -> Option<String> {
        let name = name::parse(self.file.path.file_name()?.to_str()?)?;
        name.thread_id.map(|id| id.to_string())
    }
}
