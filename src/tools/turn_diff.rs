//! The diff of a whole turn, in git's form, from the patches that were applied.
//!
//! The first patch of a turn to touch a file fixes its baseline; the diff is between that and the content that the
//! latest patch left. A file that is back at its baseline is not in the diff.

use std::{
    collections::BTreeMap,
    fmt::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use sha1::{Digest, Sha1};

use super::patch::{Change, ChangeKind, hunks};

/// What git writes for the blob of a file that is not there.
const NO_BLOB: &str = "0000000000000000000000000000000000000000";

/// The files that the patches of one turn have touched.
#[derive(Debug, Clone, Default)]
pub struct TurnDiff {
    root: PathBuf,
    files: BTreeMap<PathBuf, (Option<String>, Option<String>)>,
}

impl TurnDiff {
    /// Paths in the diff will be relative to the repository that holds `cwd`, or to `cwd` itself when there is none.
    pub fn new(cwd: &Path) -> TurnDiff {
        let root = cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd);
        TurnDiff { root: root.to_owned(), files: BTreeMap::new() }
    }

    /// Whether no patch was applied yet.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Takes note of changes that have been applied.
    pub fn record(&mut self, changes: &[Change]) {
        for change in changes {
            match &change.kind {
                ChangeKind::Update { move_path: Some(to) } => {
                    self.set(&change.path, change.before.as_deref(), None);
                    self.set(to, None, change.after.as_deref());
                }
                _ => self.set(&change.path, change.before.as_deref(), change.after.as_deref()),
            }
        }
    }

    fn set(&mut self, path: &Path, before: Option<&str>, after: Option<&str>) {
        let file = self.files.entry(path.to_owned()).or_insert_with(|| (before.map(str::to_owned), None));
        file.1 = after.map(str::to_owned);
    }

    /// The diff; empty when nothing differs.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (path, (before, after)) in &self.files {
            if before != after {
                write_file(
                    &mut text,
                    path.strip_prefix(&self.root).unwrap_or(path),
                    &self.mode(path),
                    before,
                    after,
                );
            }
        }
        text
    }

    fn mode(&self, path: &Path) -> String {
        let executable =
            std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o100 != 0);
        String::from(if executable { "100755" } else { "100644" })
    }
}

fn write_file(text: &mut String, path: &Path, mode: &str, before: &Option<String>, after: &Option<String>) {
    let path = path.display().to_string();
    let path = path.trim_start_matches('/');
    let blob = |content: &Option<String>| content.as_deref().map_or_else(|| NO_BLOB.to_owned(), blob_id);
    let (old, new) = (blob(before), blob(after));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "diff --git a/{path} b/{path}");
    let (from, to) = match (before, after) {
        (None, _) => {
            let _ = writeln!(text, "new file mode {mode}\nindex {old}..{new}");
            ("/dev/null".to_owned(), format!("b/{path}"))
        }
        (_, None) => {
            let _ = writeln!(text, "deleted file mode {mode}\nindex {old}..{new}");
            (format!("a/{path}"), "/dev/null".to_owned())
        }
        _ => {
            let _ = writeln!(text, "index {old}..{new} {mode}");
            (format!("a/{path}"), format!("b/{path}"))
        }
    };
    let hunks = hunks(before.as_deref().unwrap_or(""), after.as_deref().unwrap_or(""));
    if !hunks.is_empty() {
        let _ = write!(text, "--- {from}\n+++ {to}\n{hunks}");
    }
}

/// The name git gives to a file's content.
fn blob_id(content: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::patch::{parse::parse, verify::verify};

    fn patched(diff: &mut TurnDiff, cwd: &Path, body: &str) {
        let patch = parse(&format!("*** Begin Patch\n{body}\n*** End Patch")).unwrap();
        let changes = verify(&patch, cwd).unwrap();
        crate::tools::patch::apply::apply(&changes).unwrap();
        diff.record(&changes);
    }

    #[test]
    fn the_diff_is_as_git_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut diff = TurnDiff::new(folder.path());
        patched(&mut diff, folder.path(), "*** Add File: b.txt\n+new line");
        let id = blob_id("new line\n");
        assert_eq!(
            diff.text(),
            format!(
                "diff --git a/b.txt b/b.txt\nnew file mode 100644\nindex {NO_BLOB}..{id}\n--- /dev/null\n+++ b/b.txt\n\
                 @@ -0,0 +1 @@\n+new line\n"
            )
        );
        patched(
            &mut diff,
            folder.path(),
            "*** Update File: b.txt\n*** Move to: c.txt\n@@\n-new line\n+other",
        );
        assert!(
            !diff.text().contains("b.txt"),
            "a file made and moved in one turn is only at its last place"
        );
        assert!(diff.text().contains("+++ b/c.txt\n@@ -0,0 +1 @@\n+other\n"));
        patched(&mut diff, folder.path(), "*** Delete File: c.txt");
        assert_eq!(diff.text(), "");
    }

    #[test]
    fn a_blob_id_is_that_of_git() {
        assert_eq!(blob_id("hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }
}
