//! Turns of a thread.

use std::collections::HashMap;

use sqlx::SqliteConnection;

use super::error::{Result, StoreError};
use super::rows::TurnRow;
use super::{Store, key_range, thread_key};

/// A page of turns, or of items: which rows, in which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageOf {
    /// Only rows before this place.
    pub before: Option<i64>,
    /// Only rows after this place.
    pub after: Option<i64>,
    /// Newest first.
    pub descending: bool,
    /// The most rows.
    pub limit: i64,
}

/// A turn with its place in the thread, which pages are cut by.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTurn {
    /// The place: it grows along the thread.
    pub place: i64,
    /// The turn.
    pub row: TurnRow,
}

/// The columns of a turn, as `query!` gives them.
macro_rules! placed_turn {
    ($row:expr) => {{
        let row = $row;
        PlacedTurn {
            place: row.turn_key,
            row: TurnRow {
                turn_id: row.turn_id,
                root_turn_id: row.root_turn_id,
                status: row.status,
                error_json: row.error_json,
                started_at_ms: row.started_at_ms,
                completed_at_ms: row.completed_at_ms,
                duration_ms: row.duration_ms,
                first_line: row.first_line,
                end_line: row.end_line,
                client_user_message_id: row.client_user_message_id,
            },
        }
    }};
}

impl Store {
    /// A page of a thread's turns.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn turns_page(&self, thread_id: &str, page: PageOf) -> Result<Vec<PlacedTurn>> {
        let mut reader = self.reader().await?;
        let Some(thread_key) = thread_key(&mut reader, thread_id).await? else { return Ok(Vec::new()) };
        let keys = key_range(thread_key);
        let from = page.after.map_or(keys.start, |after| after.max(keys.start - 1) + 1);
        let to = page.before.map_or(keys.end, |before| before.min(keys.end));
        let turns = if page.descending {
            sqlx::query!(
                "select turn_key, turn_id, root_turn_id, status, error_json, started_at_ms, completed_at_ms,
                        duration_ms, first_line, end_line, client_user_message_id
                 from turns where turn_key >= ?1 and turn_key < ?2 order by turn_key desc limit ?3",
                from,
                to,
                page.limit
            )
            .fetch_all(&mut *reader)
            .await?
            .into_iter()
            .map(|row| placed_turn!(row))
            .collect()
        } else {
            sqlx::query!(
                "select turn_key, turn_id, root_turn_id, status, error_json, started_at_ms, completed_at_ms,
                        duration_ms, first_line, end_line, client_user_message_id
                 from turns where turn_key >= ?1 and turn_key < ?2 order by turn_key limit ?3",
                from,
                to,
                page.limit
            )
            .fetch_all(&mut *reader)
            .await?
            .into_iter()
            .map(|row| placed_turn!(row))
            .collect()
        };
        Ok(turns)
    }

    /// All turns of a thread, oldest first.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn all_turns(&self, thread_id: &str) -> Result<Vec<PlacedTurn>> {
        self.turns_page(thread_id, PageOf { limit: i64::MAX, ..PageOf::default() }).await
    }

    /// One turn by its id.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn turn(&self, thread_id: &str, turn_id: &str) -> Result<Option<PlacedTurn>> {
        let mut reader = self.reader().await?;
        let row = sqlx::query!(
            "select turn_key, turn_id, root_turn_id, turns.status, error_json, started_at_ms, completed_at_ms,
                    duration_ms, first_line, end_line, client_user_message_id
             from turns join threads using (thread_key) where thread_id = ?1 and turn_id = ?2",
            thread_id,
            turn_id
        )
        .fetch_optional(&mut *reader)
        .await?;
        Ok(row.map(|row| placed_turn!(row)))
    }

    /// The turn that a client's message id started; the last one should there be several.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn turn_of_client_message(
        &self,
        thread_id: &str,
        client_id: &str,
    ) -> Result<Option<PlacedTurn>> {
        let mut reader = self.reader().await?;
        let row = sqlx::query!(
            "select turn_key, turn_id, root_turn_id, turns.status, error_json, started_at_ms, completed_at_ms,
                    duration_ms, first_line, end_line, client_user_message_id
             from turns join threads using (thread_key)
             where thread_id = ?1 and client_user_message_id = ?2 order by turn_key desc limit 1",
            thread_id,
            client_id
        )
        .fetch_optional(&mut *reader)
        .await?;
        Ok(row.map(|row| placed_turn!(row)))
    }
}

/// Insert turns at the end of their thread, or update them by their ids; their places and first lines stay. Notes
/// their keys.
pub(super) async fn upsert(
    db: &mut SqliteConnection,
    thread_key: i64,
    next_place: i64,
    turns: &[TurnRow],
    turn_keys: &mut HashMap<String, i64>,
) -> Result<()> {
    let first_key = key_range(thread_key).start + next_place;
    for (new_key, turn) in (first_key..).zip(turns) {
        let turn_key = sqlx::query_scalar!(
            r#"insert into turns (turn_key, thread_key, turn_id, root_turn_id, status, error_json, started_at_ms,
                   completed_at_ms, duration_ms, first_line, end_line, client_user_message_id)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
               on conflict (thread_key, turn_id) do update set
                   root_turn_id = coalesce(excluded.root_turn_id, root_turn_id), status = excluded.status,
                   error_json = excluded.error_json, started_at_ms = excluded.started_at_ms,
                   completed_at_ms = excluded.completed_at_ms, duration_ms = excluded.duration_ms,
                   end_line = excluded.end_line,
                   client_user_message_id = coalesce(excluded.client_user_message_id, client_user_message_id)
               returning turn_key as "turn_key!""#,
            new_key,
            thread_key,
            turn.turn_id,
            turn.root_turn_id,
            turn.status,
            turn.error_json,
            turn.started_at_ms,
            turn.completed_at_ms,
            turn.duration_ms,
            turn.first_line,
            turn.end_line,
            turn.client_user_message_id
        )
        .fetch_one(&mut *db)
        .await?;
        turn_keys.insert(turn.turn_id.clone(), turn_key);
    }
    Ok(())
}

/// The key of a turn that items belong to.
///
/// # Errors
/// [`StoreError::Database`] without such a turn: an item is never dropped in silence.
pub(super) async fn key_of(db: &mut SqliteConnection, thread_key: i64, turn_id: &str) -> Result<i64> {
    let turn_key = sqlx::query_scalar!(
        r#"select turn_key as "turn_key!" from turns where thread_key = ?1 and turn_id = ?2"#,
        thread_key,
        turn_id
    )
    .fetch_optional(db)
    .await?;
    turn_key.ok_or_else(|| StoreError::Database(format!("adding an item: turn {turn_id} is not stored")))
}
