//! Models and providers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::misc::{CyberAccessProgram, MultiAgentVersion, ProviderSettings};
use super::settings::ReasoningEffortOption;

/// Params of `model/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListParams {
    /// Where the page starts: a cursor of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// `includeHidden`.
    #[serde(default)]
    pub include_hidden: Option<bool>,
    /// The most rows of the page.
    #[serde(default)]
    pub limit: Option<u32>,
    /// `modelProvider`.
    #[serde(default)]
    pub model_provider: Option<String>,
}

/// Result of `model/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListResponse {
    /// `data`.
    pub data: Vec<Model>,
    /// Where the next page starts; `None` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Params of `modelProvider/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderListParams {}

/// Result of `modelProvider/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderListResponse {
    /// `canChangeDefault`.
    pub can_change_default: bool,
    /// `data`.
    pub data: Vec<ModelProviderSummary>,
    /// `defaultProviderId`.
    pub default_provider_id: String,
}

/// Params of the notification `model/rerouted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelReroutedNotification {
    /// `fromModel`.
    pub from_model: String,
    /// `reason`.
    pub reason: ModelRerouteReason,
    /// The thread.
    pub thread_id: String,
    /// `toModel`.
    pub to_model: String,
    /// The turn.
    pub turn_id: String,
}

/// A structure of the wire: `Model` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// `additionalSpeedTiers`.
    #[serde(default)]
    pub additional_speed_tiers: Vec<String>,
    /// `availabilityNux`.
    #[serde(default)]
    pub availability_nux: Option<ModelAvailabilityNux>,
    /// `availableAccessPrograms`.
    #[serde(default)]
    pub available_access_programs: Option<ModelAccessPrograms>,
    /// `defaultReasoningEffort`.
    pub default_reasoning_effort: String,
    /// `defaultServiceTier`.
    #[serde(default)]
    pub default_service_tier: Option<String>,
    /// `description`.
    pub description: String,
    /// `displayName`.
    pub display_name: String,
    /// `hidden`.
    pub hidden: bool,
    /// `id`.
    pub id: String,
    /// `inputModalities`.
    #[serde(default)]
    pub input_modalities: Vec<InputModality>,
    /// `isDefault`.
    pub is_default: bool,
    /// `model`.
    pub model: String,
    /// `modelSpecialty`.
    #[serde(default)]
    pub model_specialty: Option<String>,
    /// `multiAgentVersion`.
    #[serde(default)]
    pub multi_agent_version: Option<MultiAgentVersion>,
    /// `serviceTiers`.
    #[serde(default)]
    pub service_tiers: Vec<ModelServiceTier>,
    /// `supportedReasoningEfforts`.
    pub supported_reasoning_efforts: Vec<ReasoningEffortOption>,
    /// `supportsPersonality`.
    #[serde(default)]
    pub supports_personality: bool,
    /// `upgrade`.
    #[serde(default)]
    pub upgrade: Option<String>,
    /// `upgradeInfo`.
    #[serde(default)]
    pub upgrade_info: Option<ModelUpgradeInfo>,
}

/// A structure of the wire: `ModelProviderSummary` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderSummary {
    /// `baseUrl`.
    #[serde(default)]
    pub base_url: Option<String>,
    /// `canEdit`.
    pub can_edit: bool,
    /// `id`.
    pub id: String,
    /// `name`.
    pub name: String,
    /// `settings`.
    pub settings: ProviderSettings,
}

/// A word of the wire: `ModelRerouteReason` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ModelRerouteReason {
    /// `highRiskCyberActivity`.
    #[serde(rename = "highRiskCyberActivity")]
    HighRiskCyberActivity,
}

/// A structure of the wire: `ModelAvailabilityNux` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelAvailabilityNux {
    /// `message`.
    pub message: String,
}

/// A structure of the wire: `ModelAccessPrograms` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelAccessPrograms {
    /// `cyber`.
    pub cyber: Vec<CyberAccessProgram>,
}

/// A union of the wire: `InputModality` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InputModality {
    /// `text`.
    #[serde(rename = "text")]
    Text,
    /// `image`.
    #[serde(rename = "image")]
    Image,
    /// `audio`.
    #[serde(rename = "audio")]
    Audio,
}

/// A structure of the wire: `ModelServiceTier` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelServiceTier {
    /// `description`.
    pub description: String,
    /// `id`.
    pub id: String,
    /// `name`.
    pub name: String,
}

/// A structure of the wire: `ModelUpgradeInfo` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelUpgradeInfo {
    /// `migrationMarkdown`.
    #[serde(default)]
    pub migration_markdown: Option<String>,
    /// `model`.
    pub model: String,
    /// `modelLink`.
    #[serde(default)]
    pub model_link: Option<String>,
    /// `retirementAt`.
    #[serde(default)]
    pub retirement_at: Option<i64>,
    /// `upgradeCopy`.
    #[serde(default)]
    pub upgrade_copy: Option<String>,
}
