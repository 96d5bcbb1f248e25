//! Requests of the server to its clients (approvals, questions): their ids, and who waits for an answer.
//!
//! **Invariant:** an id is used once in a process, whatever becomes of its request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::oneshot;

/// What a client answers: a result, or an error object.
pub type Answer = Result<Value, Value>;

/// The requests that wait for an answer.
#[derive(Debug, Default)]
pub struct Requests {
    /// Held only to put in and take out.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next_id: i64,
    waiting: HashMap<i64, oneshot::Sender<Answer>>,
}

impl Requests {
    /// A new request: its id on the wire, and where its first answer arrives. Whoever stops waiting calls
    /// [`Requests::withdraw`].
    pub fn open(&self) -> (i64, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut open = self.lock();
        let id = open.next_id;
        open.next_id += 1;
        open.waiting.insert(id, sender);
        (id, receiver)
    }

    /// Nobody waits for an answer any more.
    pub fn withdraw(&self, id: i64) {
        self.lock().waiting.remove(&id);
    }

    /// A client answers. The first answer counts; one to a request that is not open is left out.
    pub fn answer(&self, id: i64, answer: Answer) {
        let Some(waiting) = self.lock().waiting.remove(&id) else {
            tracing::debug!(id, "an answer to a request that is not open is left out");
            return;
        };
        // Whoever asked may have stopped waiting a moment ago.
        let _ = waiting.send(answer);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_first_answer_counts() {
        let requests = Requests::default();
        let (first, answer) = requests.open();
        let (second, other) = requests.open();
        assert_eq!((first, second), (0, 1));
        requests.answer(first, Ok(json!({"decision": "accept"})));
        requests.answer(first, Ok(json!({"decision": "cancel"})));
        requests.answer(7, Err(json!({})));
        assert_eq!(answer.await.unwrap(), Ok(json!({"decision": "accept"})));
        requests.withdraw(second);
        assert!(other.await.is_err());
        assert_eq!(requests.open().0, 2);
    }
}
