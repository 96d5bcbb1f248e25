//! Reading one file: every line for the journal, and what is derived from it, in parts.
//!
//! Each part is stored in one transaction. The reducer's state is stored where the file ends, and now and then before
//! that: an import that goes on replays the lines after that state without storing them again. So a file of any size
//! needs little memory, and little is written that is not the file itself.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::discover::Found;
use super::job::Counts;
use super::lineage::{Base, Source};
use super::rows::{fill, thread_row};
use crate::history::{Change, Projector};
use crate::rollout::line::{Parsed, Record, parse};
use crate::rollout::{name, read};
use crate::store::rollout_files::{FileImport, ImportProblem, Packer, RolloutFileRow};
use crate::store::rows::{Append, Lines, ThreadRow};

/// Bytes of a part: large enough to pack well and to make few statements, small enough to keep the writer free for
/// others.
const PART_BYTES: usize = 512 << 10;

/// Bytes before the metadata at most; a file with more is none of a thread.
const HEADLESS_BYTES_MAX: usize = 16 << 20;

/// Bytes at the beginning, and at the end of what was taken, that tell whether a file was rewritten.
const MARK_BYTES: usize = 4096;

/// Bytes of a file after which the reducer's state is stored again, and how many times the state itself it must be.
const STATE_EVERY_BYTES: i64 = 16 << 20;
const STATE_SHARE: i64 = 32;

/// Where the reducer stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    projector: Projector,
    /// Bytes and lines of files that this one continues.
    base_bytes: i64,
    base_lines: i64,
    /// Bytes of the file itself, and all lines, that the reducer has seen.
    own_bytes: i64,
    lines: i64,
}

impl Progress {
    fn packed(&self, packer: &mut Packer) -> Option<Vec<u8>> {
        packer.frame(&serde_json::to_vec(self).ok()?)
    }

    fn unpacked(packed: &[u8]) -> Option<Progress> {
        serde_json::from_reader(zstd::Decoder::new(packed).ok()?).ok()
    }
}

/// How much of a file is in its thread's journal, for an import that goes on.
#[derive(Debug)]
pub(super) struct Taken {
    /// Bytes of the file itself.
    pub(super) bytes: i64,
    /// All lines of the journal.
    pub(super) lines: i64,
}

/// A file that is being read.
pub(super) struct Reading<'a> {
    file: &'a Found,
    names: &'a HashMap<String, String>,
    source: Source,
    progress: Progress,
    /// The part of the file that the journal has already.
    taken: Taken,
    /// The lines that the thread's journal has before the first part is stored.
    expected_lines: i64,
    start_anew: bool,
    /// The lines of files that this one continues are in the journal already.
    has_base: bool,
    /// The first bytes, until there are enough of them, and the last ones.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The state before a last line that has not ended.
    state_before_unended: Option<Box<Progress>>,
    next_state_at: i64,
    git: [Option<String>; 3],
    problem: Option<String>,
    done: bool,
    counts: Counts,
}

/// Lines as read, and what they come to.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    count: i64,
    changes: Vec<Change>,
    problems: Vec<ImportProblem>,
    cut_off_line: Option<i64>,
    forget_problems_from: Option<i64>,
}

