//! The command line: what the README shows, exit codes, help texts.

use std::process::Output;

use serde_json::Value;
use sqlx::{Connection, Row};

use crate::support::home::Home;

const NOBODY: &str = "0199a213-81a0-7800-8aa0-bbab2a035a53";

fn run(home: &Home, arguments: &[&str]) -> Output {
    home.command(arguments).output().unwrap()
}

/// What a command prints that must succeed.
fn printed(home: &Home, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn said_on_stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A thread with one turn of the offline provider.
fn offline_thread(home: &Home) -> String {
    let output = run(home, &["exec", "hello", "--provider", "offline"]);
    assert_eq!(output.status.code(), Some(0), "{}", said_on_stderr(&output));
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(said.contains("You said: hello"), "{said}");
    let stderr = said_on_stderr(&output);
    let line = stderr.lines().find_map(|line| line.strip_prefix("thread ")).expect("the thread is named");
    line.trim().to_owned()
}

#[test]
fn a_first_turn_needs_neither_network_nor_configuration() {
    let home = Home::new();
    std::fs::remove_file(home.path().join("config.toml")).unwrap();
    let thread = offline_thread(&home);
    let listed = printed(&home, &["threads"]);
    assert!(listed.starts_with(&thread) && listed.trim_end().ends_with("hello"), "{listed}");
    assert_eq!(listed.lines().count(), 1);
    assert!(home.model.requests().is_empty());
}

#[test]
fn a_thread_goes_on_and_is_shown() {
    let home = Home::new();
    let thread = offline_thread(&home);
    let said = printed(&home, &["exec", "and now?", "--thread", &thread]);
    assert!(said.contains("You said: and now?"), "the thread keeps its provider: {said}");
    let shown = printed(&home, &["show", &thread]);
    let at = |part: &str| shown.find(part).unwrap_or_else(|| panic!("no {part:?} in {shown}"));
    assert!(at("> hello") < at("You said: hello"));
    assert!(at("You said: hello") < at("> and now?"));
    assert!(at("> and now?") < at("You said: and now?"));
    let json: Value = serde_json::from_str(&printed(&home, &["show", &thread, "--json"])).unwrap();
    assert_eq!(json["id"], thread);
    let statuses: Vec<&Value> =
        json["turns"].as_array().unwrap().iter().map(|turn| &turn["status"]).collect();
    assert_eq!(statuses, ["completed", "completed"]);
}

#[test]
fn json_output_is_a_notification_a_line() {
    let home = Home::new();
    let output = printed(&home, &["exec", "hello", "--provider", "offline", "--json"]);
    let methods: Vec<String> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(methods.last().unwrap(), "turn/completed");
    assert!(methods.contains(&"item/agentMessage/delta".to_owned()), "{methods:?}");
    let listed = printed(&home, &["threads", "--json"]);
    let thread: Value = serde_json::from_str(listed.trim_end()).unwrap();
    assert_eq!(thread["preview"], "hello");
}

#[test]
fn threads_are_listed_the_last_used_first_up_to_a_limit() {
    let home = Home::new();
    let (first, second) = (offline_thread(&home), offline_thread(&home));
    printed(&home, &["exec", "again", "--thread", &first]);
    let order = |output: &str| -> Vec<String> {
        output.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(order(&printed(&home, &["threads"])), [first.clone(), second]);
    assert_eq!(order(&printed(&home, &["threads", "--limit", "1"])), [first]);
    assert_eq!(printed(&home, &["threads", "--archived"]), "");
}

#[test]
fn the_server_and_the_command_line_see_the_same_threads() {
    let home = Home::new();
    let thread = offline_thread(&home);
    let mut server = home.server();
    let read = server.read(&thread);
    assert_eq!(read["turns"][0]["items"][0]["content"][0]["text"], "hello");
    let other = server.used_thread("over the wire");
    assert!(printed(&home, &["threads"]).starts_with(&other));
}

#[test]
fn the_home_is_the_flag_before_the_variables() {
    let (home, other) = (Home::new(), Home::new());
    let folder = other.path().display().to_string();
    printed(&home, &["exec", "hello", "--provider", "offline", "--home", &folder]);
    assert_eq!(printed(&home, &["threads"]), "");
    assert_eq!(printed(&other, &["threads"]).lines().count(), 1);
    let mut command = home.command(&["threads"]);
    command.env_remove("THREADKEEP_HOME").env("CODEX_HOME", other.path());
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap().lines().count(), 1);
}

/// The views with their columns, from the README's table.
fn documented_views(readme: &str) -> Vec<(String, Vec<String>)> {
    let rows = readme.lines().filter(|line| line.starts_with("| `v_"));
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (words(cells[1])[0].clone(), words(cells[3]))
    })
    .collect()
}

