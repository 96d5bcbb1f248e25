//! Compaction: on demand and by itself; what the model is shown afterwards, and that nothing is lost or stored twice.

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::id;
use crate::support::model::{Reply, said, say, status, talk};

/// A small picture, as a client sends it.
const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkSPhfDwAC+AGANt6W2gAAAABJRU5ErkJggg==";

fn compact(server: &mut Server, thread: &str) -> Value {
    assert_eq!(server.request("thread/compact/start", &json!({"threadId": thread})), json!({}));
    server.notification("turn/completed")["turn"].clone()
}

fn kinds(turn: &Value) -> Vec<&str> {
    turn["items"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// What the model said and was told, without the summary's heading.
fn conversation(body: &Value) -> Vec<(String, String)> {
    let mut talk = talk(body);
    for (_, text) in &mut talk {
        if let Some((_, summary)) = text.split_once("go on from there.\n") {
            *text = summary.to_owned();
        }
    }
    talk
}

#[test]
fn the_context_starts_anew_with_the_summary_and_the_users_words() {
    let home = Home::new();
    home.model.script([
        say("first answer").usage(9, 0, 1, 0, 10),
        say("the summary").usage(20, 0, 2, 0, 22),
        say("second answer").usage(5, 0, 1, 0, 6),
    ]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.settle();
    let before = server.came.len();
    let turn = compact(&mut server, &thread);
    assert_eq!((&turn["status"], &turn["items"]), (&json!("completed"), &json!([])));
    let told: Vec<String> = server.came[before..]
        .iter()
        .filter_map(|message| message["method"].as_str())
        .filter(|method| *method != "account/rateLimits/updated")
        .map(str::to_owned)
        .collect();
    let expected = [
        "thread/status/changed",
        "turn/started",
        "item/started",
        "thread/tokenUsage/updated",
        "thread/tokenUsage/updated",
        "thread/tokenUsage/updated",
        "item/completed",
        "thread/status/changed",
        "turn/completed",
    ];
    assert_eq!(told, expected);
    let usages: Vec<(i64, i64)> = server
        .events(&thread, &["thread/tokenUsage/updated"])
        .iter()
        .map(|event| &event["params"]["tokenUsage"])
        .map(|usage| {
            (usage["total"]["totalTokens"].as_i64().unwrap(), usage["last"]["inputTokens"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(usages, [(10, 9), (10, 9), (32, 20), (32, 0)]);
    server.run_turn(&thread, "go on");
    let last = home.model.last();
    assert_eq!(conversation(&last), said(&[("user", "hello"), ("user", "the summary"), ("user", "go on")]));
    assert!(last["client_metadata"]["x-codex-window-id"].as_str().unwrap().ends_with(":1"), "{last}");
    let turns = server.read(&thread)["turns"].clone();
    let shown: Vec<Vec<&str>> = turns.as_array().unwrap().iter().map(kinds).collect();
    let spoken = vec!["userMessage", "agentMessage"];
    assert_eq!(shown, [spoken.clone(), vec!["contextCompaction"], spoken]);
}

#[test]
fn a_restart_knows_the_compaction() {
    let home = Home::new();
    home.model.script([say("first answer"), say("sum one"), say("sum two"), say("after")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    compact(&mut server, &thread);
    compact(&mut server, &thread);
    server.kill();
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    server.run_turn(&thread, "go on");
    let last = home.model.last();
    assert_eq!(conversation(&last), said(&[("user", "hello"), ("user", "sum two"), ("user", "go on")]));
    assert!(last["client_metadata"]["x-codex-window-id"].as_str().unwrap().ends_with(":2"), "{last}");
}

#[test]
fn a_nearly_full_context_is_compacted_before_the_next_message() {
    let home = Home::new();
    home.set("model_auto_compact_token_limit = 1000");
    home.model.script([
        say("first answer").usage(1000, 0, 1, 0, 1001),
        say("the summary").usage(1000, 0, 1, 0, 1001),
        say("second answer").usage(5, 0, 1, 0, 6),
        say("third answer").usage(5, 0, 1, 0, 6),
    ]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    let turn = server.start_turn(&thread, "go on");
    assert_eq!(server.completed(&turn)["status"], "completed");
    let turns = server.read(&thread)["turns"].clone();
    assert_eq!(kinds(&turns[1]), ["contextCompaction", "userMessage", "agentMessage"]);
    let expected = [("user", "hello"), ("user", "the summary"), ("user", "go on")];
    assert_eq!(conversation(&home.model.last()), said(&expected));
    server.run_turn(&thread, "more");
    assert_eq!(home.model.requests().len(), 4, "the context is small again");
}

#[test]
fn a_context_that_fills_up_in_a_turn_is_compacted_between_responses() {
    let home = Home::new();
    home.set("model_auto_compact_token_limit = 1000");
    home.model.script([
        Reply::default().call("no_such_tool", "call-1", &json!({})).usage(1000, 0, 1, 0, 1001),
        say("the summary").usage(1000, 0, 1, 0, 1001),
        say("the end").usage(5, 0, 1, 0, 6),
    ]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    assert_eq!(conversation(&home.model.last()), said(&[("user", "hello"), ("user", "the summary")]));
    let turns = server.read(&thread)["turns"].clone();
    assert_eq!(kinds(&turns[0]), ["userMessage", "contextCompaction", "agentMessage"]);
}

#[test]
fn an_image_is_stored_once_however_often_a_thread_is_compacted() {
    let home = Home::new();
    home.model.repeat(say("a summary"));
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let input = json!([{"type": "text", "text": "look"}, {"type": "image", "url": PIXEL}]);
    let turn = id(&server.request("turn/start", &json!({"threadId": thread, "input": input}))["turn"]);
    server.completed(&turn);
    let count = |home: &Home| {
        let journal = String::from_utf8(home.journal(&thread)).unwrap();
        journal.matches(PIXEL).count()
    };
    let before = count(&home);
    for _ in 0..10 {
        compact(&mut server, &thread);
    }
    assert_eq!(count(&home), before);
    server.run_turn(&thread, "still there?");
    let input = home.model.last()["input"].to_string();
    assert_eq!(input.matches(PIXEL).count(), 1, "the model still sees it");
}

#[test]
fn a_compaction_that_fails_changes_nothing() {
    let home = Home::new();
    home.model.script([
        say("first answer"),
        status(400, r#"{"error":{"message":"no"}}"#),
        say("second answer"),
    ]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    let turn = compact(&mut server, &thread);
    assert_eq!(turn["status"], "failed", "{turn}");
    server.run_turn(&thread, "go on");
    let expected = [("user", "hello"), ("assistant", "first answer"), ("user", "go on")];
    assert_eq!(talk(&home.model.last()), said(&expected));
}

#[test]
fn a_compaction_that_is_cut_changes_nothing() {
    let home = Home::new();
    home.model.script([say("first answer"), say("the summary").gate("never"), say("second answer")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.request("thread/compact/start", &json!({"threadId": thread}));
    home.model.wait_for_requests(2);
    server.settle();
    let turn = id(&server.events(&thread, &["turn/started"]).last().unwrap()["params"]["turn"]);
    server.refused(
        "turn/steer",
        &json!({"threadId": thread, "expectedTurnId": turn, "input": crate::support::text("x")}),
        "cannot steer a compact turn",
    );
    server.kill();
    let mut server = home.server();
    let resumed = server.request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(resumed["thread"]["turns"][1]["status"], "interrupted");
    server.run_turn(&thread, "go on");
    let talk = talk(&home.model.last());
    assert_eq!(talk[..2], said(&[("user", "hello"), ("assistant", "first answer")]));
    assert_eq!(talk.last(), said(&[("user", "go on")]).last());
}
