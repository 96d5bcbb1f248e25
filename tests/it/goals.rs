//! Goals: what they count, how they go on and what stops them, through restarts and kills.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::support::client::{Client, Server};
use crate::support::home::Home;
use crate::support::id;
use crate::support::model::{Reply, call, say, status};

/// How many times the process is killed.
const KILLS: usize = 40;

/// Tokens that a response of [`paid`] counts: input less cached, and output.
const PAID: i64 = 70;

/// A response that counts [`PAID`] tokens.
fn paid(reply: Reply) -> Reply {
    reply.usage(100, 40, 10, 5, 110)
}

fn complete(call_id: &str) -> Reply {
    call("update_goal", call_id, &json!({"status": "complete"}))
}

fn set(client: &mut Client, thread: &str, more: &Value) -> Value {
    let mut params = json!({"threadId": thread});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.request("thread/goal/set", &params)["goal"].clone()
}

fn get(client: &mut Client, thread: &str) -> Value {
    client.request("thread/goal/get", &json!({"threadId": thread}))["goal"].clone()
}

/// Wait until clients are told that the goal has this status.
fn until(client: &mut Client, wanted: &str) -> Value {
    client.notification_where("thread/goal/updated", |params| params["goal"]["status"] == wanted)["goal"]
        .clone()
}

fn next_completed(client: &mut Client) -> Value {
    client.notification("turn/completed")["turn"].clone()
}

/// Nothing runs, and nothing was started behind the turns that were waited for.
fn assert_idle_with(client: &mut Client, thread: &str, turns: usize) {
    client.settle();
    let read = client.read(thread);
    assert_eq!(read["turns"].as_array().unwrap().len(), turns, "{read}");
    assert_ne!(read["status"]["type"], "active");
}

/// What the ledger says that the responses of goals count, and how many they are.
fn of_ledger(server: &mut Server) -> (i64, i64) {
    let report = server.request("usage/report", &json!({"groupBy": ["goal"]}));
    let rows = report["data"].as_array().unwrap().iter().filter(|row| row["goalId"].is_string());
    rows.fold((0, 0), |(tokens, responses), row| {
        let of = |member: &str| row[member].as_i64().unwrap();
        (
            tokens + of("inputTokens") - of("cachedInputTokens") + of("outputTokens"),
            responses + of("responses"),
        )
    })
}

fn has_notice(request: &Value, part: &str) -> bool {
    let input = request["input"].as_array().unwrap().iter();
    input
        .filter_map(|item| item["content"][0]["text"].as_str())
        .any(|text| text.starts_with("<codex_internal_context source=\"goal\">") && text.contains(part))
}

#[test]
fn a_goal_is_charged_once_through_kills() {
    let home = Home::new();
    home.configure("[goals]\nmax_continuations_without_progress = 0\nmax_turns_per_hour = 0");
    // Turns of two responses: a call, and the end.
    for at in 0..KILLS * 40 {
        home.model.script([paid(call("get_goal", &format!("look-{at}"), &json!({}))), paid(say("On it"))]);
    }
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "never ends"}));
    let mut told = 0;
    for kill in 0..KILLS {
        // Moments are spread over two turns in an order that has nothing to do with time.
        let (seen, moment) = (Cell::new(0), kill * 7 % 41);
        server.wait_for("the moment to kill", |_| {
            seen.set(seen.get() + 1);
            seen.get() > moment
        });
        for event in server.events(&thread, &["thread/goal/updated"]) {
            told = told.max(event["params"]["goal"]["tokensUsed"].as_i64().unwrap());
        }
        server.kill();
        server = home.server();
        let goal = get(&mut server, &thread);
        let used = goal["tokensUsed"].as_i64().unwrap();
        let (tokens, responses) = of_ledger(&mut server);
        assert_eq!(used, tokens, "what the goal was charged, after kill {kill}");
        assert_eq!(used, responses * PAID, "a charge for each response, after kill {kill}");
        assert!(told <= used, "{told} tokens were announced, {used} are there after kill {kill}");
        assert!(used <= home.model.requests().len() as i64 * PAID, "more than the model gave");
        assert_eq!(goal["status"], "active");
        server.request("thread/resume", &json!({"threadId": thread}));
    }
    assert!(told > 0, "the goal got on");
}

