//! A running turn: asks the model, records what it says, answers its calls, until a reply has none.
//!
//! `ask` is one request and its reply (read in `response`, made in `request`), `charge` what it costs, `items`
//! what is recorded and told, `end` how the turn ends. Messages join through [`steering`], settings through [`step`].
//! A [`compaction`], a [`review`] and a user's own command ([`user_shell`]) are turns of their own kinds.
//!
//! The task reports to its thread's actor; everything that it tells of is stored first. It looks for an interrupt and
//! for messages that join only while it waits for the model, never in the middle of recording.

mod ask;
mod charge;
pub mod compaction;
mod end;
mod items;
mod request;
mod response;
pub mod review;
pub mod steering;
pub mod step;
pub mod user_shell;

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use self::ask::Asked;
use self::charge::Rest;
use self::end::End;
use self::review::{Review, Side};
use self::steering::Steering;
use self::step::{NextStep, StepSettings};
use self::user_shell::UserCommand;
use super::Runtime;
use super::asking::Asking;
use super::calls::ThreadTools;
use super::client::Event;
use super::goals::keeper::{Keeper, Shown};
use super::input::UserMessage;
use super::notify::Notify;
use super::recorder::Recorder;
use super::settings::Settings;
use super::thread::{Command, TurnReport};
use crate::config::{Config, ProviderConfig};
use crate::model::catalog;
use crate::protocol::error::{CodexErrorInfo, TurnError, WarningNotification};
use crate::protocol::turn::{Turn, TurnStatus};
use crate::store::goals::GoalCharge;
use crate::store::rows::{TokenCounts, TurnRow};
use crate::tools::turn_diff::TurnDiff;

/// What holds for one turn alone.
#[derive(Clone, Debug, Default)]
pub struct TurnOptions {
    /// The shape of the answer.
    pub output_schema: Option<Value>,
    /// Service tier of this turn.
    pub service_tier: Option<String>,
    /// The turn that this one belongs to.
    pub root_turn_id: Option<String>,
    /// What the turn consists of.
    pub kind: TurnKind,
    /// What started it, unless a client did: `queue` or `goal`.
    pub trigger: Option<String>,
    /// Members for the metadata of its model requests.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// The submission that it is, in the queue until its start is stored.
    pub queued: Option<String>,
    /// The turn goes on with the goal.
    pub goal: Option<GoalStart>,
}

/// What a turn begins with that a goal has started.
#[derive(Clone, Debug)]
pub struct GoalStart {
    /// What the model is told.
    pub items: Vec<Value>,
    /// What that changes of the goal.
    pub charge: GoalCharge,
}

/// What a turn consists of.
#[derive(Clone, Debug, Default)]
pub enum TurnKind {
    /// The model answers.
    #[default]
    Model,
    /// The context is compacted, then the model answers.
    CompactFirst,
    /// The context is compacted, and that is all.
    Compact,
    /// A user's own command, and that is all.
    UserCommand(UserCommand),
    /// A review, in a conversation of its own.
    Review(Review),
}

impl TurnKind {
    /// The word for a kind that no message may join.
    pub fn closed_to_messages(&self) -> Option<&'static str> {
        match self {
            TurnKind::Compact => Some("compact"),
            TurnKind::Review(_) => Some("review"),
            _ => None,
        }
    }
}

/// What a turn runs with.
pub struct TurnContext {
    pub(super) runtime: Arc<Runtime>,
    pub(super) notify: Notify,
    pub(super) recorder: Arc<Mutex<Recorder>>,
    pub(super) settings: Settings,
    /// What the next request asks with.
    pub(super) step: NextStep,
    pub(super) config: Arc<Config>,
    pub(super) provider: ProviderConfig,
    pub(super) options: TurnOptions,
    pub(super) turn: Turn,
    pub(super) started_at_ms: i64,
    pub(super) cancel: CancellationToken,
    pub(super) steering: Arc<Steering>,
    pub(super) reports: mpsc::UnboundedSender<Command>,
    /// Text of the project's instruction files.
    pub(super) instructions: Option<String>,
    /// The conversation of a review, which is not the thread's.
    pub(super) side: Option<Side>,
    /// Asks the clients.
    pub(super) asking: Asking,
    /// What the thread knows of its goal.
    pub(super) goals: Arc<Keeper>,
    /// What the thread's tools keep.
    pub(super) tools: Arc<ThreadTools>,
    /// What the turn's patches have changed.
    pub(super) diff: Mutex<TurnDiff>,
}

/// Let a turn run. Its end is reported whatever happens.
pub fn spawn(context: Arc<TurnContext>) {
    tokio::spawn(async move {
        let mut running = RunningTurn {
            asked: context.step.current(),
            context,
            tokens: TokenCounts::default(),
            turn_state: None,
            last_message: None,
            before_status: Vec::new(),
            counted: None,
            goal_shown: None,
            calls_made: 0,
            resets_at: None,
        };
        let end = running.run().await;
        running.finish(end).await;
    });
}

