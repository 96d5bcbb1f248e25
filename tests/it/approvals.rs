//! Approvals: what is asked and of whom, what each answer does, and what becomes of a question whose client or turn
//! goes away.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::home::Home;
use crate::support::model::{Reply, call, command, say};
use crate::support::work::Work;
use crate::support::{id, text};

const COMMAND: &str = "item/commandExecution/requestApproval";
const FILE: &str = "item/fileChange/requestApproval";

fn add(name: &str) -> String {
    format!("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {name}\n+new line\n*** End Patch\nEOF")
}

fn decision(decision: &str) -> Value {
    json!({"decision": decision})
}

// Commands ------------------------------------------------------------------------------------------------------------

/// A command that leaves a mark each time it runs is asked about and answered so; the work, the turn, what it left.
fn decided(answer: &Value) -> (Work, Value, Option<String>) {
    let mut work = Work::untrusted();
    let turn = work.begin([command("c1", "echo ran | tee -a marks")]);
    let question = work.asked(COMMAND);
    assert_eq!(work.file("marks"), None, "nothing runs before the answer");
    let started = work.started("commandExecution");
    assert_eq!((&started[0]["id"], &started[0]["source"]), (&json!("c1"), &json!("agent")));
    assert_eq!(work.stored().len(), 1, "what waits is not shown as run");
    let mut answer = answer.clone();
    answer["id"] = question["id"].clone();
    work.send_raw(&answer.to_string());
    let expected = json!({"threadId": work.thread, "requestId": question["id"]});
    assert_eq!(work.notification("serverRequest/resolved"), expected);
    let turn = work.completed(&turn);
    assert_eq!(work.started("commandExecution").len(), 1, "it does not start a second time");
    let marks = work.file("marks");
    (work, turn, marks)
}

#[test]
fn the_question_tells_of_the_command() {
    let mut work = Work::untrusted();
    let command = json!({"cmd": "touch new.txt", "justification": "it is needed"});
    let turn = work.begin([call("exec_command", "c1", &command)]);
    let mut params = work.asked(COMMAND)["params"].take();
    assert!(params["startedAtMs"].take().is_i64());
    assert!(params["command"].take().as_str().unwrap().ends_with("-lc 'touch new.txt'"));
    let amendment = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "new.txt"]}});
    let expected = json!({
        "kind": "command", "threadId": work.thread, "turnId": turn, "itemId": "c1", "environmentId": "local",
        "startedAtMs": null, "command": null, "cwd": work.path(""), "reason": "it is needed",
        "commandActions": [{"type": "unknown", "command": "touch new.txt"}],
        "proposedExecpolicyAmendment": ["touch", "new.txt"],
        "availableDecisions": ["accept", amendment, "cancel"],
    });
    assert_eq!(params, expected);
}

#[test]
fn an_accepted_command_runs_once() {
    for word in ["accept", "acceptForSession"] {
        let (work, turn, marks) = decided(&json!({"result": decision(word)}));
        assert_eq!((turn["status"].as_str(), marks.as_deref()), (Some("completed"), Some("ran\n")), "{word}");
        let done = &work.done("commandExecution")[0];
        assert_eq!((&done["status"], &done["source"]), (&json!("completed"), &json!("unifiedExecStartup")));
        assert!(work.home.model.told("c1").ends_with("\nran\n"));
    }
}

#[test]
fn a_declined_command_does_not_run_and_the_turn_goes_on() {
    let (mut work, turn, marks) = decided(&json!({"result": decision("decline")}));
    assert_eq!((&turn["status"], marks), (&json!("completed"), None));
    let done = work.done("commandExecution")[0].clone();
    assert_eq!(
        (&done["status"], &done["exitCode"], &done["source"]),
        (&json!("declined"), &Value::Null, &json!("agent"))
    );
    let expected = r#"exec_command failed: CreateProcess { message: "Rejected(\"rejected by user\")" }"#;
    assert_eq!(work.home.model.told("c1"), expected);
    assert_eq!(work.stored().len(), 2, "a declined command is not kept");
}

