//! `threadkeep usage`: what was used, as a table, a chart, JSON or CSV.

use std::io::Write;

use anyhow::Context;
use chrono::NaiveDate;
use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::Common;
use super::exit::Exit;
use crate::clock::{Clock, Zone};
use crate::import::job;
use crate::protocol::report::{UsageGroup, UsageReportResponse, UsageReportRow, UsageSum};
use crate::store::report::UsageQuery;

/// Columns that a bar of the chart may take.
const BAR_WIDTH: usize = 50;

/// The widest cell of a group; a longer one is cut.
const CELL_WIDTH: usize = 40;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  threadkeep usage\n  threadkeep usage --by model,provider --since 2026-11-01\n  \
                        threadkeep usage --by thread --descendants --json\n  threadkeep usage --chart --time-zone Europe/Berlin"
)]
pub(super) struct Usage {
    /// What a line stands for; several, with commas between, make one for each combination
    #[arg(long, value_enum, value_delimiter = ',', value_name = "GROUP", default_value = "day")]
    by: Vec<By>,
    /// Where days begin: a name like Europe/Berlin, UTC, or local
    #[arg(long, value_name = "ZONE", default_value = "local", value_parser = zone)]
    time_zone: Zone,
    /// The first day
    #[arg(long, value_name = "YYYY-MM-DD")]
    since: Option<NaiveDate>,
    /// The last day
    #[arg(long, value_name = "YYYY-MM-DD")]
    until: Option<NaiveDate>,
    /// Only this thread
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Count what sub-agents used for the thread they belong to
    #[arg(long)]
    descendants: bool,
    /// Only threads of this project
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Only this model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Only this provider
    #[arg(long, value_name = "ID")]
    provider: Option<String>,
    /// Only what counted for this goal
    #[arg(long, value_name = "ID")]
    goal: Option<String>,
    /// The whole report as one JSON object
    #[arg(long, group = "form")]
    json: bool,
    /// Comma-separated values with a line of names
    #[arg(long, group = "form")]
    csv: bool,
    /// A bar for each line
    #[arg(long, group = "form")]
    chart: bool,
}

/// [`UsageGroup`] in the words of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Day,
    Thread,
    Project,
    Model,
    Provider,
    Goal,
}

impl By {
    fn group(self) -> UsageGroup {
        match self {
            By::Day => UsageGroup::Day,
            By::Thread => UsageGroup::Thread,
            By::Project => UsageGroup::Project,
            By::Model => UsageGroup::Model,
            By::Provider => UsageGroup::Provider,
            By::Goal => UsageGroup::Goal,
        }
    }

    fn name(self) -> &'static str {
        match self {
            By::Day => "day",
            By::Thread => "thread",
            By::Project => "project",
            By::Model => "model",
            By::Provider => "provider",
            By::Goal => "goal",
        }
    }

    fn cell(self, row: &UsageReportRow) -> &str {
        let cell = match self {
            By::Day => &row.day,
            By::Thread => &row.thread_id,
            By::Project => &row.project_id,
            By::Model => &row.model,
            By::Provider => &row.model_provider,
            By::Goal => &row.goal_id,
        };
        cell.as_deref().unwrap_or_default()
    }
}

fn zone(name: &str) -> Result<Zone, String> {
    Zone::parse(name)
        .ok_or_else(|| "no such time zone: give a name like Europe/Berlin, or UTC or local".to_owned())
}

