//! The one place that reads the clock and makes ids.
//!
//! **Invariant:** no other module calls `SystemTime::now`, `Utc::now` or a UUID constructor that draws
//! (`clippy.toml` forbids it), so that a test can run with a clock of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
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

    /// A new id that tells nothing of when it was made (UUID version 4).
    #[expect(clippy::disallowed_methods, reason = "the one place where ids are made")]
    pub fn new_random_id(&self) -> Uuid {
        Uuid::new_v4()
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

/// Where days begin: a named time zone, or the machine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// One of the IANA database, for example `Europe/Berlin` or `UTC`.
    Named(chrono_tz::Tz),
    /// The machine's.
    Local,
}

impl Zone {
    /// A zone by its name; `local` is the machine's own. `None`: there is no such zone.
    pub fn parse(name: &str) -> Option<Zone> {
        if name.eq_ignore_ascii_case("local") {
            return Some(Zone::Local);
        }
        chrono_tz::Tz::from_str_insensitive(name).ok().map(Zone::Named)
    }

    /// Its name, as [`Zone::parse`] takes it.
    pub fn name(self) -> &'static str {
        match self {
            Zone::Named(zone) => zone.name(),
            Zone::Local => "local",
        }
    }

    /// The day on which an instant (Unix milliseconds) falls there.
    pub fn day_of(self, at_ms: i64) -> NaiveDate {
        let at = DateTime::from_timestamp_millis(at_ms).unwrap_or_default();
        match self {
            Zone::Named(zone) => at.with_timezone(&zone).date_naive(),
            Zone::Local => at.with_timezone(&chrono::Local).date_naive(),
        }
    }

    /// The instant (Unix milliseconds) at which a day begins there. Where clocks are put forward at midnight, that is
    /// later than midnight.
    pub fn start_of(self, day: NaiveDate) -> i64 {
        // No zone has ever left out more than a day.
        let quarters =
            (0..=4 * 24).map(|quarter| day.and_time(NaiveTime::MIN) + TimeDelta::minutes(15 * quarter));
        let start = quarters.filter_map(|time| match self {
            Zone::Named(zone) => zone.from_local_datetime(&time).earliest().map(|at| at.timestamp_millis()),
            Zone::Local => {
                chrono::Local.from_local_datetime(&time).earliest().map(|at| at.timestamp_millis())
            }
        });
        start.min().unwrap_or_else(|| day.and_time(NaiveTime::MIN).and_utc().timestamp_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    #[test]
    fn days_begin_where_the_zone_says() {
        for (zone, date, expected) in [
            ("UTC", "2026-03-29", "2026-03-29T00:00:00Z"),
            ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z"),
            ("Europe/Berlin", "2026-03-30", "2026-03-29T22:00:00Z"),
            ("Asia/Kathmandu", "2026-01-01", "2025-12-31T18:15:00Z"),
            // Clocks were put forward at midnight.
            ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),
        ] {
            let zone = Zone::parse(zone).unwrap();
            let start = zone.start_of(day(date));
            assert_eq!(start, DateTime::parse_from_rfc3339(expected).unwrap().timestamp_millis(), "{date}");
            assert_eq!(zone.day_of(start), day(date));
            assert!(zone.day_of(start - 1) < day(date), "{date}");
        }
    }

    #[test]
    fn zones_are_known_by_name() {
        assert_eq!(Zone::parse("europe/berlin").map(Zone::name), Some("Europe/Berlin"));
        assert_eq!(Zone::parse("local"), Some(Zone::Local));
        assert_eq!(Zone::parse("Europe/Atlantis"), None);
    }
}
