//! Reading threads: `thread/read`, `thread/list`, `thread/turns/list`, `thread/items/list` and their cursors
//! (`protocol/threads.md`, sections 6 to 8). Nothing here loads a thread or waits for a turn.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::error::{Result, RuntimeError};
use super::thread::ThreadHandle;
use super::{Runtime, parse_id, view};
use crate::protocol::item::{
    ThreadItemEntry, ThreadItemsListAnchor, ThreadItemsListCursor, ThreadItemsListParams,
    ThreadItemsListResponse, ThreadItemsReadParams, ThreadItemsReadResponse,
};
use crate::protocol::thread::{
    SortDirection, Thread, ThreadListCwdFilter, ThreadListParams, ThreadListResponse, ThreadLoadedListParams,
    ThreadLoadedListResponse, ThreadReadParams, ThreadReadResponse, ThreadSortKey, ThreadStatus,
};
use crate::protocol::turn::{ThreadTurnsListParams, ThreadTurnsListResponse, Turn, TurnItemsView};
use crate::rollout::write::rfc3339;
use crate::store::items::PlacedItem;
use crate::store::list::{Anchor, SortKey, ThreadQuery};
use crate::store::rows::ThreadRow;
use crate::store::turns::{PageOf, PlacedTurn};

/// Rows of a page when the client names no number.
const DEFAULT_LIMIT: u32 = 25;

/// The most rows of a page.
const MAX_LIMIT: u32 = 100;

/// Turns whose items are read at a time.
const TURNS_AT_A_TIME: usize = 200;

/// Which items a turn is shown with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsView {
    /// None.
    NotLoaded,
    /// The first user message and the last agent message.
    Summary,
    /// All.
    Full,
}

impl From<TurnItemsView> for ItemsView {
    fn from(view: TurnItemsView) -> ItemsView {
        match view {
            TurnItemsView::NotLoaded => ItemsView::NotLoaded,
            TurnItemsView::Summary => ItemsView::Summary,
            TurnItemsView::Full => ItemsView::Full,
        }
    }
}

impl ItemsView {
    fn to_wire(self) -> TurnItemsView {
        match self {
            ItemsView::NotLoaded => TurnItemsView::NotLoaded,
            ItemsView::Summary => TurnItemsView::Summary,
            ItemsView::Full => TurnItemsView::Full,
        }
    }
}

/// Items that have started and are not stored yet: id and wire JSON.
type StartedItems = [(String, Box<RawValue>)];

impl Runtime {
    /// `thread/read`.
    ///
    /// # Errors
    /// The thread is unknown, or has no turns to be read.
    pub async fn read_thread(&self, params: ThreadReadParams) -> Result<ThreadReadResponse> {
        let thread_id = parse_id("thread", &params.thread_id)?;
        let include_turns = params.include_turns;
        if let Some(handle) = self.loaded(&thread_id) {
            let live = handle.live();
            if include_turns && live.ephemeral {
                return Err(RuntimeError::invalid("ephemeral threads do not support includeTurns"));
            }
            if include_turns && !live.has_turns {
                return Err(not_materialized(&thread_id, "includeTurns"));
            }
            let mut thread = self.thread_to_wire(&live).await?;
            if include_turns {
                thread.turns = self.all_turns(&thread_id, &live.started_items).await?;
            }
            return Ok(ThreadReadResponse { thread, read_state: None });
        }
        let row =
            self.find_row(&thread_id).await?.ok_or_else(|| RuntimeError::thread_not_loaded(&thread_id))?;
        let mut thread = view::thread(&row, ThreadStatus::NotLoaded);
        if include_turns {
            self.interrupt_if_cut(&thread_id).await?;
            thread.turns = self.all_turns(&thread_id, &[]).await?;
        }
        Ok(ThreadReadResponse { thread, read_state: None })
    }

    /// `thread/loaded/list`.
    ///
    /// # Errors
    /// A cursor that is no thread id.
    pub fn loaded_list(&self, params: &ThreadLoadedListParams) -> Result<ThreadLoadedListResponse> {
        let mut ids = self.loaded_ids();
        if let Some(cursor) = &params.cursor {
            let after = parse_id("thread", cursor).map_err(|_| invalid_cursor(cursor))?;
            ids.retain(|id| *id > after);
        }
        let mut next_cursor = None;
        if let Some(limit) = params.limit {
            let limit = limit.max(1) as usize;
            if ids.len() > limit {
                ids.truncate(limit);
                next_cursor = ids.last().cloned();
            }
        }
        Ok(ThreadLoadedListResponse { data: ids, next_cursor })
    }