/// The warning that a model is not known, to the subscribers of the thread.
pub fn fallback_metadata_warning(notify: &Notify, model: &str) -> Option<Event> {
    if catalog::find(model).is_some() {
        return None;
    }
    let message = format!(
        "Model metadata for `{model}` not found. Defaulting to fallback metadata; this can degrade performance and \
         cause issues."
    );
    Some(
        notify.event(
            "warning",
            &WarningNotification { thread_id: Some(notify.thread_id.to_string()), message },
        ),
    )
}

pub(super) struct RunningTurn {
    pub(super) context: Arc<TurnContext>,
    /// What the last request asked with.
    asked: StepSettings,
    /// Sum over the turn.
    tokens: TokenCounts,
    turn_state: Option<String>,
    /// The last whole message, as wire JSON.
    pub(super) last_message: Option<Value>,
    /// Told just before the thread's status changes.
    before_status: Vec<Event>,
    /// What counted when the last response was asked for: its tokens count for no other goal.
    counted: Option<u64>,
    /// The goal as the end of the turn left it, for everybody.
    goal_shown: Option<Shown>,
    /// How many tools the model has called.
    calls_made: usize,
    /// When the provider's limit ends that the turn met (Unix seconds).
    resets_at: Option<i64>,
}

impl RunningTurn {
    async fn run(&mut self) -> End {
        match self.context.options.kind.clone() {
            TurnKind::Model | TurnKind::Review(_) => self.run_model().await,
            TurnKind::UserCommand(command) => self.run_user_command(&command).await,
            TurnKind::Compact => match self.compact(true).await {
                Ok(()) => End::Stored,
                Err(stop) => stop.into(),
            },
            TurnKind::CompactFirst => match self.compact(false).await {
                Ok(()) => self.run_model().await,
                Err(stop) => stop.into(),
            },
        }
    }

    /// Ask the model until it has no more calls and nobody has more to say.
    async fn run_model(&mut self) -> End {
        loop {
            if self.context.cancel.is_cancelled() {
                return End::Interrupted;
            }
            if let Err(error) = self.take_steered().await {
                return End::Failed(error);
            }
            match self.ask().await {
                Ok(Asked::Again) => {}
                Ok(Asked::Done) => return End::Stored,
                Ok(Asked::Interrupted) => return End::Interrupted,
                Err(error) => return End::Failed(error),
            }
        }
    }

    /// The whole of a turn that is a user's own command; a message that joined it is answered by the model.
    async fn run_user_command(&mut self, command: &UserCommand) -> End {
        let message = match user_shell::run(&self.context, command).await {
            Ok(message) => message,
            Err(stop) => return stop.into(),
        };
        let end = self.context.steering.close_if_empty().then(|| self.turn_end(TurnStatus::Completed, None));
        let rest = Rest { outputs: std::slice::from_ref(&message), end: end.as_ref(), ..Rest::default() };
        match self.record_response(rest, None).await {
            Err(error) => End::Failed(error),
            Ok((_, goal)) if end.is_some() => {
                self.goal_shown = goal;
                End::Stored
            }
            Ok(_) => self.run_model().await,
        }
    }

    /// Record the messages that have joined, and what jobs beside the turn have for the model.
    async fn take_steered(&mut self) -> Result<(), TurnError> {
        let outputs = self.context.steering.take_outputs();
        if !outputs.is_empty() {
            self.context.record_items(&outputs, None).await?;
        }
        for message in self.context.steering.take() {
            self.record_message(&message).await?;
        }
        Ok(())
    }

    async fn record_message(&mut self, message: &UserMessage) -> Result<(), TurnError> {
        let context = &self.context;
        let row = self.row();
        let item =
            context.recorder.lock().await.steer(&row, message, &context.settings).await.map_err(internal)?;
        context.tell_whole(item);
        Ok(())
    }

    fn row(&self) -> TurnRow {
        TurnRow {
            turn_id: self.context.turn.id.clone(),
            root_turn_id: self.context.turn.root_turn_id.clone(),
            status: "inProgress".to_owned(),
            started_at_ms: Some(self.context.started_at_ms),
            ..TurnRow::default()
        }
    }

    pub(super) fn tell(&self, event: Event) {
        self.context.tell(event);
    }

    pub(super) fn report(&self, report: TurnReport) {
        self.context.report(report);
    }
}

impl TurnContext {
    /// To every subscriber.
    pub(super) fn tell(&self, event: Event) {
        self.report(TurnReport::Event(event));
    }

    /// The actor lives until its turn has ended, and takes reports as long; what comes later is dropped.
    pub(super) fn report(&self, report: TurnReport) {
        let _ = self.reports.send(Command::Turn(report));
    }
}

/// A failure of ours as the turn's.
pub(super) fn internal(error: super::error::RuntimeError) -> TurnError {
    tracing::error!(%error, "a turn failed");
    TurnError {
        message: error.to_string(),
        codex_error_info: Some(CodexErrorInfo::Other),
        additional_details: None,
        misalignment: None,
    }
}
