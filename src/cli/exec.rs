//! `threadkeep exec`: run one turn and print what the model says.
//!
//! It is a client of its own runtime: the same requests that a connection makes, without a transport.

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Common;
use super::exit::Exit;
use crate::clock::Clock;
use crate::protocol::thread::{ThreadResumeParams, ThreadStartParams};
use crate::protocol::turn::TurnStartParams;
use crate::runtime::Runtime;
use crate::runtime::client::{Client, ConnectionId, Event, Request};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  threadkeep exec \"hello\" --provider offline\n  \
                        threadkeep exec \"and now?\" --thread 01a22fcf-8e84-7153-9b2c-417748c2c733\n  \
                        threadkeep exec \"hello\" --provider offline --json")]
pub(super) struct Exec {
    /// What to say
    prompt: String,
    /// Go on with this thread instead of starting one
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Provider id; `offline` needs neither network nor key
    #[arg(long, value_name = "ID")]
    provider: Option<String>,
    /// Model
    #[arg(long)]
    model: Option<String>,
    /// Print every notification as a line of JSON
    #[arg(long)]
    json: bool,
}

/// The command as a client: events go to a channel.
#[derive(Debug)]
struct Console {
    events: mpsc::UnboundedSender<Event>,
}

impl Client for Console {
    fn id(&self) -> ConnectionId {
        ConnectionId(0)
    }

    fn send(&self, event: &Event) {
        // The receiver lives until the command ends.
        let _ = self.events.send(event.clone());
    }
}

#[derive(Debug)]
struct ConsoleRequest(Arc<Console>);

impl Request for ConsoleRequest {
    fn client(&self) -> Arc<dyn Client> {
        self.0.clone()
    }

    fn reserve_reply(&self) {}

    fn client_name(&self) -> String {
        "threadkeep_exec".to_owned()
    }

    fn experimental(&self) -> bool {
        true
    }
}

pub(super) async fn run(common: &Common, command: Exec) -> anyhow::Result<Exit> {
    let config = common.config()?;
    let clock = Clock::system();
    let store = Common::store(&config, &clock).await?;
    let runtime = Runtime::start(clock, store, config);
    let (sender, mut events) = mpsc::unbounded_channel();
    let console = Arc::new(Console { events: sender });
    runtime.clients.add(console.clone());
    let request: Arc<dyn Request> = Arc::new(ConsoleRequest(console));
    let thread_id = open_thread(&runtime, &command, &request).await?;
    let turn: TurnStartParams = serde_json::from_value(serde_json::json!({
        "threadId": thread_id, "input": [{"type": "text", "text": command.prompt}],
    }))?;
    runtime.start_turn(turn, &request).await?;
    let exit = print(&mut events, command.json).await?;
    runtime.stop().await;
    if !command.json {
        eprintln!("\nthread {thread_id}");
    }
    Ok(exit)
}

async fn open_thread(
    runtime: &Arc<Runtime>,
    command: &Exec,
    request: &Arc<dyn Request>,
) -> anyhow::Result<String> {
    let (model, model_provider) = (command.model.clone(), command.provider.clone());
    Ok(match &command.thread {
        Some(thread_id) => {
            let params = ThreadResumeParams {
                thread_id: thread_id.clone(),
                exclude_turns: true,
                model,
                model_provider,
                ..ThreadResumeParams::default()
            };
            runtime.resume_thread(params, request).await?.thread.id
        }
        None => {
            let params = ThreadStartParams { model, model_provider, ..ThreadStartParams::default() };
            runtime.start_thread(params, request).await?.thread.id
        }
    })
}

/// Print events until the turn is over.
async fn print(events: &mut mpsc::UnboundedReceiver<Event>, json: bool) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout();
    let mut streamed = String::new();
    while let Some(event) = events.recv().await {
        if json {
            writeln!(out, "{}", event.json)?;
        }
        let message: Value = serde_json::from_str(&event.json)?;
        let params = &message["params"];
        match event.method {
            "item/agentMessage/delta" if !json => {
                let delta = params["delta"].as_str().unwrap_or_default();
                streamed.push_str(delta);
                write!(out, "{delta}")?;
                out.flush()?;
            }
            "item/completed" if !json && params["item"]["type"] == "agentMessage" => {
                let text = params["item"]["text"].as_str().unwrap_or_default();
                let rest = text.strip_prefix(streamed.as_str()).unwrap_or(text);
                writeln!(out, "{rest}")?;
                streamed.clear();
            }
            "error" if !json => eprintln!("{}", params["error"]["message"].as_str().unwrap_or_default()),
            "turn/completed" => {
                let completed = params["turn"]["status"] == "completed";
                return Ok(if completed { Exit::Good } else { Exit::TurnFailed });
            }
            _ => {}
        }
    }
    Ok(Exit::Failed)
}
