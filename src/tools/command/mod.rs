//! Understanding a shell command before it runs: what it does, whether it is dangerous, and which rules allow it.
//!
//! Nothing here expands anything: a command with a substitution, a variable or a glob in a place that matters is
//! *unknown*. A wrong guess may only cost a question or a nicer line, never safety: the sandbox does not rely on it.

pub mod actions;
pub mod danger;
pub mod rules;

mod words;

use words::{Part, split};

/// The words of a command that is one simple command: no pipe, list, redirection, substitution or assignment.
pub fn simple_words(command: &str) -> Option<Vec<String>> {
    match split(command)?.as_slice() {
        [Part::Command(words)] if !words.is_empty() && !words[0].contains('=') => Some(words.clone()),
        _ => None,
    }
}

/// What a client is offered to allow from now on: the words of a simple command, else the whole wrapper.
pub fn proposed_amendment(command: &str, argv: &[String], prefix_rule: Option<&[String]>) -> Vec<String> {
    match prefix_rule {
        Some(prefix) if !prefix.is_empty() => prefix.to_vec(),
        _ => simple_words(command).unwrap_or_else(|| argv.to_vec()),
    }
}
