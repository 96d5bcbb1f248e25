//! Writing verified changes: all of them or none.
//!
//! Every new content is first written and synced to a temporary file beside its place; only when all are ready they
//! are renamed into place. If a rename or removal fails, what was done is undone from the contents in memory. A file
//! that is no longer as it was when the patch was verified (a client may take an hour to say yes) stops everything
//! before the first change.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;
use thiserror::Error;

use super::{Change, ChangeKind};

/// Why nothing was applied.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// Somebody else changed a file in the meantime.
    #[error("{path} has changed since the patch was checked against it; nothing was written", path = .0.display())]
    Stale(PathBuf),
    /// The system refused; what had been done was undone.
    #[error("failed to write {path}: {source}; nothing was changed", path = path.display())]
    Write {
        /// The file that failed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused, and also refused to undo.
    #[error("failed to write {path}: {source}; these files could not be put back: {left}", path = path.display())]
    Torn {
        /// The file that failed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// The files that are not as they were.
        left: String,
    },
}

/// Applies what [`super::verify::verify`] found.
pub fn apply(changes: &[Change]) -> Result<(), ApplyError> {
    let steps: Vec<Step> = changes.iter().flat_map(steps).collect();
    for step in &steps {
        step.check_unchanged()?;
    }
    let mut made_folders = Vec::new();
    let mut done = Vec::new();
    let result = run(&steps, &mut made_folders, &mut done);
    let Err((path, source)) = result else { return Ok(()) };
    let left: Vec<String> = done.iter().rev().filter_map(|step: &&Step| step.undo().err()).collect();
    for folder in made_folders.iter().rev() {
        // Someone may have put a file there; then the folder stays.
        let _ = fs::remove_dir(folder);
    }
    match left.is_empty() {
        true => Err(ApplyError::Write { path, source }),
        false => Err(ApplyError::Torn { path, source, left: left.join(", ") }),
    }
}

fn run<'a>(
    steps: &'a [Step],
    made_folders: &mut Vec<PathBuf>,
    done: &mut Vec<&'a Step<'a>>,
) -> Result<(), (PathBuf, io::Error)> {
    let mut staged = Vec::new();
    for step in steps {
        staged.push(step.stage(made_folders).map_err(|error| (step.path.to_owned(), error))?);
    }
    for (step, temporary) in steps.iter().zip(staged) {
        step.commit(temporary).map_err(|error| (step.path.to_owned(), error))?;
        done.push(step);
    }
    Ok(())
}

/// One path and its content before and after.
struct Step<'a> {
    path: &'a Path,
    before: Before<'a>,
    after: Option<&'a str>,
    permissions: Option<Permissions>,
}

enum Before<'a> {
    Nothing,
    Content(&'a str),
    /// The target of a move that overwrites: read when it is staged.
    Overwritten(Vec<u8>),
}

/// New content is placed before an old file is removed, so that a move cut in the middle leaves both.
fn steps(change: &Change) -> Vec<Step<'_>> {
    let before = change.before.as_deref().map_or(Before::Nothing, Before::Content);
    let permissions = fs::metadata(&change.path).ok().map(|metadata| metadata.permissions());
    match &change.kind {
        ChangeKind::Update { move_path: Some(to) } => {
            let overwritten = fs::read(to).map_or(Before::Nothing, Before::Overwritten);
            let place = Step {
                path: to,
                before: overwritten,
                after: change.after.as_deref(),
                permissions: permissions.clone(),
            };
            vec![place, Step { path: &change.path, before, after: None, permissions }]
        }
        _ => vec![Step { path: &change.path, before, after: change.after.as_deref(), permissions }],
    }
}

impl Step<'_> {
    fn check_unchanged(&self) -> Result<(), ApplyError> {
        let same = match (&self.before, fs::read(self.path)) {
            (Before::Nothing, Err(error)) => super::verify::is_missing(&error),
            (Before::Content(before), Ok(now)) => before.as_bytes() == now,
            (Before::Overwritten(_), _) => true,
            _ => false,
        };
        same.then_some(()).ok_or_else(|| ApplyError::Stale(self.path.to_owned()))
    }

    fn stage(&self, made_folders: &mut Vec<PathBuf>) -> io::Result<Option<NamedTempFile>> {
        let Some(content) = self.after else { return Ok(None) };
        // Through a symbolic link: the file it names changes, the link stays.
        let target = self.target();
        let folder = target.parent().unwrap_or(Path::new("/"));
        make_folders(folder, made_folders)?;
        write_beside(folder, content.as_bytes(), self.permissions.clone()).map(Some)
    }

    fn commit(&self, temporary: Option<NamedTempFile>) -> io::Result<()> {
        match temporary {
            Some(temporary) => temporary.persist(self.target()).map(drop).map_err(|error| error.error),
            None => fs::remove_file(self.path),
        }
    }

    fn undo(&self) -> Result<(), String> {
        let content = match &self.before {
            Before::Nothing => {
                return fs::remove_file(self.path).map_err(|_| self.path.display().to_string());
            }
            Before::Content(content) => content.as_bytes(),
            Before::Overwritten(content) => content,
        };
        let target = self.target();
        let folder = target.parent().unwrap_or(Path::new("/"));
        write_beside(folder, content, self.permissions.clone())
            .and_then(|temporary| temporary.persist(&target).map(drop).map_err(|error| error.error))
            .map_err(|_| self.path.display().to_string())
    }

    fn target(&self) -> PathBuf {
        fs::canonicalize(self.path).unwrap_or_else(|_| self.path.to_owned())
    }
}

fn write_beside(
    folder: &Path,
    content: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<NamedTempFile> {
    // The process's umask takes away from this, as for any new file.
    let fresh = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".threadkeep-").permissions(fresh).tempfile_in(folder)?;
    file.write_all(content)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

fn make_folders(folder: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folders(parent, made)?;
    }
    fs::create_dir(folder)?;
    made.push(folder.to_owned());
    Ok(())
}
