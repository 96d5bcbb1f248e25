//! Token usage and rate limits (`protocol/usage.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::account::PlanType;
use super::thread::ThreadUsage;

/// Params of `account/rateLimits/read`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAccountRateLimitsParams {
    /// `excludeResetCreditDetails`.
    #[serde(default)]
    pub exclude_reset_credit_details: bool,
    /// `supportsLunaReserve`.
    #[serde(default)]
    pub supports_luna_reserve: bool,
}

/// Result of `account/rateLimits/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAccountRateLimitsResponse {
    /// `accountId`.
    #[serde(default)]
    pub account_id: Option<String>,
    /// `ordinaryUsageAllowed`.
    #[serde(default)]
    pub ordinary_usage_allowed: Option<bool>,
    /// `rateLimitResetCredits`.
    #[serde(default)]
    pub rate_limit_reset_credits: Option<RateLimitResetCreditsSummary>,
    /// `rateLimitUpsell`.
    #[serde(default)]
    pub rate_limit_upsell: Option<serde_json::Value>,
    /// `rateLimits`.
    pub rate_limits: RateLimitSnapshot,
    /// `rateLimitsByLimitId`.
    #[serde(default)]
    pub rate_limits_by_limit_id: Option<std::collections::BTreeMap<String, RateLimitSnapshot>>,
}

/// Params of `account/usage/read`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAccountTokenUsageParams {
    /// The thread.
    #[serde(default)]
    pub thread_id: Option<String>,
}

/// Result of `account/usage/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAccountTokenUsageResponse {
    /// `dailyUsageBuckets`.
    #[serde(default)]
    pub daily_usage_buckets: Option<Vec<AccountTokenUsageDailyBucket>>,
    /// `summary`.
    pub summary: AccountTokenUsageSummary,
    /// `threadUsage`.
    #[serde(default)]
    pub thread_usage: Option<ThreadUsage>,
}

/// Params of the notification `thread/tokenUsage/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsageUpdatedNotification {
    /// The thread.
    pub thread_id: String,
    /// `tokenUsage`.
    pub token_usage: ThreadTokenUsage,
    /// The turn.
    pub turn_id: String,
}

/// Params of the notification `account/rateLimits/updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountRateLimitsUpdatedNotification {
    /// `rateLimits`.
    pub rate_limits: RateLimitSnapshot,
}

/// A structure of the wire: `RateLimitResetCreditsSummary` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitResetCreditsSummary {
    /// `availableCount`.
    pub available_count: i64,
    /// `credits`.
    #[serde(default)]
    pub credits: Option<Vec<RateLimitResetCredit>>,
}

/// A structure of the wire: `RateLimitSnapshot` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitSnapshot {
    /// `credits`.
    #[serde(default)]
    pub credits: Option<CreditsSnapshot>,
    /// `individualLimit`.
    #[serde(default)]
    pub individual_limit: Option<SpendControlLimitSnapshot>,
    /// `limitId`.
    #[serde(default)]
    pub limit_id: Option<String>,
    /// `limitName`.
    #[serde(default)]
    pub limit_name: Option<String>,
    /// `normalModelSlug`.
    #[serde(default)]
    pub normal_model_slug: Option<String>,
    /// `planType`.
    #[serde(default)]
    pub plan_type: Option<PlanType>,
    /// `primary`.
    #[serde(default)]
    pub primary: Option<RateLimitWindow>,
    /// `rateLimitReachedType`.
    #[serde(default)]
    pub rate_limit_reached_type: Option<RateLimitReachedType>,
    /// `secondary`.
    #[serde(default)]
    pub secondary: Option<RateLimitWindow>,
    /// `spendControlReached`.
    #[serde(default)]
    pub spend_control_reached: Option<bool>,
}

/// A structure of the wire: `AccountTokenUsageDailyBucket` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountTokenUsageDailyBucket {
    /// `startDate`.
    pub start_date: String,
    /// `tokens`.
    pub tokens: i64,
}

