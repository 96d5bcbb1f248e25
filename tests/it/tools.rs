//! The model's tools: each is called through the real binary, with what clients see, what the model is told, and what
//! is stored.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::model::{Reply, call, command, say};
use crate::support::work::{Work, runs};
use crate::support::{id, text};

fn kinds(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// The session number that the model was told.
fn session_of(told: &str) -> i64 {
    let (_, number) = told.split_once("session ID ").unwrap_or_else(|| panic!("no session in {told:?}"));
    number.split('\n').next().unwrap().parse().unwrap()
}

// What is offered -----------------------------------------------------------------------------------------------------

fn offered(body: &Value) -> Vec<String> {
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    body["tools"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn the_model_is_offered_its_tools() {
    let home = Home::new();
    home.configure("[tools.update_plan]\nenabled = true\n[features]\nrequest_permissions_tool = true\n");
    let tool = json!({"name": "lookup", "description": "Looks a word up",
        "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}}});
    let mut work = Work::in_home(home, "never", json!({"dynamicTools": [tool]}));
    work.run([say("hello")]);
    let names = offered(&work.home.model.last());
    let expected = [
        "exec_command",
        "write_stdin",
        "update_plan",
        "request_user_input",
        "request_permissions",
        "view_image",
    ];
    assert_eq!(names[..6], expected);
    assert!(names.contains(&"lookup".to_owned()) && !names.contains(&"apply_patch".to_owned()), "{names:?}");
    for tool in work.home.model.last()["tools"].as_array().unwrap() {
        if tool["type"] == "function" {
            assert_eq!(tool["parameters"]["type"], "object", "{tool}");
        }
    }
    let thread = work.thread.clone();
    let turn = json!({"threadId": thread, "input": text("hello"), "model": "gpt-5.5"});
    let turn = id(&work.request("turn/start", &turn)["turn"]);
    work.completed(&turn);
    assert!(offered(&work.home.model.last()).contains(&"apply_patch".to_owned()), "for a model that has it");
}

#[test]
fn calls_that_cannot_be_understood_are_told_to_the_model() {
    let mut work = Work::free();
    let bad = Reply::default()
        .call("no_such_tool", "c1", &json!({}))
        .call("exec_command", "c2", &json!({"workdir": "/"}))
        .call("update_plan", "c3", &json!({"plan": []}))
        .custom("apply_patch", "c4", "*** Begin Patch")
        .call("write_stdin", "c5", &json!({"session_id": 7, "chars": "x"}))
        .call("exec_command", "c6", &json!({"cmd": "true", "workdir": "no/where"}));
    assert_eq!(work.run([bad])["status"], "completed");
    let told = |call| work.home.model.told(call);
    assert_eq!(told("c1"), "unsupported call: no_such_tool");
    assert_eq!(told("c2"), "failed to parse function arguments: missing field `cmd` at line 1 column 15");
    assert_eq!(told("c3"), "unsupported call: update_plan");
    assert_eq!(told("c4"), "unsupported custom tool call: apply_patch");
    assert_eq!(told("c5"), "write_stdin failed: Unknown process id 7");
    assert!(told("c6").contains("no/where"), "{}", told("c6"));
    assert_eq!(kinds(&work.stored()), ["userMessage", "agentMessage"]);
}

// Commands ------------------------------------------------------------------------------------------------------------

#[test]
fn a_command_has_an_item_and_an_answer() {
    let mut work = Work::free();
    fs::create_dir(work.path("sub")).unwrap();
    let command = json!({"cmd": "echo out; echo err >&2; pwd", "workdir": "sub"});
    assert_eq!(work.run([call("exec_command", "c1", &command)])["status"], "completed");
    let output = format!("out\nerr\n{}\n", work.path("sub").display());
    let started = &work.started("commandExecution")[0];
    for (member, expected) in [
        ("id", json!("c1")),
        ("status", json!("inProgress")),
        ("source", json!("unifiedExecStartup")),
        ("exitCode", Value::Null),
        ("aggregatedOutput", Value::Null),
    ] {
        assert_eq!(started[member], expected, "{member}");
    }
    let done = work.done("commandExecution")[0].clone();
    assert_eq!((&done["status"], &done["exitCode"]), (&json!("completed"), &json!(0)));
    assert_eq!((&done["aggregatedOutput"], &done["cwd"]), (&json!(output), &json!(work.path("sub"))));
    assert!(done["command"].as_str().unwrap().ends_with("-lc 'echo out; echo err >&2; pwd'"), "{done}");
    assert!(done["durationMs"].as_i64().unwrap() >= 0);
    let deltas = work.events(&work.thread, &["item/commandExecution/outputDelta"]);
    let deltas: String = deltas.iter().map(|event| event["params"]["delta"].as_str().unwrap()).collect();
    assert_eq!(deltas, output);
    let told = work.home.model.told("c1");
    assert!(told.starts_with("Chunk ID: ") && told.contains("\nProcess exited with code 0\n"), "{told}");
    assert!(told.ends_with(&format!("\nOutput:\n{output}")), "{told}");
    assert_eq!(kinds(&work.stored()), ["userMessage", "commandExecution", "agentMessage"]);
    assert_eq!(work.stored()[1], done, "read back");
    let (server, thread) = (work.home.server(), work.thread.clone());
    work.server = server;
    assert_eq!(work.read(&thread)["turns"][0]["items"][1], done, "after a restart");
}

#[test]
fn a_failing_command_is_a_failed_item() {
    let mut work = Work::free();
    assert_eq!(work.run([command("c1", "echo before; exit 3")])["status"], "completed");
    let done = &work.done("commandExecution")[0];
    assert_eq!((&done["status"], &done["exitCode"]), (&json!("failed"), &json!(3)));
    assert!(work.home.model.told("c1").contains("\nProcess exited with code 3\n"));
}

#[test]
fn calls_of_one_reply_run_side_by_side() {
    let mut work = Work::free();
    let wait = |mine: u32, other: u32| {
        format!("touch {mine}; until [ -e {other} ]; do sleep 0.02; done; echo met {other}")
    };
    work.run([Reply::default().command("c1", &wait(1, 2)).command("c2", &wait(2, 1))]);
    assert!(work.home.model.told("c1").ends_with("met 2\n"));
    assert!(work.home.model.told("c2").ends_with("met 1\n"));
    let last = work.home.model.last();
    let outputs =
        last["input"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call_output");
    assert_eq!(outputs.map(|item| item["call_id"].clone()).collect::<Vec<_>>(), ["c1", "c2"]);
}

#[test]
fn commands_are_described() {
    let mut work = Work::free();
    let cases = [
        ("cat a.txt", "read"),
        ("ls", "listFiles"),
        ("grep words a.txt", "search"),
        ("true | false", "unknown"),
    ];
    let mut reply = Reply::default();
    for (place, (command, _)) in cases.iter().enumerate() {
        reply = reply.command(&format!("c{place}"), command);
    }
    work.run([reply]);
    for item in work.done("commandExecution") {
        let place: usize = id(&item)[1..].parse().unwrap();
        assert_eq!(item["commandActions"][0]["type"], cases[place].1, "{item}");
    }
}

#[test]
fn long_output_keeps_its_ends() {
    let mut work = Work::free();
    let long = "echo first-line; seq 1 200000; echo last-line";
    let limited = json!({"cmd": long, "max_output_tokens": 200});
    work.run([Reply::default().command("c1", long).call("exec_command", "c2", &limited)]);
    for (call, most) in [("c1", 100_000), ("c2", 2_000)] {
        let told = work.home.model.told(call);
        assert!(told.len() < most, "{}", told.len());
        assert!(told.contains("first-line\n1\n") && told.ends_with("200000\nlast-line\n"), "{call}");
        assert!(told.contains("tokens truncated"), "{call}");
    }
    for item in work.done("commandExecution") {
        let output = item["aggregatedOutput"].as_str().unwrap();
        assert!(
            output.starts_with("first-line\n") && output.ends_with("last-line\n") && output.len() < 1_200_000
        );
    }
}

#[test]
fn shell_command_waits_for_the_end_or_its_time() {
    let mut work = Work::free();
    let short = json!({"command": "echo here; exit 4"});
    let long = json!({"command": "echo first; sleep 60", "timeout_ms": 300});
    work.run([call("shell_command", "c1", &short), call("shell_command", "c2", &long)]);
    let told = work.home.model.told("c1");
    assert!(told.starts_with("Exit code: 4\nWall time: ") && told.ends_with("\nOutput:\nhere\n"), "{told}");
    let told = work.home.model.told("c2");
    assert!(
        told.starts_with("Exit code: 124\n") && told.ends_with("\nOutput:\ncommand timed out\nfirst\n"),
        "{told}"
    );
    let done = work.done("commandExecution");
    assert_eq!((&done[0]["exitCode"], &done[1]["exitCode"]), (&json!(4), &json!(124)));
    assert_eq!(done[1]["status"], "failed");
}

#[test]
fn the_environment_follows_its_policy() {
    let home = Home::new();
    home.configure("[shell_environment_policy]\nexclude = [\"*HIDDEN*\"]\nset = { GIVEN = \"here\" }\n");
    let mut binary = home.command(&["app-server"]);
    binary.env("IT_HIDDEN_WORD", "x").env("IT_SHOWN", "seen");
    let mut server = Server::start(binary);
    server.initialize();
    let mut work = Work::on(server, home, "never", json!({"sandbox": "danger-full-access"}));
    work.run([command("c1", "echo \"$GIVEN-$IT_SHOWN-$IT_HIDDEN_WORD-$TERM\"")]);
    assert!(work.home.model.told("c1").ends_with("here-seen--dumb\n"), "{}", work.home.model.told("c1"));
}

#[test]
fn a_session_goes_on_after_its_yield() {
    let mut work = Work::free();
    let command =
        json!({"cmd": "echo ready; read line; echo got $line; exit 4", "yield_time_ms": 250, "tty": true});
    assert_eq!(work.run([call("exec_command", "c1", &command)])["status"], "completed");
    let session = session_of(&work.home.model.told("c1"));
    assert!(work.done("commandExecution").is_empty());
    let (poll, write) = (
        json!({"session_id": session, "yield_time_ms": 250}),
        json!({"session_id": session, "chars": "hello\n"}),
    );
    work.run([call("write_stdin", "c2", &poll), call("write_stdin", "c3", &write)]);
    assert_eq!(session_of(&work.home.model.told("c2")), session);
    let told = work.home.model.told("c3");
    assert!(told.contains("Process exited with code 4") && told.contains("got hello"), "{told}");
    let done = work.done("commandExecution");
    assert_eq!(done.len(), 1, "one item, however often it is looked at");
    assert_eq!((&done[0]["id"], &done[0]["processId"]), (&json!("c1"), &json!(session.to_string())));
    let told = work.events(&work.thread, &["item/commandExecution/terminalInteraction"]);
    assert_eq!(told.len(), 1, "an empty look is none");
    assert_eq!(
        (&told[0]["params"]["itemId"], &told[0]["params"]["stdin"]),
        (&json!("c1"), &json!("hello\n"))
    );
    work.run([call("write_stdin", "c4", &write)]);
    assert_eq!(work.home.model.told("c4"), format!("write_stdin failed: Unknown process id {session}"));
}

#[test]
fn a_command_that_outlives_its_turn_ends_in_it() {
    let mut work = Work::free();
    let command = json!({"cmd": "until [ -e go ]; do sleep 0.02; done; echo late", "yield_time_ms": 250});
    let first = work.run([call("exec_command", "c1", &command), say("waiting")]);
    work.run([say("another")]);
    fs::write(work.path("go"), "").unwrap();
    let done = work.notification_where("item/completed", |params| params["item"]["id"] == "c1");
    assert_eq!((&done["turnId"], &done["item"]["aggregatedOutput"]), (&first["id"], &json!("late\n")));
    let thread = work.thread.clone();
    let turns = work.read(&thread)["turns"].clone();
    assert_eq!(
        kinds(turns[0]["items"].as_array().unwrap()),
        ["userMessage", "agentMessage", "commandExecution"]
    );
    assert_eq!(turns[0]["items"][2], done["item"]);
    assert_eq!(kinds(turns[1]["items"].as_array().unwrap()), ["userMessage", "agentMessage"]);
}

#[test]
fn background_terminals_are_listed_and_ended() {
    let mut work = Work::free();
    let sleep =
        |place: u32| json!({"cmd": format!("echo $$ > pid-{place}; sleep 60; true"), "yield_time_ms": 250});
    let reply = (0..3).fold(Reply::default(), |reply, place| {
        reply.call("exec_command", &format!("c{place}"), &sleep(place))
    });
    let turn = work.run([reply]);
    let thread = work.thread.clone();
    let page = work.request("thread/backgroundTerminals/list", &json!({"threadId": thread, "limit": 2}));
    assert_eq!(page["data"].as_array().unwrap().len(), 2);
    let more = json!({"threadId": thread, "cursor": page["nextCursor"]});
    let rest = work.request("thread/backgroundTerminals/list", &more);
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["nextCursor"]), (1, &Value::Null));
    let terminal = page["data"][0].clone();
    assert_eq!(terminal["cwd"], json!(work.path("")));
    let item = terminal["itemId"].as_str().unwrap().to_owned();
    assert_eq!(terminal["osPid"].to_string(), work.line_of(&item.replace('c', "pid-")));
    assert!(terminal["command"].as_str().unwrap().contains("sleep 60"));

    let one = json!({"threadId": thread, "processId": terminal["processId"]});
    assert_eq!(work.request("thread/backgroundTerminals/terminate", &one)["terminated"], true);
    let done = work.notification_where("item/completed", |params| params["item"]["id"] == item.as_str());
    assert_eq!((&done["item"]["status"], &done["turnId"]), (&json!("failed"), &turn["id"]));
    assert!(!runs(&terminal["osPid"].to_string()));
    assert_eq!(work.request("thread/backgroundTerminals/terminate", &one)["terminated"], false);

    work.request("thread/backgroundTerminals/clean", &json!({"threadId": thread}));
    for _ in 0..2 {
        work.notification_where("item/completed", |params| params["item"]["type"] == "commandExecution");
    }
    let list = work.request("thread/backgroundTerminals/list", &json!({"threadId": thread}));
    assert_eq!(list["data"], json!([]));
    assert!((0..3).all(|place| !runs(&work.line_of(&format!("pid-{place}")))));
}

// The user's own commands ---------------------------------------------------------------------------------------------

#[test]
fn a_users_command_is_a_turn_of_its_own() {
    let mut work = Work::with("untrusted", json!({"sandbox": "read-only"}));
    let thread = work.thread.clone();
    let command = json!({"threadId": thread, "command": "echo mine > new.txt; cat new.txt"});
    assert_eq!(work.request("thread/shellCommand", &command), json!({}));
    let turn = work.notification("turn/completed")["turn"].clone();
    assert_eq!((&turn["status"], &turn["items"]), (&json!("completed"), &json!([])));
    let done = work.done("commandExecution")[0].clone();
    assert_eq!((&done["source"], &done["processId"]), (&json!("userShell"), &Value::Null));
    assert_eq!((&done["status"], &done["aggregatedOutput"]), (&json!("completed"), &json!("mine\n")));
    assert!(work.home.model.requests().is_empty() && work.questions().is_empty());
    assert_eq!(kinds(&work.stored()), ["commandExecution"]);
    work.run([say("I see")]);
    let asked = work.home.model.last().to_string();
    assert!(asked.contains("<user_shell_command>") && asked.contains("echo mine > new.txt"), "{asked}");
    work.refused(
        "thread/shellCommand",
        &json!({"threadId": thread, "command": " "}),
        "command must not be empty",
    );
    let negative =
        work.error("thread/shellCommand", &json!({"threadId": thread, "command": "true", "timeoutMs": -1}));
    assert_eq!(negative["code"], -32602);
}

#[test]
fn a_users_command_has_its_time() {
    let mut work = Work::free();
    let command = json!({"threadId": work.thread, "command": "echo first; sleep 60", "timeoutMs": 300});
    work.request("thread/shellCommand", &command);
    assert_eq!(work.notification("turn/completed")["turn"]["status"], "completed");
    assert_eq!(
        (&work.done("commandExecution")[0]["status"], &work.done("commandExecution")[0]["exitCode"]),
        (&json!("failed"), &json!(124))
    );
}

#[test]
fn a_users_command_joins_the_running_turn() {
    let mut work = Work::free();
    let turn = work.begin([Reply::default().gate("go").say("first"), say("second")]);
    work.home.model.wait_for_requests(1);
    let command = json!({"threadId": work.thread, "command": "echo joined"});
    work.request("thread/shellCommand", &command);
    let done =
        work.notification_where("item/completed", |params| params["item"]["type"] == "commandExecution");
    assert_eq!((&done["turnId"], &done["item"]["aggregatedOutput"]), (&json!(turn), &json!("joined\n")));
    work.home.model.release("go");
    assert_eq!(work.completed(&turn)["items"][0]["text"], "second");
    assert!(work.home.model.last()["input"].to_string().contains("joined"));
}

// Patches -------------------------------------------------------------------------------------------------------------

const PATCH: &str = "*** Begin Patch\n*** Add File: added.txt\n+new line\n*** Delete File: gone.txt\n\
                     *** Update File: moved.txt\n*** Move to: sub/moved.txt\n@@\n-old\n+new\n\
                     *** Update File: there.txt\n@@\n l1\n-l2\n+L2\n l3\n*** End Patch";

fn heredoc(patch: &str) -> String {
    format!("apply_patch <<'EOF'\n{patch}\nEOF")
}

/// A folder that [`PATCH`] fits, in which the model sends it as this.
fn patched(reply: Reply, model: &str) -> Work {
    let mut work = Work::with("never", json!({"sandbox": "danger-full-access", "model": model}));
    for (name, text) in [("gone.txt", "bye\n"), ("moved.txt", "old\nrest\n"), ("there.txt", "l1\nl2\nl3\n")] {
        fs::write(work.path(name), text).unwrap();
    }
    work.run([reply]);
    for (items, status) in
        [(work.started("fileChange"), "inProgress"), (work.done("fileChange"), "completed")]
    {
        assert_eq!((items.len(), &items[0]["id"], &items[0]["status"]), (1, &json!("c1"), &json!(status)));
        let moved = work.path("sub/moved.txt");
        let expected = json!([
            {"path": work.path("added.txt"), "kind": {"type": "add"}, "diff": "new line\n"},
            {"path": work.path("gone.txt"), "kind": {"type": "delete"}, "diff": "bye\n"},
            {"path": work.path("moved.txt"), "kind": {"type": "update", "move_path": moved},
                "diff": format!("@@ -1,2 +1,2 @@\n-old\n+new\n rest\n\n\nMoved to: {}", moved.display())},
            {"path": work.path("there.txt"), "kind": {"type": "update", "move_path": null},
                "diff": "@@ -1,3 +1,3 @@\n l1\n-l2\n+L2\n l3\n"},
        ]);
        assert_eq!(items[0]["changes"], expected);
    }
    let files =
        ["added.txt", "gone.txt", "moved.txt", "sub/moved.txt", "there.txt"].map(|name| work.file(name));
    let there = |text: &str| Some(text.to_owned());
    assert_eq!(files, [there("new line\n"), None, None, there("new\nrest\n"), there("l1\nL2\nl3\n")]);
    assert_eq!(kinds(&work.stored()), ["userMessage", "fileChange", "agentMessage"]);
    assert_eq!(work.stored()[1], work.done("fileChange")[0], "read back");
    work
}

const SUCCESS: &str =
    "Success. Updated the following files:\nA added.txt\nM sub/moved.txt\nM there.txt\nD gone.txt\n";

#[test]
fn a_patch_by_custom_tool_changes_files() {
    let work = patched(Reply::default().custom("apply_patch", "c1", PATCH), "gpt-5.5");
    assert_eq!(work.home.model.told("c1"), format!("Exit code: 0\nWall time: 0 seconds\nOutput:\n{SUCCESS}"));
}

#[test]
fn a_patch_by_heredoc_changes_files() {
    let work = patched(command("c1", &heredoc(PATCH)), "mock-model");
    assert!(work.home.model.told("c1").ends_with(&format!(" seconds\nOutput:\n{SUCCESS}")));
    assert!(work.started("commandExecution").is_empty(), "it is no command");
    assert_eq!(
        work.events(&work.thread, &["turn/diff/updated"]).len(),
        2,
        "after the patch, and once more at the end"
    );
}

#[test]
fn a_patch_that_does_not_fit_changes_nothing() {
    let mut work = Work::free();
    fs::write(work.path("there.txt"), "l1\nl2\n").unwrap();
    let misfit = "*** Begin Patch\n*** Add File: added.txt\n+new\n*** Update File: there.txt\n@@\n-no such line\n+x\n\
                  *** End Patch";
    let replies =
        [command("c1", &heredoc(misfit)), command("c2", &heredoc("*** Begin Patch\nwhat\n*** End Patch"))];
    assert_eq!(work.run(replies)["status"], "completed");
    let told = work.home.model.told("c1");
    assert!(told.starts_with("apply_patch verification failed: ") && told.contains("no such line"), "{told}");
    let told = work.home.model.told("c2");
    assert!(told.starts_with("apply_patch verification failed: invalid patch: line 2: "), "{told}");
    assert_eq!((work.file("added.txt"), work.file("there.txt").unwrap().as_str()), (None, "l1\nl2\n"));
    assert!(work.started("fileChange").is_empty());
}

#[test]
fn patches_of_one_reply_see_each_other() {
    let mut work = Work::free();
    fs::create_dir(work.path("sub")).unwrap();
    fs::write(work.path("sub/a.txt"), "one\n").unwrap();
    let change = |from: &str, to: &str| {
        let patch = format!("*** Begin Patch\n*** Update File: a.txt\n@@\n-{from}\n+{to}\n*** End Patch");
        format!("cd sub && {}", heredoc(&patch))
    };
    work.run([Reply::default().command("c1", &change("one", "two")).command("c2", &change("two", "three"))]);
    assert_eq!(work.file("sub/a.txt").unwrap(), "three\n");
    assert_eq!(work.done("fileChange").len(), 2);
}

#[test]
fn the_diff_of_a_turn_grows_with_its_patches() {
    let mut work = Work::free();
    let status = Command::new("git").args(["init", "-q"]).arg(work.path("")).status().unwrap();
    assert!(status.success());
    let add = |name: &str| {
        heredoc(&format!("*** Begin Patch\n*** Add File: {name}.txt\n+line {name}\n*** End Patch"))
    };
    let turn = work.run([command("c1", &add("a")), command("c2", &add("b"))]);
    let told = work.events(&work.thread, &["turn/diff/updated"]);
    let diffs: Vec<&str> = told.iter().map(|event| event["params"]["diff"].as_str().unwrap()).collect();
    assert!(told.iter().all(|event| event["params"]["turnId"] == turn["id"]));
    let line =
        Command::new("git").args(["hash-object", "a.txt"]).current_dir(work.path("")).output().unwrap();
    let blob = String::from_utf8(line.stdout).unwrap();
    let first = format!(
        "diff --git a/a.txt b/a.txt\nnew file mode 100644\nindex {}..{}\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n\
         +line a\n",
        "0".repeat(40),
        blob.trim()
    );
    assert_eq!(diffs[0], first);
    assert!(diffs[1].starts_with(&first) && diffs[1].contains("+++ b/b.txt"), "{}", diffs[1]);
    assert_eq!(diffs.last().unwrap(), &diffs[1], "once more before the end");
}

// Plans, images, questions, clients' tools ----------------------------------------------------------------------------

#[test]
fn a_plan_is_told_without_an_item() {
    let home = Home::new();
    home.configure("[tools.update_plan]\nenabled = true\n");
    let mut work = Work::in_home(home, "never", json!({}));
    let plan = json!({"explanation": "so far", "plan": [{"step": "look", "status": "completed"},
        {"step": "leap", "status": "in_progress"}, {"step": "land", "status": "pending"}]});
    let turn = work.run([call("update_plan", "c1", &plan)]);
    let told = work.notification("turn/plan/updated");
    assert_eq!((&told["turnId"], &told["explanation"]), (&turn["id"], &json!("so far")));
    let steps = json!([{"step": "look", "status": "completed"}, {"step": "leap", "status": "inProgress"},
        {"step": "land", "status": "pending"}]);
    assert_eq!(told["plan"], steps);
    assert_eq!(work.home.model.told("c1"), "Plan updated");
    assert_eq!(kinds(&work.stored()), ["userMessage", "agentMessage"]);
}

#[test]
fn an_image_is_shown_to_the_model() {
    const GIF: &[u8] =
        b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\
                         \x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
    let mut work = Work::free();
    fs::write(work.path("dot.gif"), GIF).unwrap();
    let look = |name: &str| json!({"path": name});
    work.run([call("view_image", "c1", &look("dot.gif")), call("view_image", "c2", &look("none.png"))]);
    let parts = serde_json::from_str::<Value>(&work.home.model.told("c1")).unwrap();
    assert_eq!(parts[0]["type"], "input_image");
    assert!(parts[0]["image_url"].as_str().unwrap().starts_with("data:image/gif;base64,"), "{parts}");
    let told = work.home.model.told("c2");
    assert!(told.starts_with("unable to locate image at `") && told.contains("none.png"), "{told}");
    let items = work.done("imageView");
    assert_eq!((items.len(), &items[0]["path"]), (1, &json!(work.path("dot.gif"))));
    assert_eq!(kinds(&work.stored()), ["userMessage", "imageView", "agentMessage"]);
}

#[test]
fn the_user_is_questioned_in_plan_mode() {
    let mut work = Work::free();
    let ask = json!({"questions": [{"id": "q", "header": "Colour", "question": "Which one?",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]});
    work.run([call("request_user_input", "c1", &ask)]);
    assert_eq!(work.home.model.told("c1"), "request_user_input is unavailable in Default mode");

    work.home.model.script([call("request_user_input", "c2", &ask)]);
    let thread = work.thread.clone();
    let mode = json!({"mode": "plan", "settings": {"model": "mock-model"}});
    let plan = json!({"threadId": thread, "input": text("plan"), "collaborationMode": mode});
    let turn = id(&work.request("turn/start", &plan)["turn"]);
    let question = work.asked("item/tool/requestUserInput");
    let params = &question["params"];
    assert_eq!(
        (&params["threadId"], &params["turnId"], &params["itemId"]),
        (&json!(thread), &json!(turn), &json!("c2"))
    );
    assert_eq!(params["questions"][0]["options"][1]["label"], "blue");
    assert_eq!(work.read(&thread)["status"]["activeFlags"], json!(["waitingOnUserInput"]));
    let answers = json!({"answers": {"q": {"answers": ["blue"]}}});
    work.answer(&question, &answers);
    assert_eq!(work.notification("serverRequest/resolved")["requestId"], question["id"]);
    assert_eq!(work.completed(&turn)["status"], "completed");
    assert_eq!(serde_json::from_str::<Value>(&work.home.model.told("c2")).unwrap(), answers);
}

#[test]
fn a_clients_tool_is_called_and_answered() {
    let tool = |name: &str| json!({"name": name, "description": "", "inputSchema": {"type": "object"}});
    let group = json!({"type": "namespace", "name": "words", "description": "", "tools": [tool("lookup")]});
    let mut work = Work::with("never", json!({"dynamicTools": [tool("lookup"), group]}));
    let mut reply = (1..=4).fold(Reply::default(), |reply, place| {
        reply.call("lookup", &format!("c{place}"), &json!({"word": place}))
    });
    reply = reply.call_in("words", "lookup", "c5", &json!({}));
    let turn = work.begin([reply]);
    let part = |text: &str| json!({"type": "inputText", "text": text});
    let answers = [
        json!({"result": {"contentItems": [part("about one")], "success": true}}),
        json!({"result": {"contentItems": [part("a"), part("b")], "success": false}}),
        json!({"result": {}}),
        json!({"error": {"code": -32000, "message": "no"}}),
        json!({"result": {"contentItems": [part("grouped")], "success": true}}),
    ];
    for _ in 0..5 {
        let mut request = work.asked("item/tool/call");
        let params = request["params"].take();
        assert_eq!((&params["tool"], &params["turnId"]), (&json!("lookup"), &json!(turn)));
        let place: usize = params["callId"].as_str().unwrap()[1..].parse().unwrap();
        assert_eq!(params["namespace"], if place == 5 { json!("words") } else { Value::Null });
        let mut answer = answers[place - 1].clone();
        answer["id"] = request["id"].clone();
        work.send_raw(&answer.to_string());
    }
    assert_eq!(work.completed(&turn)["status"], "completed");
    assert_eq!(work.home.model.told("c1"), "about one");
    assert_eq!(
        serde_json::from_str::<Value>(&work.home.model.told("c2")).unwrap(),
        json!([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}])
    );
    assert_eq!(work.home.model.told("c3"), "dynamic tool response was invalid");
    assert_eq!(work.home.model.told("c4"), "dynamic tool request failed");
    assert_eq!(work.home.model.told("c5"), "grouped");
    let mut items: Vec<(String, bool)> = work
        .done("dynamicToolCall")
        .iter()
        .map(|item| (id(item), item["status"] == "completed" && item["success"] == true))
        .collect();
    items.sort();
    let expected = [("c1", true), ("c2", false), ("c3", false), ("c4", false), ("c5", true)];
    assert_eq!(items, expected.map(|(id, good)| (id.to_owned(), good)));
    assert!(work.events(&work.thread, &["serverRequest/resolved"]).is_empty(), "nobody is told");
}

#[test]
fn a_clients_tools_are_known_after_a_restart() {
    let tool = json!({"name": "lookup", "description": "d", "inputSchema": {"type": "object"}});
    let mut work = Work::with("never", json!({"dynamicTools": [tool]}));
    work.run([say("hello")]);
    let server = work.home.server();
    std::mem::replace(&mut work.server, server).kill();
    let thread = json!({"threadId": work.thread});
    work.request("thread/resume", &thread);
    work.run([say("hello")]);
    assert!(offered(&work.home.model.last()).contains(&"lookup".to_owned()));
}
