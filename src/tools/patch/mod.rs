//! Patches in the `*** Begin Patch` form: read, fitted to the files, and applied.
//!
//! Three steps, so that a client can be asked in between: [`parse::parse`] reads the text, [`verify::verify`] fits it to
//! the files and gives the list of [`Change`]s without touching anything, [`apply::apply`] writes them all or none.
//! [`heredoc::find`] recognises a patch inside a shell command.

pub mod apply;
pub mod heredoc;
pub mod parse;
pub mod verify;

mod fit;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use similar::TextDiff;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file, absolute.
    pub path: PathBuf,
    /// The path as the patch wrote it (of the new place when moved), for the text to the model.
    pub shown: String,
    /// What happens to the file.
    pub kind: ChangeKind,
    /// For a reader: the content of an added or deleted file, else hunks.
    pub diff: String,
    /// The content before; `None` when there was no file.
    pub before: Option<String>,
    /// The content after, at the new place when moved; `None` when deleted.
    pub after: Option<String>,
}

/// The kind of a [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// A new file.
    Add,
    /// The file goes.
    Delete,
    /// The file's content or place changes.
    Update {
        /// The new place, absolute.
        move_path: Option<PathBuf>,
    },
}

impl Change {
    /// Every path that is written or removed.
    pub fn touched(&self) -> impl Iterator<Item = &Path> {
        let moved = match &self.kind {
            ChangeKind::Update { move_path } => move_path.as_deref(),
            ChangeKind::Add | ChangeKind::Delete => None,
        };
        std::iter::once(self.path.as_path()).chain(moved)
    }
}

/// What the model is told after a patch was applied.
pub fn success_text(changes: &[Change]) -> String {
    let mut text = String::from("Success. Updated the following files:\n");
    for letter in ["A", "M", "D"] {
        for change in changes.iter().filter(|change| change.letter() == letter) {
            text += &format!("{letter} {}\n", change.shown);
        }
    }
    text
}

impl Change {
    fn letter(&self) -> &'static str {
        match self.kind {
            ChangeKind::Add => "A",
            ChangeKind::Update { .. } => "M",
            ChangeKind::Delete => "D",
        }
    }
}

/// The hunks of a unified diff, without a head.
pub(crate) fn hunks(before: &str, after: &str) -> String {
    // Beyond this a minimal diff is not worth the wait; the result stays right, only longer.
    let diff = TextDiff::configure().timeout(std::time::Duration::from_millis(500)).diff_lines(before, after);
    diff.unified_diff().context_radius(3).to_string()
}

/// What the model is told of an applied patch that it sent as a custom tool.
pub fn custom_tool_answer(changes: &[Change], took: std::time::Duration) -> String {
    format!("Exit code: 0\nWall time: {} seconds\nOutput:\n{}", took.as_secs(), success_text(changes))
}

/// What the model is told of an applied patch that it sent as a command.
pub fn command_answer(changes: &[Change], took: std::time::Duration) -> String {
    format!("Wall time: {:.4} seconds\nOutput:\n{}", took.as_secs_f64(), success_text(changes))
}

/// What the model is told of a patch that cannot be read or does not fit.
pub fn failed_answer(problem: &dyn std::fmt::Display) -> String {
    format!("apply_patch verification failed: {problem}")
}

/// What the model is told when the user said no to a patch.
pub const REJECTED_BY_USER: &str = "patch rejected by user";
