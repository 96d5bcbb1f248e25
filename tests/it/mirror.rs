//! The rollout files: they hold what the journal holds, are caught up, follow their thread, and are enough to begin
//! anew from.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::model::{Reply, said, say, talk};
use crate::support::{id, ids};

/// The one rollout file of a home.
fn only_file(home: &Home) -> PathBuf {
    let files = home.rollouts();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// The file has the bytes of the thread's journal, each line a JSON object.
fn check_mirrored(home: &Home, thread: &str) {
    let (journal, file) = (home.journal(thread), std::fs::read(only_file(home)).unwrap());
    assert!(!journal.is_empty());
    assert!(journal == file, "journal:\n{}\nfile:\n{}", show(&journal), show(&file));
    let text = String::from_utf8(file).unwrap();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap().is_object(), "{line}");
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn resume(server: &mut Server, thread: &str) -> Value {
    server.request("thread/resume", &json!({"threadId": thread}))["thread"].clone()
}

#[test]
fn after_every_turn_the_file_has_the_bytes_of_the_journal() {
    let home = Home::new();
    home.model.script([
        Reply::default().reason("let me think").pieces(&["one ", "two"]).usage(5, 0, 2, 0, 7),
        Reply::default().call("no_such_tool", "call-1", &json!({})),
        say("after the tool"),
    ]);
    let mut server = home.server();
    let thread = server.used_thread("first, with\nnew lines, \u{2028} and 日本");
    check_mirrored(&home, &thread);
    server.run_turn(&thread, "second");
    check_mirrored(&home, &thread);
    assert_eq!(server.read(&thread)["path"], json!(only_file(&home)));
    server.close();
    check_mirrored(&home, &thread);
}

#[test]
fn a_thread_without_a_message_has_no_file() {
    let home = Home::new();
    let mut server = home.server();
    server.start_thread();
    server.close();
    assert_eq!(home.rollouts(), Vec::<PathBuf>::new());
}

#[test]
fn resuming_leaves_the_file_and_the_time_of_the_thread_alone() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.close();
    let file = only_file(&home);
    let stamp = || (std::fs::read(&file).unwrap(), std::fs::metadata(&file).unwrap().modified().unwrap());
    let before = stamp();
    let mut server = home.server();
    let updated = server.read(&thread)["updatedAt"].clone();
    assert_eq!(resume(&mut server, &thread)["updatedAt"], updated);
    assert_eq!(server.read(&thread)["updatedAt"], updated);
    server.close();
    assert!(stamp() == before, "resuming touched the file");
}

#[test]
fn a_file_that_was_cut_short_is_caught_up() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.run_turn(&thread, "again");
    server.close();
    let file = only_file(&home);
    let whole = std::fs::read(&file).unwrap();
    let line_end = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in [whole.len() - 10, line_end + 5, line_end] {
        std::fs::write(&file, &whole[..length]).unwrap();
        let mut server = home.server();
        let resumed = resume(&mut server, &thread);
        assert_eq!(resumed["turns"].as_array().unwrap().len(), 2, "cut at {length}");
        server.close();
        assert!(std::fs::read(&file).unwrap() == whole, "cut at {length}");
    }
    let mut server = home.server();
    resume(&mut server, &thread);
    server.run_turn(&thread, "and on");
    server.close();
    check_mirrored(&home, &thread);
}

#[test]
fn a_file_that_is_missing_is_written_again() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.close();
    std::fs::remove_file(only_file(&home)).unwrap();
    let mut server = home.server();
    resume(&mut server, &thread);
    server.run_turn(&thread, "again");
    server.close();
    check_mirrored(&home, &thread);
}

#[test]
fn the_file_moves_with_the_thread_and_goes_with_it() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("hello");
    let active = only_file(&home);
    assert!(active.starts_with(home.path().join("sessions")), "{active:?}");
    let params = json!({"threadId": thread});
    server.request("thread/archive", &params);
    let archived = only_file(&home);
    assert!(archived.starts_with(home.path().join("archived_sessions")), "{archived:?}");
    check_mirrored(&home, &thread);
    server.request("thread/unarchive", &params);
    assert_eq!(only_file(&home), active);
    server.request("thread/delete", &params);
    assert_eq!(home.rollouts(), Vec::<PathBuf>::new());
    assert!(home.journal(&thread).is_empty());
}

