//! Settings of a thread and of its running turn, as clients change and find them (`protocol/settings.md`).

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::home::Home;
use crate::support::id;
use crate::support::model::Reply;

fn update(client: &mut Client, thread: &str, mut change: Value) {
    change["threadId"] = json!(thread);
    assert_eq!(client.request("thread/settings/update", &change), json!({}));
}

/// The settings that come with the next notification.
fn told(client: &mut Client) -> Value {
    client.notification("thread/settings/updated")["threadSettings"].clone()
}

fn times_told(client: &Client, thread: &str) -> usize {
    client.events(thread, &["thread/settings/updated"]).len()
}

#[test]
fn a_cleared_tier_is_reported_as_default_and_fast_as_priority() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    for (tier, reported) in [(json!("fast"), "priority"), (Value::Null, "default"), (json!("flex"), "flex")] {
        update(&mut server, &thread, json!({"serviceTier": tier}));
        assert_eq!(told(&mut server)["serviceTier"], reported, "{tier}");
    }
}

#[test]
fn a_tier_goes_to_the_model_that_has_it() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    update(&mut server, &thread, json!({"serviceTier": "fast"}));
    server.run_turn(&thread, "to a model that nothing is known of");
    assert_eq!(home.model.last().get("service_tier"), None);
    update(&mut server, &thread, json!({"model": "gpt-5.5"}));
    server.run_turn(&thread, "to one that has the tier");
    assert_eq!(home.model.last()["service_tier"], "priority");
    let input = json!([{"type": "text", "text": "once without"}]);
    let params = json!({"threadId": thread, "input": input, "serviceTierForTurn": "default"});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    server.completed(&turn);
    assert_eq!(home.model.last().get("service_tier"), None);
    server.run_turn(&thread, "and with it again");
    assert_eq!(home.model.last()["service_tier"], "priority");
}

#[test]
fn an_empty_effort_is_refused_wherever_it_is_given() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let input = json!([{"type": "text", "text": "hello"}]);
    let mode = json!({"mode": "plan", "settings": {"model": "mock-model", "reasoning_effort": ""}});
    for (method, params) in [
        ("thread/settings/update", json!({"threadId": thread, "effort": ""})),
        ("thread/settings/update", json!({"threadId": thread, "collaborationMode": mode})),
        ("turn/start", json!({"threadId": thread, "effort": "", "input": input})),
    ] {
        server.refused(method, &params, "reasoning_effort must not be empty");
    }
    assert_eq!(times_told(&server, &thread), 0);
}

#[test]
fn a_mode_replaces_model_effort_and_instructions_and_is_found_again() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("hello");
    update(&mut server, &thread, json!({"effort": "high"}));
    assert_eq!(told(&mut server)["effort"], "high");
    let settings =
        json!({"model": "other-model", "reasoning_effort": null, "developer_instructions": "be brief"});
    update(&mut server, &thread, json!({"collaborationMode": {"mode": "plan", "settings": settings}}));
    let now = told(&mut server);
    assert_eq!((&now["model"], &now["effort"]), (&json!("other-model"), &Value::Null));
    assert_eq!(now["collaborationMode"], json!({"mode": "plan", "settings": settings}));
    update(&mut server, &thread, json!({"model": "third-model"}));
    assert_eq!(told(&mut server)["collaborationMode"]["mode"], "plan", "a model alone keeps the mode");
    server.close();
    let mut server = home.server();
    let resumed = server.request("thread/resume", &json!({"threadId": thread}));
    let expected =
        json!({"model": "third-model", "reasoning_effort": null, "developer_instructions": "be brief"});
    assert_eq!(resumed["collaborationMode"], json!({"mode": "plan", "settings": expected}));
    assert_eq!(resumed["model"], "third-model");
}

#[test]
fn older_words_for_modes_are_the_default_mode() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    for word in ["code", "custom", "execute", "pair_programming"] {
        let settings = json!({"model": format!("model-of-{word}")});
        update(&mut server, &thread, json!({"collaborationMode": {"mode": word, "settings": settings}}));
        assert_eq!(told(&mut server)["collaborationMode"]["mode"], "default", "{word}");
    }
}

#[test]
fn settings_of_a_thread_without_turns_hold_from_the_first_one_on() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    update(&mut server, &thread, json!({"effort": "low", "personality": "friendly"}));
    assert!(home.rollouts().is_empty(), "a change of settings makes no file");
    server.run_turn(&thread, "hello");
    assert_eq!(home.model.last()["reasoning"]["effort"], "low");
    server.close();
    let resumed = home.server().request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(resumed["reasoningEffort"], "low");
}

