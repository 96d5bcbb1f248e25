//! What is left of the model's commands: nothing, after an interrupt, an end of the thread or of the server.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::home::Home;
use crate::support::model::{Reply, call, command, say};
use crate::support::work::{Work, runs};

/// Starts children of every kind, writes their ids, and goes on.
const FAMILY: &str = "sleep 1000 & echo $! > background; setsid sleep 1000 & echo $! > detached; \
                      (trap '' TERM HUP; while :; do sleep 1; done) & echo $! > stubborn; echo $$ > leader; wait";

const FILES: [&str; 4] = ["background", "detached", "stubborn", "leader"];

fn family(work: &Work) -> Vec<String> {
    let pids: Vec<String> = FILES.iter().map(|name| work.line_of(name)).collect();
    assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
    pids
}

fn assert_gone(pids: &[String], when: &str) {
    for (pid, name) in pids.iter().zip(FILES) {
        assert!(!runs(pid), "{name} is left after {when}");
    }
}

#[test]
fn an_interrupt_leaves_nothing() {
    for tty in [false, true] {
        let mut work = Work::free();
        let turn = work.begin([call("exec_command", "c1", &json!({"cmd": FAMILY, "tty": tty}))]);
        let pids = family(&work);
        let interrupt = json!({"threadId": work.thread, "turnId": turn});
        work.request("turn/interrupt", &interrupt);
        assert_eq!(work.completed(&turn)["status"], "interrupted");
        assert_gone(&pids, "an interrupt");
        let stored = work.stored();
        assert_eq!(stored.len(), 2);
        assert_eq!((&stored[1]["id"], &stored[1]["status"]), (&json!("c1"), &json!("failed")));
        assert_eq!(work.run([say("I see")])["status"], "completed");
        assert!(work.home.model.told("c1").contains("aborted"), "{}", work.home.model.told("c1"));
    }
}

#[test]
fn an_interrupt_ends_what_an_earlier_command_of_the_turn_left() {
    let mut work = Work::free();
    let left = "(setsid sleep 1000 & echo $! > left) >/dev/null 2>&1";
    let turn = work.begin([command("c1", left), command("c2", "touch ready; sleep 1000")]);
    work.notification_where("item/started", |params| params["item"]["id"] == "c2");
    let pid = work.line_of("left");
    assert!(runs(&pid));
    let interrupt = json!({"threadId": work.thread, "turnId": turn});
    work.request("turn/interrupt", &interrupt);
    work.completed(&turn);
    assert!(!runs(&pid));
}

#[test]
fn an_interrupt_leaves_the_terminals_of_earlier_turns() {
    let mut work = Work::free();
    let server = json!({"cmd": "echo $$ > leader; sleep 1000; true", "yield_time_ms": 250});
    work.run([call("exec_command", "c1", &server)]);
    let pid = work.line_of("leader");
    let turn = work.begin([Reply::default().gate("never").say("late")]);
    work.home.model.wait_for_requests(3);
    let interrupt = json!({"threadId": work.thread, "turnId": turn});
    work.request("turn/interrupt", &interrupt);
    work.completed(&turn);
    assert!(runs(&pid));
}

#[test]
fn an_interrupt_ends_a_users_command() {
    let mut work = Work::free();
    let command = json!({"threadId": work.thread, "command": FAMILY});
    work.request("thread/shellCommand", &command);
    let pids = family(&work);
    let interrupt = json!({"threadId": work.thread, "turnId": ""});
    work.request("turn/interrupt", &interrupt);
    assert_eq!(work.notification("turn/completed")["turn"]["status"], "interrupted");
    assert_gone(&pids, "an interrupt");
}

#[test]
fn an_interrupt_does_not_wait_for_a_command_that_reads_nothing() {
    let mut work = Work::free();
    let deaf = json!({"cmd": "stty raw -echo; echo ready; sleep 1000", "tty": true, "yield_time_ms": 250});
    work.run([call("exec_command", "c1", &deaf)]);
    let told = work.home.model.told("c1");
    let session: i64 = told.split_once("session ID ").unwrap().1.split('\n').next().unwrap().parse().unwrap();
    let much = json!({"session_id": session, "chars": "x".repeat(1 << 20)});
    let turn = work.begin([call("write_stdin", "c2", &much)]);
    work.home.model.wait_for_requests(3);
    let interrupt = json!({"threadId": work.thread, "turnId": turn});
    work.request("turn/interrupt", &interrupt);
    assert_eq!(work.completed(&turn)["status"], "interrupted");
}

