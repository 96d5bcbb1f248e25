//! Skills and hooks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `skills/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListParams {
    /// `cwds`.
    #[serde(default)]
    pub cwds: Vec<String>,
    /// `forceReload`.
    #[serde(default)]
    pub force_reload: bool,
}

/// Result of `skills/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListResponse {
    /// `data`.
    pub data: Vec<SkillsListEntry>,
}

/// Params of `hooks/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HooksListParams {
    /// `cwds`.
    #[serde(default)]
    pub cwds: Vec<String>,
    /// The thread.
    #[serde(default)]
    pub thread_id: Option<String>,
}

/// Result of `hooks/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HooksListResponse {
    /// `data`.
    pub data: Vec<HooksListEntry>,
}

/// A structure of the wire: `SkillsListEntry` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListEntry {
    /// Working directory, absolute.
    pub cwd: String,
    /// `errors`.
    pub errors: Vec<SkillErrorInfo>,
    /// `skills`.
    pub skills: Vec<serde_json::Value>,
}

/// A structure of the wire: `HooksListEntry` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HooksListEntry {
    /// Working directory, absolute.
    pub cwd: String,
    /// `errors`.
    pub errors: Vec<HookErrorInfo>,
    /// `hooks`.
    pub hooks: Vec<serde_json::Value>,
    /// `warnings`.
    pub warnings: Vec<String>,
}

/// A structure of the wire: `SkillErrorInfo` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillErrorInfo {
    /// `message`.
    pub message: String,
    /// `path`.
    pub path: String,
}

/// A structure of the wire: `HookErrorInfo` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookErrorInfo {
    /// `message`.
    pub message: String,
    /// `path`.
    pub path: String,
}
