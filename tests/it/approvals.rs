//! Questions to clients: every decision, who is asked, and how a question ends.

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::model::{Reply, output, say};
use crate::support::{id, text};

const COMMAND: &str = "item/commandExecution/requestApproval";
const FILE: &str = "item/fileChange/requestApproval";
const PATCH: &str = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch";

/// A thread that asks before everything, in a folder of its own; its id and the folder.
fn careful(home: &Home, server: &mut Server) -> (String, std::path::PathBuf) {
    let work = home.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let params = json!({"cwd": work, "sandbox": "danger-full-access", "approvalPolicy": "untrusted"});
    (id(&server.request("thread/start", &params)["thread"]), work)
}

/// One command is asked about and answered so: the item's status, the turn's, whether it ran, what the model was told.
fn decided(decision: &Value) -> (Value, Value, bool, Option<String>) {
    let home = Home::new();
    home.model.script([Reply::default().command("call-1", "touch ran"), say("I see")]);
    let mut server = home.server();
    let (thread, work) = careful(&home, &mut server);
    let turn = server.start_turn(&thread, "go");
    let asked = server.asked(COMMAND);
    assert!(!work.join("ran").exists());
    server.answer(&asked, &json!({"decision": decision}));
    let resolved = server.notification("serverRequest/resolved");
    assert_eq!(resolved, json!({"threadId": thread, "requestId": asked["id"]}));
    let done = server.completed(&turn);
    let item = server.item("commandExecution");
    let told = (home.model.requests().len() > 1).then(|| output(&home.model.last(), "call-1"));
    (item["status"].clone(), done["status"].clone(), work.join("ran").exists(), told)
}

#[test]
fn each_decision_on_a_command_has_its_effect() {
    for (decision, item, turn, ran, told) in [
        (json!("accept"), "completed", "completed", true, Some("exited with code 0")),
        (json!("acceptForSession"), "completed", "completed", true, Some("exited with code 0")),
        (json!("decline"), "declined", "completed", false, Some("rejected by user")),
        (json!("cancel"), "declined", "interrupted", false, None),
        (json!("perhaps"), "failed", "completed", false, Some("approval request failed")),
    ] {
        let (item_status, turn_status, has_run, was_told) = decided(&decision);
        assert_eq!((item_status, turn_status, has_run), (json!(item), json!(turn), ran), "{decision}");
        match (told, was_told) {
            (None, None) => {}
            (Some(part), Some(text)) => assert!(text.contains(part), "{decision}: {text}"),
            other => panic!("{decision}: {other:?}"),
        }
    }
}

#[test]
fn an_amendment_holds_for_all_threads_and_after_a_restart() {
    let home = Home::new();
    home.model.repeat(Reply::default().command("call-1", "touch a1").usage(1, 0, 1, 0, 2));
    home.model.script([Reply::default().command("call-1", "touch a1"), say("done")]);
    let mut server = home.server();
    let (thread, work) = careful(&home, &mut server);
    let turn = server.start_turn(&thread, "go");
    let asked = server.asked(COMMAND);
    assert_eq!(asked["params"]["proposedExecpolicyAmendment"], json!(["touch", "a1"]));
    let decision = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}});
    server.answer(&asked, &json!({"decision": decision}));
    server.completed(&turn);
    server.kill();
    home.model.script([Reply::default().command("call-2", "touch a2"), say("done")]);
    let mut server = home.server();
    let (thread, _) = careful(&home, &mut server);
    server.run_turn(&thread, "go");
    assert!(work.join("a1").exists() && work.join("a2").exists());
    assert!(server.came.iter().all(|message| message["method"] != COMMAND), "nobody was asked");
}

#[test]
fn each_decision_on_a_patch_has_its_effect() {
    for (decision, item, turn, told) in [
        (json!("accept"), Some("completed"), "completed", Some("Success")),
        (json!("decline"), Some("declined"), "completed", Some("patch rejected by user")),
        (json!("cancel"), None, "interrupted", None),
        (json!({}), Some("declined"), "completed", Some("approval request failed")),
    ] {
        let home = Home::new();
        home.model.script([
            Reply::default().command("call-1", &format!("apply_patch <<'EOF'\n{PATCH}\nEOF\n")),
            say("I see"),
        ]);
        let mut server = home.server();
        let (thread, work) = careful(&home, &mut server);
        let started = server.start_turn(&thread, "go");
        let asked = server.asked(FILE);
        server.answer(&asked, &json!({"decision": decision}));
        assert_eq!(server.completed(&started)["status"], turn, "{decision}");
        assert_eq!(work.join("new.txt").exists(), decision == "accept");
        let kept = server.read(&thread)["turns"][0]["items"].clone();
        let change = kept.as_array().unwrap().iter().find(|item| item["type"] == "fileChange");
        assert_eq!(
            change.map(|change| change["status"].clone()),
            item.map(|status| json!(status)),
            "{decision}"
        );
        if let Some(part) = told {
            assert!(output(&home.model.last(), "call-1").contains(part), "{decision}");
        }
    }
}

