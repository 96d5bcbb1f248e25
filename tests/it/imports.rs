//! Rollout files that come in: whole, growing, rewritten, damaged, and with the process killed meanwhile.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use threadkeep::clock::Clock;
use threadkeep::import::job::{self, Options, Outcome, Report};
use threadkeep::rollout::read;
use threadkeep::store::Store;
use tokio_util::sync::CancellationToken;

use crate::support::client::Server;
use crate::support::dump::dump;
use crate::support::home::Home;
use crate::support::ids;

const DAY: &str = "sessions/2026/11/30";

fn thread_id(number: usize) -> String {
    format!("01a2{number:04x}-0000-7000-8000-{number:012x}")
}

fn line(kind: &str, payload: &Value) -> String {
    format!("{}\n", json!({"timestamp": "2026-11-30T10:00:00.000Z", "type": kind, "payload": payload}))
}

fn meta(thread_id: &str) -> String {
    line(
        "session_meta",
        &json!({"id": thread_id, "timestamp": "2026-11-30T09:00:00.000Z", "cwd": "/work", "originator": "test",
            "cli_version": "0.171.0", "source": "cli", "model_provider": "mock_provider"}),
    )
}

/// A turn with its message, an answer of this many bytes, and its tokens.
fn turn(number: usize, size: usize) -> String {
    let turn_id = format!("turn-{number}");
    let event = |payload: Value| line("event_msg", &payload);
    // Hardly compressible, so that the database has something to do.
    let words: Vec<String> =
        (0..size / 9).map(|word| format!("{:08x}", word * 2_654_435_761 + number)).collect();
    let total = 100 * (number as i64 + 1);
    let usage = |total: i64| json!({"input_tokens": total, "total_tokens": total});
    [
        event(json!({"type": "task_started", "turn_id": turn_id, "started_at": 1_796_000_000})),
        event(json!({"type": "user_message", "message": format!("ask {number}")})),
        line(
            "response_item",
            &json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": words.join(" ")}]}),
        ),
        event(json!({"type": "agent_message", "message": words.join(" ")})),
        event(json!({"type": "token_count",
            "info": {"total_token_usage": usage(total), "last_token_usage": usage(100)}})),
        event(json!({"type": "task_complete", "turn_id": turn_id, "completed_at": 1_796_000_001})),
    ]
    .concat()
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn grow(path: &Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn file_of(home: &Path, number: usize) -> PathBuf {
    home.join(DAY).join(format!("rollout-2026-11-30T10-00-00-{}.jsonl", thread_id(number)))
}

/// Take in what is new in a home, within this process.
fn import(home: &Path) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&home.join(threadkeep::store::FILE_NAME), Clock::system()).await.unwrap();
        let options = Options::of_home(home);
        let report = job::run(&store, &options, &CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        store.close().await;
        report
    })
}

fn outcomes(report: &Report) -> Vec<Outcome> {
    report.files.iter().map(|file| file.outcome).collect()
}

/// How many files are taken to their end, and how many runs of lines are stored.
fn progress(home: &Home) -> (i64, i64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let file = home.path().join(threadkeep::store::FILE_NAME);
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).read_only(true);
        let Ok(mut db) = sqlx::ConnectOptions::connect(&options).await else { return (0, 0) };
        let sql = "select (select count(*) from rollout_files where verdict = 'imported' and size > 0),
                          (select count(*) from journal)";
        sqlx::query_as(sql).fetch_one(&mut db).await.unwrap_or_default()
    })
}

/// How often the import is killed.
const KILLS: i64 = 20;

