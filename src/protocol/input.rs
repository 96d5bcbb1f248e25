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
        /// `url`.
        #[serde(default)]
        url: Option<String>,
        /// `fileId`.
        #[serde(default)]
        file_id: Option<String>,
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
        /// `url`.
        #[serde(default)]
        url: Option<String>,
        /// `fileId`.
        #[serde(default)]
        file_id: Option<String>,
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
