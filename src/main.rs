//! The binary: flags, `cli::run`, exit code. Everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    threadkeep::cli::run()
}
