//! Several processes on one home.

use std::thread;

use serde_json::json;

use crate::support::home::Home;
use crate::support::model::{Reply, said, talk};
use crate::support::{id, ids};

#[test]
fn processes_that_start_at_once_on_a_new_home_all_work() {
    let home = Home::new();
    let mut made: Vec<String> = thread::scope(|scope| {
        let started: Vec<_> = (0..4).map(|number| (scope.spawn(|| home.server()), number)).collect();
        let used = started.into_iter().map(|(server, number)| {
            let mut server = server.join().unwrap();
            let thread = server.used_thread(&format!("hello from {number}"));
            server.close();
            thread
        });
        used.collect()
    });
    let mut listed = ids(&home.server().request("thread/list", &json!({})));
    made.sort();
    listed.sort();
    assert_eq!(listed, made);
}

#[test]
fn a_thread_that_runs_elsewhere_is_refused_with_the_process_that_runs_it() {
    let home = Home::new();
    let (mut one, mut other) = (home.server(), home.server());
    let thread = one.used_thread("hello");
    other.request("thread/resume", &json!({"threadId": thread}));
    home.model.script([Reply::default().gate("go").say("Done")]);
    let turn = one.start_turn(&thread, "runs here");
    home.model.wait_for_requests(2);

    let input = json!([{"type": "text", "text": "and there"}]);
    let error = other.error("turn/start", &json!({"threadId": thread, "input": input}));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("pid {}", one.pid())), "{message}");
    home.model.release("go");
    assert_eq!(one.completed(&turn)["status"], "completed");
    assert_eq!(home.model.requests().len(), 2, "the refused turn asked nothing");

    assert_eq!(other.run_turn(&thread, "now it is free")["status"], "completed");
    let expected = said(&[
        ("user", "hello"),
        ("assistant", "Done"),
        ("user", "runs here"),
        ("assistant", "Done"),
        ("user", "now it is free"),
    ]);
    assert_eq!(talk(&home.model.last()), expected);
}

#[test]
fn a_turn_that_runs_elsewhere_is_not_taken_for_cut() {
    let home = Home::new();
    let mut one = home.server();
    home.model.script([Reply::default().gate("go").say("Done")]);
    let thread = id(&one.start_thread());
    let turn = one.start_turn(&thread, "hello");
    home.model.wait_for_requests(1);
    let mut other = home.server();
    assert_eq!(other.read(&thread)["turns"][0]["status"], "inProgress");
    home.model.release("go");
    assert_eq!(one.completed(&turn)["status"], "completed");
    assert_eq!(other.read(&thread)["turns"][0]["status"], "completed");
}

#[test]
fn an_idle_thread_goes_on_in_another_process_and_back() {
    let home = Home::new();
    let (mut one, mut other) = (home.server(), home.server());
    let thread = one.used_thread("in the first");
    other.request("thread/resume", &json!({"threadId": thread}));
    other.run_turn(&thread, "in the second");
    one.run_turn(&thread, "in the first again");
    let talk = talk(&home.model.last());
    let asked: Vec<&str> =
        talk.iter().filter(|(role, _)| role == "user").map(|(_, text)| text.as_str()).collect();
    assert_eq!(asked, ["in the first", "in the second", "in the first again"]);
    for server in [&mut one, &mut other] {
        assert_eq!(server.read(&thread)["turns"].as_array().unwrap().len(), 3);
    }
    drop((one, other));
    let file = std::fs::read(&home.rollouts()[0]).unwrap();
    assert!(file == home.journal(&thread), "the rollout file is not the journal");
}

#[test]
fn a_turn_of_a_killed_process_gives_its_thread_free() {
    let home = Home::new();
    let (mut one, mut other) = (home.server(), home.server());
    let thread = one.used_thread("hello");
    other.request("thread/resume", &json!({"threadId": thread}));
    home.model.script([Reply::default().gate("never").say("too late")]);
    let turn = one.start_turn(&thread, "cut");
    home.model.wait_for_requests(2);
    one.kill();
    assert_eq!(other.run_turn(&thread, "go on")["status"], "completed");
    let turns = other.read(&thread)["turns"].clone();
    assert_eq!((&turns[1]["id"], &turns[1]["status"]), (&json!(turn), &json!("interrupted")));
    let talk = talk(&home.model.last());
    assert_eq!(talk[2].1, "cut");
    assert_eq!(talk.last().unwrap().1, "go on");
}
