//! The backend of a ChatGPT account: usage events, the managed configuration, a new access token.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::ModelClient;
use crate::config::home::ChatGptLogin;

/// Where the backend is unless `chatgpt_base_url` says otherwise.
const DEFAULT_BASE: &str = "https://chatgpt.com/backend-api/";

/// Where a new access token comes from unless the environment says otherwise.
const REFRESH_URL: &str = "https://auth.openai.com/oauth/token";

/// Overrides [`REFRESH_URL`].
const REFRESH_URL_VARIABLE: &str = "CODEX_REFRESH_TOKEN_URL_OVERRIDE";

/// How long a request may take: loading a thread waits for the managed configuration.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of asking for the managed configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bundle {
    /// It was given.
    Given,
    /// The login is not accepted, with this status.
    Refused(u16),
    /// It cannot be told now.
    Unknown(String),
}

/// Tokens that take the place of others; a missing one stays.
#[derive(Clone, Debug, Deserialize)]
pub struct NewTokens {
    /// See [`ChatGptLogin::id_token`].
    pub id_token: Option<String>,
    /// See [`ChatGptLogin::access_token`].
    pub access_token: String,
    /// See [`ChatGptLogin::refresh_token`].
    pub refresh_token: Option<String>,
}

/// The word for the plan of a login, from its id token. The token is not verified: nothing is granted by it here.
pub fn plan(login: &ChatGptLogin) -> Option<String> {
    let claims = claims(login)?;
    let plan = claims.pointer("/https:~1~1api.openai.com~1auth/chatgpt_plan_type")?;
    plan.as_str().map(str::to_owned)
}

fn claims(login: &ChatGptLogin) -> Option<Value> {
    let payload = login.id_token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

/// Send usage events.
///
/// # Errors
/// The backend did not take them; the text says why.
pub async fn send_events(
    client: &ModelClient,
    base: Option<&str>,
    login: &ChatGptLogin,
    events: &[Value],
) -> Result<(), String> {
    let url = url(base, "codex/analytics-events/events");
    let request = authorized(client.http().post(url), login).json(&json!({"events": events}));
    let reply = request.send().await.map_err(|error| error.without_url().to_string())?;
    if reply.status().is_success() { Ok(()) } else { Err(format!("status {}", reply.status())) }
}

/// Ask for the managed configuration of an account.
pub async fn bundle(client: &ModelClient, base: Option<&str>, login: &ChatGptLogin) -> Bundle {
    let request = authorized(client.http().get(url(base, "wham/config/bundle")), login);
    match request.send().await {
        Ok(reply) if reply.status().is_success() => Bundle::Given,
        Ok(reply) if matches!(reply.status().as_u16(), 401 | 403) => Bundle::Refused(reply.status().as_u16()),
        Ok(reply) => Bundle::Unknown(format!("status {}", reply.status())),
        Err(error) => Bundle::Unknown(error.without_url().to_string()),
    }
}

/// Get a new access token. `None`: the login has ended, or that cannot be told now.
pub async fn refresh(client: &ModelClient, login: &ChatGptLogin) -> Option<NewTokens> {
    let url = std::env::var(REFRESH_URL_VARIABLE).unwrap_or_else(|_| REFRESH_URL.to_owned());
    // The program that the login was made for.
    let program = claims(login).and_then(|claims| match &claims["aud"] {
        Value::Array(list) => list.first().and_then(Value::as_str).map(str::to_owned),
        name => name.as_str().map(str::to_owned),
    });
    let body =
        json!({"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": program});
    let reply = client.http().post(url).timeout(PATIENCE).json(&body).send().await.ok()?;
    if reply.status().is_success() { reply.json().await.ok() } else { None }
}

fn url(base: Option<&str>, path: &str) -> String {
    format!("{}/{path}", base.unwrap_or(DEFAULT_BASE).trim_end_matches('/'))
}

fn authorized(request: reqwest::RequestBuilder, login: &ChatGptLogin) -> reqwest::RequestBuilder {
    let request = request.timeout(PATIENCE).bearer_auth(&login.access_token);
    match &login.account_id {
        Some(id) => request.header("chatgpt-account-id", id),
        None => request,
    }
}
