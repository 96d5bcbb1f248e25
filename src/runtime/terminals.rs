//! Commands that run in the background (`thread/backgroundTerminals/*`), and a user's own (`thread/shellCommand`):
//! `protocol/turns.md`, sections 8 and 12.

use std::sync::Arc;
use std::time::Duration;

use super::Runtime;
use super::client::Request;
use super::error::{Result, RuntimeError};
use super::reading::handle_of;
use super::thread::Command;
use super::turn::user_shell::UserCommand;
use crate::protocol::thread::{
    ThreadBackgroundTerminal, ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsListParams,
    ThreadBackgroundTerminalsListResponse, ThreadBackgroundTerminalsTerminateParams,
    ThreadShellCommandParams,
};
use crate::tools::exec::session::Listed;
use crate::tools::exec::shell::display;

/// How many terminals a page has when the client does not say.
const PAGE: u32 = 50;

impl Runtime {
    /// `thread/shellCommand`.
    ///
    /// # Errors
    /// The thread is not loaded, the command is empty, or the time is negative.
    pub async fn user_command(
        self: &Arc<Self>,
        params: ThreadShellCommandParams,
        request: &Arc<dyn Request>,
    ) -> Result<()> {
        let handle = handle_of(self, &params.thread_id)?;
        if params.command.trim().is_empty() {
            return Err(RuntimeError::invalid("command must not be empty"));
        }
        let timeout = match params.timeout_ms {
            None => None,
            Some(ms) => {
                Some(u64::try_from(ms).map(Duration::from_millis).map_err(|_| RuntimeError::Limit {
                    message: format!("thread/shellCommand timeoutMs must be non-negative, got {ms}"),
                    data: None,
                })?)
            }
        };
        let command = UserCommand { text: params.command, timeout };
        let request = request.clone();
        handle.ask(|reply| Command::UserCommand(command, request, reply)).await
    }

    /// `thread/backgroundTerminals/list`: by process id, which is also the cursor.
    ///
    /// # Errors
    /// The thread is not loaded, or the cursor is none.
    pub fn list_terminals(
        self: &Arc<Self>,
        params: &ThreadBackgroundTerminalsListParams,
    ) -> Result<ThreadBackgroundTerminalsListResponse> {
        let handle = handle_of(self, &params.thread_id)?;
        let after = match &params.cursor {
            None => i64::MIN,
            Some(cursor) => {
                cursor.parse().map_err(|_| RuntimeError::invalid(format!("invalid cursor: {cursor}")))?
            }
        };
        let limit = params.limit.unwrap_or(PAGE).max(1) as usize;
        let mut rest = handle.tools().sessions.list().into_iter().filter(|listed| listed.id > after);
        let data: Vec<ThreadBackgroundTerminal> = rest.by_ref().take(limit).map(to_wire).collect();
        let next_cursor = rest.next().and(data.last().map(|last| last.process_id.clone()));
        Ok(ThreadBackgroundTerminalsListResponse { data, next_cursor })
    }

    /// `thread/backgroundTerminals/terminate`: whether one was running.
    ///
    /// # Errors
    /// The thread is not loaded.
    pub fn terminate_terminal(
        self: &Arc<Self>,
        params: &ThreadBackgroundTerminalsTerminateParams,
    ) -> Result<bool> {
        let handle = handle_of(self, &params.thread_id)?;
        Ok(params.process_id.parse().is_ok_and(|id| handle.tools().sessions.terminate(id)))
    }

    /// `thread/backgroundTerminals/clean`: end them all.
    ///
    /// # Errors
    /// The thread is not loaded.
    pub fn clean_terminals(self: &Arc<Self>, params: &ThreadBackgroundTerminalsCleanParams) -> Result<()> {
        handle_of(self, &params.thread_id)?.tools().sessions.terminate_all();
        Ok(())
    }
}

fn to_wire(listed: Listed) -> ThreadBackgroundTerminal {
    ThreadBackgroundTerminal {
        command: display(&listed.argv),
        cpu_percent: Some(listed.cpu_percent),
        cwd: listed.cwd.display().to_string(),
        item_id: listed.label,
        os_pid: Some(listed.os_pid),
        process_id: listed.id.to_string(),
        rss_kb: Some(listed.rss_kb),
    }
}
