//! Threads: starting, reading, listing and paging, names and metadata, archiving, deleting, forking, unsubscribing.

use serde_json::{Value, json};

use crate::support::client::{Client, Server};
use crate::support::home::Home;
use crate::support::model::{said, say, talk};
use crate::support::{id, ids};

const NOBODY: &str = "0199a213-81a0-7800-8aa0-bbab2a035a53";

fn list(client: &mut Client, params: &Value) -> Value {
    client.request("thread/list", params)
}

fn loaded(client: &mut Client) -> Value {
    client.request("thread/loaded/list", &json!({}))["data"].clone()
}

/// All pages of a method, following the cursor to its end.
fn pages(client: &mut Client, method: &str, params: &Value) -> Vec<Vec<String>> {
    let (mut pages, mut params) = (Vec::new(), params.clone());
    loop {
        let page = client.request(method, &params);
        pages.push(ids(&page));
        if page["nextCursor"].is_null() {
            return pages;
        }
        assert!(pages.len() < 50, "the pages do not end");
        params["cursor"] = page["nextCursor"].clone();
    }
}

/// Put a rollout file into the home, as another program would have left it; the thread's id.
fn rollout(home: &Home, number: u32, day: u32) -> String {
    let thread = format!("0199a213-81a0-7800-8aa0-{number:012x}");
    let folder = home.path().join(format!("sessions/2025/01/{day:02}"));
    std::fs::create_dir_all(&folder).unwrap();
    let time = format!("2025-01-{day:02}T12:00:00.000Z");
    let line = |kind: &str, payload: Value| json!({"timestamp": time, "type": kind, "payload": payload});
    let message = format!("message {number}");
    let lines = [
        line(
            "session_meta",
            json!({"id": thread, "timestamp": time, "cwd": "/data", "originator": "it",
                "cli_version": "0.1.0", "source": "cli", "model_provider": "mock_provider"}),
        ),
        line(
            "response_item",
            json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": message}]}),
        ),
        line("event_msg", json!({"type": "user_message", "message": message, "images": []})),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join(format!("rollout-2025-01-{day:02}T12-00-00-{thread}.jsonl")), text).unwrap();
    thread
}

#[test]
fn a_started_thread_is_idle_empty_and_announced_to_every_connection() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let thread = one.request("thread/start", &json!({"cwd": home.path()}))["thread"].clone();
    assert_eq!(thread["status"], json!({"type": "idle"}));
    assert_eq!(
        (&thread["preview"], &thread["turns"], &thread["ephemeral"]),
        (&json!(""), &json!([]), &json!(false))
    );
    assert_eq!((&thread["modelProvider"], &thread["sessionId"]), (&json!("mock_provider"), &thread["id"]));
    for client in [&mut one, &mut other] {
        assert_eq!(client.notification("thread/started")["thread"]["id"], thread["id"]);
    }
    assert_eq!(loaded(&mut other), json!([thread["id"]]));
}

#[test]
fn a_thread_is_listed_from_its_first_message_which_is_its_preview() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    assert_eq!(list(&mut server, &json!({}))["data"], json!([]));
    server.run_turn(&thread, "first message\nof two lines");
    server.run_turn(&thread, "second message");
    let page = list(&mut server, &json!({}));
    assert_eq!(ids(&page), [thread.as_str()]);
    let listed = &page["data"][0];
    assert_eq!(listed["preview"], "first message\nof two lines");
    assert_eq!((&listed["status"], &listed["turns"]), (&json!({"type": "idle"}), &json!([])));
}

#[test]
fn reading_after_a_restart_shows_the_same_turns_and_does_not_load() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("one");
    server.run_turn(&thread, "two");
    let before = server.read(&thread);
    server.close();
    let mut server = home.server();
    let after = server.read(&thread);
    assert_eq!(after["status"], json!({"type": "notLoaded"}));
    assert_eq!(after["turns"], before["turns"]);
    assert_eq!(loaded(&mut server), json!([]));
    let short = server.request("thread/read", &json!({"threadId": thread}));
    assert_eq!(short["thread"]["turns"], json!([]));
}

