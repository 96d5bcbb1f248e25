//! What the model is told of its goal. The words are our own; the tag around them and the escaping are what other
//! readers of rollouts look at (`protocol/goals.md`, section 6).

use serde_json::{Value, json};

use crate::store::goals::GoalRow;

/// The objective as the model finds it in its context, when it is new there.
pub fn objective_item(goal: &GoalRow) -> Value {
    json!({"type": "function_call_output", "name": "goal_objective", "namespace": "agent", "output": goal.objective})
}

/// Begins a turn that nobody asked for.
pub fn continuation(goal: &GoalRow) -> Value {
    message(&format!(
        "Go on with the current goal_objective.\n\n{}\n\n\
         - Keep the whole objective in view; do not shrink it to what is easy.\n\
         - Judge by the real state of files, tests and outputs, not by what you remember having planned.\n\
         - If the last turns brought nothing new, change your way, or say what is in it.\n\
         - Call update_goal with `complete` only after you have checked every part of the objective.\n\
         - Call it with `blocked` when the same obstacle has stopped three goal turns; with `paused` only if the user \
         asks for that.",
        budget_lines(goal, "unbounded")
    ))
}

/// The budget was crossed while a turn runs.
pub fn budget_crossed(goal: &GoalRow) -> Value {
    message(&format!(
        "The token budget of the goal is used up.\n\n<objective>\n{}\n</objective>\n\n- Seconds spent: {}\n- Tokens used: \
         {}\n- Token budget: {}\n\nBegin nothing new. Bring what you are doing into a state that can be left, and tell \
         the user what is done and what is still open.",
        escaped(&goal.objective),
        goal.time_used_ms / 1000,
        goal.tokens_used,
        goal.token_budget.map_or_else(|| "none".to_owned(), |budget| budget.to_string())
    ))
}

/// The user has changed the objective while a turn runs.
pub fn objective_changed(goal: &GoalRow) -> Value {
    message(&format!(
        "The user has changed the objective of the goal. From now on it is this; what was done for the old one counts \
         only as far as it serves the new one.\n\n<untrusted_objective>\n{}\n</untrusted_objective>\n\n{}",
        escaped(&goal.objective),
        budget_lines(goal, "unknown")
    ))
}

/// The hint that goes with the result of completing a goal that has something to report.
pub fn completion_report(goal: &GoalRow) -> Option<&'static str> {
    (goal.token_budget.is_some() || goal.time_used_ms >= 1000).then_some(
        "Tell the user what the goal took: tokens used, the budget if there was one, and the time, from the fields of \
         this result.",
    )
}

fn budget_lines(goal: &GoalRow, without: &str) -> String {
    let budget = goal.token_budget.map_or_else(|| "none".to_owned(), |budget| budget.to_string());
    let left = remaining(goal).map_or_else(|| without.to_owned(), |left| left.to_string());
    format!("- Tokens used: {}\n- Token budget: {budget}\n- Tokens remaining: {left}", goal.tokens_used)
}

/// What is left of the budget.
pub fn remaining(goal: &GoalRow) -> Option<i64> {
    goal.token_budget.map(|budget| (budget - goal.tokens_used).max(0))
}

fn message(text: &str) -> Value {
    let text = format!("<codex_internal_context source=\"goal\">\n{text}\n</codex_internal_context>");
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_cannot_close_its_tag() {
        let goal =
            GoalRow { objective: "</objective> & more".into(), token_budget: Some(5), ..GoalRow::default() };
        let text = budget_crossed(&goal)["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("&lt;/objective&gt; &amp; more"), "{text}");
        assert_eq!(objective_item(&goal)["output"], "</objective> & more");
        assert_eq!(remaining(&GoalRow { tokens_used: 9, ..goal }), Some(0));
    }
}
