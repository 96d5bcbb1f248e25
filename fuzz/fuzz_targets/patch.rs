//! The text of a patch, through the parser and the check against files; also as a heredoc of a command.

#![no_main]
#![allow(dead_code)]

#[path = "../../src/tools/patch/mod.rs"]
mod patch;

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use patch::parse::parse;
use patch::verify::verify;
use patch::{Change, heredoc};

/// A folder with a file `f` to fit patches to. Nothing is written there.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::write(folder.path().join("f"), "a\nb\nc\n\na\n").expect("it can be written");
    folder
});

fuzz_target!(|text: &str| {
    check(text);
    check(&format!("*** Begin Patch\n{text}\n*** End Patch"));
    check(&format!("*** Begin Patch\n*** Update File: f\n{text}\n*** End Patch"));
    if let Some(found) = heredoc::find(text) {
        check(&found.patch);
    }
});

fn check(text: &str) {
    match parse(text) {
        Ok(patch) => {
            assert!(!patch.sections.is_empty());
            if let Ok(changes) = verify(&patch, FOLDER.path()) {
                assert!(changes.iter().flat_map(Change::touched).all(Path::is_absolute));
            }
        }
        // The end of the text counts as a line.
        Err(error) => assert!((1..=text.lines().count() + 1).contains(&error.line), "{error}"),
    }
}
