//! How a model response fails: texts, kinds and whether to try again (`protocol/turns.md`, section 7;
//! `protocol/model-api.md`, section 5).

use std::time::Duration;

use serde_json::{Value, json};

use crate::protocol::error::CodexErrorInfo;

/// Whether the caller should make another round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the same would come of it.
    Never,
    /// Within the provider's limit of rounds, after a wait, or after this one if the provider named it.
    Round(Option<Duration>),
    /// Without end: there is no network.
    WhileOffline,
}

/// A failed response.
#[derive(Clone, Debug)]
pub struct ModelError {
    /// The text that clients get.
    pub message: String,
    /// Its kind.
    pub info: CodexErrorInfo,
    /// HTTP status, if there was one.
    pub http_status: Option<u16>,
    /// Whether to try again.
    pub retry: Retry,
    /// When a usage limit ends, Unix seconds.
    pub resets_at: Option<i64>,
}

impl ModelError {
    fn new(message: impl Into<String>, info: Value, retry: Retry) -> ModelError {
        let info = serde_json::from_value(info.clone()).unwrap_or(CodexErrorInfo::Unknown(info));
        ModelError { message: message.into(), info, http_status: None, retry, resets_at: None }
    }

    /// The request did not reach the provider.
    pub fn unreachable(error: &str) -> ModelError {
        ModelError::new(
            format!("stream disconnected before completion: {error}"),
            json!({"responseStreamConnectionFailed": {"httpStatusCode": null}}),
            Retry::WhileOffline,
        )
    }

    /// The stream broke.
    pub fn disconnected(why: &str) -> ModelError {
        ModelError::new(
            format!("stream disconnected before completion: {why}"),
            json!("other"),
            Retry::Round(None),
        )
    }

    /// The stream fell silent.
    pub fn idle() -> ModelError {
        ModelError::disconnected("idle timeout waiting for SSE")
    }

    /// The variable that holds the key is not set.
    pub fn missing_key(variable: &str, instructions: Option<&str>) -> ModelError {
        let hint = instructions.unwrap_or_default();
        let message = format!("Missing environment variable: `{variable}`. {hint}");
        ModelError::new(message.trim_end().to_owned(), json!("other"), Retry::Never)
    }

    /// The provider's settings make no request.
    pub fn configuration(message: impl Into<String>) -> ModelError {
        ModelError::new(message, json!("other"), Retry::Never)
    }

    /// The provider answered with an HTTP error.
    pub fn http(status: u16, reason: &str, body: &str, url: &str) -> ModelError {
        let parsed: Value = serde_json::from_str(body).unwrap_or_default();
        let told = parsed.pointer("/error/message").and_then(Value::as_str);
        let kind = parsed.pointer("/error/type").and_then(Value::as_str).unwrap_or_default();
        let code = parsed.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
        let round = Retry::Round(None);
        let mut error = match status {
            500 => ModelError::new(
                "We’re currently experiencing high demand, which may cause temporary errors.",
                json!("internalServerError"),
                round,
            ),
            400 => ModelError::new(
                if body.is_empty() { "bad request" } else { body },
                json!("other"),
                Retry::Never,
            ),
            404 if code == "model_not_found" => ModelError::new(
                told.unwrap_or("the model was not found"),
                json!("modelNotFound"),
                Retry::Never,
            ),
            429 if kind == "usage_limit_reached" => usage_limit(&parsed),
            429 if kind == "usage_not_included" => ModelError::new(
                "Your plan does not include this usage. Upgrade your plan to go on.",
                json!("usageLimitExceeded"),
                Retry::Never,
            ),
            429 => ModelError::new(
                format!("exceeded retry limit, last status: 429 {reason}"),
                json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}),
                Retry::Never,
            ),
            _ => ModelError::new(
                format!("unexpected status {status} {reason}: {}, url: {url}", told.unwrap_or(body)),
                json!({"httpConnectionFailed": {"httpStatusCode": status}}),
                round,
            ),
        };
        error.http_status = Some(status);
        error
    }

    /// The provider told in the stream that the response failed.
    pub fn failed(code: &str, message: &str) -> ModelError {
        let never = |text: String, info: &str| ModelError::new(text, json!(info), Retry::Never);
        match code {
            "context_length_exceeded" => never(
                "Codex ran out of room in the model's context window. Start a new thread or clear earlier history \
                 before retrying."
                    .to_owned(),
                "contextWindowExceeded",
            ),
            "insufficient_quota" => {
                never("Quota exceeded. Check your plan and billing details.".to_owned(), "usageLimitExceeded")
            }
            "rate_limit_exceeded" => ModelError::new(
                format!("rate limit exceeded: {message}"),
                json!("rateLimitExceeded"),
                Retry::Round(told_wait(message)),
            ),
            "server_is_overloaded" => {
                never("Selected model is at capacity. Please try a different model.".to_owned(), "serverOverloaded")
            }
            "invalid_prompt" => never(message.to_owned(), "other"),
            "cyber_policy" => never(message.to_owned(), "cyberPolicy"),
            _ => {
                let mut error = ModelError::disconnected(message);
                error.retry = Retry::Round(told_wait(message));
                error
            }
        }
    }

    /// The response ended early.
    pub fn incomplete(reason: &str) -> ModelError {
        let message = format!("Incomplete response returned, reason: {reason}");
        ModelError::new(message, json!("other"), Retry::Round(None))
    }
}

