//! MCP servers: tools and resources of other programs, by standard streams or HTTP.
//!
//! [`crate::config::mcp_server::ServerConfig`] is one `mcp_servers.NAME`, [`server::Server`] a connection to it, [`answer`] what the model
//! is told. Nothing of the SDK's types leaves this module: what passes through is JSON as on the wire.
//!
//! **Invariants:**
//! - Starting and calling end within their time; waiting for a user's answer to an elicitation does not count.
//! - A server's process group ends with its [`server::Server`], at the latest when that is dropped.

pub mod answer;
pub mod server;

mod handler;
#[cfg(test)]
mod tests;
