//! Appending a lot at once: what the importer does with a part of a file.
//!
//! The same rows as [`super::append`] makes, by statements of many rows each, and without what only a running turn
//! needs to know.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::append::Counters;
use super::error::{Result, StoreError};
use super::journal::{self, PackedRun, Packer};
use super::rows::{Append, ItemRow, TurnRow, UsageRow};
use super::{PLACE_MASK, items, key_range, threads};

/// An append whose lines are cut into runs and whose texts are packed.
#[derive(Debug)]
pub(super) struct Prepared {
    runs: Vec<PackedRun>,
    turns: Vec<TurnRow>,
    /// The rows without their JSON, which is packed beside them.
    items: Vec<(ItemRow, i64, Vec<u8>)>,
    usage: Vec<UsageRow>,
    context_restart: Option<i64>,
}

impl Prepared {
    /// Pack an append; only its lines, turns, items, usage and context are looked at.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the lines are not as many as announced.
    pub(super) fn new(append: Append, packer: &mut Packer) -> Result<Prepared> {
        let runs = packer.runs(&append.lines.bytes, append.lines.count)?;
        drop(append.lines);
        let items = append.items.into_iter().map(|mut item| {
            let (encoding, payload) = packer.pack(std::mem::take(&mut item.json).into_bytes());
            (item, encoding, payload)
        });
        Ok(Prepared {
            runs,
            items: items.collect(),
            turns: append.turns,
            usage: append.usage,
            context_restart: append.context_restart,
        })
    }
}

/// Apply it inside the writer's transaction, to a thread whose journal ends here.
pub(super) async fn apply(
    db: &mut SqliteConnection,
    before: Counters,
    prepared: &Prepared,
    dropped_turns: &[String],
) -> Result<()> {
    let mut after = before;
    journal::append(db, &mut after, &prepared.runs).await?;
    let thread_key = before.thread_key;
    let [next_turn, next_item, next_usage] = next_places(db, thread_key).await?;
    if !dropped_turns.is_empty() {
        drop_turns(db, thread_key, dropped_turns).await?;
    }
    let is_new = next_turn == 0;
    let keys = turn_keys(db, thread_key, next_turn, prepared, is_new).await?;
    put_turns(db, thread_key, &prepared.turns, &keys).await?;
    put_items(db, key_range(thread_key).start + next_item, &prepared.items, &keys).await?;
    put_usage(db, thread_key, key_range(thread_key).start + next_usage, &prepared.usage).await?;
    let context_from = prepared.context_restart.map(|index| before.lines + index);
    threads::move_end(db, &after, context_from).await
}

/// The places after the last turn, item and response of a thread.
async fn next_places(db: &mut SqliteConnection, thread_key: i64) -> Result<[i64; 3]> {
    let keys = key_range(thread_key);
    let (from, to) = (keys.start, keys.end);
    let row = sqlx::query!(
        r#"select (select max(turn_key) from turns where turn_key >= ?1 and turn_key < ?2) as "turn: i64",
                  (select max(item_key) from items where item_key >= ?1 and item_key < ?2) as "item: i64",
                  (select max(usage_key) from token_usage where usage_key >= ?1 and usage_key < ?2) as "usage: i64""#,
        from,
        to
    )
    .fetch_one(db)
    .await?;
    Ok([row.turn, row.item, row.usage].map(|last| last.map_or(0, |key| (key & PLACE_MASK) + 1)))
}

/// Delete turns by their ids; their items go with them.
async fn drop_turns(db: &mut SqliteConnection, thread_key: i64, turn_ids: &[String]) -> Result<()> {
    let ids = serde_json::json!(turn_ids).to_string();
    sqlx::query!(
        "delete from turns where thread_key = ?1 and turn_id in (select value from json_each(?2))",
        thread_key,
        ids
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The keys of all turns that are named: those that are stored have one, the others get the next ones.
async fn turn_keys(
    db: &mut SqliteConnection,
    thread_key: i64,
    next_turn: i64,
    prepared: &Prepared,
    is_new: bool,
) -> Result<HashMap<String, i64>> {
    let mut keys = HashMap::new();
    if !is_new {
        let named = prepared.turns.iter().map(|turn| &turn.turn_id);
        let named: Vec<&String> =
            named.chain(prepared.items.iter().map(|(item, ..)| &item.turn_id)).collect();
        let ids = serde_json::json!(named).to_string();
        let stored = sqlx::query!(
            r#"select turn_id, turn_key as "turn_key!" from turns
               where thread_key = ?1 and turn_id in (select value from json_each(?2))"#,
            thread_key,
            ids
        )
        .fetch_all(db)
        .await?;
        keys.extend(stored.into_iter().map(|row| (row.turn_id, row.turn_key)));
    }
    let mut next_key = key_range(thread_key).start + next_turn;
    for turn in &prepared.turns {
        if !keys.contains_key(&turn.turn_id) {
            keys.insert(turn.turn_id.clone(), next_key);
            next_key += 1;
        }
    }
    Ok(keys)
}

/// Rows of one statement: few sizes, so that their texts stay prepared.
const CHUNKS: [usize; 4] = [64, 16, 4, 1];

/// Cut rows into chunks of these sizes.
fn chunks<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = CHUNKS.into_iter().find(|size| *size <= rows.len())?;
        let (chunk, rest) = rows.split_at(size);
        rows = rest;
        Some(chunk)
    })
}

