//! `kill -9` at many moments of running turns: what was announced is there, what was cut is `interrupted`, the database
//! is sound, and the model is shown the whole history.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::model::{Reply, talk};
use crate::support::{id, text};

/// How many times the process is killed.
const KILLS: usize = 100;

/// More messages than a turn of this test has, so that some turns end before the kill.
const MOMENTS: usize = 23;

/// What clients have been told, which must be there afterwards.
#[derive(Default)]
struct Announced {
    /// Ids of turns in order, with the text that each began with.
    turns: Vec<(String, String)>,
    /// Status of turns that were told to be over.
    ended: HashMap<String, String>,
    /// Items that were told to be complete, by turn.
    items: HashMap<String, Vec<Value>>,
}

impl Announced {
    /// Take over what a server told of a turn before it was killed.
    fn take(&mut self, server: &Server, thread: &str, turn: &str, said: &str) {
        self.turns.push((turn.to_owned(), said.to_owned()));
        for event in server.events(thread, &["item/completed", "turn/completed"]) {
            let params = &event["params"];
            if event["method"] == "turn/completed" {
                self.ended.insert(id(&params["turn"]), params["turn"]["status"].as_str().unwrap().to_owned());
            } else {
                let items = self.items.entry(params["turnId"].as_str().unwrap().to_owned()).or_default();
                items.push(params["item"].clone());
            }
        }
    }

    /// Hold it against the thread as it is read.
    fn check(&self, thread: &Value, kill: usize) {
        let turns = thread["turns"].as_array().unwrap();
        let ids: Vec<String> = turns.iter().map(id).collect();
        let expected: Vec<String> = self.turns.iter().map(|(turn, _)| turn.clone()).collect();
        assert_eq!(ids, expected, "turns after kill {kill}");
        for turn in turns {
            let status = turn["status"].as_str().unwrap();
            match self.ended.get(&id(turn)) {
                Some(told) => assert_eq!(status, told, "a turn that was over, after kill {kill}"),
                // The end may have been stored just before the kill, and not told.
                None => assert!(matches!(status, "interrupted" | "completed"), "{status} after kill {kill}"),
            }
            for item in self.items.get(&id(turn)).into_iter().flatten() {
                assert!(turn["items"].as_array().unwrap().contains(item), "{item} is gone after kill {kill}");
            }
        }
    }
}

/// Kill the process when it has sent so many more messages, or when the turn is over before that.
fn kill_after(mut server: Server, messages: usize, announced: &mut Announced, thread: &str, said: &str) {
    let turn = server.start_turn(thread, said);
    let seen = Cell::new(0);
    server.wait_for("the moment to kill", |message| {
        seen.set(seen.get() + 1);
        seen.get() > messages || message["method"] == "turn/completed"
    });
    announced.take(&server, thread, &turn, said);
    server.kill();
}

fn assert_sound(home: &Home, kill: usize) {
    let database = home.path().join(threadkeep::store::FILE_NAME);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = threadkeep::clock::Clock::system();
        let store = threadkeep::store::Store::open(&database, clock).await.unwrap();
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new(), "after kill {kill}");
        store.close().await;
    });
}

#[test]
fn nothing_announced_is_lost_by_a_hundred_kills() {
    let home = Home::new();
    home.model
        .repeat(Reply::default().say("first part").pieces(&["some ", "more ", "words"]).usage(5, 0, 2, 0, 7));
    let mut announced = Announced::default();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    for kill in 0..KILLS {
        // Moments are spread over the turn in an order that has nothing to do with time.
        kill_after(server, kill * 7 % MOMENTS, &mut announced, &thread, &format!("ask {kill}"));
        assert_sound(&home, kill);
        server = home.server();
        let resumed = server.request("thread/resume", &json!({"threadId": thread}))["thread"].clone();
        announced.check(&resumed, kill);
    }
    let last = server.request("turn/start", &json!({"threadId": thread, "input": text("the last")}));
    server.completed(&id(&last["turn"]));
    let asked: Vec<String> = talk(&home.model.last())
        .into_iter()
        .filter(|(role, text)| role == "user" && !text.starts_with('<'))
        .map(|(_, text)| text)
        .collect();
    let mut expected: Vec<String> = announced.turns.iter().map(|(_, said)| said.clone()).collect();
    expected.push("the last".to_owned());
    assert_eq!(asked, expected, "what the model was shown of the user's messages");
    assert_eq!(std::fs::read(&home.rollouts()[0]).unwrap(), {
        server.close();
        home.journal(&thread)
    });
}
