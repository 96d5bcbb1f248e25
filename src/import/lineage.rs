//! Which files a thread's history stands in: a file may continue the first part of another (a fork or a revert of the
//! peer's), and of several files of one thread the newest counts.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use chrono::NaiveDateTime;

use super::discover::{self, Found};
use super::unpack::{Damage, Unpacked};
use crate::rollout::line::{Parsed, Record, SessionMeta, parse};
use crate::rollout::{name, read};

const BUFFER_BYTES: usize = 128 << 10;

/// Lines of more bytes than this are held in memory one at a time.
pub(super) const LARGE_BYTES: usize = 4 << 20;

/// Lines at the beginning of a file among which its metadata is looked for.
const HEAD_LINES: usize = 16;

/// More files than any chain of reverts has; a circle ends here.
const CHAIN_MAX: usize = 64;

/// The rollout files of a home by their rollout ids.
#[derive(Debug, Default)]
pub(super) struct Rollouts {
    paths: HashMap<String, PathBuf>,
}

impl Rollouts {
    pub(super) fn of(found: &[Found]) -> Rollouts {
        let mut paths = HashMap::new();
        for file in found {
            if let Some(id) = rollout_id(&file.path) {
                paths.insert(id, file.path.clone());
            }
        }
        Rollouts { paths }
    }

    /// Those of the home that a file lies in.
    fn around(path: &Path) -> Rollouts {
        let is_folder = |path: &&Path| {
            path.file_name().is_some_and(|name| name == "sessions" || name == "archived_sessions")
        };
        let home = path.ancestors().find(is_folder).and_then(Path::parent);
        home.map_or_else(Rollouts::default, |home| Rollouts::of(&discover::find(home)))
    }
}

fn rollout_id(path: &Path) -> Option<String> {
    let name = name::parse(path.file_name()?.to_str()?)?;
    name.rollout_id.or(name.thread_id).map(|id| id.to_string())
}

/// Of two files of a thread the one with the higher rank is the thread's.
pub(super) fn rank(path: &Path) -> (Option<NaiveDateTime>, Option<uuid::Uuid>) {
    let name = path.file_name().and_then(|file| name::parse(file.to_str()?));
    name.map_or((None, None), |name| (name.local_time, name.rollout_id))
}

/// A part of a file.
#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    start: u64,
    end_byte: Option<u64>,
    pub(super) end_ordinal: Option<u64>,
}

/// The parts that a file's thread begins with, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Base {
    /// The thread that the file's own metadata tells.
    pub(super) thread_id: Option<String>,
    pub(super) segments: Vec<Segment>,
    /// The thread's own metadata, when the oldest part is another thread's.
    pub(super) forked: Option<SessionMeta>,
    /// What is missing.
    pub(super) problem: Option<String>,
}

/// Find what a file continues. `rollouts` are those of its home, looked for when they are not given.
pub(super) fn base_of(file: &Path, rollouts: Option<&Rollouts>) -> io::Result<Base> {
    let Some(meta) = metadata(file)? else {
        return Ok(Base { thread_id: id_of_headless(file)?, ..Base::default() });
    };
    let mut base = Base { thread_id: meta.id.clone(), ..Base::default() };
    if meta.history_base.is_none() {
        return Ok(base);
    }
    let looked;
    let rollouts = match rollouts {
        Some(rollouts) => rollouts,
        None => {
            looked = Rollouts::around(file);
            &looked
        }
    };
    let own_id = meta.id.clone();
    // The oldest metadata of the thread itself, and the oldest of all.
    let (mut oldest_own, mut oldest) = (meta.clone(), meta);
    while let Some(on) = oldest.history_base.clone() {
        let Some(path) = rollouts.paths.get(&on.thread_id).filter(|_| base.segments.len() < CHAIN_MAX) else {
            base.problem = Some(format!("missing source rollout {}", on.thread_id));
            break;
        };
        base.segments.push(Segment {
            path: path.clone(),
            start: 0,
            end_byte: on.end_byte_offset,
            end_ordinal: on.end_ordinal_exclusive,
        });
        let Some(meta) = metadata(path)? else { break };
        if meta.id == own_id {
            oldest_own = meta.clone();
        }
        oldest = meta;
    }
    base.segments.reverse();
    base.forked = (oldest.id != own_id).then_some(oldest_own);
    Ok(base)
}

