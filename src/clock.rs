//! The one place that reads the clock and makes ids.
//!
//! **Invariant:** no other module calls `SystemTime::now`, `Utc::now` or a UUID constructor that draws
//! (`clippy.toml` forbids it), so that a test can run with a clock of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// Where the time and new ids come from. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    fixed: Option<Arc<Fixed>>,
}

/// A clock that stands still until it is moved, and ids that count up.
#[derive(Debug)]
struct Fixed {
    now_ms: AtomicI64,
    next_id: AtomicU64,
}

impl Clock {
    /// The system's clock, random ids.
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock for tests: it stands at `now_ms` until [`Clock::advance`], and ids count up.
    pub fn fixed(now_ms: i64) -> Clock {
        Clock { fixed: Some(Arc::new(Fixed { now_ms: now_ms.into(), next_id: 1.into() })) }
    }

    /// Move a fixed clock on; a system clock is left alone.
    pub fn advance(&self, by_ms: i64) {
        if let Some(fixed) = &self.fixed {
            fixed.now_ms.fetch_add(by_ms, Ordering::Relaxed);
        }
    }

    /// Unix milliseconds, UTC.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn now_ms(&self) -> i64 {
        match &self.fixed {
            Some(fixed) => fixed.now_ms.load(Ordering::Relaxed),
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64),
        }
    }

    /// The same instant as [`Clock::now_ms`], for formatting.
    pub fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.now_ms()).unwrap_or_default()
    }

    /// The date where the server stands, as `YYYY-MM-DD`.
    pub fn today(&self) -> String {
        self.now().with_timezone(&chrono::Local).format("%Y-%m-%d").to_string()
    }

    /// A new id that sorts by its time (UUIDv7), as threads and turns have.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn new_id(&self) -> Uuid {
        match &self.fixed {
            Some(fixed) => {
                let count = fixed.next_id.fetch_add(1, Ordering::Relaxed);
                let millis = self.now_ms() as u64;
                uuid::Builder::from_unix_timestamp_millis(
                    millis,
                    &(u128::from(count)).to_be_bytes()[6..].try_into().unwrap_or_default(),
                )
                .into_uuid()
            }
            None => Uuid::now_v7(),
        }
    }
}