/// A structure of the wire: `AccountTokenUsageSummary` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountTokenUsageSummary {
    /// `currentStreakDays`.
    #[serde(default)]
    pub current_streak_days: Option<i64>,
    /// `lifetimeTokens`.
    #[serde(default)]
    pub lifetime_tokens: Option<i64>,
    /// `longestRunningTurnSec`.
    #[serde(default)]
    pub longest_running_turn_sec: Option<i64>,
    /// `longestStreakDays`.
    #[serde(default)]
    pub longest_streak_days: Option<i64>,
    /// `peakDailyTokens`.
    #[serde(default)]
    pub peak_daily_tokens: Option<i64>,
}

/// A structure of the wire: `ThreadTokenUsage` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsage {
    /// `last`.
    pub last: TokenUsageBreakdown,
    /// `modelContextWindow`.
    #[serde(default)]
    pub model_context_window: Option<i64>,
    /// `total`.
    pub total: TokenUsageBreakdown,
}

/// A structure of the wire: `RateLimitResetCredit` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitResetCredit {
    /// `description`.
    #[serde(default)]
    pub description: Option<String>,
    /// `expiresAt`.
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// `grantedAt`.
    pub granted_at: i64,
    /// `id`.
    pub id: String,
    /// `resetType`.
    pub reset_type: RateLimitResetType,
    /// `status`.
    pub status: RateLimitResetCreditStatus,
    /// `title`.
    #[serde(default)]
    pub title: Option<String>,
}

/// A structure of the wire: `CreditsSnapshot` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditsSnapshot {
    /// `balance`.
    #[serde(default)]
    pub balance: Option<String>,
    /// `hasCredits`.
    pub has_credits: bool,
    /// `unlimited`.
    pub unlimited: bool,
}

/// A structure of the wire: `SpendControlLimitSnapshot` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpendControlLimitSnapshot {
    /// The most rows of the page.
    pub limit: String,
    /// `remainingPercent`.
    pub remaining_percent: i32,
    /// `resetsAt`.
    pub resets_at: i64,
    /// `used`.
    pub used: String,
}

/// A structure of the wire: `RateLimitWindow` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitWindow {
    /// `resetsAt`.
    #[serde(default)]
    pub resets_at: Option<i64>,
    /// `usedPercent`.
    pub used_percent: i32,
    /// `windowDurationMins`.
    #[serde(default)]
    pub window_duration_mins: Option<i64>,
}

/// A word of the wire: `RateLimitReachedType` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RateLimitReachedType {
    /// `rate_limit_reached`.
    #[serde(rename = "rate_limit_reached")]
    RateLimitReached,
    /// `workspace_owner_credits_depleted`.
    #[serde(rename = "workspace_owner_credits_depleted")]
    WorkspaceOwnerCreditsDepleted,
    /// `workspace_member_credits_depleted`.
    #[serde(rename = "workspace_member_credits_depleted")]
    WorkspaceMemberCreditsDepleted,
    /// `workspace_owner_usage_limit_reached`.
    #[serde(rename = "workspace_owner_usage_limit_reached")]
    WorkspaceOwnerUsageLimitReached,
    /// `workspace_member_usage_limit_reached`.
    #[serde(rename = "workspace_member_usage_limit_reached")]
    WorkspaceMemberUsageLimitReached,
}

/// A structure of the wire: `TokenUsageBreakdown` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsageBreakdown {
    /// `cacheWriteInputTokens`.
    #[serde(default)]
    pub cache_write_input_tokens: i64,
    /// `cachedInputTokens`.
    pub cached_input_tokens: i64,
    /// `inputTokens`.
    pub input_tokens: i64,
    /// `outputTokens`.
    pub output_tokens: i64,
    /// `reasoningOutputTokens`.
    pub reasoning_output_tokens: i64,
    /// `totalTokens`.
    pub total_tokens: i64,
}

/// A word of the wire: `RateLimitResetType` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RateLimitResetType {
    /// `codexRateLimits`.
    #[serde(rename = "codexRateLimits")]
    CodexRateLimits,
    /// `unknown`.
    #[serde(rename = "unknown")]
    Unknown,
}

/// A word of the wire: `RateLimitResetCreditStatus` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RateLimitResetCreditStatus {
    /// `available`.
    #[serde(rename = "available")]
    Available,
    /// `redeeming`.
    #[serde(rename = "redeeming")]
    Redeeming,
    /// `redeemed`.
    #[serde(rename = "redeemed")]
    Redeemed,
    /// `unknown`.
    #[serde(rename = "unknown")]
    Unknown,
}