/// The first metadata of a file.
fn metadata(path: &Path) -> io::Result<Option<SessionMeta>> {
    find_in_head(path, |record| match record {
        Record::SessionMeta(meta) | Record::BareMeta(meta) | Record::Session(meta, _) => Some(*meta),
        _ => None,
    })
}

/// The thread of a file that has records, but no metadata at its beginning.
fn id_of_headless(path: &Path) -> io::Result<Option<String>> {
    let record = find_in_head(path, |record| (!matches!(record, Record::Unknown)).then_some(()))?;
    Ok(record.and_then(|()| name::thread_id(path)))
}

/// Look at the first records of a file, until one is what is looked for.
fn find_in_head<T>(path: &Path, find: impl Fn(Record<'_>) -> Option<T>) -> io::Result<Option<T>> {
    let mut reader = read::Reader::new(open(path, 0)?);
    let mut line = Vec::new();
    for _ in 0..HEAD_LINES {
        line.clear();
        if reader.next_line(&mut line)? == 0 {
            break;
        }
        if let Parsed::Line(parsed) = parse(read::content(&line))
            && let Some(found) = find(parsed.record)
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A file's bytes from a position on: unpacked up to where it is damaged, and a session of one object as one line.
pub(super) fn open(path: &Path, start: u64) -> io::Result<Box<dyn BufRead + Send>> {
    open_noting(path, start, &Damage::default())
}

fn open_noting(path: &Path, start: u64, damage: &Damage) -> io::Result<Box<dyn BufRead + Send>> {
    let mut plain = File::open(path)?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => Ok(Box::new(Unpacked::of(plain, damage.clone())?)),
        Some("json") => {
            let bytes = std::fs::read(path)?;
            Ok(Box::new(Cursor::new(read::joined(&bytes).unwrap_or(bytes))))
        }
        _ => {
            plain.seek(SeekFrom::Start(start))?;
            Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, plain)))
        }
    }
}

/// The lines of a chain of files, one after another.
pub(super) struct Source {
    waiting: VecDeque<Segment>,
    current: Option<(Segment, read::Reader<Box<dyn BufRead + Send>>)>,
    damage: Damage,
}

impl Source {
    /// The parts of `base`, and then a file from a position on.
    pub(super) fn new(base: Vec<Segment>, file: &Path, start: u64) -> Source {
        let mut waiting = VecDeque::from(base);
        waiting.push_back(Segment { path: file.to_owned(), start, end_byte: None, end_ordinal: None });
        Source { waiting, current: None, damage: Damage::default() }
    }

    /// Why a packed file cannot be read beyond the lines so far.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.reason()
    }

    /// Append the next line. `None` at the end, else whether it is of the last file. `large` is called before the rest
    /// of a line of more than [`LARGE_BYTES`] is read.
    pub(super) fn next_line(
        &mut self,
        into: &mut Vec<u8>,
        large: &mut dyn FnMut(),
    ) -> io::Result<Option<bool>> {
        loop {
            if self.current.is_none() {
                let Some(segment) = self.waiting.pop_front() else { return Ok(None) };
                let reader = read::Reader::new(open_noting(&segment.path, segment.start, &self.damage)?);
                self.current = Some((segment, reader));
            }
            let is_own = self.waiting.is_empty();
            if let Some((segment, reader)) = &mut self.current {
                let is_before_end = segment.end_byte.is_none_or(|end| segment.start < end);
                let size =
                    if is_before_end { reader.next_line_telling(into, LARGE_BYTES, large)? } else { 0 };
                if size > 0 {
                    segment.start += size as u64;
                    // Another file follows: a last line that was cut must not run into it.
                    if !is_own && into.last() != Some(&b'\n') {
                        into.push(b'\n');
                    }
                    return Ok(Some(is_own));
                }
            }
            self.current = None;
        }
    }

    /// Whether a line with this ordinal is beyond the current part; the part ends there.
    pub(super) fn ends_at(&mut self, ordinal: Option<u64>) -> bool {
        let end = self.current.as_ref().and_then(|(segment, _)| segment.end_ordinal);
        let ends = end.zip(ordinal).is_some_and(|(end, ordinal)| ordinal >= end);
        if ends {
            self.current = None;
        }
        ends
    }
}
