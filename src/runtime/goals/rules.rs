//! The rules of goals as pure functions (`protocol/goals.md`, section 1).

use crate::clock::Clock;
use crate::protocol::goal::ThreadGoalStatus;
use crate::store::goals::GoalRow;

/// The most characters of an objective.
const OBJECTIVE_CHARS_MAX: usize = 4000;

/// What a client or the model wants of a goal. A missing member leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// The objective, as it was given.
    pub objective: Option<String>,
    /// The status.
    pub status: Option<ThreadGoalStatus>,
    /// The budget; `Some(None)` takes it away.
    pub token_budget: Option<Option<i64>>,
}

/// What an edit needs to know of its surroundings.
#[derive(Clone, Debug)]
pub struct Around {
    /// The thread, for error texts.
    pub thread_id: String,
    /// The most that a budget may be.
    pub max_budget: Option<i64>,
    /// Now.
    pub now_ms: i64,
    /// The id of a new goal.
    pub new_id: String,
    /// Active time since the last charge, booked on the old state first.
    pub time_ms: i64,
}

impl Around {
    /// For an edit now; no time is booked.
    pub fn now(clock: &Clock, thread_id: &str, max_budget: Option<i64>) -> Around {
        Around {
            thread_id: thread_id.to_owned(),
            max_budget,
            now_ms: clock.now_ms(),
            new_id: clock.new_random_id().to_string(),
            time_ms: 0,
        }
    }
}

impl Edit {
    /// The goal after the edit, or the text that says why it cannot be.
    ///
    /// # Errors
    /// The texts of the page.
    pub fn apply(&self, current: Option<&GoalRow>, around: &Around) -> Result<GoalRow, String> {
        let objective = self.objective.as_deref().map(checked_objective).transpose()?;
        if let Some(Some(budget)) = self.token_budget {
            check_budget(budget, around.max_budget)?;
        }
        let budget = self.token_budget.map(|budget| budget.or(around.max_budget));
        match (current, objective) {
            (None, None) => {
                Err(format!("cannot update goal for thread {}: no goal exists", around.thread_id))
            }
            (None, Some(objective)) => Ok(GoalRow {
                goal_id: around.new_id.clone(),
                objective,
                status: word(self.status.unwrap_or(ThreadGoalStatus::Active)).to_owned(),
                token_budget: budget.unwrap_or(around.max_budget),
                created_at_ms: around.now_ms,
                updated_at_ms: around.now_ms,
                ..GoalRow::default()
            }),
            (Some(current), objective) => Ok(self.edited(current, objective, budget, around)),
        }
    }

    fn edited(
        &self,
        current: &GoalRow,
        objective: Option<String>,
        budget: Option<Option<i64>>,
        around: &Around,
    ) -> GoalRow {
        let mut goal = booked(current, around.time_ms);
        let token_budget = budget.unwrap_or(goal.token_budget);
        let spent = token_budget.is_some_and(|budget| goal.tokens_used >= budget);
        let limited = word(ThreadGoalStatus::BudgetLimited);
        let status = match self.status {
            Some(ThreadGoalStatus::Paused | ThreadGoalStatus::Blocked) if goal.status == limited => limited,
            Some(ThreadGoalStatus::Active) if spent => limited,
            Some(status) => word(status),
            None if budget.is_some() && goal.status == word(ThreadGoalStatus::Active) && spent => limited,
            None => &goal.status,
        };
        let status = status.to_owned();
        if let Some(objective) = objective
            && objective != goal.objective
        {
            goal.objective = objective;
            goal.objective_told = false;
        }
        if self.status.is_some() {
            goal.wakes_at_ms = None;
        }
        GoalRow { status, token_budget, updated_at_ms: around.now_ms, ..goal }
    }
}

/// The goal with active time added, if it is one whose time counts.
pub fn booked(goal: &GoalRow, time_ms: i64) -> GoalRow {
    let counts = is_counted(&goal.status);
    let time_used_ms = goal.time_used_ms + if counts { time_ms } else { 0 };
    GoalRow { time_used_ms, ..goal.clone() }
}

/// Whether usage counts for a goal of this status.
pub fn is_counted(status: &str) -> bool {
    status == word(ThreadGoalStatus::Active) || status == word(ThreadGoalStatus::BudgetLimited)
}

fn checked_objective(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("goal objective must not be empty".to_owned());
    }
    if text.chars().count() > OBJECTIVE_CHARS_MAX {
        return Err(format!("goal objective must be at most {OBJECTIVE_CHARS_MAX} characters"));
    }
    Ok(text.to_owned())
}

fn check_budget(budget: i64, max: Option<i64>) -> Result<(), String> {
    if budget <= 0 {
        return Err("goal budgets must be positive when provided".to_owned());
    }
    match max {
        Some(max) if budget > max => {
            Err(format!("goal token budget {budget} exceeds the maximum allowed goal token budget of {max}"))
        }
        _ => Ok(()),
    }
}