#[test]
fn cancel_ends_the_turn() {
    let (mut work, turn, marks) = decided(&json!({"result": decision("cancel")}));
    assert_eq!((&turn["status"], marks), (&json!("interrupted"), None));
    assert_eq!(work.done("commandExecution")[0]["status"], "declined");
    assert_eq!(work.home.model.requests().len(), 1);
    let thread = work.thread.clone();
    assert_eq!(work.read(&thread)["status"], json!({"type": "idle"}));
    assert_eq!(work.run([say("I see")])["status"], "completed");
    assert!(work.home.model.told("c1").contains("aborted"), "{}", work.home.model.told("c1"));
}

#[test]
fn a_wrong_answer_is_a_no() {
    let error = json!({"error": {"code": -32000, "message": "no"}});
    for answer in [json!({"result": decision("perhaps")}), json!({"result": {}}), error] {
        let (work, turn, marks) = decided(&answer);
        assert_eq!((&turn["status"], marks), (&json!("completed"), None), "{answer}");
        assert_eq!(work.done("commandExecution")[0]["status"], "failed", "{answer}");
        assert!(work.home.model.told("c1").contains("approval request failed"), "{answer}");
    }
}

#[test]
fn a_yes_for_the_session_is_remembered_in_the_thread() {
    let mut work = Work::untrusted();
    let turn =
        work.begin([command("c1", "echo same"), command("c2", "echo same"), command("c3", "echo other")]);
    let question = work.asked(COMMAND);
    work.answer(&question, &decision("acceptForSession"));
    let question = work.asked(COMMAND);
    assert_eq!(question["params"]["itemId"], "c3");
    work.answer(&question, &decision("accept"));
    work.completed(&turn);
    work.run([command("c4", "echo same")]);
    assert_eq!(work.questions().len(), 2);
    assert!(work.home.model.told("c4").ends_with("same\n"));
}

#[test]
fn an_amendment_allows_for_all_threads_and_after_a_restart() {
    let mut work = Work::untrusted();
    let turn = work.begin([command("c1", "echo one two")]);
    let question = work.asked(COMMAND);
    assert_eq!(question["params"]["proposedExecpolicyAmendment"], json!(["echo", "one", "two"]));
    let shorter = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["echo"]}});
    work.answer(&question, &json!({"decision": shorter}));
    work.completed(&turn);
    let rules = fs::read_to_string(work.home.path().join("rules/default.rules")).unwrap();
    assert_eq!(rules, "prefix_rule(pattern=[\"echo\"], decision=\"allow\")\n");
    assert_eq!(work.run([command("c2", "echo again")])["status"], "completed");
    assert_eq!(work.questions().len(), 1);

    let Work { home, server, .. } = work;
    assert!(server.close().success());
    let mut work = Work::in_home(home, "untrusted", json!({"sandbox": "danger-full-access"}));
    work.run([command("c3", "echo here as well")]);
    assert!(work.questions().is_empty());
    let turn = work.begin([command("c4", "echo here && touch there")]);
    let question = work.asked(COMMAND);
    work.answer(&question, &decision("decline"));
    work.completed(&turn);
}

#[test]
fn two_calls_ask_at_the_same_time() {
    let mut work = Work::untrusted();
    let turn = work.begin([Reply::default().command("c1", "echo 1").command("c2", "echo 2")]);
    let (one, other) = (work.asked(COMMAND), work.asked(COMMAND));
    assert_ne!(one["id"], other["id"]);
    work.answer(&other, &decision("accept"));
    let resolved = work.notification("serverRequest/resolved");
    assert_eq!(resolved["requestId"], other["id"]);
    let thread = work.thread.clone();
    let waiting = json!({"type": "active", "activeFlags": ["waitingOnApproval"]});
    assert_eq!(work.read(&thread)["status"], waiting, "one is left");
    work.answer(&one, &decision("decline"));
    assert_eq!(work.completed(&turn)["status"], "completed");
    let status = |call: &Value| {
        let item = &call["params"]["itemId"];
        work.done("commandExecution").into_iter().find(|done| done["id"] == *item).unwrap()["status"].clone()
    };
    assert_eq!((status(&one), status(&other)), (json!("declined"), json!("completed")));
    let flags: Vec<Value> = work
        .events(&work.thread, &["thread/status/changed"])
        .iter()
        .map(|event| event["params"]["status"]["activeFlags"].clone())
        .collect();
    assert_eq!(flags, [json!([]), json!(["waitingOnApproval"]), json!([]), Value::Null]);
}