/// A second home with nothing but the first one's rollout files.
fn second_home(home: &Home) -> Home {
    let second = Home::new();
    for file in home.rollouts() {
        let copy = second.path().join(file.strip_prefix(home.path()).unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(file, copy).unwrap();
    }
    second
}

#[test]
fn a_home_with_only_the_files_has_the_same_turns_and_items() {
    let home = Home::new();
    home.model.script([
        Reply::default().reason("let me think").pieces(&["one ", "two"]).usage(5, 0, 2, 0, 7),
        Reply::default().call("no_such_tool", "call-1", &json!({})),
        say("after the tool"),
        Reply::default().say("a whole one").gate("never"),
    ]);
    let mut server = home.server();
    let thread = server.used_thread("first");
    server.run_turn(&thread, "second");
    let turn = server.start_turn(&thread, "third");
    server.notification_where("item/completed", |params| params["item"]["text"] == "a whole one");
    server.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    server.completed(&turn);
    let archived = server.used_thread("archived");
    server.request("thread/archive", &json!({"threadId": archived}));
    let before = [server.read(&thread), server.read(&archived)];
    server.close();

    let second = second_home(&home);
    let mut server = second.server();
    assert_eq!(ids(&server.request("thread/list", &json!({}))), [thread.as_str()]);
    assert_eq!(ids(&server.request("thread/list", &json!({"archived": true}))), [archived.as_str()]);
    for before in before {
        let after = server.read(&id(&before));
        for key in ["turns", "preview", "cwd", "modelProvider", "createdAt", "source", "cliVersion"] {
            assert_eq!(after[key], before[key], "{key}");
        }
    }
    resume(&mut server, &thread);
    server.run_turn(&thread, "and here");
    let talk = talk(&second.model.last());
    let expected = said(&[
        ("user", "first"),
        ("assistant", "one two"),
        ("user", "second"),
        ("assistant", "after the tool"),
    ]);
    assert_eq!(talk[..4], expected);
    assert_eq!(talk[4..6], said(&[("user", "third"), ("assistant", "a whole one")]));
    assert_eq!(talk.last().unwrap().1, "and here");
}

#[test]
fn a_fork_can_be_read_from_its_files() {
    let home = Home::new();
    let mut server = home.server();
    let source = server.used_thread("ask one");
    server.run_turn(&source, "ask two");
    let fork = id(&server.request("thread/fork", &json!({"threadId": source}))["thread"]);
    server.run_turn(&fork, "only in the fork");
    let before = server.read(&fork);
    server.close();
    let second = second_home(&home);
    let mut server = second.server();
    let after = server.read(&fork);
    assert_eq!(after["turns"], before["turns"]);
    assert_eq!(after["forkedFromId"], before["forkedFromId"]);
}

#[test]
fn the_legacy_form_is_enough_to_begin_anew_from_too() {
    let home = Home::new();
    home.set(r#"rollout_form = "legacy""#);
    home.model
        .script([Reply::default().reason("let me think").pieces(&["one ", "two"]).usage(5, 0, 2, 0, 7)]);
    let mut server = home.server();
    let thread = server.used_thread("first");
    server.run_turn(&thread, "second");
    let before = server.read(&thread);
    server.close();
    check_mirrored(&home, &thread);
    let second = second_home(&home);
    let after = second.server().read(&thread);
    let texts = |thread: &Value| -> Vec<Vec<Value>> {
        let turns = thread["turns"].as_array().unwrap().iter();
        turns
            .map(|turn| {
                let items = turn["items"].as_array().unwrap().iter();
                items.map(|item| json!([item["type"], item["text"], item["content"]])).collect()
            })
            .collect()
    };
    assert_eq!(texts(&after), texts(&before));
}