#[test]
fn an_active_goal_goes_on_until_the_model_completes_it() {
    let home = Home::new();
    home.model.script([paid(say("One")), paid(say("Two")), paid(complete("c")), paid(say("Done"))]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let goal = set(&mut server, &thread, &json!({"objective": " reach the end "}));
    assert_eq!((&goal["objective"], &goal["status"]), (&json!("reach the end"), &json!("active")));
    for _ in 0..3 {
        assert_eq!(next_completed(&mut server)["status"], "completed");
    }
    assert_idle_with(&mut server, &thread, 3);
    let goal = get(&mut server, &thread);
    assert_eq!(goal["status"], "complete");
    // The response that completes it counts, unless the call was over first; what follows does not count.
    assert!([2 * PAID, 3 * PAID].map(Value::from).contains(&goal["tokensUsed"]), "{goal}");
    let first = &home.model.requests()[0];
    assert!(has_notice(first, "- Tokens remaining: unbounded"));
    let objectives = |request: &Value| {
        let input = request["input"].as_array().unwrap();
        input
            .iter()
            .filter(|item| item["name"] == "goal_objective" && item["output"] == "reach the end")
            .count()
    };
    assert_eq!(objectives(first), 1);
    assert_eq!(objectives(&home.model.last()), 1, "it is told once");
}

#[test]
fn crossing_the_budget_in_mid_turn_tells_the_model_and_ends_it() {
    let home = Home::new();
    home.model.script([
        paid(call("get_goal", "a", &json!({}))),
        paid(call("get_goal", "b", &json!({}))),
        paid(say("Wrapped up")),
    ]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "a < b", "tokenBudget": 50}));
    until(&mut server, "budgetLimited");
    next_completed(&mut server);
    assert_idle_with(&mut server, &thread, 1);
    let goal = get(&mut server, &thread);
    assert_eq!((&goal["status"], &goal["tokensUsed"]), (&json!("budgetLimited"), &json!(3 * PAID)));
    assert!(has_notice(&home.model.last(), "<objective>\na &lt; b\n</objective>"));
    for (edit, wanted) in [
        (json!({"status": "paused"}), "budgetLimited"),
        (json!({"status": "active"}), "budgetLimited"),
        (json!({"tokenBudget": 1000}), "budgetLimited"),
        (json!({"status": "complete"}), "complete"),
    ] {
        assert_eq!(set(&mut server, &thread, &edit)["status"], wanted, "{edit}");
    }
}

#[test]
fn a_pause_lets_the_turn_end_and_an_interrupt_holds_the_goal() {
    let home = Home::new();
    home.model.script([
        paid(Reply::default().gate("pause").say("One")),
        Reply::default().gate("never").say("Two"),
        say("Asked"),
        complete("c"),
        say("Done"),
    ]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "work"}));
    home.model.wait_for_requests(1);
    assert_eq!(set(&mut server, &thread, &json!({"status": "paused"}))["status"], "paused");
    home.model.release("pause");
    assert_eq!(next_completed(&mut server)["status"], "completed");
    assert_idle_with(&mut server, &thread, 1);
    assert_eq!(get(&mut server, &thread)["tokensUsed"], 0, "usage after the pause does not count");

    set(&mut server, &thread, &json!({"status": "active"}));
    home.model.wait_for_requests(2);
    let turn = server.read(&thread)["turns"][1]["id"].clone();
    server.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    assert_eq!(next_completed(&mut server)["status"], "interrupted");
    assert_idle_with(&mut server, &thread, 2);
    assert_eq!(get(&mut server, &thread)["status"], "active");
    // The next turn that completes lets it go on.
    server.run_turn(&thread, "hello");
    next_completed(&mut server);
    assert_idle_with(&mut server, &thread, 4);
    assert_eq!(get(&mut server, &thread)["status"], "complete");
}

