//! (module runtime: to be written; `client` is the border to the server)
pub mod client;
