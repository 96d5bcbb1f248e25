//! Processes that commands have left behind: children in the background, also those with a session of their own.
//!
//! A signal to the group of a command misses them, so every command carries a mark in its environment, which its
//! children inherit, and they are found by it. A program that makes its environment anew is out of reach.

use std::{
    fs, io,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that holds the mark.
pub const VARIABLE: &str = "THREADKEEP_COMMAND";

/// A process may fork while it is looked for; so often it is looked again.
const ROUNDS_MAX: usize = 16;

/// How long the end of a killed process is awaited; one in the midst of a slow system call takes its time.
const END_MS: libc::c_int = 1_000;

/// Kills the processes whose mark begins so, and waits until they are gone. It blocks.
pub fn kill(mark: &str) {
    let wanted = format!("{VARIABLE}={mark}").into_bytes();
    for _ in 0..ROUNDS_MAX {
        let found = find(&wanted);
        if found.is_empty() {
            return;
        }
        for process in &found {
            // It fails only when the process has ended.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        for process in &found {
            wait(process);
        }
    }
    tracing::warn!("a command has left processes that come back as fast as they are killed");
}

fn find(wanted: &[u8]) -> Vec<OwnedFd> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            has_mark(id, wanted).then_some(())?;
            // Held by a descriptor its id cannot pass to another process, so that the second look is the true one.
            let process = pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()).ok()?;
            has_mark(id, wanted).then_some(process)
        })
        .collect()
}

fn has_mark(id: i32, wanted: &[u8]) -> bool {
    let environment: io::Result<Vec<u8>> = fs::read(format!("/proc/{id}/environ"));
    environment.is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(wanted))
    })
}

/// A descriptor of a process is readable when it has ended.
fn wait(process: &OwnedFd) {
    let mut waited = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, whose descriptor is open as long as it is borrowed.
    unsafe { libc::poll(&raw mut waited, 1, END_MS) };
}
