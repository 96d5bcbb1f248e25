//! Tools that a client brings along (`dynamicTools` of `thread/start`): a call is a request to the clients
//! (`protocol/approvals.md`, section 8).

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::asking::Waiting;
use super::super::turn::TurnContext;
use super::{Call, Output, Stop};
use crate::protocol::item::{
    DynamicToolCallOutputContentItem as Content, DynamicToolCallParams, DynamicToolCallResponse,
};
use crate::tools;
use crate::tools::specs::function_with_schema;

/// What the model is told of them.
pub(super) fn offered(turn: &TurnContext) -> impl Iterator<Item = Value> {
    turn.settings.dynamic_tools.iter().map(|tool| match functions(tool) {
        Some(functions) => json!({
            "type": "namespace", "name": tool["name"], "description": tool["description"],
            "tools": functions.iter().map(spec).collect::<Vec<_>>(),
        }),
        None => spec(tool),
    })
}

/// Whether a client has a tool of this name.
pub(super) fn is_known(turn: &TurnContext, namespace: Option<&str>, name: &str) -> bool {
    turn.settings.dynamic_tools.iter().any(|tool| match (namespace, functions(tool)) {
        (Some(namespace), Some(functions)) => {
            tool["name"] == namespace && functions.iter().any(|function| function["name"] == name)
        }
        (None, None) => tool["name"] == name,
        _ => false,
    })
}

/// The tools of a group.
fn functions(tool: &Value) -> Option<&Vec<Value>> {
    (tool["type"] == "namespace").then(|| tool["tools"].as_array()).flatten()
}

fn spec(tool: &Value) -> Value {
    let text = |key: &str| tool[key].as_str().unwrap_or_default();
    let schema = tool.get("inputSchema").or_else(|| tool.get("parameters")).cloned();
    let schema = schema.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    function_with_schema(text("name"), text("description"), &schema)
}

pub(super) async fn call(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: Value = tools::arguments(if call.input.is_empty() { "{}" } else { call.input })?;
    let started_at_ms = turn.runtime.clock.now_ms();
    let mut wire = json!({
        "type": "dynamicToolCall", "id": call.id, "namespace": call.namespace, "tool": call.name,
        "arguments": arguments, "status": "inProgress", "contentItems": null, "success": null, "durationMs": null,
        "startedAtMs": started_at_ms, "completedAtMs": null,
    });
    turn.item_started(&wire);
    let params = DynamicToolCallParams {
        arguments,
        call_id: call.id.to_owned(),
        namespace: call.namespace.map(str::to_owned),
        thread_id: turn.notify.thread_id.to_string(),
        tool: call.name.to_owned(),
        turn_id: turn.turn.id.clone(),
    };
    let Some(answer) = turn.asking.ask("item/tool/call", Waiting::Program, &params).await else {
        return Err(Stop::Interrupted.into());
    };
    let failed = |text: &str| DynamicToolCallResponse {
        content_items: vec![Content::InputText { text: text.to_owned() }],
        success: false,
    };
    let response = match answer {
        Ok(answer) => {
            serde_json::from_value(answer).unwrap_or_else(|_| failed("dynamic tool response was invalid"))
        }
        Err(_) => failed("dynamic tool request failed"),
    };
    wire["status"] = json!(if response.success { "completed" } else { "failed" });
    wire["contentItems"] = json!(response.content_items);
    wire["success"] = json!(response.success);
    wire["durationMs"] = json!(turn.runtime.clock.now_ms() - started_at_ms);
    turn.item_done(wire).await?;
    Ok(output(&response.content_items))
}

/// One text goes to the model as it is, anything else as parts.
fn output(items: &[Content]) -> Value {
    if let [Content::InputText { text }] = items {
        return json!(text);
    }
    items
        .iter()
        .map(|item| match item {
            Content::InputText { text } => json!({"type": "input_text", "text": text}),
            Content::InputImage { image_url } => json!({"type": "input_image", "image_url": image_url}),
            Content::InputAudio { audio_url } => json!({"type": "input_audio", "audio_url": audio_url}),
        })
        .collect()
}
