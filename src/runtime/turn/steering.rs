//! Messages on their way into a running turn, and jobs that it waits for (a user's own commands).
//!
//! A message that was accepted is never lost: the turn closes the queue in the same moment in which it finds it
//! empty, and from then on a message is refused, so that its sender knows to start a turn with it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use crate::runtime::input::UserMessage;

/// The queue between a thread and its running turn.
#[derive(Debug, Default)]
pub struct Steering {
    /// `None` once the turn has taken its last message.
    queue: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<UserMessage>,
    /// What finished jobs have for the model.
    outputs: VecDeque<Value>,
    /// News for the model that make no request of their own.
    notices: Vec<Value>,
    /// Jobs that run.
    jobs: usize,
    closed: bool,
}

/// A job that runs beside the turn: the turn takes no end before it is done or dropped.
#[derive(Debug)]
pub struct Job(Arc<Steering>);

impl Job {
    /// It is done, and this is what the model is told of it.
    pub fn done(self, output: Value) {
        self.0.lock().outputs.push_back(output);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        {
            let mut queue = self.0.lock();
            queue.jobs = queue.jobs.saturating_sub(1);
        }
        self.0.arrived.notify_one();
    }
}

impl Steering {
    /// Add a message; `false` when the turn takes no more.
    pub fn push(&self, message: UserMessage) -> bool {
        {
            let mut queue = self.lock();
            if queue.closed {
                return false;
            }
            queue.messages.push_back(message);
        }
        self.arrived.notify_one();
        true
    }

    /// A job begins; `None` when the turn takes no more.
    pub fn begin_job(self: &Arc<Self>) -> Option<Job> {
        let mut queue = self.lock();
        if queue.closed {
            return None;
        }
        queue.jobs += 1;
        Some(Job(self.clone()))
    }

    /// Something for the model before its next request, which must come for it.
    pub fn push_output(&self, output: Value) {
        self.lock().outputs.push_back(output);
    }

    /// News for the model before its next request; lost when the turn makes none.
    pub fn push_notice(&self, notice: Value) {
        self.lock().notices.push(notice);
    }

    /// All messages that wait.
    pub fn take(&self) -> Vec<UserMessage> {
        self.lock().messages.drain(..).collect()
    }

    /// What finished jobs have for the model.
    pub fn take_outputs(&self) -> Vec<Value> {
        let mut queue = self.lock();
        let notices = std::mem::take(&mut queue.notices);
        queue.outputs.drain(..).chain(notices).collect()
    }

    /// Close the queue if it is empty and no job runs. Tells whether it is closed now.
    pub fn close_if_empty(&self) -> bool {
        let mut queue = self.lock();
        queue.closed |= queue.messages.is_empty() && queue.outputs.is_empty() && queue.jobs == 0;
        queue.closed
    }

    /// Wait until there is news for the model, or nothing is left to wait for.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn settled(&self) {
        loop {
            {
                let queue = self.lock();
                if !queue.messages.is_empty() || !queue.outputs.is_empty() || queue.jobs == 0 {
                    return;
                }
            }
            self.arrived.notified().await;
        }
    }

    /// Close the queue and take what is left.
    pub fn close(&self) -> Vec<UserMessage> {
        let mut queue = self.lock();
        queue.closed = true;
        queue.messages.drain(..).collect()
    }

    /// Wait until a message is there.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: messages stay in the queue.
    pub async fn wait(&self) {
        while self.lock().messages.is_empty() {
            self.arrived.notified().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
