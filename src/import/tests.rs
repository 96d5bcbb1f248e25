//! The recorded homes of `fixtures/rollouts`, taken into a store.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::job::{Options, Outcome, Report, run};
use crate::clock::Clock;
use crate::store::Store;
use crate::store::rows::{Append, Lines, ThreadRow};

/// Take in what is new in a home, or one file.
async fn import(store: &Store, root: &Path) -> Report {
    run(store, &Options::of_home(root), &CancellationToken::new(), |_| {}).await.unwrap()
}

struct Home {
    directory: tempfile::TempDir,
    store: Store,
}

impl Home {
    async fn of(folder: &str) -> Home {
        let directory = tempfile::tempdir().unwrap();
        copy(&fixtures().join(folder), directory.path());
        let store = Store::open(&directory.path().join("threadkeep.sqlite"), Clock::system()).await.unwrap();
        Home { directory, store }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The thread's turns, each with the types of its items, and its sums of tokens.
    async fn told(&self, thread_id: &str) -> (Vec<(String, Vec<String>)>, i64) {
        let mut turns = Vec::new();
        for turn in self.store.all_turns(thread_id).await.unwrap() {
            let items = self.store.items_of_turns(turn.place, turn.place).await.unwrap();
            turns.push((turn.row.turn_id, items.into_iter().map(|item| item.row.kind).collect()));
        }
        let usage = self.store.usage_totals(thread_id).await.unwrap();
        (turns, usage.map_or(0, |usage| usage.total))
    }

    async fn row(&self, thread_id: &str) -> ThreadRow {
        self.store.thread(thread_id).await.unwrap().unwrap()
    }

    fn rollout(&self, thread_id: &str) -> PathBuf {
        let found = super::discover::find(self.path());
        let of_thread = found.into_iter().filter(|file| file.path.to_string_lossy().contains(thread_id));
        of_thread.max_by(|a, b| a.path.cmp(&b.path)).unwrap().path
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rollouts/homes")
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn every_home_gives_its_threads_and_a_second_import_nothing() {
    let expected: Value =
        serde_json::from_slice(&fs::read(fixtures().join("expected.json")).unwrap()).unwrap();
    let mut told = Vec::new();
    for (folder, threads) in expected["threads"].as_object().unwrap() {
        let home = Home::of(folder).await;
        import(&home.store, home.path()).await;
        for (thread_id, wanted) in threads.as_object().unwrap() {
            let Some(row) = home.store.thread(thread_id).await.unwrap() else {
                told.push(format!("{folder}: no thread {thread_id}"));
                continue;
            };
            let (turns, tokens) = home.told(thread_id).await;
            let count = |key: &str, part: &str| wanted[key][part].as_u64().unwrap() as usize;
            let messages =
                turns.iter().flat_map(|(_, items)| items).filter(|kind| *kind == "userMessage").count();
            let total = wanted["tokens"]["accumulated"]["total_tokens"].as_i64().unwrap_or(0);
            let inherited = row.inherited_usage.total;
            let path = row.rollout_path.unwrap();
            for (what, got, wanted) in [
                (
                    "messages",
                    json!(messages),
                    json!(count("user_messages", "visible") + count("user_messages", "inherited")),
                ),
                ("tokens", json!(tokens - inherited), json!(total)),
                ("file", json!(path.ends_with(wanted["current_file"].as_str().unwrap())), json!(true)),
                ("archived", json!(row.archived_at_ms.is_some()), wanted["archived"].clone()),
                (
                    "created",
                    json!(crate::rollout::write::rfc3339(row.created_at_ms)),
                    wanted["created_at"].clone(),
                ),
            ] {
                if got != wanted {
                    told.push(format!("{folder} {thread_id}: {what}: got {got}, wanted {wanted}"));
                }
            }
        }
        let again = import(&home.store, home.path()).await;
        if (again.taken(), again.count(Outcome::Failed)) != (0, 0) {
            told.push(format!("{folder}: the second import took {again:?}"));
        }
        let problems = home.store.check().await.unwrap();
        told.extend(problems.into_iter().map(|problem| format!("{folder}: {problem}")));
    }
    assert!(told.is_empty(), "\n{}", told.join("\n"));
}

const REVERTED: &str = "01a0e6d0-3580-7081-8081-000000000081";

#[tokio::test]
async fn a_reverted_thread_begins_with_what_its_first_file_kept() {
    let home = Home::of("11-reverted").await;
    import(&home.store, home.path()).await;
    let (turns, _) = home.told(REVERTED).await;
    let ids: Vec<&str> = turns.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["01a0e6d0-35b2-7082-8082-000000000082", "01a0e6e2-8532-7085-8085-000000000085"]);
    let row = home.row(REVERTED).await;
    assert_eq!(row.base_bytes, 6591);
    let own = fs::metadata(home.rollout(REVERTED)).unwrap().len() as i64;
    assert_eq!(row.journal_bytes - row.base_bytes, own);
    // The first file is no longer the thread's: looking at it again changes nothing.
    let first = super::discover::find(home.path()).remove(0);
    import(&home.store, &first.path).await;
    assert_eq!(home.told(REVERTED).await.0, turns);
}

#[tokio::test]
async fn a_fork_of_the_peer_begins_with_its_source() {
    let home = Home::of("10-paginated").await;
    let files = fixtures().with_file_name("files");
    let day = home.path().join("sessions/2026/12/01");
    fs::create_dir_all(&day).unwrap();
    let (source, fork) = ("01a22fe5-de09-7f31-8649-ab9c84e9a498", "01a22fe5-f27c-7f61-8dd1-83209be38586");
    for (file, id) in [("g4-paginated", source), ("g4-paginated-fork", fork)] {
        let to = day.join(format!("rollout-2026-12-01T04-38-48-{id}.jsonl"));
        fs::copy(files.join(format!("{file}.jsonl")), to).unwrap();
    }
    import(&home.store, home.path()).await;
    let expected: Value = serde_json::from_slice(&fs::read(files.join("expected.json")).unwrap()).unwrap();
    let wanted = expected["g4-paginated-fork"]["afterResume"]["turns"].as_array().unwrap();
    let wanted: Vec<&str> = wanted.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    let (turns, _) = home.told(fork).await;
    assert_eq!(turns.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), wanted);
    let row = home.row(fork).await;
    assert_eq!(
        (row.forked_from_id.as_deref(), row.preview.as_str()),
        (Some(source), "first question\nwith two lines")
    );
    assert_eq!(home.told(source).await.0.len(), 6);
}

const PAGINATED: &str = "01a0be0b-3280-7071-8071-000000000071";

fn started(turn_id: &str) -> String {
    let payload = json!({"type": "task_started", "turn_id": turn_id});
    format!("{}\n", json!({"timestamp": "2026-09-21T00:00:00.000Z", "type": "event_msg", "payload": payload}))
}

async fn append(home: &Home, thread_id: &str, line: &str) {
    let lines = Lines { bytes: line.as_bytes().to_vec(), count: 1 };
    home.store.append(Append { thread_id: thread_id.to_owned(), lines, ..Append::default() }).await.unwrap();
}

fn write_on(path: &Path, text: &str) {
    use std::io::Write;
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn lines_of_both_programs_are_taken_once() {
    let home = Home::of("10-paginated").await;
    import(&home.store, home.path()).await;
    let path = home.rollout(PAGINATED);
    let before = home.told(PAGINATED).await.0.len();
    // Lines of the peer, then of ours with their mirror, then of the peer again.
    write_on(&path, &started("a"));
    import(&home.store, home.path()).await;
    append(&home, PAGINATED, &started("b")).await;
    write_on(&path, &started("b"));
    write_on(&path, &started("c"));
    import(&home.store, home.path()).await;
    let row = home.row(PAGINATED).await;
    assert_eq!(row.journal_bytes as u64, fs::metadata(&path).unwrap().len());
    let turns = home.told(PAGINATED).await.0;
    // "b" was recorded without its turn here; the line after it tells that it was cut.
    let new: Vec<&str> = turns[before..].iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(new, ["a", "b", "c"]);
    assert_eq!(home.store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_thread_that_went_on_otherwise_here_is_left_alone() {
    let home = Home::of("10-paginated").await;
    import(&home.store, home.path()).await;
    let path = home.rollout(PAGINATED);
    append(&home, PAGINATED, &started("ours")).await;
    let row = home.row(PAGINATED).await;
    write_on(&path, &started("theirs"));
    write_on(&path, &started("and more of it"));
    import(&home.store, &path).await;
    assert_eq!(home.row(PAGINATED).await.journal_bytes, row.journal_bytes);
    let file = home.store.rollout_file(&path.display().to_string()).await.unwrap().unwrap();
    assert_eq!(file.verdict, "conflict");
}

#[tokio::test]
async fn a_line_that_was_taken_half_is_taken_whole_later() {
    let home = Home::of("10-paginated").await;
    let path = home.rollout(PAGINATED);
    let line = started("late");
    let (half, rest) = line.split_at(40);
    write_on(&path, half);
    import(&home.store, home.path()).await;
    let before = home.told(PAGINATED).await.0.len();
    write_on(&path, rest);
    import(&home.store, home.path()).await;
    let turns = home.told(PAGINATED).await.0;
    assert_eq!((turns.len(), turns[before].0.as_str()), (before + 1, "late"));
}

/// A home of one file with these bytes, taken in twice: the report of the first time and the thread's turns.
async fn of_one(name: &str, bytes: &[u8]) -> (Home, Report) {
    let home = Home::of("03-bare-meta-only").await;
    let path = home.path().join("sessions").join(name);
    fs::remove_dir_all(home.path().join("sessions")).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    let report = import(&home.store, home.path()).await;
    let again = import(&home.store, home.path()).await;
    assert_eq!((again.taken(), again.count(Outcome::Unchanged)), (0, 1), "{again:?}");
    (home, report)
}

const NAMED: &str = "019c0001-0000-7000-8000-000000000001";

#[tokio::test]
async fn a_file_whose_metadata_is_damaged_is_the_thread_of_its_name() {
    let lines = format!("{{\"timestamp\":\"2026-09-21T00:00\n{}", started("a"));
    let name = format!("rollout-2026-09-21T02-00-00-{NAMED}.jsonl");
    let (home, report) = of_one(&name, lines.as_bytes()).await;
    assert_eq!((report.files[0].outcome, report.files[0].problems.len()), (Outcome::Imported, 1));
    assert_eq!(home.told(NAMED).await.0, [("a".to_owned(), Vec::new())]);
    // The time in its id.
    assert_eq!(home.row(NAMED).await.created_at_ms, 0x019c_0001_0000);
    // It moves to the archive as any other.
    let archived = home.path().join("archived_sessions");
    fs::create_dir_all(&archived).unwrap();
    fs::rename(home.path().join("sessions").join(&name), archived.join(&name)).unwrap();
    let report = import(&home.store, home.path()).await;
    assert_eq!((report.taken(), report.count(Outcome::Conflict)), (0, 0), "{report:?}");
    assert!(home.row(NAMED).await.archived_at_ms.is_some());
}

#[tokio::test]
async fn a_packed_file_is_read_up_to_its_damage() {
    let meta = json!({"id": NAMED, "timestamp": "2026-09-21T00:00:00.000Z"});
    let mut lines = format!(
        "\u{feff}{}\n",
        json!({"timestamp": "2026-09-21T00:00:00.000Z", "type": "session_meta", "payload": meta})
    );
    for number in 0_u64..60 {
        // Hardly compressible.
        let words: Vec<String> = (0..400)
            .map(|word| format!("{:016x}", (number * 400 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        lines += &started(&words.concat());
    }
    let packed = zstd::encode_all(lines.as_bytes(), 3).unwrap();
    let name = format!("rollout-2026-09-21T02-00-00-{NAMED}.jsonl.zst");
    let (home, report) = of_one(&name, &packed[..packed.len() * 3 / 4]).await;
    let [file] = &report.files[..] else { panic!("{report:?}") };
    assert_eq!(
        (file.outcome, &file.problems.last().unwrap().reason[..]),
        (Outcome::Imported, "incomplete frame")
    );
    assert!(20 < home.told(NAMED).await.0.len());
    let journal = home.store.journal_from_byte(NAMED, 0, i64::MAX).await.unwrap();
    assert!(lines.as_bytes().starts_with(&journal));
    let findings = super::verify::verify(&home.store, home.path()).await.unwrap();
    assert_eq!(findings[0].standing, super::verify::Standing::Same);
}

#[tokio::test]
async fn a_session_of_one_object_may_begin_with_a_mark() {
    let session = json!({"session": {"id": NAMED, "timestamp": "2025-05-11T09:30:15.120Z"}, "items": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}]});
    let text = format!("\u{feff}{}", serde_json::to_string_pretty(&session).unwrap());
    let (home, _) = of_one(&format!("rollout-2025-05-11-{NAMED}.json"), text.as_bytes()).await;
    assert_eq!(home.row(NAMED).await.preview, "hello");
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_told() {
    let home = Home::of("03-bare-meta-only").await;
    let name = format!("rollout-2026-09-21T02-00-00-{NAMED}.jsonl");
    std::os::unix::fs::symlink("/nowhere/at/all", home.path().join("sessions").join(&name)).unwrap();
    let report = import(&home.store, home.path()).await;
    let failed = report.files.iter().find(|file| file.outcome == Outcome::Failed).unwrap();
    assert!(failed.path.ends_with(&name));
    assert!(failed.reason.as_deref().unwrap().contains("No such file"), "{failed:?}");
    assert_eq!(report.count(Outcome::Imported), 1);
}

#[test]
fn an_index_of_names_is_read_line_by_line() {
    let home = tempfile::tempdir().unwrap();
    let line = |id: &str, name: &str| json!({"id": id, "thread_name": name}).to_string();
    let lines = [
        format!("\u{feff}{}\r", line("a", "first")).into_bytes(),
        b"broken".to_vec(),
        b"\xff".to_vec(),
        line(&NAMED.to_uppercase(), "loud").into_bytes(),
        line("b", "once").into_bytes(),
        line("b", "").into_bytes(),
        [line("c", "last").as_bytes(), b"\0\0"].concat(),
    ];
    fs::write(home.path().join("session_index.jsonl"), lines.join(&b'\n')).unwrap();
    let names = super::discover::names(home.path());
    let names: std::collections::BTreeMap<&str, &str> =
        names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), [(NAMED, "loud"), ("a", "first"), ("c", "last")]);
}
