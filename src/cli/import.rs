//! `threadkeep import`: take rollouts into the database, with progress and a report.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Common;
use super::exit::Exit;
use crate::clock::Clock;
use crate::config::ConfigSource;
use crate::import::job::{self, Counts, FileReport, Options, Outcome, Progress, Report};
use crate::import::peer;
use crate::store::Store;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  threadkeep import\n  threadkeep import ~/.codex /backup/sessions\n  \
                        threadkeep import rollout-2025-05-07T17-24-21-….jsonl\n  threadkeep import --dry-run --json\n\n\
                        Exit codes: 0 all is in, 2 some records or files were skipped, 1 failed.")]
pub(super) struct Import {
    /// Homes, folders or single files; the home when left out
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The report as one JSON object
    #[arg(long)]
    json: bool,
    /// Read everything and store nothing
    #[arg(long)]
    dry_run: bool,
    /// How many files are read at a time; one for each processor when left out
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

pub(super) async fn run(common: &Common, command: Import) -> anyhow::Result<Exit> {
    let config = common.config()?;
    let scratch = tempfile::tempdir()?;
    let store = open(&config, command.dry_run, scratch.path()).await?;
    let roots = match command.paths.is_empty() {
        true => vec![config.home().path().to_owned()],
        false => command.paths.iter().map(std::path::absolute).collect::<Result<_, _>>()?,
    };
    if let Some(missing) = roots.iter().find(|root| !root.exists()) {
        anyhow::bail!("{} is not there: give a home, a folder or a rollout file", missing.display());
    }
    let cancel = CancellationToken::new();
    let on_signal = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_signal.cancel();
        }
    });
    let options = Options { roots: roots.clone(), jobs: command.jobs, dry_run: command.dry_run };
    let started = Instant::now();
    let shown = Shown::new(command.json);
    let bar = shown.bar.clone();
    let report = job::run(&store, &options, &cancel, move |progress| shown.tell(progress)).await;
    bar.finish_and_clear();
    let report = report?;
    let mut beside = peer::Counts::default();
    if !command.dry_run && !report.cancelled {
        for root in roots.iter().filter(|root| root.is_dir()) {
            beside += peer::take_over(&store, root).await?;
        }
    }
    store.close().await;
    let seconds = started.elapsed().as_secs_f64();
    let mut out = std::io::stdout().lock();
    if command.json {
        writeln!(out, "{}", report_json(&report, &beside, command.dry_run, seconds))?;
    } else {
        write!(out, "{}", summary(&report, &beside, command.dry_run, seconds))?;
    }
    Ok(exit(&report))
}

/// The database; where there is none a dry run makes one elsewhere, so that nothing is left of it.
async fn open(config: &ConfigSource, dry_run: bool, scratch: &Path) -> anyhow::Result<Store> {
    let clock = Clock::system();
    if dry_run && !Common::store_path(config).exists() {
        return Ok(Store::open(&scratch.join(crate::store::FILE_NAME), clock).await?);
    }
    Common::store(config, &clock).await
}

fn exit(report: &Report) -> Exit {
    let skipped = [Outcome::Conflict, Outcome::NotARollout, Outcome::Failed];
    let partial = report.total().bad_lines > 0 || skipped.iter().any(|outcome| report.count(*outcome) > 0);
    match (report.cancelled, partial) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Partial,
        (false, false) => Exit::Good,
    }
}

/// What is shown while it runs: a bar on a terminal, lines elsewhere.
struct Shown {
    bar: ProgressBar,
    /// `None`: nothing but the report is printed.
    lines: Option<Mutex<Lines>>,
}

/// Lines for a log: one for each tenth of the way.
#[derive(Default)]
struct Lines {
    bytes: u64,
    bytes_to_take: u64,
    tenths: u64,
}

