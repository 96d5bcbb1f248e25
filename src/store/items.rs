//! Items of turns: wire JSON, stored as it is sent.

use sqlx::SqliteConnection;

use super::error::{Result, StoreError};
use super::journal::{pack, unpack};
use super::rows::ItemRow;
use super::turns::PageOf;
use super::{Store, key_range};

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
        let json = String::from_utf8(unpack(row.encoding, row.payload)?)
            .map_err(|error| StoreError::Database(format!("reading item {}: {error}", row.item_id)))?;
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
        let Some(thread_key) = self.thread_key(thread_id).await? else { return Ok(Vec::new()) };
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
            .fetch_all(&self.readers)
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
            .fetch_all(&self.readers)
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
        sqlx::query!(
            "select item_key, turn_key, turn_id, item_id, kind, encoding, payload, items.started_at_ms,
                    items.completed_at_ms
             from items join turns using (turn_key)
             where turn_key between ?1 and ?2 order by turn_key, item_key",
            first_place,
            last_place
        )
        .fetch_all(&self.readers)
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
        sqlx::query!(
            "select item_key, turn_key, turn_id, item_id, kind, encoding, payload, items.started_at_ms,
                    items.completed_at_ms
             from items join turns using (turn_key)
             where item_key in (
                 select min(item_key) from items where turn_key between ?1 and ?2 and kind = 'userMessage'
                 group by turn_key
                 union all
                 select max(item_key) from items where turn_key between ?1 and ?2 and kind = 'agentMessage'
                 group by turn_key)
             order by turn_key, item_key",
            first_place,
            last_place
        )
        .fetch_all(&self.readers)
        .await?
        .into_iter()
        .map(|row| Ok(placed_item!(row)))
        .collect()
    }
}

/// Insert an item at the end of its thread, or replace it by its id; its place stays.
pub(super) async fn upsert(db: &mut SqliteConnection, thread_key: i64, item: &ItemRow) -> Result<()> {
    let keys = key_range(thread_key);
    let (from, to) = (keys.start, keys.end);
    let (encoding, payload) = pack(item.json.as_bytes());
    let payload: &[u8] = &payload;
    sqlx::query!(
        "insert into items (item_key, turn_key, item_id, kind, encoding, payload, started_at_ms, completed_at_ms)
         select coalesce((select max(item_key) + 1 from items where item_key >= ?1 and item_key < ?2), ?1), turn_key,
                ?5, ?6, ?7, ?8, ?9, ?10
         from turns where thread_key = ?3 and turn_id = ?4
         on conflict (turn_key, item_id) do update set
             kind = excluded.kind, encoding = excluded.encoding, payload = excluded.payload,
             started_at_ms = excluded.started_at_ms, completed_at_ms = excluded.completed_at_ms",
        from,
        to,
        thread_key,
        item.turn_id,
        item.item_id,
        item.kind,
        encoding,
        payload,
        item.started_at_ms,
        item.completed_at_ms
    )
    .execute(db)
    .await?;
    Ok(())
}
