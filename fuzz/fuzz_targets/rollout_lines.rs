//! The bytes of a rollout file, through the line reader, the line parser and the reducer.

#![no_main]
#![allow(dead_code, unfulfilled_lint_expectations)]

#[path = "../../src/history/mod.rs"]
mod history;
#[path = "../../src/rollout/mod.rs"]
mod rollout;

use std::collections::BTreeMap;

use history::context::Context;
use history::{Change, Projector};
use libfuzzer_sys::fuzz_target;
use rollout::line::{Parsed, parse};
use rollout::read;

/// What is left after all changes: the turns by their ids, each with the items in it.
#[derive(Default, PartialEq, Debug)]
struct Stored {
    turns: BTreeMap<String, (String, BTreeMap<String, serde_json::Value>)>,
    responses: BTreeMap<String, i64>,
}

impl Stored {
    fn take(&mut self, changes: &mut Vec<Change>) {
        for change in changes.drain(..) {
            match change {
                Change::Turn(turn) => self.turns.entry(turn.turn_id).or_default().0 = turn.status,
                Change::Item { turn_id, item } => {
                    let turn = self.turns.get_mut(&turn_id).expect("an item has a turn");
                    turn.1.insert(item["id"].as_str().expect("an item has an id").to_owned(), item);
                }
                Change::DropTurns(ids) => ids.iter().for_each(|id| drop(self.turns.remove(id))),
                Change::Usage(usage) => {
                    self.responses.entry(usage.response_id).or_insert(usage.tokens.total_tokens);
                }
                _ => {}
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let lines: Vec<&[u8]> = read::lines(bytes).collect();
    assert_eq!(lines.concat(), bytes);
    let mut reader = read::Reader::new(bytes);
    let mut again = Vec::new();
    while reader.next_line(&mut again).expect("memory can be read") != 0 {}
    assert_eq!(again, bytes);
    let _ = read::joined(bytes);

    let (mut one_go, mut in_pieces) = (Projector::new(), Projector::new());
    let (mut whole, mut pieces) = (Stored::default(), Stored::default());
    let mut context = Context::default();
    let mut changes = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if let Parsed::Line(mut line) = parse(read::content(line)) {
            context.feed(&line);
            one_go.feed(&mut line, number as i64, &mut changes);
            whole.take(&mut changes);
        }
        if let Parsed::Line(mut line) = parse(read::content(line)) {
            in_pieces.feed(&mut line, number as i64, &mut changes);
            pieces.take(&mut changes);
        }
        if number == lines.len() / 2 {
            in_pieces.finish(&mut changes);
            pieces.take(&mut changes);
            let state = serde_json::to_vec(&in_pieces).expect("a state can be stored");
            in_pieces = serde_json::from_slice(&state).expect("a stored state can be read");
        }
    }
    one_go.finish(&mut changes);
    whole.take(&mut changes);
    in_pieces.finish(&mut changes);
    pieces.take(&mut changes);
    assert_eq!(whole, pieces);
    let _ = context.finish();
});