#[test]
fn the_views_of_the_readme_answer_questions() {
    let home = Home::new();
    let thread = offline_thread(&home);
    printed(&home, &["exec", "and now?", "--thread", &thread, "--provider", "offline"]);
    home.change(
        "insert into goals (thread_key, goal_id, objective, status, created_at_ms, updated_at_ms)
         values (1, 'g', 'reach the end', 'blocked', 1, 1)",
    );
    let file = home.path().join(threadkeep::store::FILE_NAME);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).read_only(true);
        let mut db = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let readme = include_str!("../../README.md");
        let quoted: Vec<&str> = readme.split('"').filter(|text| text.starts_with("select ")).collect();
        assert!(quoted.len() >= 2, "{quoted:?}");
        for query in quoted {
            let rows = sqlx::query(query).fetch_all(&mut db).await;
            assert_eq!(rows.unwrap_or_else(|error| panic!("{query}: {error}")).len(), 1, "{query}");
        }
        for (view, columns) in documented_views(readme) {
            // Statically: the names are those of the README beside this file.
            let sql = sqlx::AssertSqlSafe(format!("select name from pragma_table_info('{view}')"));
            let found: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut db).await.unwrap();
            assert_eq!(found, columns, "the columns of {view}");
        }
        let thread = sqlx::query("select * from v_threads").fetch_one(&mut db).await.unwrap();
        let (turns, tokens): (i64, i64) = (thread.get("turns"), thread.get("own_tokens"));
        let days = sqlx::query("select * from v_usage_daily").fetch_all(&mut db).await.unwrap();
        let daily: i64 = days.iter().map(|day| day.get::<i64, _>("total_tokens")).sum();
        assert_eq!(turns, 2);
        assert!(tokens > 0);
        assert_eq!(daily, tokens);
        let turns = sqlx::query("select * from v_turns").fetch_all(&mut db).await.unwrap();
        assert_eq!(turns.len(), 2);
    });
}

#[test]
fn exit_codes_say_what_went_wrong() {
    let home = Home::new();
    home.model.repeat(crate::support::model::status(400, "that was wrong"));
    for (arguments, code, part) in [
        (vec!["threads", "--nonsense"], 2, "--nonsense"),
        (vec!["app-server", "--listen", "tcp://nowhere"], 2, "unsupported --listen URL"),
        (vec!["show", NOBODY], 3, NOBODY),
        (vec!["exec", "hello"], 4, "that was wrong"),
        (vec!["threads", "-c", "not an assignment"], 1, "not an assignment"),
    ] {
        let output = run(&home, &arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said_on_stderr(&output));
        assert!(said_on_stderr(&output).contains(part), "{arguments:?}: {}", said_on_stderr(&output));
    }
    let output = run(&home, &["exec", "hello", "--thread", NOBODY]);
    assert_ne!(output.status.code(), Some(0));
    assert!(said_on_stderr(&output).contains(NOBODY), "{}", said_on_stderr(&output));
}

#[test]
fn help_is_as_it_was_agreed() {
    let home = Home::new();
    for command in ["", "app-server", "exec", "threads", "show", "usage", "schema"] {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let name = if command.is_empty() { "threadkeep" } else { command };
        insta::assert_snapshot!(format!("help_{name}"), printed(&home, &arguments));
    }
}
