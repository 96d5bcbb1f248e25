//! The wire: envelopes, initialize, gating, opting out, WebSocket connections and their authentication, the end of a
//! process.

use serde_json::{Value, json};

use crate::support::client::{Client, Listener, Server};
use crate::support::home::Home;
use crate::support::id;
use crate::support::model::{Reply, say};

/// A request with this id, and its whole reply.
fn exchange(client: &mut Client, request: &Value) -> Value {
    client.send_raw(&request.to_string());
    client.reply(&request["id"])
}

#[test]
fn ids_come_back_with_their_type() {
    let home = Home::new();
    let mut server = home.server();
    for id in [
        json!("text"),
        json!("7"),
        json!(""),
        json!(7),
        json!(0),
        json!(-3),
        json!(i64::MAX),
        json!(i64::MIN),
    ] {
        let reply = exchange(&mut server, &json!({"id": id, "method": "thread/loaded/list", "params": {}}));
        assert_eq!(reply["id"], id);
        assert_eq!(reply["result"]["data"], json!([]));
    }
}

#[test]
fn one_id_may_be_used_twice() {
    let home = Home::new();
    let mut server = home.server();
    for _ in 0..2 {
        let reply =
            exchange(&mut server, &json!({"id": "same", "method": "thread/loaded/list", "params": {}}));
        assert!(reply.get("result").is_some(), "{reply}");
    }
}

#[test]
fn a_jsonrpc_member_is_answered_in_kind() {
    let home = Home::new();
    let mut server = home.server();
    let list = |id: i64| json!({"id": id, "method": "thread/loaded/list", "params": {}});
    let mut with = list(900);
    with["jsonrpc"] = json!("2.0");
    with["more"] = json!(true);
    assert_eq!(exchange(&mut server, &with)["jsonrpc"], "2.0");
    assert_eq!(exchange(&mut server, &list(901)).get("jsonrpc"), None);
}

#[test]
fn an_unknown_method_is_an_invalid_request_that_names_it() {
    let home = Home::new();
    home.server().refused("nosuch/method", &json!({}), "Invalid request: unknown variant `nosuch/method`");
}

#[test]
fn bad_params_are_named() {
    let home = Home::new();
    let mut server = home.server();
    for (method, params, part) in [
        ("thread/read", json!({}), "missing field `threadId`"),
        ("thread/read", json!({"threadId": 5}), "invalid type: integer `5`, expected a string"),
        ("thread/loaded/list", json!("x"), "invalid type: string \"x\""),
        ("thread/start", json!({"sandbox": "bogus"}), "unknown variant `bogus`"),
        ("thread/list", json!({"limit": -1}), "invalid value: integer `-1`"),
        ("turn/start", json!({"threadId": "x"}), "missing field `input`"),
    ] {
        server.refused(method, &params, &format!("Invalid request: {part}"));
    }
    let reply = exchange(&mut server, &json!({"id": "none", "method": "thread/list"}));
    assert!(reply["error"]["message"].as_str().unwrap().contains("missing field `params`"), "{reply}");
}

#[test]
fn lines_that_are_no_messages_get_no_reply_and_do_no_harm() {
    let home = Home::new();
    let mut server = home.server();
    for text in ["not json", "[]", "{}", "42", "", "{\"id\":1", "\"text\"", "\r", "\u{0}", "nul"] {
        server.send_raw(text);
    }
    let before = server.came.len();
    server.settle();
    let replies = server.came[before..].iter().filter(|message| message.get("method").is_none()).count();
    assert_eq!(replies, 1, "{:?}", server.came);
}

#[test]
fn notifications_carry_the_time_they_were_sent() {
    let home = Home::new();
    let mut server = home.server();
    server.start_thread();
    let started = server.wait_for("thread/started", |message| message["method"] == "thread/started");
    let sent = started["emittedAtMs"].as_i64().unwrap();
    let now = threadkeep::clock::Clock::system().now_ms();
    assert!((now - sent).abs() < 60_000, "{sent} is not now ({now})");
}