#[test]
fn a_question_outlives_its_client_and_an_interrupt_ends_it() {
    let home = Home::new();
    home.model.script([Reply::default().command("call-1", "touch ran")]);
    let listener = home.listen(&[]);
    let mut first = listener.client();
    let params = json!({"approvalPolicy": "untrusted", "sandbox": "danger-full-access"});
    let thread = id(&first.request("thread/start", &params)["thread"]);
    let turn = first.start_turn(&thread, "go");
    let asked = first.asked(COMMAND);
    drop(first);
    let mut second = listener.client();
    let resumed = second.request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(resumed["thread"]["status"]["activeFlags"], json!(["waitingOnApproval"]));
    assert_eq!(second.asked(COMMAND), asked, "the same question");
    second.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    assert_eq!(second.notification("serverRequest/resolved")["requestId"], asked["id"]);
    assert_eq!(second.completed(&turn)["status"], "interrupted");
    second.answer(&asked, &json!({"decision": "accept"}));
    second.settle();
    assert!(!home.path().join("ran").exists());
}

#[test]
fn a_killed_server_forgets_its_questions() {
    let home = Home::new();
    home.model.script([Reply::default().command("call-1", "touch ran")]);
    let mut server = home.server();
    let (thread, work) = careful(&home, &mut server);
    server.start_turn(&thread, "go");
    server.asked(COMMAND);
    server.kill();
    let mut server = home.server();
    let resumed = server.request("thread/resume", &json!({"threadId": thread}))["thread"].clone();
    assert_eq!(
        (&resumed["status"]["type"], &resumed["turns"][0]["status"]),
        (&json!("idle"), &json!("interrupted"))
    );
    server.settle();
    assert!(server.came.iter().all(|message| message["method"] != COMMAND));
    assert!(!work.join("ran").exists());
}

#[test]
fn granted_permissions_widen_the_sandbox() {
    let home = Home::new();
    home.configure("[features]\nrequest_permissions_tool = true");
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = outside.path().join("file");
    let wish = json!({"reason": "must write", "permissions": {"file_system": {"write": [outside.path()]}}});
    home.model.script([
        Reply::default().command("call-1", &format!("echo x > {}", file.display())),
        Reply::default().call("request_permissions", "call-2", &wish),
        Reply::default().command("call-3", &format!("echo x > {}", file.display())),
        say("done"),
    ]);
    let mut server = home.server();
    let work = home.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let params = json!({"cwd": work, "sandbox": "workspace-write", "approvalPolicy": "on-request"});
    let thread = id(&server.request("thread/start", &params)["thread"]);
    let turn = server.start_turn(&thread, "go");
    let asked = server.asked("item/permissions/requestApproval");
    assert!(!file.exists(), "the sandbox held");
    let granted = asked["params"]["permissions"].clone();
    server.answer(&asked, &json!({"permissions": granted, "scope": "turn"}));
    server.completed(&turn);
    assert!(file.exists(), "{}", output(&home.model.last(), "call-3"));
}

#[test]
fn granular_policies_ask_and_refuse_by_kind() {
    let home = Home::new();
    let escalated =
        json!({"cmd": "true", "sandbox_permissions": "require_escalated", "justification": "please"});
    home.model.script([Reply::default().call("exec_command", "call-1", &escalated), say("I see")]);
    let mut server = home.server();
    let (thread, _) = careful(&home, &mut server);
    let granular = json!({"granular": {"sandbox_approval": false, "rules": false, "skill_approval": false,
        "request_permissions": false, "mcp_elicitations": false}});
    let params = json!({"threadId": thread, "input": text("go"), "approvalPolicy": granular,
        "sandboxPolicy": {"type": "readOnly"}});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    server.completed(&turn);
    assert!(output(&home.model.last(), "call-1").contains("approval policy is Granular"));
}
