//! Configuration: the home, `config.toml` and its layers → one typed value (`protocol/config.md`).
//!
//! Precedence, highest first: a request's named members, a request's `config` map, `-c` flags, project files (when the
//! project is trusted), the user's `config.toml`, the system's, defaults. Files are read again for each thread.
//!
//! **Invariant:** nothing here knows more of the rest than the wire's enums.

pub mod environment;
pub mod home;
pub mod instructions;
pub mod keys;
pub mod layers;
pub mod mcp_server;
pub mod provider;

pub use self::home::Home;
pub use self::keys::Config;
pub use self::layers::{ConfigError, ConfigSource, ConfigWarning, Loaded};
pub use self::provider::ProviderConfig;
