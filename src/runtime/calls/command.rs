//! Commands of the model: `exec_command`, `write_stdin`, `shell_command` (`protocol/turns.md`, section 6;
//! `protocol/model-api.md`, section 3).
//!
//! A command is a session of the thread (`tools::exec::session`) with one item, however many calls look at it. A task
//! follows it (`follow`): it tells the output as it comes and records the item at the end, also when the turn is over
//! by then. A call that saw the end waits for that record, so that the item is complete before the model goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::super::asking::Waiting;
use super::super::turn::TurnContext;
use super::{Call, CallError, Output, Stop, ThreadTools, judge, patch};
use crate::protocol::approval::{
    CommandExecutionApprovalDecision as Decision,
    CommandExecutionApprovalDecisionAcceptWithExecpolicyAmendment as Amendment, CommandExecutionApprovalKind,
    CommandExecutionRequestApprovalParams, CommandExecutionRequestApprovalResponse,
};
use crate::protocol::item::{CommandAction, CommandExecutionOutputDeltaNotification};
use crate::tools::approval::{self, CommandTraits, Verdict};
use crate::tools::command::actions::{Action, actions};
use crate::tools::command::rules::Rules;
use crate::tools::command::{danger, proposed_amendment};
use crate::tools::exec::answer::{
    self, ExecArguments, ShellCommandArguments, WriteStdinArguments, exec_wait, refused, rejected,
    shell_timeout, write_wait,
};
use crate::tools::exec::session::{Event, Exit, Session, Spec};
use crate::tools::exec::shell::{display, wrap};
use crate::tools::patch::heredoc;
use crate::tools::{self};

/// Events of a command that may wait for its follower.
const EVENTS_MAX: usize = 256;

/// A running command as the thread's tools know it.
#[derive(Debug)]
pub struct Running {
    item_id: String,
    turn_id: String,
    /// Its end is recorded and told.
    recorded: watch::Receiver<bool>,
}

/// A command before it runs.
pub(in super::super) struct Command {
    /// Id of its item.
    pub(in super::super) id: String,
    /// As it was written.
    pub(in super::super) text: String,
    pub(in super::super) argv: Vec<String>,
    pub(in super::super) cwd: PathBuf,
    pub(in super::super) tty: bool,
    pub(in super::super) timeout: Option<Duration>,
    /// `source` of the item.
    pub(in super::super) source: &'static str,
}

/// What the model asks for beyond the sandbox.
struct Wish {
    escalated: bool,
    justification: Option<String>,
    prefix_rule: Option<Vec<String>>,
}

pub(super) async fn exec_command(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: ExecArguments = tools::arguments(call.input)?;
    let cwd = folder(turn, arguments.workdir.as_deref());
    if let Some(found) = heredoc::find(&arguments.cmd) {
        return patch::heredoc(turn, call, &found, &cwd).await;
    }
    let argv = wrap(&arguments.cmd, arguments.shell.as_deref(), arguments.login.unwrap_or(true));
    let command = Command {
        id: call.id.to_owned(),
        text: arguments.cmd,
        argv,
        cwd,
        tty: arguments.tty,
        timeout: None,
        source: "unifiedExecStartup",
    };
    let wish = Wish {
        escalated: arguments.sandbox_permissions.as_deref() == Some("require_escalated"),
        justification: arguments.justification,
        prefix_rule: arguments.prefix_rule,
    };
    let session = allow_and_start(turn, command, wish).await?;
    look(turn, &session, exec_wait(arguments.yield_time_ms), arguments.max_output_tokens).await
}

pub(super) async fn write_stdin(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: WriteStdinArguments = tools::arguments(call.input)?;
    let failed = |error: &dyn std::fmt::Display| format!("write_stdin failed: {error}");
    let session = turn.tools.sessions.session(arguments.session_id).map_err(|error| failed(&error))?;
    if !arguments.chars.is_empty() {
        let told = turn.tools.running().get(&session.id).map(|running| {
            json!({"threadId": &*turn.notify.thread_id, "turnId": running.turn_id, "itemId": running.item_id,
                "processId": session.id.to_string(), "stdin": arguments.chars})
        });
        // A command that does not read takes in no more than its terminal holds.
        let written = tokio::select! {
            biased;
            written = session.write(&arguments.chars) => written,
            _ = session.ended() => Ok(()),
            () = turn.cancel.cancelled() => return Err(Stop::Interrupted.into()),
        };
        written.map_err(|error| failed(&error))?;
        if let Some(params) = told {
            turn.tell(turn.notify.event("item/commandExecution/terminalInteraction", &params));
        }
    }
    let wait = write_wait(&arguments.chars, arguments.yield_time_ms);
    look(turn, &session, wait.min(turn.config.background_terminal_max_timeout), arguments.max_output_tokens)
        .await
}