#[test]
fn a_timeout_leaves_nothing() {
    let mut work = Work::free();
    let turn = work.begin([call("shell_command", "c1", &json!({"command": FAMILY, "timeout_ms": 1500}))]);
    let pids = family(&work);
    work.completed(&turn);
    assert_gone(&pids, "a timeout");
}

#[test]
fn the_end_of_a_thread_leaves_nothing() {
    for method in ["thread/archive", "thread/delete"] {
        let mut work = Work::free();
        let background = json!({"cmd": FAMILY, "yield_time_ms": 250});
        work.run([call("exec_command", "c1", &background)]);
        let pids = family(&work);
        let thread = json!({"threadId": work.thread});
        work.request(method, &thread);
        assert_gone(&pids, method);
    }
}

#[test]
fn the_end_of_the_server_leaves_nothing() {
    for signal in [None, Some(libc::SIGTERM)] {
        let mut work = Work::free();
        let background = json!({"cmd": FAMILY, "yield_time_ms": 250});
        work.run([call("exec_command", "c1", &background)]);
        let pids = family(&work);
        let Work { server, home, thread, .. } = work;
        match signal {
            None => assert!(server.close().success()),
            Some(signal) => {
                server.signal(signal);
                assert!(server.wait().success());
            }
        }
        assert_gone(&pids, "the end of the server");
        let turns = home.server().read(&thread)["turns"].clone();
        let items = turns[0]["items"].as_array().unwrap();
        assert_eq!((&items[2]["id"], &items[2]["status"]), (&json!("c1"), &json!("failed")), "{items:?}");
    }
}

#[test]
fn a_killed_server_leaves_an_interrupted_turn() {
    let mut work = Work::free();
    let turn = work.begin([command("c1", "echo before"), command("c2", "echo $$ > leader; exec sleep 1000")]);
    let pid = work.line_of("leader");
    let server = work.home.server();
    std::mem::replace(&mut work.server, server).kill();
    assert!(is_gone_soon(&pid), "a command dies with its server");
    let thread = work.thread.clone();
    let read = work.read(&thread)["turns"][0].clone();
    assert_eq!((&read["id"], &read["status"]), (&json!(turn), &json!("interrupted")));
    let items = read["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{items:?}");
    assert_eq!((&items[1]["id"], &items[1]["status"]), (&json!("c1"), &json!("completed")));
    work.request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(work.run([say("I see")])["status"], "completed");
    assert!(work.home.model.told("c1").ends_with("before\n"));
    assert!(work.home.model.told("c2").contains("aborted"), "{}", work.home.model.told("c2"));
    assert_eq!(work.home.model.requests().len(), 3, "the cut call is not carried out again");
}

/// The kernel sends the signal at the moment of the server's end; it is carried out a little later.
fn is_gone_soon(pid: &str) -> bool {
    let wait = format!("while kill -0 {pid} && ! grep -q ') Z' /proc/{pid}/stat; do sleep 0.02; done");
    let mut waiting = Command::new("timeout");
    waiting.args(["20", "sh", "-c", &wait]).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn the_next_server_ends_what_a_killed_one_left() {
    let mut work = Work::free();
    work.begin([command("c1", FAMILY)]);
    let pids = family(&work);
    let mut bystander = Command::new("sleep").arg("1000").env("THREADKEEP_COMMAND", "x").spawn().unwrap();
    let Work { server, home, .. } = work;
    server.kill();
    let _next = home.server();
    assert!(pids.iter().all(|pid| is_gone_soon(pid)));
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_server_leaves_the_commands_of_another() {
    let mut work = Work::free();
    work.begin([command("c1", "echo $$ > leader; sleep 1000")]);
    let pid = work.line_of("leader");
    let mut other = work.home.server();
    other.used_thread("hello");
    assert!(other.close().success());
    assert!(runs(&pid));
}

#[test]
fn a_home_serves_again_after_its_commands_were_ended() {
    let mut work = Work::in_home(Home::new(), "never", json!({"sandbox": "workspace-write"}));
    for place in 0..3 {
        let turn = work.begin([command(&format!("c{place}"), FAMILY)]);
        let pids = family(&work);
        let interrupt = json!({"threadId": work.thread, "turnId": turn});
        work.request("turn/interrupt", &interrupt);
        work.completed(&turn);
        assert_gone(&pids, "an interrupt in the sandbox");
        for name in FILES {
            std::fs::remove_file(work.path(name)).unwrap();
        }
    }
}