fn usage_limit(body: &Value) -> ModelError {
    let resets_at = body.pointer("/error/resets_at").and_then(Value::as_i64);
    let when = resets_at
        .and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0))
        .map(|time| {
            time.with_timezone(&chrono::Local).format(" or try again at %b %-d, %Y %-I:%M %p").to_string()
        })
        .unwrap_or_default();
    let message = format!("You’ve hit your usage limit. Purchase more credits{when}.");
    let mut error = ModelError::new(message, json!("usageLimitExceeded"), Retry::Never);
    error.resets_at = resets_at;
    error
}

/// "try again in 1.2s" or "in 800ms" in a text.
fn told_wait(message: &str) -> Option<Duration> {
    let rest = message.split("try again in ").nth(1)?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let number: f64 = rest[..end].parse().ok()?;
    let seconds = if rest[end..].starts_with("ms") { number / 1000.0 } else { number };
    Duration::try_from_secs_f64(seconds).ok()
}

/// How long to wait before a round or a try: 0.2 s doubled each time, give or take a tenth.
pub fn delay(round: u32, jitter: f64) -> Duration {
    let base = 0.2 * f64::from(2_u32.saturating_pow(round.saturating_sub(1).min(10)));
    Duration::from_secs_f64(base * (0.9 + 0.2 * jitter.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_that_a_provider_names_is_taken() {
        assert_eq!(told_wait("Please try again in 1.2s."), Some(Duration::from_millis(1200)));
        assert_eq!(told_wait("try again in 250ms"), Some(Duration::from_millis(250)));
        assert_eq!(told_wait("try later"), None);
    }

    #[test]
    fn statuses_have_their_kind_and_retry() {
        let check = |status, body: &str, info: Value, retry| {
            let error = ModelError::http(status, "Reason", body, "http://p/v1/responses");
            assert_eq!(
                (serde_json::to_value(&error.info).unwrap(), error.retry),
                (info, retry),
                "{status} {body}"
            );
            error.message
        };
        let text = check(
            503,
            r#"{"error":{"message":"gone"}}"#,
            json!({"httpConnectionFailed": {"httpStatusCode": 503}}),
            Retry::Round(None),
        );
        assert_eq!(text, "unexpected status 503 Reason: gone, url: http://p/v1/responses");
        assert_eq!(check(400, "that was wrong", json!("other"), Retry::Never), "that was wrong");
        check(429, r#"{"error":{"type":"usage_limit_reached"}}"#, json!("usageLimitExceeded"), Retry::Never);
        check(429, "", json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}), Retry::Never);
        check(500, "", json!("internalServerError"), Retry::Round(None));
    }
}