pub(super) async fn shell_command(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: ShellCommandArguments = tools::arguments(call.input)?;
    let cwd = folder(turn, arguments.workdir.as_deref());
    if let Some(found) = heredoc::find(&arguments.command) {
        return patch::heredoc(turn, call, &found, &cwd).await;
    }
    let command = Command {
        id: call.id.to_owned(),
        argv: wrap(&arguments.command, None, true),
        text: arguments.command,
        cwd,
        tty: false,
        timeout: Some(shell_timeout(arguments.timeout_ms)),
        source: "unifiedExecStartup",
    };
    let wish = Wish {
        escalated: arguments.sandbox_permissions.as_deref() == Some("require_escalated"),
        justification: arguments.justification,
        prefix_rule: arguments.prefix_rule,
    };
    let session = allow_and_start(turn, command, wish).await?;
    let (output, exit, took) = to_the_end(turn, &session).await?;
    Ok(json!(answer::shell_answer(&output, &exit, took)))
}

/// Wait until a command has ended and that is recorded: its output, its end, and how long the wait was.
pub(in super::super) async fn to_the_end(
    turn: &TurnContext,
    session: &Session,
) -> Result<(String, Exit, Duration), Stop> {
    tokio::select! {
        biased;
        _ = session.ended() => {}
        () = turn.cancel.cancelled() => return Err(Stop::Interrupted),
    }
    let collected = session.collect(Duration::ZERO).await;
    recorded(turn, session).await;
    turn.tools.sessions.forget(session.id);
    Ok((collected.output, collected.exit.unwrap_or(Exit::Terminated), session.took()))
}

fn folder(turn: &TurnContext, workdir: Option<&str>) -> PathBuf {
    let cwd = Path::new(&turn.settings.cwd);
    workdir.filter(|dir| !dir.is_empty()).map_or_else(|| cwd.to_owned(), |dir| super::path_in(cwd, dir))
}

/// Look at a command for a while, and tell the model what came.
async fn look(
    turn: &Arc<TurnContext>,
    session: &Session,
    wait: Duration,
    max_output_tokens: Option<f64>,
) -> Output {
    let collected = tokio::select! {
        biased;
        collected = session.collect(wait) => collected,
        () = turn.cancel.cancelled() => return Err(Stop::Interrupted.into()),
    };
    if collected.exit.is_some() {
        recorded(turn, session).await;
        turn.tools.sessions.forget(session.id);
    }
    let limit = turn.config.tool_output_token_limit.map(|limit| limit as f64);
    let most = match (max_output_tokens, limit) {
        (Some(asked), Some(limit)) => Some(asked.min(limit)),
        (asked, limit) => asked.or(limit),
    };
    Ok(json!(answer::answer(&collected, session.id, &turn.tools.sessions.chunk_id(), most)))
}

/// Wait until the end of a command is recorded and told.
async fn recorded(turn: &TurnContext, session: &Session) {
    let running = turn.tools.running().get(&session.id).map(|running| running.recorded.clone());
    if let Some(mut recorded) = running {
        // Its follower is gone when this fails, so that nothing more comes.
        let _ = recorded.wait_for(|recorded| *recorded).await;
    }
}

// Whether it may run ------------------------------------------------------------------------------------------------

/// Start a command if that is allowed, asking the clients where that is due.
async fn allow_and_start(
    turn: &Arc<TurnContext>,
    command: Command,
    wish: Wish,
) -> Result<Session, CallError> {
    let (rules, problems) = Rules::load(turn.runtime.config.home().path());
    for problem in problems {
        tracing::warn!(%problem, "a rule for commands is left out");
    }
    let traits = CommandTraits {
        escalated: wish.escalated,
        danger: danger::reason(&command.text),
        rule: rules.decide(&command.text, &command.argv),
    };
    let verdict = approval::command(judge::policy(turn), judge::mode(turn), traits, &command.text);
    let key = (command.argv.clone(), command.cwd.clone(), wish.escalated);
    match verdict {
        Verdict::Refuse(text) => Err(text.into()),
        Verdict::Run { confined } => Ok(start(turn, command, confined, false).await?),
        Verdict::Ask { confined } if turn.tools.allowed().commands.contains(&key) => {
            Ok(start(turn, command, confined, false).await?)
        }
        Verdict::Ask { confined } => {
            let item = Item::new(&command, turn.runtime.clock.now_ms());
            turn.announce(&item.wire("inProgress", "agent"));
            match ask(turn, &command, &wish, &rules, item.at_ms).await? {
                Decided::Run => Ok(start(turn, command, confined, true).await?),
                Decided::Not { status, text, ends_turn } => {
                    item.tell_end(turn, status);
                    if ends_turn {
                        turn.cancel.cancel();
                        return Err(Stop::Interrupted.into());
                    }
                    Err(text.into())
                }
            }
        }
    }
}

