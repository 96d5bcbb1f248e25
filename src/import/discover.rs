//! Finding rollout files below a home.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::rollout::name;

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
        let Ok(entry) = entry else { continue };
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

/// Whether a file has the name of a rollout.
pub fn is_rollout(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name::parse(name).is_some())
}

/// The last name of each thread in the home's index of names.
pub fn names(home: &Path) -> HashMap<String, String> {
    let mut names = HashMap::new();
    let text = fs::read(home.join("session_index.jsonl")).unwrap_or_default();
    for line in crate::rollout::read::lines(&text) {
        let Ok(entry) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
        let (Some(id), Some(name)) = (entry["id"].as_str(), entry["thread_name"].as_str()) else { continue };
        if name.trim().is_empty() {
            names.remove(id);
        } else {
            names.insert(id.to_owned(), name.trim().to_owned());
        }
    }
    names
}
