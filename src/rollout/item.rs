//! Items between the wire (camelCase members) and `item_completed` lines (snake_case members, other shapes for some).
//!
//! Both are JSON objects here: an item of a kind that nobody knows passes through with its names converted.

use serde_json::{Map, Value, json};

/// An item as a line has it → as the wire has it, with its times. `None` when it has no type or id.
pub fn to_wire(item: Value, started_at_ms: Option<i64>, completed_at_ms: Option<i64>) -> Option<Value> {
    let Value::Object(source) = item else { return None };
    let kind = source.get("type")?.as_str()?.to_owned();
    source.get("id")?.as_str()?;
    let mut out = Map::new();
    out.insert("type".to_owned(), Value::from(wire_kind(&kind)));
    for (key, value) in source.into_iter().filter(|(key, _)| key != "type") {
        match (kind.as_str(), key.as_str()) {
            ("UserMessage", "content") => insert(&mut out, "content", user_content_to_wire(&value)),
            ("AgentMessage", "content") => insert(&mut out, "text", Value::from(text_of(&value))),
            ("Reasoning", "summary_text") => insert(&mut out, "summary", value),
            ("Reasoning", "raw_content") => insert(&mut out, "content", value),
            ("CommandExecution", "command") => insert(&mut out, "command", Value::from(shell_joined(&value))),
            ("CommandExecution", "cwd") => insert(&mut out, "cwd", Value::from(path_of(&value))),
            ("CommandExecution", "parsed_cmd") => insert(&mut out, "commandActions", actions_to_wire(&value)),
            (_, "duration") => insert(&mut out, "durationMs", duration_to_ms(&value)),
            ("CommandExecution", "aggregated_output") if value == "" => {
                insert(&mut out, "aggregatedOutput", Value::Null)
            }
            // What the program that wrote them printed; no part of the item on the wire.
            ("FileChange", "auto_approved" | "stdout" | "stderr") => {}
            ("WebSearch", "action") => insert(&mut out, "action", web_action_to_wire(&value)),
            ("FileChange", "changes") => insert(&mut out, "changes", changes_to_wire(&value)),
            (_, "source" | "status") | ("CollabAgentToolCall", "tool") => {
                insert(&mut out, &key, camel_word(&value))
            }
            ("McpToolCall" | "DynamicToolCall", "arguments" | "result") => insert(&mut out, &key, value),
            _ => insert(&mut out, &camel(&key), value),
        }
    }
    complete(&kind, &mut out);
    insert(&mut out, "startedAtMs", json!(started_at_ms));
    insert(&mut out, "completedAtMs", json!(completed_at_ms));
    Some(Value::Object(out))
}

/// An item as the wire has it → as a line has it.
pub fn from_wire(item: &Value) -> Value {
    let Some(source) = item.as_object() else { return item.clone() };
    let kind = source.get("type").and_then(Value::as_str).unwrap_or_default();
    let mut out = Map::new();
    insert(&mut out, "type", Value::from(line_kind(kind)));
    for (key, value) in source {
        match (kind, key.as_str()) {
            (_, "type" | "startedAtMs" | "completedAtMs") => {}
            ("userMessage", "content") => insert(&mut out, "content", user_content_from_wire(value)),
            ("agentMessage", "text") => insert(&mut out, "content", json!([{"type": "Text", "text": value}])),
            ("reasoning", "summary") => insert(&mut out, "summary_text", value.clone()),
            ("reasoning", "content") => insert(&mut out, "raw_content", value.clone()),
            ("commandExecution", "command") => insert(&mut out, "command", words_of(value)),
            ("commandExecution", "cwd") => {
                let path = value.as_str().unwrap_or_default().replace('%', "%25");
                insert(&mut out, "cwd", json!(format!("file://{path}")));
            }
            ("commandExecution", "commandActions") => {
                insert(&mut out, "parsed_cmd", actions_from_wire(value))
            }
            (_, "durationMs") => insert(&mut out, "duration", duration_from_ms(value)),
            ("webSearch", "action") => insert(&mut out, "action", web_action_from_wire(value)),
            (_, "source" | "status") | ("collabAgentToolCall", "tool") => {
                insert(&mut out, key, snake_word(value))
            }
            (_, _) if value.is_null() => {}
            _ => insert(&mut out, &snake(key), value.clone()),
        }
    }
    Value::Object(out)
}