#[test]
fn nothing_works_before_initialize() {
    let home = Home::new();
    let mut server = home.start();
    server.send_raw(r#"{"method":"initialized"}"#);
    let error = server.error("thread/list", &json!({}));
    assert_eq!((&error["code"], &error["message"]), (&json!(-32600), &json!("Not initialized")));
    server.refused("nosuch/method", &json!({}), "unknown variant `nosuch/method`");
    server.initialize();
    server.settle();
}

#[test]
fn initialize_tells_about_the_server_and_works_once() {
    let home = Home::new();
    let mut server = home.start();
    let reply = server.initialize_as("wire_client", &json!({}));
    assert_eq!(reply["codexHome"], json!(home.path().canonicalize().unwrap()));
    assert_eq!(
        (&reply["platformFamily"], &reply["platformOs"]),
        (&json!("unix"), &json!(std::env::consts::OS))
    );
    let agent = reply["userAgent"].as_str().unwrap();
    assert!(agent.starts_with("wire_client/") && agent.ends_with("(wire_client; 0.1.0)"), "{agent}");
    let client = json!({"name": "again", "title": null, "version": "0.1.0"});
    server.refused("initialize", &json!({"clientInfo": client}), "Already initialized");
    server.settle();
}

#[test]
fn a_client_name_that_is_refused_can_be_corrected() {
    let home = Home::new();
    let mut server = home.start();
    let client = json!({"name": "bad\nname", "title": null, "version": "0.1.0"});
    server.refused("initialize", &json!({"clientInfo": client}), "Invalid clientInfo.name");
    server.initialize();
}

#[test]
fn experimental_methods_and_fields_need_the_capability() {
    let home = Home::new();
    let mut server = home.start();
    server.initialize_as("plain", &json!({}));
    for (method, params, what) in [
        ("thread/queue/list", json!({"threadId": "x"}), "thread/queue/list"),
        ("thread/start", json!({"historyMode": "paginated"}), "thread/start.historyMode"),
        ("thread/resume", json!({"threadId": "x", "path": "/nowhere"}), "thread/resume.path"),
    ] {
        let error = server.error(method, &params);
        assert_eq!(error["message"], format!("{what} requires experimentalApi capability"));
    }
    // A member that is null is as if it were not there.
    server.request("thread/start", &json!({"historyMode": null}));
}

#[test]
fn notifications_that_were_opted_out_are_not_sent() {
    let home = Home::new();
    home.model.script([Reply::default().pieces(&["some ", "words"])]);
    let mut server = home.start();
    let unwanted = ["thread/started", "item/agentMessage/delta", "no/such/notification"];
    server.initialize_as("quiet", &json!({"experimentalApi": true, "optOutNotificationMethods": unwanted}));
    server.used_thread("hello");
    let came: Vec<&str> = server.came.iter().filter_map(|message| message["method"].as_str()).collect();
    assert!(came.contains(&"turn/started") && came.contains(&"item/completed"), "{came:?}");
    assert!(!came.iter().any(|method| unwanted.contains(method)), "{came:?}");
}

#[test]
fn connections_have_ids_of_their_own() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.connect(), listener.connect());
    let name = |reply: &Value| reply["userAgent"].as_str().unwrap().to_owned();
    assert!(name(&one.initialize_as("first", &json!({}))).starts_with("first/"));
    let agent = name(&other.initialize_as("second", &json!({})));
    assert!(agent.starts_with("first/") && agent.ends_with("(second; 0.1.0)"), "{agent}");
    one.send_raw(&json!({"id": 50, "method": "thread/start", "params": {}}).to_string());
    other.send_raw(&json!({"id": 50, "method": "thread/read", "params": {"threadId": "nope"}}).to_string());
    let thread = id(&one.reply(&json!(50))["result"]["thread"]);
    let refusal = other.reply(&json!(50));
    assert!(refusal["error"]["message"].as_str().unwrap().contains("invalid thread id"), "{refusal}");
    let read = other.request("thread/read", &json!({"threadId": thread}));
    assert_eq!(id(&read["thread"]), thread);
}

#[test]
fn every_subscriber_gets_the_events_of_a_turn_in_the_same_order() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let thread = one.used_thread("hello");
    other.request("thread/resume", &json!({"threadId": thread}));
    home.model.script([Reply::default().pieces(&["some ", "more ", "words"]).usage(5, 0, 2, 0, 7)]);
    let turn = other.start_turn(&thread, "from the other one");
    one.completed(&turn);
    other.completed(&turn);
    let of_the_turn = |client: &Client| -> Vec<(Value, Value)> {
        let ours = |message: &Value| {
            message["params"]["turnId"] == turn.as_str() || message["params"]["turn"]["id"] == turn.as_str()
        };
        let events = client.events(&thread, &[]).into_iter().filter(ours);
        events.map(|event| (event["method"].clone(), event["params"].clone())).collect()
    };
    assert_eq!(of_the_turn(&one), of_the_turn(&other));
    assert!(of_the_turn(&one).len() >= 9);
}

