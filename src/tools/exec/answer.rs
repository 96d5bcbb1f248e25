//! The tools' arguments, and what the model is told of a command.

use std::time::Duration;

use serde::Deserialize;

use super::{
    output::{tokens, truncate},
    session::{Collected, Exit},
};

/// Arguments of `exec_command`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ExecArguments {
    /// The command text for the shell.
    pub cmd: String,
    /// The folder to run in, absolute or relative to the thread's.
    #[serde(default)]
    pub workdir: Option<String>,
    /// Another shell than the default.
    #[serde(default)]
    pub shell: Option<String>,
    /// Whether the shell is a login shell; it is by default.
    #[serde(default)]
    pub login: Option<bool>,
    /// Whether to run on a terminal.
    #[serde(default)]
    pub tty: bool,
    /// How long to wait before the call is answered.
    #[serde(default)]
    pub yield_time_ms: Option<f64>,
    /// The budget for the output in the answer.
    #[serde(default)]
    pub max_output_tokens: Option<f64>,
    /// `use_default` or `require_escalated`.
    #[serde(default)]
    pub sandbox_permissions: Option<String>,
    /// Why it needs to be escalated.
    #[serde(default)]
    pub justification: Option<String>,
    /// What to allow from now on, as a proposal.
    #[serde(default)]
    pub prefix_rule: Option<Vec<String>>,
}

/// Arguments of `write_stdin`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WriteStdinArguments {
    /// The number that `exec_command` answered.
    pub session_id: i64,
    /// What to write; empty to just look for more output.
    #[serde(default)]
    pub chars: String,
    /// How long to wait before the call is answered.
    #[serde(default)]
    pub yield_time_ms: Option<f64>,
    /// The budget for the output in the answer.
    #[serde(default)]
    pub max_output_tokens: Option<f64>,
}

/// Arguments of `shell_command`, the older form that waits for the end.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ShellCommandArguments {
    /// The command text for the shell.
    pub command: String,
    /// The folder to run in.
    #[serde(default)]
    pub workdir: Option<String>,
    /// When to end it.
    #[serde(default)]
    pub timeout_ms: Option<f64>,
    /// `use_default` or `require_escalated`.
    #[serde(default)]
    pub sandbox_permissions: Option<String>,
    /// Why it needs to be escalated.
    #[serde(default)]
    pub justification: Option<String>,
    /// What to allow from now on, as a proposal.
    #[serde(default)]
    pub prefix_rule: Option<Vec<String>>,
}

/// The output budget of an answer when the model names none.
pub const OUTPUT_TOKENS_DEFAULT: usize = 10_000;

/// How long `exec_command` waits.
pub fn exec_wait(yield_time_ms: Option<f64>) -> Duration {
    millis(yield_time_ms.unwrap_or(10_000.0).clamp(250.0, 30_000.0))
}

/// How long `write_stdin` waits; a mere look may wait longer than a keystroke.
pub fn write_wait(chars: &str, yield_time_ms: Option<f64>) -> Duration {
    let max = if chars.is_empty() { 300_000.0 } else { 30_000.0 };
    millis(yield_time_ms.unwrap_or(if chars.is_empty() { 5_000.0 } else { 250.0 }).clamp(250.0, max))
}

/// When `shell_command` ends its command.
pub fn shell_timeout(timeout_ms: Option<f64>) -> Duration {
    millis(timeout_ms.unwrap_or(10_000.0).clamp(1.0, 3_600_000.0))
}

fn millis(value: f64) -> Duration {
    Duration::from_millis(value as u64)
}

/// What the model is told. `chunk_id` is any short word that no other answer has.
pub fn answer(
    collected: &Collected,
    session_id: i64,
    chunk_id: &str,
    max_output_tokens: Option<f64>,
) -> String {
    let state = match &collected.exit {
        None => format!("Process running with session ID {session_id}"),
        Some(Exit::TimedOut) => {
            String::from("Process exited with code 124 (it was ended because its time was over)")
        }
        Some(exit) => format!("Process exited with code {}", exit.code()),
    };
    let max = max_output_tokens
        .map_or(OUTPUT_TOKENS_DEFAULT, |max| (max.max(0.0) as usize).min(OUTPUT_TOKENS_DEFAULT));
    format!(
        "Chunk ID: {chunk_id}\nWall time: {:.4} seconds\n{state}\nOriginal token count: {}\nOutput:\n{}",
        collected.waited.as_secs_f64(),
        tokens(collected.output_bytes),
        truncate(&collected.output, max),
    )
}

/// What the model is told of a finished `shell_command` (or of a user's own command).
pub fn shell_answer(output: &str, exit: &Exit, took: Duration) -> String {
    let output = truncate(output, OUTPUT_TOKENS_DEFAULT);
    let code = exit.code();
    let late = if *exit == Exit::TimedOut { "command timed out\n" } else { "" };
    format!("Exit code: {code}\nWall time: {:.1} seconds\nOutput:\n{late}{output}", took.as_secs_f64())
}

/// What the model is told when a command could not be started or was refused; `problem` is for people.
pub fn refused(problem: &str) -> String {
    format!("exec_command failed: CreateProcess {{ message: {problem:?} }}")
}

/// What the model is told when the user or a rule said no.
pub fn rejected(reason: &str) -> String {
    refused(&format!("Rejected({reason:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_as_the_model_knows_them() {
        assert_eq!(
            rejected("rejected by user"),
            r#"exec_command failed: CreateProcess { message: "Rejected(\"rejected by user\")" }"#
        );
    }

    #[test]
    fn an_answer_has_the_code_or_the_session() {
        let mut collected = Collected {
            output: "before\n".into(),
            output_bytes: 7,
            exit: Some(Exit::Code(3)),
            waited: Duration::from_micros(578_300),
        };
        assert_eq!(
            answer(&collected, 7, "b15a3d", None),
            "Chunk ID: b15a3d\nWall time: 0.5783 seconds\nProcess exited with code 3\nOriginal token count: 2\nOutput:\nbefore\n"
        );
        collected.exit = None;
        assert!(answer(&collected, 7, "b15a3d", None).contains("\nProcess running with session ID 7\n"));
    }

    #[test]
    fn a_missing_argument_is_named() {
        let error = crate::tools::arguments::<ExecArguments>("{}").unwrap_err();
        assert_eq!(error, "failed to parse function arguments: missing field `cmd` at line 1 column 2");
    }
}
