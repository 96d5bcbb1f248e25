//! Names of rollout files: `rollout-2026-12-01T04-14-21-THREAD[_ROLLOUT].jsonl[.zst]`, in local time.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Local, NaiveDateTime, Utc};
use uuid::Uuid;

/// What a name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// When the file was made, in the local time of its machine.
    pub local_time: Option<NaiveDateTime>,
    /// The thread.
    pub thread_id: Option<Uuid>,
    /// The rollout, where a revert has made a second file.
    pub rollout_id: Option<Uuid>,
}

/// The path of a new thread's file below the home.
pub fn new_path(home: &Path, thread_id: &str, now: DateTime<Utc>) -> PathBuf {
    let local = now.with_timezone(&Local);
    let day = local.format("sessions/%Y/%m/%d").to_string();
    home.join(day).join(format!("rollout-{}-{thread_id}.jsonl", local.format("%Y-%m-%dT%H-%M-%S")))
}

/// Where a file of an archived thread goes.
pub fn archived_path(home: &Path, path: &Path) -> Option<PathBuf> {
    Some(home.join("archived_sessions").join(path.file_name()?))
}

/// Where a file goes when its thread is active again: the folder of the day in its name.
pub fn active_path(home: &Path, path: &Path) -> Option<PathBuf> {
    let file = path.file_name()?;
    let name = parse(file.to_str()?)?;
    let day = name
        .local_time
        .map_or_else(|| "sessions".to_owned(), |time| time.format("sessions/%Y/%m/%d").to_string());
    Some(home.join(day).join(file))
}

/// Read a file's name; `None` when it is not that of a rollout.
pub fn parse(file_name: &str) -> Option<Name> {
    let stem = file_name.strip_prefix("rollout-")?;
    let stem = stem.strip_suffix(".zst").unwrap_or(stem);
    let stem = stem.strip_suffix(".jsonl").or_else(|| stem.strip_suffix(".json"))?;
    let (stem, rollout_id) = match stem.rsplit_once('_') {
        Some((rest, id)) => (rest, id.parse().ok()),
        None => (stem, None),
    };
    let id_at = stem.len().checked_sub(36);
    let thread_id: Option<Uuid> = id_at.and_then(|at| stem.get(at..)).and_then(|id| id.parse().ok());
    let time = stem.get(..19).and_then(|text| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H-%M-%S").ok());
    Some(Name { local_time: time, thread_id, rollout_id })
}

/// The thread that a file's name tells of.
pub fn thread_id(path: &Path) -> Option<String> {
    let name = parse(path.file_name()?.to_str()?)?;
    name.thread_id.map(|id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_time_and_ids() {
        let name = parse("rollout-2026-09-28T09-20-00-01a0e6d0-3580-7081-8081-000000000081_01a0e6e2-8500-7084-8084-000000000084.jsonl.zst").unwrap();
        assert_eq!(name.local_time.unwrap().to_string(), "2026-09-28 09:20:00");
        assert_eq!(name.thread_id.unwrap().to_string(), "01a0e6d0-3580-7081-8081-000000000081");
        assert_eq!(name.rollout_id.unwrap().to_string(), "01a0e6e2-8500-7084-8084-000000000084");
    }

    #[test]
    fn odd_names_are_rollouts_too() {
        assert_eq!(
            parse("rollout-bad.jsonl"),
            Some(Name { local_time: None, thread_id: None, rollout_id: None })
        );
        assert_eq!(parse("notes.txt"), None);
        assert_eq!(parse("session_index.jsonl"), None);
        assert!(
            parse("rollout-2025-05-11-a0a0a001-1b2c-4d3e-9f40-000000000001.json")
                .unwrap()
                .thread_id
                .is_some()
        );
    }

    #[test]
    fn archived_files_find_back_to_their_day() {
        let home = Path::new("/h");
        let name = "rollout-2026-02-14T11-00-00-019c5b60-da80-72d1-82d1-0000000002d1.jsonl";
        let active = home.join("sessions/2026/02/14").join(name);
        let archived = archived_path(home, &active).unwrap();
        assert_eq!(archived, home.join("archived_sessions").join(name));
        assert_eq!(active_path(home, &archived).unwrap(), active);
    }
}
