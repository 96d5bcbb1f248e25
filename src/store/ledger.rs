//! The ledger: one row a model response; every total is a sum over rows.

use std::ops::{Add, AddAssign};

use sqlx::SqliteConnection;

use super::error::Result;
use super::rows::{TokenCounts, UsageRow};
use super::{Store, key_range, thread_key};

/// The usage that a client is told of at resume.
#[derive(Clone, Debug, PartialEq)]
pub struct LastUsage {
    /// The turn that owns the last response.
    pub turn_id: String,
    /// Sums over the thread, inherited tokens included.
    pub total: TokenCounts,
    /// The last response.
    pub last: TokenCounts,
    /// The model's context window.
    pub model_context_window: Option<i64>,
}

impl Add for TokenCounts {
    type Output = TokenCounts;

    fn add(mut self, other: TokenCounts) -> TokenCounts {
        self += other;
        self
    }
}

impl AddAssign for TokenCounts {
    fn add_assign(&mut self, other: TokenCounts) {
        self.input += other.input;
        self.cached_input += other.cached_input;
        self.cache_write_input += other.cache_write_input;
        self.output += other.output;
        self.reasoning_output += other.reasoning_output;
        self.total += other.total;
    }
}

impl Store {
    /// The totals of a thread with its last response; `None` without any response.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn last_usage(&self, thread_id: &str) -> Result<Option<LastUsage>> {
        let mut reader = self.reader().await?;
        let Some(thread_key) = thread_key(&mut reader, thread_id).await? else { return Ok(None) };
        let keys = key_range(thread_key);
        let (from, to) = (keys.start, keys.end);
        let row = sqlx::query!(
            "select turn_id, input, cached_input, cache_write_input, output, reasoning_output, total,
                    model_context_window
             from token_usage where usage_key >= ?1 and usage_key < ?2 order by usage_key desc limit 1",
            from,
            to
        )
        .fetch_optional(&mut *reader)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let total = totals(&mut reader, thread_key).await?;
        let last = TokenCounts {
            input: row.input,
            cached_input: row.cached_input,
            cache_write_input: row.cache_write_input,
            output: row.output,
            reasoning_output: row.reasoning_output,
            total: row.total,
        };
        Ok(Some(LastUsage {
            turn_id: row.turn_id,
            total,
            last,
            model_context_window: row.model_context_window,
        }))
    }

    /// Sums over a thread, inherited tokens included; `None` without such a thread.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn usage_totals(&self, thread_id: &str) -> Result<Option<TokenCounts>> {
        let mut reader = self.reader().await?;
        match thread_key(&mut reader, thread_id).await? {
            Some(thread_key) => Ok(Some(totals(&mut reader, thread_key).await?)),
            None => Ok(None),
        }
    }
}

/// Add responses, passing over those that are there already; gives the sum of the new ones.
pub(super) async fn insert(
    db: &mut SqliteConnection,
    thread_key: i64,
    next_place: i64,
    rows: &[UsageRow],
) -> Result<TokenCounts> {
    let first_key = key_range(thread_key).start + next_place;
    let mut charged = TokenCounts::default();
    for (usage_key, row) in (first_key..).zip(rows) {
        let tokens = row.tokens;
        let done = sqlx::query!(
            "insert into token_usage (usage_key, thread_key, turn_id, response_id, model, model_provider, goal_id,
                 at_ms, input, cached_input, cache_write_input, output, reasoning_output, total,
                 model_context_window)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             on conflict (thread_key, response_id) do nothing",
            usage_key,
            thread_key,
            row.turn_id,
            row.response_id,
            row.model,
            row.model_provider,
            row.goal_id,
            row.at_ms,
            tokens.input,
            tokens.cached_input,
            tokens.cache_write_input,
            tokens.output,
            tokens.reasoning_output,
            tokens.total,
            row.model_context_window
        )
        .execute(&mut *db)
        .await?;
        if done.rows_affected() == 1 {
            charged += tokens;
        }
    }
    Ok(charged)
}

/// Sums over a thread's rows, inherited tokens included.
pub(super) async fn totals(db: &mut SqliteConnection, thread_key: i64) -> Result<TokenCounts> {
    let row = sqlx::query!(
        r#"select inherited_input + coalesce(sum(input), 0) as "input!: i64",
                  inherited_cached_input + coalesce(sum(cached_input), 0) as "cached_input!: i64",
                  inherited_cache_write_input + coalesce(sum(cache_write_input), 0) as "cache_write_input!: i64",
                  inherited_output + coalesce(sum(output), 0) as "output!: i64",
                  inherited_reasoning_output + coalesce(sum(reasoning_output), 0) as "reasoning_output!: i64",
                  inherited_total + coalesce(sum(total), 0) as "total!: i64"
           from threads
           left join token_usage on usage_key >= threads.thread_key << 32
                                and usage_key < (threads.thread_key + 1) << 32
           where threads.thread_key = ?1"#,
        thread_key
    )
    .fetch_one(db)
    .await?;
    Ok(TokenCounts {
        input: row.input,
        cached_input: row.cached_input,
        cache_write_input: row.cache_write_input,
        output: row.output,
        reasoning_output: row.reasoning_output,
        total: row.total,
    })
}