    /// `thread/list`.
    ///
    /// # Errors
    /// A filter or cursor that cannot be.
    pub async fn list_threads(&self, params: ThreadListParams) -> Result<ThreadListResponse> {
        self.importer.indexed().await;
        let limit = page_limit(params.limit);
        let query = thread_query(&params, limit)?;
        let mut rows = self.store.threads_page(&query).await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next_cursor = rows.last().filter(|_| more).map(|row| thread_cursor(query.sort_key, row, false));
        let backwards_cursor = rows.first().map(|row| thread_cursor(query.sort_key, row, true));
        let data = rows.iter().map(|row| self.listed(row)).collect();
        Ok(ThreadListResponse { data, next_cursor, backwards_cursor, read_states: None })
    }

    /// A row of a list, with the live status of a loaded thread.
    fn listed(&self, row: &ThreadRow) -> Thread {
        let status = self.loaded(&row.thread_id).map(|handle| handle.with_live(|live| live.status.clone()));
        view::thread(row, status.unwrap_or(ThreadStatus::NotLoaded))
    }

    /// `thread/turns/list`.
    ///
    /// # Errors
    /// The thread is unknown or has no turns yet, or the cursor is not ours.
    pub async fn list_turns(&self, params: ThreadTurnsListParams) -> Result<ThreadTurnsListResponse> {
        let thread_id = self.readable(&params.thread_id, "thread/turns/list").await?;
        let view = params.items_view.map_or(ItemsView::Summary, ItemsView::from);
        let descending = params.sort_direction.is_none_or(|direction| direction == SortDirection::Desc);
        let (data, next_cursor, backwards_cursor) =
            self.turns_page(&thread_id, params.cursor.as_deref(), params.limit, descending, view).await?;
        Ok(ThreadTurnsListResponse { data, next_cursor, backwards_cursor })
    }

    /// `thread/items/list`.
    ///
    /// # Errors
    /// The thread is unknown or has no turns yet, or the cursor is not ours.
    pub async fn list_items(&self, params: ThreadItemsListParams) -> Result<ThreadItemsListResponse> {
        let thread_id = self.readable(&params.thread_id, "thread/items/list").await?;
        let descending = params.sort_direction == Some(SortDirection::Desc);
        let limit = i64::from(page_limit(params.limit));
        let mut items = match &params.turn_id {
            Some(turn_id) => self.items_of_turn(&thread_id, turn_id, descending).await?,
            None => Vec::new(),
        };
        let anchor = self.item_anchor(&thread_id, &params).await?;
        if params.turn_id.is_some() {
            items.retain(|item| anchor.is_none_or(|anchor| anchor.admits(item.place, descending)));
            items.truncate(limit as usize + 1);
        } else {
            let page = page_of(anchor, descending, limit + 1);
            items = self.store.items_page(&thread_id, page).await?;
        }
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = items.last().filter(|_| more).map(|item| place_cursor("items", item.place, false));
        let backwards_cursor = items.first().map(|item| place_cursor("items", item.place, true));
        let defer = params.defer_output.as_ref().is_some_and(|defer| defer.command_execution)
            && params.turn_id.is_some();
        let data = items.into_iter().map(|item| entry(item, defer)).collect::<Result<_>>()?;
        Ok(ThreadItemsListResponse { data, next_cursor, backwards_cursor })
    }

    /// `thread/items/read`.
    ///
    /// # Errors
    /// The thread is unknown, or the number of ids is out of bounds.
    pub async fn read_items(&self, params: ThreadItemsReadParams) -> Result<ThreadItemsReadResponse> {
        if params.item_ids.is_empty() || params.item_ids.len() > MAX_LIMIT as usize {
            return Err(RuntimeError::invalid("itemIds must contain 1 to 100 IDs"));
        }
        let thread_id = self.readable(&params.thread_id, "thread/items/read").await?;
        let mut items = self.items_of_turn(&thread_id, &params.turn_id, false).await?;
        items.retain(|item| params.item_ids.contains(&item.row.item_id));
        let data = items.into_iter().map(|item| entry(item, false)).collect::<Result<_>>()?;
        Ok(ThreadItemsReadResponse { data })
    }

    // Pages -------------------------------------------------------------------------------------------------------

