//! Taking files in: every line into the journal, and what is derived from it.
//!
//! A file is taken in in parts, each part in a transaction of its own with the reducer's state, so that an import that
//! is killed goes on where it was, and a file of any size needs little memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::discover::{self, Found};
use crate::history::facts::{Facts, source_to_wire};
use crate::history::{Change, Projector, TurnState, UsageChange};
use crate::rollout::line::{Parsed, Tokens, parse};
use crate::rollout::{name, read};
use crate::store::Store;
use crate::store::rollout_files::{FileImport, ImportProblem, RolloutFileRow};
use crate::store::rows::{Append, ItemRow, Lines, ThreadRow, TokenCounts, TurnRow, UsageRow};

/// Bytes of a part: large enough to pack well, small enough to keep the writer free for others.
const PART_BYTES: usize = 256 << 10;

/// Bytes at the beginning of a file that tell whether it was rewritten.
const HEAD_BYTES: usize = 4096;

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
    let mut report = Report { files: found.len(), ..Report::default() };
    for file in &found {
        let before = known.get(&file.path.display().to_string());
        let unchanged = before.is_some_and(|row| row.size == file.size && row.mtime_ns == file.mtime_ns);
        if unchanged {
            continue;
        }
        match import_named(store, file, &names).await {
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
    import_named(store, file, &HashMap::new()).await
}

async fn import_named(store: &Store, file: &Found, names: &HashMap<String, String>) -> anyhow::Result<bool> {
    let path = file.path.display().to_string();
    // A file that mirrors a thread of ours is in step when it is as long as the journal.
    if let Some(row) = store.thread_of_rollout(&file.plain_path()).await?
        && !file.is_packed()
        && file.size <= row.journal_bytes
    {
        let known = RolloutFileRow {
            path,
            thread_id: Some(row.thread_id),
            size: file.size,
            mtime_ns: file.mtime_ns,
            bytes_taken: file.size,
            lines_taken: row.journal_lines,
            verdict: "imported".to_owned(),
            ..RolloutFileRow::default()
        };
        store.import_files(vec![FileImport { file: known, ..FileImport::default() }]).await?;
        return Ok(false);
    }
    let before = store.rollout_file(&path).await?;
    let mut source = open(file, before.as_ref())?;
    let mut import = Taking::new(file, before, names);
    loop {
        let part = import.next_part(&mut source)?;
        let Some(part) = part else { break };
        store.import_files(vec![part]).await?;
    }
    Ok(import.took_any)
}

/// A file from where the last import ended, or from its beginning when that is not possible.
fn open(file: &Found, before: Option<&RolloutFileRow>) -> anyhow::Result<Box<dyn BufRead + Send>> {
    let mut plain = File::open(&file.path)?;
    if file.is_packed() {
        return Ok(Box::new(BufReader::with_capacity(PART_BYTES, zstd::Decoder::new(plain)?)));
    }
    if file.path.extension().is_some_and(|extension| extension == "json") {
        let bytes = std::fs::read(&file.path)?;
        return Ok(Box::new(Cursor::new(read::joined(&bytes).unwrap_or(bytes))));
    }
    if let Some(before) = before.filter(|before| goes_on(before, &mut plain)) {
        plain.seek(SeekFrom::Start(before.bytes_taken as u64))?;
    } else {
        plain.seek(SeekFrom::Start(0))?;
    }
    Ok(Box::new(BufReader::with_capacity(PART_BYTES, plain)))
}

/// Whether a file still begins as it did, and has not become shorter.
fn goes_on(before: &RolloutFileRow, file: &mut File) -> bool {
    use std::io::Read;
    let Ok(data) = file.metadata() else { return false };
    // A session of one JSON object is always read whole.
    if before.path.ends_with(".json")
        || (data.len() as i64) < before.bytes_taken
        || before.reducer_json.is_none()
    {
        return false;
    }
    let mut head = vec![0; HEAD_BYTES.min(before.bytes_taken as usize)];
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut head));
    read.is_ok() && before.head_hash.as_deref() == Some(&hash(&head))
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// An import under way.
struct Taking<'a> {
    file: &'a Found,
    names: &'a HashMap<String, String>,
    projector: Projector,
    row: RolloutFileRow,
    start_anew: bool,
    head: Vec<u8>,
    done: bool,
    took_any: bool,
}