pub(super) async fn run(common: &Common, command: Usage) -> anyhow::Result<Exit> {
    let config = common.config()?;
    let store = Common::store(&config, &Clock::system()).await?;
    let options = job::Options::of_home(config.home().path());
    job::run(&store, &options, &CancellationToken::new(), |_| {}).await?;
    let query = UsageQuery {
        group_by: command.by.iter().map(|by| by.group()).collect(),
        zone: command.time_zone,
        since: command.since,
        until: command.until,
        thread_id: command.thread,
        include_descendants: command.descendants,
        project_id: command.project,
        model: command.model,
        model_provider: command.provider,
        goal_id: command.goal,
    };
    let data = store.usage_report(&query).await.context("summing up the ledger")?;
    store.close().await;
    let mut total = UsageSum::default();
    data.iter().for_each(|row| total += row.sum);
    let mut by = command.by;
    // A group named twice is one column.
    let mut seen = Vec::new();
    by.retain(|group| {
        !seen.contains(group) && {
            seen.push(*group);
            true
        }
    });
    let mut out = std::io::stdout().lock();
    if command.json {
        let report = UsageReportResponse { time_zone: query.zone.name().to_owned(), data, total };
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else if command.csv {
        csv(&mut out, &by, &data)?;
    } else if command.chart {
        chart(&mut out, &by, &data)?;
    } else {
        table(&mut out, &by, &data, total)?;
    }
    Ok(Exit::Good)
}

/// The numbers of a line, in the order of their names.
fn numbers(sum: UsageSum) -> [i64; 7] {
    [
        sum.responses,
        sum.input_tokens,
        sum.cached_input_tokens,
        sum.cache_write_input_tokens,
        sum.output_tokens,
        sum.reasoning_output_tokens,
        sum.total_tokens,
    ]
}

const NUMBERS: [&str; 7] =
    ["responses", "input", "cached_input", "cache_write_input", "output", "reasoning_output", "total"];

fn table(out: &mut impl Write, by: &[By], data: &[UsageReportRow], total: UsageSum) -> std::io::Result<()> {
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(data.len() + 2);
    let names = by.iter().map(|by| by.name()).chain(NUMBERS);
    lines.push(names.map(str::to_owned).collect());
    for row in data {
        let cells = by.iter().map(|by| short(cell_with_title(*by, row)));
        lines.push(cells.chain(numbers(row.sum).iter().map(i64::to_string)).collect());
    }
    let empty = by.iter().enumerate().map(|(at, _)| if at == 0 { "total".to_owned() } else { String::new() });
    lines.push(empty.chain(numbers(total).iter().map(i64::to_string)).collect());
    let widths: Vec<usize> = (0..by.len() + NUMBERS.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let width = *width;
            // Words to the left, numbers to the right.
            text +=
                &if column < by.len() { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// A thread is told by its id and what it is about.
fn cell_with_title(by: By, row: &UsageReportRow) -> String {
    let cell = by.cell(row);
    match (by, row.thread_title.as_deref().and_then(|title| title.lines().next())) {
        (By::Thread, Some(title)) => format!("{cell} {title}"),
        _ => cell.to_owned(),
    }
}

fn short(text: String) -> String {
    let width = CELL_WIDTH + 36;
    if text.chars().count() <= width { text } else { text.chars().take(width - 1).chain(['…']).collect() }
}

fn chart(out: &mut impl Write, by: &[By], data: &[UsageReportRow]) -> std::io::Result<()> {
    let labels: Vec<String> = data
        .iter()
        .map(|row| by.iter().map(|by| short(by.cell(row).to_owned())).collect::<Vec<_>>().join(" "))
        .collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let most = data.iter().map(|row| row.sum.total_tokens).max().unwrap_or(0);
    for (row, label) in data.iter().zip(&labels) {
        let tokens = row.sum.total_tokens;
        writeln!(out, "{label:<width$}  {} {tokens}", bar(tokens, most))?;
    }
    Ok(())
}

/// A bar of eighths of a column, the longest [`BAR_WIDTH`] wide.
fn bar(tokens: i64, most: i64) -> String {
    if most <= 0 {
        return String::new();
    }
    let eighths = (i128::from(tokens.max(0)) * (BAR_WIDTH as i128 * 8) / i128::from(most)) as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + part
}

fn csv(out: &mut impl Write, by: &[By], data: &[UsageReportRow]) -> std::io::Result<()> {
    let names: Vec<&str> = by.iter().map(|by| by.name()).chain(NUMBERS).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in data {
        let cells = by.iter().map(|by| quoted(by.cell(row)));
        let cells: Vec<String> = cells.chain(numbers(row.sum).iter().map(i64::to_string)).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

/// A cell as RFC 4180 has it.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(8, 8), "█".repeat(BAR_WIDTH));
        assert_eq!(bar(0, 8), "");
        assert_eq!(bar(1, 100), "▌");
        assert_eq!(bar(5, 0), "");
        assert_eq!(bar(i64::MAX, i64::MAX).chars().count(), BAR_WIDTH);
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b \"c\""), "\"a,b \"\"c\"\"\"");
    }
}