#[test]
fn ids_that_are_malformed_or_unknown_are_refused_by_name() {
    let home = Home::new();
    let mut server = home.server();
    let no_rollout = format!("no rollout found for thread id {NOBODY}");
    let turn = json!([{"type": "text", "text": "x"}]);
    for (method, mut params, thread, part) in [
        ("thread/read", json!({}), "nope", "invalid thread id"),
        ("thread/read", json!({}), NOBODY, &*format!("thread not loaded: {NOBODY}")),
        ("thread/resume", json!({}), "nope", "invalid session id"),
        ("thread/resume", json!({}), NOBODY, &no_rollout),
        ("thread/fork", json!({}), "nope", "invalid session id"),
        ("thread/fork", json!({}), NOBODY, &no_rollout),
        ("thread/archive", json!({}), NOBODY, &no_rollout),
        ("thread/unarchive", json!({}), NOBODY, &format!("no archived rollout found for thread id {NOBODY}")),
        ("thread/delete", json!({}), NOBODY, &no_rollout),
        ("thread/name/set", json!({"name": "x"}), NOBODY, &no_rollout),
        ("thread/turns/list", json!({}), NOBODY, &format!("thread not loaded: {NOBODY}")),
        ("turn/start", json!({"input": turn}), "nope", "invalid thread id"),
        ("turn/start", json!({"input": turn}), NOBODY, &format!("thread not found: {NOBODY}")),
    ] {
        params["threadId"] = json!(thread);
        server.refused(method, &params, part);
    }
}

#[test]
fn an_ephemeral_thread_leaves_no_trace() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.request("thread/start", &json!({"ephemeral": true}))["thread"].clone();
    assert_eq!((&thread["ephemeral"], &thread["path"]), (&json!(true), &Value::Null));
    let thread = id(&thread);
    assert_eq!(server.run_turn(&thread, "hello")["status"], "completed");
    assert_eq!(list(&mut server, &json!({}))["data"], json!([]));
    assert_eq!(loaded(&mut server), json!([thread]));
    let with_turns = json!({"threadId": thread, "includeTurns": true});
    server.refused("thread/read", &with_turns, "ephemeral threads");
    server.refused("thread/resume", &json!({"threadId": thread}), "no rollout found");
    server.close();
    assert_eq!(home.rollouts(), Vec::<std::path::PathBuf>::new());
    home.server().refused("thread/read", &json!({"threadId": thread}), "thread not loaded");
}

#[test]
fn the_default_order_is_newest_first() {
    let home = Home::new();
    let made: Vec<String> = [2, 3, 1].iter().map(|day| rollout(&home, *day, *day)).collect();
    let mut server = home.server();
    let newest_first = [made[1].clone(), made[0].clone(), made[2].clone()];
    assert_eq!(ids(&list(&mut server, &json!({}))), newest_first);
    let mut oldest_first = newest_first.clone();
    oldest_first.reverse();
    assert_eq!(ids(&list(&mut server, &json!({"sortDirection": "asc"}))), oldest_first);
    assert_eq!(ids(&list(&mut server, &json!({"sortKey": "updated_at"}))), newest_first);
}

#[test]
fn threads_of_equal_time_page_exactly_once_in_either_direction() {
    let home = Home::new();
    let mut made: Vec<String> = (1..=7).map(|number| rollout(&home, number, 5)).collect();
    let mut server = home.server();
    let down = pages(&mut server, "thread/list", &json!({"limit": 2, "sortDirection": "desc"}));
    let up = pages(&mut server, "thread/list", &json!({"limit": 3, "sortDirection": "asc"}));
    assert_eq!(down.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 1]);
    let (mut down, up) = (down.concat(), up.concat());
    down.reverse();
    assert_eq!(up, down);
    made.sort();
    down.sort();
    assert_eq!(down, made);
}

#[test]
fn a_backwards_cursor_turns_round_at_the_first_row() {
    let home = Home::new();
    let made: Vec<String> = (1..=5).map(|day| rollout(&home, day, day)).collect();
    let mut server = home.server();
    let first = list(&mut server, &json!({"limit": 2}));
    let second = list(&mut server, &json!({"limit": 2, "cursor": first["nextCursor"]}));
    assert_eq!(ids(&second), [made[2].clone(), made[1].clone()]);
    let back = json!({"limit": 2, "cursor": second["backwardsCursor"], "sortDirection": "asc"});
    assert_eq!(ids(&list(&mut server, &back)), [made[2].clone(), made[3].clone()]);
}

