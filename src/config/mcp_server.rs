//! `mcp_servers.NAME` of the configuration.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Deserialize;

/// How to reach a server and what of it to use.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServerConfig {
    /// The program, for a server over standard streams.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables for it, beside the few that every program needs.
    pub env: BTreeMap<String, String>,
    /// Variables of ours that are passed on.
    pub env_vars: Vec<String>,
    /// The folder it runs in; the thread's when left out.
    pub cwd: Option<PathBuf>,
    /// The address, for a server over HTTP.
    pub url: Option<String>,
    /// The variable that holds its bearer token.
    pub bearer_token_env_var: Option<String>,
    /// Headers for it.
    pub http_headers: BTreeMap<String, String>,
    /// Headers whose values are in these variables.
    pub env_http_headers: BTreeMap<String, String>,
    /// Whether it is used at all.
    pub enabled: bool,
    /// Whether a thread fails to start without it.
    pub required: bool,
    /// How long its start may take.
    pub startup_timeout_sec: Option<f64>,
    /// How long a call may take.
    pub tool_timeout_sec: Option<f64>,
    /// If given, only these tools are used.
    pub enabled_tools: Option<Vec<String>>,
    /// These tools are not used.
    pub disabled_tools: Vec<String>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_vars: Vec::new(),
            cwd: None,
            url: None,
            bearer_token_env_var: None,
            http_headers: BTreeMap::new(),
            env_http_headers: BTreeMap::new(),
            enabled: true,
            required: false,
            startup_timeout_sec: None,
            tool_timeout_sec: None,
            enabled_tools: None,
            disabled_tools: Vec::new(),
        }
    }
}

impl ServerConfig {
    /// The text of a configuration error, or nothing when there is exactly one way to the server.
    pub fn problem(&self, name: &str) -> Option<String> {
        let one_way = self.command.is_some() != self.url.is_some();
        (!one_way).then(|| format!("invalid transport\nin `mcp_servers.{name}`"))
    }

    /// Whether the model may use a tool of it.
    pub fn uses(&self, tool: &str) -> bool {
        let is = |name: &String| name == tool;
        self.enabled_tools.as_ref().is_none_or(|tools| tools.iter().any(is))
            && !self.disabled_tools.iter().any(is)
    }

    /// How long its start may take.
    pub fn startup_timeout(&self) -> Duration {
        seconds(self.startup_timeout_sec, 10.0)
    }

    /// How long a call may take.
    pub fn tool_timeout(&self) -> Duration {
        seconds(self.tool_timeout_sec, 60.0)
    }
}

fn seconds(value: Option<f64>, default: f64) -> Duration {
    Duration::try_from_secs_f64(value.unwrap_or(default)).unwrap_or(Duration::from_secs_f64(default))
}
