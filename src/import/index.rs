//! The index pass: a thread's row from the head of its file, so that it is listed before its file is taken in.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::discover::Found;
use super::job::{Known, Priority, Run, Work, grouped, work_off};
use super::lineage::{self, Source};
use super::rows::thread_row;
use super::take::Around;
use crate::history::Projector;
use crate::rollout::line::{Parsed, parse};
use crate::rollout::{name, read};
use crate::store::rollout_files::{FileImport, RolloutFileRow};
use crate::store::rows::ThreadRow;

/// Bytes within which the first message of a user is looked for.
const HEAD_BYTES: usize = 512 << 10;

/// Bytes at the end of a file within which its last time is looked for.
const TAIL_BYTES: usize = 16 << 10;

/// Add the threads of files that nothing is known of, by their heads.
///
/// # Errors
/// The threads of the pass could not be started.
pub(super) async fn index(files: &[Found], known: &Known, run: Run, work: Work) -> anyhow::Result<Work> {
    let new: Vec<Found> = files.iter().filter(|file| known.is_new(file)).cloned().collect();
    let mut queue = grouped(new);
    // Only the file that counts.
    queue.iter_mut().for_each(|group| group.truncate(1));
    *run.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = queue;
    work_off(run, Work { only_heads: true, ..work }, 0, Priority::Usual).await.map(|(_, work)| work)
}

/// What a file's head comes to; `None` when it holds no thread.
///
/// # Errors
/// The file cannot be read.
pub(super) fn of_head(file: &Found, around: &Around) -> io::Result<Option<FileImport>> {
    let base = lineage::base_of(&file.path, around.rollouts.as_ref())?;
    let mut projector = base.forked.as_ref().map_or_else(Projector::new, Projector::of_fork);
    let mut source = Source::new(base.segments, &file.path, 0);
    let (mut line, mut changes) = (Vec::new(), Vec::new());
    let (mut bytes, mut number) = (0, 0);
    while bytes < HEAD_BYTES && projector.facts().preview.is_empty() {
        line.clear();
        if source.next_line(&mut line, &mut || {})?.is_none() {
            break;
        }
        if let Parsed::Line(mut parsed) = parse(read::content(&line)) {
            projector.feed(&mut parsed, number, &mut changes);
        }
        changes.clear();
        bytes += line.len();
        number += 1;
    }
    projector.finish(&mut changes);
    let thread_id = projector.facts().thread_id.clone().or_else(|| name::thread_id(&file.path));
    let Some(thread_id) = thread_id.filter(|_| projector.has_records()) else {
        return Ok(None);
    };
    let mut thread = thread_row(projector.facts(), &thread_id, file, around.names.get(&thread_id));
    let updated_at_ms = last_time(file)?.unwrap_or(file.mtime_ns / 1_000_000);
    thread.updated_at_ms = updated_at_ms.max(thread.created_at_ms);
    thread.recency_at_ms = thread.updated_at_ms;
    thread.inherited_usage = Default::default();
    let row = RolloutFileRow {
        path: file.path.display().to_string(),
        thread_id: Some(thread_id),
        size: file.size,
        mtime_ns: file.mtime_ns,
        verdict: "indexed".to_owned(),
        ..RolloutFileRow::default()
    };
    let thread = Some(Box::<ThreadRow>::new(thread));
    Ok(Some(FileImport { thread, expected_lines: Some(0), file: row, ..FileImport::default() }))
}

/// The time of the last line at the end of a file, in Unix milliseconds.
fn last_time(file: &Found) -> io::Result<Option<i64>> {
    if file.is_packed() || file.is_single_object() {
        return Ok(None);
    }
    let size = TAIL_BYTES.min(file.size as usize);
    let mut tail = vec![0; size];
    File::open(&file.path)?.read_exact_at(&mut tail, file.size as u64 - size as u64)?;
    const START: &[u8] = b"\n{\"timestamp\":\"";
    let Some(at) = tail.windows(START.len()).rposition(|bytes| bytes == START) else { return Ok(None) };
    let time = tail[at + START.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
    let time =
        std::str::from_utf8(time).ok().and_then(|time| chrono::DateTime::parse_from_rfc3339(time).ok());
    Ok(time.map(|time| time.timestamp_millis()))
}