#[test]
fn a_failed_turn_blocks_the_goal() {
    let home = Home::new();
    home.model.script([status(400, "that was wrong")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "work"}));
    until(&mut server, "blocked");
    assert_eq!(next_completed(&mut server)["status"], "failed");
    assert_idle_with(&mut server, &thread, 1);
    let reasons = home.query("select last_reason from v_goals");
    assert!(reasons[0].contains("that was wrong"), "{reasons:?}");
}

#[test]
fn plan_mode_holds_the_goal() {
    let home = Home::new();
    home.model.repeat(paid(say("Planned")));
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let plan = json!({"mode": "plan", "settings": {"model": "mock-model"}});
    server.request("thread/settings/update", &json!({"threadId": thread, "collaborationMode": plan}));
    set(&mut server, &thread, &json!({"objective": "work"}));
    server.run_turn(&thread, "hello");
    assert_idle_with(&mut server, &thread, 1);
    let goal = get(&mut server, &thread);
    assert_eq!((&goal["status"], &goal["tokensUsed"]), (&json!("active"), &json!(0)));
}

#[test]
fn a_goal_whose_turns_call_no_tool_is_blocked_with_the_reason() {
    let home = Home::new();
    home.configure("[goals]\nmax_continuations_without_progress = 3");
    home.model.repeat(say("Thinking"));
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "work"}));
    until(&mut server, "blocked");
    assert_idle_with(&mut server, &thread, 3);
    let reasons = home.query("select reason from goal_events where status = 'blocked'");
    assert_eq!(reasons, ["3 turns in a row called no tool (goals.max_continuations_without_progress)"]);
    // A person takes it in hand: it has its turns anew.
    set(&mut server, &thread, &json!({"status": "active"}));
    until(&mut server, "blocked");
    assert_idle_with(&mut server, &thread, 6);
}

#[test]
fn a_goal_with_too_many_turns_an_hour_is_blocked_though_it_works() {
    let home = Home::new();
    home.configure("[goals]\nmax_turns_per_hour = 2\nmax_continuations_without_progress = 1");
    for at in 0..4 {
        home.model.script([call("get_goal", &format!("look-{at}"), &json!({})), say("On it")]);
    }
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "work"}));
    until(&mut server, "blocked");
    assert_idle_with(&mut server, &thread, 2);
    let reasons = home.query("select last_reason from v_goals");
    assert_eq!(reasons, ["2 turns started within an hour (goals.max_turns_per_hour)"]);
}

/// The provider refuses until this time, in seconds since 1970.
fn limited_until(resets_at: i64) -> Reply {
    let error = json!({"type": "usage_limit_reached", "message": "too much", "resets_at": resets_at});
    status(429, &json!({"error": error}).to_string())
}

