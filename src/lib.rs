//! threadkeep: a durable SQLite store of agent conversations with a JSON-RPC front.
//!
//! One binary and one database. Clients speak the app-server protocol to it; threads, turns, items,
//! goals and token usage are kept in SQLite; rollout JSONL files are imported and mirrored; turns are
//! run against a model provider.
//!
//! # The map
//!
//! Arrows go down this list only: a module may use those below it that its own opening comment names.
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`cli`] | one file a command |
//! | [`server`] | bytes ↔ messages; who is connected |
//! | [`rpc`] | the router: every method registered once, and the handlers |
//! | [`runtime`] | one actor a loaded thread; turns |
//! | [`tools`] | what the model may call |
//! | [`model`] | one model response: request in, events out |
//! | [`import`] | rollout files ↔ store |
//! | [`store`] | the database; all SQL |
//! | [`history`] | pure: recorded lines → turns and items |
//! | [`rollout`] | the JSONL lines of every generation |
//! | [`config`] | home, `config.toml`, overrides → one typed value |
//! | [`protocol`] | the wire's types |
//! | [`clock`] | the one place that reads the clock and makes ids |
//!
//! # Promises
//!
//! 1. Acknowledged means on disk. 2. The database is the truth, rollout files a mirror of it.
//! 3. One writer a turn. 4. After a kill everything announced is there. 5. Import loses nothing.
//! 6. Tokens are a ledger. 7. Deleting deletes. 8. Bad input gets an answer.

pub mod cli;
pub mod clock;
pub mod config;
pub mod history;
pub mod import;
pub mod model;
pub mod protocol;
pub mod rollout;
pub mod rpc;
pub mod runtime;
pub mod server;
pub mod store;
pub mod tools;

/// The version of the protocol that is spoken: clients take the features of a server from it
/// (`protocol/clients.md`, section 2).
pub const PROTOCOL_VERSION: &str = "0.171.0";
