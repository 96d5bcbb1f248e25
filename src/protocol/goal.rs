//! Goals of threads (`protocol/goals.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `thread/goal/set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalSetParams {
    /// `objective`.
    #[serde(default)]
    pub objective: Option<String>,
    /// `origin`.
    #[serde(default)]
    pub origin: Option<ThreadGoalMutationOrigin>,
    /// `status`.
    #[serde(default)]
    pub status: Option<ThreadGoalStatus>,
    /// The thread.
    pub thread_id: String,
    /// `tokenBudget`.
    #[schemars(with = "Option<i64>")]
    #[serde(default, with = "crate::protocol::double_option", skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<Option<i64>>,
}

/// Result of `thread/goal/set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalSetResponse {
    /// `goal`.
    pub goal: ThreadGoal,
}

/// Params of `thread/goal/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalGetParams {
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/goal/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalGetResponse {
    /// `goal`.
    #[serde(default)]
    pub goal: Option<ThreadGoal>,
}

/// Params of `thread/goal/clear`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalClearParams {
    /// `origin`.
    #[serde(default)]
    pub origin: Option<ThreadGoalMutationOrigin>,
    /// The thread.
    pub thread_id: String,
}

/// Result of `thread/goal/clear`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalClearResponse {
    /// `cleared`.
    pub cleared: bool,
}

/// Params of the notification `thread/goal/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalUpdatedNotification {
    /// `goal`.
    pub goal: ThreadGoal,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    #[serde(default)]
    pub turn_id: Option<String>,
}

/// Params of the notification `thread/goal/cleared`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalClearedNotification {
    /// The thread.
    pub thread_id: String,
}

/// A word of the wire: `ThreadGoalMutationOrigin` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadGoalMutationOrigin {
    /// `user`.
    #[serde(rename = "user")]
    User,
    /// `automatic`.
    #[serde(rename = "automatic")]
    Automatic,
}

/// A word of the wire: `ThreadGoalStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThreadGoalStatus {
    /// `active`.
    #[serde(rename = "active")]
    Active,
    /// `paused`.
    #[serde(rename = "paused")]
    Paused,
    /// `blocked`.
    #[serde(rename = "blocked")]
    Blocked,
    /// `usageLimited`.
    #[serde(rename = "usageLimited")]
    UsageLimited,
    /// `budgetLimited`.
    #[serde(rename = "budgetLimited")]
    BudgetLimited,
    /// `complete`.
    #[serde(rename = "complete")]
    Complete,
}

/// A structure of the wire: `ThreadGoal` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoal {
    /// Unix seconds.
    pub created_at: i64,
    /// `objective`.
    pub objective: String,
    /// `status`.
    pub status: ThreadGoalStatus,
    /// The thread.
    pub thread_id: String,
    /// `timeUsedSeconds`.
    pub time_used_seconds: i64,
    /// `tokenBudget`.
    #[serde(default)]
    pub token_budget: Option<i64>,
    /// `tokensUsed`.
    pub tokens_used: i64,
    /// Unix seconds.
    pub updated_at: i64,
}
