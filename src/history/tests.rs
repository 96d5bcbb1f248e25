//! The recorded files of `fixtures/rollouts`, each with what must come out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::facts::{Facts, source_to_wire};
use super::{Change, Projector, TurnState};
use crate::rollout::line::{Parsed, Tokens, parse};
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
                Parsed::Line(line) => projector.feed(&line, number as i64, &mut changes),
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
                let (_, items) = self.turns.iter_mut().find(|(turn, _)| turn.turn_id == turn_id).unwrap();
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