#[test]
fn an_import_that_is_killed_again_and_again_ends_as_one_that_was_not() {
    let (killed, whole) = (Home::new(), Home::new());
    for number in 0..200 {
        // Some of many parts, so that a kill hits the middle of a file.
        let (turns, size) = if number % 50 == 7 { (40, 60_000) } else { (3, 2_000) };
        let turns: String = (0..turns).map(|at| turn(at, size)).collect();
        // Some that were cut in the middle of a line.
        let cut = if number % 20 == 3 { 30 } else { 0 };
        let text = format!("{}{turns}", meta(&thread_id(number)));
        for home in [&killed, &whole] {
            write(&file_of(home.path(), number), &text.as_bytes()[..text.len() - cut]);
        }
    }
    let mut runs = 0;
    for kill in 0..KILLS {
        let server = killed.server();
        // A moment of the import that is a little further on each time.
        let wanted = runs + 1 + kill % 3;
        while progress(&killed).1 < wanted && progress(&killed).0 < 200 {
            std::thread::yield_now();
        }
        server.kill();
        runs = progress(&killed).1;
    }
    let mut server = killed.server();
    while progress(&killed).0 < 200 {
        std::thread::yield_now();
    }
    // In the middle of the import and after it every thread can be read.
    assert_eq!(server.read(&thread_id(7))["turns"].as_array().unwrap().len(), 40);
    server.close();
    assert_eq!(import(whole.path()).count(Outcome::Imported), 200);
    let (killed, whole) = (dump(killed.path()), dump(whole.path()));
    let differing = killed.lines().zip(whole.lines()).find(|(killed, whole)| killed != whole);
    let short = |line: &str| line.chars().take(600).collect::<String>();
    if let Some((killed, whole)) = differing {
        panic!("killed: {}\nwhole:  {}", short(killed), short(whole));
    }
    assert_eq!(killed.len(), whole.len());
}

