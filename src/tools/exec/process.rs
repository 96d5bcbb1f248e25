//! A child process and its group.

use std::{io, process::ExitStatus};

use rustix::process::{Pid, Signal};
use tokio::process::Child;

/// A process that leads its group. While it has not been waited for its id is its own, so only then it is signalled;
/// what is left of the group when this is dropped early is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    /// Takes over a child that made itself the leader of a group.
    pub fn new(child: Child) -> Process {
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        Process { child, group }
    }

    /// Signals the whole group, if its leader has not been waited for.
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails only when all of them have ended.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Waits for the leader.
    ///
    /// *Cancel safety*: a dropped call loses nothing.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.group = None;
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
