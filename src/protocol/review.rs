//! Reviews.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::turn::Turn;

/// Params of `review/start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStartParams {
    /// `delivery`.
    #[serde(default)]
    pub delivery: Option<ReviewDelivery>,
    /// `target`.
    pub target: ReviewTarget,
    /// The thread.
    pub thread_id: String,
}

/// Result of `review/start`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStartResponse {
    /// `reviewThreadId`.
    pub review_thread_id: String,
    /// `turn`.
    pub turn: Turn,
}

/// A word of the wire: `ReviewDelivery` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReviewDelivery {
    /// `inline`.
    #[serde(rename = "inline")]
    Inline,
}

/// A union of the wire: `ReviewTarget` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ReviewTarget {
    /// `uncommittedChanges`.
    #[serde(rename = "uncommittedChanges")]
    UncommittedChanges,
    /// `baseBranch`.
    #[serde(rename = "baseBranch", rename_all = "camelCase")]
    BaseBranch {
        /// `branch`.
        branch: String,
    },
    /// `commit`.
    #[serde(rename = "commit", rename_all = "camelCase")]
    Commit {
        /// `sha`.
        sha: String,
        /// `title`.
        #[serde(default)]
        title: Option<String>,
    },
    /// `custom`.
    #[serde(rename = "custom", rename_all = "camelCase")]
    Custom {
        /// `instructions`.
        instructions: String,
    },
}
