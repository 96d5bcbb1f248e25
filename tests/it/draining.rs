//! Signals to a server with connections: running turns go on, new work is refused, then the process ends.

use serde_json::{Value, json};

use crate::support::client::{Client, Listener};
use crate::support::home::Home;
use crate::support::model::Reply;
use crate::support::{id, text};

/// A server in mid-turn at the gate `go`: the thread and the turn.
fn in_mid_turn(home: &Home) -> (Listener, Client, String, String) {
    home.model.script([Reply::default().gate("go").say("Done")]);
    let listener = home.listen(&[]);
    let mut client = listener.client();
    let thread = id(&client.start_thread());
    let turn = client.start_turn(&thread, "hello");
    home.model.wait_for_requests(1);
    (listener, client, thread, turn)
}

/// Wait until the signal has arrived: new threads are refused.
fn until_draining(client: &mut Client) -> Value {
    loop {
        let id = client.post("thread/start", &json!({"ephemeral": true}));
        let reply = client.reply(&json!(id));
        if reply.get("error").is_some() {
            return reply["error"].clone();
        }
    }
}

#[test]
fn a_signal_lets_the_running_turn_end_and_refuses_new_work() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let home = Home::new();
        let (mut listener, mut client, thread, turn) = in_mid_turn(&home);
        listener.signal(signal);
        let refusal = until_draining(&mut client);
        assert_eq!(
            (&refusal["code"], &refusal["data"]),
            (&json!(-32600), &json!({"reason": "serverShuttingDown"}))
        );
        for (method, params) in [
            ("turn/start", json!({"threadId": thread, "input": text("more")})),
            ("turn/steer", json!({"threadId": thread, "expectedTurnId": turn, "input": text("more")})),
            ("thread/fork", json!({"threadId": thread})),
            ("thread/resume", json!({"threadId": thread})),
            ("thread/delete", json!({"threadId": thread})),
        ] {
            assert_eq!(client.error(method, &params), refusal, "{method}");
        }
        assert_eq!(client.read(&thread)["turns"][0]["status"], "inProgress");
        assert!(!listener.has_ended());
        home.model.release("go");
        assert_eq!(client.completed(&turn)["status"], "completed");
        assert_eq!(listener.wait().code(), Some(0));
        client.until_hung_up();
        assert_eq!(home.server().read(&thread)["turns"][0]["status"], "completed");
    }
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let home = Home::new();
        let (listener, mut client, thread, _) = in_mid_turn(&home);
        listener.signal(signal);
        until_draining(&mut client);
        listener.signal(signal);
        assert_eq!(listener.wait().code(), Some(0));
        client.until_hung_up();
        assert_eq!(home.server().read(&thread)["turns"][0]["status"], "interrupted");
    }
}

#[test]
fn a_running_turn_can_be_interrupted_while_the_server_drains() {
    let home = Home::new();
    let (listener, mut client, thread, turn) = in_mid_turn(&home);
    listener.signal(libc::SIGTERM);
    until_draining(&mut client);
    client.request("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    assert_eq!(listener.wait().code(), Some(0));
    assert_eq!(home.server().read(&thread)["turns"][0]["status"], "interrupted");
}

#[test]
fn a_server_without_turns_ends_at_the_first_signal() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let mut client = listener.client();
    client.used_thread("hello");
    listener.signal(libc::SIGTERM);
    assert_eq!(listener.wait().code(), Some(0));
    client.until_hung_up();
}
