//! Lines in an order, or of a kind, that no recorded file has.

use serde_json::{Value, json};

use super::Stored;

const ID: &str = "019c0001-0000-7000-8000-000000000001";

/// The lines of a file, a second and a half after each other.
fn file(lines: &[(&str, Value)]) -> Vec<u8> {
    let line = |(at, (kind, payload)): (usize, &(&str, Value))| {
        let (minute, second) = (at * 3 / 2 / 60, at * 3 / 2 % 60);
        let time =
            format!("2026-03-01T10:{minute:02}:{second:02}.{}Z", if at % 2 == 0 { "000" } else { "500" });
        format!("{}\n", json!({"timestamp": time, "type": kind, "payload": payload}))
    };
    lines.iter().enumerate().map(line).collect::<String>().into_bytes()
}

fn meta(more: Value) -> (&'static str, Value) {
    let mut meta = json!({"id": ID, "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/work"});
    meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ("session_meta", meta)
}

fn event(event: Value) -> (&'static str, Value) {
    ("event_msg", event)
}

fn started(turn_id: &str) -> (&'static str, Value) {
    event(json!({"type": "task_started", "turn_id": turn_id}))
}

fn ended(turn_id: &str) -> (&'static str, Value) {
    event(json!({"type": "task_complete", "turn_id": turn_id}))
}

fn user(message: &str) -> (&'static str, Value) {
    event(json!({"type": "user_message", "message": message}))
}

fn agent(message: &str) -> (&'static str, Value) {
    event(json!({"type": "agent_message", "message": message}))
}

fn item(turn_id: &str, item: Value) -> (&'static str, Value) {
    event(json!({"type": "item_completed", "thread_id": ID, "turn_id": turn_id, "item": item}))
}

fn said(id: &str) -> Value {
    json!({"type": "UserMessage", "id": id, "content": [{"type": "text", "text": id}]})
}

fn tokens(total: i64, last: i64) -> (&'static str, Value) {
    let count = |tokens: i64| json!({"input_tokens": tokens, "total_tokens": tokens});
    event(json!({"type": "token_count",
        "info": {"total_token_usage": count(total), "last_token_usage": count(last)}}))
}

/// Each turn's id and status, and the texts, or else the ids, of its items.
fn told(lines: &[(&str, Value)]) -> Vec<String> {
    shown(&Stored::of(&file(lines)))
}

fn shown(stored: &Stored) -> Vec<String> {
    let text = |item: &Value| {
        let text = item["text"].as_str().or(item["content"][0]["text"].as_str()).or(item["review"].as_str());
        text.or(item["id"].as_str()).unwrap_or_default().to_owned()
    };
    let turns = stored.turns.iter();
    turns
        .map(|(turn, items)| {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("{} {}: {}", turn.turn_id, turn.status, items.join(", "))
        })
        .collect()
}

#[test]
fn what_follows_an_interruption_is_another_turn() {
    let aborted = event(json!({"type": "turn_aborted", "turn_id": "a", "reason": "interrupted"}));
    let lines = [meta(json!({})), started("a"), user("u"), aborted, agent("late"), user("next"), agent("x")];
    assert_eq!(
        told(&lines),
        ["a interrupted: u", "rollout-4 completed: late", "rollout-5 completed: next, x"]
    );
}

#[test]
fn events_that_nobody_writes_any_more_do_not_count() {
    let begun = event(json!({"type": "exec_command_begin", "call_id": "c"}));
    assert_eq!(told(&[meta(json!({})), begun, user("u")]), ["rollout-1 completed: u"]);
}

