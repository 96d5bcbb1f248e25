//! What breaks around the server: a clear error to the one who asked, everybody else goes on, and nothing that was
//! acknowledged is lost.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};

use crate::support::home::Home;
use crate::support::model::{Reply, say};
use crate::support::{id, text};

/// Text that no compression makes small.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + (state % 75) as u8)
    };
    (0..length).map(|_| next()).collect()
}

/// A connection that holds the write lock of a home's database until it is dropped.
struct Lock(Option<(tokio::runtime::Runtime, SqliteConnection)>);

impl Lock {
    fn of(home: &Home) -> Lock {
        let file = home.path().join(threadkeep::store::FILE_NAME);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connection = runtime.block_on(async {
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            sqlx::query("begin immediate").execute(&mut connection).await.unwrap();
            connection
        });
        Lock(Some((runtime, connection)))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some((runtime, connection)) = self.0.take() {
            // Closing it rolls back.
            runtime.block_on(connection.close()).unwrap();
        }
    }
}

#[test]
fn a_full_database_fails_the_turn_that_fills_it_and_keeps_the_rest() {
    let home = Home::new();
    home.set("database_max_bytes = 1000000");
    let mut server = home.server();
    let thread = server.used_thread("before");
    home.model.script([say(&noise(3_000_000))]);
    let turn = server.run_turn(&thread, "fill it");
    assert_eq!(turn["status"], "failed");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("full") && message.contains("nothing of this change was stored"), "{message}");

    let other = server.used_thread("another thread goes on");
    assert_eq!(server.run_turn(&thread, "and so does this one")["status"], "completed");
    server.close();
    let mut server = home.server();
    let turns = server.read(&thread)["turns"].clone();
    let statuses: Vec<&Value> = turns.as_array().unwrap().iter().map(|turn| &turn["status"]).collect();
    assert_eq!(statuses, ["completed", "failed", "completed"]);
    assert_eq!(server.read(&other)["turns"][0]["status"], "completed");
}

#[test]
fn a_change_for_which_there_is_no_room_is_refused_to_the_one_who_asked() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("before");
    server.close();
    let size = std::fs::metadata(home.path().join(threadkeep::store::FILE_NAME)).unwrap().len();
    home.set(&format!("database_max_bytes = {size}"));
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    let params = json!({"threadId": thread, "input": text(&noise(500_000))});
    let error = server.error("turn/start", &params);
    assert_eq!(error["code"], -32603);
    assert!(
        error["message"].as_str().unwrap().contains("the disk or the database's size limit is full"),
        "{error}"
    );
    assert_eq!(server.read(&thread)["turns"].as_array().unwrap().len(), 1);
    server.close();
    home.configure("");
    let mut server = home.server();
    server.request("thread/resume", &json!({"threadId": thread}));
    assert_eq!(server.run_turn(&thread, "there is room again")["status"], "completed");
}

#[test]
fn a_database_that_another_program_locks_for_ten_seconds_is_waited_for() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("before");
    let lock = Lock::of(&home);
    let waiting = server.post("turn/start", &json!({"threadId": thread, "input": text("wait")}));
    let began = Instant::now();
    let mut reads = 0;
    // Longer than SQLite's own patience with a lock.
    while began.elapsed() < Duration::from_secs(10) {
        assert_eq!(server.request("thread/list", &json!({}))["data"].as_array().unwrap().len(), 1);
        reads += 1;
    }
    assert!(reads > 100, "reading waits for nobody: {reads}");
    assert_eq!(home.model.requests().len(), 1, "nothing is done before its start is stored");
    drop(lock);
    let turn = id(&server.reply(&json!(waiting))["result"]["turn"]);
    assert_eq!(server.completed(&turn)["status"], "completed");
}

#[test]
fn more_requests_than_may_wait_are_refused_and_those_that_wait_are_answered() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("before");
    let lock = Lock::of(&home);
    let name = |number: usize| json!({"threadId": thread, "name": format!("name {number}")});
    let posted: Vec<i64> = (0..600).map(|number| server.post("thread/name/set", &name(number))).collect();
    let refused = server.reply(&json!(posted[599]));
    assert_eq!(refused["error"], json!({"code": -32001, "message": "Server overloaded; retry later."}));
    drop(lock);
    let replies: Vec<Value> = posted[..599].iter().map(|id| server.reply(&json!(id))).collect();
    let served = replies.iter().filter(|reply| reply.get("result").is_some()).count();
    assert_eq!(served, 512);
    assert_eq!(server.read(&thread)["name"], "name 511");
}

#[test]
fn a_home_that_cannot_be_written_keeps_the_server_from_starting_and_is_named() {
    let home = Home::new();
    // Also root cannot make files there.
    home.set("sqlite_home = \"/proc/threadkeep-test\"");
    let output = home.command(&["app-server"]).stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("/proc/threadkeep-test"), "{said}");
}

#[test]
fn a_provider_that_hangs_holds_up_its_own_turn_alone() {
    let home = Home::new();
    let mut server = home.server();
    let hanging = id(&server.start_thread());
    home.model.script([Reply::default().gate("never").say("too late")]);
    let turn = server.start_turn(&hanging, "hello");
    home.model.wait_for_requests(1);
    for number in 0..5 {
        server.used_thread(&format!("thread {number} goes on"));
    }
    assert_eq!(server.read(&hanging)["turns"][0]["status"], "inProgress");
    server.request("turn/interrupt", &json!({"threadId": hanging, "turnId": turn}));
    assert_eq!(server.completed(&turn)["status"], "interrupted");
}

#[test]
fn a_provider_that_is_silent_for_too_long_fails_the_turn() {
    let home = Home::new();
    home.configure("[model_providers.silent]\nname = \"Silent\"\nwire_api = \"responses\"");
    let config = home.path().join("config.toml");
    let written = std::fs::read_to_string(&config).unwrap();
    let more = format!(
        "base_url = \"{}/v1\"\nrequest_max_retries = 0\nstream_max_retries = 0\nstream_idle_timeout_ms = 300\n",
        home.model.base()
    );
    std::fs::write(&config, written + &more).unwrap();
    let mut server = home.server();
    let thread = id(&server.request("thread/start", &json!({"modelProvider": "silent"}))["thread"]);
    home.model.script([Reply::default().gate("never").say("too late")]);
    let turn = server.run_turn(&thread, "hello");
    assert_eq!(turn["status"], "failed");
    assert!(turn["error"]["message"].as_str().unwrap().contains("idle timeout"), "{turn}");
    assert_eq!(server.run_turn(&thread, "again")["status"], "completed");
}
