//! Goals of threads and what happened to them (`protocol/goals.md`).
//!
//! Usage is charged by `charge` in the transaction of the ledger's row, so that a crash neither loses nor repeats it;
//! everything else goes through [`Store::change_goal`], whose rule sees the goal as it is in that very transaction.

use std::sync::Arc;

use sqlx::SqliteConnection;

use super::error::{Result, StoreError};
use super::rows::TokenCounts;
use super::{Store, thread_key};

/// A goal as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalRow {
    /// Made anew with every new goal.
    pub goal_id: String,
    /// What is to be reached.
    pub objective: String,
    /// Status, in the words of the wire.
    pub status: String,
    /// Tokens it may use.
    pub token_budget: Option<i64>,
    /// Tokens it has used.
    pub tokens_used: i64,
    /// Milliseconds it was active.
    pub time_used_ms: i64,
    /// When it was made.
    pub created_at_ms: i64,
    /// When it last changed.
    pub updated_at_ms: i64,
    /// The objective stands in the model's context.
    pub objective_told: bool,
    /// Nothing starts by itself before an explicit turn has run.
    pub deferred: bool,
    /// When it becomes active again by itself.
    pub wakes_at_ms: Option<i64>,
}

/// What a step of a turn does to the goal, beside the ledger's rows of the same append.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoalCharge {
    /// The goal; if the thread has another by now, nothing is charged.
    pub goal_id: String,
    /// Active time since the last charge.
    pub time_ms: i64,
    /// The status that the turn's failure gives it, with the reason.
    pub stop: Option<GoalStop>,
    /// Whether the objective stands in the model's context from now on.
    pub objective_told: Option<bool>,
    /// The turn.
    pub turn_id: String,
}

/// A goal stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoalStop {
    /// Status, in the words of the wire.
    pub status: String,
    /// Why.
    pub reason: String,
    /// When it goes on by itself.
    pub wakes_at_ms: Option<i64>,
}

/// An entry of a goal's history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoalEvent {
    /// What kind of change.
    pub kind: String,
    /// The turn that caused it.
    pub turn_id: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// What a change makes of a goal, or the text that says why it cannot be. Run in the writer, perhaps more than once.
pub type GoalRule =
    Arc<dyn Fn(Option<&GoalRow>) -> std::result::Result<Option<GoalRow>, String> + Send + Sync>;

/// A goal before and after a change, or the text of the rule that refused it.
pub type GoalChanged = std::result::Result<(Option<GoalRow>, Option<GoalRow>), String>;

impl Store {
    /// The goal of a thread.
    ///
    /// # Errors
    /// The database failed.
    pub async fn goal(&self, thread_id: &str) -> Result<Option<GoalRow>> {
        let mut db = self.reader().await?;
        match thread_key(&mut db, thread_id).await? {
            Some(key) => read(&mut db, key).await,
            None => Ok(None),
        }
    }

    /// Change the goal of a thread by a rule; gives the goal before and after, or the rule's text.
    ///
    /// # Errors
    /// [`StoreError::NoThread`], or the database failed.
    pub async fn change_goal(
        &self,
        thread_id: &str,
        event: GoalEvent,
        rule: GoalRule,
    ) -> Result<GoalChanged> {
        let thread_id = thread_id.to_owned();
        let now_ms = self.clock.now_ms();
        self.write(move |db| {
            let (thread_id, event, rule) = (thread_id.clone(), event.clone(), rule.clone());
            Box::pin(async move {
                let key = thread_key(db, &thread_id)
                    .await?
                    .ok_or_else(|| StoreError::NoThread(thread_id.clone()))?;
                let before = read(db, key).await?;
                let after = match rule(before.as_ref()) {
                    Ok(after) => after,
                    Err(text) => return Ok(Err(text)),
                };
                if before != after {
                    put(db, key, after.as_ref()).await?;
                    if let Some(shown) = after.as_ref().or(before.as_ref()) {
                        log(db, key, shown, &event, now_ms).await?;
                    }
                }
                Ok(Ok((before, after)))
            })
        })
        .await
    }

    /// The threads whose goals are due to wake, and when the next one is.
    ///
    /// # Errors
    /// The database failed.
    pub async fn goals_to_wake(&self, now_ms: i64) -> Result<(Vec<String>, Option<i64>)> {
        let mut db = self.reader().await?;
        let rows = sqlx::query!(
            r#"select thread_id, wakes_at_ms as "wakes_at_ms!: i64" from goals join threads using (thread_key)
               where wakes_at_ms is not null and archived_at_ms is null order by wakes_at_ms"#
        )
        .fetch_all(&mut *db)
        .await?;
        let next = rows.iter().map(|row| row.wakes_at_ms).find(|at| *at > now_ms);
        let due = rows.into_iter().filter(|row| row.wakes_at_ms <= now_ms).map(|row| row.thread_id).collect();
        Ok((due, next))
    }
}

