//! `threadkeep export`: write threads out as rollout files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::Common;
use super::exit::Exit;
use crate::clock::Clock;
use crate::import::{export, job};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  threadkeep export 0197f1c2-…  > thread.jsonl\n  \
                        threadkeep export --all --out /backup/rollouts")]
pub(super) struct Export {
    /// The thread
    #[arg(value_name = "ID", required_unless_present = "all")]
    id: Option<String>,
    /// Every thread
    #[arg(long, conflicts_with = "id", requires = "out")]
    all: bool,
    /// Write files into a folder that is laid out like a home; one thread goes to standard output otherwise
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) async fn run(common: &Common, command: Export) -> anyhow::Result<Exit> {
    let config = common.config()?;
    let store = Common::store(&config, &Clock::system()).await?;
    let options = job::Options::of_home(config.home().path());
    job::run(&store, &options, &CancellationToken::new(), |_| {}).await?;
    let rows = match &command.id {
        Some(id) => match store.thread(id).await? {
            Some(row) => vec![row],
            None => {
                eprintln!("there is no thread {id}; `threadkeep threads` lists them");
                return Ok(Exit::NotFound);
            }
        },
        None => store.all_threads().await?,
    };
    let mut failed = false;
    let mut out = std::io::stdout().lock();
    for row in &rows {
        match &command.out {
            Some(folder) => match export::write_below(&store, row, folder).await {
                Ok(path) => writeln!(out, "{}", path.display())?,
                Err(error) => {
                    eprintln!("{}: {error:#}", row.thread_id);
                    failed = true;
                }
            },
            None => {
                export::write(&store, row, &mut out).await?;
            }
        }
    }
    store.close().await;
    Ok(if failed { Exit::Failed } else { Exit::Good })
}
