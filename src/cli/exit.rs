//! Exit codes, all in one place; the README has them too.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Good,
    /// It failed; stderr says why.
    Failed,
    /// The command line cannot be understood.
    Usage,
    /// It went on, and some of it was skipped or differs; the output says what.
    Partial,
    /// What was asked for is not there.
    NotFound,
    /// The turn failed or was interrupted.
    TurnFailed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::Usage | Exit::Partial => 2,
            Exit::NotFound => 3,
            Exit::TurnFailed => 4,
        })
    }
}

/// Print why a command failed. A broken pipe is success: whoever read has seen enough.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe);
    if broken_pipe {
        return Exit::Good.into();
    }
    eprintln!("Error: {error:#}");
    Exit::Failed.into()
}
