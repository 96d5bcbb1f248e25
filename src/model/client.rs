//! Sending a request and reading the reply.

use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::error::{ModelError, delay};
use super::event::{self, ModelEvent};
use super::offline;
use super::request::Request;
use crate::config::provider::{OFFLINE, ProviderConfig};

/// The most bytes of one event: a whole item with its images.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// The most bytes of an error reply that are kept.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Talks to providers. The connections are shared; they are made when first used, so that a start stays fast.
#[derive(Debug, Default)]
pub struct ModelClient {
    http: OnceLock<reqwest::Client>,
}

/// What the head of a reply told, and the events that follow.
pub struct ResponseStream {
    /// The `x-codex-turn-state` header.
    pub turn_state: Option<String>,
    /// The reply's headers about limits.
    pub headers: HeaderMap,
    events: Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>,
    idle_timeout: Duration,
}

impl std::fmt::Debug for ResponseStream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ResponseStream").field("turn_state", &self.turn_state).finish_non_exhaustive()
    }
}

impl ResponseStream {
    /// A stream of these events.
    pub(super) fn of(
        events: impl Stream<Item = Result<ModelEvent, ModelError>> + Send + 'static,
    ) -> ResponseStream {
        ResponseStream {
            turn_state: None,
            headers: HeaderMap::new(),
            events: Box::pin(events),
            idle_timeout: Duration::from_secs(300),
        }
    }

    /// The next event; `None` when the stream has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        match tokio::time::timeout(self.idle_timeout, self.events.next()).await {
            Ok(event) => event,
            Err(_) => Some(Err(ModelError::idle())),
        }
    }
}

impl ModelClient {
    /// Send a request, repeating it on server and transport errors as often as the provider's settings say.
    ///
    /// # Errors
    /// No reply, or one that is an error.
    pub async fn start(
        &self,
        provider: &ProviderConfig,
        auth_key: Option<String>,
        request: &Request,
    ) -> Result<ResponseStream, ModelError> {
        if provider.id == OFFLINE {
            return Ok(offline::respond(&request.body));
        }
        let url = url(provider)?;
        let headers = headers(provider, auth_key, request)?;
        let body = serde_json::to_vec(&request.body)
            .map_err(|error| ModelError::configuration(format!("writing the request: {error}")))?;
        let body = bytes::Bytes::from(body);
        let mut tries = 0;
        loop {
            tries += 1;
            let outcome = self.once(&url, headers.clone(), body.clone(), provider).await;
            match outcome {
                Ok(stream) => return Ok(stream),
                Err((error, after)) if tries <= provider.request_retries() && is_repeated(&error) => {
                    let wait = after.unwrap_or_else(|| delay(tries, 0.5));
                    tracing::debug!(%error.message, ?wait, "a request to the model is repeated");
                    tokio::time::sleep(wait).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    async fn once(
        &self,
        url: &str,
        headers: HeaderMap,
        body: bytes::Bytes,
        provider: &ProviderConfig,
    ) -> Result<ResponseStream, (ModelError, Option<Duration>)> {
        let sent = self.http().post(url).headers(headers).body(body).send().await;
        let reply = sent.map_err(|error| (ModelError::unreachable(&cause(&error)), None))?;
        let status = reply.status();
        if !status.is_success() {
            let after =
                reply.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            let reason = status.canonical_reason().unwrap_or_default();
            let text = reply.text().await.unwrap_or_default();
            let text: String = text.chars().take(MAX_ERROR_BYTES).collect();
            let error = ModelError::http(status.as_u16(), reason, &text, url);
            return Err((error, after.map(Duration::from_secs)));
        }
        let headers = reply.headers().clone();
        let turn_state =
            headers.get("x-codex-turn-state").and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(ResponseStream {
            turn_state,
            headers,
            events: Box::pin(events(reply)),
            idle_timeout: provider.idle_timeout(),
        })
    }

    pub(super) fn http(&self) -> &reqwest::Client {
        self.http.get_or_init(|| {
            // A second installation is refused, which is as good: the first is the same.
            let _ = rustls::crypto::ring::default_provider().install_default();
            reqwest::Client::builder()
                .tcp_nodelay(true)
                .pool_idle_timeout(Duration::from_secs(90))
                .connect_timeout(Duration::from_secs(30))
                .build()
                .unwrap_or_default()
        })
    }
}

/// Server and transport errors are worth another try of the same request.
fn is_repeated(error: &ModelError) -> bool {
    error.http_status.is_some_and(|status| status >= 500)
}

fn url(provider: &ProviderConfig) -> Result<String, ModelError> {
    let Some(base) = &provider.base_url else {
        let id = &provider.id;
        return Err(ModelError::configuration(format!(
            "model provider `{id}` has no base_url: set it in config.toml"
        )));
    };
    let mut url = format!("{}/responses", base.trim_end_matches('/'));
    for (at, (key, value)) in provider.query_params.iter().enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        url.push_str(&format!("{key}={value}"));
    }
    Ok(url)
}

fn headers(
    provider: &ProviderConfig,
    auth_key: Option<String>,
    request: &Request,
) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    let mut put = |name: &str, value: &str| match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        (Ok(name), Ok(value)) => {
            headers.insert(name, value);
            Ok(())
        }
        _ => Err(ModelError::configuration(format!(
            "header `{name}` of model provider `{}` cannot be sent",
            provider.id
        ))),
    };
    put("accept", "text/event-stream")?;
    put("content-type", "application/json")?;
    put("originator", &request.originator)?;
    put("user-agent", &request.user_agent)?;
    put("session-id", &request.session_id)?;
    put("thread-id", &request.thread_id)?;
    put("x-client-request-id", &request.thread_id)?;
    put("x-codex-window-id", &request.window_id)?;
    if let Some(subagent) = request.subagent {
        put("x-openai-subagent", subagent)?;
    }
    put("x-codex-turn-metadata", &request.turn_metadata)?;
    if let Some(state) = &request.turn_state {
        put("x-codex-turn-state", state)?;
    }
    for (name, value) in &provider.http_headers {
        put(name, value)?;
    }
    for (name, variable) in &provider.env_http_headers {
        if let Ok(value) = std::env::var(variable)
            && !value.is_empty()
        {
            put(name, &value)?;
        }
    }
    if let Some(key) = key(provider, auth_key)? {
        put("authorization", &format!("Bearer {key}"))?;
    }
    Ok(headers)
}

fn key(provider: &ProviderConfig, auth_key: Option<String>) -> Result<Option<String>, ModelError> {
    if let Some(token) = &provider.experimental_bearer_token {
        return Ok(Some(token.clone()));
    }
    if let Some(variable) = &provider.env_key {
        return match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(Some(key)),
            _ => Err(ModelError::missing_key(variable, provider.env_key_instructions.as_deref())),
        };
    }
    Ok(if provider.requires_openai_auth { auth_key } else { None })
}

/// The events of a reply, up to one that ends it.
fn events(reply: reqwest::Response) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send {
    let frames = sse_stream::SseStream::from_bytes_stream(reply.bytes_stream());
    frames.filter_map(|frame| async move {
        match frame {
            Ok(frame) => {
                let data = frame.data?;
                if data.len() > MAX_EVENT_BYTES {
                    return Some(Err(ModelError::disconnected("an event is too large")));
                }
                event::parse(&data).map(Ok)
            }
            Err(error) => {
                tracing::debug!(%error, "the model's stream broke");
                Some(Err(ModelError::disconnected(
                    "Transport error: network error: error decoding response body",
                )))
            }
        }
    })
}

/// The innermost cause of an error: the outer ones repeat the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