/// The goal of a thread.
pub(super) async fn read(db: &mut SqliteConnection, thread_key: i64) -> Result<Option<GoalRow>> {
    Ok(sqlx::query_as!(
        GoalRow,
        r#"select goal_id, objective, status, token_budget, tokens_used, time_used_ms, created_at_ms, updated_at_ms,
                  objective_told as "objective_told: bool", deferred as "deferred: bool", wakes_at_ms
           from goals where thread_key = ?1"#,
        thread_key
    )
    .fetch_optional(db)
    .await?)
}

/// Store a thread's goal as it is now; `None` takes it away.
pub(super) async fn put(db: &mut SqliteConnection, thread_key: i64, goal: Option<&GoalRow>) -> Result<()> {
    let Some(goal) = goal else {
        sqlx::query!("delete from goals where thread_key = ?1", thread_key).execute(db).await?;
        return Ok(());
    };
    sqlx::query!(
        "insert or replace into goals (thread_key, goal_id, objective, status, token_budget, tokens_used, time_used_ms,
             created_at_ms, updated_at_ms, objective_told, deferred, wakes_at_ms)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        thread_key,
        goal.goal_id,
        goal.objective,
        goal.status,
        goal.token_budget,
        goal.tokens_used,
        goal.time_used_ms,
        goal.created_at_ms,
        goal.updated_at_ms,
        goal.objective_told,
        goal.deferred,
        goal.wakes_at_ms
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn log(
    db: &mut SqliteConnection,
    thread_key: i64,
    goal: &GoalRow,
    event: &GoalEvent,
    now_ms: i64,
) -> Result<()> {
    sqlx::query!(
        "insert into goal_events (thread_key, goal_id, at_ms, kind, status, tokens_used, turn_id, reason)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        thread_key,
        goal.goal_id,
        now_ms,
        event.kind,
        goal.status,
        goal.tokens_used,
        event.turn_id,
        event.reason
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Note that a goal came from another program's database.
pub(super) async fn log_imported(
    db: &mut SqliteConnection,
    thread_key: i64,
    goal: &GoalRow,
    now_ms: i64,
) -> Result<()> {
    let event = GoalEvent { kind: "imported".to_owned(), ..GoalEvent::default() };
    log(db, thread_key, goal, &event, now_ms).await
}

/// Charge the goal for the ledger's rows that were added just now; the goal afterwards, unless it is another.
pub(super) async fn charge(
    db: &mut SqliteConnection,
    thread_key: i64,
    charge: &GoalCharge,
    tokens: TokenCounts,
    now_ms: i64,
) -> Result<Option<GoalRow>> {
    let Some(before) = read(db, thread_key).await?.filter(|goal| goal.goal_id == charge.goal_id) else {
        return Ok(None);
    };
    let mut goal = before.clone();
    goal.objective_told = charge.objective_told.unwrap_or(goal.objective_told);
    if matches!(goal.status.as_str(), "active" | "budgetLimited") {
        goal.tokens_used += tokens_of_goal(tokens);
        goal.time_used_ms += charge.time_ms;
        if goal.status == "active" && goal.token_budget.is_some_and(|budget| goal.tokens_used >= budget) {
            goal.status = "budgetLimited".to_owned();
        }
        if let Some(stop) = &charge.stop
            && (goal.status == "active" || stop.status == "usageLimited")
        {
            goal.status.clone_from(&stop.status);
            goal.wakes_at_ms = stop.wakes_at_ms;
        }
    }
    if goal == before {
        return Ok(Some(goal));
    }
    goal.updated_at_ms = now_ms;
    put(db, thread_key, Some(&goal)).await?;
    if goal.status != before.status {
        let reason = match &charge.stop {
            Some(stop) if stop.status == goal.status => stop.reason.clone(),
            _ => format!("{} tokens were used", goal.tokens_used),
        };
        let event = GoalEvent {
            kind: "status".to_owned(),
            turn_id: Some(charge.turn_id.clone()),
            reason: Some(reason),
        };
        log(db, thread_key, &goal, &event, now_ms).await?;
    }
    Ok(Some(goal))
}

/// What a response counts for a goal: input less cached input, and output.
pub fn tokens_of_goal(tokens: TokenCounts) -> i64 {
    (tokens.input - tokens.cached_input + tokens.output).max(0)
}
