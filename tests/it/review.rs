//! Reviews: a turn with a conversation of its own, whose result is the thread's.

use serde_json::{Value, json};

use crate::support::home::Home;
use crate::support::id;
use crate::support::model::{Reply, said, say, talk};

fn kinds(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[test]
fn a_review_has_its_order_and_its_own_conversation() {
    let home = Home::new();
    let answer = json!({"summary": "Fine.", "findings": [{"title": "Typo", "body": "x", "file": "a", "line_start": 1}]});
    home.model.script([
        say("hello to you"),
        Reply::default().call("exec_command", "call-1", &json!({"cmd": "echo diff"})),
        say(&answer.to_string()).usage(7, 0, 3, 0, 10),
        say("mended"),
    ]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.settle();
    let before = server.came.len();
    let target = json!({"type": "uncommittedChanges"});
    let reply = server.request("review/start", &json!({"threadId": thread, "target": target}));
    assert_eq!(reply["reviewThreadId"], thread);
    let announced = id(&reply["turn"]);
    assert_eq!(
        (&reply["turn"]["rootTurnId"], id(&reply["turn"]["items"][0])),
        (&Value::Null, announced.clone())
    );
    let done = server.notification("turn/completed")["turn"].clone();
    let done = if done["rootTurnId"] == announced {
        done
    } else {
        server.notification("turn/completed")["turn"].clone()
    };
    let text = "Fine.\n\nFindings:\n\n- Typo — a:1\n  x";
    assert_eq!((&done["status"], &done["items"][0]["text"]), (&json!("completed"), &json!(text)));
    let told: Vec<String> = server.came[before..]
        .iter()
        .filter_map(|message| match message["method"].as_str()? {
            method @ ("item/started" | "item/completed") => {
                Some(format!("{} {}", &method[5..], message["params"]["item"]["type"].as_str().unwrap()))
            }
            method @ ("turn/started" | "turn/completed" | "thread/status/changed") => Some(method.to_owned()),
            _ => None,
        })
        .collect();
    let expected = [
        "started enteredReviewMode",
        "completed enteredReviewMode",
        "thread/status/changed",
        "turn/started",
        "started userMessage",
        "completed userMessage",
        "started commandExecution",
        "completed commandExecution",
        "started agentMessage",
        "started exitedReviewMode",
        "completed exitedReviewMode",
        "started agentMessage",
        "completed agentMessage",
        "thread/status/changed",
        "turn/completed",
    ];
    assert_eq!(told, expected);
    let review = &home.model.requests()[1];
    assert_eq!(talk(review).len(), 1, "the thread's messages are not the reviewer's: {review}");
    server.run_turn(&thread, "mend it");
    let conversation = talk(&home.model.last());
    let texts: Vec<&str> = conversation.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!((texts[0], texts[1], texts[3], texts[4]), ("hello", "hello to you", text, "mend it"));
    assert!(
        !home.model.last()["input"].to_string().contains("echo diff"),
        "the review's commands are its own"
    );
    let turns = server.read(&thread)["turns"].clone();
    let shown = ["enteredReviewMode", "userMessage", "commandExecution", "exitedReviewMode", "agentMessage"];
    assert_eq!(kinds(&turns[1]["items"]), shown);
}

#[test]
fn a_review_takes_no_messages_and_an_interrupt_ends_it() {
    let home = Home::new();
    home.model.script([say("hello to you"), say("{}").gate("never"), say("on")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    let target = json!({"type": "custom", "instructions": "look at the tests"});
    server.request("review/start", &json!({"threadId": thread, "target": target}));
    home.model.wait_for_requests(2);
    server.settle();
    let running = id(&server.events(&thread, &["turn/started"]).last().unwrap()["params"]["turn"]);
    let steer = json!({"threadId": thread, "expectedTurnId": running, "input": crate::support::text("x")});
    server.refused("turn/steer", &steer, "cannot steer a review turn");
    server.request("turn/interrupt", &json!({"threadId": thread, "turnId": running}));
    assert_eq!(server.completed(&running)["status"], "interrupted");
    server.run_turn(&thread, "go on");
    let talk = talk(&home.model.last());
    assert_eq!(talk[..2], said(&[("user", "hello"), ("assistant", "hello to you")]));
}

#[test]
fn a_target_without_its_part_is_refused() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    for (target, part) in [
        (json!({"type": "custom", "instructions": " "}), "instructions must not be empty"),
        (json!({"type": "commit", "sha": ""}), "sha must not be empty"),
        (json!({"type": "baseBranch", "branch": ""}), "branch must not be empty"),
    ] {
        server.refused("review/start", &json!({"threadId": thread, "target": target}), part);
    }
    let detached =
        json!({"threadId": thread, "target": {"type": "uncommittedChanges"}, "delivery": "detached"});
    server.refused("review/start", &detached, "unknown variant");
}
