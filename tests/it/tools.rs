//! What the model may call, through the real binary: each tool, its items, and what the model is told.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::model::{Reply, output, say};
use crate::support::{PATIENCE, id, text};

/// A thread in a folder of its own, without a sandbox.
fn open(home: &Home, server: &mut Server) -> (String, std::path::PathBuf) {
    let work = home.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let params = json!({"cwd": work, "sandbox": "danger-full-access"});
    (id(&server.request("thread/start", &params)["thread"]), work)
}

/// Whether a process with this word in its command line runs.
fn runs(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(word))
    })
}

/// Look until no process with this word is left. It is gone when the server says so, so that this is short.
fn is_gone(word: &str) -> bool {
    let end = Instant::now() + PATIENCE;
    while runs(word) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// A word that no other process has.
fn unique(home: &Home) -> String {
    home.path().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_command_runs_and_is_kept() {
    let home = Home::new();
    home.model.script([Reply::default().command("call-1", "echo out; echo err >&2; exit 3"), say("done")]);
    let mut server = home.server();
    let (thread, work) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    let item = server.item("commandExecution");
    assert_eq!(
        (&item["status"], &item["exitCode"], &item["cwd"]),
        (&json!("failed"), &json!(3), &json!(work))
    );
    let told = output(&home.model.last(), "call-1");
    assert!(told.contains("Process exited with code 3") && told.ends_with("Output:\nout\nerr\n"), "{told}");
    let kept = server.read(&thread)["turns"][0]["items"][1].clone();
    assert_eq!((&kept["id"], &kept["aggregatedOutput"]), (&json!("call-1"), &item["aggregatedOutput"]));
}

#[test]
fn the_older_shell_tool_is_known() {
    let home = Home::new();
    let late = json!({"command": "echo late; sleep 60", "timeout_ms": 3000});
    home.model.script([
        Reply::default().call("shell_command", "call-1", &json!({"command": "pwd", "workdir": "/"})).call(
            "shell_command",
            "call-2",
            &late,
        ),
        say("done"),
    ]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    assert!(output(&home.model.last(), "call-1").starts_with("Exit code: 0\n"));
    let told = output(&home.model.last(), "call-2");
    assert!(told.contains("command timed out") && told.contains("late"), "{told}");
}

#[test]
fn the_environment_policy_is_honoured() {
    let home = Home::new();
    home.configure("[shell_environment_policy]\ninherit = \"none\"\nset = { NUT = \"hazel\" }");
    let call = json!({"cmd": "echo \"$NUT:$THREADKEEP_HOME\"", "login": false});
    home.model.script([Reply::default().call("exec_command", "call-1", &call), say("done")]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    let told = output(&home.model.last(), "call-1");
    assert!(told.ends_with("Output:\nhazel:\n"), "{told}");
}

#[test]
fn a_terminal_takes_input_across_turns() {
    let home = Home::new();
    let start = json!({"cmd": "read line; echo got $line", "tty": true, "yield_time_ms": 250});
    home.model.script([Reply::default().call("exec_command", "call-1", &start), say("waiting")]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    let listed = server.request("thread/backgroundTerminals/list", &json!({"threadId": thread}));
    let session: i64 = listed["data"][0]["processId"].as_str().unwrap().parse().unwrap();
    let write = json!({"session_id": session, "chars": "nuts\n", "yield_time_ms": 5000});
    home.model.script([Reply::default().call("write_stdin", "call-2", &write), say("done")]);
    server.run_turn(&thread, "type");
    let told = output(&home.model.last(), "call-2");
    assert!(told.contains("got nuts") && told.contains("exited with code 0"), "{told}");
    let item = server.item("commandExecution");
    assert_eq!((&item["id"], &item["status"]), (&json!("call-1"), &json!("completed")));
    let input = server.notification("item/commandExecution/terminalInteraction");
    assert_eq!((&input["itemId"], &input["stdin"]), (&json!("call-1"), &json!("nuts\n")));
}

#[test]
fn an_interrupt_leaves_no_process() {
    let home = Home::new();
    let word = unique(&home);
    let command = format!("sleep 600 & exec -a {word} sleep 601");
    let start = json!({"cmd": command, "yield_time_ms": 30_000});
    home.model.script([Reply::default().call("exec_command", "call-1", &start)]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    let turn = server.start_turn(&thread, "go");
    server.notification_where("item/started", |params| params["item"]["type"] == "commandExecution");
    server.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    assert_eq!(server.completed(&turn)["status"], "interrupted");
    assert!(is_gone(&word), "the command still runs");
    let item = server.item("commandExecution");
    assert_eq!(item["status"], "failed");
    assert_eq!(server.read(&thread)["turns"][0]["items"][1]["status"], "failed");
}

#[test]
fn a_shutdown_leaves_no_process() {
    let home = Home::new();
    let word = unique(&home);
    let start = json!({"cmd": format!("exec -a {word} sleep 600"), "yield_time_ms": 250});
    home.model.script([Reply::default().call("exec_command", "call-1", &start), say("waiting")]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    assert!(runs(&word), "it outlives its turn");
    assert!(server.close().success());
    assert!(!runs(&word), "the command still runs");
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    let items = server.read(&thread)["turns"][0]["items"].clone();
    let command = items.as_array().unwrap().iter().find(|item| item["type"] == "commandExecution").unwrap();
    assert_eq!(command["status"], "failed");
}

#[test]
fn after_a_kill_the_turn_is_interrupted_and_the_model_is_told() {
    let home = Home::new();
    let start = json!({"cmd": "sleep 600", "yield_time_ms": 30_000});
    home.model.script([Reply::default().call("exec_command", "call-1", &start)]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    server.start_turn(&thread, "go");
    server.notification_where("item/started", |params| params["item"]["type"] == "commandExecution");
    server.kill();
    home.model.script([say("on")]);
    let mut server = home.server();
    let resumed = server.request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(resumed["thread"]["turns"][0]["status"], "interrupted");
    server.run_turn(&thread, "again");
    assert_eq!(home.model.requests().len(), 2, "the command did not run again");
    assert!(output(&home.model.last(), "call-1").contains("aborted"));
}

#[test]
fn patches_come_by_both_ways_and_whole_or_not_at_all() {
    let home = Home::new();
    let patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch";
    let broken =
        "*** Begin Patch\n*** Add File: b.txt\n+two\n*** Update File: none.txt\n@@\n-x\n+y\n*** End Patch";
    let shell = |patch: &str| format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
    home.model.script([
        Reply::default().command("call-1", &shell(patch)),
        Reply::default().command("call-2", &shell(broken)),
        say("done"),
    ]);
    let mut server = home.server();
    let (thread, work) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    assert_eq!(std::fs::read_to_string(work.join("a.txt")).unwrap(), "one\n");
    assert!(!work.join("b.txt").exists());
    assert!(output(&home.model.last(), "call-1").contains("Success"));
    assert!(output(&home.model.last(), "call-2").contains("verification failed"));
    assert!(server.notification("turn/diff/updated")["diff"].as_str().unwrap().contains("+one"));
    let custom = patch.replace("a.txt", "c.txt");
    home.model.script([Reply::default().custom("apply_patch", "call-3", &custom), say("done")]);
    let params = json!({"threadId": thread, "input": text("go"), "model": "gpt-5.5"});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    server.completed(&turn);
    assert_eq!(std::fs::read_to_string(work.join("c.txt")).unwrap(), "one\n");
    let known: Vec<Value> = home.model.last()["tools"].as_array().unwrap().clone();
    assert!(known.iter().any(|tool| tool["name"] == "apply_patch"));
}

#[test]
fn a_plan_is_shown_only_where_it_is_switched_on() {
    let plan = json!({"plan": [{"step": "look", "status": "in_progress"}]});
    for (more, told) in
        [("", "unsupported call: update_plan"), ("[tools.update_plan]\nenabled = true", "Plan updated")]
    {
        let home = Home::new();
        home.configure(more);
        home.model.script([Reply::default().call("update_plan", "call-1", &plan), say("done")]);
        let mut server = home.server();
        let (thread, _) = open(&home, &mut server);
        server.run_turn(&thread, "go");
        assert_eq!(output(&home.model.last(), "call-1"), told);
        assert_eq!(server.events(&thread, &["turn/plan/updated"]).len(), usize::from(!more.is_empty()));
    }
}

#[test]
fn questions_are_asked_in_plan_mode() {
    let home = Home::new();
    let option = json!({"label": "Nuts", "description": "Hazelnuts"});
    let questions =
        json!({"questions": [{"id": "q", "header": "Food", "question": "Which?", "options": [option]}]});
    home.model.script([
        Reply::default().call("request_user_input", "call-1", &questions),
        say("not now"),
        Reply::default().call("request_user_input", "call-2", &questions),
        say("thanks"),
    ]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    assert!(output(&home.model.last(), "call-1").contains("unavailable in Default mode"));
    let mode = json!({"mode": "plan", "settings": {"model": "mock-model", "reasoning_effort": null,
        "developer_instructions": null}});
    let params = json!({"threadId": thread, "input": text("go"), "collaborationMode": mode});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    let asked = server.asked("item/tool/requestUserInput");
    assert_eq!(
        (&asked["params"]["questions"][0]["isOther"], &asked["params"]["itemId"]),
        (&json!(true), &json!("call-2"))
    );
    let status = server.request("thread/read", &json!({"threadId": thread}))["thread"]["status"].clone();
    assert_eq!(status["activeFlags"], json!(["waitingOnUserInput"]));
    let answer = json!({"answers": {"q": {"answers": ["Nuts"]}}});
    server.answer(&asked, &answer);
    server.completed(&turn);
    assert_eq!(serde_json::from_str::<Value>(&output(&home.model.last(), "call-2")).unwrap(), answer);
}

#[test]
fn a_bad_answer_of_a_clients_tool_is_told_to_the_model() {
    let home = Home::new();
    let call = |n: &str| Reply::default().call("lookup", n, &json!({"word": "nut"}));
    home.model.script([call("call-1"), call("call-2"), say("done")]);
    let mut server = home.server();
    let tool = json!({"name": "lookup", "description": "d", "inputSchema": {"type": "object"}});
    let thread = id(&server.request("thread/start", &json!({"dynamicTools": [tool]}))["thread"]);
    let turn = server.start_turn(&thread, "go");
    let asked = server.asked("item/tool/call");
    server.answer(&asked, &json!({}));
    let asked = server.asked("item/tool/call");
    server.send_raw(&json!({"id": asked["id"], "error": {"code": -1, "message": "no"}}).to_string());
    server.completed(&turn);
    assert_eq!(output(&home.model.last(), "call-1"), "dynamic tool response was invalid");
    assert_eq!(output(&home.model.last(), "call-2"), "dynamic tool request failed");
    assert!(server.events(&thread, &["serverRequest/resolved"]).is_empty());
}

#[test]
fn a_clients_tools_are_known_after_a_restart() {
    let home = Home::new();
    home.model.repeat(say("hello"));
    let mut server = home.server();
    let tool = json!({"name": "lookup", "description": "d", "inputSchema": {"type": "object"}});
    let thread = id(&server.request("thread/start", &json!({"dynamicTools": [tool]}))["thread"]);
    server.run_turn(&thread, "go");
    server.kill();
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    server.run_turn(&thread, "go");
    let known = home.model.last()["tools"].as_array().unwrap().clone();
    assert!(known.iter().any(|tool| tool["name"] == "lookup"));
}

#[test]
fn a_users_command_that_is_interrupted_ends() {
    let home = Home::new();
    let word = unique(&home);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    let command = format!("exec -a {word} sleep 600");
    server.request("thread/shellCommand", &json!({"threadId": thread, "command": command}));
    let turn = id(&server.notification("turn/started")["turn"]);
    server.notification_where("item/started", |params| params["item"]["source"] == "userShell");
    server.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    assert_eq!(server.completed(&turn)["status"], "interrupted");
    assert!(is_gone(&word));
}

#[test]
fn an_image_reaches_the_model() {
    let home = Home::new();
    let work = home.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    write_pixel(&work.join("dot.png"));
    home.model.script([
        Reply::default().call("view_image", "call-1", &json!({"path": "dot.png"})).call(
            "view_image",
            "call-2",
            &json!({"path": "none.png"}),
        ),
        say("done"),
    ]);
    let mut server = home.server();
    let (thread, _) = open(&home, &mut server);
    server.run_turn(&thread, "go");
    assert!(output(&home.model.last(), "call-1").contains("data:image/png;base64,"));
    assert!(output(&home.model.last(), "call-2").contains("unable to locate image"));
    assert_eq!(server.item("imageView")["path"], json!(work.join("dot.png")));
}

fn write_pixel(path: &Path) {
    let png = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0];
    std::fs::write(path, png).unwrap();
}
