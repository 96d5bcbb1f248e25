//! Which files of a home have changed since somebody last asked.
//!
//! The kernel tells of changes (inotify) before the call that made them returns, so that asking it is enough to know of
//! everything that was written before: no thread waits for events, and no folder is looked through again.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::discover;

/// Bytes of events that are read at a time.
const BUFFER_BYTES: usize = 16 << 10;

/// What has changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Files that may be rollouts.
    pub(super) files: BTreeSet<PathBuf>,
    /// Events were lost: everything must be looked at.
    pub(super) all: bool,
}

/// Watches the folders of a home.
#[derive(Debug)]
pub(super) struct Watcher {
    events: OwnedFd,
    folders: HashMap<i32, PathBuf>,
    home: PathBuf,
}

impl Watcher {
    /// Begin to watch; what is written from now on is told.
    ///
    /// # Errors
    /// The system allows no more watches.
    pub(super) fn start(home: &Path) -> io::Result<Watcher> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watcher = Watcher { events, folders: HashMap::new(), home: home.to_owned() };
        watcher.watch(home)?;
        for folder in discover::FOLDERS {
            watcher.watch_below(&home.join(folder), &mut Changes::default())?;
        }
        Ok(watcher)
    }

    /// To wait on for more events.
    pub(super) fn events(&self) -> &OwnedFd {
        &self.events
    }

    /// What has changed since the last call. Does not wait.
    pub(super) fn changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut told = Vec::new();
        let mut reader = Reader::new(&self.events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => changes.all = true,
                Ok(event) => {
                    let Some(folder) = self.folders.get(&event.wd()) else { continue };
                    let Some(name) = event.file_name() else { continue };
                    let path = folder.join(OsStr::from_bytes(name.to_bytes()));
                    told.push((path, event.events().contains(ReadFlags::ISDIR)));
                }
                Err(Errno::INTR) => {}
                // Nothing more now.
                Err(_) => break,
            }
        }
        for (path, is_folder) in told {
            let in_home = path.parent() == Some(&self.home);
            if is_folder && (!in_home || discover::FOLDERS.iter().any(|folder| path.ends_with(folder))) {
                // What was put into a new folder before it was watched is looked for.
                if self.watch_below(&path, &mut changes).is_err() {
                    changes.all = true;
                }
            } else if !is_folder && !in_home && discover::is_rollout(&path) {
                changes.files.insert(path);
            }
        }
        changes
    }

    fn watch(&mut self, folder: &Path) -> io::Result<()> {
        let what = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(&self.events, folder, what)?;
        self.folders.insert(watch, folder.to_owned());
        Ok(())
    }

    fn watch_below(&mut self, folder: &Path, found: &mut Changes) -> io::Result<()> {
        match self.watch(folder) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(());
            }
            watched => watched?,
        }
        for entry in std::fs::read_dir(folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.watch_below(&path, found)?;
            } else if discover::is_rollout(&path) {
                found.files.insert(path);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_old_and_new_folders_are_told_once() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("sessions/2026/12/01");
        std::fs::create_dir_all(&day).unwrap();
        let mut watcher = Watcher::start(home.path()).unwrap();
        assert!(watcher.changes().files.is_empty());
        let new_day = home.path().join("sessions/2026/12/02");
        std::fs::create_dir_all(&new_day).unwrap();
        let archived = home.path().join("archived_sessions");
        std::fs::create_dir(&archived).unwrap();
        let files = [&day, &new_day, &archived].map(|folder| folder.join("rollout-a.jsonl"));
        for file in &files {
            std::fs::write(file, "x").unwrap();
        }
        std::fs::write(day.join("notes.txt"), "x").unwrap();
        std::fs::write(home.path().join("rollout-no.jsonl"), "x").unwrap();
        assert_eq!(watcher.changes().files, files.iter().cloned().collect());
        assert!(watcher.changes().files.is_empty());
        std::fs::write(new_day.join("rollout-b.jsonl"), "x").unwrap();
        assert_eq!(watcher.changes().files.len(), 1);
    }
}
