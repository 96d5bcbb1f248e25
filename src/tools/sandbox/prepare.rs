//! The part of the sandbox that is made in the server, before the fork.

use std::{
    ffi::CString,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use seccompiler::BpfProgram;
use thiserror::Error;

use super::{Confinement, Support, filter};

/// Why a command cannot be confined, so that it is not run.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// No or too old a Landlock.
    #[error(
        "the sandbox needs Landlock version {LANDLOCK_MIN} (Linux 6.2, enabled in the kernel), this kernel has {}; use a newer \
         kernel, or the mode danger-full-access if this machine is a sandbox itself",
        if *.0 == 0 { "none".to_owned() } else { format!("version {}", .0) }
    )]
    Landlock(i32),
    /// A protected folder lies in a writable one, and there are no mount namespaces for it.
    #[error(
        "the sandbox cannot keep {} read-only, since this kernel lets no unprivileged process make a namespace; allow that \
         (user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), or use the mode read-only or danger-full-access",
        .0.display()
    )]
    Namespaces(PathBuf),
    /// The rules could not be made.
    #[error("the sandbox could not be made: {0}")]
    Rules(String),
}

/// Version 3 brought the right to truncate, without which any file could be emptied.
const LANDLOCK_MIN: i32 = 3;

/// Devices that hold nothing.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Everything a child needs to confine itself by system calls alone.
#[derive(Debug)]
pub struct Sandbox {
    pub(super) ruleset: OwnedFd,
    pub(super) filters: Vec<BpfProgram>,
    pub(super) view: Option<View>,
    /// The capabilities that are kept if they are there.
    pub(super) capabilities: u64,
}

/// A view of the file system in which some paths are read-only.
#[derive(Debug)]
pub(super) struct View {
    pub(super) read_only: Vec<CString>,
    pub(super) cwd: CString,
    pub(super) uid_map: CString,
    pub(super) gid_map: CString,
}

/// Chown, dac_override, fowner, fsetid: what root needs to use files as usual. All others reach beyond files.
const FILE_CAPABILITIES: u64 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4;

/// Prepares the limits for a command that will run in `cwd`.
pub fn prepare(confinement: &Confinement, cwd: &Path) -> Result<Sandbox, SandboxError> {
    let support = support();
    if support.landlock < LANDLOCK_MIN {
        return Err(SandboxError::Landlock(support.landlock));
    }
    let view = match confinement.protected.first() {
        None => None,
        Some(path) if !support.namespaces => return Err(SandboxError::Namespaces(path.clone())),
        Some(_) => {
            Some(view(&confinement.protected, cwd).map_err(|error| SandboxError::Rules(error.to_string()))?)
        }
    };
    let ruleset = ruleset(confinement).map_err(|error| SandboxError::Rules(error.to_string()))?;
    let ruleset: Option<OwnedFd> = ruleset.into();
    let filters =
        filter::programs(confinement.network).map_err(|error| SandboxError::Rules(error.to_string()))?;
    let capabilities = if rustix::process::geteuid().is_root() { FILE_CAPABILITIES } else { 0 };
    Ok(Sandbox { ruleset: ruleset.ok_or(SandboxError::Landlock(0))?, filters, view, capabilities })
}

fn ruleset(confinement: &Confinement) -> Result<RulesetCreated, landlock::RulesetError> {
    let needed = AccessFs::from_all(ABI::V3);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(needed)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    let mut ruleset = with_rule(ruleset, Path::new("/"), AccessFs::from_read(ABI::V3))?;
    for device in DEVICES {
        ruleset = with_rule(ruleset, Path::new(device), AccessFs::from_file(ABI::V5))?;
    }
    // A device node made by root would be a way around all of this.
    let writable = needed & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    for root in &confinement.writable_roots {
        let rights = if root.is_dir() { writable } else { AccessFs::from_file(ABI::V3) };
        ruleset = with_rule(ruleset, root, rights)?;
    }
    Ok(ruleset)
}

fn with_rule(
    ruleset: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    match PathFd::new(path) {
        Ok(opened) => ruleset.add_rule(PathBeneath::new(opened, rights)),
        // What is not there needs no right.
        Err(_) => Ok(ruleset),
    }
}

fn view(protected: &[PathBuf], cwd: &Path) -> io::Result<View> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::other);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Ok(View {
        read_only: protected
            .iter()
            .map(|path| text(path.as_os_str().as_bytes()))
            .collect::<io::Result<_>>()?,
        cwd: text(cwd.as_os_str().as_bytes())?,
        uid_map: text(format!("{uid} {uid} 1").as_bytes())?,
        gid_map: text(format!("{gid} {gid} 1").as_bytes())?,
    })
}

/// What the kernel can enforce; looked at once.
pub fn support() -> Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    *SUPPORT.get_or_init(|| Support { landlock: landlock_version(), namespaces: namespaces_work() })
}

fn landlock_version() -> i32 {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    let no_attributes = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel takes no attributes and only answers a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            no_attributes,
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Distributions switch user namespaces off in many ways; the one sure way is to try, in a child.
fn namespaces_work() -> bool {
    let folder = std::env::temp_dir();
    let Ok(view) = view(std::slice::from_ref(&folder), Path::new("/")) else { return false };
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ":"]).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let hook = move || super::enter::enter_view(&view);
    // SAFETY: the hook makes system calls only.
    unsafe { command.pre_exec(hook) };
    command.status().is_ok_and(|status| status.success())
}
