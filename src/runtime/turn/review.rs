//! `review/start`: the model looks at changes in a conversation of its own (`protocol/turns.md`, section 11).
//!
//! The review is a turn of the thread, but what it says to the model is not part of the thread's context: that would be
//! full of diffs afterwards. Its commands are items as ever; its result becomes an item and a message of the thread, so
//! that the user can go on from it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::RunningTurn;
use super::charge::{Recorded, Rest};
use crate::history::context::to_input;
use crate::protocol::error::TurnError;
use crate::protocol::review::ReviewTarget;
use crate::protocol::turn::TurnStatus;
use crate::runtime::error::{Result, RuntimeError};
use crate::runtime::prompt;
use crate::runtime::recorder::ResponseUsage;
use crate::runtime::settings::Settings;

/// What is reviewed.
#[derive(Clone, Debug)]
pub struct Review {
    /// The task, as the model gets it.
    pub task: String,
    /// The target in a few words.
    pub hint: String,
    /// Id of the turn that the reply told of, the root of the one that runs.
    pub announced: String,
}

impl Review {
    /// A review of this target.
    ///
    /// # Errors
    /// A part of the target is empty.
    pub fn new(target: &ReviewTarget, announced: String) -> Result<Review> {
        let must = |text: &str, what: &str| {
            if text.trim().is_empty() {
                return Err(RuntimeError::invalid(format!("{what} must not be empty")));
            }
            Ok(text.trim().to_owned())
        };
        let (task, hint) = match target {
            ReviewTarget::UncommittedChanges => {
                let task = "Review the changes that are not committed yet: staged, unstaged, and files that are not \
                            tracked.";
                (task.to_owned(), "current changes".to_owned())
            }
            ReviewTarget::BaseBranch { branch } => {
                let branch = must(branch, "branch")?;
                let task = format!(
                    "Review what the current branch changes against `{branch}`: find their merge base with `git \
                     merge-base`, and look at the diff from there."
                );
                (task, format!("changes against '{branch}'"))
            }
            ReviewTarget::Commit { sha, title } => {
                let sha = must(sha, "sha")?;
                let short: String = sha.chars().take(7).collect();
                let title = title.as_deref().map(str::trim).filter(|title| !title.is_empty());
                let named = title.map(|title| format!(" (\"{title}\")")).unwrap_or_default();
                let hint = title
                    .map_or_else(|| format!("commit {short}"), |title| format!("commit {short}: {title}"));
                (format!("Review the changes of commit {sha}{named}."), hint)
            }
            ReviewTarget::Custom { instructions } => {
                let text = must(instructions, "instructions")?;
                (text.clone(), text)
            }
        };
        Ok(Review { task, hint, announced })
    }
}

/// A conversation with the model beside the thread's.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Side(Mutex<Vec<Arc<RawValue>>>);

impl Side {
    /// The conversation of a review so far: the environment and the task.
    pub(in crate::runtime) fn of_review(settings: &Settings, today: &str, task: &str) -> Side {
        let fresh = Settings { told: Vec::new(), ..settings.clone() };
        let (mut items, _) = prompt::context_messages(&fresh, None, today);
        items.push(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": task}]}),
        );
        Side(Mutex::new(items.iter().filter_map(to_model).collect()))
    }

    /// Add model items.
    pub(in crate::runtime) async fn push(&self, items: &[Value]) {
        self.0.lock().await.extend(items.iter().filter_map(to_model));
    }

    /// All model items.
    pub(in crate::runtime) async fn input(&self) -> Vec<Arc<RawValue>> {
        self.0.lock().await.clone()
    }
}

fn to_model(item: &Value) -> Option<Arc<RawValue>> {
    to_input(&serde_json::value::to_raw_value(item).ok()?).map(Arc::from)
}