fn insert(into: &mut Map<String, Value>, key: &str, value: Value) {
    into.insert(key.to_owned(), value);
}

fn wire_kind(kind: &str) -> String {
    let mut letters = kind.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

fn line_kind(kind: &str) -> String {
    let mut letters = kind.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Members that the wire always has.
fn complete(kind: &str, out: &mut Map<String, Value>) {
    let missing: &[(&str, Value)] = match kind {
        "UserMessage" => &[("clientId", Value::Null), ("content", json!([]))],
        "AgentMessage" => &[
            ("text", json!("")),
            ("phase", Value::Null),
            ("moderation", Value::Null),
            ("memoryCitation", Value::Null),
            ("delivery", Value::Null),
            ("questions", Value::Null),
        ],
        "Reasoning" => &[("summary", json!([])), ("content", json!([]))],
        "CommandExecution" => &[
            ("pluginId", Value::Null),
            ("scriptPath", Value::Null),
            ("processId", Value::Null),
            ("source", json!("agent")),
            ("commandActions", json!([])),
            ("aggregatedOutput", Value::Null),
            ("exitCode", Value::Null),
            ("durationMs", Value::Null),
        ],
        "FileChange" => &[("changes", json!([])), ("status", json!("completed"))],
        "WebSearch" => &[("query", json!("")), ("action", Value::Null)],
        "Plan" => &[("text", json!(""))],
        _ => &[],
    };
    for (key, value) in missing {
        out.entry(*key).or_insert_with(|| value.clone());
    }
}

fn user_content_to_wire(content: &Value) -> Value {
    let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().map(user_part_to_wire).collect()
}

fn user_part_to_wire(part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(object) = part.as_object_mut() {
        let kind = object.get("type").and_then(Value::as_str).map(camel);
        if let Some(kind) = kind {
            insert(object, "type", json!(kind));
        }
        // Old files have `image_url` where the wire has `url`.
        if let Some(url) = object.remove("image_url") {
            object.entry("url").or_insert(url);
        }
        if let Some(elements) = object.get_mut("text_elements") {
            *elements = text_elements_to_wire(elements);
        }
        if matches!(object.get("type").and_then(Value::as_str), Some("image" | "localImage")) {
            object.entry("detail").or_insert(Value::Null);
        }
    }
    part
}

/// Text elements with the wire's names, from either spelling.
pub fn text_elements_to_wire(elements: &Value) -> Value {
    let elements = elements.as_array().map(Vec::as_slice).unwrap_or_default();
    elements
        .iter()
        .filter_map(|element| {
            let range = element.get("byteRange").or_else(|| element.get("byte_range"))?;
            Some(json!({"byteRange": range, "placeholder": element.get("placeholder").unwrap_or(&Value::Null)}))
        })
        .collect()
}

fn user_content_from_wire(content: &Value) -> Value {
    let mut content = content.clone();
    for part in content.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default() {
        if let Some(object) = part.as_object_mut() {
            let kind = object.get("type").and_then(Value::as_str).map(snake);
            if let Some(kind) = kind {
                insert(object, "type", json!(kind));
            }
            if let Some(url) = object.remove("url") {
                insert(object, "image_url", url);
            }
            object.retain(|key, value| key != "detail" || !value.is_null());
        }
    }
    content
}

fn text_of(content: &Value) -> String {
    let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
}

/// The words of a command, quoted so that a shell would read them back.
fn shell_joined(command: &Value) -> String {
    match command {
        Value::Array(words) => {
            let words: Vec<String> = words.iter().filter_map(Value::as_str).map(shell_quoted).collect();
            words.join(" ")
        }
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

/// A word as a shell reads it.
pub fn shell_quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The words of a command line that [`shell_quoted`] has made; another is one word.
fn words_of(command: &Value) -> Value {
    let text = command.as_str().unwrap_or_default();
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quoted, mut any) = (false, false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => (quoted, any) = (!quoted, true),
            '\\' if !quoted => word.extend(letters.next()),
            ' ' if !quoted => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            letter => word.push(letter),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    json!(words)
}

fn path_of(cwd: &Value) -> String {
    let text = cwd.as_str().unwrap_or_default();
    text.strip_prefix("file://").map_or_else(|| text.to_owned(), percent_decoded)
}

/// The text of a URL's path; what is no escape stays as it is.
fn percent_decoded(path: &str) -> String {
    let escaped = |rest: &[u8]| match rest {
        [b'%', high, low, ..] => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            u8::try_from(digit(high)? * 16 + digit(low)?).ok()
        }
        _ => None,
    };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some(first) = rest.first() {
        let byte = escaped(rest);
        bytes.push(byte.unwrap_or(*first));
        rest = &rest[if byte.is_some() { 3 } else { 1 }..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

fn web_action_from_wire(action: &Value) -> Value {
    let Some(object) = action.as_object() else { return action.clone() };
    let line = object.iter().map(|(key, value)| match key.as_str() {
        "type" => (key.clone(), snake_word(value)),
        _ => (snake(key), value.clone()),
    });
    line.collect()
}

/// What a search of the web did, with the wire's names.
pub fn web_action_to_wire(action: &Value) -> Value {
    let Some(object) = action.as_object() else { return action.clone() };
    let wire = object.iter().map(|(key, value)| match key.as_str() {
        "type" => (key.clone(), camel_word(value)),
        _ => (camel(key), value.clone()),
    });
    wire.collect()
}

fn actions_to_wire(actions: &Value) -> Value {
    let actions = actions.as_array().map(Vec::as_slice).unwrap_or_default();
    actions
        .iter()
        .filter_map(|action| {
            let mut out = Map::new();
            for (key, value) in action.as_object()? {
                match key.as_str() {
                    "cmd" => insert(&mut out, "command", value.clone()),
                    "type" => insert(&mut out, "type", camel_word(value)),
                    _ => insert(&mut out, &camel(key), value.clone()),
                }
            }
            Some(Value::Object(out))
        })
        .collect()
}

fn actions_from_wire(actions: &Value) -> Value {
    let actions = actions.as_array().map(Vec::as_slice).unwrap_or_default();
    actions
        .iter()
        .filter_map(|action| {
            let mut out = Map::new();
            for (key, value) in action.as_object()? {
                match key.as_str() {
                    "command" => insert(&mut out, "cmd", value.clone()),
                    "type" => insert(&mut out, "type", snake_word(value)),
                    _ => insert(&mut out, &snake(key), value.clone()),
                }
            }
            Some(Value::Object(out))
        })
        .collect()
}

/// Changes of files: a list as on the wire, or a map from path to change as older files have it.
pub fn changes_to_wire(changes: &Value) -> Value {
    let Some(map) = changes.as_object() else { return changes.clone() };
    let mut paths: Vec<(&String, &Value)> = map.iter().collect();
    paths.sort_by_key(|(path, _)| *path);
    paths
        .into_iter()
        .map(|(path, change)| {
            let text = |key: &str| change.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (kind, diff) = match change.get("type").and_then(Value::as_str) {
                Some("delete") => (json!({"type": "delete"}), text("content")),
                Some("update") => {
                    let move_path = change.get("move_path").cloned().unwrap_or(Value::Null);
                    (json!({"type": "update", "move_path": move_path}), text("unified_diff"))
                }
                _ => (json!({"type": "add"}), text("content")),
            };
            json!({"path": path, "kind": kind, "diff": diff})
        })
        .collect()
}

/// `{secs, nanos}` or milliseconds → milliseconds.
pub fn duration_to_ms(duration: &Value) -> Value {
    match duration {
        Value::Object(parts) => {
            let part = |key: &str| parts.get(key).and_then(Value::as_i64).unwrap_or(0);
            json!(part("secs").saturating_mul(1000).saturating_add(part("nanos") / 1_000_000))
        }
        other => other.clone(),
    }
}

fn duration_from_ms(duration: &Value) -> Value {
    match duration.as_i64() {
        Some(ms) => json!({"secs": ms / 1000, "nanos": ms % 1000 * 1_000_000}),
        None => Value::Null,
    }
}

fn camel_word(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |word| json!(camel(word)))
}

fn snake_word(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |word| json!(snake(word)))
}

/// `snake_case` → `camelCase`.
pub fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' if !out.is_empty() => upper = true,
            letter if upper => {
                out.extend(letter.to_uppercase());
                upper = false;
            }
            letter => out.push(letter),
        }
    }
    out
}

/// `camelCase` → `snake_case`.
pub fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_uppercase() {
            out.push('_');
            out.extend(letter.to_lowercase());
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_command_is_an_item_of_the_wire() {
        let line = json!({"type": "CommandExecution", "id": "call-1", "process_id": "83266",
            "command": ["/bin/bash", "-lc", "echo hi"], "cwd": "file:///home/u/proj",
            "parsed_cmd": [{"type": "unknown", "cmd": "echo hi"}], "source": "unified_exec_startup",
            "status": "completed", "aggregated_output": "hi\n", "exit_code": 0, "duration": {"secs": 2, "nanos": 570_282_251}});
        let wire = to_wire(line, Some(1), Some(2)).unwrap();
        assert_eq!(
            wire,
            json!({"type": "commandExecution", "id": "call-1", "processId": "83266",
                "command": "/bin/bash -lc 'echo hi'", "cwd": "/home/u/proj",
                "commandActions": [{"type": "unknown", "command": "echo hi"}], "source": "unifiedExecStartup",
                "status": "completed", "aggregatedOutput": "hi\n", "exitCode": 0, "durationMs": 2570,
                "pluginId": null, "scriptPath": null, "startedAtMs": 1, "completedAtMs": 2})
        );
        assert_eq!(to_wire(from_wire(&wire), Some(1), Some(2)), Some(wire));
    }

    #[test]
    fn messages_come_back_as_they_were() {
        for wire in [
            json!({"type": "userMessage", "id": "u", "clientId": "c", "content": [
                {"type": "text", "text": "hello", "text_elements": [{"byteRange": {"start": 0, "end": 2}, "placeholder": null}]},
                {"type": "image", "url": "data:,", "detail": null}, {"type": "localImage", "path": "/p", "detail": null}],
                "startedAtMs": 1, "completedAtMs": 1}),
            json!({"type": "agentMessage", "id": "a", "text": "it's", "phase": "final_answer", "moderation": null,
                "memoryCitation": null, "delivery": null, "questions": null, "startedAtMs": 1, "completedAtMs": 2}),
            json!({"type": "reasoning", "id": "r", "summary": ["s"], "content": [], "startedAtMs": 1, "completedAtMs": 2}),
            json!({"type": "contextCompaction", "id": "x", "startedAtMs": null, "completedAtMs": 2}),
            json!({"type": "webSearch", "id": "w", "query": "q", "action": {"type": "openPage", "url": "u"},
                "startedAtMs": 1, "completedAtMs": 2}),
        ] {
            let times = |key: &str| wire[key].as_i64();
            let back = to_wire(from_wire(&wire), times("startedAtMs"), times("completedAtMs"));
            assert_eq!(back, Some(wire));
        }
    }

    #[test]
    fn quoting_and_its_reverse() {
        for words in [json!(["a", "b c", "it's", ""]), json!(["/bin/bash", "-lc", "echo 'x' \\ y"])] {
            assert_eq!(words_of(&json!(shell_joined(&words))), words);
        }
    }
}
