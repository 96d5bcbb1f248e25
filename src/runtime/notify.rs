//! The notifications of threads and turns, each built in one place, with the moment it was made.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::client::Event;
use super::recorder::WholeItem;
use crate::clock::Clock;
use crate::protocol::approval::ServerRequestResolvedNotification;
use crate::protocol::error::{ErrorNotification, TurnError};
use crate::protocol::item::{ItemCompletedNotification, ItemStartedNotification};
use crate::protocol::misc::RequestId;
use crate::protocol::queue::ThreadQueueChangedNotification;
use crate::protocol::settings::{ThreadSettings, ThreadSettingsUpdatedNotification};
use crate::protocol::thread::{
    Thread, ThreadArchivedNotification, ThreadClosedNotification, ThreadDeletedNotification,
    ThreadNameUpdatedNotification, ThreadStartedNotification, ThreadStatus, ThreadStatusChangedNotification,
    ThreadUnarchivedNotification,
};
use crate::protocol::turn::{Turn, TurnCompletedNotification, TurnStartedNotification};
use crate::protocol::usage::{ThreadTokenUsage, ThreadTokenUsageUpdatedNotification};

/// Makes the events of one thread.
#[derive(Clone, Debug)]
pub struct Notify {
    clock: Clock,
    /// The thread that the events are of.
    pub thread_id: Arc<str>,
}

impl Notify {
    /// For this thread.
    pub fn new(clock: Clock, thread_id: &str) -> Notify {
        Notify { clock, thread_id: thread_id.into() }
    }

    /// Any notification.
    pub fn event<P: Serialize>(&self, method: &'static str, params: &P) -> Event {
        Event::notification(method, params, self.clock.now_ms())
    }

    fn id(&self) -> String {
        self.thread_id.to_string()
    }

    /// `thread/started`, to every connection.
    pub fn thread_started(&self, thread: Thread) -> Event {
        self.event("thread/started", &ThreadStartedNotification { thread })
    }

    /// `thread/status/changed`, to every connection.
    pub fn status_changed(&self, status: ThreadStatus) -> Event {
        self.event("thread/status/changed", &ThreadStatusChangedNotification { thread_id: self.id(), status })
    }

    /// `thread/closed`, to every connection.
    pub fn closed(&self) -> Event {
        self.event("thread/closed", &ThreadClosedNotification { thread_id: self.id() })
    }

    /// `thread/archived`, to every connection.
    pub fn archived(&self) -> Event {
        self.event("thread/archived", &ThreadArchivedNotification { thread_id: self.id() })
    }

    /// `thread/unarchived`, to every connection.
    pub fn unarchived(&self) -> Event {
        self.event("thread/unarchived", &ThreadUnarchivedNotification { thread_id: self.id() })
    }

    /// `thread/deleted`, to every connection.
    pub fn deleted(&self) -> Event {
        self.event("thread/deleted", &ThreadDeletedNotification { thread_id: self.id() })
    }

    /// `thread/name/updated`, to every connection.
    pub fn name_updated(&self, name: Option<String>) -> Event {
        self.event(
            "thread/name/updated",
            &ThreadNameUpdatedNotification { thread_id: self.id(), thread_name: name },
        )
    }

    /// `thread/settings/updated`.
    pub fn settings_updated(&self, thread_settings: ThreadSettings) -> Event {
        let thread_id = self.id();
        self.event(
            "thread/settings/updated",
            &ThreadSettingsUpdatedNotification { thread_id, thread_settings },
        )
    }

    /// `turn/started`.
    pub fn turn_started(&self, turn: Turn) -> Event {
        self.event("turn/started", &TurnStartedNotification { thread_id: self.id(), turn })
    }

    /// `turn/completed`.
    pub fn turn_completed(&self, turn: Turn) -> Event {
        self.event("turn/completed", &TurnCompletedNotification { thread_id: self.id(), turn })
    }

    /// `item/started`.
    pub fn item_started(&self, turn_id: &str, item: Box<RawValue>, started_at_ms: i64) -> Event {
        self.event(
            "item/started",
            &ItemStartedNotification {
                item,
                thread_id: self.id(),
                turn_id: turn_id.to_owned(),
                started_at_ms,
            },
        )
    }

    /// `item/started` and `item/completed` of an item that is whole at once.
    pub fn whole_item(&self, turn_id: &str, item: WholeItem) -> [Event; 2] {
        [
            self.item_started(turn_id, item.started, item.at_ms),
            self.item_completed(turn_id, item.completed, item.at_ms),
        ]
    }

    /// `item/completed`.
    pub fn item_completed(&self, turn_id: &str, item: Box<RawValue>, completed_at_ms: i64) -> Event {
        self.event(
            "item/completed",
            &ItemCompletedNotification {
                item,
                thread_id: self.id(),
                turn_id: turn_id.to_owned(),
                content_token_count: None,
                completed_at_ms,
            },
        )
    }

    /// `thread/tokenUsage/updated`.
    pub fn token_usage(&self, turn_id: &str, token_usage: ThreadTokenUsage) -> Event {
        self.event(
            "thread/tokenUsage/updated",
            &ThreadTokenUsageUpdatedNotification {
                thread_id: self.id(),
                turn_id: turn_id.to_owned(),
                token_usage,
            },
        )
    }

    /// `thread/queue/changed`.
    pub fn queue_changed(&self) -> Event {
        self.event("thread/queue/changed", &ThreadQueueChangedNotification { thread_id: self.id() })
    }

    /// `serverRequest/resolved`.
    pub fn request_resolved(&self, id: i64) -> Event {
        let request_id = RequestId::I64(id);
        self.event(
            "serverRequest/resolved",
            &ServerRequestResolvedNotification { thread_id: self.id(), request_id },
        )
    }

    /// `error` of a turn.
    pub fn error(&self, turn_id: &str, error: TurnError, will_retry: bool) -> Event {
        self.event(
            "error",
            &ErrorNotification { error, will_retry, thread_id: self.id(), turn_id: turn_id.to_owned() },
        )
    }

    /// A streaming delta: `params` has the item's id and the part.
    pub fn delta<P: Serialize>(&self, method: &'static str, item_id: &Arc<str>, params: &P) -> Event {
        Event::delta(method, item_id.clone(), params, self.clock.now_ms())
    }
}
