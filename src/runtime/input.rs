//! What a user says in a turn: checked, and as the model gets it (`protocol/turns.md`, section 2).

use serde_json::{Value, json};

use super::error::{Result, RuntimeError};
use crate::history::preview;
use crate::protocol::input::{MediaSource, UserInput};

/// The most characters that one message may have.
pub const MAX_INPUT_CHARS: usize = 1 << 20;

/// A user's message.
#[derive(Clone, Debug, Default)]
pub struct UserMessage {
    /// `clientUserMessageId`: comes back as the item's `clientId`.
    pub client_id: Option<String>,
    /// The parts as the client sent them.
    pub content: Vec<UserInput>,
}

impl UserMessage {
    /// A message from a client's params.
    ///
    /// # Errors
    /// Too much text, or an image that is neither a file nor a data URL.
    pub fn new(content: Vec<UserInput>, client_id: Option<String>) -> Result<UserMessage> {
        let chars: usize = content
            .iter()
            .map(|part| match part {
                UserInput::Text { text, .. } => text.chars().count(),
                _ => 0,
            })
            .sum();
        if chars > MAX_INPUT_CHARS {
            return Err(RuntimeError::Limit {
                message: format!("Input exceeds the maximum length of {MAX_INPUT_CHARS} characters."),
                data: Some(json!({
                    "input_error_code": "input_too_large", "max_chars": MAX_INPUT_CHARS, "actual_chars": chars,
                })),
            });
        }
        for part in &content {
            if let UserInput::Image { source, .. } | UserInput::Audio { source } = part
                && let MediaSource::Url { url } = source
                && !url.starts_with("data:")
            {
                return Err(RuntimeError::invalid(
                    "remote images and audio are not fetched: give the content as a data URL, or use `localImage` or \
                     `localAudio`",
                ));
            }
        }
        Ok(UserMessage { client_id, content })
    }

    /// The text of all text parts, as the thread's preview has it.
    pub fn preview(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|part| match part {
                UserInput::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let has = |wanted: fn(&UserInput) -> bool| self.content.iter().any(wanted);
        let has_image = has(|part| matches!(part, UserInput::Image { .. } | UserInput::LocalImage { .. }));
        let has_audio = has(|part| matches!(part, UserInput::Audio { .. } | UserInput::LocalAudio { .. }));
        preview::of_message(&texts.join("\n"), has_image, has_audio)
    }
}

/// The parts as JSON, for comparing with a stored item.
pub fn content_to_json(content: &[UserInput]) -> Value {
    serde_json::to_value(content).unwrap_or(Value::Null)
}

/// The parts of a user message as the model gets them.
pub fn to_model(content: &[UserInput], cwd: &str) -> Vec<Value> {
    let mut parts = Vec::new();
    for part in content {
        match part {
            UserInput::Text { text, .. } => parts.push(json!({"type": "input_text", "text": text})),
            UserInput::Image { source, .. } => parts.push(match source {
                MediaSource::Url { url } => json!({"type": "input_image", "image_url": url}),
                MediaSource::File { file_id } => json!({"type": "input_image", "file_id": file_id}),
            }),
            UserInput::LocalImage { path, .. } => local_image(path, cwd, &mut parts),
            UserInput::Audio { source } => parts.push(match source {
                MediaSource::Url { url } => json!({"type": "input_audio", "audio_url": url}),
                MediaSource::File { file_id } => json!({"type": "input_audio", "file_id": file_id}),
            }),
            UserInput::LocalAudio { path } => {
                parts.push(json!({"type": "input_text", "text": format!("[audio file {path}]")}))
            }
            UserInput::Skill { name, path } | UserInput::Mention { name, path } => {
                parts.push(json!({"type": "input_text", "text": format!("[{name}]({path})")}));
            }
        }
    }
    parts
}

/// An image file, between two texts that name it; one that cannot be read is told to the model as a text.
fn local_image(path: &str, cwd: &str, parts: &mut Vec<Value>) {
    let full = std::path::Path::new(cwd).join(path);
    match crate::tools::image::data_url(&full) {
        Ok(url) => {
            parts.push(json!({"type": "input_text", "text": format!("<image path=\"{path}\">")}));
            parts.push(json!({"type": "input_image", "image_url": url}));
            parts.push(json!({"type": "input_text", "text": "</image>"}));
        }
        Err(error) => parts
            .push(json!({"type": "input_text", "text": format!("The image could not be attached: {error}")})),
    }
}
