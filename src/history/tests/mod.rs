//! The recorded files of `fixtures/rollouts`, each with what must come out.

mod odd;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::facts::{Facts, source_to_wire};
use super::{Change, Projector, TurnState};
use crate::rollout::line::{Parsed, Tokens, parse};
use crate::rollout::write::{Form, LineWriter};
use crate::rollout::{name, read};

/// What the changes of some lines come to, as a store keeps it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stored {
    pub(super) turns: Vec<(TurnState, Vec<Value>)>,
    pub(super) usage: BTreeMap<String, Tokens>,
    pub(super) facts: Facts,
    pub(super) bad_lines: Vec<usize>,
    pub(super) has_meta: bool,
}

impl Stored {
    pub(super) fn of(bytes: &[u8]) -> Stored {
        let mut projector = Projector::new();
        let mut stored = Stored::default();
        for (number, line) in read::lines(bytes).enumerate() {
            let mut changes = Vec::new();
            match parse(read::content(line)) {
                Parsed::Line(mut line) => projector.feed(&mut line, number as i64, &mut changes),
                Parsed::Bad(_) => stored.bad_lines.push(number + 1),
                Parsed::Blank => {}
            }
            changes.into_iter().for_each(|change| stored.apply(change));
        }
        let mut changes = Vec::new();
        projector.finish(&mut changes);
        changes.into_iter().for_each(|change| stored.apply(change));
        stored.facts = projector.facts().clone();
        stored.has_meta = projector.has_meta();
        stored
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Turn(turn) => {
                match self.turns.iter_mut().find(|(known, _)| known.turn_id == turn.turn_id) {
                    Some((known, _)) => *known = turn,
                    None => self.turns.push((turn, Vec::new())),
                }
            }
            Change::Item { turn_id, item } => {
                let turn = self.turns.iter_mut().find(|(turn, _)| turn.turn_id == turn_id);
                let (_, items) = turn.unwrap_or_else(|| panic!("no turn {turn_id} for {item}"));
                match items.iter_mut().find(|known| known["id"] == item["id"]) {
                    Some(known) => *known = item,
                    None => items.push(item),
                }
            }
            Change::DropTurns(ids) => self.turns.retain(|(turn, _)| !ids.contains(&turn.turn_id)),
            Change::Usage(usage) => {
                self.usage.entry(usage.response_id).or_insert(usage.tokens);
            }
            Change::ContextRestart(_) => {}
        }
    }

    fn own_turns(&self) -> impl Iterator<Item = &(TurnState, Vec<Value>)> {
        self.turns.iter().filter(|(turn, _)| !turn.inherited)
    }

    fn own_messages(&self) -> usize {
        let items = self.own_turns().flat_map(|(_, items)| items);
        items.filter(|item| item["type"] == "userMessage").count()
    }

    fn accumulated(&self) -> Value {
        let mut sum = [0; 5];
        for tokens in self.usage.values() {
            let parts = numbers(tokens);
            sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        tokens_json(sum)
    }
}

fn numbers(tokens: &Tokens) -> [i64; 5] {
    [
        tokens.input_tokens,
        tokens.cached_input_tokens,
        tokens.output_tokens,
        tokens.reasoning_output_tokens,
        tokens.total_tokens,
    ]
}

fn tokens_json([input, cached, output, reasoning, total]: [i64; 5]) -> Value {
    json!({"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output,
        "reasoning_output_tokens": reasoning, "total_tokens": total})
}

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rollouts")
}

fn expected(folder: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(folder).join("expected.json")).unwrap()).unwrap()
}

/// Compare, and gather what differs.
fn differs(told: &mut Vec<String>, file: &str, what: &str, got: impl Into<Value>, wanted: &Value) {
    let got = got.into();
    if got != *wanted {
        told.push(format!("{file}: {what}: got {got}, wanted {wanted}"));
    }
}

