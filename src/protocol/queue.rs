//! Queued submissions (`protocol/queue.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::UserInput;
use super::turn::Turn;

/// Params of `thread/queue/add`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueAddParams {
    /// `clientUserMessageId`.
    pub client_user_message_id: String,
    /// `input`.
    pub input: Vec<UserInput>,
    /// `responsesapiClientMetadata`.
    #[serde(default)]
    pub responsesapi_client_metadata: Option<std::collections::BTreeMap<String, String>>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/queue/add`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueAddResponse {
    /// `queuedSubmission`.
    pub queued_submission: QueuedSubmission,
}

/// Params of `thread/queue/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/queue/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListResponse {
    /// `data`.
    pub data: Vec<QueuedSubmission>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of `thread/queue/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueUpdateParams {
    /// `input`.
    pub input: Vec<UserInput>,
    /// `queuedSubmissionId`.
    pub queued_submission_id: String,
    /// `responsesapiClientMetadata`.
    #[serde(default)]
    pub responsesapi_client_metadata: Option<std::collections::BTreeMap<String, String>>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/queue/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueUpdateResponse {
    /// `queuedSubmission`.
    pub queued_submission: QueuedSubmission,
}

/// Params of `thread/queue/delete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueDeleteParams {
    /// `queuedSubmissionId`.
    pub queued_submission_id: String,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/queue/delete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueDeleteResponse {
    /// `deleted`.
    pub deleted: bool,
}

/// Params of `thread/queue/reorder`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueReorderParams {
    /// `queuedSubmissionIds`.
    pub queued_submission_ids: Vec<String>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/queue/reorder`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueReorderResponse {}

/// Params of `thread/queue/start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueStartParams {
    /// `queuedSubmissionId`.
    #[serde(default)]
    pub queued_submission_id: Option<String>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/queue/start`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueStartResponse {
    /// `turn`.
    pub turn: Turn,
}

/// Params of the notification `thread/queue/changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueChangedNotification {
    /// The thread.
    pub thread_id: String,
}

/// A structure of the wire: `QueuedSubmission` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedSubmission {
    /// `clientUserMessageId`.
    pub client_user_message_id: String,
    /// `id`.
    pub id: String,
    /// `input`.
    pub input: Vec<UserInput>,
    /// `responsesapiClientMetadata`.
    #[serde(default)]
    pub responsesapi_client_metadata: Option<std::collections::BTreeMap<String, String>>,
}
