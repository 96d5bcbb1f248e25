//! What the model is offered of a server, and told of a call.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{CallResult, Tool};
use crate::tools::{
    exec::{answer::OUTPUT_TOKENS_DEFAULT, output::truncate},
    specs,
};

/// The `tools` entry of a server: a namespace of functions.
pub fn spec(server: &str, tools: &[Tool]) -> Value {
    let functions: Vec<Value> = tools
        .iter()
        .map(|tool| {
            specs::function_with_schema(
                &tool.name,
                tool.description.as_deref().unwrap_or(""),
                &tool.input_schema,
            )
        })
        .collect();
    json!({"type": "namespace", "name": namespace(server), "description": format!("Tools of the MCP server {server}."),
        "tools": functions})
}

/// The namespace of a server's tools.
pub fn namespace(server: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    format!("mcp__{}", server.chars().map(plain).collect::<String>())
}

/// The output of a call as parts of a `function_call_output`.
pub fn output(result: &CallResult, took: Duration) -> Vec<Value> {
    let text = |text: &str| json!({"type": "input_text", "text": truncate(text, OUTPUT_TOKENS_DEFAULT)});
    let mut parts = vec![text(&format!("Wall time: {:.4} seconds\nOutput:", took.as_secs_f64()))];
    for block in &result.content {
        let member = |name: &str| block.get(name).and_then(Value::as_str);
        parts.push(match (member("type"), member("text"), member("data"), member("mimeType")) {
            (Some("text"), Some(inner), ..) => text(inner),
            (Some("image"), _, Some(data), Some(mime)) => {
                json!({"type": "input_image", "image_url": format!("data:{mime};base64,{data}")})
            }
            _ => text(&block.to_string()),
        });
    }
    if let Some(structured) = result.structured_content.as_ref().filter(|_| result.content.is_empty()) {
        parts.push(text(&structured.to_string()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_a_part() {
        let content = vec![
            json!({"type": "text", "text": "hi"}),
            json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
            json!({"type": "resource_link", "uri": "x"}),
        ];
        let result = CallResult { content, ..CallResult::default() };
        assert_eq!(
            output(&result, Duration::from_millis(1500)),
            [
                json!({"type": "input_text", "text": "Wall time: 1.5000 seconds\nOutput:"}),
                json!({"type": "input_text", "text": "hi"}),
                json!({"type": "input_image", "image_url": "data:image/png;base64,AA=="}),
                json!({"type": "input_text", "text": "{\"type\":\"resource_link\",\"uri\":\"x\"}"}),
            ]
        );
        assert_eq!(namespace("my server"), "mcp__my_server");
    }
}
