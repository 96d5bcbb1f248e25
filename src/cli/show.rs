//! `threadkeep show`: print a thread with its turns.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Common;
use super::exit::Exit;
use crate::clock::Clock;
use crate::import::job;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  threadkeep show 01a22fcf-8e84-7153-9b2c-417748c2c733\n  threadkeep show 01a22fcf-8e84-7153-9b2c-417748c2c733 --json"
)]
pub(super) struct Show {
    /// The thread's id
    id: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(common: &Common, command: Show) -> anyhow::Result<Exit> {
    let config = common.config()?;
    let store = Common::store(&config, &Clock::system()).await?;
    let options = job::Options::of_home(config.home().path());
    job::run(&store, &options, &CancellationToken::new(), |_| {}).await?;
    let Some(row) = store.thread(&command.id).await? else {
        eprintln!("Error: thread {} is not stored; `threadkeep threads` lists those that are", command.id);
        return Ok(Exit::NotFound);
    };
    let turns = store.all_turns(&command.id).await?;
    let mut shown = Vec::new();
    for turn in &turns {
        let items = store.items_of_turns(turn.place, turn.place).await?;
        let items: Vec<Value> =
            items.iter().filter_map(|item| serde_json::from_str(&item.row.json).ok()).collect();
        shown.push((turn, items));
    }
    store.close().await;
    let mut out = std::io::stdout().lock();
    if command.json {
        let turns: Vec<Value> = shown
            .iter()
            .map(|(turn, items)| json!({"id": turn.row.turn_id, "status": turn.row.status, "items": items}))
            .collect();
        writeln!(
            out,
            "{}",
            json!({"id": row.thread_id, "name": row.name, "preview": row.preview, "turns": turns})
        )?;
        return Ok(Exit::Good);
    }
    writeln!(out, "{}", row.name.as_deref().unwrap_or(&row.preview))?;
    for (turn, items) in shown {
        writeln!(out, "\n[{}] {}", turn.row.status, turn.row.turn_id)?;
        for item in items {
            writeln!(out, "{}", line(&item))?;
        }
    }
    Ok(Exit::Good)
}

/// An item in a line or a few.
fn line(item: &Value) -> String {
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    match item["type"].as_str().unwrap_or_default() {
        "userMessage" => {
            let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            format!("> {}", texts.join("\n").replace('\n', "\n> "))
        }
        "agentMessage" => text("text"),
        "commandExecution" => format!("$ {}", text("command")),
        kind => format!("({kind})"),
    }
}