#[test]
fn a_usage_limited_goal_wakes_once_when_the_limit_ends_also_after_a_restart() {
    let home = Home::new();
    home.model.script([limited_until(4_000_000_000)]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "work"}));
    until(&mut server, "usageLimited");
    next_completed(&mut server);
    assert_idle_with(&mut server, &thread, 1);
    server.close();
    assert_eq!(home.query("select cast(wakes_at_ms as text) from goals"), ["4000000000000"]);
    // The time has come while no server ran; nobody resumes the thread.
    home.change("update goals set wakes_at_ms = 1");
    home.model.script([status(429, r#"{"error": {"type": "usage_limit_reached", "message": "again"}}"#)]);
    let mut server = home.server();
    home.model.wait_for_requests(2);
    // The second limit names no end: the goal stays.
    while get(&mut server, &thread)["status"] != "usageLimited" {
        server.notification("thread/goal/updated");
    }
    let woken = home.query("select reason from goal_events where kind = 'woken'");
    assert_eq!(woken, ["the provider's limit is over"]);
    assert_eq!(home.query("select count(*) || '' from goals where wakes_at_ms is null"), ["1"]);
}

#[test]
fn the_goal_of_an_archived_thread_does_not_wake() {
    let home = Home::new();
    home.model.script([limited_until(4_000_000_000), say("Other")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    set(&mut server, &thread, &json!({"objective": "work"}));
    until(&mut server, "usageLimited");
    next_completed(&mut server);
    server.request("thread/archive", &json!({"threadId": thread}));
    server.close();
    home.change("update goals set wakes_at_ms = 1");
    let mut server = home.server();
    // Another thread's turn is long behind the first look for goals to wake.
    server.used_thread("hello");
    assert_eq!(home.query("select status from goals"), ["usageLimited"]);
    assert_eq!(home.model.requests().len(), 2);
}

#[test]
fn a_goal_set_on_a_thread_that_is_not_loaded_goes_on_at_resume() {
    let home = Home::new();
    home.model.script([say("Hello")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    server.close();
    let mut server = home.server();
    set(&mut server, &thread, &json!({"objective": "work"}));
    assert_eq!(home.model.requests().len(), 1);
    home.model.script([complete("c"), say("Done")]);
    server.request("thread/resume", &json!({"threadId": thread}));
    next_completed(&mut server);
    assert_idle_with(&mut server, &thread, 2);
    assert_eq!(get(&mut server, &thread)["status"], "complete");
}

#[test]
fn a_fork_has_no_goal_unless_it_takes_it_along_and_then_waits() {
    let home = Home::new();
    home.model.script([say("Hello")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    set(&mut server, &thread, &json!({"objective": "work", "status": "paused"}));
    let plain = id(&server.request("thread/fork", &json!({"threadId": thread}))["thread"]);
    assert_eq!(get(&mut server, &plain), Value::Null);
    let params = json!({"threadId": thread, "deferGoalContinuation": true});
    let fork = id(&server.request("thread/fork", &params)["thread"]);
    assert_eq!(get(&mut server, &fork)["objective"], "work");
    assert_eq!(set(&mut server, &fork, &json!({"status": "active"}))["status"], "active");
    assert_idle_with(&mut server, &fork, 1);
    home.model.script([say("Asked"), complete("c"), say("Done")]);
    server.run_turn(&fork, "now");
    until(&mut server, "complete");
    assert_eq!(get(&mut server, &thread)["status"], "paused");
}

#[test]
fn deleting_a_thread_deletes_its_goal() {
    let home = Home::new();
    home.model.script([say("Hello")]);
    let mut server = home.server();
    let thread = server.used_thread("hello");
    set(&mut server, &thread, &json!({"objective": "work", "status": "paused"}));
    server.request("thread/delete", &json!({"threadId": thread}));
    let left = "select cast((select count(*) from goals) + (select count(*) from goal_events) as text)";
    assert_eq!(home.query(left), ["0"]);
}

#[test]
fn goals_can_be_switched_off_and_budgets_bounded() {
    let home = Home::new();
    home.configure("[goals]\nmax_goal_token_budget = 1000");
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let paused = json!({"objective": "work", "status": "paused"});
    assert_eq!(set(&mut server, &thread, &paused)["tokenBudget"], 1000);
    let more = json!({"threadId": thread, "tokenBudget": 1001});
    let text = "goal token budget 1001 exceeds the maximum allowed goal token budget of 1000";
    server.refused("thread/goal/set", &more, text);
    server.close();
    home.configure("[features]\ngoals = false");
    let mut server = home.server();
    server.refused("thread/goal/get", &json!({"threadId": thread}), "goals feature is disabled");
}