fn read(server: &mut Server, number: usize) -> Vec<String> {
    let thread = server.read(&thread_id(number));
    thread["turns"].as_array().unwrap().iter().map(|turn| turn["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_another_program_writes_shows_up_by_itself() {
    let home = Home::new();
    let mut server = home.server();
    assert_eq!(ids(&server.request("thread/list", &json!({}))), Vec::<String>::new());
    let path = file_of(home.path(), 1);
    write(&path, (meta(&thread_id(1)) + &turn(0, 100)).as_bytes());
    assert_eq!(ids(&server.request("thread/list", &json!({}))), [thread_id(1)]);
    assert_eq!(read(&mut server, 1), ["turn-0"]);
    grow(&path, turn(1, 100).as_bytes());
    assert_eq!(read(&mut server, 1), ["turn-0", "turn-1"]);
    // A loaded thread shows them too.
    server.request("thread/resume", &json!({"threadId": thread_id(1)}));
    grow(&path, turn(2, 100).as_bytes());
    server.request("thread/list", &json!({}));
    assert_eq!(read(&mut server, 1), ["turn-0", "turn-1", "turn-2"]);
    // And what is recorded here goes on after it, in the file as well.
    server.run_turn(&thread_id(1), "and ours");
    assert_eq!(read(&mut server, 1).len(), 4);
    server.close();
    assert!(fs::read(&path).unwrap() == home.journal(&thread_id(1)));
    assert_eq!(import(home.path()).taken(), 0);
}

#[test]
fn a_file_that_moves_to_the_archive_takes_its_thread_along() {
    let home = Home::new();
    let path = file_of(home.path(), 1);
    write(&path, (meta(&thread_id(1)) + &turn(0, 100)).as_bytes());
    assert_eq!(outcomes(&import(home.path())), [Outcome::Imported]);
    let archived = home.path().join("archived_sessions").join(path.file_name().unwrap());
    fs::create_dir_all(archived.parent().unwrap()).unwrap();
    fs::rename(&path, &archived).unwrap();
    let report = import(home.path());
    assert_eq!(report.taken(), 0, "{report:?}");
    let mut server = home.server();
    assert_eq!(ids(&server.request("thread/list", &json!({"archived": true}))), [thread_id(1)]);
    assert_eq!(server.read(&thread_id(1))["path"], json!(archived));
}

#[test]
fn a_rewritten_file_is_taken_anew_and_a_shorter_one_is_kept_whole() {
    let home = Home::new();
    let path = file_of(home.path(), 1);
    let first = meta(&thread_id(1)) + &turn(0, 6_000) + &turn(1, 6_000);
    write(&path, first.as_bytes());
    assert_eq!(outcomes(&import(home.path())), [Outcome::Imported]);
    assert_eq!(outcomes(&import(home.path())), [Outcome::Unchanged]);
    // Of the same length, changed in the middle only.
    let changed = first.replace("ask 1", "ASK 1");
    write(&path, changed.as_bytes());
    assert_eq!(outcomes(&import(home.path())), [Outcome::Renewed]);
    assert!(home.journal(&thread_id(1)) == changed.as_bytes());
    // Longer, with another beginning.
    let longer = meta(&thread_id(1)) + &turn(7, 6_000) + &turn(8, 6_000) + &turn(9, 6_000);
    write(&path, longer.as_bytes());
    assert_eq!(outcomes(&import(home.path())), [Outcome::Renewed]);
    assert!(home.journal(&thread_id(1)) == longer.as_bytes());
    // Cut off: the database has the rest, and says so.
    write(&path, &longer.as_bytes()[..longer.len() / 2]);
    let report = import(home.path());
    assert_eq!(outcomes(&report), [Outcome::Unchanged]);
    assert!(report.files[0].reason.as_deref().unwrap().contains("shorter"), "{report:?}");
    assert!(home.journal(&thread_id(1)) == longer.as_bytes());
    // Shorter, and something else.
    let other = meta(&thread_id(1)) + &turn(3, 100);
    write(&path, other.as_bytes());
    assert_eq!(outcomes(&import(home.path())), [Outcome::Renewed]);
    assert!(home.journal(&thread_id(1)) == other.as_bytes());
    let mut server = home.server();
    assert_eq!(read(&mut server, 1), ["turn-3"]);
}

/// Import a home in a process of its own: the most memory that it had, in bytes.
#[expect(clippy::zombie_processes, reason = "it is waited for by its id, to learn what it used")]
fn memory_of_import(home: &Home) -> usize {
    let import = home.command(&["import", "--json"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut status = 0;
    // SAFETY: all members of the struct are numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places are ours, and the process is a child that nobody else waits for.
    let pid = unsafe { libc::wait4(import.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!((pid, status), (import.id() as i32, 0));
    usage.ru_maxrss as usize * 1024
}

#[test]
fn a_large_line_is_not_in_memory_again_and_again() {
    // More than what the allocator keeps for others when it is given back.
    const SIZE: usize = 36 << 20;
    let home = Home::new();
    // Text that hardly compresses, as an image's does.
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (state >> 33) as u8 % 64)
    };
    let image: String = (0..SIZE).map(|_| next()).filter(|char| *char != '\\').collect();
    let url = format!("data:image/png;base64,{image}");
    write(&file_of(home.path(), 1), [meta(&thread_id(1)), turn(1, 100)].concat().as_bytes());
    let small = memory_of_import(&home);
    let message = json!({"type": "user_message", "message": "see", "images": [url]});
    let lines = [meta(&thread_id(2)), line("event_msg", &message), turn(1, 100)].concat();
    write(&file_of(home.path(), 2), lines.as_bytes());
    let large = memory_of_import(&home);
    // The line, what is read of it, and what an unoptimized build has beside them.
    let times = (large.saturating_sub(small)) as f64 / SIZE as f64;
    assert!(times < 3.5, "the line was in memory {times:.1} times");

    assert!(home.journal(&thread_id(2)) == lines.as_bytes());
    let mut server = home.server();
    let read = server.read(&thread_id(2));
    assert!(read["turns"][0]["items"][0]["content"][1]["url"] == url.as_str(), "the image comes back");
    server.close();
    assert!(home.command(&["verify"]).status().unwrap().success());
}

#[test]
fn a_dry_run_tells_what_would_come_and_stores_nothing() {
    let home = Home::new();
    write(&file_of(home.path(), 1), (meta(&thread_id(1)) + &turn(0, 100) + "{broken\n").as_bytes());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let report = runtime.block_on(async {
        let store =
            Store::open(&home.path().join(threadkeep::store::FILE_NAME), Clock::system()).await.unwrap();
        let options = Options { dry_run: true, ..Options::of_home(home.path()) };
        let report = job::run(&store, &options, &CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!(store.thread(&thread_id(1)).await.unwrap(), None);
        store.close().await;
        report
    });
    let [file] = &report.files[..] else { panic!("{report:?}") };
    assert_eq!((file.outcome, file.thread_id.clone()), (Outcome::Imported, Some(thread_id(1))));
    assert_eq!((file.counts.lines, file.counts.turns, file.counts.items, file.counts.tokens), (8, 1, 2, 100));
    assert_eq!(file.problems[0].line, 8);
}

/// Lines of all recorded generations after the metadata of one thread.
fn some_lines() -> Vec<Vec<u8>> {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rollouts/files");
    let mut lines = Vec::new();
    for entry in fs::read_dir(files).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let bytes = fs::read(path).unwrap();
            let whole = read::lines(&bytes).filter(|line| line.ends_with(b"\n"));
            // Of another thread's metadata the rest would count as a copy.
            lines.extend(
                whole
                    .filter(|line| !String::from_utf8_lossy(line).contains("session_meta"))
                    .map(<[u8]>::to_vec),
            );
        }
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Any lines, any damage, taken in any number of pieces: the journal is the file, and all else is as after one go.
    #[test]
    fn a_file_that_grows_ends_as_one_that_was_whole(
        picked in vec(any::<prop::sample::Index>(), 0..80),
        cuts in vec(any::<prop::sample::Index>(), 0..4),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let lines = some_lines();
        let mut bytes = meta(&thread_id(1)).into_bytes();
        let start = bytes.len();
        picked.iter().for_each(|index| bytes.extend(index.get(&lines[..])));
        if start < bytes.len() {
            for (at, byte) in damage {
                let at = start + at.index(bytes.len() - start);
                bytes[at] = byte;
            }
        }
        let (growing, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| start + cut.index(bytes.len() - start + 1)).collect();
        cuts.sort_unstable();
        for cut in cuts {
            write(&file_of(growing.path(), 1), &bytes[..cut]);
            import(growing.path());
        }
        for home in [&growing, &whole] {
            write(&file_of(home.path(), 1), &bytes);
            let report = import(home.path());
            prop_assert_eq!(report.count(Outcome::Failed), 0, "{:?}", report);
            prop_assert_eq!(import(home.path()).taken(), 0);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for home in [&growing, &whole] {
            let journal = runtime.block_on(async {
                let file = home.path().join(threadkeep::store::FILE_NAME);
                let store = Store::open(&file, Clock::system()).await.unwrap();
                store.journal_from_byte(&thread_id(1), 0, i64::MAX).await.unwrap()
            });
            prop_assert!(journal == bytes);
        }
        // The cuts of the journal's runs, and the places that replaced items use up, are those of the pieces.
        let told = |home: &Path| -> Vec<String> {
            let lines = dump(home);
            let lines = lines.lines().filter(|line| !line.starts_with("journal "));
            let mut lines: Vec<String> = lines.map(without_places).collect();
            lines.sort();
            lines
        };
        let (growing, whole) = (told(growing.path()), told(whole.path()));
        for (growing, whole) in growing.iter().zip(&whole) {
            // A preview stays once it is there, also if what it came from is told otherwise later.
            let growing = match whole.split_once("preview='' ") {
                Some((before, _)) => {
                    let rest = growing.split_once(" name=").map_or("", |(_, rest)| rest);
                    format!("{before}preview='' name={rest}")
                }
                None => growing.clone(),
            };
            prop_assert_eq!(&growing, whole);
        }
        prop_assert_eq!(growing.len(), whole.len());
    }
}

/// A row of a dump without its place in its table.
fn without_places(line: &str) -> String {
    match line.split_once(' ') {
        Some((table @ ("turns" | "items" | "token_usage"), row)) => {
            let columns = row.find('=').map_or(row, |at| &row[row[..at].rfind(' ').unwrap_or(0)..]);
            format!("{table}{columns}")
        }
        _ => line.to_owned(),
    }
}
