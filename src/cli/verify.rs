//! `threadkeep verify`: compare the database with the rollout files.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::Common;
use super::exit::Exit;
use crate::clock::Clock;
use crate::import::verify::{self, Finding, Standing};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  threadkeep verify\n  threadkeep verify --json\n\n\
                        Exit codes: 0 they are the same, 2 they differ, 1 failed.")]
pub(super) struct Verify {
    /// One JSON object for each file that differs
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(common: &Common, command: Verify) -> anyhow::Result<Exit> {
    let config = common.config()?;
    let store = Common::store(&config, &Clock::system()).await?;
    let findings = verify::verify(&store, config.home().path()).await?;
    let check = store.check().await?;
    store.close().await;
    let mut out = std::io::stdout().lock();
    let mut differences = 0;
    for finding in findings.iter().filter(|finding| finding.standing != Standing::Same) {
        differences += 1;
        if command.json {
            writeln!(out, "{}", to_json(finding))?;
        } else {
            writeln!(out, "{}", to_text(finding))?;
        }
    }
    for problem in &check {
        differences += 1;
        if command.json {
            writeln!(out, "{}", json!({"database": problem}))?;
        } else {
            writeln!(out, "database: {problem}")?;
        }
    }
    if !command.json {
        writeln!(out, "{} files compared, {differences} differences", findings.len())?;
    }
    Ok(if differences == 0 { Exit::Good } else { Exit::Partial })
}

fn to_text(finding: &Finding) -> String {
    let path = finding.path.display();
    match &finding.standing {
        Standing::Same => format!("{path}: same"),
        Standing::FileIsAhead { bytes } => {
            format!("{path}: {bytes} bytes are not in the database yet; `threadkeep import` takes them")
        }
        Standing::FileIsBehind { bytes } => {
            format!(
                "{path}: {bytes} bytes of the database are not in the file; the next start of a server writes them"
            )
        }
        Standing::Differs { line } => format!("{path}:{line}: differs from the database"),
        Standing::NotTaken { reason } => {
            let reason = reason.as_deref().unwrap_or("not imported yet");
            format!("{path}: no thread has this file ({reason})")
        }
        Standing::NoFile => format!("{path}: the file is not there; `threadkeep export` writes it again"),
        Standing::Unreadable { reason } => format!("{path}: cannot be read: {reason}"),
    }
}

fn to_json(finding: &Finding) -> serde_json::Value {
    let (standing, detail) = match &finding.standing {
        Standing::Same => ("same", json!(null)),
        Standing::FileIsAhead { bytes } => ("fileIsAhead", json!({"bytes": bytes})),
        Standing::FileIsBehind { bytes } => ("fileIsBehind", json!({"bytes": bytes})),
        Standing::Differs { line } => ("differs", json!({"line": line})),
        Standing::NotTaken { reason } => ("notTaken", json!({"reason": reason})),
        Standing::NoFile => ("noFile", json!(null)),
        Standing::Unreadable { reason } => ("unreadable", json!({"reason": reason})),
    };
    json!({"path": finding.path, "threadId": finding.thread_id, "standing": standing, "detail": detail})
}
