//! What running commands cost, from `/proc`.

/// Ticks a second of the times in `/proc`: fixed at 100 for user space on every Linux architecture we build for.
const TICKS_A_SECOND: f64 = 100.0;

/// Processor time and memory of all processes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Seconds of processor time so far.
    pub cpu_seconds: f64,
    /// Resident memory now.
    pub rss_kb: u64,
}

/// The usage of the session whose leader is `leader`.
pub fn of_session(leader: u32) -> Usage {
    let mut total = Usage::default();
    let Ok(entries) = std::fs::read_dir("/proc") else { return total };
    for entry in entries.flatten() {
        let is_process =
            entry.file_name().to_str().is_some_and(|name| name.bytes().all(|c| c.is_ascii_digit()));
        if !is_process {
            continue;
        }
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(usage) = parse(&stat, leader) {
            total.cpu_seconds += usage.cpu_seconds;
            total.rss_kb += usage.rss_kb;
        }
    }
    total
}

/// `PID (NAME) STATE PPID PGRP SESSION …`, proc(5). The name may hold anything, so the fields begin after its last `)`.
fn parse(stat: &str, leader: u32) -> Option<Usage> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    if number(3)? != u64::from(leader) {
        return None;
    }
    // SAFETY: reads a constant of the system.
    let page_kb = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64 / 1024;
    Some(Usage {
        cpu_seconds: (number(11)? + number(12)?) as f64 / TICKS_A_SECOND,
        rss_kb: number(21)? * page_kb,
    })
}