/// A turn held at the model after its first request, in a home where steps may change.
fn held_turn(home: &Home, model: &str) -> (crate::support::client::Server, String, String) {
    home.configure("[features]\nstep_model_switching = true");
    let reply = Reply::default().gate("go").call("no_such_tool", "c1", &json!({}));
    home.model.script([reply]);
    let mut server = home.server();
    let thread = id(&server.request("thread/start", &json!({"model": model}))["thread"]);
    let turn = server.start_turn(&thread, "hello");
    home.model.wait_for_requests(1);
    (server, thread, turn)
}

#[test]
fn a_running_turn_can_be_given_another_model() {
    let home = Home::new();
    let (mut server, thread, turn) = held_turn(&home, "gpt-5.5");
    let change = json!({"threadId": thread, "turnId": turn, "model": "gpt-6.2-sol", "effort": "high"});
    assert_eq!(server.request("turn/settings/update", &change), json!({"status": "applied"}));
    let none = json!({"threadId": thread, "turnId": turn});
    assert_eq!(server.request("turn/settings/update", &none), json!({"status": "applied"}));
    home.model.release("go");
    server.completed(&turn);
    server.run_turn(&thread, "the next turn");
    let asked: Vec<(Value, Value)> = home
        .model
        .requests()
        .iter()
        .map(|body| (body["model"].clone(), body["reasoning"]["effort"].clone()))
        .collect();
    let first = (json!("gpt-5.5"), json!("medium"));
    assert_eq!(asked, [first.clone(), (json!("gpt-6.2-sol"), json!("high")), first]);
    assert_eq!(times_told(&server, &thread), 0, "the thread's own settings have not changed");
    let windows: Vec<Value> = server
        .events(&thread, &["thread/tokenUsage/updated"])
        .iter()
        .map(|event| event["params"]["tokenUsage"]["modelContextWindow"].clone())
        .collect();
    assert_eq!(windows, [258_400, 475_000, 258_400], "the window is that of the model that was asked");
    let change = json!({"threadId": thread, "turnId": turn, "effort": "low"});
    let late = server.request("turn/settings/update", &change);
    assert_eq!(late, json!({"status": "targetUnavailable"}));
}

#[test]
fn models_that_nothing_is_known_of_cannot_be_switched() {
    let home = Home::new();
    let (mut server, thread, turn) = held_turn(&home, "gpt-5.5");
    let change = json!({"threadId": thread, "turnId": turn, "model": "mock-model"});
    server.refused("turn/settings/update", &change, "the destination model has only fallback metadata");
    let change = json!({"threadId": thread, "turnId": turn, "bogus": 1});
    server.refused("turn/settings/update", &change, "unknown field `bogus`, expected one of");
    drop(server);

    let home = Home::new();
    let (mut server, thread, turn) = held_turn(&home, "mock-model");
    let change = json!({"threadId": thread, "turnId": turn, "effort": "low"});
    server.refused("turn/settings/update", &change, "the active model has only fallback metadata");
    let change = json!({"threadId": thread, "turnId": turn, "approvalsReviewer": "user"});
    assert_eq!(server.request("turn/settings/update", &change), json!({"status": "applied"}));
}

#[test]
fn switching_the_model_of_a_running_turn_needs_its_feature() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let change = json!({"threadId": thread, "turnId": "none", "effort": "low"});
    let part = "turn settings updates require the step_model_switching feature";
    server.refused("turn/settings/update", &change, part);
}

#[test]
fn an_account_without_a_login_has_no_usage() {
    let home = Home::new();
    let mut server = home.server();
    server.refused("account/usage/read", &json!({"threadId": "x"}), "invalid thread id");
    server.refused(
        "account/usage/read",
        &json!({}),
        "codex account authentication required to read token usage",
    );
    std::fs::write(home.path().join("auth.json"), r#"{"auth_mode":"apikey","OPENAI_API_KEY":"sk-test"}"#)
        .unwrap();
    server.refused("account/usage/read", &json!({}), "chatgpt authentication required to read token usage");
    server.refused(
        "account/rateLimits/read",
        &json!({}),
        "chatgpt authentication required to read rate limits",
    );
}
