//! What the subjects share: a scratch home, a scripted model on loopback, and clients of the real binary.

pub mod client;
pub mod dump;
pub mod home;
pub mod model;
pub mod work;

use std::time::Duration;

/// How long a test waits for something that must come. Generous: a slow machine is no fault.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The id of a thread, turn or item.
pub fn id(object: &serde_json::Value) -> String {
    object["id"].as_str().unwrap_or_else(|| panic!("no id in {object}")).to_owned()
}

/// One text as the input of a turn.
pub fn text(text: &str) -> serde_json::Value {
    serde_json::json!([{"type": "text", "text": text}])
}

/// The ids of a page's rows.
pub fn ids(page: &serde_json::Value) -> Vec<String> {
    page["data"].as_array().expect("a page").iter().map(id).collect()
}