#[test]
fn an_item_without_wrapper_among_others_tells_nothing() {
    let mut bytes = file(&[meta(json!({}))]);
    bytes.extend(br#"{"type":"message","role":"user","content":[{"type":"input_text","text":"bare"}]}"#);
    bytes.push(b'\n');
    let silent = Stored::of(&bytes);
    assert_eq!(shown(&silent), ["rollout-1 completed: bare"]);
    bytes.extend(file(&[user("u")]));
    let stored = Stored::of(&bytes);
    assert_eq!(
        (shown(&stored), stored.facts.preview.as_str()),
        (vec!["rollout-1 completed: u".to_owned()], "u")
    );
}

#[test]
fn turns_without_a_message_are_rolled_back_too() {
    let back = |count: i64| event(json!({"type": "thread_rolled_back", "num_turns": count}));
    let first = [meta(json!({})), started("a"), agent("alone"), ended("a"), back(1)];
    assert_eq!(told(&first), [""; 0]);
    let lines = [
        meta(json!({})),
        started("a"),
        item("a", said("kept")),
        ended("a"),
        back(1),
        started("b"),
        user("u"),
        ended("b"),
    ];
    assert_eq!(told(&lines), ["b completed: u"]);
}

#[test]
fn a_turn_that_begins_twice_is_one() {
    let lines = [meta(json!({})), started("a"), user("u"), ended("a"), started("a"), user("v"), ended("a")];
    assert_eq!(told(&lines), ["a completed: u, v"]);
}

#[test]
fn a_turn_whose_beginning_is_damaged_has_its_items() {
    let paginated = json!({"history_mode": "paginated"});
    let lines = [
        meta(paginated.clone()),
        started("a"),
        item("a", said("u")),
        ended("a"),
        item("b", said("v")),
        ended("b"),
        started("c"),
        item("c", said("w")),
        item("d", said("x")),
    ];
    assert_eq!(told(&lines), ["a completed: u", "b completed: v", "c interrupted: w", "d interrupted: x"]);
    // The preview may stand in an event of the other form.
    let stored = Stored::of(&file(&[meta(paginated), started("a"), user("only here"), ended("a")]));
    assert_eq!(stored.facts.preview, "only here");
}

#[test]
fn a_second_end_without_time_keeps_that_of_the_first() {
    let end = event(json!({"type": "task_complete", "turn_id": "a", "completed_at": 7, "duration_ms": 5}));
    let aborted = event(json!({"type": "turn_aborted", "turn_id": "a", "reason": "interrupted"}));
    let stored = Stored::of(&file(&[meta(json!({"history_mode": "paginated"})), started("a"), end, aborted]));
    let (turn, _) = &stored.turns[0];
    assert_eq!((turn.completed_at_ms, turn.duration_ms), (Some(7000), Some(5)));
}

#[test]
fn a_review_is_told_with_what_it_found() {
    let finding = |title: &str| {
        json!({"title": title, "body": "B\nb", "code_location": {"absolute_file_path": "/a",
            "line_range": {"start": 1, "end": 2}}})
    };
    let exited = |output: Value| event(json!({"type": "exited_review_mode", "review_output": output}));
    let stored = Stored::of(&file(&[
        meta(json!({})),
        event(json!({"type": "entered_review_mode", "target": {"type": "uncommittedChanges"}})),
        exited(json!({"overall_explanation": " all in all ", "findings": [finding("T")]})),
        exited(json!({"overall_explanation": "", "findings": [finding("T"), finding("U")]})),
        exited(json!({"overall_explanation": "", "findings": []})),
    ]));
    let texts: Vec<&str> = stored.turns[0].1.iter().map(|item| item["review"].as_str().unwrap()).collect();
    assert_eq!(
        texts,
        [
            "Review requested.",
            "all in all\n\nReview comment:\n\n- T — /a:1-2\n  B\n  b",
            "Full review comments:\n\n- T — /a:1-2\n  B\n  b\n\n- U — /a:1-2\n  B\n  b",
            "Reviewer failed to output a response.",
        ]
    );
}

#[test]
fn ids_in_capitals_are_the_same_ids() {
    let stored = Stored::of(&file(&[
        meta(json!({"id": ID.to_uppercase(), "history_mode": "paginated"})),
        started("a"),
        item("a", said("u")),
        ended("a"),
    ]));
    assert_eq!(stored.facts.thread_id.as_deref(), Some(ID));
    assert_eq!(shown(&stored), ["a completed: u"]);
}

#[test]
fn numbers_out_of_range_are_no_numbers() {
    let mut bytes =
        file(&[meta(json!({})), user("u"), tokens(i64::MAX, i64::MAX), tokens(9, -4), tokens(12, 3)]);
    for (time, ordinal) in [
        ("zzz", "-1"),
        ("2026-03-01T12:00:00.000+02:00", "18446744073709551615"),
        ("2026-99-99T00:00:00Z", "1.5"),
    ] {
        let line = format!(
            r#"{{"timestamp":"{time}","ordinal":{ordinal},"type":"event_msg","payload":{{"type":"agent_message","message":"m"}}}}"#
        );
        bytes.extend(format!("{line}\n").bytes());
    }
    let stored = Stored::of(&bytes);
    assert_eq!(stored.usage.values().map(|tokens| tokens.total_tokens).collect::<Vec<_>>(), [0, 3, 0]);
    assert_eq!(stored.facts.updated_at.as_deref(), Some("2026-03-01T10:00:06.000Z"));
    assert_eq!(shown(&stored), ["rollout-1 completed: u, m, m, m"]);
}

#[test]
fn a_record_repeats_only_the_count_after_it() {
    let usage = |tokens: i64| json!({"input_tokens": tokens, "total_tokens": tokens});
    let record = (
        "token_usage_record",
        json!({"thread_id": ID, "turn_id": "a", "response_id": "r",
        "usage": usage(5), "thread_token_usage": usage(5)}),
    );
    let stored =
        Stored::of(&file(&[meta(json!({})), started("a"), record, tokens(5, 5), tokens(10, 5), ended("a")]));
    assert_eq!(stored.accumulated()["total_tokens"], 10);
}

/// Lines with ordinals.
fn numbered(lines: &[(&str, Value)], from: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (ordinal, line) in (from..).zip(super::read::lines(&file(lines))) {
        let mut line: Value = serde_json::from_slice(line).unwrap();
        line["ordinal"] = json!(ordinal);
        bytes.extend(format!("{line}\n").bytes());
    }
    bytes
}

#[test]
fn a_helper_does_not_count_what_its_parent_did() {
    let lines = [
        meta(json!({"history_mode": "paginated", "subagent_history_start_ordinal": 5})),
        started("a"),
        item("a", said("parent's")),
        tokens(500, 500),
        ended("a"),
        started("b"),
        item("b", said("own")),
        tokens(500, 500),
        tokens(600, 100),
        ended("b"),
    ];
    let stored = Stored::of(&numbered(&lines, 0));
    assert_eq!(shown(&stored), ["b completed: own"]);
    assert_eq!(stored.accumulated()["total_tokens"], 100);
    assert_eq!(stored.facts.preview, "parent's");
}

#[test]
fn without_metadata_ordinals_tell_the_form() {
    let command = json!({"type": "CommandExecution", "id": "c", "command": ["ls"], "cwd": "file:///a%20b%zz",
        "aggregated_output": ""});
    let lines = [started("a"), item("a", said("u")), item("a", command), ended("a")];
    let stored = Stored::of(&numbered(&lines, 1));
    assert_eq!(shown(&stored), ["a completed: u, c"]);
    let item = &stored.turns[0].1[1];
    assert_eq!((&item["cwd"], &item["aggregatedOutput"]), (&json!("/a b%zz"), &Value::Null));
}
