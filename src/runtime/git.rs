//! What a thread remembers of the repository it works in: commit, branch and origin, read from the files under
//! `.git` rather than by running `git`, since it happens on the way of a first turn.

use std::fs;
use std::path::{Path, PathBuf};

use crate::protocol::thread::GitInfo;

/// The repository that `cwd` lies in, or `None`. A part that cannot be read is left out.
pub fn info(cwd: &Path) -> Option<GitInfo> {
    let git_dir = find_git_dir(cwd)?;
    let common_dir = common_dir(&git_dir);
    let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let head = head.trim();
    let (branch, sha) = match head.strip_prefix("ref: ") {
        Some(reference) => (
            reference.strip_prefix("refs/heads/").map(str::to_owned),
            resolve(&git_dir, &common_dir, reference),
        ),
        None => (None, Some(head.to_owned())),
    };
    let origin_url = fs::read_to_string(common_dir.join("config")).ok().and_then(|text| origin_url(&text));
    Some(GitInfo { sha, branch, origin_url })
}

/// The nearest ancestor's `.git`, following the file that worktrees and submodules have there.
fn find_git_dir(cwd: &Path) -> Option<PathBuf> {
    let found = cwd.ancestors().map(|dir| dir.join(".git")).find(|path| path.exists())?;
    if found.is_dir() {
        return Some(found);
    }
    let text = fs::read_to_string(&found).ok()?;
    let target = Path::new(text.trim().strip_prefix("gitdir: ")?);
    Some(found.parent()?.join(target))
}

/// Where a worktree's shared files are.
fn common_dir(git_dir: &Path) -> PathBuf {
    match fs::read_to_string(git_dir.join("commondir")) {
        Ok(text) => git_dir.join(text.trim()),
        Err(_) => git_dir.to_owned(),
    }
}

fn resolve(git_dir: &Path, common_dir: &Path, reference: &str) -> Option<String> {
    for dir in [git_dir, common_dir] {
        if let Ok(text) = fs::read_to_string(dir.join(reference)) {
            return Some(text.trim().to_owned());
        }
    }
    let packed = fs::read_to_string(common_dir.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| {
        let (sha, name) = line.split_once(' ')?;
        (name == reference).then(|| sha.to_owned())
    })
}

fn origin_url(config: &str) -> Option<String> {
    let mut in_origin = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            in_origin = line == r#"[remote "origin"]"#;
        } else if in_origin
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "url"
        {
            return Some(value.trim().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_commit_and_origin_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/topic\n").unwrap();
        fs::write(git.join("refs/heads/topic"), "abc123\n").unwrap();
        fs::write(
            git.join("config"),
            "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.com/r.git\n",
        )
        .unwrap();
        let sub = dir.path().join("a/b");
        fs::create_dir_all(&sub).unwrap();
        let found = info(&sub).unwrap();
        assert_eq!(found.sha.as_deref(), Some("abc123"));
        assert_eq!(found.branch.as_deref(), Some("topic"));
        assert_eq!(found.origin_url.as_deref(), Some("https://example.com/r.git"));
    }

    #[test]
    fn packed_references_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("packed-refs"), "# pack-refs\nfeed00 refs/heads/main\n").unwrap();
        let found = info(dir.path()).unwrap();
        assert_eq!((found.sha.as_deref(), found.origin_url), (Some("feed00"), None));
    }

    #[test]
    fn no_repository_is_none() {
        assert!(info(tempfile::tempdir().unwrap().path()).is_none());
    }
}