    /// All turns of a thread with all their items, oldest first; started items join the running turn.
    pub(super) async fn all_turns(&self, thread_id: &str, started: &StartedItems) -> Result<Vec<Turn>> {
        let placed = self.store.all_turns(thread_id).await?;
        let mut turns = Vec::with_capacity(placed.len());
        for chunk in placed.chunks(TURNS_AT_A_TIME) {
            turns.extend(self.with_items(chunk, ItemsView::Full).await?);
        }
        if let Some(last) = turns.last_mut() {
            last.items.extend(started.iter().map(|(_, item)| item.clone()));
        }
        Ok(turns)
    }

    /// A page of turns with its cursors.
    pub(super) async fn turns_page(
        &self,
        thread_id: &str,
        cursor: Option<&str>,
        limit: Option<u32>,
        descending: bool,
        view: ItemsView,
    ) -> Result<(Vec<Turn>, Option<String>, Option<String>)> {
        let limit = page_limit(limit) as usize;
        let anchor = cursor.map(|cursor| read_place_cursor("turns", cursor)).transpose()?;
        let mut placed =
            self.store.turns_page(thread_id, page_of(anchor, descending, limit as i64 + 1)).await?;
        let more = placed.len() > limit;
        placed.truncate(limit);
        let next = placed.last().filter(|_| more).map(|turn| place_cursor("turns", turn.place, false));
        let backwards = placed.first().map(|turn| place_cursor("turns", turn.place, true));
        if descending {
            placed.reverse();
        }
        let mut turns = self.with_items(&placed, view).await?;
        if descending {
            turns.reverse();
        }
        Ok((turns, next, backwards))
    }

    /// Turns (oldest first) with their items.
    async fn with_items(&self, placed: &[PlacedTurn], view: ItemsView) -> Result<Vec<Turn>> {
        let (Some(first), Some(last)) = (placed.first(), placed.last()) else { return Ok(Vec::new()) };
        let items = match view {
            ItemsView::NotLoaded => Vec::new(),
            ItemsView::Summary => self.store.summary_items_of_turns(first.place, last.place).await?,
            ItemsView::Full => self.store.items_of_turns(first.place, last.place).await?,
        };
        let mut of_turn: HashMap<i64, Vec<Box<RawValue>>> = HashMap::new();
        for item in items {
            of_turn.entry(item.turn_place).or_default().push(stored(item.row.json)?);
        }
        Ok(placed
            .iter()
            .map(|turn| {
                view::turn(&turn.row, of_turn.remove(&turn.place).unwrap_or_default(), view.to_wire())
            })
            .collect())
    }

    async fn items_of_turn(
        &self,
        thread_id: &str,
        turn_id: &str,
        descending: bool,
    ) -> Result<Vec<PlacedItem>> {
        let Some(turn) = self.store.turn(thread_id, turn_id).await? else { return Ok(Vec::new()) };
        let mut items = self.store.items_of_turns(turn.place, turn.place).await?;
        if descending {
            items.reverse();
        }
        Ok(items)
    }

    /// Anchors at the newest turn and item, both included, for a descending list.
    pub(super) async fn newest_cursors(&self, thread_id: &str) -> Result<(Option<String>, Option<String>)> {
        let newest = PageOf { descending: true, limit: 1, ..PageOf::default() };
        let turn = self.store.turns_page(thread_id, newest).await?;
        let item = self.store.items_page(thread_id, newest).await?;
        Ok((
            turn.first().map(|turn| place_cursor("turns", turn.place, true)),
            item.first().map(|item| place_cursor("items", item.place, true)),
        ))
    }

    async fn item_anchor(&self, thread_id: &str, params: &ThreadItemsListParams) -> Result<Option<Place>> {
        match &params.cursor {
            None => Ok(None),
            Some(ThreadItemsListCursor::One(cursor)) => read_place_cursor("items", cursor).map(Some),
            Some(ThreadItemsListCursor::ThreadItemsListAnchor(ThreadItemsListAnchor::Item { item_id })) => {
                let turn_id = params.turn_id.as_deref().unwrap_or_default();
                let items = self.items_of_turn(thread_id, turn_id, false).await?;
                let found = items.iter().find(|item| item.row.item_id == *item_id);
                match found {
                    Some(item) => Ok(Some(Place { place: item.place, inclusive: false })),
                    None => Err(invalid_cursor(item_id)),
                }
            }
        }
    }

