//! One model response: a request in, events out (`protocol/model-api.md`).
//!
//! [`client::ModelClient::start`] sends a [`request::Request`] to a provider and gives a [`client::ResponseStream`].
//! Tries of one request are repeated here, unannounced; rounds after a broken stream are the caller's, who announces
//! them: [`error::ModelError::retry`] says whether one is due.
//!
//! **Invariant:** the HTTP library and SSE are met nowhere else.

pub mod account;
pub mod catalog;
pub mod client;
pub mod error;
pub mod event;
pub mod offline;
pub mod request;
