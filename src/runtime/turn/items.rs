//! The items of a running turn: recorded first, then told (`protocol/turns.md`, section 5).

use serde_json::{Value, json};

use super::{TurnContext, internal};
use crate::protocol::error::TurnError;
use crate::runtime::recorder::{WholeItem, whole_item};
use crate::runtime::thread::TurnReport;
use crate::runtime::view;

impl TurnContext {
    /// Record model items of this turn, and the item that they make.
    pub(in crate::runtime) async fn record_items(
        &self,
        model_items: &[Value],
        wire: Option<&Value>,
    ) -> Result<(), TurnError> {
        let model_items = self.of_thread(model_items).await;
        if model_items.is_empty() && wire.is_none() {
            return Ok(());
        }
        let mut recorder = self.recorder.lock().await;
        recorder.items(&self.turn.id, model_items, wire).await.map_err(internal)
    }

    /// Those of the model items that are part of the thread's conversation; a review's go to its own.
    pub(super) async fn of_thread<'a>(&self, items: &'a [Value]) -> &'a [Value] {
        match &self.side {
            None => items,
            Some(side) => {
                side.push(items).await;
                &[]
            }
        }
    }

    /// An item starts: it is told, and reads show it until it is done.
    pub(in crate::runtime) fn item_started(&self, wire: &Value) {
        let shown = view::raw(wire);
        let event = self.notify.item_started(&self.turn.id, shown.clone(), at(wire, "startedAtMs"));
        self.report(TurnReport::ItemStarted(id(wire), shown, Some(event)));
    }

    /// An item that was announced already starts for real: reads show it from now on.
    pub(in crate::runtime) fn item_goes_on(&self, wire: &Value) {
        self.report(TurnReport::ItemStarted(id(wire), view::raw(wire), None));
    }

    /// An item is announced that may come to nothing; reads do not show it.
    pub(in crate::runtime) fn announce(&self, wire: &Value) {
        self.tell(self.notify.item_started(&self.turn.id, view::raw(wire), at(wire, "startedAtMs")));
    }

    /// An item is complete now: record it, then tell.
    pub(in crate::runtime) async fn item_done(&self, mut wire: Value) -> Result<(), TurnError> {
        wire["completedAtMs"] = json!(self.runtime.clock.now_ms());
        self.record_items(&[], Some(&wire)).await?;
        self.tell_done(&wire);
        Ok(())
    }

    /// Tell of an item that is complete, and recorded if it is kept.
    pub(in crate::runtime) fn tell_done(&self, wire: &Value) {
        let event = self.notify.item_completed(&self.turn.id, view::raw(wire), at(wire, "completedAtMs"));
        self.report(TurnReport::ItemCompleted(id(wire), event));
    }

    /// Record an item that is whole at once, with model items of the thread, and tell both its moments.
    pub(super) async fn whole_item(&self, model_items: &[Value], wire: &Value) -> Result<(), TurnError> {
        self.recorder.lock().await.items(&self.turn.id, model_items, Some(wire)).await.map_err(internal)?;
        self.tell_whole(whole_item(wire, at(wire, "completedAtMs")));
        Ok(())
    }

    /// Tell both moments of an item that was whole at once.
    pub(super) fn tell_whole(&self, item: WholeItem) {
        for event in self.notify.whole_item(&self.turn.id, item) {
            self.tell(event);
        }
    }
}

fn id(wire: &Value) -> String {
    wire["id"].as_str().unwrap_or_default().to_owned()
}

fn at(wire: &Value, moment: &str) -> i64 {
    wire[moment].as_i64().unwrap_or_default()
}
