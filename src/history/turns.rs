//! The turns that the reducer has made so far, found by their ids in one step: a thread may have tens of thousands.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::projector::TurnState;

/// Turns in their order. They change in place; their ids and their order only by the methods here.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    list: Vec<TurnState>,
    /// Where the last turn of each id is.
    by_id: HashMap<String, usize>,
}

impl Deref for Turns {
    type Target = [TurnState];

    fn deref(&self) -> &[TurnState] {
        &self.list
    }
}

impl DerefMut for Turns {
    fn deref_mut(&mut self) -> &mut [TurnState] {
        &mut self.list
    }
}

impl Turns {
    /// The index of the last turn with this id.
    pub(super) fn position(&self, turn_id: &str) -> Option<usize> {
        self.by_id.get(turn_id).copied()
    }

    /// Add a turn at the end.
    pub(super) fn push(&mut self, turn: TurnState) {
        self.by_id.insert(turn.turn_id.clone(), self.list.len());
        self.list.push(turn);
    }

    /// Take off the turns from this index on.
    pub(super) fn split_off(&mut self, first: usize) -> Vec<TurnState> {
        let dropped = self.list.split_off(first);
        self.index();
        dropped
    }

    /// Take one turn out.
    pub(super) fn remove(&mut self, at: usize) {
        self.list.remove(at);
        self.index();
    }

    fn index(&mut self) {
        self.by_id = self.list.iter().enumerate().map(|(at, turn)| (turn.turn_id.clone(), at)).collect();
    }
}

impl Serialize for Turns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Turns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Turns, D::Error> {
        let mut turns = Turns { list: Vec::deserialize(deserializer)?, ..Turns::default() };
        turns.index();
        Ok(turns)
    }
}
