//! The account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::misc::WorkspaceRouting;

/// Params of `account/read`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAccountParams {
    /// `refreshToken`.
    #[serde(default)]
    pub refresh_token: bool,
}

/// Result of `account/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAccountResponse {
    /// `account`.
    #[serde(default)]
    pub account: Option<Account>,
    /// `requiresOpenaiAuth`.
    pub requires_openai_auth: bool,
    /// `userId`.
    #[serde(default)]
    pub user_id: Option<String>,
    /// `workspaceRouting`.
    #[serde(default)]
    pub workspace_routing: Option<WorkspaceRouting>,
}

/// A union of the wire: `Account` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum Account {
    /// `apiKey`.
    #[serde(rename = "apiKey")]
    ApiKey,
    /// `chatgpt`.
    #[serde(rename = "chatgpt", rename_all = "camelCase")]
    Chatgpt {
        /// `email`.
        email: Option<String>,
        /// `planType`.
        plan_type: PlanType,
        /// `workspaceName`.
        #[serde(default)]
        workspace_name: Option<String>,
    },
    /// `amazonBedrock`.
    #[serde(rename = "amazonBedrock", rename_all = "camelCase")]
    AmazonBedrock {
        /// `usesCodexManagedCredentials`.
        #[serde(default)]
        uses_codex_managed_credentials: bool,
    },
    /// `gcp`.
    #[serde(rename = "gcp")]
    Gcp,
}

/// A word of the wire: `PlanType` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PlanType {
    /// `free`.
    #[serde(rename = "free")]
    Free,
    /// `go`.
    #[serde(rename = "go")]
    Go,
    /// `plus`.
    #[serde(rename = "plus")]
    Plus,
    /// `pro`.
    #[serde(rename = "pro")]
    Pro,
    /// `prolite`.
    #[serde(rename = "prolite")]
    Prolite,
    /// `promax`.
    #[serde(rename = "promax")]
    Promax,
    /// `team`.
    #[serde(rename = "team")]
    Team,
    /// `self_serve_business_prolite`.
    #[serde(rename = "self_serve_business_prolite")]
    SelfServeBusinessProlite,
    /// `self_serve_business_usage_based`.
    #[serde(rename = "self_serve_business_usage_based")]
    SelfServeBusinessUsageBased,
    /// `business`.
    #[serde(rename = "business")]
    Business,
    /// `ent26`.
    #[serde(rename = "ent26")]
    Ent26,
    /// `enterprise_cbp_automation`.
    #[serde(rename = "enterprise_cbp_automation")]
    EnterpriseCbpAutomation,
    /// `enterprise_cbp_usage_based`.
    #[serde(rename = "enterprise_cbp_usage_based")]
    EnterpriseCbpUsageBased,
    /// `enterprise`.
    #[serde(rename = "enterprise")]
    Enterprise,
    /// `edu`.
    #[serde(rename = "edu")]
    Edu,
    /// `edu_plus`.
    #[serde(rename = "edu_plus")]
    EduPlus,
    /// `edu_pro`.
    #[serde(rename = "edu_pro")]
    EduPro,
    /// `sci`.
    #[serde(rename = "sci")]
    Sci,
    /// `sci_plus`.
    #[serde(rename = "sci_plus")]
    SciPlus,
    /// `unknown`.
    #[serde(rename = "unknown")]
    Unknown,
}

/// A word of the wire: `AccountRoutingOverride` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AccountRoutingOverride {
    /// `NO_CONSTRAINT`.
    #[serde(rename = "NO_CONSTRAINT")]
    NOCONSTRAINT,
    /// `us`.
    #[serde(rename = "us")]
    Us,
    /// `us_cr`.
    #[serde(rename = "us_cr")]
    UsCr,
}