impl<'a> Reading<'a> {
    /// From the beginning; the thread's history, which has so many lines now, is made anew of it.
    pub(super) fn anew(
        file: &'a Found,
        names: &'a HashMap<String, String>,
        base: Base,
        expected_lines: i64,
    ) -> Reading<'a> {
        let projector = base.forked.as_ref().map_or_else(Projector::new, Projector::of_fork);
        Reading {
            file,
            names,
            source: Source::new(base.segments, &file.path, 0),
            progress: Progress { projector, ..Progress::default() },
            taken: Taken { bytes: 0, lines: 0 },
            expected_lines,
            start_anew: true,
            has_base: false,
            head: Vec::new(),
            tail: Vec::new(),
            state_before_unended: None,
            next_state_at: STATE_EVERY_BYTES,
            git: [None, None, None],
            problem: base.problem,
            done: false,
            counts: Counts::default(),
        }
    }

    /// From where the journal ends, with the state that the last import has left.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn after(
        file: &'a Found,
        names: &'a HashMap<String, String>,
        base: Base,
        before: Option<&RolloutFileRow>,
        taken: Taken,
    ) -> io::Result<Reading<'a>> {
        let mut reading = Reading::anew(file, names, base, taken.lines);
        let state = before.and_then(|row| Progress::unpacked(row.reducer.as_deref()?));
        // A packed file, and a session of one object, cannot be read from the middle.
        let can_seek = !file.is_packed() && !file.is_single_object();
        if let Some(state) = state.filter(|state| can_seek && state.own_bytes <= taken.bytes) {
            reading.source = Source::new(Vec::new(), &file.path, state.own_bytes as u64);
            reading.next_state_at = state.own_bytes + STATE_EVERY_BYTES;
            reading.progress = state;
            reading.git = git(&reading.progress.projector);
            let end = reading.progress.own_bytes as usize;
            let size = MARK_BYTES.min(end);
            reading.head = read_at(&file.path, 0, size)?;
            reading.tail = read_at(&file.path, end - size, size)?;
        }
        reading.start_anew = false;
        reading.has_base = true;
        reading.problem = None;
        reading.taken = taken;
        Ok(reading)
    }

    /// What was taken so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Read the next lines and make what is to be stored of them; `None` after the last part. `large` is called before
    /// a large line is read to its end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn next_part(
        &mut self,
        packer: &mut Packer,
        large: &mut dyn FnMut(),
    ) -> anyhow::Result<Option<FileImport>> {
        if self.done {
            return Ok(None);
        }
        let mut part = Part { bytes: Vec::with_capacity(PART_BYTES + PART_BYTES / 8), ..Part::default() };
        // Before the lines that are only replayed, whose changes are stored already.
        self.progress.projector.go_on(&mut part.changes);
        // Lines before the metadata are kept as well, so it is waited for.
        while part.bytes.len() < PART_BYTES
            || (!self.progress.projector.has_meta() && part.bytes.len() < HEADLESS_BYTES_MAX)
        {
            if !self.next_line(&mut part, large)? {
                self.done = true;
                if let Some(reason) = self.source.damage() {
                    let line = self.progress.lines - self.progress.base_lines + 1;
                    part.problems.push(ImportProblem { line, reason: reason.to_owned() });
                }
                self.progress.projector.finish(&mut part.changes);
                break;
            }
        }
        Ok(Some(self.stored_form(part, packer)?))
    }

    /// Read a line and reduce it. A line that the journal has already only moves the reducer.
    fn next_line(&mut self, part: &mut Part, large: &mut dyn FnMut()) -> io::Result<bool> {
        loop {
            let start = part.bytes.len();
            let Some(is_own) = self.source.next_line(&mut part.bytes, large)? else { return Ok(false) };
            let size = (part.bytes.len() - start) as i64;
            let ended = part.bytes.last() == Some(&b'\n');
            let is_replayed =
                if is_own { self.progress.own_bytes + size <= self.taken.bytes } else { self.has_base };
            let parsed = parse(read::content(&part.bytes[start..]));
            if let Parsed::Line(line) = &parsed
                && self.source.ends_at(line.ordinal)
            {
                part.bytes.truncate(start);
                continue;
            }
            if is_own && !ended {
                self.state_before_unended = Some(Box::new(self.progress.clone()));
            }
            if is_own && !is_replayed && self.progress.own_bytes < self.taken.bytes {
                // It had not ended when it was taken; it is taken again as a whole.
                self.taken.lines -= 1;
                self.taken.bytes = self.progress.own_bytes;
                part.cut_off_line = Some(self.taken.lines);
                part.forget_problems_from = Some(self.progress.lines - self.progress.base_lines + 1);
            }
            // Lines of the journal and of the file differ where one was cut and then ended by a line end of ours.
            let number = if is_replayed { self.progress.lines } else { self.taken.lines + part.count };
            let file_line = self.progress.lines - self.progress.base_lines + 1;
            match parsed {
                Parsed::Blank => {}
                Parsed::Line(mut line) => {
                    self.counts.unknown_lines +=
                        u64::from(!is_replayed && matches!(line.record, Record::Unknown));
                    let changes_before = part.changes.len();
                    self.progress.projector.feed(&mut line, number, &mut part.changes);
                    if is_replayed {
                        part.changes.truncate(changes_before);
                    }
                }
                // What a file continues is reported with that file.
                Parsed::Bad(reason) if is_own && !is_replayed => {
                    part.problems.push(ImportProblem { line: file_line, reason });
                }
                Parsed::Bad(_) => {}
            }
            self.progress.lines += 1;
            if is_own {
                self.progress.own_bytes += size;
                self.mark(&part.bytes[start..]);
            } else {
                self.progress.base_bytes += size;
                self.progress.base_lines += 1;
            }
            if is_replayed {
                part.bytes.truncate(start);
                continue;
            }
            part.count += 1;
            return Ok(true);
        }
    }

    /// Keep the bytes that tell whether a file was rewritten.
    fn mark(&mut self, line: &[u8]) {
        let wanted = MARK_BYTES.saturating_sub(self.head.len()).min(line.len());
        self.head.extend_from_slice(&line[..wanted]);
        let last = &line[line.len().saturating_sub(MARK_BYTES)..];
        let kept = MARK_BYTES - last.len();
        self.tail.drain(..self.tail.len().saturating_sub(kept));
        self.tail.extend_from_slice(last);
    }

    fn stored_form(&mut self, mut part: Part, packer: &mut Packer) -> anyhow::Result<FileImport> {
        let first_line = self.taken.lines;
        let expected_lines = self.expected_lines;
        self.taken.lines += part.count;
        self.expected_lines = self.taken.lines;
        self.taken.bytes = self.taken.bytes.max(self.progress.own_bytes);
        self.count(&part);
        // Packed, and gone, before anything else is made of it: a line may be large.
        let bytes = std::mem::take(&mut part.bytes);
        let lines = packer.lines(Lines { bytes, count: part.count })?;
        let mut file = RolloutFileRow {
            path: self.file.path.display().to_string(),
            // Until the end is reached the file counts as changed, whatever it looks like.
            size: if self.done { self.file.size } else { 0 },
            mtime_ns: if self.done { self.file.mtime_ns } else { 0 },
            bytes_taken: self.progress.own_bytes,
            lines_taken: self.taken.lines,
            head_hash: Some(Sha256::digest(&self.head).to_vec()),
            tail_hash: Some(Sha256::digest(&self.tail).to_vec()),
            verdict: "imported".to_owned(),
            reducer: self.state(packer),
            ..RolloutFileRow::default()
        };
        if let Some(reason) = self.problem.take() {
            part.problems.push(ImportProblem { line: 1, reason });
        }
        let projector = &self.progress.projector;
        let thread_id = projector.facts().thread_id.clone().or_else(|| name::thread_id(&self.file.path));
        let Some(thread_id) = thread_id.filter(|_| projector.has_records()) else {
            file.verdict = "not_a_rollout".to_owned();
            file.reason = Some("no session metadata".to_owned());
            let problems = part.problems;
            let start_anew = std::mem::take(&mut self.start_anew);
            return Ok(FileImport { file, problems, start_anew, ..FileImport::default() });
        };
        file.thread_id = Some(thread_id.clone());
        let mut thread = ThreadRow {
            base_bytes: self.progress.base_bytes,
            ..thread_row(projector.facts(), &thread_id, self.file, self.names.get(&thread_id))
        };
        self.only_changed_git(&mut thread);
        let mut append = Append { thread_id, ..Append::default() };
        let dropped_turns = fill(&mut append, part.changes, first_line);
        Ok(FileImport {
            thread: Some(Box::new(thread)),
            lines,
            expected_lines: Some(expected_lines),
            start_anew: std::mem::take(&mut self.start_anew),
            cut_off_line: part.cut_off_line,
            append: Some(append),
            dropped_turns,
            file,
            problems: part.problems,
            forget_problems_from: part.forget_problems_from,
        })
    }

    fn count(&mut self, part: &Part) {
        let counts = &mut self.counts;
        counts.bytes += part.bytes.len() as u64;
        counts.lines += part.count as u64;
        counts.bad_lines += part.problems.len() as u64;
        for change in &part.changes {
            match change {
                Change::Usage(usage) => {
                    counts.responses += 1;
                    counts.tokens = counts.tokens.saturating_add(usage.tokens.total_tokens);
                }
                Change::Item { .. } => counts.items += 1,
                _ => {}
            }
        }
        counts.turns = self.progress.projector.turn_count() as u64;
    }

    /// The reducer's state, where it is time to store it.
    fn state(&mut self, packer: &mut Packer) -> Option<Vec<u8>> {
        if !self.done && self.progress.own_bytes < self.next_state_at {
            // The state of an earlier import has to go.
            return self.start_anew.then(Vec::new);
        }
        let state = match self.state_before_unended.take() {
            Some(mut before) => {
                before.projector.take_over_shown(&self.progress.projector);
                before.packed(packer)
            }
            None => self.progress.packed(packer),
        }?;
        // Packed, the state is a tenth of what it takes to make it.
        let apart = STATE_EVERY_BYTES.max(state.len() as i64 * 10 * STATE_SHARE);
        self.next_state_at = self.progress.own_bytes + apart;
        Some(state)
    }

    /// A repository is only told when it has changed since the last part, so that one that a client has set stays.
    fn only_changed_git(&mut self, thread: &mut ThreadRow) {
        let now = git(&self.progress.projector);
        if now == self.git {
            (thread.git_sha, thread.git_branch, thread.git_origin_url) = (None, None, None);
        }
        self.git = now;
    }
}

fn git(projector: &Projector) -> [Option<String>; 3] {
    let facts = projector.facts();
    [facts.git_sha.clone(), facts.git_branch.clone(), facts.git_origin_url.clone()]
}

/// Whether a file still begins, and still goes on until where it was taken, as it did.
pub(super) fn goes_on(before: &RolloutFileRow, file: &Found) -> bool {
    if file.is_packed()
        || file.is_single_object()
        || file.size < before.bytes_taken
        || before.bytes_taken == 0
    {
        return false;
    }
    let end = before.bytes_taken as usize;
    let size = MARK_BYTES.min(end);
    let is_as_before = |hash: &Option<Vec<u8>>, at: usize| {
        read_at(&file.path, at, size).is_ok_and(|bytes| hash.as_deref() == Some(&Sha256::digest(&bytes)))
    };
    is_as_before(&before.head_hash, 0) && is_as_before(&before.tail_hash, end - size)
}

fn read_at(path: &Path, at: usize, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    File::open(path)?.read_exact_at(&mut bytes, at as u64)?;
    Ok(bytes)
}