#[test]
fn a_frame_that_is_no_message_leaves_the_connection_alive() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let mut client = listener.client();
    let one = json!({"id": 70, "method": "thread/loaded/list", "params": {}}).to_string();
    client.send_raw("not json");
    client.send_raw(&format!("{one}\n{one}"));
    client.send_raw("{\"id\": 71,\n \"method\": \"thread/loaded/list\",\n \"params\": {}}");
    client.reply(&json!(71));
    assert!(!client.came.iter().any(|message| message["id"] == 70), "{:?}", client.came);
}

#[test]
fn health_is_served_over_http() {
    let home = Home::new();
    let listener = home.listen(&[]);
    for path in ["/healthz", "/readyz"] {
        for method in ["GET", "HEAD"] {
            assert_eq!(listener.http(method, path, ""), (200, String::new()), "{method} {path}");
        }
    }
    assert_eq!(listener.http("POST", "/healthz", "").0, 405);
    assert_eq!(listener.http("GET", "/", "").0, 400);
}

#[test]
fn requests_with_an_origin_are_refused() {
    let home = Home::new();
    let listener = home.listen(&[]);
    assert_eq!(listener.http("GET", "/healthz", "origin: http://localhost\r\n").0, 403);
    assert_eq!(listener.try_connect(&[("origin", "http://127.0.0.1")]).err(), Some(403));
    listener.client().settle();
}

#[test]
fn a_capability_token_opens_the_connection() {
    let home = Home::new();
    let file = home.path().join("token");
    std::fs::write(&file, "open-sesame\n").unwrap();
    let listener =
        home.listen(&["--ws-auth", "capability-token", "--ws-token-file", &file.display().to_string()]);
    for headers in
        [vec![], vec![("authorization", "Bearer wrong")], vec![("authorization", "Basic open-sesame")]]
    {
        assert_eq!(listener.try_connect(&headers).err(), Some(401), "{headers:?}");
    }
    assert_eq!(listener.http("GET", "/healthz", "").0, 200);
    let mut client = listener.try_connect(&[("authorization", "Bearer open-sesame")]).ok().unwrap();
    client.initialize();
}

#[test]
fn a_unix_socket_speaks_websocket_and_is_removed_at_the_end() {
    let home = Home::new();
    let path = home.path().join("keep.sock");
    let url = format!("unix://{}", path.display());
    let listener = Listener::start(home.command(&["app-server", "--listen", &url]));
    let (mut one, mut other) = (listener.connect_unix(), listener.connect_unix());
    one.initialize();
    other.initialize();
    let thread = one.used_thread("hello");
    assert_eq!(other.read(&thread)["preview"], "hello");
    let taken = home.command(&["app-server", "--listen", &url]).output().unwrap();
    assert_eq!(taken.status.code(), Some(1));
    let said = String::from_utf8_lossy(&taken.stderr);
    assert!(said.contains("already in use"), "{said}");
    listener.signal(libc::SIGTERM);
    assert_eq!(listener.wait().code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn no_open_listener_without_authentication() {
    let home = Home::new();
    let output = home.command(&["app-server", "--listen", "ws://0.0.0.0:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--ws-auth"), "{said}");
}

/// A server in mid-turn; the thread and the turn.
fn in_mid_turn(home: &Home) -> (Server, String, String) {
    home.model.script([Reply::default().gate("never").say("too late")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let turn = server.start_turn(&thread, "hello");
    home.model.wait_for_requests(1);
    (server, thread, turn)
}

fn check_interrupted(home: &Home, thread: &str, turn: &str) {
    let thread = home.server().read(thread);
    let turns = thread["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!((&turns[0]["id"], &turns[0]["status"]), (&json!(turn), &json!("interrupted")));
    let items = turns[0]["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| &item["type"]).collect::<Vec<_>>(), ["userMessage"]);
}

#[test]
fn the_end_of_input_ends_the_process_and_interrupts_the_turn() {
    let home = Home::new();
    let (server, thread, turn) = in_mid_turn(&home);
    assert_eq!(server.close().code(), Some(0));
    check_interrupted(&home, &thread, &turn);
}

#[test]
fn a_termination_signal_ends_the_process_and_interrupts_the_turn() {
    let home = Home::new();
    let (server, thread, turn) = in_mid_turn(&home);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    check_interrupted(&home, &thread, &turn);
}

#[test]
fn a_kill_interrupts_the_turn() {
    let home = Home::new();
    let (server, thread, turn) = in_mid_turn(&home);
    server.kill();
    check_interrupted(&home, &thread, &turn);
    home.model.script([say("going on")]);
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(server.run_turn(&thread, "and now?")["status"], "completed");
}
