//! Failures of turns, warnings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::misc::TextRange;

/// Params of the notification `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorNotification {
    /// `error`.
    pub error: TurnError,
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
    /// `willRetry`.
    pub will_retry: bool,
}

/// Params of the notification `warning`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarningNotification {
    /// `message`.
    pub message: String,
    /// The thread.
    #[serde(default)]
    pub thread_id: Option<String>,
}

/// Params of the notification `deprecationNotice`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeprecationNoticeNotification {
    /// `details`.
    #[serde(default)]
    pub details: Option<String>,
    /// `summary`.
    pub summary: String,
}

/// Params of the notification `configWarning`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigWarningNotification {
    /// `details`.
    #[serde(default)]
    pub details: Option<String>,
    /// `path`.
    #[serde(default)]
    pub path: Option<String>,
    /// `range`.
    #[serde(default)]
    pub range: Option<TextRange>,
    /// `summary`.
    pub summary: String,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// `additionalDetails`.
    #[serde(default)]
    pub additional_details: Option<String>,
    /// `codexErrorInfo`.
    #[serde(default)]
    pub codex_error_info: Option<CodexErrorInfo>,
    /// `message`.
    pub message: String,
    /// `misalignment`.
    #[serde(default)]
    pub misalignment: Option<MisalignmentErrorDetails>,
}

/// What kind of failure a turn ended with (`protocol/turns.md`, section 7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum CodexErrorInfo {
    /// `contextWindowExceeded`.
    #[serde(rename = "contextWindowExceeded")]
    ContextWindowExceeded,
    /// `sessionBudgetExceeded`.
    #[serde(rename = "sessionBudgetExceeded")]
    SessionBudgetExceeded,
    /// `usageLimitExceeded`.
    #[serde(rename = "usageLimitExceeded")]
    UsageLimitExceeded,
    /// `rateLimitExceeded`.
    #[serde(rename = "rateLimitExceeded")]
    RateLimitExceeded,
    /// `flexUnavailable`.
    #[serde(rename = "flexUnavailable")]
    FlexUnavailable,
    /// `serverOverloaded`.
    #[serde(rename = "serverOverloaded")]
    ServerOverloaded,
    /// `modelNotFound`.
    #[serde(rename = "modelNotFound")]
    ModelNotFound,
    /// `policyCapacityUnavailable`.
    #[serde(rename = "policyCapacityUnavailable")]
    PolicyCapacityUnavailable,
    /// `cyberPolicy`.
    #[serde(rename = "cyberPolicy")]
    CyberPolicy,
    /// `bioPolicy`.
    #[serde(rename = "bioPolicy")]
    BioPolicy,
    /// `misalignmentPolicyViolation`.
    #[serde(rename = "misalignmentPolicyViolation")]
    MisalignmentPolicyViolation,
    /// `tooManyDenials`.
    #[serde(rename = "tooManyDenials")]
    TooManyDenials,
    /// `internalServerError`.
    #[serde(rename = "internalServerError")]
    InternalServerError,
    /// `unauthorized`.
    #[serde(rename = "unauthorized")]
    Unauthorized,
    /// `badRequest`.
    #[serde(rename = "badRequest")]
    BadRequest,
    /// `threadRollbackFailed`.
    #[serde(rename = "threadRollbackFailed")]
    ThreadRollbackFailed,
    /// `sandboxError`.
    #[serde(rename = "sandboxError")]
    SandboxError,
    /// `other`.
    #[serde(rename = "other")]
    Other,
    /// `inferenceHookDenied`.
    #[serde(rename = "inferenceHookDenied")]
    InferenceHookDenied,
    /// `httpConnectionFailed`.
    #[serde(rename = "httpConnectionFailed")]
    HttpConnectionFailed(CodexErrorInfoHttpConnectionFailed),
    /// `responseStreamConnectionFailed`.
    #[serde(rename = "responseStreamConnectionFailed")]
    ResponseStreamConnectionFailed(CodexErrorInfoResponseStreamConnectionFailed),
    /// `responseStreamDisconnected`.
    #[serde(rename = "responseStreamDisconnected")]
    ResponseStreamDisconnected(CodexErrorInfoResponseStreamDisconnected),
    /// `responseTooManyFailedAttempts`.
    #[serde(rename = "responseTooManyFailedAttempts")]
    ResponseTooManyFailedAttempts(CodexErrorInfoResponseTooManyFailedAttempts),
    /// `activeTurnNotSteerable`.
    #[serde(rename = "activeTurnNotSteerable")]
    ActiveTurnNotSteerable(CodexErrorInfoActiveTurnNotSteerable),
    /// A kind that is not known here; kept as it is.
    #[serde(untagged)]
    Unknown(serde_json::Value),
}

/// A structure of the wire: `CodexErrorInfoHttpConnectionFailed` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodexErrorInfoHttpConnectionFailed {
    /// `httpStatusCode`.
    #[serde(default)]
    pub http_status_code: Option<u16>,
}

/// A structure of the wire: `CodexErrorInfoResponseStreamConnectionFailed` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodexErrorInfoResponseStreamConnectionFailed {
    /// `httpStatusCode`.
    #[serde(default)]
    pub http_status_code: Option<u16>,
}

/// A structure of the wire: `CodexErrorInfoResponseStreamDisconnected` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodexErrorInfoResponseStreamDisconnected {
    /// `httpStatusCode`.
    #[serde(default)]
    pub http_status_code: Option<u16>,
}

/// A structure of the wire: `CodexErrorInfoResponseTooManyFailedAttempts` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodexErrorInfoResponseTooManyFailedAttempts {
    /// `httpStatusCode`.
    #[serde(default)]
    pub http_status_code: Option<u16>,
}

/// A structure of the wire: `CodexErrorInfoActiveTurnNotSteerable` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodexErrorInfoActiveTurnNotSteerable {
    /// `turnKind`.
    pub turn_kind: NonSteerableTurnKind,
}

/// A structure of the wire: `MisalignmentErrorDetails` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MisalignmentErrorDetails {
    /// `detailedExplanation`.
    #[serde(default)]
    pub detailed_explanation: Option<String>,
    /// `errorType`.
    #[serde(default)]
    pub error_type: Option<String>,
    /// `reviewTarget`.
    #[serde(default)]
    pub review_target: Option<String>,
    /// `steer`.
    #[serde(default)]
    pub steer: Option<MisalignmentSteer>,
}

/// A word of the wire: `NonSteerableTurnKind` in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum NonSteerableTurnKind {
    /// `review`.
    #[serde(rename = "review")]
    Review,
    /// `compact`.
    #[serde(rename = "compact")]
    Compact,
}

/// A structure of the wire: `MisalignmentSteer` in the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MisalignmentSteer {
    /// `message`.
    pub message: String,
}