impl<'a> Taking<'a> {
    fn new(
        file: &'a Found,
        before: Option<RolloutFileRow>,
        names: &'a HashMap<String, String>,
    ) -> Taking<'a> {
        let mut plain = File::open(&file.path);
        let continued = before
            .filter(|before| !file.is_packed() && plain.as_mut().is_ok_and(|plain| goes_on(before, plain)));
        let projector = continued
            .as_ref()
            .and_then(|row| serde_json::from_str(row.reducer_json.as_deref()?).ok())
            .unwrap_or_default();
        let start_anew = continued.is_none();
        let row = continued.unwrap_or_else(|| RolloutFileRow {
            path: file.path.display().to_string(),
            ..RolloutFileRow::default()
        });
        Taking { file, names, projector, row, start_anew, head: Vec::new(), done: false, took_any: false }
    }

    /// Read the next lines and make what is to be stored of them; `None` after the last part.
    fn next_part(&mut self, source: &mut dyn BufRead) -> anyhow::Result<Option<FileImport>> {
        if self.done {
            return Ok(None);
        }
        let mut reader = read::Reader::new(source);
        let mut bytes = Vec::with_capacity(PART_BYTES);
        let mut changes = Vec::new();
        let mut problems = Vec::new();
        let mut count = 0;
        while bytes.len() < PART_BYTES {
            let start = bytes.len();
            if reader.next_line(&mut bytes)? == 0 {
                self.done = true;
                break;
            }
            let number = self.row.lines_taken + count;
            count += 1;
            match parse(read::content(&bytes[start..])) {
                Parsed::Blank => {}
                Parsed::Line(line) => self.projector.feed(&line, number, &mut changes),
                Parsed::Bad(reason) => problems.push(ImportProblem { line: number + 1, reason }),
            }
        }
        if self.head.len() < HEAD_BYTES && self.row.head_hash.is_none() {
            let more = (HEAD_BYTES - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..more]);
        }
        if self.done {
            self.projector.finish(&mut changes);
        }
        self.took_any |= count > 0;
        Ok(Some(self.part(bytes, count, changes, problems)))
    }

    fn part(
        &mut self,
        bytes: Vec<u8>,
        count: i64,
        changes: Vec<Change>,
        problems: Vec<ImportProblem>,
    ) -> FileImport {
        let facts = self.projector.facts();
        let thread_id = facts.thread_id.clone().or_else(|| self.id_of_name());
        self.row.size = self.file.size;
        self.row.mtime_ns = self.file.mtime_ns;
        self.row.bytes_taken += bytes.len() as i64;
        let first_line = self.row.lines_taken;
        self.row.lines_taken += count;
        if self.row.head_hash.is_none() {
            let end = self.head.len().min(HEAD_BYTES);
            self.row.head_hash = (self.done || end == HEAD_BYTES).then(|| hash(&self.head[..end]));
        }
        self.row.reducer_json = serde_json::to_string(&self.projector).ok();
        let Some(thread_id) = thread_id.filter(|_| self.projector.has_meta()) else {
            self.row.verdict = "not_a_rollout".to_owned();
            self.row.reason = Some("no session metadata".to_owned());
            return FileImport {
                file: self.row.clone(),
                problems,
                start_anew: true,
                ..FileImport::default()
            };
        };
        self.row.thread_id = Some(thread_id.clone());
        self.row.verdict = "imported".to_owned();
        let thread = thread_row(facts, &thread_id, self.file, self.names.get(&thread_id));
        let mut append = Append { thread_id, lines: Lines { bytes, count }, ..Append::default() };
        let dropped_turns = fill(&mut append, changes, first_line);
        let start_anew = std::mem::take(&mut self.start_anew);
        FileImport {
            thread: Some(Box::new(thread)),
            start_anew,
            append: Some(append),
            dropped_turns,
            file: self.row.clone(),
            problems,
        }
    }

    fn id_of_name(&self) -> Option<String> {
        let name = name::parse(self.file.path.file_name()?.to_str()?)?;
        name.thread_id.map(|id| id.to_string())
    }
}

/// Put changes into an append. Returns the turns to drop.
fn fill(append: &mut Append, changes: Vec<Change>, first_line: i64) -> Vec<String> {
    let mut dropped = Vec::new();
    let mut turns: Vec<TurnRow> = Vec::new();
    for change in changes {
        match change {
            Change::Turn(turn) => {
                let row = turn_row(turn);
                match turns.iter_mut().rev().find(|known| known.turn_id == row.turn_id) {
                    Some(known) => *known = TurnRow { first_line: known.first_line, ..row },
                    None => turns.push(row),
                }
            }
            Change::Item { turn_id, item } => append.items.push(item_row(turn_id, &item)),
            Change::DropTurns(ids) => {
                turns.retain(|turn| !ids.contains(&turn.turn_id));
                append.items.retain(|item| !ids.contains(&item.turn_id));
                dropped.extend(ids);
            }
            Change::Usage(usage) => append.usage.push(usage_row(usage)),
            Change::ContextRestart(line) => append.context_restart = Some(line - first_line),
        }
    }
    append.turns = turns;
    dropped
}