// File changes --------------------------------------------------------------------------------------------------------

/// A patch is asked about and answered so; the work and the turn.
fn patch_decided(answer: &Value) -> (Work, Value) {
    let mut work = Work::untrusted();
    let turn = work.begin([command("c1", &add("new.txt"))]);
    let question = work.asked(FILE);
    let started = &work.started("fileChange")[0];
    let expected = json!({"threadId": work.thread, "turnId": turn, "itemId": "c1", "reason": null,
        "grantRoot": null, "startedAtMs": started["startedAtMs"]});
    assert_eq!(question["params"], expected);
    let changes = json!([{"path": work.path("new.txt"), "kind": {"type": "add"}, "diff": "new line\n"}]);
    assert_eq!((&started["id"], &started["changes"]), (&json!("c1"), &changes));
    assert_eq!(work.file("new.txt"), None);
    let mut answer = answer.clone();
    answer["id"] = question["id"].clone();
    work.send_raw(&answer.to_string());
    assert_eq!(work.notification("serverRequest/resolved")["requestId"], question["id"]);
    let turn = work.completed(&turn);
    (work, turn)
}

#[test]
fn an_accepted_patch_is_applied() {
    let (work, turn) = patch_decided(&json!({"result": decision("accept")}));
    assert_eq!((&turn["status"], work.file("new.txt").as_deref()), (&json!("completed"), Some("new line\n")));
    assert_eq!(work.done("fileChange")[0]["status"], "completed");
}

#[test]
fn a_declined_patch_is_kept_as_declined() {
    let (mut work, turn) = patch_decided(&json!({"result": decision("decline")}));
    assert_eq!((&turn["status"], work.file("new.txt")), (&json!("completed"), None));
    assert_eq!(work.home.model.told("c1"), "patch rejected by user");
    let stored = work.stored();
    assert_eq!((&stored[1]["type"], &stored[1]["status"]), (&json!("fileChange"), &json!("declined")));
}

#[test]
fn a_cancelled_patch_ends_the_turn() {
    let (work, turn) = patch_decided(&json!({"result": decision("cancel")}));
    assert_eq!((&turn["status"], work.file("new.txt")), (&json!("interrupted"), None));
    assert!(work.done("fileChange").is_empty());
    assert_eq!(work.home.model.requests().len(), 1);
}

#[test]
fn a_wrong_answer_to_a_patch_is_a_no() {
    let (work, turn) = patch_decided(&json!({"result": decision("perhaps")}));
    assert_eq!((&turn["status"], work.file("new.txt")), (&json!("completed"), None));
    assert_eq!(work.done("fileChange")[0]["status"], "declined");
    assert_eq!(work.home.model.told("c1"), "approval request failed");
}

#[test]
fn a_patch_accepted_for_the_session_allows_its_files() {
    let mut work = Work::untrusted();
    fs::write(work.path("a.txt"), "one\n").unwrap();
    let change = |from: &str, to: &str| {
        format!(
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n@@\n-{from}\n+{to}\n*** End Patch\nEOF"
        )
    };
    let turn = work.begin([
        command("c1", &change("one", "two")),
        command("c2", &change("two", "three")),
        command("c3", &add("new.txt")),
    ]);
    let question = work.asked(FILE);
    work.answer(&question, &decision("acceptForSession"));
    let question = work.asked(FILE);
    assert_eq!(
        (&question["params"]["itemId"], work.file("a.txt").unwrap()),
        (&json!("c3"), "three\n".to_owned())
    );
    work.answer(&question, &decision("decline"));
    work.completed(&turn);
}

#[test]
fn a_patch_is_checked_again_when_it_is_applied() {
    let mut work = Work::untrusted();
    fs::write(work.path("a.txt"), "one\n").unwrap();
    let change =
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch\nEOF";
    let turn = work.begin([command("c1", change)]);
    let question = work.asked(FILE);
    fs::write(work.path("a.txt"), "written meanwhile\n").unwrap();
    work.answer(&question, &decision("accept"));
    work.completed(&turn);
    assert_eq!(work.file("a.txt").unwrap(), "written meanwhile\n");
    assert_eq!(work.done("fileChange")[0]["status"], "failed");
    assert!(work.home.model.told("c1").contains("has changed"), "{}", work.home.model.told("c1"));
}

