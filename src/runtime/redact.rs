//! Turns as mobile clients get them: without what MCP tools were given and gave, and without generated images
//! (`protocol/threads.md`, section 4).

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::protocol::turn::Turn;

const REDACTED: &str = "[redacted]";

/// Redact the items of turns.
pub(super) fn turns(turns: &mut [Turn]) {
    for turn in turns {
        turn.items = std::mem::take(&mut turn.items).into_iter().filter_map(item).collect();
    }
}

fn item(stored: Box<RawValue>) -> Option<Box<RawValue>> {
    let mut value: Value = serde_json::from_str(stored.get()).ok()?;
    match value["type"].as_str() {
        Some("imageGeneration") => None,
        Some("mcpToolCall") => {
            value["arguments"] = json!(REDACTED);
            if value.get("result").is_some_and(|result| !result.is_null()) {
                value["result"] = json!({"content": [{"type": "text", "text": REDACTED}], "structuredContent": null,
                    "_meta": null});
            }
            value["error"] = Value::Null;
            serde_json::value::to_raw_value(&value).ok()
        }
        _ => Some(stored),
    }
}
