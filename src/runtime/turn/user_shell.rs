//! A user's own command (`thread/shellCommand`; `protocol/turns.md`, section 8): no sandbox, no question.
//!
//! On an idle thread it is a turn of its own, without the model. While a turn runs it belongs to that turn: the turn
//! waits for it, and the model hears of it before the turn ends.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::TurnContext;
use super::steering::Job;
use crate::protocol::error::TurnError;
use crate::runtime::calls::Stop;
use crate::runtime::calls::command::{self, Command, USER_SHELL};
use crate::tools::exec::answer::shell_answer;
use crate::tools::exec::shell::wrap;

/// A command that a user typed.
#[derive(Clone, Debug)]
pub struct UserCommand {
    /// As it was typed.
    pub text: String,
    /// When it is ended; never when `None`.
    pub timeout: Option<Duration>,
}

/// Run it to its end: what the model is told of it.
pub(in crate::runtime) async fn run(turn: &Arc<TurnContext>, command: &UserCommand) -> Result<Value, Stop> {
    let spec = Command {
        id: turn.runtime.clock.new_id().to_string(),
        text: command.text.clone(),
        argv: wrap(&command.text, None, true),
        cwd: turn.settings.cwd.clone().into(),
        tty: false,
        timeout: command.timeout,
        source: USER_SHELL,
    };
    let result = match command::start_free(turn, spec).await {
        Err(problem) => problem,
        Ok(session) => {
            let (output, exit, took) = command::to_the_end(turn, &session).await?;
            shell_answer(&output, &exit, took)
        }
    };
    let text = format!(
        "<user_shell_command>\n<command>\n{}\n</command>\n<result>\n{result}\n</result>\n</user_shell_command>",
        command.text
    );
    Ok(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}))
}

/// Run it beside the turn that runs; `job` keeps that turn from ending before.
pub(in crate::runtime) fn join(turn: Arc<TurnContext>, command: UserCommand, job: Job) {
    tokio::spawn(async move {
        match run(&turn, &command).await {
            Ok(message) => job.done(message),
            Err(Stop::Interrupted) => {}
            Err(Stop::Failed(TurnError { message, .. })) => {
                tracing::error!(error = %message, "a user's command could not be recorded");
            }
        }
    });
}
