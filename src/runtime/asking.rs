//! Asking a thread's clients: approvals, questions to the user, calls of clients' own tools.
//!
//! [`Asking::ask`] sends a request to every subscriber and waits for the first answer, from any connection. The
//! thread's actor keeps the request while it is open (`Questions`), so that a client that resumes gets it again
//! under the same id, and tells all when it is settled (`protocol/approvals.md`, sections 1 and 9). A question outlives
//! the connections that it was sent to; it ends with its answer or with its turn.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Runtime;
use super::client::{Client, ConnectionId, Event};
use super::requests::Answer;
use super::thread::{Command, TurnReport};
use crate::protocol::thread::ThreadActiveFlag;

/// Asks the subscribers of one thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Asking {
    runtime: Arc<Runtime>,
    actor: mpsc::UnboundedSender<Command>,
    /// Ends every wait.
    cancel: CancellationToken,
}

/// A question that is open.
#[derive(Debug)]
pub struct Question {
    /// Its id on the wire.
    pub id: i64,
    /// The request itself.
    pub event: Event,
    /// What the thread's status says meanwhile.
    pub flag: Option<ThreadActiveFlag>,
}

/// What a question is about, as far as the thread's clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// For a yes: status `waitingOnApproval`.
    Approval,
    /// For a text: status `waitingOnUserInput`.
    UserInput,
    /// For a client's program: no flag, and nobody is told when it is answered.
    Program,
}

impl Waiting {
    fn flag(self) -> Option<ThreadActiveFlag> {
        match self {
            Waiting::Approval => Some(ThreadActiveFlag::WaitingOnApproval),
            Waiting::UserInput => Some(ThreadActiveFlag::WaitingOnUserInput),
            Waiting::Program => None,
        }
    }
}

impl Asking {
    /// For the thread of this actor; `cancel` ends every wait.
    pub(super) fn new(
        runtime: Arc<Runtime>,
        actor: mpsc::UnboundedSender<Command>,
        cancel: CancellationToken,
    ) -> Asking {
        Asking { runtime, actor, cancel }
    }

    /// Ask and wait for the first answer; `None` when the waiting was ended (the turn is interrupted).
    ///
    /// *Cancel safety*: a dropped call withdraws the question.
    pub async fn ask<P: Serialize>(
        &self,
        method: &'static str,
        waiting: Waiting,
        params: &P,
    ) -> Option<Answer> {
        if self.cancel.is_cancelled() {
            return None;
        }
        let (id, answer) = self.runtime.requests.open();
        let _open = Open { asking: self, id };
        let question = Question { id, event: Event::request(method, id, params), flag: waiting.flag() };
        let _ = self.actor.send(Command::Turn(TurnReport::Asked(Box::new(question))));
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            answer = answer => answer.ok(),
        }
    }
}

/// Settles a question however the wait for it ends.
struct Open<'a> {
    asking: &'a Asking,
    id: i64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.asking.runtime.requests.withdraw(self.id);
        let _ = self.asking.actor.send(Command::Turn(TurnReport::Settled(self.id)));
    }
}

/// The open questions of a thread, kept by its actor.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Vec<(Question, Vec<ConnectionId>)>,
}

impl Questions {
    /// Send a new question to the subscribers.
    pub(super) fn asked(&mut self, question: Question, subscribers: &[Arc<dyn Client>]) {
        for subscriber in subscribers {
            subscriber.send(&question.event);
        }
        let sent = subscribers.iter().map(|subscriber| subscriber.id()).collect();
        self.open.push((question, sent));
    }

    /// A question is settled: take it out.
    pub(super) fn settled(&mut self, id: i64) -> Option<Question> {
        let place = self.open.iter().position(|(question, _)| question.id == id)?;
        Some(self.open.remove(place).0)
    }

    /// Whether a question keeps this flag up.
    pub(super) fn hold(&self, flag: ThreadActiveFlag) -> bool {
        self.open.iter().any(|(question, _)| question.flag == Some(flag))
    }

    /// A client subscribes (again): it has yet to be sent what is open.
    pub(super) fn forget_client(&mut self, client: ConnectionId) {
        for (_, sent) in &mut self.open {
            sent.retain(|id| *id != client);
        }
    }

    /// Send a client what is open and was not sent to it since it subscribed.
    pub(super) fn replay(&mut self, client: &dyn Client) {
        for (question, sent) in &mut self.open {
            if !sent.contains(&client.id()) {
                client.send(&question.event);
                sent.push(client.id());
            }
        }
    }
}