/// What a reviewer answers, in our own form or in ones that models know.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Findings {
    findings: Vec<Finding>,
    #[serde(alias = "overall_explanation")]
    summary: String,
    #[serde(alias = "overall_correctness")]
    verdict: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Finding {
    title: String,
    body: String,
    priority: Option<i64>,
    file: Option<String>,
    line_start: Option<i64>,
    line_end: Option<i64>,
    code_location: Option<Location>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Location {
    absolute_file_path: String,
    line_range: Range,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Range {
    start: i64,
    end: i64,
}

impl Finding {
    fn place(&self) -> Option<String> {
        let lines = |start: i64, end: i64| {
            if end > start { format!("{start}-{end}") } else { start.to_string() }
        };
        match (&self.code_location, &self.file) {
            (Some(Location { absolute_file_path, line_range }), _) => {
                Some(format!("{absolute_file_path}:{}", lines(line_range.start, line_range.end)))
            }
            (None, Some(file)) => Some(match self.line_start {
                Some(start) => format!("{file}:{}", lines(start, self.line_end.unwrap_or(start))),
                None => file.clone(),
            }),
            (None, None) => None,
        }
    }
}

/// The answer of a reviewer for people; one that is no JSON is shown as it is.
fn rendered(answer: &str) -> String {
    let json = answer.find('{').zip(answer.rfind('}')).and_then(|(start, end)| answer.get(start..=end));
    let Some(found) = json.and_then(|json| serde_json::from_str::<Findings>(json).ok()) else {
        return answer.trim().to_owned();
    };
    let mut text = found.summary.trim().to_owned();
    if !found.verdict.is_empty() {
        text = format!("{text}\n\nVerdict: {}", found.verdict.trim()).trim().to_owned();
    }
    if found.findings.is_empty() {
        return if text.is_empty() { "The review found nothing to change.".to_owned() } else { text };
    }
    text += "\n\nFindings:\n";
    for finding in &found.findings {
        let priority = finding.priority.map(|priority| format!("[P{priority}] ")).unwrap_or_default();
        let place = finding.place().map(|place| format!(" — {place}")).unwrap_or_default();
        text += &format!("\n- {priority}{}{place}\n", finding.title.trim());
        for line in finding.body.trim().lines() {
            text += &format!("  {line}\n");
        }
    }
    text.trim().to_owned()
}

impl RunningTurn {
    /// The reviewer has answered: its result becomes part of the thread, and the turn ends.
    pub(in crate::runtime) async fn finish_review(
        &mut self,
        usage: Option<&ResponseUsage>,
    ) -> std::result::Result<Recorded, TurnError> {
        let context = self.context.clone();
        let answer = self.last_message.take();
        let text = rendered(answer.as_ref().and_then(|item| item["text"].as_str()).unwrap_or_default());
        let now_ms = context.runtime.clock.now_ms();
        let id = || context.runtime.clock.new_id().to_string();
        let exited = json!({"type": "exitedReviewMode", "id": id(), "review": text,
            "startedAtMs": now_ms, "completedAtMs": now_ms});
        context.whole_item(&[], &exited).await?;
        let message = json!({"type": "agentMessage", "id": format!("msg_{}", id()), "text": text, "phase": null,
            "moderation": null, "memoryCitation": null, "delivery": null, "questions": null,
            "startedAtMs": now_ms, "completedAtMs": now_ms});
        let told =
            format!("<user_action>\nThe user had a review made. Its result:\n\n{text}\n</user_action>");
        let items = [
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": told}]}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
        ];
        context.whole_item(&items, &message).await?;
        self.last_message = Some(message);
        let end = self.turn_end(TurnStatus::Completed, None);
        self.record_response(Rest { usage, end: Some(&end), ..Rest::default() }, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_shown_for_people() {
        let answer = json!({"summary": "Mostly fine.", "verdict": "needs work", "findings": [
            {"title": "Off by one", "body": "The last row is lost.\nUse <=.", "priority": 1, "file": "a.rs",
             "line_start": 3, "line_end": 5},
            {"title": "Typo", "code_location": {"absolute_file_path": "/b.rs", "line_range": {"start": 7, "end": 7}}},
        ]});
        let expected = "Mostly fine.\n\nVerdict: needs work\n\nFindings:\n\n- [P1] Off by one — a.rs:3-5\n  The last \
                        row is lost.\n  Use <=.\n\n- Typo — /b.rs:7";
        assert_eq!(rendered(&answer.to_string()), expected);
        assert_eq!(rendered(&format!("```json\n{answer}\n```")), expected);
    }

    #[test]
    fn other_answers_are_shown_as_they_are() {
        assert_eq!(rendered(" looks {good} \n"), "looks {good}");
        assert_eq!(rendered(r#"{"findings": []}"#), "The review found nothing to change.");
    }

    #[test]
    fn an_empty_part_of_a_target_is_refused() {
        let refused = |target| Review::new(&target, String::new()).unwrap_err().to_string();
        assert_eq!(refused(ReviewTarget::BaseBranch { branch: " ".into() }), "branch must not be empty");
        assert_eq!(
            refused(ReviewTarget::Commit { sha: String::new(), title: None }),
            "sha must not be empty"
        );
        let custom = ReviewTarget::Custom { instructions: "\n".into() };
        assert_eq!(refused(custom), "instructions must not be empty");
    }
}
