//! What the model may call: commands, patches, plans, images, MCP servers, and the sandbox around them.
//!
//! A library for the runtime: nothing here knows of threads, turns or the wire. Each tool takes plain values and
//! gives plain values back, with the texts that the model reads; the runtime makes items and notifications of them.
//! Start reading at [`specs`] (what the model is offered), then [`exec`] and [`patch`].
//!
//! **Invariants:**
//! - A patch is applied wholly or not at all ([`patch::apply`]).
//! - A child process inherits no descriptor but its standard streams, and dies with the server ([`exec`]).
//! - A sandbox that the kernel cannot enforce is refused, never silently left out ([`sandbox`]).

pub mod approval;
pub mod command;
pub mod exec;
pub mod image;
pub mod mcp;
pub mod patch;
pub mod plan;
pub mod sandbox;
pub mod specs;
pub mod turn_diff;

/// The arguments of a function call as a typed value, or the text that tells the model what is wrong with them.
pub fn arguments<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("failed to parse function arguments: {error}"))
}
