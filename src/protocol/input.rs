//! What a user says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a user's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum UserInput {
    /// `text`.
    #[serde(rename = "text", rename_all = "camelCase")]
    Text {
        /// `text`.
        text: String,
        /// `text_elements`.
        #[serde(rename = "text_elements", default)]
        text_elements: Vec<TextElement>,
    },
    /// `image`.
    #[serde(rename = "image", rename_all = "camelCase")]
    Image {
        /// `detail`.
        #[serde(default)]
        detail: Option<ImageDetail>,
        /// `url` or `fileId`: one must be there.
        #[serde(flatten)]
        source: MediaSource,
    },
    /// `localImage`.
    #[serde(rename = "localImage", rename_all = "camelCase")]
    LocalImage {
        /// `detail`.
        #[serde(default)]
        detail: Option<ImageDetail>,
        /// `path`.
        path: String,
    },
    /// `audio`.
    #[serde(rename = "audio", rename_all = "camelCase")]
    Audio {
        /// `url` or `fileId`: one must be there.
        #[serde(flatten)]
        source: MediaSource,
    },
    /// `localAudio`.
    #[serde(rename = "localAudio", rename_all = "camelCase")]
    LocalAudio {
        /// `path`.
        path: String,
    },
    /// `skill`.
    #[serde(rename = "skill", rename_all = "camelCase")]
    Skill {
        /// `name`.
        name: String,
        /// `path`.
        path: String,
    },
    /// `mention`.
    #[serde(rename = "mention", rename_all = "camelCase")]
    Mention {
        /// `name`.
        name: String,
        /// `path`.
        path: String,
    },
}

/// Where the content of an image or a sound is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MediaSource {
    /// In the URL itself (`data:`), or at it.
    Url {
        /// The URL.
        url: String,
    },
    /// A file that the model provider keeps.
    File {
        /// The provider's id of it.
        #[serde(rename = "fileId")]
        file_id: String,
    },
}

impl UserInput {
    /// A text without marked parts.
    pub fn text(text: &str) -> UserInput {
        UserInput::Text { text: text.to_owned(), text_elements: Vec::new() }
    }
}

/// A structure of the wire: `TextElement` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextElement {
    /// `byteRange`.
    pub byte_range: ByteRange,
    /// `placeholder`.
    #[serde(default)]
    pub placeholder: Option<String>,
}

/// A word of the wire: `ImageDetail` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ImageDetail {
    /// `auto`.
    #[serde(rename = "auto")]
    Auto,
    /// `low`.
    #[serde(rename = "low")]
    Low,
    /// `high`.
    #[serde(rename = "high")]
    High,
    /// `original`.
    #[serde(rename = "original")]
    Original,
}

/// A structure of the wire: `ByteRange` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ByteRange {
    /// `end`.
    pub end: u64,
    /// `start`.
    pub start: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(sent: Value, expected: Value) {
        let part: UserInput = serde_json::from_value(sent).unwrap();
        assert_eq!(serde_json::to_value(part).unwrap(), expected);
    }

    #[test]
    fn parts_come_back_as_sent_with_their_defaults() {
        check(
            json!({"type": "text", "text": "hi", "textElements": 1}),
            json!({"type": "text", "text": "hi", "text_elements": []}),
        );
        check(
            json!({"type": "image", "url": "data:,"}),
            json!({"type": "image", "url": "data:,", "detail": null}),
        );
        check(
            json!({"type": "image", "fileId": "f", "detail": "low"}),
            json!({"type": "image", "fileId": "f", "detail": "low"}),
        );
        check(json!({"type": "audio", "fileId": "f"}), json!({"type": "audio", "fileId": "f"}));
    }

    #[test]
    fn an_image_from_nowhere_is_refused() {
        assert!(serde_json::from_value::<UserInput>(json!({"type": "image"})).is_err());
    }
}
