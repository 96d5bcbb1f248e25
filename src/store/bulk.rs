//! Appending a lot at once: what the importer does with a part of a file.
//!
//! The same rows as [`super::append`] makes, by statements of many rows each, and without what only a running turn
//! needs to know.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::append::Counters;
use super::error::{Result, StoreError};
use super::journal::{self, PackedLines, PackedRun};
use super::payload::{Packed, Packer};
use super::rows::{Append, ItemRow, TurnRow, UsageRow};
use super::{PLACE_MASK, items, key_range, threads};

/// An append whose lines are cut into runs and whose texts are packed.
#[derive(Debug)]
pub(super) struct Prepared {
    runs: Vec<PackedRun>,
    turns: Vec<TurnRow>,
    /// The rows without their JSON, which is packed beside them.
    items: Vec<(ItemRow, Packed)>,
    usage: Vec<UsageRow>,
    context_restart: Option<i64>,
}

impl Prepared {
    /// Pack an append; only its turns, items, usage and context are looked at.
    ///
    /// # Errors
    /// An item is large, and could not be packed.
    pub(super) fn new(lines: PackedLines, append: Append, packer: &mut Packer) -> Result<Prepared> {
        let items = append.items.into_iter().map(|mut item| {
            let packed = packer.pack(std::mem::take(&mut item.json))?;
            Ok((item, packed))
        });
        Ok(Prepared {
            runs: lines.runs,
            items: items.collect::<Result<_>>()?,
            turns: append.turns,
            usage: append.usage,
            context_restart: append.context_restart,
        })
    }
}

/// A thread that is appended to.
pub(super) struct Target<'a> {
    /// Where its journal ends.
    pub(super) before: Counters,
    /// What is appended.
    pub(super) prepared: &'a Prepared,
    /// Turns to drop first, by their ids.
    pub(super) dropped_turns: &'a [String],
}

/// Append to several threads, each of them once, inside the writer's transaction.
pub(super) async fn apply(db: &mut SqliteConnection, targets: &[Target<'_>]) -> Result<()> {
    let mut rows = Rows::default();
    let mut ends = Vec::with_capacity(targets.len());
    for Target { before, prepared, dropped_turns } in targets {
        let thread_key = before.thread_key;
        // A thread without lines has no turns either.
        let is_new = before.lines == 0;
        let next = if is_new { [0; 3] } else { next_places(db, thread_key).await? };
        if !dropped_turns.is_empty() {
            drop_turns(db, thread_key, dropped_turns).await?;
        }
        let keys = turn_keys(db, thread_key, next[0], prepared, is_new).await?;
        let [_, first_item, first_usage] = next.map(|place| key_range(thread_key).start + place);
        rows.turns.extend(
            prepared.turns.iter().filter_map(|turn| Some((*keys.get(&turn.turn_id)?, thread_key, turn))),
        );
        for (item_key, (item, packed)) in (first_item..).zip(&prepared.items) {
            let Some(turn_key) = keys.get(&item.turn_id).copied() else {
                let turn_id = &item.turn_id;
                return Err(StoreError::Database(format!("adding an item: turn {turn_id} is not stored")));
            };
            rows.items.push(items::NewItem { item_key, turn_key, item, packed });
        }
        rows.usage.extend((first_usage..).zip(&prepared.usage).map(|(key, row)| (key, thread_key, row)));
        let mut after = *before;
        for run in &prepared.runs {
            rows.runs.push((key_range(thread_key).start + after.lines, after.bytes, run));
            after.lines += run.line_count;
            after.bytes += run.byte_count;
        }
        ends.push((after, prepared.context_restart.map(|index| before.lines + index)));
    }
    threads::move_ends(db, &ends).await?;
    rows.put(db).await
}

/// What is added, each with its keys.
#[derive(Default)]
struct Rows<'a> {
    runs: Vec<(i64, i64, &'a PackedRun)>,
    turns: Vec<(i64, i64, &'a TurnRow)>,
    items: Vec<items::NewItem<'a>>,
    usage: Vec<(i64, i64, &'a UsageRow)>,
}

impl Rows<'_> {
    async fn put(&self, db: &mut SqliteConnection) -> Result<()> {
        for chunk in chunks(&self.runs) {
            journal::put(db, chunk).await?;
        }
        for chunk in chunks(&self.turns) {
            put_turns(db, chunk).await?;
        }
        for chunk in chunks(&self.items) {
            items::upsert_together(db, chunk).await?;
        }
        for chunk in chunks(&self.usage) {
            put_usage(db, chunk).await?;
        }
        Ok(())
    }
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
        let named: Vec<&String> = named.chain(prepared.items.iter().map(|(item, _)| &item.turn_id)).collect();
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
const CHUNKS: [usize; 5] = [256, 64, 16, 4, 1];

/// Cut rows into chunks of few sizes.
pub(super) fn chunks<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = CHUNKS.into_iter().find(|size| *size <= rows.len())?;
        let (chunk, rest) = rows.split_at(size);
        rows = rest;
        Some(chunk)
    })
}

async fn put_turns(db: &mut SqliteConnection, rows: &[(i64, i64, &TurnRow)]) -> Result<()> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "insert into turns (turn_key, thread_key, turn_id, root_turn_id, status, error_json, started_at_ms,
             completed_at_ms, duration_ms, first_line, end_line, client_user_message_id) ",
    );
    insert.push_values(rows, |mut values, (turn_key, thread_key, turn)| {
        values
            .push_bind(*turn_key)
            .push_bind(*thread_key)
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
    insert.build().execute(db).await?;
    Ok(())
}

async fn put_usage(db: &mut SqliteConnection, rows: &[(i64, i64, &UsageRow)]) -> Result<()> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "insert into token_usage (usage_key, thread_key, turn_id, response_id, model, model_provider, goal_id,
             at_ms, input, cached_input, cache_write_input, output, reasoning_output, total,
             model_context_window) ",
    );
    insert.push_values(rows, |mut values, (usage_key, thread_key, row)| {
        let tokens = row.tokens;
        values
            .push_bind(*usage_key)
            .push_bind(*thread_key)
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
    insert.build().execute(db).await?;
    Ok(())
}
