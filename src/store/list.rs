//! Lists of threads: filters, order and pages of `thread/list` (`protocol/threads.md`, section 7).

use sqlx::AssertSqlSafe;

use super::Store;
use super::error::Result;
use super::rows::ThreadRow;

/// What a list is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// When a thread was made.
    #[default]
    Created,
    /// When it was last written to.
    Updated,
    /// When its last turn started.
    Recency,
    /// Its place in its section.
    SectionPosition,
}

impl SortKey {
    fn column(self) -> &'static str {
        match self {
            SortKey::Created => "created_at_ms",
            SortKey::Updated => "updated_at_ms",
            SortKey::Recency => "recency_at_ms",
            SortKey::SectionPosition => "section_position",
        }
    }

    /// The value of a thread in this order.
    pub fn value(self, row: &ThreadRow) -> i64 {
        match self {
            SortKey::Created => row.created_at_ms,
            SortKey::Updated => row.updated_at_ms,
            SortKey::Recency => row.recency_at_ms,
            SortKey::SectionPosition => row.section_position.unwrap_or(0),
        }
    }
}

/// Where a page starts: a row's place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The row's value of the sort key.
    pub value: i64,
    /// The row's thread id.
    pub thread_id: String,
    /// Whether the page holds the row itself.
    pub inclusive: bool,
}

/// Which threads are listed. An absent filter lets everything through; an empty list lets nothing through.
#[derive(Clone, Debug, Default)]
pub struct ThreadQuery {
    /// Archived threads instead of active ones.
    pub archived: bool,
    /// Exact working directories.
    pub cwds: Option<Vec<String>>,
    /// Provider ids.
    pub model_providers: Option<Vec<String>>,
    /// Source kinds.
    pub source_kinds: Option<Vec<String>>,
    /// Case-sensitive part of the name or the preview.
    pub search: Option<String>,
    /// Only these ids.
    pub included_ids: Option<Vec<String>>,
    /// Not these ids.
    pub excluded_ids: Option<Vec<String>>,
    /// Children of this thread.
    pub parent_id: Option<String>,
    /// Descendants of this thread.
    pub ancestor_id: Option<String>,
    /// Forks attached to this thread.
    pub attached_to_id: Option<String>,
    /// Attached forks too.
    pub include_attached: bool,
    /// `Some(None)`: threads without a section.
    pub section_id: Option<Option<String>>,
    /// `Some(None)`: threads without a project.
    pub project_id: Option<Option<String>>,
    /// The order.
    pub sort_key: SortKey,
    /// Smallest first.
    pub ascending: bool,
    /// Where the page starts.
    pub anchor: Option<Anchor>,
    /// The most rows.
    pub limit: i64,
}

impl Store {
    /// A page of threads.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn threads_page(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>> {
        let mut reader = self.reader().await?;
        let sql = page_sql(query);
        let json = |list: &Option<Vec<String>>| list.as_ref().map(|list| serde_json::json!(list).to_string());
        let (has_section, section) = (query.section_id.is_some(), query.section_id.clone().flatten());
        let (has_project, project) = (query.project_id.is_some(), query.project_id.clone().flatten());
        let anchor = query.anchor.as_ref();
        let rows = sqlx::query_as(AssertSqlSafe(sql))
            .bind(query.archived)
            .bind(json(&query.cwds))
            .bind(json(&query.model_providers))
            .bind(json(&query.source_kinds))
            .bind(query.search.as_deref().filter(|term| !term.is_empty()))
            .bind(json(&query.included_ids))
            .bind(json(&query.excluded_ids))
            .bind(&query.parent_id)
            .bind(&query.ancestor_id)
            .bind(&query.attached_to_id)
            .bind(query.include_attached)
            .bind(has_section)
            .bind(section)
            .bind(has_project)
            .bind(project)
            .bind(anchor.map(|anchor| anchor.value))
            .bind(anchor.map(|anchor| anchor.thread_id.as_str()))
            .bind(query.limit)
            .fetch_all(&mut *reader)
            .await?;
        Ok(rows)
    }
}

/// The statement of a page. Its parts are constants chosen by the query's closed enums and flags (this is the proof
/// for `AssertSqlSafe`); all values are bound. Filters that are absent are left out, so that the planner sees the
/// index that the order needs.
fn page_sql(query: &ThreadQuery) -> String {
    let column = query.sort_key.column();
    let mut filters = vec!["archived = ?1"];
    // A thread without a preview is listed only where somebody has placed it.
    if !matches!(query.section_id, Some(Some(_))) {
        filters.push("preview <> ''");
    }
    let optional = [
        (query.cwds.is_some(), "cwd in (select value from json_each(?2))"),
        (query.model_providers.is_some(), "model_provider in (select value from json_each(?3))"),
        (query.source_kinds.is_some(), "source_kind in (select value from json_each(?4))"),
        (
            query.search.is_some(),
            "(?5 is null or instr(preview, ?5) > 0 or instr(coalesce(name, ''), ?5) > 0)",
        ),
        (query.included_ids.is_some(), "thread_id in (select value from json_each(?6))"),
        (query.excluded_ids.is_some(), "thread_id not in (select value from json_each(?7))"),
        (query.parent_id.is_some(), "parent_thread_id = ?8"),
        (
            query.ancestor_id.is_some(),
            "thread_id in (with recursive below (id) as (
                 select thread_id from threads where parent_thread_id = ?9
                 union select thread_id from threads join below on parent_thread_id = below.id)
             select id from below)",
        ),
        (query.attached_to_id.is_some(), "attached_to_thread_id = ?10"),
        (query.attached_to_id.is_none() && !query.include_attached, "attached_to_thread_id is null"),
        // Not `is ?13` for both: a partial index serves only `=`.
        (matches!(query.section_id, Some(Some(_))), "section_id = ?13"),
        (matches!(query.section_id, Some(None)), "section_id is null"),
        (matches!(query.project_id, Some(Some(_))), "project_id = ?15"),
        (matches!(query.project_id, Some(None)), "project_id is null"),
    ];
    filters.extend(optional.into_iter().filter(|(wanted, _)| *wanted).map(|(_, filter)| filter));
    let (compare, order) =
        match (query.ascending, query.anchor.as_ref().is_some_and(|anchor| anchor.inclusive)) {
            (true, true) => (">=", "asc"),
            (true, false) => (">", "asc"),
            (false, true) => ("<=", "desc"),
            (false, false) => ("<", "desc"),
        };
    let filters = filters.join(" and ");
    let from = if query.anchor.is_some() {
        format!("and ({column}, thread_id) {compare} (?16, ?17)")
    } else {
        String::new()
    };
    format!(
        "select * from threads where {filters} {from} order by {column} {order}, thread_id {order} limit ?18"
    )
}
