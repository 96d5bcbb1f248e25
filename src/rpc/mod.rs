//! The router: every method is registered once, in a jsonrpsee `RpcModule`, and its handlers.
//!
//! A handler is named as its method: `thread/start` is `thread::start`. It parses nothing: the router gives it typed
//! params, calls the runtime and gives its reply or its error. Start reading at [`router::build`], the table of all
//! methods.

pub mod connection;
pub mod error;
pub mod router;

mod about;
mod goal;
mod mcp;
mod queue;
mod terminal;
mod thread;
mod turn;
mod usage;