    /// The id of a thread whose turns can be listed.
    async fn readable(&self, thread_id: &str, method: &str) -> Result<String> {
        let thread_id = parse_id("thread", thread_id)?;
        if let Some(handle) = self.loaded(&thread_id) {
            let (ephemeral, has_turns) = handle.with_live(|live| (live.ephemeral, live.has_turns));
            if ephemeral {
                return Err(match method {
                    "thread/turns/list" => {
                        RuntimeError::invalid(format!("ephemeral threads do not support {method}"))
                    }
                    _ => RuntimeError::Unsupported(format!("{method} is not supported yet")),
                });
            }
            return if has_turns { Ok(thread_id) } else { Err(not_materialized(&thread_id, method)) };
        }
        if self.find_row(&thread_id).await?.is_none() {
            return Err(RuntimeError::thread_not_loaded(&thread_id));
        }
        self.interrupt_if_cut(&thread_id).await?;
        Ok(thread_id)
    }

    /// A turn that nobody runs any more is `interrupted`.
    async fn interrupt_if_cut(&self, thread_id: &str) -> Result<()> {
        let newest = PageOf { descending: true, limit: 1, ..PageOf::default() };
        let last = self.store.turns_page(thread_id, newest).await?;
        if last.first().is_some_and(|turn| turn.row.status == "inProgress")
            && !self.store.turn_is_held(thread_id).await?
        {
            self.store.interrupt_cut_turns(Some(thread_id)).await?;
        }
        Ok(())
    }
}

/// Used by handlers that need a loaded thread.
pub(super) fn handle_of(runtime: &Arc<Runtime>, thread_id: &str) -> Result<ThreadHandle> {
    let thread_id = parse_id("thread", thread_id)?;
    runtime.must_be_loaded(&thread_id)
}

fn not_materialized(thread_id: &str, what: &str) -> RuntimeError {
    RuntimeError::invalid(format!(
        "thread {thread_id} is not materialized yet; {what} is unavailable before first user message"
    ))
}

fn invalid_cursor(cursor: &str) -> RuntimeError {
    RuntimeError::invalid(format!("invalid cursor: {cursor}"))
}

fn page_limit(limit: Option<u32>) -> u32 {
    limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
}

/// Stored JSON, passed on as it is.
fn stored(json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json)
        .map_err(|error| RuntimeError::Failed(format!("reading a stored item: {error}")))
}

fn entry(item: PlacedItem, defer_output: bool) -> Result<ThreadItemEntry> {
    let row = item.row;
    let deferred = defer_output && row.kind == "commandExecution";
    let json = if deferred {
        let mut value: Value = serde_json::from_str(&row.json).unwrap_or_default();
        value["aggregatedOutput"] = Value::Null;
        value.to_string()
    } else {
        row.json
    };
    Ok(ThreadItemEntry {
        turn_id: row.turn_id,
        item: stored(json)?,
        started_at_ms: row.started_at_ms,
        completed_at_ms: row.completed_at_ms,
        output_deferred: deferred,
    })
}

// Cursors of turns and items ----------------------------------------------------------------------------------------

/// A row's place, which a page starts after or at.
#[derive(Clone, Copy, Debug)]
struct Place {
    place: i64,
    inclusive: bool,
}

impl Place {
    fn admits(self, place: i64, descending: bool) -> bool {
        (self.inclusive && place == self.place)
            || if descending { place < self.place } else { place > self.place }
    }
}

fn page_of(anchor: Option<Place>, descending: bool, limit: i64) -> PageOf {
    let mut page = PageOf { descending, limit, ..PageOf::default() };
    if let Some(Place { place, inclusive }) = anchor {
        if descending {
            page.before = Some(place + i64::from(inclusive));
        } else {
            page.after = Some(place - i64::from(inclusive));
        }
    }
    page
}

fn place_cursor(kind: &str, place: i64, inclusive: bool) -> String {
    json!({"scope": kind, "place": place, "includeAnchor": inclusive}).to_string()
}

fn read_place_cursor(kind: &str, cursor: &str) -> Result<Place> {
    let value: Value = serde_json::from_str(cursor).map_err(|_| invalid_cursor(cursor))?;
    match (value["scope"] == kind, value["place"].as_i64(), value["includeAnchor"].as_bool()) {
        (true, Some(place), Some(inclusive)) => Ok(Place { place, inclusive }),
        _ => Err(invalid_cursor(cursor)),
    }
}

// Lists of threads --------------------------------------------------------------------------------------------------

