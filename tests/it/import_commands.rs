//! `threadkeep import`, `export` and `verify`: what comes in, what is told, and that nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::home::Home;

const DAY: &str = "sessions/2026/02/03";

/// A rollout of one turn, as a client would have written it.
fn rollout(id: &str, say: &str) -> String {
    let line = |kind: &str, payload: Value| {
        json!({"timestamp": "2026-02-03T10:00:00.000Z", "type": kind, "payload": payload}).to_string()
    };
    let content = json!([{"type": "input_text", "text": say}]);
    [
        line(
            "session_meta",
            json!({"id": id, "timestamp": "2026-02-03T10:00:00.000Z", "cwd": "/w",
            "originator": "it", "cli_version": "0.1.0", "source": "cli", "model_provider": "mock_provider"}),
        ),
        line("response_item", json!({"type": "message", "role": "user", "content": content})),
        line("event_msg", json!({"type": "user_message", "message": say, "kind": "plain"})),
        line("event_msg", json!({"type": "agent_message", "message": "answer"})),
    ]
    .map(|line| line + "\n")
    .concat()
}

fn id(number: u32) -> String {
    format!("019c2000-0000-7000-8000-{number:012}")
}

fn put(home: &Home, number: u32, bytes: &[u8]) -> PathBuf {
    let path = home.path().join(DAY).join(format!("rollout-2026-02-03T10-00-00-{}.jsonl", id(number)));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn run(home: &Home, arguments: &[&str]) -> Output {
    home.command(arguments).output().unwrap()
}

/// A run whose report is JSON; its exit code and the report.
fn report(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let mut all = vec!["import", "--json"];
    all.extend(arguments);
    let output = run(home, &all);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parsed = serde_json::from_str(&text);
    (output.status.code().unwrap(), parsed.unwrap_or_else(|_| panic!("{text}{output:?}")))
}

/// What the report says of a file.
fn of_file(report: &Value, path: &Path) -> Value {
    let files = report["changedFiles"].as_array().unwrap();
    files
        .iter()
        .find(|file| file["path"] == json!(path))
        .unwrap_or_else(|| panic!("{path:?} in {report}"))
        .clone()
}

#[test]
fn good_files_come_in_once() {
    let home = Home::new();
    for number in 1..4 {
        put(&home, number, rollout(&id(number), "hello").as_bytes());
    }
    let (code, first) = report(&home, &[]);
    assert_eq!((code, &first["imported"], &first["total"]["lines"]), (0, &json!(3), &json!(12)));
    let (code, second) = report(&home, &[]);
    assert_eq!((code, &second["unchanged"], &second["total"]["lines"]), (0, &json!(3), &json!(0)));
    let verified = run(&home, &["verify"]);
    assert!(verified.status.success(), "{verified:?}");
    assert_eq!(String::from_utf8_lossy(&verified.stdout), "3 files compared, 0 differences\n");
}

#[test]
fn a_dry_run_stores_nothing() {
    let home = Home::new();
    put(&home, 1, rollout(&id(1), "hello").as_bytes());
    let (code, dry) = report(&home, &["--dry-run"]);
    assert!(!home.path().join("threadkeep.sqlite").exists(), "nothing is left of it");
    assert_eq!((code, &dry["imported"], &dry["dryRun"]), (0, &json!(1), &json!(true)));
    assert_eq!(report(&home, &[]).1["imported"], json!(1));
}

#[test]
fn odd_files_do_not_stop_the_rest_and_keep_their_bytes() {
    let home = Home::new();
    let good = rollout(&id(1), "hello");
    let lines: Vec<&str> = good.lines().collect();
    let joined = |lines: &[&str]| (lines.join("\n") + "\n").into_bytes();
    let cases: Vec<(u32, Vec<u8>, Option<i64>)> = vec![
        (2, joined(&[&lines[0].replace(&id(1), &id(2)), "{\"broken\":", lines[2]]), Some(2)),
        (3, good.replace(&id(1), &id(3)).into_bytes()[..good.len() - 20].to_vec(), Some(4)),
        (4, [&b"\xef\xbb\xbf"[..], good.replace(&id(1), &id(4)).as_bytes()].concat(), None),
        (5, good.replace(&id(1), &id(5)).replace('\n', "\r\n").into_bytes(), None),
        (6, good.replace(&id(1), &id(6)).replace('\n', "\n\n").into_bytes(), None),
        (7, [good.replace(&id(1), &id(7)).as_bytes(), &[0; 64]].concat(), None),
        (8, good.replace(&id(1), &id(8)).replace("hello", "h\u{fffd}llo").into_bytes(), None),
        (
            9,
            joined(&[&lines[0].replace(&id(1), &id(9)), "{\"type\":\"quantum\",\"payload\":{}}", lines[2]]),
            None,
        ),
        (10, [good.replace(&id(1), &id(10)).as_bytes(), b"\xff\xfe\n"].concat(), Some(5)),
    ];
    put(&home, 1, good.as_bytes());
    let mut paths = Vec::new();
    for (number, bytes, _) in &cases {
        paths.push(put(&home, *number, bytes));
    }
    let empty = put(&home, 11, b"");
    let unreadable = home.path().join(DAY).join(format!("rollout-2026-02-03T10-00-00-{}.jsonl", id(12)));
    std::os::unix::fs::symlink(home.path().join("nowhere"), &unreadable).unwrap();
    let (code, told) = report(&home, &[]);
    assert_eq!(code, 2, "{told}");
    for ((number, _, bad), path) in cases.iter().zip(&paths) {
        let file = of_file(&told, path);
        assert_eq!(file["outcome"], "imported", "{number}: {file}");
        let first = file["problems"].get(0).map(|problem| problem["line"].as_i64().unwrap());
        assert_eq!(first, *bad, "{number}: {file}");
    }
    assert_eq!(of_file(&told, &empty)["outcome"], "notARollout");
    for ((number, bytes, _), _) in cases.iter().zip(&paths) {
        let exported = run(&home, &["export", &id(*number)]);
        assert_eq!(exported.stdout, *bytes, "{number}");
    }
}

#[test]
fn appended_lines_are_added_and_a_rewritten_file_is_taken_anew() {
    let home = Home::new();
    let path = put(&home, 1, rollout(&id(1), "hello").as_bytes());
    report(&home, &[]);
    let more = "{\"timestamp\":\"2026-02-03T10:00:01.000Z\",\"type\":\"event_msg\",\"payload\":\
                {\"type\":\"agent_message\",\"message\":\"more\"}}\n";
    fs::write(&path, rollout(&id(1), "hello") + more).unwrap();
    let (_, told) = report(&home, &[]);
    assert_eq!((&told["extended"], &told["total"]["lines"]), (&json!(1), &json!(1)));
    fs::write(&path, rollout(&id(1), "other")).unwrap();
    let (_, told) = report(&home, &[]);
    assert_eq!(told["renewed"], json!(1), "{told}");
    assert!(run(&home, &["verify"]).status.success());
}

#[test]
fn a_thread_that_has_gone_on_here_is_never_overwritten() {
    let home = Home::new();
    let path = put(&home, 1, rollout(&id(1), "hello").as_bytes());
    home.model.script([crate::support::model::say("from here")]);
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": id(1)}));
    server.run_turn(&id(1), "go on");
    assert!(server.close().success());
    let recorded = home.journal(&id(1));
    fs::write(&path, rollout(&id(1), "something quite different")).unwrap();
    let (code, told) = report(&home, &[]);
    assert_eq!((code, &told["conflicts"]), (2, &json!(1)), "{told}");
    assert_eq!(home.journal(&id(1)), recorded);
    let verified = run(&home, &["verify", "--json"]);
    assert_eq!(verified.status.code(), Some(2));
    let finding: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!((&finding["standing"], &finding["detail"]["line"]), (&json!("differs"), &json!(2)));
}

#[test]
fn an_export_is_a_home_again() {
    let home = Home::new();
    for number in 1..4 {
        put(&home, number, rollout(&id(number), "hello").as_bytes());
    }
    let out = tempfile::tempdir().unwrap();
    let exported = run(&home, &["export", "--all", "--out", out.path().to_str().unwrap()]);
    assert!(exported.status.success(), "{exported:?}");
    let other = Home::new();
    let (code, told) = report(&other, &[out.path().to_str().unwrap()]);
    assert_eq!((code, &told["imported"]), (0, &json!(3)), "{told}");
    assert_eq!(other.journal(&id(2)), home.journal(&id(2)));
    let missing = run(&home, &["export", &id(99)]);
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn a_session_of_one_object_is_compared_as_it_was_taken() {
    let home = Home::new();
    let path = home.path().join(DAY).join("rollout-2025-05-11-a0a0a001-1b2c-4d3e-9f40-000000000001.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let session = json!({"session": {"timestamp": "2025-05-11T10:00:00.000Z",
        "id": "a0a0a001-1b2c-4d3e-9f40-000000000001", "instructions": ""}, "items": []});
    fs::write(&path, serde_json::to_string_pretty(&session).unwrap()).unwrap();
    assert_eq!(report(&home, &[]).0, 0);
    let verified = run(&home, &["verify"]);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn a_path_that_is_not_there_fails() {
    let home = Home::new();
    let output = run(&home, &["import", "/no/such/place"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/place is not there"));
}

#[test]
fn an_interrupt_ends_cleanly_and_the_next_run_goes_on() {
    let home = Home::new();
    let long = "x".repeat(200_000);
    for number in 1..200 {
        put(&home, number, rollout(&id(number), &long).as_bytes());
    }
    let mut command = home.command(&["import", "--json", "--jobs", "1"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    // It may be over by then; both ends are good.
    let database = home.path().join("threadkeep.sqlite");
    while !database.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    child.wait().unwrap();
    let (code, _) = report(&home, &[]);
    assert_eq!(code, 0);
    assert!(run(&home, &["verify"]).status.success());
    assert_eq!(report(&home, &[]).1["unchanged"], json!(199));
}

/// Make one of the other program's databases.
fn peer(home: &Home, name: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use sqlx::{ConnectOptions, Connection};
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(home.path().join(name))
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn what_only_the_other_databases_know_is_taken_over() {
    let home = Home::new();
    let thread = id(1);
    put(&home, 1, rollout(&thread, "hello").as_bytes());
    peer(
        &home,
        "state_5.sqlite",
        &format!(
            "create table threads (id text, name text, git_branch text);
             insert into threads values ('{thread}', 'A name', 'main');"
        ),
    );
    peer(
        &home,
        "goals_1.sqlite",
        &format!(
            "create table thread_goals (thread_id text, goal_id text, objective text, status text, token_budget integer,
                 tokens_used integer, time_used_seconds integer, created_at_ms integer, updated_at_ms integer);
             insert into thread_goals values ('{thread}', 'g', 'reach it', 'paused', 100, 7, 3, 1000, 2000);"
        ),
    );
    let payload =
        r#"{"UserInput":{"content":[{"type":"text","text":"A","text_elements":[]}],"client_id":"c"}}"#;
    peer(
        &home,
        "queue_1.sqlite",
        &format!(
            "create table queued_items (id text, thread_id text, payload_json text, queue_order integer);
             insert into queued_items values ('q1', '{thread}', '{payload}', 4);"
        ),
    );
    let before = fs::read(home.path().join("goals_1.sqlite")).unwrap();
    let (code, told) = report(&home, &[]);
    let expected = json!({"names": 1, "goals": 1, "queued": 1, "sections": 0});
    assert_eq!((code, &told["fromDatabases"]), (0, &expected));
    let again = json!({"names": 0, "goals": 0, "queued": 0, "sections": 0});
    assert_eq!(report(&home, &[]).1["fromDatabases"], again);
    assert_eq!(fs::read(home.path().join("goals_1.sqlite")).unwrap(), before);
    let mut server = home.server();
    let goal = server.request("thread/goal/get", &json!({"threadId": thread}))["goal"].clone();
    assert_eq!(
        (&goal["status"], &goal["tokensUsed"], &goal["timeUsedSeconds"]),
        (&json!("paused"), &json!(7), &json!(3))
    );
    let queue = server.request("thread/queue/list", &json!({"threadId": thread}))["data"].clone();
    assert_eq!((&queue[0]["id"], &queue[0]["clientUserMessageId"]), (&json!("q1"), &json!("c")));
    let shown = server.request("thread/read", &json!({"threadId": thread}))["thread"].clone();
    assert_eq!((&shown["name"], &shown["gitInfo"]["branch"]), (&json!("A name"), &json!("main")));
    server.request("thread/queue/delete", &json!({"threadId": thread, "queuedSubmissionId": "q1"}));
    assert!(server.close().success());
    assert_eq!(report(&home, &[]).1["fromDatabases"], again, "what was taken once is not taken again");
}
