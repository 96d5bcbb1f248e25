//! Turns: the order of events, what reaches the model, steering and interrupting, failures and retries, limits.

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::model::{Reply, said, say, status, talk};
use crate::support::{id, text};

/// The events of a thread in a word or two each.
fn in_short(server: &Server, thread: &str) -> Vec<String> {
    let methods = [
        "thread/status/changed",
        "turn/started",
        "item/started",
        "item/completed",
        "item/agentMessage/delta",
        "item/reasoning/summaryTextDelta",
        "thread/tokenUsage/updated",
        "error",
        "turn/completed",
    ];
    let events = server.events(thread, &methods).into_iter();
    events
        .map(|event| {
            let (method, params) = (event["method"].as_str().unwrap(), &event["params"]);
            match method {
                "item/started" | "item/completed" => {
                    format!(
                        "{} {}",
                        method.trim_start_matches("item/"),
                        params["item"]["type"].as_str().unwrap()
                    )
                }
                "thread/status/changed" => format!("status {}", params["status"]["type"].as_str().unwrap()),
                _ => method.to_owned(),
            }
        })
        .collect()
}

fn kinds(turn: &Value) -> Vec<&str> {
    turn["items"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[test]
fn a_plain_turn_has_its_order() {
    let home = Home::new();
    home.model.script([Reply::default().pieces(&["some ", "words"]).usage(5, 0, 2, 0, 7)]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let request = server.post("turn/start", &json!({"threadId": thread, "input": text("hello")}));
    let turn = server.reply(&json!(request))["result"]["turn"].clone();
    assert_eq!((&turn["status"], &turn["items"]), (&json!("inProgress"), &json!([])));
    let done = server.completed(&id(&turn));
    assert_eq!((&done["status"], &done["error"]), (&json!("completed"), &Value::Null));
    let expected = [
        "status active",
        "turn/started",
        "started userMessage",
        "completed userMessage",
        "started agentMessage",
        "item/agentMessage/delta",
        "item/agentMessage/delta",
        "completed agentMessage",
        "thread/tokenUsage/updated",
        "status idle",
        "turn/completed",
    ];
    assert_eq!(in_short(&server, &thread), expected);
    let place = |wanted: &dyn Fn(&Value) -> bool| server.came.iter().position(wanted).unwrap();
    let reply = place(&|message| message["id"] == request && message.get("result").is_some());
    assert!(reply < place(&|message| message["method"] == "turn/started"));
}

#[test]
fn the_deltas_of_a_message_add_up_to_its_text() {
    let home = Home::new();
    home.model.script([Reply::default().pieces(&["Straße, ", "日本, ", "👩‍🚀 and\n", "some plain", " words"])]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    let deltas = server.events(&thread, &["item/agentMessage/delta"]);
    let whole: String = deltas.iter().map(|event| event["params"]["delta"].as_str().unwrap()).collect();
    let stored = server.read(&thread)["turns"][0]["items"][1].clone();
    assert_eq!(whole, "Straße, 日本, 👩‍🚀 and\nsome plain words");
    assert_eq!(stored["text"], whole);
    assert!(deltas.iter().all(|event| event["params"]["itemId"] == stored["id"]));
}

#[test]
fn reasoning_is_an_item_and_goes_back_to_the_model() {
    let home = Home::new();
    home.model.script([Reply::default().reason("let me think").say("answer")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    let events = in_short(&server, &thread);
    assert_eq!(events[4..7], ["started reasoning", "item/reasoning/summaryTextDelta", "completed reasoning"]);
    assert_eq!(kinds(&server.read(&thread)["turns"][0]), ["userMessage", "reasoning", "agentMessage"]);
    server.run_turn(&thread, "next");
    let last = home.model.last();
    let back = last["input"].as_array().unwrap().iter().find(|item| item["type"] == "reasoning").unwrap();
    assert_eq!(back["encrypted_content"], "b64");
    assert_eq!(back["summary"][0]["text"], "let me think");
}

#[test]
fn token_usage_adds_up_over_turns() {
    let home = Home::new();
    home.model.script([say("x").usage(100, 40, 10, 5, 110), say("x").usage(200, 150, 20, 0, 1000)]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    for (last, total) in
        [([100, 40, 10, 5, 110], [100, 40, 10, 5, 110]), ([200, 150, 20, 0, 1000], [300, 190, 30, 5, 1110])]
    {
        server.run_turn(&thread, "hello");
        let usage = server.notification("thread/tokenUsage/updated")["tokenUsage"].clone();
        let keys =
            ["inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens", "totalTokens"];
        for (which, expected) in [("last", last), ("total", total)] {
            assert_eq!(keys.map(|key| usage[which][key].as_i64().unwrap()), expected, "{which}");
        }
    }
}

#[test]
fn a_thread_is_active_while_a_turn_runs() {
    let home = Home::new();
    home.model.script([Reply::default().gate("go").say("Done")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let turn = server.start_turn(&thread, "hello");
    home.model.wait_for_requests(1);
    let active = json!({"type": "active", "activeFlags": []});
    assert_eq!(server.read(&thread)["status"], active);
    assert_eq!(server.request("thread/list", &json!({}))["data"][0]["status"], active);
    home.model.release("go");
    server.completed(&turn);
    assert_eq!(server.read(&thread)["status"], json!({"type": "idle"}));
}

#[test]
fn every_request_holds_the_whole_history_also_after_a_restart() {
    let home = Home::new();
    let call = Reply::default().call("no_such_tool", "call-1", &json!({"a": 1}));
    home.model.script([call, say("answer one"), say("answer two"), say("answer three")]);
    let mut server = home.server();
    let thread = server.used_thread("ask one");
    server.run_turn(&thread, "ask two");
    let before = home.model.last();
    server.close();
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    server.run_turn(&thread, "ask three");
    let last = home.model.last();
    let expected = said(&[
        ("user", "ask one"),
        ("assistant", "answer one"),
        ("user", "ask two"),
        ("assistant", "answer two"),
        ("user", "ask three"),
    ]);
    assert_eq!(talk(&last), expected);
    let (before, last) = (before["input"].as_array().unwrap(), last["input"].as_array().unwrap());
    assert_eq!(last[..before.len()], before[..], "the beginning stays as it was");
    let output = last.iter().find(|item| item["type"] == "function_call_output").unwrap();
    assert_eq!(output["output"], "unsupported call: no_such_tool");
}

#[test]
fn the_same_client_message_id_is_answered_with_the_same_turn() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let once = json!({"threadId": thread, "input": text("once"), "clientUserMessageId": "mine-1"});
    let turn = id(&server.request("turn/start", &once)["turn"]);
    server.completed(&turn);
    assert_eq!(id(&server.request("turn/start", &once)["turn"]), turn);
    let other = json!({"threadId": thread, "input": text("other"), "clientUserMessageId": "mine-1"});
    server.refused("turn/start", &other, "mine-1");
    server.close();

    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(id(&server.request("turn/start", &once)["turn"]), turn, "after a restart");
    server.refused("turn/start", &other, "mine-1");
    server.run_turn(&thread, "next");
    assert_eq!(home.model.requests().len(), 2);
    let turns = server.read(&thread)["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 2);
    assert_eq!(turns[0]["items"][0]["clientId"], "mine-1");
    assert_eq!(turns[1]["items"][0]["clientId"], Value::Null);
}

#[test]
fn the_same_client_message_id_while_its_turn_runs_sends_nothing_twice() {
    let home = Home::new();
    home.model.script([Reply::default().gate("go").say("Done")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let once = json!({"threadId": thread, "input": text("once"), "clientUserMessageId": "mine-1"});
    let turn = id(&server.request("turn/start", &once)["turn"]);
    home.model.wait_for_requests(1);
    assert_eq!(id(&server.request("turn/start", &once)["turn"]), turn);
    home.model.release("go");
    server.completed(&turn);
    assert_eq!(kinds(&server.read(&thread)["turns"][0]), ["userMessage", "agentMessage"]);
    assert_eq!(home.model.requests().len(), 1);
}

#[test]
fn input_is_limited_to_a_mebi_of_characters() {
    const MOST: usize = 1 << 20;
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let longest = "é".repeat(MOST);
    assert_eq!(server.run_turn(&thread, &longest)["status"], "completed");
    assert!(talk(&home.model.last())[0].1 == longest);
    let input = text(&(longest + "x"));
    let error = server.error("turn/start", &json!({"threadId": thread, "input": input}));
    assert_eq!(error["data"]["max_chars"], MOST);
    assert_eq!(error["data"]["actual_chars"], MOST + 1);
    assert_eq!(home.model.requests().len(), 1);
}

/// A turn whose answer waits at the gate `go`; the thread and the turn.
fn held_turn(home: &Home, server: &mut Server) -> (String, String) {
    home.model.script([Reply::default().gate("go").say("first answer")]);
    let thread = id(&server.start_thread());
    let turn = server.start_turn(&thread, "ask one");
    home.model.wait_for_requests(1);
    (thread, turn)
}

#[test]
fn steering_joins_the_running_turn_and_drops_the_half_message() {
    let home = Home::new();
    let mut server = home.server();
    let held = Reply::default().pieces(&["half of ", "this"]).gate_before(2, "never");
    home.model.script([held, say("second answer")]);
    let thread = id(&server.start_thread());
    let turn = server.start_turn(&thread, "ask one");
    server.notification("item/agentMessage/delta");
    let steer = json!({"threadId": thread, "expectedTurnId": turn, "input": text("and this"),
        "clientUserMessageId": "steer-1"});
    assert_eq!(server.request("turn/steer", &steer)["turnId"], turn);
    assert_eq!(server.completed(&turn)["status"], "completed");
    assert_eq!(talk(&home.model.last()), said(&[("user", "ask one"), ("user", "and this")]));
    let turns = server.read(&thread)["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 1);
    assert_eq!(kinds(&turns[0]), ["userMessage", "userMessage", "agentMessage"]);
    assert_eq!(turns[0]["items"][1]["clientId"], "steer-1");
    assert_eq!(turns[0]["items"][2]["text"], "second answer");
}

#[test]
fn starting_a_turn_while_one_runs_joins_it() {
    let home = Home::new();
    let mut server = home.server();
    let (thread, turn) = held_turn(&home, &mut server);
    assert_eq!(server.start_turn(&thread, "and this"), turn);
    home.model.release("go");
    server.completed(&turn);
    let asked = talk(&home.model.last());
    assert_eq!(asked.last().unwrap().1, "and this");
    assert_eq!(server.read(&thread)["turns"].as_array().unwrap().len(), 1);
}

#[test]
fn steering_needs_the_running_turn() {
    let home = Home::new();
    let mut server = home.server();
    let (thread, turn) = held_turn(&home, &mut server);
    let steer =
        |turn: &str, input: Value| json!({"threadId": thread, "expectedTurnId": turn, "input": input});
    server.refused("turn/steer", &steer("wrong", text("x")), "expected active turn id");
    server.refused("turn/steer", &steer(&turn, json!([])), "input must not be empty");
    server.refused("turn/steer", &steer("", text("x")), "expectedTurnId must not be empty");
    home.model.release("go");
    server.completed(&turn);
    server.refused("turn/steer", &steer(&turn, text("x")), "no active turn to steer");
    assert_eq!(home.model.requests().len(), 1);
}

#[test]
fn an_interrupt_drops_the_half_message_and_tells_the_model() {
    let home = Home::new();
    let mut server = home.server();
    let half = Reply::default().say("a whole one").pieces(&["half of ", "this"]);
    home.model.script([half.gate_before(3, "never")]);
    let thread = id(&server.start_thread());
    let turn = server.start_turn(&thread, "ask one");
    server.notification("item/agentMessage/delta");
    server.refused(
        "turn/interrupt",
        &json!({"threadId": thread, "turnId": "wrong"}),
        "expected active turn id",
    );
    let interrupt = json!({"threadId": thread, "turnId": turn});
    assert_eq!(server.request("turn/interrupt", &interrupt), json!({}));
    let done = server.completed(&turn);
    assert_eq!((&done["status"], &done["error"]), (&json!("interrupted"), &Value::Null));
    let stored = server.read(&thread);
    assert_eq!(kinds(&stored["turns"][0]), ["userMessage", "agentMessage"]);
    assert_eq!(stored["turns"][0]["items"][1]["text"], "a whole one");
    assert_eq!(stored["status"], json!({"type": "idle"}));
    assert_eq!(server.error("turn/interrupt", &interrupt)["code"], -32600, "it has ended");

    server.run_turn(&thread, "ask two");
    let talk = talk(&home.model.last());
    assert_eq!(talk.len(), 4, "{talk:?}");
    assert_eq!(talk[..2], said(&[("user", "ask one"), ("assistant", "a whole one")]));
    assert!(talk[2].1.starts_with("<turn_aborted>"), "{talk:?}");
    assert_eq!(talk[3].1, "ask two");
}

#[test]
fn archiving_interrupts_the_running_turn() {
    let home = Home::new();
    let mut server = home.server();
    let (thread, turn) = held_turn(&home, &mut server);
    server.request("thread/archive", &json!({"threadId": thread}));
    assert_eq!(server.completed(&turn)["status"], "interrupted");
    assert_eq!(server.read(&thread)["turns"][0]["status"], "interrupted");
}

/// Settings of a provider that tries a broken stream again.
fn retrying(home: &Home, times: u32) {
    home.configure(&format!(
        "[model_providers.tuned]\nname = \"Tuned\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
         request_max_retries = 0\nstream_max_retries = {times}\n",
        home.model.base()
    ));
}

/// A turn that fails; the server, the thread and the error.
fn failing_turn(home: &Home, reply: Reply, requests: usize) -> (Server, String, Value) {
    retrying(home, 2);
    home.model.repeat(reply);
    let mut server = home.server();
    let thread = id(&server.request("thread/start", &json!({"modelProvider": "tuned"}))["thread"]);
    let turn = server.run_turn(&thread, "ask one");
    assert_eq!(turn["status"], "failed", "{turn}");
    assert_eq!(home.model.requests().len(), requests);
    (server, thread, turn["error"].clone())
}

#[test]
fn an_error_of_the_model_fails_the_turn_and_is_stored() {
    let home = Home::new();
    let body = r#"{"error":{"message":"that was wrong"}}"#;
    let (mut server, thread, error) = failing_turn(&home, status(400, body), 1);
    assert_eq!(error["codexErrorInfo"], "other");
    assert!(error["message"].as_str().unwrap().contains("that was wrong"), "{error}");
    let events = in_short(&server, &thread);
    assert_eq!(events[events.len() - 3..], ["status systemError", "error", "turn/completed"]);
    let notified = server.notification("error");
    assert_eq!((&notified["willRetry"], &notified["error"]), (&json!(false), &error));
    assert_eq!(server.read(&thread)["turns"][0]["error"], error);
    server.close();
    let stored = home.server().read(&thread);
    assert_eq!(stored["turns"][0]["status"], "failed");
    assert_eq!(stored["turns"][0]["error"]["message"], error["message"]);
}

#[test]
fn a_usage_limit_fails_the_turn_without_a_retry() {
    let home = Home::new();
    let body = r#"{"error":{"type":"usage_limit_reached","message":"limit","resets_at":1900000000}}"#;
    let (_, _, error) = failing_turn(&home, status(429, body), 1);
    assert_eq!(error["codexErrorInfo"], "usageLimitExceeded");
}

#[test]
fn a_full_context_window_fails_the_turn_without_a_retry() {
    let home = Home::new();
    let failed = json!({"type": "response.failed", "response": {"id": "r",
        "error": {"code": "context_length_exceeded", "message": "scripted"}}});
    let created = json!({"type": "response.created", "response": {"id": "r"}});
    let (_, _, error) = failing_turn(&home, Reply::bare(&[created, failed]), 1);
    assert_eq!(error["codexErrorInfo"], "contextWindowExceeded");
}

#[test]
fn a_stream_that_breaks_is_tried_again() {
    let home = Home::new();
    retrying(&home, 2);
    home.model.script([Reply::default().pieces(&["half of", " this"]).cut(), say("the whole")]);
    let mut server = home.server();
    let thread = id(&server.request("thread/start", &json!({"modelProvider": "tuned"}))["thread"]);
    assert_eq!(server.run_turn(&thread, "ask one")["status"], "completed");
    let notified = server.notification("error");
    assert_eq!(notified["willRetry"], true);
    assert_eq!(home.model.requests().len(), 2);
}

#[test]
fn a_stream_that_breaks_too_often_fails_the_turn() {
    let home = Home::new();
    let (mut server, thread, _) = failing_turn(&home, Reply::default().cut(), 3);
    home.model.repeat(say("better now"));
    assert_eq!(server.run_turn(&thread, "ask two")["status"], "completed");
    let talk = talk(&home.model.last());
    assert_eq!(talk, said(&[("user", "ask one"), ("user", "ask two")]));
}