fn thread_query(params: &ThreadListParams, limit: u32) -> Result<ThreadQuery> {
    let sort_key = match params.sort_key {
        None | Some(ThreadSortKey::CreatedAt) => SortKey::Created,
        Some(ThreadSortKey::UpdatedAt) => SortKey::Updated,
        Some(ThreadSortKey::RecencyAt) => SortKey::Recency,
        Some(ThreadSortKey::SectionPosition) => SortKey::SectionPosition,
    };
    if sort_key == SortKey::SectionPosition && !matches!(params.section_id, Some(Some(_))) {
        return Err(RuntimeError::invalid("section-position sorting requires a section filter"));
    }
    if params.parent_thread_id.is_some() && params.ancestor_thread_id.is_some() {
        return Err(RuntimeError::invalid("parentThreadId and ancestorThreadId are mutually exclusive"));
    }
    if params.originators.is_some() {
        return Err(RuntimeError::Limit {
            message: "originator filtering is not supported by the local app-server".to_owned(),
            data: None,
        });
    }
    let kinds: Vec<String> = params.source_kinds.iter().flatten().map(wire_word).collect();
    let source_kinds = if kinds.is_empty() { vec!["cli".to_owned(), "vscode".to_owned()] } else { kinds };
    let model_providers = params.model_providers.clone().filter(|providers| !providers.is_empty());
    Ok(ThreadQuery {
        archived: params.archived.unwrap_or(false),
        cwds: params.cwd.as_ref().map(|cwd| match cwd {
            ThreadListCwdFilter::One(cwd) => vec![cwd.clone()],
            ThreadListCwdFilter::List(cwds) => cwds.clone(),
        }),
        model_providers,
        source_kinds: Some(expand_kinds(source_kinds)),
        search: params.search_term.clone(),
        included_ids: ids(params.included_thread_ids.as_deref(), "included")?,
        excluded_ids: ids(params.excluded_thread_ids.as_deref(), "excluded")?,
        parent_id: params.parent_thread_id.as_deref().map(|id| parse_id("parent thread", id)).transpose()?,
        ancestor_id: params
            .ancestor_thread_id
            .as_deref()
            .map(|id| parse_id("ancestor thread", id))
            .transpose()?,
        attached_to_id: params.attached_to_thread_id.clone(),
        include_attached: params.include_attached_threads,
        section_id: params.section_id.clone(),
        project_id: params.project_id.clone(),
        sort_key,
        ascending: params.sort_direction == Some(SortDirection::Asc),
        anchor: params.cursor.as_deref().map(read_thread_cursor).transpose()?,
        limit: i64::from(limit) + 1,
    })
}

/// `subAgent` stands for all kinds of sub-agents.
fn expand_kinds(mut kinds: Vec<String>) -> Vec<String> {
    if kinds.iter().any(|kind| kind == "subAgent") {
        kinds.extend(
            ["subAgentReview", "subAgentCompact", "subAgentThreadSpawn", "subAgentOther"].map(str::to_owned),
        );
    }
    kinds
}

fn wire_word<T: serde::Serialize>(word: &T) -> String {
    serde_json::to_value(word).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn ids(list: Option<&[String]>, what: &str) -> Result<Option<Vec<String>>> {
    let Some(list) = list else { return Ok(None) };
    let limit = |message: String| RuntimeError::Limit { message, data: None };
    if list.len() > MAX_LIMIT as usize {
        return Err(limit(format!("{what}ThreadIds accepts at most 100 entries")));
    }
    let parse = |id: &String| {
        crate::protocol::id::ThreadId::parse(id)
            .map(|id| id.to_string())
            .map_err(|error| limit(format!("invalid {what} thread id: {error}")))
    };
    list.iter().map(parse).collect::<Result<Vec<_>>>().map(Some)
}

fn thread_cursor(sort_key: SortKey, row: &ThreadRow, inclusive: bool) -> String {
    let value = sort_key.value(row);
    let value = if sort_key == SortKey::SectionPosition { value.to_string() } else { rfc3339(value) };
    let mark = if inclusive { "=" } else { "" };
    format!("{value}|{mark}{}", row.thread_id)
}

fn read_thread_cursor(cursor: &str) -> Result<Anchor> {
    let bad = || invalid_cursor(cursor);
    let (value, id) = cursor.split_once('|').ok_or_else(bad)?;
    let value = match value.parse::<i64>() {
        Ok(position) => position,
        Err(_) => chrono::DateTime::parse_from_rfc3339(value).map_err(|_| bad())?.timestamp_millis(),
    };
    let (inclusive, id) = id.strip_prefix('=').map_or((false, id), |id| (true, id));
    Ok(Anchor { value, thread_id: id.to_owned(), inclusive })
}
