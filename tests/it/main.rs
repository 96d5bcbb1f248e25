//! The integration tests: one binary, a module a subject.

// What cannot go on fails the test, at the line that says so.
#![allow(clippy::unwrap_used)]

mod command_line;
mod compaction;
mod crash;
mod draining;
mod listening;
mod mirror;
mod processes;
mod review;
mod schema;
mod settings;
mod store;
mod support;
mod threads;
mod turns;
mod usage;
mod wire;
