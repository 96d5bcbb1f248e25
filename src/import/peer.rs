//! What only a home's other databases know: names, archiving, git, sections, goals and queued messages
//! (`protocol/config.md`, section 6; `protocol/goals.md`, section 8; `protocol/queue.md`, section 6).
//!
//! They are read and never written. What has changed here stays as it is here.

use std::path::Path;

use serde_json::{Value, json};

use crate::store::Store;
use crate::store::goals::GoalRow;
use crate::store::peer::{PeerData, PeerDatabase, PeerSubmission, PeerThread, TakenOver, number, text};

/// How much was taken over.
pub type Counts = TakenOver;

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.threads += other.threads;
        self.names += other.names;
        self.goals += other.goals;
        self.queued += other.queued;
        self.sections += other.sections;
    }
}

/// Take over what a home's other databases know of threads that are here.
///
/// # Errors
/// Our own database failed; what cannot be read of another one is only logged.
pub async fn take_over(store: &Store, home: &Path) -> anyhow::Result<Counts> {
    let data = read(home).await;
    if data == PeerData::default() {
        return Ok(Counts::default());
    }
    Ok(store.take_over(data).await?)
}

async fn read(home: &Path) -> PeerData {
    let mut data = PeerData::default();
    if let Some(mut state) = PeerDatabase::open(&home.join("state_5.sqlite")).await {
        read_threads(&mut state, &mut data).await;
        state.close().await;
    }
    if let Some(mut goals) = PeerDatabase::open(&home.join("goals_1.sqlite")).await {
        read_goals(&mut goals, &mut data).await;
        goals.close().await;
    }
    if let Some(mut queue) = PeerDatabase::open(&home.join("queue_1.sqlite")).await {
        read_queue(&mut queue, &mut data).await;
        queue.close().await;
    }
    data
}

async fn read_threads(state: &mut PeerDatabase, data: &mut PeerData) {
    let columns = ["id", "name", "appearance"];
    for row in state.rows("thread_sections", &columns, "id").await {
        if let (Some(id), Some(name)) = (text(&row, "id"), text(&row, "name")) {
            data.sections.push((id, name, text(&row, "appearance")));
        }
    }
    let columns = [
        "id",
        "name",
        "archived_at",
        "git_sha",
        "git_branch",
        "git_origin_url",
        "memory_mode",
        "recency_at_ms",
        "thread_section_id",
        "section_position",
        "section_entered_at_ms",
    ];
    for row in state.rows("threads", &columns, "id").await {
        let Some(thread_id) = text(&row, "id") else { continue };
        let known = |mode: &String| matches!(mode.as_str(), "enabled" | "disabled");
        data.threads.push(PeerThread {
            thread_id,
            name: text(&row, "name").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()),
            archived_at_ms: number(&row, "archived_at").map(|seconds| seconds.saturating_mul(1000)),
            git_sha: text(&row, "git_sha"),
            git_branch: text(&row, "git_branch"),
            git_origin_url: text(&row, "git_origin_url"),
            memory_mode: text(&row, "memory_mode").filter(known),
            recency_at_ms: number(&row, "recency_at_ms"),
            section_id: text(&row, "thread_section_id"),
            section_position: number(&row, "section_position"),
            section_entered_at_ms: number(&row, "section_entered_at_ms"),
        });
    }
}