#[test]
fn every_file_of_a_home_gives_what_it_holds() {
    let expected = expected("homes");
    let mut told = Vec::new();
    for (path, wanted) in expected["files"].as_object().unwrap() {
        let is_rollout = path.rsplit('/').next().is_some_and(|file| name::parse(file).is_some());
        if !is_rollout {
            continue;
        }
        let bytes = fs::read(fixtures().join("homes").join(path)).unwrap();
        let stored = Stored::of(&if path.ends_with(".json") { read::joined(&bytes).unwrap() } else { bytes });
        let importable = wanted["importable"] == true;
        differs(&mut told, path, "importable", stored.has_meta, &json!(importable));
        let bad: Vec<Value> =
            wanted["parse_errors"].as_array().unwrap().iter().map(|error| error["line"].clone()).collect();
        if !importable {
            continue;
        }
        differs(&mut told, path, "bad lines", json!(stored.bad_lines), &json!(bad));
        let facts = &stored.facts;
        let base_id = facts.history_base.as_ref().map(|base| base.0.clone());
        for (what, got) in [
            ("thread_id", json!(facts.thread_id)),
            ("created_at", json!(facts.created_at)),
            ("updated_at", json!(facts.updated_at)),
            ("cwd", json!(facts.cwd)),
            ("cli_version", json!(facts.cli_version)),
            ("originator", json!(facts.originator)),
            ("thread_source", json!(facts.thread_source)),
            ("model_provider", json!(facts.model_provider)),
            ("forked_from_id", json!(facts.forked_from_id)),
            ("parent_thread_id", json!(facts.parent_thread_id)),
            ("agent_nickname", json!(facts.agent_nickname)),
            ("agent_role", json!(facts.agent_role)),
            ("memory_mode", json!(facts.memory_mode)),
            ("git_branch", json!(facts.git_branch)),
            ("git_commit", json!(facts.git_sha)),
            ("model", json!(facts.model)),
            ("history_mode", json!(facts.history_mode.as_deref().unwrap_or("legacy"))),
            (
                "preview",
                json!(
                    Some(facts.preview.chars().take(80).collect::<String>()).filter(|text| !text.is_empty())
                ),
            ),
        ] {
            differs(&mut told, path, what, got, &wanted[what]);
        }
        differs(&mut told, path, "base", json!(base_id), &wanted["history_base"]["thread_id"]);
        differs(&mut told, path, "messages", stored.own_messages(), &wanted["user_messages"]["visible"]);
        let turns = stored.own_turns().filter(|(_, items)| {
            // Files without turn events have a turn for each message of a user.
            wanted["turns"]["rule"] == "started" || items.iter().any(|item| item["type"] == "userMessage")
        });
        differs(&mut told, path, "turns", turns.count(), &wanted["turns"]["visible"]);
        let last = facts.final_tokens.map(|tokens| tokens_json(numbers(&tokens)));
        differs(&mut told, path, "final tokens", json!(last), &wanted["tokens"]["final"]);
        let sum = Some(stored.accumulated()).filter(|_| last.is_some());
        differs(&mut told, path, "accumulated tokens", json!(sum), &wanted["tokens"]["accumulated"]);
    }
    assert!(told.is_empty(), "\n{}", told.join("\n"));
}

/// Items with the members that the record of the peer's answers has.
fn known_of(items: &[Value], wanted: &Value) -> Value {
    items
        .iter()
        .enumerate()
        .map(|(at, item)| {
            let members = wanted[at].as_object().into_iter().flatten();
            members
                .map(|(key, wanted)| {
                    let parts = item[key].as_array().filter(|_| key == "content" && !wanted[0].is_null());
                    let value = match parts {
                        Some(parts) => parts
                            .iter()
                            .map(|part| part.get("text").or(part.get("type")).unwrap_or(part).clone())
                            .collect(),
                        None => item[key].clone(),
                    };
                    (key.clone(), value)
                })
                .collect::<Value>()
        })
        .collect()
}

