//! Fitting a patch to the files, without touching them.

use std::{
    collections::BTreeMap,
    io,
    path::{Component, Path, PathBuf},
};

use thiserror::Error;

use super::{
    Change, ChangeKind, fit, hunks,
    parse::{Patch, Section},
};

/// Why a patch does not fit the files; the text is for the model.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// A file that must be there cannot be read.
    #[error("failed to read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A chunk has no place in its file.
    #[error("{path}: {problem}", path = path.display())]
    Misfit {
        /// The file.
        path: PathBuf,
        /// Which lines were not found.
        problem: String,
    },
    /// Two sections are at odds.
    #[error("{path}: {problem}", path = path.display())]
    Conflict {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
}

/// The changes that `patch` makes to the files as they are now, sorted by path. Relative paths are under `cwd`.
pub fn verify(patch: &Patch, cwd: &Path) -> Result<Vec<Change>, VerifyError> {
    let mut files = Files::default();
    for section in &patch.sections {
        match section {
            Section::Add { path, content } => files.add(absolute(cwd, path), path, content)?,
            Section::Delete { path } => files.delete(absolute(cwd, path), path)?,
            Section::Update { path, move_to, chunks } => {
                let at = absolute(cwd, path);
                let file = files.open(&at, path)?;
                let content = file.present(&at)?;
                let content = fit::fit(content, chunks)
                    .map_err(|problem| VerifyError::Misfit { path: at.clone(), problem })?;
                let target = move_to.as_ref().map(|to| (absolute(cwd, to), to)).filter(|(to, _)| *to != at);
                match target {
                    Some((to, shown)) => files.rename(at, to, shown, content)?,
                    None => file.after = Some(content),
                }
            }
        }
    }
    Ok(files.changes())
}

/// `path` under `cwd`, without `.` and `..` in it.
pub fn absolute(cwd: &Path, path: &str) -> PathBuf {
    let mut result = PathBuf::new();
    for component in cwd.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

/// The files as they will be: sections see what the earlier ones did.
#[derive(Default)]
struct Files {
    files: BTreeMap<PathBuf, File>,
}

struct File {
    shown: String,
    before: Option<String>,
    after: Option<String>,
    /// Where the content goes; it is then no longer here.
    moved_to: Option<PathBuf>,
    /// This is the target of another file's move, and told there.
    is_target: bool,
}

impl File {
    fn present(&self, path: &Path) -> Result<&str, VerifyError> {
        let problem = "an earlier section of the patch removed this file";
        self.after.as_deref().ok_or_else(|| VerifyError::Conflict { path: path.to_owned(), problem })
    }
}

impl Files {
    fn open(&mut self, path: &Path, shown: &str) -> Result<&mut File, VerifyError> {
        if !self.files.contains_key(path) {
            let content = std::fs::read_to_string(path)
                .map_err(|source| VerifyError::Read { path: path.to_owned(), source })?;
            self.insert(path, shown, Some(content));
        }
        // Just put there, if it was not there before.
        Ok(self.files.get_mut(path).expect("the file is in the map"))
    }

    fn open_or_new(&mut self, path: &Path, shown: &str) -> Result<&mut File, VerifyError> {
        match std::fs::symlink_metadata(path) {
            Err(error) if is_missing(&error) && !self.files.contains_key(path) => {
                self.insert(path, shown, None);
                Ok(self.files.get_mut(path).expect("the file is in the map"))
            }
            _ => self.open(path, shown),
        }
    }

    fn insert(&mut self, path: &Path, shown: &str, content: Option<String>) {
        let file = File {
            shown: shown.to_owned(),
            before: content.clone(),
            after: content,
            moved_to: None,
            is_target: false,
        };
        self.files.insert(path.to_owned(), file);
    }

    fn add(&mut self, path: PathBuf, shown: &str, content: &str) -> Result<(), VerifyError> {
        let file = self.open_or_new(&path, shown)?;
        if file.moved_to.is_some() {
            let problem = "a file that is moved away cannot be added in the same patch";
            return Err(VerifyError::Conflict { path, problem });
        }
        file.after = Some(content.to_owned());
        Ok(())
    }

    fn delete(&mut self, path: PathBuf, shown: &str) -> Result<(), VerifyError> {
        let file = self.open(&path, shown)?;
        file.present(&path)?;
        if file.is_target {
            let problem = "a file that was moved here cannot be deleted in the same patch";
            return Err(VerifyError::Conflict { path, problem });
        }
        file.after = None;
        Ok(())
    }

    fn rename(
        &mut self,
        from: PathBuf,
        to: PathBuf,
        shown: &str,
        content: String,
    ) -> Result<(), VerifyError> {
        let target = self.open_or_new(&to, shown)?;
        if target.is_target || target.moved_to.is_some() || target.after != target.before {
            let problem = "two sections of the patch write this file";
            return Err(VerifyError::Conflict { path: to, problem });
        }
        target.is_target = true;
        target.after = Some(content);
        // `from` was opened by the caller.
        let source = self.files.get_mut(&from).expect("the source is in the map");
        if source.is_target || source.before.is_none() {
            let problem = "a file that this patch makes cannot be moved by it";
            return Err(VerifyError::Conflict { path: from, problem });
        }
        source.after = None;
        source.shown = shown.to_owned();
        source.moved_to = Some(to);
        Ok(())
    }

    fn changes(self) -> Vec<Change> {
        let moved: BTreeMap<PathBuf, String> = self
            .files
            .iter()
            .filter(|(_, file)| file.is_target)
            .map(|(path, file)| (path.clone(), file.after.clone().unwrap_or_default()))
            .collect();
        let told = self.files.into_iter().filter(|(_, file)| !file.is_target);
        told.filter_map(|(path, file)| change(path, file, &moved)).collect()
    }
}

fn change(path: PathBuf, file: File, moved: &BTreeMap<PathBuf, String>) -> Option<Change> {
    let after = match &file.moved_to {
        Some(to) => moved.get(to).cloned(),
        None => file.after,
    };
    let (kind, diff) = match (&file.before, &after) {
        (None, None) => return None,
        (None, Some(after)) => (ChangeKind::Add, after.clone()),
        (Some(before), None) => (ChangeKind::Delete, before.clone()),
        (Some(before), Some(after)) => {
            let mut diff = hunks(before, after);
            if let Some(to) = &file.moved_to {
                diff += &format!("\n\nMoved to: {}", to.display());
            }
            (ChangeKind::Update { move_path: file.moved_to }, diff)
        }
    };
    Some(Change { path, shown: file.shown, kind, diff, before: file.before, after })
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