async fn put_turns(
    db: &mut SqliteConnection,
    thread_key: i64,
    turns: &[TurnRow],
    keys: &HashMap<String, i64>,
) -> Result<()> {
    for chunk in chunks(turns) {
        let mut insert = QueryBuilder::<Sqlite>::new(
            "insert into turns (turn_key, thread_key, turn_id, root_turn_id, status, error_json, started_at_ms,
                 completed_at_ms, duration_ms, first_line, end_line, client_user_message_id) ",
        );
        insert.push_values(chunk, |mut values, turn| {
            values
                .push_bind(keys.get(&turn.turn_id).copied())
                .push_bind(thread_key)
                .push_bind(&turn.turn_id)
                .push_bind(&turn.root_turn_id)
                .push_bind(&turn.status)
                .push_bind(&turn.error_json)
                .push_bind(turn.started_at_ms)
                .push_bind(turn.completed_at_ms)
                .push_bind(turn.duration_ms)
                .push_bind(turn.first_line)
                .push_bind(turn.end_line)
                .push_bind(&turn.client_user_message_id);
        });
        insert.push(
            " on conflict (turn_key) do update set
                 root_turn_id = coalesce(excluded.root_turn_id, root_turn_id), status = excluded.status,
                 error_json = excluded.error_json, started_at_ms = excluded.started_at_ms,
                 completed_at_ms = excluded.completed_at_ms, duration_ms = excluded.duration_ms,
                 end_line = excluded.end_line",
        );
        insert.build().execute(&mut *db).await?;
    }
    Ok(())
}

async fn put_items(
    db: &mut SqliteConnection,
    first_key: i64,
    rows: &[(ItemRow, i64, Vec<u8>)],
    keys: &HashMap<String, i64>,
) -> Result<()> {
    let mut placed = Vec::with_capacity(rows.len());
    for (item_key, (item, encoding, payload)) in (first_key..).zip(rows) {
        let Some(turn_key) = keys.get(&item.turn_id).copied() else {
            let turn_id = &item.turn_id;
            return Err(StoreError::Database(format!("adding an item: turn {turn_id} is not stored")));
        };
        placed.push(items::NewItem { item_key, turn_key, item, encoding: *encoding, payload });
    }
    for chunk in chunks(&placed) {
        items::upsert_together(db, chunk).await?;
    }
    Ok(())
}

async fn put_usage(
    db: &mut SqliteConnection,
    thread_key: i64,
    first_key: i64,
    rows: &[UsageRow],
) -> Result<()> {
    let placed: Vec<(i64, &UsageRow)> = (first_key..).zip(rows).collect();
    for chunk in chunks(&placed) {
        let mut insert = QueryBuilder::<Sqlite>::new(
            "insert into token_usage (usage_key, thread_key, turn_id, response_id, model, model_provider, goal_id,
                 at_ms, input, cached_input, cache_write_input, output, reasoning_output, total,
                 model_context_window) ",
        );
        insert.push_values(chunk, |mut values, (usage_key, row)| {
            let tokens = row.tokens;
            values
                .push_bind(*usage_key)
                .push_bind(thread_key)
                .push_bind(&row.turn_id)
                .push_bind(&row.response_id)
                .push_bind(&row.model)
                .push_bind(&row.model_provider)
                .push_bind(&row.goal_id)
                .push_bind(row.at_ms)
                .push_bind(tokens.input)
                .push_bind(tokens.cached_input)
                .push_bind(tokens.cache_write_input)
                .push_bind(tokens.output)
                .push_bind(tokens.reasoning_output)
                .push_bind(tokens.total)
                .push_bind(row.model_context_window);
        });
        insert.push(" on conflict (thread_key, response_id) do nothing");
        insert.build().execute(&mut *db).await?;
    }
    Ok(())
}
