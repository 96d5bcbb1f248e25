//! Calls of MCP tools: an item, a yes where one is due, progress, the result (`protocol/approvals.md`, sections 4
//! and 7).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::super::asking::Waiting;
use super::super::mcp::{Caller, Entry};
use super::super::turn::TurnContext;
use super::{Call, Output, Stop, judge};
use crate::protocol::approval::AskForApproval;
use crate::protocol::item::McpToolCallProgressNotification;
use crate::tools::approval::Policy;
use crate::tools::mcp::answer;
use crate::tools::mcp::server::{CallResult, Progress, Server, Tool};
use crate::tools::{self};

/// News of a call that may wait to be told; more are left out.
const PROGRESS_MAX: usize = 16;

/// What the model is offered of the servers that are ready.
pub(super) fn offered(turn: &TurnContext) -> Vec<Value> {
    let servers = turn.tools.servers();
    let ready = servers.entries().iter().filter_map(|entry| Some((entry, entry.ready()?)));
    ready
        .filter(|(_, server)| !server.tools().is_empty())
        .map(|(entry, server)| answer::spec(&entry.name, server.tools()))
        .collect()
}

/// The server and the tool that a call means.
pub(super) fn find(turn: &TurnContext, call: &Call<'_>) -> Option<(Arc<Entry>, Arc<Server>, Tool)> {
    let servers = turn.tools.servers();
    servers.entries().iter().find_map(|entry| {
        let name = if call.namespace.is_some() {
            (call.namespace == Some(&answer::namespace(&entry.name))).then_some(call.name)?
        } else {
            // Some models put both into the name.
            call.name.strip_prefix(&answer::namespace(&entry.name))?.strip_prefix("__")?
        };
        let server = entry.ready()?;
        let tool = server.tool(name)?.clone();
        Some((entry.clone(), server, tool))
    })
}

/// How a call ended.
enum Ended {
    Result(CallResult),
    Failed(String),
}

pub(super) async fn call(
    turn: &Arc<TurnContext>,
    call: &Call<'_>,
    (entry, server, tool): (Arc<Entry>, Arc<Server>, Tool),
) -> Output {
    let text = if call.input.trim().is_empty() { "{}" } else { call.input };
    let arguments: Map<String, Value> = tools::arguments(text)?;
    let started_at_ms = turn.runtime.clock.now_ms();
    let mut wire = json!({
        "type": "mcpToolCall", "id": call.id, "server": entry.name, "environmentId": null, "tool": tool.name,
        "status": "inProgress", "arguments": arguments, "appContext": null, "mcpAppUi": null, "pluginId": null,
        "readOnlyHint": tool.read_only, "result": null, "error": null, "durationMs": null,
        "startedAtMs": started_at_ms, "completedAtMs": null,
    });
    turn.item_started(&wire);
    let began = Instant::now();
    let ended = match refusal(turn, &entry, &tool, &arguments).await? {
        Some(reason) => Ended::Failed(reason),
        None => {
            let _called =
                entry.called_by(Caller { asking: turn.asking.clone(), turn_id: turn.turn.id.clone() });
            run(turn, call, &server, &tool, arguments).await?
        }
    };
    let took = began.elapsed();
    let output = finish(&mut wire, ended, took);
    turn.item_done(wire).await?;
    Ok(output)
}

/// Put the end into the item; what the model is told.
fn finish(wire: &mut Value, ended: Ended, took: Duration) -> Value {
    wire["durationMs"] = json!(took.as_millis() as u64);
    match ended {
        Ended::Result(result) => {
            wire["status"] = json!(if result.is_error { "failed" } else { "completed" });
            wire["result"] = json!({"content": result.content, "structuredContent": result.structured_content,
                "_meta": result.meta});
            json!(answer::output(&result, took))
        }
        Ended::Failed(reason) => {
            wire["status"] = json!("failed");
            wire["error"] = json!({"message": reason});
            json!(format!("MCP tool call failed: {reason}"))
        }
    }
}

async fn run(
    turn: &Arc<TurnContext>,
    call: &Call<'_>,
    server: &Server,
    tool: &Tool,
    arguments: Map<String, Value>,
) -> Result<Ended, Stop> {
    let (news, mut progress) = mpsc::channel(PROGRESS_MAX);
    let mut result = std::pin::pin!(server.call(&tool.name, Some(arguments), Some(news)));
    loop {
        tokio::select! {
            biased;
            () = turn.cancel.cancelled() => return Err(Stop::Interrupted),
            Some(one) = progress.recv() => tell_progress(turn, call, one),
            result = &mut result => {
                return Ok(match result {
                    Ok(result) => Ended::Result(result),
                    Err(error) => Ended::Failed(error.to_string()),
                });
            }
        }
    }
}

fn tell_progress(turn: &TurnContext, call: &Call<'_>, progress: Progress) {
    let Progress { progress, total, message } = progress;
    let message = message.unwrap_or_else(|| match total {
        Some(total) => format!("{progress} of {total}"),
        None => progress.to_string(),
    });
    let params = McpToolCallProgressNotification {
        item_id: call.id.to_owned(),
        message,
        thread_id: turn.notify.thread_id.to_string(),
        turn_id: turn.turn.id.clone(),
    };
    turn.tell(turn.notify.event("item/mcpToolCall/progress", &params));
}

/// Why a call may not run, if it may not, after asking where that is due.
async fn refusal(
    turn: &Arc<TurnContext>,
    entry: &Entry,
    tool: &Tool,
    arguments: &Map<String, Value>,
) -> Result<Option<String>, Stop> {
    let key = (entry.name.clone(), tool.name.clone());
    if tool.read_only || turn.tools.allowed().mcp_tools.contains(&key) {
        return Ok(None);
    }
    let asks = match &turn.settings.approval_policy {
        AskForApproval::Granular(granular) => granular.mcp_elicitations,
        _ => judge::policy(turn) != Policy::Never,
    };
    if !asks {
        let name = if judge::policy(turn) == Policy::Never { "never" } else { "granular" };
        return Ok(Some(format!("MCP tool call requires approval, but approval policy is {name}")));
    }
    let params = json!({
        "threadId": &*turn.notify.thread_id, "turnId": turn.turn.id, "serverName": entry.name, "environmentId": null,
        "mode": "form",
        "_meta": {"codex_approval_kind": "mcp_tool_call", "persist": ["session", "always"], "tool_name": tool.name,
            "tool_description": tool.description, "tool_params": arguments, "tool_params_display": []},
        "message": format!("Allow the {} MCP server to run tool \"{}\"?", entry.name, tool.name),
        "requestedSchema": {"type": "object", "properties": {}},
    });
    let asked = turn.asking.ask("mcpServer/elicitation/request", Waiting::Approval, &params).await;
    let Some(answer) = asked else { return Err(Stop::Interrupted) };
    let Ok(answer) = answer else { return Ok(Some("approval request failed".to_owned())) };
    match answer["action"].as_str() {
        Some("accept") => {
            // "always" holds as long as the thread is loaded, too: nothing is written into the configuration.
            if answer.pointer("/_meta/persist").is_some_and(Value::is_string) {
                turn.tools.allowed().mcp_tools.insert(key);
            }
            Ok(None)
        }
        Some("decline") => Ok(Some("user rejected MCP tool call".to_owned())),
        Some("cancel") => Ok(Some("user cancelled MCP tool call".to_owned())),
        _ => Ok(Some("approval request failed".to_owned())),
    }
}
