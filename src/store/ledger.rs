//! The ledger: one row a model response; every total is a sum over rows.

use sqlx::SqliteConnection;

use super::Store;
use super::error::Result;
use super::rows::{TokenCounts, UsageRow};

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

impl Store {
    /// The totals of a thread with its last response; `None` without any response.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn last_usage(&self, thread_id: &str) -> Result<Option<LastUsage>> {
        let mut reader = self.readers.acquire().await?;
        let row = sqlx::query!(
            "select thread_key, turn_id, input, cached_input, cache_write_input, output, reasoning_output, total,
                    token_usage.model_context_window
             from token_usage join threads using (thread_key)
             where thread_id = ?1 order by usage_key desc limit 1",
            thread_id
        )
        .fetch_optional(&mut *reader)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let total = totals(&mut reader, row.thread_key).await?;
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
}

/// Add a response; one that is there already is left as it is.
pub(super) async fn insert(db: &mut SqliteConnection, thread_key: i64, row: &UsageRow) -> Result<()> {
    let tokens = row.tokens;
    sqlx::query!(
        "insert into token_usage (thread_key, turn_id, response_id, model, model_provider, goal_id, at_ms, input,
             cached_input, cache_write_input, output, reasoning_output, total, model_context_window)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
         on conflict (thread_key, response_id) do nothing",
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
    .execute(db)
    .await?;
    Ok(())
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
           from threads left join token_usage using (thread_key) where threads.thread_key = ?1"#,
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
