//! The queue: submissions become turns in order, once, whatever happens.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::home::Home;
use crate::support::model::{Reply, say, status};
use crate::support::{id, text};

/// Submissions of the crash test.
const SUBMISSIONS: usize = 30;

fn add(client: &mut Client, thread: &str, say: &str) -> String {
    let params = json!({"threadId": thread, "clientUserMessageId": format!("c-{say}"), "input": text(say)});
    id(&client.request("thread/queue/add", &params)["queuedSubmission"])
}

fn queued(client: &mut Client, thread: &str) -> Vec<String> {
    let page = client.request("thread/queue/list", &json!({"threadId": thread, "limit": 100}));
    let data = page["data"].as_array().unwrap();
    data.iter().map(|one| one["input"][0]["text"].as_str().unwrap().to_owned()).collect()
}

/// What the turns of a thread began with.
fn asked(thread: &Value) -> Vec<String> {
    let turns = thread["turns"].as_array().unwrap().iter();
    let items = turns.flat_map(|turn| turn["items"].as_array().unwrap());
    items
        .filter(|item| item["type"] == "userMessage")
        .map(|item| item["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

fn next_completed(client: &mut Client) -> Value {
    client.notification("turn/completed")["turn"].clone()
}

#[test]
fn each_submission_is_run_once_through_kills() {
    let home = Home::new();
    home.model.script([Reply::default().gate("all are queued").say("First")]);
    home.model.repeat(Reply::default().pieces(&["some ", "words"]));
    let mut server = home.server();
    let thread = id(&server.start_thread());
    server.start_turn(&thread, "first");
    let mut expected = vec!["first".to_owned()];
    for at in 0..SUBMISSIONS {
        let said = format!("ask {at}");
        add(&mut server, &thread, &said);
        expected.push(said);
    }
    home.model.release("all are queued");
    let mut kills = 0;
    loop {
        // Moments are spread over a turn and a half.
        let (seen, moment) = (Cell::new(0), kills * 5 % 19);
        server.wait_for("the moment to kill, or the last end", |message| {
            seen.set(seen.get() + usize::from(message["params"]["threadId"] == thread.as_str()));
            seen.get() > moment
        });
        server.kill();
        kills += 1;
        server = home.server();
        server.request("thread/resume", &json!({"threadId": thread}));
        let left = queued(&mut server, &thread);
        let ran = asked(&server.read(&thread));
        // What resume has started meanwhile is in both lists or in neither: only what is certain is compared.
        assert_eq!(ran, expected[..ran.len()], "after kill {kills}");
        assert!(left.is_empty() || expected.ends_with(&left), "{left:?} after kill {kills}");
        if left.is_empty() {
            break;
        }
        // A cut turn holds the queue; if none was cut, it is going on already and this is refused.
        let at = server.post("thread/queue/start", &json!({"threadId": thread}));
        server.reply(&json!(at));
    }
    assert!(kills > 3, "{kills} kills");
    server.close();
    let mut server = home.server();
    assert_eq!(asked(&server.read(&thread)), expected);
}

#[test]
fn submissions_start_when_the_thread_is_idle_in_their_order() {
    let home = Home::new();
    home.model.script([Reply::default().gate("go").say("First"), status(400, "no"), say("B"), say("A")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    server.start_turn(&thread, "first");
    let a = add(&mut server, &thread, "a");
    let b = add(&mut server, &thread, "b");
    let c = add(&mut server, &thread, "c");
    let gone = add(&mut server, &thread, "gone");
    let order = json!({"threadId": thread, "queuedSubmissionIds": [c, b, gone, a]});
    server.request("thread/queue/reorder", &order);
    let one = json!({"threadId": thread, "queuedSubmissionId": gone});
    assert_eq!(server.request("thread/queue/delete", &one)["deleted"], true);
    assert_eq!(server.request("thread/queue/delete", &one)["deleted"], false);
    assert_eq!(queued(&mut server, &thread), ["c", "b", "a"]);
    server.refused(
        "thread/queue/start",
        &json!({"threadId": thread}),
        "already has an active or pending turn",
    );
    home.model.release("go");
    let ends: Vec<Value> = (0..4).map(|_| next_completed(&mut server)["status"].clone()).collect();
    assert_eq!(
        ends,
        ["completed", "failed", "completed", "completed"],
        "a failed turn does not stop the queue"
    );
    assert_eq!(asked(&server.read(&thread)), ["first", "c", "b", "a"]);
    assert!(queued(&mut server, &thread).is_empty());
}

#[test]
fn an_interrupt_holds_the_queue_until_it_is_started() {
    let home = Home::new();
    home.model.script([Reply::default().gate("never").say("First"), say("A"), say("B")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let turn = server.start_turn(&thread, "first");
    home.model.wait_for_requests(1);
    add(&mut server, &thread, "a");
    server.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    assert_eq!(server.completed(&turn)["status"], "interrupted");
    add(&mut server, &thread, "b");
    assert_eq!(queued(&mut server, &thread), ["a", "b"]);
    server.close();
    // The hold survives a restart.
    let mut server = home.server();
    server.refused("thread/queue/start", &json!({"threadId": thread}), "resume the thread before starting");
    server.request("thread/resume", &json!({"threadId": thread}));
    server.settle();
    assert_eq!(queued(&mut server, &thread), ["a", "b"]);
    server.request("thread/queue/start", &json!({"threadId": thread}));
    next_completed(&mut server);
    next_completed(&mut server);
    assert_eq!(asked(&server.read(&thread)), ["first", "a", "b"]);
}

#[test]
fn what_is_queued_on_a_thread_that_is_not_loaded_runs_at_resume() {
    let home = Home::new();
    home.model.script([say("Hello"), say("A")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.close();
    let mut server = home.server();
    add(&mut server, &thread, "a");
    assert_eq!(home.model.requests().len(), 1);
    server.request("thread/resume", &json!({"threadId": thread}));
    next_completed(&mut server);
    assert_eq!(asked(&server.read(&thread)), ["hello", "a"]);
}

#[test]
fn a_queue_has_limits() {
    let home = Home::new();
    home.model.script([Reply::default().gate("never").say("First")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    server.start_turn(&thread, "first");
    for at in 0..100 {
        add(&mut server, &thread, &at.to_string());
    }
    let one = |input: &Value| json!({"threadId": thread, "clientUserMessageId": "c", "input": input});
    let full = "queue cannot contain more than 100 submissions";
    server.refused("thread/queue/add", &one(&text("more")), full);
    server.refused("thread/queue/add", &one(&json!([])), "only user input can be added");
    let short = json!({"threadId": thread, "queuedSubmissionIds": []});
    server.refused("thread/queue/reorder", &short, "must include every queued submission exactly once");
}

#[test]
fn a_look_for_what_waits_tells_of_no_change_that_was_none() {
    let home = Home::new();
    let soon = i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap() + 2;
    let limit = json!({"error": {"type": "usage_limit_reached", "message": "too much", "resets_at": soon}});
    home.model.script([
        Reply::default().gate("never"),
        status(429, &limit.to_string()),
        say("On it").call("update_goal", "done", &json!({"status": "complete"})),
        say("Done"),
    ]);
    let mut server = home.server();
    let held = id(&server.start_thread());
    let turn = server.start_turn(&held, "first");
    home.model.wait_for_requests(1);
    server.request("turn/interrupt", &json!({"threadId": held, "turnId": turn}));
    next_completed(&mut server);
    add(&mut server, &held, "waits");
    server.settle();
    let told = server.events(&held, &["thread/queue/changed"]).len();
    assert_eq!(told, 1, "the interrupt holds the queue");
    // The goal of another thread meets a limit and wakes, for which everything that waits is looked at.
    let other = id(&server.start_thread());
    server.request("thread/goal/set", &json!({"threadId": other, "objective": "work"}));
    server.notification_where("thread/goal/updated", |params| params["goal"]["status"] == "complete");
    server.request("thread/unsubscribe", &json!({"threadId": held}));
    assert_eq!(server.events(&held, &["thread/queue/changed"]).len(), told);
}