enum Decided {
    Run,
    Not { status: &'static str, text: String, ends_turn: bool },
}

async fn ask(
    turn: &Arc<TurnContext>,
    command: &Command,
    wish: &Wish,
    rules: &Rules,
    started_at_ms: i64,
) -> Result<Decided, Stop> {
    let proposed = proposed_amendment(&command.text, &command.argv, wish.prefix_rule.as_deref());
    let amend = Decision::AcceptWithExecpolicyAmendment(Amendment { execpolicy_amendment: proposed.clone() });
    let params = CommandExecutionRequestApprovalParams {
        additional_permissions: None,
        approval_id: None,
        available_decisions: Some(vec![Decision::Accept, amend, Decision::Cancel]),
        command: Some(display(&command.argv)),
        command_actions: Some(wire_actions(command)),
        cwd: Some(command.cwd.display().to_string()),
        environment_id: Some("local".to_owned()),
        item_id: command.id.clone(),
        kind: CommandExecutionApprovalKind::Command,
        network_approval_context: None,
        proposed_execpolicy_amendment: Some(proposed),
        proposed_network_policy_amendments: None,
        reason: wish.justification.clone(),
        started_at_ms,
        thread_id: turn.notify.thread_id.to_string(),
        turn_id: turn.turn.id.clone(),
    };
    let method = "item/commandExecution/requestApproval";
    let Some(answer) = turn.asking.ask(method, Waiting::Approval, &params).await else {
        return Err(Stop::Interrupted);
    };
    let decision = answer
        .ok()
        .and_then(|answer| serde_json::from_value::<CommandExecutionRequestApprovalResponse>(answer).ok())
        .map(|response| response.decision);
    let declined = |text: &str, status, ends_turn| Decided::Not { status, text: rejected(text), ends_turn };
    Ok(match decision {
        Some(Decision::Accept | Decision::ApplyNetworkPolicyAmendment(_)) => Decided::Run,
        Some(Decision::AcceptForSession) => {
            let key = (command.argv.clone(), command.cwd.clone(), wish.escalated);
            turn.tools.allowed().commands.insert(key);
            Decided::Run
        }
        Some(Decision::AcceptWithExecpolicyAmendment(amendment)) => {
            let home = turn.runtime.config.home().path();
            if let Err(error) = rules.clone().allow(home, &amendment.execpolicy_amendment) {
                tracing::error!(%error, "a rule that a client gave could not be kept; the command runs this once");
            }
            Decided::Run
        }
        Some(Decision::Decline) => declined("rejected by user", "declined", false),
        Some(Decision::Cancel) => declined("rejected by user", "declined", true),
        None => declined("approval request failed", "failed", false),
    })
}

// Running -----------------------------------------------------------------------------------------------------------

/// Start a command and the task that follows it. `announced`: its item was shown with the question.
///
/// # Errors
/// The text that tells the model why it could not start.
async fn start(
    turn: &Arc<TurnContext>,
    command: Command,
    confined: bool,
    announced: bool,
) -> Result<Session, String> {
    let (events, received) = mpsc::channel(EVENTS_MAX);
    let policy = &turn.config.shell_environment_policy;
    let is_users = command.source == USER_SHELL;
    let spec = Spec {
        argv: command.argv.clone(),
        cwd: command.cwd.clone(),
        environment: if is_users { policy.environment() } else { policy.environment_for_model() },
        tty: command.tty,
        timeout: command.timeout,
        confinement: if confined { judge::confinement(turn) } else { None },
        label: command.id.clone(),
        owner: turn.turn.id.clone(),
    };
    let mut item = Item::new(&command, turn.runtime.clock.now_ms());
    let session = match turn.tools.sessions.start(spec, events).await {
        Ok(session) => session,
        Err(error) => {
            if announced {
                item.tell_end(turn, "failed");
            }
            return Err(refused(&error.to_string()));
        }
    };
    item.process_id = (!is_users).then_some(session.id);
    let shown = item.wire("inProgress", item.source);
    if announced {
        turn.item_goes_on(&shown);
    } else {
        turn.item_started(&shown);
    }
    let (recorded, seen) = watch::channel(false);
    turn.tools.running().insert(
        session.id,
        Running { item_id: command.id.clone(), turn_id: turn.turn.id.clone(), recorded: seen },
    );
    if turn.cancel.is_cancelled() {
        // The interrupt may have looked for the turn's commands before this one was among them.
        session.kill();
    }
    tokio::spawn(follow(turn.clone(), item, session.id, received, recorded));
    Ok(session)
}

/// `source` of a user's own command.
pub(in super::super) const USER_SHELL: &str = "userShell";

/// Start a command without asking and without a sandbox: a user's own.
///
/// # Errors
/// The text that says why it could not start.
pub(in super::super) async fn start_free(
    turn: &Arc<TurnContext>,
    command: Command,
) -> Result<Session, String> {
    start(turn, command, false, false).await
}

/// Tell what a command says, and record its end.
async fn follow(
    turn: Arc<TurnContext>,
    item: Item,
    session_id: i64,
    mut events: mpsc::Receiver<Event>,
    recorded: watch::Sender<bool>,
) {
    let id: Arc<str> = item.id.as_str().into();
    while let Some(event) = events.recv().await {
        match event {
            Event::Output(delta) => {
                let params = CommandExecutionOutputDeltaNotification {
                    delta,
                    item_id: item.id.clone(),
                    thread_id: turn.notify.thread_id.to_string(),
                    turn_id: turn.turn.id.clone(),
                };
                turn.tell(turn.notify.delta("item/commandExecution/outputDelta", &id, &params));
            }
            Event::Ended { exit, aggregated, took } => {
                if let Err(error) = turn.item_done(item.ended(&exit, aggregated, took)).await {
                    tracing::error!(error = %error.message, "the end of a command could not be recorded");
                }
                break;
            }
        }
    }
    turn.tools.running().remove(&session_id);
    let _ = recorded.send(true);
}

/// End the commands that a turn started with all that they left behind, and wait until that is recorded.
pub(in super::super) async fn end_those_of(turn: &TurnContext) {
    end(&turn.tools, |turn_id| turn_id == turn.turn.id).await;
    turn.tools.sessions.kill_left(&turn.turn.id).await;
}

/// End the commands of these turns, and wait until that is recorded.
pub(super) async fn end(tools: &ThreadTools, is_meant: impl Fn(&str) -> bool) {
    let meant: Vec<(i64, watch::Receiver<bool>)> = tools
        .running()
        .iter()
        .filter(|(_, running)| is_meant(&running.turn_id))
        .map(|(id, running)| (*id, running.recorded.clone()))
        .collect();
    for (id, _) in &meant {
        if let Ok(session) = tools.sessions.session(*id) {
            session.kill();
        }
    }
    for (_, mut recorded) in meant {
        // Its follower is gone when this fails, so that nothing more comes.
        let _ = recorded.wait_for(|recorded| *recorded).await;
    }
}

// The item ----------------------------------------------------------------------------------------------------------

/// A `commandExecution` item in the making.
struct Item {
    id: String,
    command: String,
    cwd: String,
    actions: Vec<CommandAction>,
    source: &'static str,
    process_id: Option<i64>,
    at_ms: i64,
}

impl Item {
    fn new(command: &Command, at_ms: i64) -> Item {
        Item {
            id: command.id.clone(),
            command: display(&command.argv),
            cwd: command.cwd.display().to_string(),
            actions: wire_actions(command),
            source: command.source,
            process_id: None,
            at_ms,
        }
    }