// Policies ------------------------------------------------------------------------------------------------------------

/// What becomes of these calls in a thread with this policy and sandbox: `run`, `ask` or `refuse` each.
fn verdicts(policy: &Value, sandbox: &str, calls: &[Value]) -> Vec<&'static str> {
    let mut work = Work::with("never", json!({}));
    let thread = work.thread.clone();
    let sandbox_policy = match sandbox {
        "workspaceWrite" => json!({"type": sandbox, "writableRoots": [], "networkAccess": false,
            "excludeTmpdirEnvVar": true, "excludeSlashTmp": true}),
        "readOnly" => json!({"type": sandbox, "networkAccess": false}),
        _ => json!({"type": sandbox}),
    };
    let mut found = Vec::new();
    for (place, arguments) in calls.iter().enumerate() {
        let call_id = format!("c{place}");
        work.home.model.script([call("exec_command", &call_id, arguments)]);
        let params = json!({"threadId": thread, "input": text("go"), "approvalPolicy": policy,
            "sandboxPolicy": sandbox_policy});
        let turn = id(&work.request("turn/start", &params)["turn"]);
        let first = work.wait_for("a question or the end", |message| {
            message["params"]["turn"]["id"] == turn.as_str() && message["method"] == "turn/completed"
                || message.get("method").is_some() && message.get("id").is_some()
        });
        if first["method"] == "turn/completed" {
            let items = [work.done("commandExecution"), work.done("fileChange")].concat();
            let ran = items.iter().any(|item| item["id"] == call_id.as_str());
            found.push(if ran { "run" } else { "refuse" });
        } else {
            found.push("ask");
            work.answer(&first, &decision("decline"));
            work.completed(&turn);
        }
    }
    found
}

#[test]
fn policies_and_sandboxes_decide_together() {
    let outside = tempfile::tempdir().unwrap();
    let escalated =
        json!({"cmd": "true", "sandbox_permissions": "require_escalated", "justification": "please"});
    let calls = [
        json!({"cmd": "true"}),
        escalated,
        json!({"cmd": "rm -rf no-such-file"}),
        json!({"cmd": add("in.txt")}),
        json!({"cmd": add(&outside.path().join("out.txt").display().to_string())}),
    ];
    let granular = |yes: bool| {
        json!({"granular": {"sandbox_approval": yes, "rules": false, "skill_approval": false,
            "request_permissions": false, "mcp_elicitations": false}})
    };
    let (run, ask, refuse) = ("run", "ask", "refuse");
    let table = [
        (json!("untrusted"), "readOnly", [ask; 5]),
        (json!("untrusted"), "workspaceWrite", [ask; 5]),
        (json!("untrusted"), "dangerFullAccess", [ask; 5]),
        (json!("on-request"), "readOnly", [run, ask, ask, ask, ask]),
        (json!("on-request"), "workspaceWrite", [run, ask, ask, run, ask]),
        (json!("on-request"), "dangerFullAccess", [run, run, ask, run, run]),
        (json!("never"), "readOnly", [run, refuse, refuse, refuse, refuse]),
        (json!("never"), "workspaceWrite", [run, refuse, refuse, run, refuse]),
        (json!("never"), "dangerFullAccess", [run, refuse, refuse, run, run]),
        (granular(false), "workspaceWrite", [run, refuse, refuse, run, refuse]),
        (granular(true), "workspaceWrite", [run, ask, ask, run, ask]),
    ];
    std::thread::scope(|scope| {
        for (policy, sandbox, expected) in &table {
            let calls = &calls;
            scope
                .spawn(move || assert_eq!(verdicts(policy, sandbox, calls), *expected, "{policy} {sandbox}"));
        }
    });
}

