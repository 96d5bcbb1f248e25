//! The built-in provider `offline`: answers without network, for trying and testing.
//!
//! It says what it was asked, so that a whole turn can be seen without a key. A message that starts with
//! `!call NAME {JSON}` makes it call that tool.

use futures_util::stream;
use serde_json::{Value, json};

use super::client::ResponseStream;
use super::event::{ModelEvent, Usage};
use super::request::Body;

/// Characters that make about a token.
const CHARS_A_TOKEN: usize = 4;

/// Answer a request.
pub fn respond(body: &Body) -> ResponseStream {
    let input: Vec<Value> =
        body.input.iter().filter_map(|item| serde_json::from_str(item.get()).ok()).collect();
    let last = input.last().cloned().unwrap_or_default();
    let asked = input.iter().rev().find(|item| item["role"] == "user").map(text_of).unwrap_or_default();
    let number = input.len();
    let mut events = Vec::new();
    let output = match call(&asked).filter(|_| last["role"] == "user") {
        Some((name, arguments)) => {
            let item = json!({"type": "function_call", "call_id": format!("call_{number}"), "name": name,
                "arguments": arguments});
            events.push(ModelEvent::ItemDone(item));
            arguments.len()
        }
        None => {
            let text = answer(&asked, &last);
            message(&text, number, &mut events);
            text.len()
        }
    };
    let input_chars: usize = body.input.iter().map(|item| item.get().len()).sum();
    let (input_tokens, output_tokens) =
        ((input_chars / CHARS_A_TOKEN) as i64, (output / CHARS_A_TOKEN) as i64 + 1);
    events.push(ModelEvent::Completed {
        response_id: format!("offline_{number}_{input_chars}"),
        usage: Some(Usage {
            input_tokens,
            output_tokens,
            total_tokens: input_tokens + output_tokens,
            ..Usage::default()
        }),
        end_turn: None,
    });
    ResponseStream::of(stream::iter(events.into_iter().map(Ok)))
}

fn answer(asked: &str, last: &Value) -> String {
    match last.get("output") {
        Some(output) => format!("The tool answered: {}", output.as_str().unwrap_or(&output.to_string())),
        None => format!(
            "You said: {asked}\n\nI am the built-in offline provider: I answer without a network or a key."
        ),
    }
}

/// A message, streamed word by word.
fn message(text: &str, number: usize, events: &mut Vec<ModelEvent>) {
    let item_id = format!("msg_offline_{number}");
    let item =
        |content: Value| json!({"type": "message", "role": "assistant", "id": item_id, "content": content});
    events.push(ModelEvent::ItemAdded(item(json!([]))));
    for word in text.split_inclusive(' ') {
        events.push(ModelEvent::TextDelta { item_id: item_id.clone(), delta: word.to_owned() });
    }
    events.push(ModelEvent::ItemDone(item(json!([{"type": "output_text", "text": text}]))));
}

fn call(asked: &str) -> Option<(String, String)> {
    let rest = asked.strip_prefix("!call ")?;
    let (name, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
    Some((name.to_owned(), arguments.to_owned()))
}

fn text_of(item: &Value) -> String {
    let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}
