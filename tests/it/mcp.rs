//! MCP servers through the real binary: a small one of our own, and a published one.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::model::{Reply, output, say};
use crate::support::{id, text};

const ELICIT: &str = "mcpServer/elicitation/request";

/// A home whose configuration has the small server under the name `small`.
fn home_with_small(more: &str) -> Home {
    let home = Home::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tools/mcp/test_server.py");
    home.configure(&format!("[mcp_servers.small]\ncommand = \"python3\"\nargs = [{script:?}]\n{more}"));
    home
}

fn ready(server: &mut Server, name: &str) {
    server.notification_where("mcpServer/startupStatus/updated", |params| {
        params["name"] == name && params["status"] == "ready"
    });
}

fn call(tool: &str, call_id: &str, arguments: &Value) -> Reply {
    Reply::default().call_in("mcp__small", tool, call_id, arguments)
}

#[test]
fn the_model_calls_a_tool() {
    let home = home_with_small("");
    home.model.script([
        call("echo", "call-1", &json!({"word": "nut"})),
        call("fail", "call-2", &json!({})),
        say("done"),
    ]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    server.run_turn(&thread, "go");
    let offered = home.model.requests()[0]["tools"].clone();
    let namespace =
        offered.as_array().unwrap().iter().find(|tool| tool["name"] == "mcp__small").unwrap().clone();
    assert_eq!((&namespace["type"], &namespace["tools"][0]["name"]), (&json!("namespace"), &json!("echo")));
    let item = server.item("mcpToolCall");
    assert_eq!(
        (&item["status"], &item["server"], &item["tool"]),
        (&json!("completed"), &json!("small"), &json!("echo"))
    );
    assert_eq!(item["result"]["content"][0]["text"], "nut");
    let item = server.item("mcpToolCall");
    let reason = "MCP tool call requires approval, but approval policy is never";
    assert_eq!((&item["status"], &item["error"]["message"]), (&json!("failed"), &json!(reason)));
    assert!(output(&home.model.last(), "call-1").contains("nut"));
    let kept = server.read(&thread)["turns"][0]["items"].clone();
    assert_eq!(kept[1]["result"]["content"][0]["text"], "nut");
}

/// Ask about one call under `on-request` and answer so; the item and what the model was told.
fn asked(tool: &str, answers: &[Value]) -> (Value, String) {
    let home = home_with_small("");
    home.model.script([call(tool, "call-1", &json!({})), say("done")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let params = json!({"threadId": thread, "input": text("go"), "approvalPolicy": "on-request"});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    for answer in answers {
        let asked = server.asked(ELICIT);
        assert_eq!(
            (&asked["params"]["turnId"], &asked["params"]["serverName"]),
            (&json!(turn), &json!("small"))
        );
        server.answer(&asked, answer);
    }
    server.completed(&turn);
    (server.item("mcpToolCall"), output(&home.model.last(), "call-1"))
}

#[test]
fn a_call_that_may_change_something_is_asked_about() {
    let (item, _) = asked("fail", &[json!({"action": "accept", "content": {}})]);
    assert_eq!(item["error"]["message"], "out of nuts", "{item}");
    let (item, told) = asked("fail", &[json!({"action": "decline", "content": null})]);
    assert_eq!(item["error"]["message"], "user rejected MCP tool call");
    assert!(told.contains("user rejected"), "{told}");
}

#[test]
fn a_server_asks_the_user_and_tells_how_far_it_is() {
    let home = home_with_small("");
    home.model.script([call("ask", "call-1", &json!({})), say("done")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let params = json!({"threadId": thread, "input": text("go"), "approvalPolicy": "on-request"});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    let approval = server.asked(ELICIT);
    assert_eq!(approval["params"]["_meta"]["tool_name"], "ask");
    server.answer(&approval, &json!({"action": "accept", "content": {}}));
    let question = server.asked(ELICIT);
    assert_eq!(
        (&question["params"]["message"], &question["params"]["mode"]),
        (&json!("Your name?"), &json!("form"))
    );
    assert_eq!(server.notification("item/mcpToolCall/progress")["message"], "half");
    server.answer(&question, &json!({"action": "accept", "content": {"name": "Ann"}}));
    server.completed(&turn);
    assert!(output(&home.model.last(), "call-1").contains("Ann"));
}

#[test]
fn an_interrupt_cuts_a_call_and_its_question() {
    let home = home_with_small("");
    home.model.script([call("ask", "call-1", &json!({}))]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let params = json!({"threadId": thread, "input": text("go"), "approvalPolicy": "on-request"});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    let approval = server.asked(ELICIT);
    server.answer(&approval, &json!({"action": "accept", "content": {}}));
    let question = server.asked(ELICIT);
    server.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    assert_eq!(server.completed(&turn)["status"], "interrupted");
    server.notification_where("serverRequest/resolved", |params| params["requestId"] == question["id"]);
}

#[test]
fn a_clients_own_call_does_not_hold_up_the_thread() {
    let home = home_with_small("");
    let mut server = home.server();
    let thread = id(&server.start_thread());
    server.post("mcpServer/tool/call", &json!({"threadId": thread, "server": "small", "tool": "slow"}));
    server.run_turn(&thread, "meanwhile");
}

#[test]
fn tools_can_be_left_out_and_calls_have_their_time() {
    let home = home_with_small(
        "enabled_tools = [\"echo\", \"slow\"]\ndisabled_tools = [\"echo\"]\ntool_timeout_sec = 0.3",
    );
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let slow = json!({"threadId": thread, "server": "small", "tool": "slow"});
    let error = server.error("mcpServer/tool/call", &slow);
    assert!(error["message"].as_str().unwrap().contains("timed out after 0.3 seconds"), "{error}");
    let echo = json!({"threadId": thread, "server": "small", "tool": "echo"});
    server.refused("mcpServer/tool/call", &echo, "has no tool `echo`");
    let other = json!({"threadId": thread, "server": "other", "tool": "echo"});
    server.refused("mcpServer/tool/call", &other, "unknown MCP server `other`");
}

#[test]
fn clients_see_servers_and_read_their_resources() {
    let home = home_with_small("[mcp_servers.broken]\ncommand = \"no-such-program-here\"");
    let mut server = home.server();
    let thread = id(&server.start_thread());
    for params in [json!({"threadId": thread}), json!({})] {
        let data = server.request("mcpServerStatus/list", &params)["data"].clone();
        assert_eq!((&data[0]["name"], &data[0]["runtimeStatus"]), (&json!("broken"), &json!("failed")));
        assert_eq!(data[0]["toolsError"], "MCP startup failed: No such file or directory (os error 2)");
        assert_eq!(
            (&data[1]["runtimeStatus"], &data[1]["resources"][0]["uri"]),
            (&json!("connected"), &json!("mem://a"))
        );
        assert!(data[1]["tools"]["echo"].is_object());
    }
    let read = json!({"threadId": thread, "server": "small", "uri": "mem://a"});
    assert_eq!(server.request("mcpServer/resource/read", &read)["contents"][0]["text"], "content of mem://a");
    server.refused("mcpServerStatus/list", &json!({"cursor": "bad"}), "invalid cursor: bad");
}

#[test]
fn a_required_server_that_fails_keeps_its_thread_from_starting() {
    let home = home_with_small("[mcp_servers.broken]\ncommand = \"no-such-program-here\"\nrequired = true");
    let mut server = home.server();
    let error = server.error("thread/start", &json!({}));
    let text = "error creating thread: Fatal error: Failed to initialize session: required MCP servers failed to \
                initialize: broken: No such file or directory (os error 2)";
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!(text)));
    assert_eq!(server.request("thread/loaded/list", &json!({}))["data"], json!([]));
}

#[test]
fn a_reload_starts_other_servers() {
    let home = home_with_small("");
    let mut server = home.server();
    let thread = id(&server.start_thread());
    ready(&mut server, "small");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tools/mcp/test_server.py");
    home.configure(&format!("[mcp_servers.second]\ncommand = \"python3\"\nargs = [{script:?}]"));
    server.request("config/mcpServer/reload", &Value::Null);
    ready(&mut server, "second");
    let data = server.request("mcpServerStatus/list", &json!({"threadId": thread}))["data"].clone();
    assert_eq!(data.as_array().unwrap().len(), 1);
    assert_eq!(data[0]["name"], "second");
}

#[test]
fn servers_end_with_their_thread() {
    let home = home_with_small("env = { STUBBORN = \"1\" }");
    home.model.script([call("echo", "call-1", &json!({"word": "pid"})), say("done")]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    server.run_turn(&thread, "go");
    let pid = server.item("mcpToolCall")["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let process = PathBuf::from(format!("/proc/{pid}"));
    assert!(process.exists());
    assert!(server.close().success());
    assert!(!process.exists(), "the server still runs");
}

/// The published server of the protocol's authors; `.ci/run` installs it and tells where it is.
fn published() -> Option<PathBuf> {
    let path = std::env::var_os("THREADKEEP_TEST_MCP_EVERYTHING").map(PathBuf::from);
    if path.is_none() {
        println!("left out: THREADKEEP_TEST_MCP_EVERYTHING does not name the published MCP server");
    }
    path
}

fn with_published(home: &Home, transport: &str) {
    home.model.script([
        Reply::default().call_in("mcp__every", "echo", "call-1", &json!({"message": "nut"})),
        say("done"),
    ]);
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let params = json!({"threadId": thread, "input": text("go"), "approvalPolicy": "on-request"});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    let done = server.wait_for("the end or a question", |message| {
        message["method"] == ELICIT || message["method"] == "turn/completed"
    });
    if done["method"] == ELICIT {
        server.answer(&done, &json!({"action": "accept", "content": {}}));
        server.completed(&turn);
    }
    let told = output(&home.model.last(), "call-1");
    assert!(told.contains("nut"), "{transport}: {told}");
    let data = server.request("mcpServerStatus/list", &json!({"threadId": thread}))["data"][0].clone();
    assert_eq!(data["runtimeStatus"], "connected", "{data}");
    assert!(data["resources"].as_array().is_some_and(|resources| !resources.is_empty()), "{data}");
}

#[test]
fn the_published_server_works_over_standard_streams() {
    let Some(path) = published() else { return };
    let home = Home::new();
    home.configure(&format!(
        "[mcp_servers.every]\ncommand = \"node\"\nargs = [{path:?}, \"stdio\"]\nstartup_timeout_sec = 60"
    ));
    with_published(&home, "stdio");
}

#[test]
fn the_published_server_works_over_http() {
    let Some(path) = published() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut process = std::process::Command::new("node")
        .arg(&path)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let end = std::time::Instant::now() + crate::support::PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let home = Home::new();
    home.configure(&format!(
        "[mcp_servers.every]\nurl = \"http://127.0.0.1:{port}/mcp\"\nstartup_timeout_sec = 60"
    ));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with_published(&home, "http")));
    process.kill().unwrap();
    process.wait().unwrap();
    outcome.unwrap();
}