#[test]
fn every_single_file_gives_the_turns_that_clients_know() {
    let expected = expected("files");
    let mut told = Vec::new();
    for (case, wanted) in expected.as_object().unwrap().iter().filter(|(case, _)| *case != "_about") {
        let path = fixtures().join("files").join(format!("{case}.jsonl"));
        let stored = Stored::of(&fs::read(path).unwrap());
        if let Some(thread) = wanted.get("list") {
            differs(
                &mut told,
                case,
                "source",
                source_to_wire(stored.facts.source.as_ref()).0,
                &thread["source"],
            );
            // The list shows the thread; its first message stands in the later file.
            if case != "g4-revert-1-original" {
                differs(&mut told, case, "preview", stored.facts.preview.as_str(), &thread["preview"]);
            }
        }
        let after_resume = wanted["afterResume"]["turns"].as_array().filter(|turns| !turns.is_empty());
        let Some(turns) = after_resume.or(wanted["read"]["turns"].as_array()) else { continue };
        // What a fork shows of its source stands in the source's file.
        let own = turns.len().min(stored.turns.len());
        for ((turn, items), wanted) in stored.turns.iter().zip(&turns[turns.len() - own..]) {
            let place = format!("{case} {}", turn.turn_id);
            differs(&mut told, &place, "id", turn.turn_id.as_str(), &wanted["id"]);
            differs(&mut told, &place, "status", turn.status.as_str(), &wanted["status"]);
            let seconds = |ms: Option<i64>| json!(ms.map(|ms| ms / 1000));
            differs(&mut told, &place, "start", seconds(turn.started_at_ms), &wanted["startedAt"]);
            differs(&mut told, &place, "end", seconds(turn.completed_at_ms), &wanted["completedAt"]);
            differs(&mut told, &place, "duration", json!(turn.duration_ms), &wanted["durationMs"]);
            let error = turn.error.as_ref().map_or(Value::Null, |error| error["message"].clone());
            differs(&mut told, &place, "error", error, &wanted["error"]);
            differs(&mut told, &place, "items", known_of(items, &wanted["items"]), &wanted["items"]);
        }
        let known =
            wanted.get("list").is_some() && !case.starts_with("pv-item") && case != "g4-revert-1-original";
        if known {
            let enough = own == stored.turns.len();
            differs(&mut told, case, "no more turns than the peer", enough, &json!(true));
        }
    }
    assert!(told.is_empty(), "\n{}", told.join("\n"));
}

