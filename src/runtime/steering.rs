//! Messages on their way into a running turn.
//!
//! A message that was accepted is never lost: the turn closes the queue in the same moment in which it finds it
//! empty, and from then on a message is refused, so that its sender knows to start a turn with it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::input::UserMessage;

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
    closed: bool,
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

    /// All messages that wait.
    pub fn take(&self) -> Vec<UserMessage> {
        self.lock().messages.drain(..).collect()
    }

    /// Close the queue if it is empty. Tells whether it is closed now.
    pub fn close_if_empty(&self) -> bool {
        let mut queue = self.lock();
        queue.closed |= queue.messages.is_empty();
        queue.closed
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
