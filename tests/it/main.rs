//! The integration tests: one binary, a module a subject.

// What cannot go on fails the test, at the line that says so.
#![allow(clippy::unwrap_used)]

mod account;
mod approvals;
mod command_line;
mod compaction;
mod crash;
mod draining;
mod faults;
mod goals;
mod import_commands;
mod imports;
mod left_over;
mod listening;
mod mcp;
mod migrations;
mod mirror;
mod processes;
mod queue;
mod review;
mod sandbox;
mod schema;
mod settings;
mod store;
mod support;
mod threads;
mod tools;
mod turns;
mod usage;
mod wire;
