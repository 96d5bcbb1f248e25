//! Several processes on one home.

use std::thread;

use serde_json::json;
use sqlx::{Connection, SqliteConnection};

use crate::support::home::Home;
use crate::support::model::{Reply, said, talk};
use crate::support::{id, ids, text};

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

/// Make a home's leases look as if their holders had not been heard of for long.
fn forget_heartbeats(home: &Home) {
    let file = home.path().join(threadkeep::store::FILE_NAME);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
        let mut db = SqliteConnection::connect_with(&options).await.unwrap();
        let done = sqlx::query("update leases set heartbeat_at_ms = 0 where owner is not null");
        assert_eq!(done.execute(&mut db).await.unwrap().rows_affected(), 1);
    });
}

#[test]
fn a_process_that_comes_back_after_its_thread_was_taken_over_writes_nothing_more() {
    let home = Home::new();
    let (mut one, mut other) = (home.server(), home.server());
    let thread = one.used_thread("hello");
    other.request("thread/resume", &json!({"threadId": thread}));
    home.model.script([Reply::default().gate("late").say("too late")]);
    let lost = one.start_turn(&thread, "to be taken over");
    home.model.wait_for_requests(2);
    one.signal(libc::SIGSTOP);
    forget_heartbeats(&home);
    let turn = other.run_turn(&thread, "go on");
    assert_eq!(turn["status"], "completed");

    // Now both are awake, and the first one gets its reply while the other one runs a turn.
    home.model.script([Reply::default().gate("go").say("Done")]);
    let running = other.start_turn(&thread, "and on");
    home.model.wait_for_requests(4);
    one.signal(libc::SIGCONT);
    home.model.release("late");
    let ended = one.completed(&lost);
    assert_eq!(ended["status"], "failed");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("taken over by another process (pid {}", other.pid())), "{message}");
    one.refused("turn/start", &json!({"threadId": thread, "input": text("x")}), "is running turn");
    home.model.release("go");
    assert_eq!(other.completed(&running)["status"], "completed");

    for server in [&mut one, &mut other] {
        let turns = server.read(&thread)["turns"].clone();
        let statuses: Vec<&str> =
            turns.as_array().unwrap().iter().map(|turn| turn["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["completed", "interrupted", "completed", "completed"]);
        assert_eq!(turns[1]["items"].as_array().unwrap().len(), 1, "the user's message alone: {turns}");
    }
    assert_eq!(one.run_turn(&thread, "free again")["status"], "completed");
    let told = talk(&home.model.last());
    assert!(!told.iter().any(|(_, text)| text.contains("too late")), "{told:?}");
    let journal = String::from_utf8(home.journal(&thread)).unwrap();
    assert!(!journal.contains("too late"));
}

#[test]
fn of_processes_that_start_a_turn_at_once_one_wins_and_the_others_are_told_who() {
    let home = Home::new();
    let mut servers: Vec<_> = (0..3).map(|_| home.server()).collect();
    let thread = servers[0].used_thread("hello");
    for server in &mut servers[1..] {
        server.request("thread/resume", &json!({"threadId": thread}));
    }
    for round in 0..5 {
        let gate = format!("go {round}");
        home.model.script([Reply::default().gate(&gate).say("Done")]);
        let params = json!({"threadId": thread, "input": text(&format!("round {round}"))});
        let posted: Vec<i64> = servers.iter_mut().map(|server| server.post("turn/start", &params)).collect();
        let replies: Vec<_> =
            servers.iter_mut().zip(posted).map(|(server, id)| server.reply(&json!(id))).collect();
        let winners: Vec<usize> = (0..3).filter(|at| replies[*at].get("result").is_some()).collect();
        assert_eq!(winners.len(), 1, "{replies:?}");
        let winner = winners[0];
        let pid = format!("pid {}", servers[winner].pid());
        for reply in replies.iter().filter(|reply| reply.get("error").is_some()) {
            assert!(reply["error"]["message"].as_str().unwrap().contains(&pid), "{reply}");
        }
        let turn = id(&replies[winner]["result"]["turn"]);
        home.model.release(&gate);
        assert_eq!(servers[winner].completed(&turn)["status"], "completed");
    }
    let turns = servers[0].read(&thread)["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 6);
}

#[test]
fn processes_that_kill_each_other_leave_one_whole_thread() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("hello");
    for round in 0..6 {
        home.model.script([Reply::default().pieces(&["half "]).gate_before(1, "never").say("too late")]);
        server.start_turn(&thread, &format!("cut {round}"));
        home.model.wait_for_requests(2 * round + 2);
        let mut next = home.server();
        let held = next.request("thread/resume", &json!({"threadId": thread}));
        assert_eq!(held["thread"]["turns"][2 * round + 1]["status"], "inProgress");
        server.kill();
        assert_eq!(next.run_turn(&thread, &format!("whole {round}"))["status"], "completed");
        server = next;
    }
    let turns = server.read(&thread)["turns"].clone();
    let statuses: Vec<&str> =
        turns.as_array().unwrap().iter().map(|turn| turn["status"].as_str().unwrap()).collect();
    assert_eq!(statuses[1..], ["interrupted", "completed"].repeat(6));
    drop(server);
    let file = std::fs::read(&home.rollouts()[0]).unwrap();
    assert!(file == home.journal(&thread), "the rollout file is not the journal");
}
