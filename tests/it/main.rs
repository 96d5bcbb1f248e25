//! The integration tests: one binary, a module a subject.

mod command_line;
mod mirror;
mod processes;
mod schema;
mod store;
mod support;
mod threads;
mod turns;
mod wire;
