//! `usage/report`: what was used, by day, thread, project, model, provider or goal. A method of our own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `usage/report`. Filters that are left out let everything through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageReportParams {
    /// What a row stands for; several make a row for each combination. None: only the total.
    #[serde(default)]
    pub group_by: Vec<UsageGroup>,
    /// Where days begin: a name of the IANA database, or `local` for the server's own zone. Default `UTC`.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// The first day, `YYYY-MM-DD`.
    #[serde(default)]
    pub since: Option<String>,
    /// The last day, `YYYY-MM-DD`, included.
    #[serde(default)]
    pub until: Option<String>,
    /// Only this thread.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// Count what sub-agents used for the thread at the root of their tree (or for `threadId`).
    #[serde(default)]
    pub include_descendants: bool,
    /// Only threads of this project.
    #[serde(default)]
    pub project_id: Option<String>,
    /// Only this model.
    #[serde(default)]
    pub model: Option<String>,
    /// Only this provider.
    #[serde(default)]
    pub model_provider: Option<String>,
    /// Only what counted for this goal.
    #[serde(default)]
    pub goal_id: Option<String>,
}

/// What rows of a report stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UsageGroup {
    /// A day of the time zone.
    Day,
    /// A thread.
    Thread,
    /// A project.
    Project,
    /// A model.
    Model,
    /// A provider.
    Provider,
    /// A goal.
    Goal,
}

/// Result of `usage/report`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageReportResponse {
    /// Where days begin.
    pub time_zone: String,
    /// One row a group that used anything, in the order of the groups.
    pub data: Vec<UsageReportRow>,
    /// The sum of all rows.
    pub total: UsageSum,
}

/// What one group used. A member is null where it is not grouped by, or not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageReportRow {
    /// The day, `YYYY-MM-DD`.
    pub day: Option<String>,
    /// The thread.
    pub thread_id: Option<String>,
    /// Its name, or what it began with.
    pub thread_title: Option<String>,
    /// The project.
    pub project_id: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The provider.
    pub model_provider: Option<String>,
    /// The goal.
    pub goal_id: Option<String>,
    /// What was used.
    #[serde(flatten)]
    pub sum: UsageSum,
}

/// Sums over model responses, in tokens but for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageSum {
    /// How many responses.
    pub responses: i64,
    /// Input, the cached part included.
    pub input_tokens: i64,
    /// The part of the input that came from the provider's cache.
    pub cached_input_tokens: i64,
    /// The part of the input that was written to the provider's cache.
    pub cache_write_input_tokens: i64,
    /// Output, the reasoning part included.
    pub output_tokens: i64,
    /// The part of the output that was reasoning.
    pub reasoning_output_tokens: i64,
    /// The providers' own totals.
    pub total_tokens: i64,
}

impl std::ops::AddAssign for UsageSum {
    fn add_assign(&mut self, other: UsageSum) {
        self.responses += other.responses;
        self.input_tokens += other.input_tokens;
        self.cached_input_tokens += other.cached_input_tokens;
        self.cache_write_input_tokens += other.cache_write_input_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_output_tokens += other.reasoning_output_tokens;
        self.total_tokens += other.total_tokens;
    }
}