#[test]
fn pages_stay_right_while_threads_are_used_renamed_and_made() {
    let home = Home::new();
    let made: Vec<String> = (1..=6).map(|number| rollout(&home, number, 5)).collect();
    let mut server = home.server();
    let busy = server.used_thread("busy");
    let (mut seen, mut params) = (Vec::new(), json!({"limit": 2}));
    loop {
        let page = list(&mut server, &params);
        seen.extend(ids(&page));
        if page["nextCursor"].is_null() {
            break;
        }
        params["cursor"] = page["nextCursor"].clone();
        let name = json!({"threadId": made[5], "name": format!("renamed at {}", seen.len())});
        server.request("thread/name/set", &name);
        server.run_turn(&busy, "more");
        server.used_thread("a new thread");
    }
    let mut expected = made;
    expected.push(busy);
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
}

#[test]
fn a_cursor_that_the_server_did_not_make_is_refused() {
    let home = Home::new();
    rollout(&home, 1, 1);
    let mut server = home.server();
    for cursor in ["garbage", ""] {
        server.refused("thread/list", &json!({"cursor": cursor}), "invalid cursor");
    }
}

#[test]
fn a_search_keeps_the_threads_that_have_the_text_in_preview_or_name() {
    let home = Home::new();
    let mut server = home.server();
    let plants = server.used_thread("plant tomatoes");
    let water = server.used_thread("water the garden");
    let percent = server.used_thread("100% of_it");
    server.request("thread/name/set", &json!({"threadId": water, "name": "Kitchen renovation"}));
    for (term, expected) in [
        ("tomato", vec![&plants]),
        ("Kitchen", vec![&water]),
        ("%", vec![&percent]),
        ("_", vec![&percent]),
        ("", vec![&percent, &water, &plants]),
        ("nothing like it", vec![]),
    ] {
        let found = ids(&list(&mut server, &json!({"searchTerm": term})));
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{term}");
    }
}

#[test]
fn a_name_is_announced_to_all_and_survives_a_restart() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let thread = one.used_thread("hello");
    one.request("thread/name/set", &json!({"threadId": thread, "name": "  Fine name "}));
    for client in [&mut one, &mut other] {
        let expected = json!({"threadId": thread, "threadName": "Fine name"});
        assert_eq!(client.notification("thread/name/updated"), expected);
    }
    one.refused("thread/name/set", &json!({"threadId": thread, "name": "  "}), "must not be empty");
    drop((one, other, listener));
    let mut server = home.server();
    assert_eq!(list(&mut server, &json!({}))["data"][0]["name"], "Fine name");
    server.request("thread/name/set", &json!({"threadId": thread, "name": "Renamed while unloaded"}));
    assert_eq!(server.read(&thread)["name"], "Renamed while unloaded");
}

#[test]
fn metadata_keeps_what_is_missing_clears_null_and_sets_text() {
    let home = Home::new();
    let mut server = home.server();
    let thread = server.used_thread("hello");
    let url = "https://example.com/r.git";
    for (patch, expected) in [
        (
            json!({"branch": "main", "sha": "abc123", "originUrl": url}),
            json!({"branch": "main", "sha": "abc123", "originUrl": url}),
        ),
        (json!({"branch": "topic"}), json!({"branch": "topic", "sha": "abc123", "originUrl": url})),
        (json!({"sha": null}), json!({"branch": "topic", "sha": null, "originUrl": url})),
        (json!({"branch": null, "originUrl": null}), Value::Null),
    ] {
        let params = json!({"threadId": thread, "gitInfo": patch});
        let updated = server.request("thread/metadata/update", &params)["thread"]["gitInfo"].clone();
        assert_eq!(server.read(&thread)["gitInfo"], updated);
        for key in ["branch", "sha", "originUrl"] {
            assert_eq!(updated[key], expected[key], "{key} after {patch}");
        }
        assert_eq!(updated.is_null(), expected.is_null(), "{patch}");
    }
    server.refused(
        "thread/metadata/update",
        &json!({"threadId": thread, "gitInfo": {}}),
        "at least one field",
    );
}

