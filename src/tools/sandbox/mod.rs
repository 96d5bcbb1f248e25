//! What a command may do to the machine, held by the kernel.
//!
//! Three means, all of them set in the child between fork and exec ([`enter`]):
//! - **Landlock** decides on files: everything may be read, only the writable roots and a few harmless devices written.
//!   It also keeps signals, ptrace and abstract sockets from reaching out.
//! - **seccomp** refuses the network (every socket but local pairs and listeners, every `connect`, io_uring, which
//!   could do the same by another way), and system calls that rearrange mounts, keys or the kernel.
//! - **A mount namespace** makes `.git` and the home read-only where they lie inside a writable root, since Landlock has
//!   no "all but". It is made only then.
//!
//! This is done by a hook before exec and not by a helper program: everything that allocates or opens is prepared in
//! the server ([`prepare`]), the child makes system calls only, and there is no second exec to pay for or to find.
//!
//! **Invariants:**
//! - What the kernel cannot enforce is an error before anything runs. Only the scopes for signals and abstract sockets,
//!   which kernels before 6.12 lack, are left out there; [`Support::signals_are_scoped`] tells.
//! - All of it is inherited by every process that the command starts, also those that outlive it.
//! - With the network allowed, local sockets are reachable like any other address.

pub mod enter;
pub mod prepare;

mod filter;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

/// The limits of one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Confinement {
    /// Folders that may be written, absolute.
    pub writable_roots: Vec<PathBuf>,
    /// Inside of them, what may not.
    pub protected: Vec<PathBuf>,
    /// Whether there is a network.
    pub network: bool,
}

/// The settings of the workspace-write mode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceWrite {
    /// Folders that may be written beside the working folder.
    pub writable_roots: Vec<PathBuf>,
    /// Whether there is a network.
    pub network_access: bool,
    /// `$TMPDIR` may not be written.
    pub exclude_tmpdir_env_var: bool,
    /// `/tmp` may not be written.
    pub exclude_slash_tmp: bool,
}

impl Confinement {
    /// Nothing may be written.
    pub fn read_only(network: bool) -> Confinement {
        Confinement { network, ..Confinement::default() }
    }

    /// The working folder and some others may be written; version control data in them and the home may not.
    pub fn workspace_write(cwd: &Path, settings: &WorkspaceWrite, home: &Path) -> Confinement {
        let mut roots = vec![cwd.to_owned()];
        roots.extend(settings.writable_roots.iter().map(|root| cwd.join(root)));
        if !settings.exclude_slash_tmp {
            roots.push(PathBuf::from("/tmp"));
        }
        if !settings.exclude_tmpdir_env_var {
            roots.extend(std::env::var_os("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute()));
        }
        // Rules go by the real folder; one that is not there cannot be written either.
        let mut roots: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        roots.sort();
        roots.dedup();
        let mut protected: Vec<PathBuf> = roots.iter().flat_map(|root| version_control(root)).collect();
        protected.extend(home.canonicalize());
        protected.retain(|path| roots.iter().any(|root| path != root && path.starts_with(root)));
        protected.sort();
        protected.dedup();
        Confinement { writable_roots: roots, protected, network: settings.network_access }
    }

    /// Whether a file at `path` may be written, links on the way followed. For patches, which the server itself applies.
    pub fn may_write(&self, path: &Path) -> bool {
        let Some(path) = resolve(path) else { return false };
        let inside = |folders: &[PathBuf]| folders.iter().any(|folder| path.starts_with(folder));
        inside(&self.writable_roots) && !inside(&self.protected)
    }
}

/// `.git`, and where it points to when it is a file, as in a linked worktree.
fn version_control(root: &Path) -> Vec<PathBuf> {
    let git = root.join(".git");
    let Ok(metadata) = git.symlink_metadata() else { return Vec::new() };
    let mut found = Vec::new();
    if metadata.is_file() {
        let pointer = std::fs::read_to_string(&git).unwrap_or_default();
        let target = pointer.trim().strip_prefix("gitdir:").map(|target| root.join(target.trim()));
        found.extend(target.and_then(|target| target.canonicalize().ok()));
    }
    // A link is protected as what it names; the link itself can then only be renamed away.
    found.extend(git.canonicalize());
    found
}

/// The real path of a file that need not exist yet.
fn resolve(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    if path.symlink_metadata().is_ok() {
        // A link to nowhere: writing would make its target.
        let target = path.read_link().ok()?;
        return resolve(&path.parent()?.join(target));
    }
    let name = path.file_name()?;
    Some(resolve(path.parent()?)?.join(name))
}

/// What this machine's kernel can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Landlock's version; 0 when it is not there.
    pub landlock: i32,
    /// Whether a read-only view of a folder can be made inside a writable one.
    pub namespaces: bool,
}

impl Support {
    /// From kernel 6.12 on a confined process cannot signal those outside.
    pub fn signals_are_scoped(&self) -> bool {
        self.landlock >= 6
    }
}
