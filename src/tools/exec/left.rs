//! Processes that commands have left behind: children in the background, also those with a session of their own, and
//! what a server that was killed could not end.
//!
//! A signal to the group of a command misses them, so every command carries a mark in its environment, which its
//! children inherit, and they are found by it: `SERVER/THREAD/OWNER/COMMAND`. A program that makes its environment anew
//! is out of reach. All of this reads `/proc`, and blocks.

use std::{
    fs,
    os::fd::{AsRawFd, OwnedFd},
    sync::OnceLock,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that holds the mark.
pub const VARIABLE: &str = "THREADKEEP_COMMAND";

/// A process may fork while it is looked for; so often it is looked again.
const ROUNDS_MAX: usize = 16;

/// How long the end of a killed process is awaited; one in the midst of a slow system call takes its time.
const END_MS: libc::c_int = 1_000;

/// The first part of the marks of this process: its id, its start, and the namespace in which the id counts.
pub fn server() -> &'static str {
    static SERVER: OnceLock<String> = OnceLock::new();
    SERVER.get_or_init(|| {
        let id = std::process::id();
        format!("{id}.{}.{}", started(&id.to_string()).unwrap_or_default(), namespace())
    })
}

/// Kills the processes whose mark begins so, and waits until they are gone.
pub fn kill(mark: &str) {
    kill_all(|found| found.starts_with(mark));
}

/// Kills what the commands of servers that are gone have left; if this process is one of them, not its relatives.
pub fn kill_orphans() {
    let namespace = namespace();
    let own = std::env::var(VARIABLE).ok();
    kill_all(|mark| {
        if own.as_deref() == Some(mark) {
            return false;
        }
        let mut server = mark.split('/').next().unwrap_or_default().splitn(3, '.');
        let (Some(id), Some(start), Some(place)) = (server.next(), server.next(), server.next()) else {
            return false;
        };
        // Elsewhere the id is another process's.
        place == namespace && !start.is_empty() && started(id).as_deref() != Some(start)
    });
}

fn kill_all(is_wanted: impl Fn(&str) -> bool) {
    for _ in 0..ROUNDS_MAX {
        let found = find(&is_wanted);
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

fn find(is_wanted: impl Fn(&str) -> bool) -> Vec<OwnedFd> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            is_wanted(&mark_of(id)?).then_some(())?;
            // Held by a descriptor its id cannot pass to another process, so that the second look is the true one.
            let process = pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()).ok()?;
            is_wanted(&mark_of(id)?).then_some(process)
        })
        .collect()
}

fn mark_of(id: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{id}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let mark = variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(mark.to_vec()).ok()
    })
}

/// When a process that runs was started, in ticks: field 22 of proc(5)'s stat. Its name may hold anything, so the fields
/// are counted from behind it.
fn started(id: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let has_ended = matches!(state, "Z" | "X");
    fields.nth(18).filter(|_| !has_ended).map(str::to_owned)
}

fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// A descriptor of a process is readable when it has ended.
fn wait(process: &OwnedFd) {
    let mut waited = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, whose descriptor is open as long as it is borrowed.
    unsafe { libc::poll(&raw mut waited, 1, END_MS) };
}
