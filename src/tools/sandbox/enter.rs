//! The part of the sandbox that runs in the child, between fork and exec.
//!
//! **Invariant:** system calls on prepared values only: no allocation, no lock, no unwinding. Another thread of the
//! server may have held the allocator's lock at the moment of the fork.

use std::{ffi::CStr, io, os::fd::AsRawFd};

use super::prepare::{Sandbox, View};

/// The first half: the view of the file system. It changes credentials, which takes a parent-death signal away, so
/// that must be set after it.
pub fn enter_namespace(sandbox: &Sandbox) -> io::Result<()> {
    sandbox.view.as_ref().map_or(Ok(()), enter_view)
}

/// The second half, and the last thing before exec: from here on the limits hold, and cannot be taken back.
pub fn restrict(sandbox: &Sandbox) -> io::Result<()> {
    drop_capabilities(sandbox.capabilities)?;
    // SAFETY: numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    // SAFETY: a descriptor and a number.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, sandbox.ruleset.as_raw_fd(), 0) })?;
    for filter in &sandbox.filters {
        seccompiler::apply_filter(filter).map_err(|_| io::Error::last_os_error())?;
    }
    Ok(())
}

pub(super) fn enter_view(view: &View) -> io::Result<()> {
    // SAFETY: numbers only.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } == 0 {
        write_file(c"/proc/self/setgroups", c"deny")?;
        write_file(c"/proc/self/uid_map", &view.uid_map)?;
        write_file(c"/proc/self/gid_map", &view.gid_map)?;
    } else {
        // Where user namespaces are off, root can still have a mount namespace.
        // SAFETY: numbers only.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
    }
    mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE)?;
    for path in &view.read_only {
        mount(Some(path), path, libc::MS_BIND | libc::MS_REC)?;
        make_read_only(path)?;
    }
    // The working folder may lie below one of them; until now it is the one underneath.
    // SAFETY: a text that ends in a null byte.
    check(unsafe { libc::chdir(view.cwd.as_ptr()) }.into())
}

fn mount(from: Option<&CStr>, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let null = std::ptr::null();
    let from = from.map_or(null, CStr::as_ptr);
    // SAFETY: texts that end in a null byte, or null where the kernel takes none.
    check(unsafe { libc::mount(from, to.as_ptr(), null, flags, null.cast()) }.into())
}

fn make_read_only(path: &CStr) -> io::Result<()> {
    const AT_RECURSIVE: libc::c_uint = 0x8000;
    const MOUNT_ATTR_RDONLY: u64 = 1;
    // attr_set, attr_clr, propagation, userns_fd
    let attributes: [u64; 4] = [MOUNT_ATTR_RDONLY, 0, 0, 0];
    // SAFETY: a text that ends in a null byte, and a structure of the size that is told.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            AT_RECURSIVE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    })
}

fn write_file(path: &CStr, content: &CStr) -> io::Result<()> {
    let content = content.to_bytes();
    // SAFETY: a text that ends in a null byte; a descriptor of ours, and a buffer with its length.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(file.into())?;
        let written = libc::write(file, content.as_ptr().cast(), content.len());
        let result = check(written as libc::c_long);
        libc::close(file);
        result
    }
}

/// Keeps of the capabilities only those in `kept`. Exec cannot bring the others back, since no new privileges are given.
fn drop_capabilities(kept: u64) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    // effective, permitted, inheritable; lower half, then upper half
    let mut sets = [0_u32; 6];
    // SAFETY: a header and two sets as version 3 has them.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) })?;
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    let [_, low_permitted, _, _, high_permitted, _] = sets;
    let sets = [low & low_permitted, low & low_permitted, 0, high & high_permitted, high & high_permitted, 0];
    // SAFETY: as above; then numbers only.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