#[test]
fn an_archived_thread_moves_to_the_other_list_and_comes_back() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let (goes, stays) = (one.used_thread("goes"), one.used_thread("stays"));
    let params = json!({"threadId": goes});
    assert_eq!(one.request("thread/archive", &params), json!({}));
    for client in [&mut one, &mut other] {
        assert_eq!(client.notification("thread/archived"), params);
    }
    assert_eq!(ids(&list(&mut other, &json!({}))), [stays.as_str()]);
    assert_eq!(ids(&list(&mut other, &json!({"archived": true}))), [goes.as_str()]);
    assert_eq!(loaded(&mut other), json!([stays]));
    assert_eq!(other.read(&goes)["turns"].as_array().unwrap().len(), 1);
    one.refused("turn/start", &json!({"threadId": goes, "input": []}), "thread not found");
    one.refused("thread/fork", &params, "archived");
    one.refused("thread/archive", &params, "no rollout found");

    let back = one.request("thread/unarchive", &params)["thread"].clone();
    assert_eq!((&back["status"], &back["preview"]), (&json!({"type": "notLoaded"}), &json!("goes")));
    for client in [&mut one, &mut other] {
        assert_eq!(client.notification("thread/unarchived"), params);
    }
    assert_eq!(list(&mut other, &json!({"archived": true}))["data"], json!([]));
    one.request("thread/resume", &params);
    assert_eq!(one.run_turn(&goes, "go on")["status"], "completed");
    let expected = said(&[("user", "goes"), ("assistant", "Done"), ("user", "go on")]);
    assert_eq!(talk(&home.model.last()), expected);
}

#[test]
fn a_deleted_thread_is_gone_with_its_file() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let (goes, stays, old) =
        (one.used_thread("goes"), one.used_thread("stays"), one.used_thread("archived first"));
    one.request("thread/archive", &json!({"threadId": old}));
    for thread in [&goes, &old] {
        let params = json!({"threadId": thread});
        one.request("thread/delete", &params);
        for client in [&mut one, &mut other] {
            assert_eq!(client.notification("thread/deleted"), params);
        }
        one.refused("thread/read", &params, "thread not loaded");
        one.refused("thread/delete", &params, "no rollout found");
    }
    assert_eq!(ids(&list(&mut other, &json!({}))), [stays.as_str()]);
    assert_eq!(list(&mut other, &json!({"archived": true}))["data"], json!([]));
    let files = home.rollouts();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].display().to_string().contains(&stays));
}

/// A thread with three turns; its id and theirs.
fn three_turns(home: &Home, server: &mut Server) -> (String, Vec<String>) {
    home.model.script([say("answer one"), say("answer two"), say("answer three")]);
    let thread = id(&server.start_thread());
    let turns = ["ask one", "ask two", "ask three"];
    let turns = turns.iter().map(|say| id(&server.run_turn(&thread, say))).collect();
    (thread, turns)
}

fn turn_ids(thread: &Value) -> Vec<String> {
    thread["turns"].as_array().unwrap().iter().map(id).collect()
}

#[test]
fn a_fork_has_the_whole_history_and_goes_on_apart() {
    let home = Home::new();
    let mut server = home.server();
    let (source, turns) = three_turns(&home, &mut server);
    let fork = server.request("thread/fork", &json!({"threadId": source}))["thread"].clone();
    assert_eq!((&fork["forkedFromId"], &fork["preview"]), (&json!(source), &json!("ask one")));
    assert_eq!(turn_ids(&fork), turns);
    let fork = id(&fork);
    server.run_turn(&fork, "only in the fork");
    let expected = said(&[
        ("user", "ask one"),
        ("assistant", "answer one"),
        ("user", "ask two"),
        ("assistant", "answer two"),
        ("user", "ask three"),
        ("assistant", "answer three"),
        ("user", "only in the fork"),
    ]);
    assert_eq!(talk(&home.model.last()), expected);
    assert_eq!(turn_ids(&server.read(&fork)).len(), 4);
    assert_eq!(turn_ids(&server.read(&source)), turns);
    server.close();
    let mut server = home.server();
    assert_eq!(turn_ids(&server.read(&fork))[..3], turns);
    assert_eq!(turn_ids(&server.read(&source)), turns);
}

