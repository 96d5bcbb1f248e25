//! Configuration, as clients read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `config/read`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadParams {
    /// Working directory, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// `includeLayers`.
    #[serde(default)]
    pub include_layers: bool,
}

/// Result of `config/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadResponse {
    /// `config`.
    pub config: serde_json::Value,
    /// `layers`.
    #[serde(default)]
    pub layers: Option<Vec<serde_json::Value>>,
    /// `origins`.
    pub origins: std::collections::BTreeMap<String, serde_json::Value>,
}

/// Result of `configRequirements/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRequirementsReadResponse {
    /// `requirements`.
    #[serde(default)]
    pub requirements: Option<serde_json::Value>,
    /// `supportsIndependentSpeedModes`.
    #[serde(default)]
    pub supports_independent_speed_modes: Option<bool>,
}

/// Params of `experimentalFeature/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentalFeatureListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// The thread.
    #[serde(default)]
    pub thread_id: Option<String>,
}

/// Result of `experimentalFeature/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentalFeatureListResponse {
    /// `data`.
    pub data: Vec<ExperimentalFeature>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A structure of the wire: `ExperimentalFeature` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentalFeature {
    /// `announcement`.
    #[serde(default)]
    pub announcement: Option<String>,
    /// `defaultEnabled`.
    pub default_enabled: bool,
    /// `description`.
    #[serde(default)]
    pub description: Option<String>,
    /// `displayName`.
    #[serde(default)]
    pub display_name: Option<String>,
    /// `enabled`.
    pub enabled: bool,
    /// `name`.
    pub name: String,
    /// `stage`.
    pub stage: ExperimentalFeatureStage,
}

/// A union of the wire: `ExperimentalFeatureStage` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExperimentalFeatureStage {
    /// `beta`.
    #[serde(rename = "beta")]
    Beta,
    /// `underDevelopment`.
    #[serde(rename = "underDevelopment")]
    UnderDevelopment,
    /// `stable`.
    #[serde(rename = "stable")]
    Stable,
    /// `deprecated`.
    #[serde(rename = "deprecated")]
    Deprecated,
    /// `removed`.
    #[serde(rename = "removed")]
    Removed,
}
