//! Model providers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// The id of the built-in provider that answers without network.
pub const OFFLINE: &str = "offline";

/// The id of the provider used when none is configured.
pub const OPENAI: &str = "openai";

/// A model provider: `[model_providers.ID]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    /// Its id, from the table's name.
    #[serde(skip)]
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Where `/responses` is.
    pub base_url: Option<String>,
    /// Environment variable that holds the key.
    pub env_key: Option<String>,
    /// How to get the key, told when it is missing.
    pub env_key_instructions: Option<String>,
    /// A key in plain text.
    pub experimental_bearer_token: Option<String>,
    /// Only `responses`.
    pub wire_api: Option<String>,
    /// Added to the URL.
    pub query_params: BTreeMap<String, String>,
    /// Added to the request.
    pub http_headers: BTreeMap<String, String>,
    /// The same, with values from environment variables.
    pub env_http_headers: BTreeMap<String, String>,
    /// Further tries of one request.
    pub request_max_retries: Option<u32>,
    /// Further rounds after a broken stream.
    pub stream_max_retries: Option<u32>,
    /// Silence in a stream that counts as its end, in milliseconds.
    pub stream_idle_timeout_ms: Option<u64>,
    /// Whether the key of `auth.json` is used.
    pub requires_openai_auth: bool,
    /// Accepted; requests go by HTTP.
    pub supports_websockets: bool,
}

impl ProviderConfig {
    /// The built-in providers.
    pub fn built_in() -> BTreeMap<String, ProviderConfig> {
        let openai = ProviderConfig {
            id: OPENAI.to_owned(),
            name: "OpenAI".to_owned(),
            base_url: Some("https://api.openai.com/v1".to_owned()),
            requires_openai_auth: true,
            ..ProviderConfig::default()
        };
        let offline = ProviderConfig {
            id: OFFLINE.to_owned(),
            name: "Offline".to_owned(),
            ..ProviderConfig::default()
        };
        BTreeMap::from([(openai.id.clone(), openai), (offline.id.clone(), offline)])
    }

    /// Further tries of one request.
    pub fn request_retries(&self) -> u32 {
        self.request_max_retries.unwrap_or(4).min(100)
    }

    /// Further rounds after a broken stream.
    pub fn stream_retries(&self) -> u32 {
        self.stream_max_retries.unwrap_or(5).min(100)
    }

    /// Silence in a stream that counts as its end.
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.stream_idle_timeout_ms.unwrap_or(300_000))
    }
}