fn turn_row(turn: TurnState) -> TurnRow {
    TurnRow {
        turn_id: turn.turn_id,
        root_turn_id: turn.root_turn_id,
        status: turn.status,
        error_json: turn.error.map(|error| error.to_string()),
        started_at_ms: turn.started_at_ms,
        completed_at_ms: turn.completed_at_ms,
        duration_ms: turn.duration_ms,
        first_line: turn.first_line,
        end_line: turn.end_line,
        client_user_message_id: None,
    }
}

fn item_row(turn_id: String, item: &serde_json::Value) -> ItemRow {
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    ItemRow {
        turn_id,
        item_id: text("id"),
        kind: text("type"),
        json: item.to_string(),
        started_at_ms: item["startedAtMs"].as_i64(),
        completed_at_ms: item["completedAtMs"].as_i64(),
    }
}

fn usage_row(usage: UsageChange) -> UsageRow {
    UsageRow {
        turn_id: usage.turn_id,
        response_id: usage.response_id,
        model: usage.model,
        model_provider: usage.model_provider,
        goal_id: None,
        at_ms: usage.at.as_deref().and_then(millis).unwrap_or(0),
        tokens: counts(usage.tokens),
        model_context_window: usage.model_context_window,
    }
}

fn counts(tokens: Tokens) -> TokenCounts {
    TokenCounts {
        input: tokens.input_tokens,
        cached_input: tokens.cached_input_tokens,
        cache_write_input: tokens.cache_write_input_tokens,
        output: tokens.output_tokens,
        reasoning_output: tokens.reasoning_output_tokens,
        total: tokens.total_tokens,
    }
}

fn thread_row(facts: &Facts, thread_id: &str, file: &Found, name: Option<&String>) -> ThreadRow {
    let (source, source_kind) = source_to_wire(facts.source.as_ref());
    let file_ms = file.mtime_ns / 1_000_000;
    let created_at_ms = facts.created_at.as_deref().and_then(millis).unwrap_or(file_ms);
    let updated_at_ms = facts.updated_at.as_deref().and_then(millis).unwrap_or(file_ms).max(created_at_ms);
    ThreadRow {
        thread_id: thread_id.to_owned(),
        session_id: facts.session_id.clone().unwrap_or_else(|| thread_id.to_owned()),
        forked_from_id: facts.forked_from_id.clone(),
        parent_thread_id: facts.parent_thread_id.clone(),
        preview: facts.preview.clone(),
        name: name.cloned(),
        source_json: source.to_string(),
        source_kind,
        thread_source: facts.thread_source.clone(),
        originator: facts.originator.clone(),
        cli_version: facts.cli_version.clone().unwrap_or_default(),
        model_provider: facts
            .model_provider
            .clone()
            .unwrap_or_else(|| crate::config::provider::OPENAI.to_owned()),
        model: facts.model.clone(),
        reasoning_effort: facts.effort.clone(),
        cwd: facts.cwd.clone().unwrap_or_default(),
        settings_json: serde_json::Value::Object(facts.settings.clone()).to_string(),
        git_sha: facts.git_sha.clone(),
        git_branch: facts.git_branch.clone(),
        git_origin_url: facts.git_origin_url.clone(),
        history_mode: facts
            .history_mode
            .clone()
            .filter(|mode| mode == "paginated")
            .unwrap_or_else(|| "legacy".to_owned()),
        created_at_ms,
        updated_at_ms,
        recency_at_ms: updated_at_ms,
        archived_at_ms: file.archived.then_some(file_ms),
        rollout_path: Some(file.plain_path()),
        agent_nickname: facts.agent_nickname.clone(),
        agent_role: facts.agent_role.clone(),
        memory_mode: facts.memory_mode.clone(),
        inherited_usage: counts(facts.tokens_before()),
        model_context_window: facts.model_context_window,
        ..ThreadRow::default()
    }
}

fn millis(rfc3339: &str) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(rfc3339).ok().map(|time| time.timestamp_millis())
}
