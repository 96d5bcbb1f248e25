//! Finding rollout files below a home.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::rollout::line::same_id;
use crate::rollout::{name, read};

/// A file that may be a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is; with `.zst` if it is packed.
    pub path: PathBuf,
    /// Whether it lies among the archived ones.
    pub archived: bool,
    /// Bytes.
    pub size: i64,
    /// Unix nanoseconds.
    pub mtime_ns: i64,
}

impl Found {
    /// A file given by its path.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn one(path: &Path) -> io::Result<Found> {
        let data = fs::metadata(path)?;
        let mtime = data.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let archived = path.components().any(|part| part.as_os_str() == "archived_sessions");
        Ok(Found {
            path: path.to_owned(),
            archived,
            size: data.len() as i64,
            mtime_ns: mtime.as_nanos() as i64,
        })
    }

    /// Something that cannot be looked at; taking it tells why.
    fn out_of_reach(path: &Path) -> Found {
        Found { path: path.to_owned(), archived: false, size: 0, mtime_ns: 0 }
    }

    /// The path that clients see: the plain name, also of a packed file.
    pub fn plain_path(&self) -> String {
        let text = self.path.display().to_string();
        text.strip_suffix(".zst").map_or(text.clone(), str::to_owned)
    }

    /// Whether the file is one JSON object over many lines, as those of May 2025.
    pub fn is_single_object(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "json")
    }

    /// Whether the file is packed.
    pub fn is_packed(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "zst")
    }
}

/// All files that have the name of a rollout, in the order of their names: of a home those in its two folders, of
/// another folder all below it; a single file whatever its name.
pub fn find(root: &Path) -> Vec<Found> {
    let folders: Vec<PathBuf> =
        FOLDERS.iter().map(|folder| root.join(folder)).filter(|path| path.is_dir()).collect();
    let mut found = match (folders.is_empty(), root.is_file()) {
        (true, true) => Found::one(root).into_iter().collect(),
        (true, false) => below(root),
        (false, _) => folders.iter().flat_map(|folder| below(folder)).collect(),
    };
    found.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
    found
}

/// Where a home keeps rollouts.
pub const FOLDERS: [&str; 2] = ["sessions", "archived_sessions"];

/// All files below a folder that have the name of a rollout.
pub fn below(folder: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    for entry in ignore::WalkBuilder::new(folder).standard_filters(false).follow_links(true).build() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                tracing::warn!(%error, "a file or folder cannot be looked at");
                found.extend(path_of(&error).map(Found::out_of_reach));
                continue;
            }
        };
        if entry.file_type().is_some_and(|kind| kind.is_file()) && is_rollout(entry.path()) {
            match Found::one(entry.path()) {
                Ok(file) => found.push(file),
                Err(error) => {
                    tracing::warn!(%error, path = %entry.path().display(), "a file cannot be looked at")
                }
            }
        }
    }
    found
}

/// The path that cannot be read: a link that leads nowhere, a folder that is not for us.
fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}

/// Whether a file has the name of a rollout.
pub fn is_rollout(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name::parse(name).is_some())
}

/// The last name of each thread in the home's index of names.
pub fn names(home: &Path) -> HashMap<String, String> {
    let mut names = HashMap::new();
    let text = fs::read(home.join("session_index.jsonl")).unwrap_or_default();
    for line in read::lines(&text) {
        let Ok(entry) = serde_json::from_slice::<serde_json::Value>(read::content(line)) else { continue };
        let (Some(id), Some(name)) = (entry["id"].as_str(), entry["thread_name"].as_str()) else { continue };
        if name.trim().is_empty() {
            names.remove(&same_id(id));
        } else {
            names.insert(same_id(id), name.trim().to_owned());
        }
    }
    names
}