#[test]
fn a_fork_ends_where_it_is_told_to() {
    let home = Home::new();
    let mut server = home.server();
    let (source, turns) = three_turns(&home, &mut server);
    let mut fork = |boundary: &str, turn: &str| {
        server.request("thread/fork", &json!({"threadId": source, boundary: turn}))["thread"].clone()
    };
    assert_eq!(turn_ids(&fork("lastTurnId", &turns[1])), turns[..2]);
    let empty = fork("beforeTurnId", &turns[0]);
    assert_eq!((turn_ids(&empty), &empty["preview"]), (Vec::new(), &json!("")));
    let short = fork("beforeTurnId", &turns[1]);
    assert_eq!(turn_ids(&short), turns[..1]);
    server.run_turn(&id(&short), "another way");
    let expected = said(&[("user", "ask one"), ("assistant", "answer one"), ("user", "another way")]);
    assert_eq!(talk(&home.model.last()), expected);
}

#[test]
fn a_fork_refuses_boundaries_that_cannot_be() {
    let home = Home::new();
    let mut server = home.server();
    let (source, turns) = three_turns(&home, &mut server);
    for (mut params, part) in [
        (json!({"lastTurnId": turns[0], "beforeTurnId": turns[1]}), "cannot be combined"),
        (json!({"lastTurnId": "nope"}), "not found"),
        (json!({"beforeTurnId": "nope"}), "not found"),
    ] {
        params["threadId"] = json!(source);
        server.refused("thread/fork", &params, part);
    }
}

#[test]
fn an_ephemeral_fork_knows_the_history_and_is_not_listed() {
    let home = Home::new();
    let mut server = home.server();
    let (source, _) = three_turns(&home, &mut server);
    let params = json!({"threadId": source, "ephemeral": true, "excludeTurns": true});
    let fork = server.request("thread/fork", &params)["thread"].clone();
    assert_eq!((&fork["path"], &fork["turns"]), (&Value::Null, &json!([])));
    server.run_turn(&id(&fork), "and now");
    let talk = talk(&home.model.last());
    assert_eq!((talk.len(), talk[0].1.as_str(), talk[6].1.as_str()), (7, "ask one", "and now"));
    assert_eq!(ids(&list(&mut server, &json!({}))), [source]);
}

#[test]
fn turns_page_in_either_direction() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let mut turns: Vec<String> =
        (0..5).map(|number| id(&server.run_turn(&thread, &format!("ask {number}")))).collect();
    for direction in ["asc", "desc"] {
        let params = json!({"threadId": thread, "limit": 2, "sortDirection": direction});
        let pages = pages(&mut server, "thread/turns/list", &params);
        assert_eq!(pages, [&turns[..2], &turns[2..4], &turns[4..]], "{direction}");
        turns.reverse();
    }
    server.refused("thread/turns/list", &json!({"threadId": thread, "cursor": "garbage"}), "invalid cursor");
}

#[test]
fn unsubscribing_stops_the_events_for_that_connection_alone() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let thread = one.used_thread("hello");
    other.request("thread/resume", &json!({"threadId": thread}));
    for (id, expected) in
        [(thread.as_str(), "unsubscribed"), (thread.as_str(), "notSubscribed"), (NOBODY, "notLoaded")]
    {
        let reply = one.request("thread/unsubscribe", &json!({"threadId": id}));
        assert_eq!(reply["status"], expected);
    }
    let before = one.came.len();
    other.run_turn(&thread, "on the other one");
    one.settle();
    let items = one.came[before..].iter().filter_map(|message| message["method"].as_str());
    let unwanted: Vec<&str> =
        items.filter(|method| method.starts_with("turn/") || method.starts_with("item/")).collect();
    assert_eq!(unwanted, Vec::<&str>::new());
}

#[test]
fn an_idle_thread_without_subscribers_is_closed() {
    let home = Home::new();
    let listener = home.listen(&["-c", "thread_unload_delay_secs=1"]);
    let (mut one, mut other) = (listener.client(), listener.client());
    let thread = one.used_thread("hello");
    one.request("thread/unsubscribe", &json!({"threadId": thread}));
    for client in [&mut one, &mut other] {
        assert_eq!(client.notification("thread/closed"), json!({"threadId": thread}));
    }
    assert_eq!(loaded(&mut one), json!([]));
    assert_eq!(one.read(&thread)["status"], json!({"type": "notLoaded"}));
}
