//! `shell_environment_policy`: what commands inherit of the server's environment. `tools::exec` applies it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a command inherits. The defaults pass everything on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EnvironmentPolicy {
    /// Where to begin.
    pub inherit: Inherit,
    /// Unless true, variables that look like secrets are dropped.
    pub ignore_default_excludes: bool,
    /// Globs of names to drop.
    pub exclude: Vec<String>,
    /// If not empty, only names that match one of these globs stay.
    pub include_only: Vec<String>,
    /// Set last, whatever the globs say.
    pub set: BTreeMap<String, String>,
}

/// Which variables of the server a command begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inherit {
    /// All of them.
    #[default]
    All,
    /// Those that nearly every program needs.
    Core,
    /// None.
    None,
}

impl Default for EnvironmentPolicy {
    fn default() -> EnvironmentPolicy {
        EnvironmentPolicy {
            inherit: Inherit::All,
            ignore_default_excludes: true,
            exclude: Vec::new(),
            include_only: Vec::new(),
            set: BTreeMap::new(),
        }
    }
}
