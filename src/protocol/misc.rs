//! Other types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::account::AccountRoutingOverride;

/// Params of the notification `thread/compacted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextCompactedNotification {
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

/// A structure of the wire: `SelectedCapabilityRoot` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectedCapabilityRoot {
    /// `id`.
    pub id: String,
    /// `location`.
    pub location: CapabilityRootLocation,
}

/// A structure of the wire: `AdditionalContextEntry` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalContextEntry {
    /// `kind`.
    pub kind: AdditionalContextKind,
    /// `name`.
    #[serde(default)]
    pub name: Option<String>,
    /// `value`.
    pub value: String,
}

/// A word of the wire: `CyberAccessProgram` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CyberAccessProgram {
    /// `standard`.
    #[serde(rename = "standard")]
    Standard,
    /// `daybreakBlue`.
    #[serde(rename = "daybreakBlue")]
    DaybreakBlue,
    /// `daybreakRed`.
    #[serde(rename = "daybreakRed")]
    DaybreakRed,
}

/// A structure of the wire: `WorkspaceRouting` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRouting {
    /// `accountRoutingOverride`.
    pub account_routing_override: AccountRoutingOverride,
    /// `backendOrigin`.
    pub backend_origin: String,
    /// `chatgptAccountId`.
    pub chatgpt_account_id: String,
}

/// A union of the wire: `RequestId` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RequestId {
    /// `String`.
    One(String),
    /// `i64`.
    I64(i64),
}

/// A structure of the wire: `TextRange` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextRange {
    /// `end`.
    pub end: TextPosition,
    /// `start`.
    pub start: TextPosition,
}

/// A union of the wire: `CapabilityRootLocation` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum CapabilityRootLocation {
    /// `environment`.
    #[serde(rename = "environment", rename_all = "camelCase")]
    Environment {
        /// `environmentId`.
        environment_id: String,
        /// `path`.
        path: String,
    },
}

/// A word of the wire: `AdditionalContextKind` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AdditionalContextKind {
    /// `untrusted`.
    #[serde(rename = "untrusted")]
    Untrusted,
    /// `application`.
    #[serde(rename = "application")]
    Application,
}

/// A word of the wire: `MultiAgentVersion` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MultiAgentVersion {
    /// `disabled`.
    #[serde(rename = "disabled")]
    Disabled,
    /// `v1`.
    #[serde(rename = "v1")]
    V1,
    /// `v2`.
    #[serde(rename = "v2")]
    V2,
}

/// A union of the wire: `ProviderSettings` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ProviderSettings {
    /// `openai`.
    #[serde(rename = "openai")]
    Openai,
    /// `customGateway`.
    #[serde(rename = "customGateway", rename_all = "camelCase")]
    CustomGateway {
        /// `auth`.
        auth: GatewayAuth,
    },
    /// `bedrock`.
    #[serde(rename = "bedrock", rename_all = "camelCase")]
    Bedrock {
        /// `profile`.
        #[serde(default)]
        profile: Option<String>,
        /// `region`.
        #[serde(default)]
        region: Option<String>,
    },
    /// `gcp`.
    #[serde(rename = "gcp", rename_all = "camelCase")]
    Gcp {
        /// `credentialFile`.
        #[serde(default)]
        credential_file: Option<String>,
        /// `location`.
        #[serde(default)]
        location: Option<String>,
        /// `projectId`.
        #[serde(default)]
        project_id: Option<String>,
    },
}

/// A structure of the wire: `TextPosition` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextPosition {
    /// `column`.
    pub column: u64,
    /// `line`.
    pub line: u64,
}

/// A union of the wire: `GatewayAuth` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode")]
pub enum GatewayAuth {
    /// `none`.
    #[serde(rename = "none")]
    None,
    /// `environmentVariable`.
    #[serde(rename = "environmentVariable", rename_all = "camelCase")]
    EnvironmentVariable {
        /// `envKey`.
        env_key: String,
    },
    /// `externallyConfigured`.
    #[serde(rename = "externallyConfigured", rename_all = "camelCase")]
    ExternallyConfigured {
        /// `envKey`.
        #[serde(default)]
        env_key: Option<String>,
    },
}

/// A value of the wire: `AgentPath` in the schema.
pub type AgentPath = String;

/// A union of the wire: `AnswerAnnotation` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum AnswerAnnotation {
    /// `wellbeingHelpline`.
    #[serde(rename = "wellbeingHelpline", rename_all = "camelCase")]
    WellbeingHelpline {
        /// `subject`.
        subject: HelplineSubject,
    },
}

/// A word of the wire: `TrustedContacts` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TrustedContacts {
    /// `check`.
    #[serde(rename = "check")]
    Check,
    /// `skip`.
    #[serde(rename = "skip")]
    Skip,
}

/// A union of the wire: `AnswerReplacement` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum AnswerReplacement {
    /// `wellbeingPromptHelpline`.
    #[serde(rename = "wellbeingPromptHelpline")]
    WellbeingPromptHelpline,
}

/// A union of the wire: `BlockReason` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum BlockReason {
    /// `protection`.
    #[serde(rename = "protection", rename_all = "camelCase")]
    Protection {
        /// `protectionType`.
        protection_type: String,
    },
    /// `cyber`.
    #[serde(rename = "cyber", rename_all = "camelCase")]
    Cyber {
        /// `trustedAccess`.
        #[serde(default)]
        trusted_access: Option<bool>,
    },
}

/// A word of the wire: `HelplineSubject` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HelplineSubject {
    /// `answer`.
    #[serde(rename = "answer")]
    Answer,
    /// `prompt`.
    #[serde(rename = "prompt")]
    Prompt,
}