/// Every whole line of the fixtures.
fn all_lines() -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for entry in ignore::Walk::new(fixtures()) {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|extension| extension == "jsonl") {
            let bytes = fs::read(entry.path()).unwrap();
            lines.extend(read::lines(&bytes).map(|line| [read::content(line), b"\n"].concat()));
        }
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lines_in_any_order_are_taken(picked in vec(any::<prop::sample::Index>(), 0..60)) {
        let lines = all_lines();
        let bytes: Vec<u8> = picked.iter().flat_map(|index| index.get(&lines).clone()).collect();
        let stored = Stored::of(&bytes);
        // Item ids are unique within a turn, and turn ids within a thread.
        let ids: HashSet<&str> = stored.turns.iter().map(|(turn, _)| turn.turn_id.as_str()).collect();
        prop_assert_eq!(ids.len(), stored.turns.len());
    }

    #[test]
    fn damage_loses_no_line_that_it_does_not_touch(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), name in prop::sample::select(vec![
            "g3-turn-events-2026-03", "g4-paginated", "g2-wrapped-2025-10"]),
    ) {
        let bytes = fs::read(fixtures().join(format!("files/{name}.jsonl"))).unwrap();
        let mut damaged = bytes.clone();
        let at = at.index(bytes.len());
        damaged[at] = byte;
        Stored::of(&damaged);
        let whole: Vec<&[u8]> = read::lines(&bytes).collect();
        let kept = read::lines(&damaged).filter(|line| whole.contains(line)).count();
        prop_assert!(kept + 2 >= whole.len());
    }

    #[test]
    fn going_on_from_the_stored_state_is_as_one_go(cut in any::<prop::sample::Index>(), name in prop::sample::select(vec![
        "g1-bare-2025-05", "g3-turn-events-2026-03", "g4-paginated", "g2b-compact-rollback-2025-12", "meta-forked-legacy"])) {
        let bytes = fs::read(fixtures().join(format!("files/{name}.jsonl"))).unwrap();
        let lines: Vec<&[u8]> = read::lines(&bytes).collect();
        let cut = cut.index(lines.len());
        let mut projector = Projector::new();
        let mut stored = Stored::default();
        for (number, line) in lines.iter().enumerate() {
            if number == cut {
                // An import ended here.
                let mut changes = Vec::new();
                projector.finish(&mut changes);
                changes.into_iter().for_each(|change| stored.apply(change));
                projector = serde_json::from_str(&serde_json::to_string(&projector).unwrap()).unwrap();
            }
            let mut changes = Vec::new();
            if let Parsed::Line(mut line) = parse(read::content(line)) {
                projector.feed(&mut line, number as i64, &mut changes);
            }
            changes.into_iter().for_each(|change| stored.apply(change));
        }
        let mut changes = Vec::new();
        projector.finish(&mut changes);
        changes.into_iter().for_each(|change| stored.apply(change));
        let whole = Stored::of(&bytes);
        let told = |stored: &Stored| -> Vec<(String, String, Vec<Value>)> {
            let turns = stored.turns.iter();
            turns.map(|(turn, items)| (turn.turn_id.clone(), turn.status.clone(), items.clone())).collect()
        };
        prop_assert_eq!(told(&stored), told(&whole));
        prop_assert_eq!(stored.usage, whole.usage);
        prop_assert_eq!(projector.facts(), &whole.facts);
    }
}

#[test]
fn what_is_written_comes_back_as_the_same_items() {
    let wanted = [
        json!({"type": "userMessage", "id": "u", "clientId": "c", "content": [{"type": "text", "text": "go", "text_elements": []}],
            "startedAtMs": 1, "completedAtMs": 1}),
        json!({"type": "reasoning", "id": "r", "summary": ["s"], "content": [], "startedAtMs": 1, "completedAtMs": 2}),
        json!({"type": "agentMessage", "id": "a", "text": "done", "phase": null, "moderation": null, "memoryCitation": null,
            "delivery": null, "questions": null, "startedAtMs": 2, "completedAtMs": 3}),
    ];
    for form in [Form::Paginated, Form::Legacy] {
        let mut lines = LineWriter::new(form, 0, 1_796_099_923_530);
        lines.record(
            "session_meta",
            &json!({"id": "t", "timestamp": "2026-12-01T04:38:43.530Z", "history_mode": form.word()}),
        );
        lines.event(&json!({"type": "task_started", "turn_id": "n", "started_at": 5}));
        wanted.iter().for_each(|item| lines.item("t", "n", item));
        lines
            .event(&json!({"type": "task_complete", "turn_id": "n", "completed_at": 6, "duration_ms": 1000}));
        let stored = Stored::of(&lines.finish().0);
        let (turn, items) = &stored.turns[0];
        assert_eq!(
            (stored.turns.len(), turn.status.as_str(), turn.duration_ms),
            (1, "completed", Some(1000))
        );
        assert_eq!(stored.facts.preview, "go");
        match form {
            Form::Paginated => assert_eq!(items, &wanted),
            // This form numbers items and has no times of theirs.
            Form::Legacy => assert_eq!(
                items.iter().map(|item| &item["type"]).collect::<Vec<_>>(),
                wanted.iter().map(|item| &item["type"]).collect::<Vec<_>>()
            ),
        }
    }
}