#[test]
fn an_escalated_command_runs_free_after_its_yes() {
    let mut work = Work::with("on-request", json!({"sandbox": "read-only"}));
    let free = json!({"cmd": "touch free.txt", "sandbox_permissions": "require_escalated", "justification": "please"});
    let turn = work.begin([command("c1", "touch confined.txt"), call("exec_command", "c2", &free)]);
    let question = work.asked(COMMAND);
    assert_eq!(
        (&question["params"]["itemId"], &question["params"]["reason"]),
        (&json!("c2"), &json!("please"))
    );
    assert_eq!(
        (work.file("confined.txt"), work.done("commandExecution")[0]["status"].as_str()),
        (None, Some("failed"))
    );
    work.answer(&question, &decision("accept"));
    work.completed(&turn);
    assert!(work.file("free.txt").is_some());
}

#[test]
fn an_accepted_command_stays_in_the_sandbox() {
    let mut work = Work::with("untrusted", json!({"sandbox": "read-only"}));
    let turn = work.begin([command("c1", "touch new.txt")]);
    let question = work.asked(COMMAND);
    work.answer(&question, &decision("accept"));
    work.completed(&turn);
    assert_eq!(
        (work.file("new.txt"), work.done("commandExecution")[0]["status"].as_str()),
        (None, Some("failed"))
    );
}

#[test]
fn granted_permissions_widen_the_sandbox() {
    let home = Home::new();
    home.configure("[features]\nrequest_permissions_tool = true\n");
    let mut work = Work::in_home(home, "on-request", json!({"sandbox": "read-only"}));
    let wanted = json!({"reason": "to build", "permissions": {"file_system": {"write": ["."]}}});
    let ask = |call_id: &str| call("request_permissions", call_id, &wanted);
    for (scope, later) in [("turn", None), ("session", Some(String::new()))] {
        for name in ["before", "within", "after"] {
            let _ = fs::remove_file(work.path(name));
        }
        let [before, asked, within] = ["before", "asked", "within"].map(|step| format!("{scope}-{step}"));
        let turn =
            work.begin([command(&before, "touch before"), ask(&asked), command(&within, "touch within")]);
        let question = work.asked("item/permissions/requestApproval");
        assert_eq!(question["params"]["reason"], "to build");
        let permissions = question["params"]["permissions"].clone();
        assert_eq!(permissions["fileSystem"]["write"], json!([work.path("")]));
        work.answer(&question, &json!({"permissions": permissions, "scope": scope}));
        work.completed(&turn);
        assert_eq!((work.file("before"), work.file("within").is_some()), (None, true), "{scope}");
        let told: Value = serde_json::from_str(&work.home.model.told(&asked)).unwrap();
        assert_eq!(told["scope"], scope);
        work.run([command(&format!("{scope}-after"), "touch after")]);
        assert_eq!(work.file("after"), later, "{scope}");
    }
}

#[test]
fn permissions_are_not_asked_for_where_nothing_is_asked() {
    let home = Home::new();
    home.configure("[features]\nrequest_permissions_tool = true\n");
    let mut work = Work::in_home(home, "never", json!({"sandbox": "read-only"}));
    let wanted = json!({"permissions": {"file_system": {"write": ["."]}}});
    assert_eq!(work.run([call("request_permissions", "c1", &wanted)])["status"], "completed");
    assert!(work.questions().is_empty());
    let told: Value = serde_json::from_str(&work.home.model.told("c1")).unwrap();
    assert_eq!(told, json!({"permissions": {"fileSystem": null, "network": null}, "scope": "turn"}));
}

// Connections and turns that go away ----------------------------------------------------------------------------------

fn on_thread(client: &mut Client, thread: &str) -> Value {
    client.request("thread/resume", &json!({"threadId": thread}))["thread"].clone()
}

/// A turn of a listening server that asks about a command: its first client, the thread, the turn, the question.
fn asking(home: &Home, client: &mut Client, others: &mut [&mut Client]) -> (String, String, Value) {
    let params = json!({"approvalPolicy": "untrusted", "sandbox": "danger-full-access", "cwd": home.path()});
    let thread = id(&client.request("thread/start", &params)["thread"]);
    client.run_turn(&thread, "hello");
    for other in others {
        on_thread(other, &thread);
    }
    home.model.script([command("c1", "echo ran | tee -a marks")]);
    let turn = client.start_turn(&thread, "go");
    let question = client.asked(COMMAND);
    (thread, turn, question)
}