/// A status in the words of the wire, as stored.
pub fn word(status: ThreadGoalStatus) -> &'static str {
    match status {
        ThreadGoalStatus::Active => "active",
        ThreadGoalStatus::Paused => "paused",
        ThreadGoalStatus::Blocked => "blocked",
        ThreadGoalStatus::UsageLimited => "usageLimited",
        ThreadGoalStatus::BudgetLimited => "budgetLimited",
        ThreadGoalStatus::Complete => "complete",
    }
}

/// The status of a stored word.
pub fn status(word_of: &str) -> ThreadGoalStatus {
    use ThreadGoalStatus::{Active, Blocked, BudgetLimited, Complete, Paused, UsageLimited};
    // The table's check lets no other word in.
    [Active, Paused, Blocked, UsageLimited, BudgetLimited, Complete]
        .into_iter()
        .find(|status| word(*status) == word_of)
        .unwrap_or(Blocked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn around(max_budget: Option<i64>) -> Around {
        Around { thread_id: "t".into(), max_budget, now_ms: 5, new_id: "g".into(), time_ms: 0 }
    }

    fn goal(status: ThreadGoalStatus, budget: Option<i64>, used: i64) -> GoalRow {
        GoalRow {
            goal_id: "old".into(),
            objective: "o".into(),
            status: word(status).into(),
            token_budget: budget,
            tokens_used: used,
            ..GoalRow::default()
        }
    }

    fn to(status: ThreadGoalStatus) -> Edit {
        Edit { status: Some(status), ..Edit::default() }
    }

    #[test]
    fn statuses_follow_the_table() {
        use ThreadGoalStatus::{Active, Blocked, BudgetLimited, Complete, Paused, UsageLimited};
        let after = |current: &GoalRow, edit: &Edit| {
            status(&edit.apply(Some(current), &around(None)).unwrap().status)
        };
        let limited = goal(BudgetLimited, Some(10), 20);
        for wanted in [Paused, Blocked, Active] {
            assert_eq!(after(&limited, &to(wanted)), BudgetLimited);
        }
        for wanted in [UsageLimited, Complete] {
            assert_eq!(after(&limited, &to(wanted)), wanted);
        }
        let roomy = goal(BudgetLimited, Some(100), 20);
        assert_eq!(after(&roomy, &to(Active)), Active);
        let raised = Edit { token_budget: Some(Some(200)), ..Edit::default() };
        assert_eq!(after(&roomy, &raised), BudgetLimited, "a raised budget alone wakes nothing");
        let lowered = Edit { token_budget: Some(Some(10)), ..Edit::default() };
        assert_eq!(after(&goal(Active, None, 20), &lowered), BudgetLimited);
        assert_eq!(after(&goal(Complete, None, 20), &to(Active)), Active);
        assert_eq!(after(&goal(Paused, None, 20), &Edit::default()), Paused);
    }

    #[test]
    fn a_maximum_budget_is_the_default_and_the_limit() {
        let objective = Some(" work ".to_owned());
        let made = |edit: Edit, max| edit.apply(None, &around(max));
        let plain = Edit { objective: objective.clone(), ..Edit::default() };
        assert_eq!(made(plain.clone(), Some(7)).unwrap().token_budget, Some(7));
        assert_eq!(made(plain, None).unwrap().objective, "work");
        let none = Edit { objective: objective.clone(), token_budget: Some(None), ..Edit::default() };
        assert_eq!(made(none, Some(7)).unwrap().token_budget, Some(7));
        let more = Edit { objective, token_budget: Some(Some(8)), ..Edit::default() };
        assert_eq!(
            made(more, Some(7)).unwrap_err(),
            "goal token budget 8 exceeds the maximum allowed goal token budget of 7"
        );
    }

    proptest! {
        #[test]
        fn an_edit_keeps_usage_and_identity(
            objective in proptest::option::of("[a-z]{1,9}"),
            wanted in proptest::option::of(0usize..6),
            budget in proptest::option::of(proptest::option::of(1i64..50)),
            used in 0i64..100,
            now in 0usize..6,
        ) {
            use ThreadGoalStatus::{Active, Blocked, BudgetLimited, Complete, Paused, UsageLimited};
            let all = [Active, Paused, Blocked, UsageLimited, BudgetLimited, Complete];
            let current = goal(all[now], Some(30), used);
            let edit = Edit { objective, status: wanted.map(|at| all[at]), token_budget: budget };
            let after = edit.apply(Some(&current), &around(None)).unwrap();
            prop_assert_eq!(&after.goal_id, &current.goal_id);
            prop_assert_eq!(after.tokens_used, used);
            prop_assert_eq!(after.created_at_ms, current.created_at_ms);
            let spent = after.token_budget.is_some_and(|budget| used >= budget);
            prop_assert!(!(edit.status == Some(Active) && spent && after.status == "active"));
        }
    }
}
