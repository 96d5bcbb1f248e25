//! `threadkeep threads`: list what is stored.

use std::io::Write;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::Common;
use super::exit::Exit;
use crate::clock::Clock;
use crate::import::job;
use crate::rollout::write::rfc3339;
use crate::store::list::{SortKey, ThreadQuery};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  threadkeep threads\n  threadkeep threads --archived --limit 5\n  threadkeep threads --json"
)]
pub(super) struct Threads {
    /// The archived threads instead of the active ones
    #[arg(long)]
    archived: bool,
    /// How many, the last used ones first
    #[arg(long, default_value_t = 25)]
    limit: u32,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(common: &Common, command: Threads) -> anyhow::Result<Exit> {
    let config = common.config()?;
    let store = Common::store(&config, &Clock::system()).await?;
    let options = job::Options::of_home(config.home().path());
    job::run(&store, &options, &CancellationToken::new(), |_| {}).await?;
    let query = ThreadQuery {
        archived: command.archived,
        sort_key: SortKey::Updated,
        limit: i64::from(command.limit),
        ..ThreadQuery::default()
    };
    let rows = store.threads_page(&query).await?;
    store.close().await;
    let mut out = std::io::stdout().lock();
    for row in rows {
        let title = row.name.as_deref().unwrap_or(&row.preview);
        if command.json {
            let line = serde_json::json!({
                "id": row.thread_id, "name": row.name, "preview": row.preview, "cwd": row.cwd, "model": row.model,
                "createdAt": rfc3339(row.created_at_ms), "updatedAt": rfc3339(row.updated_at_ms),
            });
            writeln!(out, "{line}")?;
        } else {
            let title: String = title.lines().next().unwrap_or_default().chars().take(60).collect();
            writeln!(out, "{}  {}  {title}", row.thread_id, rfc3339(row.updated_at_ms))?;
        }
    }
    Ok(Exit::Good)
}
