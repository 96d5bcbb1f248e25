//! What waits to be written to a connection.
//!
//! Messages are written in the order in which they were put in. A reply may have a place before it has a text: the
//! writer waits there. When much is waiting, a delta is merged with the one before it if both are of one item; at the
//! limit the connection is given up, and its turns go on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::runtime::client::{Event, EventKind};

/// Messages above this number: deltas are merged.
const MERGE_FROM: usize = 4096;

/// The most messages that wait.
const MAX_WAITING: usize = 32_768;

/// The most bytes that wait, replies aside: a reply is as large as it was asked to be.
const MAX_WAITING_BYTES: usize = 256 << 20;

/// A message to write.
#[derive(Debug)]
enum Entry {
    Text(Arc<str>),
    /// A delta that may be merged with the next one of its item.
    Delta {
        item_id: Arc<str>,
        method: &'static str,
        text: Arc<str>,
    },
    /// The place of a reply.
    Reply(oneshot::Receiver<Arc<str>>),
}

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Nothing is taken any more; what is there is still written.
    closed: bool,
    /// Given up: nothing is written any more.
    overrun: bool,
}

/// The outbox of a connection.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

impl Outbox {
    /// Put an event in.
    pub fn push(&self, event: &Event) {
        let entry = match &event.kind {
            EventKind::Delta { item_id } => {
                Entry::Delta { item_id: item_id.clone(), method: event.method, text: event.json.clone() }
            }
            _ => Entry::Text(event.json.clone()),
        };
        self.put(entry, event.json.len());
    }

    /// Put a finished message in.
    pub fn push_text(&self, text: Arc<str>) {
        let length = text.len();
        self.put(Entry::Text(text), length);
    }

    /// Keep a place for a reply.
    pub fn reserve(&self) -> oneshot::Sender<Arc<str>> {
        let (sender, receiver) = oneshot::channel();
        self.put(Entry::Reply(receiver), 0);
        sender
    }

    fn put(&self, entry: Entry, length: usize) {
        {
            let mut waiting = self.lock();
            if waiting.closed {
                return;
            }
            if waiting.entries.len() >= MAX_WAITING || waiting.bytes + length > MAX_WAITING_BYTES {
                tracing::warn!("a client reads too slowly; it is disconnected and may resume");
                waiting.closed = true;
                waiting.overrun = true;
                waiting.entries.clear();
            } else if !merge(&mut waiting, &entry) {
                waiting.bytes += length;
                waiting.entries.push_back(entry);
            }
        }
        self.changed.notify_one();
    }

    /// Take no more; what is there is still written.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// The next message; `None` when the outbox is closed and empty, or overrun.
    pub async fn next(&self) -> Option<Arc<str>> {
        loop {
            let entry = {
                let mut waiting = self.lock();
                if waiting.overrun {
                    return None;
                }
                let entry = waiting.entries.pop_front();
                if let Some(Entry::Text(text) | Entry::Delta { text, .. }) = &entry {
                    waiting.bytes = waiting.bytes.saturating_sub(text.len());
                }
                if entry.is_none() && waiting.closed {
                    return None;
                }
                entry
            };
            match entry {
                Some(Entry::Text(text) | Entry::Delta { text, .. }) => return Some(text),
                // A request that is never answered (a notification by mistake) leaves its place empty.
                Some(Entry::Reply(reply)) => {
                    if let Ok(text) = reply.await {
                        return Some(text);
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Whether another message can be taken without waiting.
    pub fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Join a delta to the last entry when that is of the same item and much is waiting.
fn merge(waiting: &mut Waiting, entry: &Entry) -> bool {
    if waiting.entries.len() < MERGE_FROM {
        return false;
    }
    let Entry::Delta { item_id, method, text } = entry else { return false };
    let Some(Entry::Delta { item_id: last_id, method: last_method, text: last_text }) =
        waiting.entries.back_mut()
    else {
        return false;
    };
    if last_id != item_id || last_method != method {
        return false;
    }
    match merged(last_text, text) {
        Some(joined) => {
            waiting.bytes = (waiting.bytes + joined.len()).saturating_sub(last_text.len());
            *last_text = joined.into();
            true
        }
        None => false,
    }
}

/// Two deltas as one message: the later one with both parts, if all else is the same.
fn merged(first: &str, second: &str) -> Option<String> {
    let first: serde_json::Value = serde_json::from_str(first).ok()?;
    let mut second: serde_json::Value = serde_json::from_str(second).ok()?;
    for index in ["summaryIndex", "contentIndex"] {
        if first["params"].get(index) != second["params"].get(index) {
            return None;
        }
    }
    let joined = format!("{}{}", first["params"]["delta"].as_str()?, second["params"]["delta"].as_str()?);
    second["params"]["delta"] = joined.into();
    Some(second.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delta(item: &str, text: &str) -> Event {
        Event::delta("item/agentMessage/delta", item.into(), &json!({"itemId": item, "delta": text}), 1)
    }

    #[tokio::test]
    async fn a_reply_keeps_its_place() {
        let outbox = Outbox::default();
        let reply = outbox.reserve();
        outbox.push_text("after".into());
        reply.send("reply".into()).unwrap();
        outbox.close();
        assert_eq!(outbox.next().await.as_deref(), Some("reply"));
        assert_eq!(outbox.next().await.as_deref(), Some("after"));
        assert_eq!(outbox.next().await, None);
    }

    #[tokio::test]
    async fn deltas_of_one_item_are_merged_when_much_waits() {
        let outbox = Outbox::default();
        for _ in 0..MERGE_FROM {
            outbox.push_text("x".into());
        }
        for part in ["a", "b", "c"] {
            outbox.push(&delta("one", part));
        }
        outbox.push(&delta("two", "d"));
        outbox.close();
        let mut all = Vec::new();
        while let Some(text) = outbox.next().await {
            all.push(text);
        }
        assert_eq!(all.len(), MERGE_FROM + 2);
        assert!(all[MERGE_FROM].contains(r#""delta":"abc""#), "{}", all[MERGE_FROM]);
    }

    #[tokio::test]
    async fn too_much_gives_the_connection_up() {
        let outbox = Outbox::default();
        for _ in 0..=MAX_WAITING {
            outbox.push_text("x".into());
        }
        assert_eq!(outbox.next().await, None);
    }
}
