//! What waits to be written to a connection.
//!
//! Messages are written in the order in which they were put in. A reply may have a place before it has a text: the
//! writer waits there. When much is waiting, a delta is merged with the one before it if both are of one item; at the
//! limit the connection is given up, and its turns go on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

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
    Delta(Delta),
    /// The place of a reply.
    Reply(oneshot::Receiver<Arc<str>>),
}

/// One delta, or several as one.
#[derive(Debug)]
struct Delta {
    item_id: Arc<str>,
    method: &'static str,
    text: DeltaText,
}

#[derive(Debug)]
enum DeltaText {
    AsCame(Arc<str>),
    /// The latest message of several, and the parts of all: read and written once, however many they are.
    Merged {
        message: Value,
        parts: String,
    },
}

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Nothing is taken any more; what is there is still written.
    closed: bool,
}

/// The outbox of a connection.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
    /// Cancelled when the reader is too slow: nothing is written any more.
    given_up: CancellationToken,
}

impl Outbox {
    /// Put an event in.
    pub fn push(&self, event: &Event) {
        let text = event.json.clone();
        let entry = match &event.kind {
            EventKind::Delta { item_id } => Entry::Delta(Delta {
                item_id: item_id.clone(),
                method: event.method,
                text: DeltaText::AsCame(text),
            }),
            _ => Entry::Text(text),
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
                waiting.entries.clear();
                self.given_up.cancel();
            } else if !waiting.merge(&entry) {
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

    /// Whether nothing is taken any more.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The next message; `None` when the outbox is closed and empty, or given up.
    pub async fn next(&self) -> Option<Arc<str>> {
        loop {
            let entry = {
                let mut waiting = self.lock();
                let entry = waiting.entries.pop_front();
                if entry.is_none() && waiting.closed {
                    return None;
                }
                waiting.bytes = waiting.bytes.saturating_sub(entry.as_ref().map_or(0, Entry::bytes));
                entry
            };
            match entry {
                Some(Entry::Text(text)) => return Some(text),
                Some(Entry::Delta(delta)) => return Some(delta.text.write()),
                // A request that is never answered (a notification by mistake) leaves its place empty.
                Some(Entry::Reply(reply)) => tokio::select! {
                    reply = reply => if let Ok(text) = reply { return Some(text) },
                    () = self.given_up.cancelled() => return None,
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Ends when the reader is too slow: the owner disconnects it.
    pub async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    /// Whether the reader was too slow.
    pub fn is_given_up(&self) -> bool {
        self.given_up.is_cancelled()
    }

    /// Whether another message can be taken without waiting.
    pub fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Join a delta to the last entry when that is of the same item and much is waiting.
    fn merge(&mut self, entry: &Entry) -> bool {
        if self.entries.len() < MERGE_FROM {
            return false;
        }
        let (Entry::Delta(delta), Some(Entry::Delta(last))) = (entry, self.entries.back_mut()) else {
            return false;
        };
        let before = last.text.bytes();
        let merged =
            last.item_id == delta.item_id && last.method == delta.method && last.text.add(&delta.text);
        self.bytes = (self.bytes + last.text.bytes()).saturating_sub(before);
        merged
    }
}

impl Entry {
    /// What it counts for; replies are not counted.
    fn bytes(&self) -> usize {
        match self {
            Entry::Text(text) => text.len(),
            Entry::Delta(delta) => delta.text.bytes(),
            Entry::Reply(_) => 0,
        }
    }
}

impl DeltaText {
    fn bytes(&self) -> usize {
        match self {
            DeltaText::AsCame(text) => text.len(),
            DeltaText::Merged { parts, .. } => parts.len(),
        }
    }

    /// Take a later delta in, if all but the part is the same.
    fn add(&mut self, later: &DeltaText) -> bool {
        let DeltaText::AsCame(later) = later else { return false };
        let Some((mut message, part)) = take_part(later) else { return false };
        match self {
            DeltaText::AsCame(text) => {
                let Some((first, mut parts)) = take_part(text) else { return false };
                if !is_same_place(&first, &message) {
                    return false;
                }
                parts.push_str(&part);
                *self = DeltaText::Merged { message, parts };
            }
            DeltaText::Merged { message: latest, parts } => {
                if !is_same_place(latest, &message) {
                    return false;
                }
                parts.push_str(&part);
                std::mem::swap(latest, &mut message);
            }
        }
        true
    }

    fn write(self) -> Arc<str> {
        match self {
            DeltaText::AsCame(text) => text,
            DeltaText::Merged { mut message, parts } => {
                message["params"]["delta"] = parts.into();
                message.to_string().into()
            }
        }
    }
}

/// A delta's message with an empty part, and the part.
fn take_part(text: &str) -> Option<(Value, String)> {
    let mut message: Value = serde_json::from_str(text).ok()?;
    match message.get_mut("params")?.get_mut("delta")?.take() {
        Value::String(part) => Some((message, part)),
        _ => None,
    }
}

/// Deltas of an item belong to one of its summaries or contents; all their other members say the same.
fn is_same_place(one: &Value, other: &Value) -> bool {
    one["params"] == other["params"]
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
        assert!(outbox.is_given_up());
    }

    #[tokio::test]
    async fn deltas_of_different_places_stay_apart() {
        let outbox = Outbox::default();
        for _ in 0..MERGE_FROM {
            outbox.push_text("x".into());
        }
        for (index, part) in [(0, "a"), (0, "b"), (1, "c"), (1, "d")] {
            let params = json!({"itemId": "one", "summaryIndex": index, "delta": part});
            outbox.push(&Event::delta("item/reasoning/summaryTextDelta", "one".into(), &params, 1));
        }
        outbox.close();
        let mut last = Vec::new();
        while let Some(text) = outbox.next().await {
            if last.len() < 2 && text.starts_with('{') {
                let message: Value = serde_json::from_str(&text).unwrap();
                last.push((message["params"]["summaryIndex"].clone(), message["params"]["delta"].clone()));
            }
        }
        assert_eq!(last, [(json!(0), json!("ab")), (json!(1), json!("cd"))]);
    }

    #[tokio::test]
    async fn what_was_written_no_longer_counts() {
        let outbox = Outbox::default();
        for _ in 0..MERGE_FROM {
            outbox.push_text("x".into());
        }
        for _ in 0..100 {
            outbox.push(&delta("one", "part"));
        }
        outbox.close();
        while outbox.next().await.is_some() {}
        assert_eq!(outbox.lock().bytes, 0);
    }
}