async fn read_goals(goals: &mut PeerDatabase, data: &mut PeerData) {
    let deferred: Vec<String> = goals
        .rows("thread_goal_continuation_deferrals", &["thread_id"], "thread_id")
        .await
        .iter()
        .filter_map(|row| text(row, "thread_id"))
        .collect();
    let columns = [
        "thread_id",
        "goal_id",
        "objective",
        "status",
        "token_budget",
        "tokens_used",
        "time_used_seconds",
        "created_at_ms",
        "updated_at_ms",
    ];
    for row in goals.rows("thread_goals", &columns, "thread_id").await {
        let (Some(thread_id), Some(goal_id), Some(objective)) =
            (text(&row, "thread_id"), text(&row, "goal_id"), text(&row, "objective"))
        else {
            continue;
        };
        let Some(status) = text(&row, "status").as_deref().and_then(status) else { continue };
        let at_least_0 = |column| number(&row, column).unwrap_or(0).max(0);
        let goal = GoalRow {
            goal_id,
            objective,
            status: status.to_owned(),
            token_budget: number(&row, "token_budget").filter(|budget| *budget > 0),
            tokens_used: at_least_0("tokens_used"),
            time_used_ms: at_least_0("time_used_seconds").saturating_mul(1000),
            created_at_ms: at_least_0("created_at_ms"),
            updated_at_ms: at_least_0("updated_at_ms"),
            deferred: deferred.contains(&thread_id),
            ..GoalRow::default()
        };
        data.goals.push((thread_id, goal));
    }
}

/// The words there are in snake case, ours in that of the wire.
fn status(word: &str) -> Option<&'static str> {
    ["active", "paused", "blocked", "usageLimited", "budgetLimited", "complete"]
        .into_iter()
        .find(|known| *known == crate::rollout::item::camel(word))
}

async fn read_queue(queue: &mut PeerDatabase, data: &mut PeerData) {
    let columns = ["id", "thread_id", "payload_json", "queue_order", "created_at_ms"];
    for row in queue.rows("queued_items", &columns, "queue_order").await {
        let (Some(submission_id), Some(thread_id), Some(payload)) =
            (text(&row, "id"), text(&row, "thread_id"), text(&row, "payload_json"))
        else {
            continue;
        };
        let Some((input_json, client_id, metadata_json)) = submission(&payload) else {
            tracing::warn!(submission_id, "a queued message of another program cannot be read");
            continue;
        };
        data.queue.push(PeerSubmission {
            submission_id,
            thread_id,
            client_id,
            input_json,
            metadata_json,
            created_at_ms: number(&row, "created_at_ms").unwrap_or(0),
        });
    }
}

/// Input as wire JSON, the client's id, metadata.
fn submission(payload: &str) -> Option<(String, String, Option<String>)> {
    let payload: Value = serde_json::from_str(payload).ok()?;
    let user = payload.get("UserInput")?;
    let parts: Vec<Value> = user["content"].as_array()?.iter().map(part_to_wire).collect();
    let input: Vec<crate::protocol::input::UserInput> = serde_json::from_value(json!(parts)).ok()?;
    if input.is_empty() {
        return None;
    }
    let metadata = user.get("responsesapi_client_metadata").filter(|metadata| metadata.is_object());
    let client_id = user["client_id"].as_str().unwrap_or_default().to_owned();
    Some((serde_json::to_string(&input).ok()?, client_id, metadata.map(Value::to_string)))
}

/// A part in the other program's form → as on the wire.
fn part_to_wire(part: &Value) -> Value {
    let mut wire = part.clone();
    if let Some(kind) = part["type"].as_str() {
        wire["type"] = json!(crate::rollout::item::camel(kind));
    }
    if let Some(url) = part.get("image_url") {
        wire["url"] = url.clone();
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queued_message_is_read() {
        let payload = r#"{"UserInput":{"content":[{"type":"text","text":"A","text_elements":[]},
            {"type":"local_image","path":"/a.png"}],"client_id":"c","responsesapi_client_metadata":{"z":"1"}}}"#;
        let (input, client, metadata) = submission(payload).unwrap();
        assert!(input.contains(r#""type":"localImage""#), "{input}");
        assert_eq!((client.as_str(), metadata.as_deref()), ("c", Some(r#"{"z":"1"}"#)));
        assert!(submission("{}").is_none());
        assert!(submission(r#"{"UserInput":{"content":[]}}"#).is_none());
        assert_eq!((status("usage_limited"), status("odd")), (Some("usageLimited"), None));
    }
}
