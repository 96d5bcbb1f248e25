//! (module cli: to be written)
use std::process::ExitCode;
/// Run the command line.
pub fn run() -> ExitCode {
    ExitCode::SUCCESS
}