    fn wire(&self, status: &str, source: &str) -> Value {
        json!({
            "type": "commandExecution", "id": self.id, "pluginId": null, "scriptPath": null, "command": self.command,
            "cwd": self.cwd, "processId": self.process_id.map(|id| id.to_string()), "source": source,
            "status": status, "commandActions": self.actions, "aggregatedOutput": null, "exitCode": null,
            "durationMs": null, "startedAtMs": self.at_ms, "completedAtMs": null,
        })
    }

    fn ended(&self, exit: &Exit, output: String, took: Duration) -> Value {
        let status = if exit.code() == 0 { "completed" } else { "failed" };
        let mut wire = self.wire(status, self.source);
        wire["aggregatedOutput"] = json!(output);
        wire["exitCode"] = json!(exit.code());
        wire["durationMs"] = json!(took.as_millis() as u64);
        wire
    }

    /// Tell that it did not run. Such an item is not kept (`protocol/approvals.md`, section 9).
    fn tell_end(&self, turn: &TurnContext, status: &str) {
        let mut wire = self.wire(status, "agent");
        wire["completedAtMs"] = json!(turn.runtime.clock.now_ms());
        turn.tell_done(&wire);
    }
}

fn wire_actions(command: &Command) -> Vec<CommandAction> {
    let shown = |path: PathBuf| path.display().to_string();
    actions(&command.text, &command.cwd)
        .into_iter()
        .map(|action| match action {
            Action::Read { command, name, path } => CommandAction::Read { command, name, path: shown(path) },
            Action::ListFiles { command, path } => CommandAction::ListFiles { command, path },
            Action::Search { command, query, path } => CommandAction::Search { command, query, path },
            Action::Unknown { command } => CommandAction::Unknown { command },
        })
        .collect()
}