impl Shown {
    fn new(json: bool) -> Shown {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal && !json { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Shown { bar, lines: (!terminal && !json).then(Mutex::default) }
    }

    fn tell(&self, progress: Progress) {
        match progress {
            Progress::Found { files, changed, bytes_to_take, .. } => {
                self.bar.set_length(bytes_to_take);
                self.bar.set_message(format!("{changed} of {files} files"));
                self.line(format!("{files} files, {changed} new or changed, {}", size(bytes_to_take)));
                self.with_lines(|lines| lines.bytes_to_take = bytes_to_take);
            }
            Progress::Bytes(bytes) => {
                self.bar.inc(bytes);
                let tenth = self.with_lines(|lines| {
                    lines.bytes += bytes;
                    let tenths = (lines.bytes * 10).checked_div(lines.bytes_to_take).unwrap_or(0).min(10);
                    let is_new = tenths > lines.tenths;
                    lines.tenths = lines.tenths.max(tenths);
                    is_new.then_some((tenths * 10, lines.bytes))
                });
                if let Some(Some((percent, bytes))) = tenth {
                    self.line(format!("{percent} %, {}", size(bytes)));
                }
            }
            Progress::File(file) => {
                for line in complaints(&file) {
                    self.bar.suspend(|| eprintln!("{line}"));
                }
            }
        }
    }

    fn with_lines<T>(&self, change: impl FnOnce(&mut Lines) -> T) -> Option<T> {
        let mut lines = self.lines.as_ref()?.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Some(change(&mut lines))
    }

    fn line(&self, text: String) {
        if self.lines.is_some() {
            eprintln!("{text}");
        }
    }
}

/// What is odd about a file: its path, the line, the reason.
fn complaints(file: &FileReport) -> Vec<String> {
    let path = file.path.display();
    let mut lines: Vec<String> =
        file.problems.iter().map(|problem| format!("{path}:{}: {}", problem.line, problem.reason)).collect();
    let why = match file.outcome {
        Outcome::Conflict => Some("conflict: the thread has gone on in the database; the file is left alone"),
        Outcome::NotARollout => Some("not a rollout"),
        Outcome::Failed => Some("failed"),
        _ => None,
    };
    if let Some(why) = why {
        let reason = file.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        lines.push(format!("{path}: {why}{reason}"));
    }
    lines
}

fn summary(report: &Report, beside: &peer::Counts, dry_run: bool, seconds: f64) -> String {
    let total = report.total();
    let mut text = String::new();
    let verb = if dry_run { "would be imported" } else { "imported" };
    text += &format!(
        "{} of {} files {verb}: {}, {} lines, {} turns, {} items, {} tokens in {seconds:.1} s ({}/s)\n",
        report.taken(),
        report.files.len(),
        size(total.bytes),
        total.lines,
        total.turns,
        total.items,
        total.tokens,
        size((total.bytes as f64 / seconds.max(0.001)) as u64),
    );
    for (outcome, what) in [
        (Outcome::Unchanged, "unchanged"),
        (Outcome::Superseded, "superseded by a newer file of their thread"),
        (Outcome::Conflict, "in conflict with their thread"),
        (Outcome::NotARollout, "not rollouts"),
        (Outcome::Failed, "failed"),
    ] {
        match report.count(outcome) {
            0 => {}
            count => text += &format!("{count} {what}\n"),
        }
    }
    if total.bad_lines > 0 {
        text += &format!("{} lines could not be read; they are kept as they are\n", total.bad_lines);
    }
    if total.unknown_lines > 0 {
        text += &format!("{} lines of unknown kinds are kept\n", total.unknown_lines);
    }
    if *beside != peer::Counts::default() {
        text += &format!(
            "{} names, {} goals, {} queued messages and {} sections taken over from the home's databases\n",
            beside.names, beside.goals, beside.queued, beside.sections
        );
    }
    if report.cancelled {
        text += "stopped before the end; the next run goes on from here\n";
    }
    text
}

fn report_json(report: &Report, beside: &peer::Counts, dry_run: bool, seconds: f64) -> Value {
    let files: Vec<Value> =
        report.files.iter().filter(|file| file.outcome != Outcome::Unchanged).map(file_json).collect();
    json!({
        "dryRun": dry_run, "cancelled": report.cancelled, "seconds": seconds, "files": report.files.len(),
        "imported": report.count(Outcome::Imported), "extended": report.count(Outcome::Extended),
        "renewed": report.count(Outcome::Renewed), "unchanged": report.count(Outcome::Unchanged),
        "superseded": report.count(Outcome::Superseded), "conflicts": report.count(Outcome::Conflict),
        "notRollouts": report.count(Outcome::NotARollout), "failed": report.count(Outcome::Failed),
        "total": counts_json(&report.total()),
        "fromDatabases": {"names": beside.names, "goals": beside.goals, "queued": beside.queued,
            "sections": beside.sections},
        "changedFiles": files,
    })
}

fn file_json(file: &FileReport) -> Value {
    let problems: Vec<Value> =
        file.problems.iter().map(|problem| json!({"line": problem.line, "reason": problem.reason})).collect();
    json!({"path": file.path, "threadId": file.thread_id, "outcome": word(file.outcome), "reason": file.reason,
        "counts": counts_json(&file.counts), "problems": problems})
}

fn counts_json(counts: &Counts) -> Value {
    json!({"bytes": counts.bytes, "lines": counts.lines, "unknownLines": counts.unknown_lines,
        "badLines": counts.bad_lines, "turns": counts.turns, "items": counts.items, "responses": counts.responses,
        "tokens": counts.tokens})
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unchanged => "unchanged",
        Outcome::Imported => "imported",
        Outcome::Extended => "extended",
        Outcome::Renewed => "renewed",
        Outcome::Superseded => "superseded",
        Outcome::Conflict => "conflict",
        Outcome::NotARollout => "notARollout",
        Outcome::Failed => "failed",
    }
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