fn marks(home: &Home) -> Option<String> {
    fs::read_to_string(home.path().join("marks")).ok()
}

#[test]
fn every_subscriber_is_asked_and_the_first_answer_counts() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let (thread, turn, question) = asking(&home, &mut one, &mut [&mut other]);
    assert_eq!(other.asked(COMMAND), question);
    other.answer(&question, &decision("accept"));
    for client in [&mut one, &mut other] {
        let expected = json!({"threadId": thread, "requestId": question["id"]});
        assert_eq!(client.notification("serverRequest/resolved"), expected);
    }
    one.answer(&question, &decision("cancel"));
    other.answer(&question, &decision("accept"));
    for client in [&mut one, &mut other] {
        assert_eq!(client.completed(&turn)["status"], "completed");
    }
    assert_eq!(marks(&home).as_deref(), Some("ran\n"));
}

#[test]
fn a_question_outlives_its_connection() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let mut one = listener.client();
    let (thread, turn, question) = asking(&home, &mut one, &mut []);
    drop(one);
    let mut other = listener.client();
    let waiting = json!({"type": "active", "activeFlags": ["waitingOnApproval"]});
    assert_eq!(other.read(&thread)["status"], waiting);
    let resumed = on_thread(&mut other, &thread);
    assert_eq!((&resumed["status"], &resumed["turns"][1]["status"]), (&waiting, &json!("inProgress")));
    assert_eq!(other.asked(COMMAND), question, "the same under the same id");
    other.answer(&question, &decision("accept"));
    assert_eq!(other.completed(&turn)["status"], "completed");
    assert_eq!(marks(&home).as_deref(), Some("ran\n"));
}

#[test]
fn a_message_that_joins_waits_for_the_answer() {
    let mut work = Work::untrusted();
    let turn = work.begin([command("c1", "echo ran")]);
    let question = work.asked(COMMAND);
    let steer = json!({"threadId": work.thread, "expectedTurnId": turn, "input": text("and this")});
    work.request("turn/steer", &steer);
    work.answer(&question, &decision("accept"));
    assert_eq!(work.completed(&turn)["status"], "completed");
    let last = work.home.model.last();
    let input = last["input"].as_array().unwrap();
    let place = |wanted: &dyn Fn(&Value) -> bool| input.iter().position(wanted).unwrap();
    let output = place(&|item| item["type"] == "function_call_output");
    assert!(output < place(&|item| item["content"][0]["text"] == "and this"));
}

#[test]
fn what_ends_the_turn_settles_its_question() {
    for method in ["turn/interrupt", "thread/archive", "thread/delete"] {
        let mut work = Work::untrusted();
        let turn = work.begin([command("c1", "touch marks")]);
        let question = work.asked(COMMAND);
        let mut params = json!({"threadId": work.thread});
        if method == "turn/interrupt" {
            params["turnId"] = json!(turn);
        }
        work.request(method, &params);
        let expected = json!({"threadId": work.thread, "requestId": question["id"]});
        assert_eq!(work.notification("serverRequest/resolved"), expected, "{method}");
        assert_eq!(work.completed(&turn)["status"], "interrupted", "{method}");
        work.answer(&question, &decision("accept"));
        work.settle();
        assert_eq!(work.file("marks"), None, "{method}: a late yes runs nothing");
    }
}

#[test]
fn a_question_is_gone_with_its_process() {
    let mut work = Work::untrusted();
    let turn = work.begin([command("c1", "touch marks")]);
    let question = work.asked(COMMAND);
    let server = work.home.server();
    std::mem::replace(&mut work.server, server).kill();
    let thread = work.thread.clone();
    let resumed = on_thread(&mut work, &thread);
    assert_eq!(resumed["status"], json!({"type": "idle"}));
    assert_eq!(
        (&resumed["turns"][0]["id"], &resumed["turns"][0]["status"]),
        (&json!(turn), &json!("interrupted"))
    );
    assert_eq!(resumed["turns"][0]["items"].as_array().unwrap().len(), 1, "what waited did not run");
    work.answer(&question, &decision("accept"));
    assert_eq!(work.run([say("I see")])["status"], "completed");
    assert!(work.questions().is_empty() && work.file("marks").is_none());
}
