//! Items of turns: wire JSON, stored as it is sent.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::error::Result;
use super::payload::{Blob, Packed, unpack_text};
use super::rows::ItemRow;
use super::turns::{self, PageOf};
use super::{Store, key_range, thread_key};

/// Rows that one statement inserts when there are many.
const ROWS_A_STATEMENT: usize = 32;

/// An item with its place in the thread and its turn.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedItem {
    /// The place: it grows along the thread.
    pub place: i64,
    /// The place of its turn.
    pub turn_place: i64,
    /// The item.
    pub row: ItemRow,
}

/// The columns of an item, as `query!` gives them.
macro_rules! placed_item {
    ($row:expr) => {{
        let row = $row;
        let json = unpack_text(row.encoding, row.payload)?;
        PlacedItem {
            place: row.item_key,
            turn_place: row.turn_key,
            row: ItemRow {
                turn_id: row.turn_id,
                item_id: row.item_id,
                kind: row.kind,
                json,
                started_at_ms: row.started_at_ms,
                completed_at_ms: row.completed_at_ms,
            },
        }
    }};
}

impl Store {
    /// A page of a thread's items.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn items_page(&self, thread_id: &str, page: PageOf) -> Result<Vec<PlacedItem>> {
        let mut reader = self.reader().await?;
        let Some(thread_key) = thread_key(&mut reader, thread_id).await? else { return Ok(Vec::new()) };
        let keys = key_range(thread_key);
        let from = page.after.map_or(keys.start, |after| after.max(keys.start - 1) + 1);
        let to = page.before.map_or(keys.end, |before| before.min(keys.end));
        if page.descending {
            sqlx::query!(
                "select item_key, turn_key, turn_id, item_id, kind, encoding, payload, items.started_at_ms,
                        items.completed_at_ms
                 from items join turns using (turn_key)
                 where item_key >= ?1 and item_key < ?2 order by item_key desc limit ?3",
                from,
                to,
                page.limit
            )
            .fetch_all(&mut *reader)
            .await?
            .into_iter()
            .map(|row| Ok(placed_item!(row)))
            .collect()
        } else {
            sqlx::query!(
                "select item_key, turn_key, turn_id, item_id, kind, encoding, payload, items.started_at_ms,
                        items.completed_at_ms
                 from items join turns using (turn_key)
                 where item_key >= ?1 and item_key < ?2 order by item_key limit ?3",
                from,
                to,
                page.limit
            )
            .fetch_all(&mut *reader)
            .await?
            .into_iter()
            .map(|row| Ok(placed_item!(row)))
            .collect()
        }
    }

    /// The items of the turns between two places (both included), turn by turn, each turn's in their order.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn items_of_turns(&self, first_place: i64, last_place: i64) -> Result<Vec<PlacedItem>> {
        let mut reader = self.reader().await?;
        sqlx::query!(
            "select item_key, turn_key, turn_id, item_id, kind, encoding, payload, items.started_at_ms,
                    items.completed_at_ms
             from turns cross join items using (turn_key)
             where turn_key between ?1 and ?2 order by turn_key, item_key",
            first_place,
            last_place
        )
        .fetch_all(&mut *reader)
        .await?
        .into_iter()
        .map(|row| Ok(placed_item!(row)))
        .collect()
    }

    /// The first user message and the last agent message of the turns between two places (both included).
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn summary_items_of_turns(&self, first_place: i64, last_place: i64) -> Result<Vec<PlacedItem>> {
        let mut reader = self.reader().await?;
        // Both kinds are named twice to show the planner that the partial index holds them.
        sqlx::query!(
            "select item_key, turn_key, turn_id, item_id, kind, encoding, payload, items.started_at_ms,
                    items.completed_at_ms
             from items cross join turns using (turn_key)
             where item_key in (
                 select (select min(item_key) from items
                         where items.turn_key = turns.turn_key and kind = 'userMessage'
                           and kind in ('userMessage', 'agentMessage'))
                 from turns where turn_key between ?1 and ?2
                 union all
                 select (select max(item_key) from items
                         where items.turn_key = turns.turn_key and kind = 'agentMessage'
                           and kind in ('userMessage', 'agentMessage'))
                 from turns where turn_key between ?1 and ?2)
             order by turn_key, item_key",
            first_place,
            last_place
        )
        .fetch_all(&mut *reader)
        .await?
        .into_iter()
        .map(|row| Ok(placed_item!(row)))
        .collect()
    }
}

/// Insert items at the end of their thread, or replace them by their ids; their places stay.
pub(super) async fn upsert<'a>(
    db: &mut SqliteConnection,
    thread_key: i64,
    next_place: i64,
    items: impl ExactSizeIterator<Item = (&'a ItemRow, &'a Packed)>,
    turn_keys: &mut HashMap<String, i64>,
) -> Result<()> {
    let first_key = key_range(thread_key).start + next_place;
    let mut rows = Vec::with_capacity(items.len());
    for (item_key, (item, packed)) in (first_key..).zip(items) {
        let turn_key = match turn_keys.get(&item.turn_id) {
            Some(turn_key) => *turn_key,
            None => {
                let turn_key = turns::key_of(db, thread_key, &item.turn_id).await?;
                turn_keys.insert(item.turn_id.clone(), turn_key);
                turn_key
            }
        };
        rows.push(NewItem { item_key, turn_key, item, packed });
    }
    let (many, few) = rows.as_chunks::<ROWS_A_STATEMENT>();
    for chunk in many {
        upsert_together(db, chunk).await?;
    }
    for row in few {
        upsert_together(db, std::slice::from_ref(row)).await?;
    }
    Ok(())
}

/// An item with its keys, packed.
pub(super) struct NewItem<'a> {
    pub(super) item_key: i64,
    pub(super) turn_key: i64,
    pub(super) item: &'a ItemRow,
    pub(super) packed: &'a Packed,
}

/// One statement; callers use few numbers of rows, so that their texts stay prepared.
pub(super) async fn upsert_together(db: &mut SqliteConnection, rows: &[NewItem<'_>]) -> Result<()> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "insert into items (item_key, turn_key, item_id, kind, encoding, payload, started_at_ms, completed_at_ms) ",
    );
    insert.push_values(rows, |mut values, row| {
        values
            .push_bind(row.item_key)
            .push_bind(row.turn_key)
            .push_bind(&row.item.item_id)
            .push_bind(&row.item.kind)
            .push_bind(row.packed.encoding);
        row.packed.payload.bind(&mut values);
        values.push_bind(row.item.started_at_ms).push_bind(row.item.completed_at_ms);
    });
    insert.push(
        " on conflict (turn_key, item_id) do update set
             kind = excluded.kind, encoding = excluded.encoding, payload = excluded.payload,
             started_at_ms = coalesce(excluded.started_at_ms, started_at_ms),
             completed_at_ms = coalesce(excluded.completed_at_ms, completed_at_ms)",
    );
    insert.build().execute(&mut *db).await?;
    for row in rows.iter().filter(|row| row.packed.payload.is_spooled()) {
        // One that was there has kept its key.
        let (turn_key, item_id) = (row.turn_key, &row.item.item_id);
        let item_key = sqlx::query_scalar!(
            "select item_key from items where turn_key = ?1 and item_id = ?2",
            turn_key,
            item_id
        )
        .fetch_one(&mut *db)
        .await?;
        row.packed.payload.fill(db, Blob::OfItem(item_key)).await?;
    }
    Ok(())
}
