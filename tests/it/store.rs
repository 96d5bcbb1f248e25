//! The store on real files: what is acknowledged is there, what fails leaves nothing, and files that are not ours stay
//! as they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use threadkeep::clock::Clock;
use threadkeep::store::fork::Fork;
use threadkeep::store::list::{Anchor, SortKey, ThreadQuery};
use threadkeep::store::rollout_files::{
    FileImport, ImportProblem, Packer, PreparedImports, RolloutFileRow, Urgency,
};
use threadkeep::store::rows::{
    Append, ItemRow, LeaseChange, Lines, ThreadPatch, ThreadRow, TokenCounts, TurnRow, UsageRow,
};
use threadkeep::store::turns::PageOf;
use threadkeep::store::{OpenOptions, Store, StoreError};

struct Home {
    directory: tempfile::TempDir,
    clock: Clock,
}

impl Home {
    fn new() -> Home {
        Home { directory: tempfile::tempdir().unwrap(), clock: Clock::fixed(1_780_000_000_000) }
    }

    fn database(&self) -> PathBuf {
        self.directory.path().join("threadkeep.sqlite")
    }

    async fn open(&self) -> Store {
        Store::open(&self.database(), self.clock.clone()).await.unwrap()
    }

    /// A connection of another program to the same file.
    async fn outsider(&self) -> SqliteConnection {
        outsider(&self.database()).await
    }
}

async fn outsider(path: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    SqliteConnection::connect_with(&options).await.unwrap()
}

fn thread(thread_id: &str) -> ThreadRow {
    ThreadRow {
        thread_id: thread_id.to_owned(),
        session_id: thread_id.to_owned(),
        preview: format!("preview of {thread_id}"),
        source_json: r#""vscode""#.to_owned(),
        source_kind: "vscode".to_owned(),
        cli_version: "0.1.0".to_owned(),
        model_provider: "openai".to_owned(),
        cwd: "/work".to_owned(),
        settings_json: "{}".to_owned(),
        history_mode: "paginated".to_owned(),
        created_at_ms: 1_000,
        updated_at_ms: 1_000,
        recency_at_ms: 1_000,
        ..ThreadRow::default()
    }
}

fn create(thread_id: &str) -> Append {
    Append { thread_id: thread_id.to_owned(), create: Some(Box::new(thread(thread_id))), ..Append::default() }
}

fn lines(texts: &[&str]) -> Lines {
    let bytes = texts.iter().flat_map(|text| format!("{text}\n").into_bytes()).collect();
    Lines { bytes, count: texts.len() as i64 }
}

fn turn(turn_id: &str, status: &str) -> TurnRow {
    TurnRow { turn_id: turn_id.to_owned(), status: status.to_owned(), ..TurnRow::default() }
}

fn item(turn_id: &str, item_id: &str, kind: &str, json: &str) -> ItemRow {
    ItemRow {
        turn_id: turn_id.to_owned(),
        item_id: item_id.to_owned(),
        kind: kind.to_owned(),
        json: json.to_owned(),
        started_at_ms: None,
        completed_at_ms: None,
    }
}

fn usage(response_id: &str, total: i64) -> UsageRow {
    UsageRow {
        turn_id: "turn-1".to_owned(),
        response_id: response_id.to_owned(),
        at_ms: 1_000,
        tokens: TokenCounts { total, ..TokenCounts::default() },
        ..UsageRow::default()
    }
}

fn change(thread_id: &str) -> Append {
    Append { thread_id: thread_id.to_owned(), ..Append::default() }
}

async fn journal(store: &Store, thread_id: &str) -> Vec<u8> {
    store.journal_from_byte(thread_id, 0, i64::MAX).await.unwrap()
}

#[tokio::test]
async fn what_append_acknowledges_is_there_after_opening_again() {
    let home = Home::new();
    let store = home.open().await;
    let append = Append {
        lines: lines(&["{\"a\":1}", "{\"b\":2}"]),
        turns: vec![turn("turn-1", "inProgress")],
        items: vec![item("turn-1", "item-1", "userMessage", r#"{"text":"hello"}"#)],
        usage: vec![usage("response-1", 7)],
        patch: ThreadPatch { name: Some(Some("named".to_owned())), ..ThreadPatch::default() },
        ..create("thread-1")
    };
    let appended = store.append(append).await.unwrap();
    assert_eq!((appended.lines, appended.bytes, appended.total_usage.total), (0..2, 0..16, 7));
    store.close().await;

    let store = home.open().await;
    let row = store.thread("thread-1").await.unwrap().unwrap();
    assert_eq!((row.name.as_deref(), row.journal_lines, row.journal_bytes), (Some("named"), 2, 16));
    assert_eq!(journal(&store, "thread-1").await, b"{\"a\":1}\n{\"b\":2}\n");
    let turns = store.all_turns("thread-1").await.unwrap();
    assert_eq!(turns.iter().map(|turn| turn.row.turn_id.as_str()).collect::<Vec<_>>(), ["turn-1"]);
    let items = store.items_of_turns(turns[0].place, turns[0].place).await.unwrap();
    assert_eq!(items[0].row.json, r#"{"text":"hello"}"#);
    assert_eq!(store.last_usage("thread-1").await.unwrap().unwrap().total.total, 7);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn append_again_updates_turns_and_items_in_place() {
    let home = Home::new();
    let store = home.open().await;
    let first = Append {
        lines: lines(&["one"]),
        turns: vec![turn("turn-1", "inProgress")],
        items: vec![item("turn-1", "a", "plan", "1"), item("turn-1", "b", "plan", "2")],
        ..create("thread-1")
    };
    store.append(first).await.unwrap();
    let second = Append {
        lines: lines(&["two"]),
        turns: vec![
            TurnRow { first_line: 99, end_line: 2, ..turn("turn-1", "completed") },
            turn("turn-2", "inProgress"),
        ],
        items: vec![item("turn-1", "a", "plan", "3"), item("turn-2", "a", "plan", "4")],
        ..change("thread-1")
    };
    assert_eq!(store.append(second).await.unwrap().lines, 1..2);
    let turns = store.all_turns("thread-1").await.unwrap();
    let states: Vec<_> = turns
        .iter()
        .map(|turn| (turn.row.turn_id.as_str(), turn.row.status.as_str(), turn.row.first_line))
        .collect();
    assert_eq!(states, [("turn-1", "completed", 0), ("turn-2", "inProgress", 0)]);
    let items = store.items_page("thread-1", PageOf { limit: 10, ..PageOf::default() }).await.unwrap();
    let found: Vec<_> =
        items.iter().map(|item| (item.row.item_id.as_str(), item.row.json.as_str())).collect();
    assert_eq!(found, [("a", "3"), ("b", "2"), ("a", "4")]);
}

#[tokio::test]
async fn usage_with_a_response_id_that_is_there_is_not_charged_again() {
    let home = Home::new();
    let store = home.open().await;
    let mut row = thread("thread-1");
    row.inherited_usage.total = 100;
    let append = Append {
        create: Some(Box::new(row)),
        usage: vec![usage("r1", 1), usage("r2", 2), usage("r1", 50)],
        ..change("thread-1")
    };
    assert_eq!(store.append(append).await.unwrap().total_usage.total, 103);
    let again = Append { usage: vec![usage("r2", 9), usage("r3", 4)], ..change("thread-1") };
    assert_eq!(store.append(again).await.unwrap().total_usage.total, 107);
    assert_eq!(store.append(change("thread-1")).await.unwrap().total_usage.total, 107);
    assert_eq!(store.usage_totals("thread-1").await.unwrap().unwrap().total, 107);
    let last = store.last_usage("thread-1").await.unwrap().unwrap();
    assert_eq!((last.last.total, last.total.total), (4, 107));
}

#[tokio::test]
async fn append_that_fails_leaves_nothing() {
    let home = Home::new();
    let store = home.open().await;
    store.append(Append { lines: lines(&["one"]), ..create("thread-1") }).await.unwrap();

    let moved = Append { expected_lines: Some(5), lines: lines(&["two"]), ..change("thread-1") };
    assert!(matches!(store.append(moved).await, Err(StoreError::JournalMoved(id)) if id == "thread-1"));
    let bad_status = Append {
        lines: lines(&["two"]),
        turns: vec![turn("turn-1", "inProgress"), turn("turn-2", "dreaming")],
        ..change("thread-1")
    };
    assert!(store.append(bad_status).await.is_err());
    assert!(store.append(create("thread-1")).await.is_err());
    let unknown = store.append(change("thread-2")).await;
    assert!(matches!(unknown, Err(StoreError::NoThread(id)) if id == "thread-2"));

    assert_eq!(journal(&store, "thread-1").await, b"one\n");
    assert_eq!(store.all_turns("thread-1").await.unwrap(), []);
}

#[tokio::test]
async fn append_of_an_item_without_its_turn_is_refused() {
    let home = Home::new();
    let store = home.open().await;
    let append = Append { items: vec![item("nowhere", "item-1", "plan", "{}")], ..create("thread-1") };
    assert!(store.append(append).await.is_err());
    assert_eq!(store.thread("thread-1").await.unwrap(), None);
}

#[tokio::test]
async fn preview_is_taken_only_while_it_is_empty() {
    let home = Home::new();
    let store = home.open().await;
    let row = ThreadRow { preview: String::new(), ..thread("thread-1") };
    store.append(Append { create: Some(Box::new(row)), ..change("thread-1") }).await.unwrap();
    for preview in ["first", "second"] {
        let patch = ThreadPatch { preview_if_empty: Some(preview.to_owned()), ..ThreadPatch::default() };
        store.append(Append { patch, ..change("thread-1") }).await.unwrap();
    }
    assert_eq!(store.thread("thread-1").await.unwrap().unwrap().preview, "first");
}

#[tokio::test]
async fn patch_sets_clears_and_keeps_members() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    let set = ThreadPatch {
        name: Some(Some("name".to_owned())),
        git_branch: Some(Some("main".to_owned())),
        archived_at_ms: Some(Some(5)),
        memory_mode: Some("disabled".to_owned()),
        ..ThreadPatch::default()
    };
    store.patch_thread("thread-1", set).await.unwrap();
    let clear = ThreadPatch { name: Some(None), archived_at_ms: Some(None), ..ThreadPatch::default() };
    let row = store.patch_thread("thread-1", clear).await.unwrap().unwrap();
    let expected = ThreadRow {
        git_branch: Some("main".to_owned()),
        memory_mode: Some("disabled".to_owned()),
        ..thread("thread-1")
    };
    assert_eq!(row, expected);
    assert_eq!(store.patch_thread("thread-2", ThreadPatch::default()).await.unwrap(), None);
}

#[tokio::test]
async fn journal_of_many_sizes_is_read_from_any_line_and_any_byte() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("other")).await.unwrap();
    store.append(Append { lines: lines(&["of another"]), ..change("other") }).await.unwrap();
    store.append(create("thread-1")).await.unwrap();
    let mut expected: Vec<String> = Vec::new();
    for round in 0..40 {
        // Short, compressible, and one that is longer than a run.
        let texts: Vec<String> = match round {
            20 => vec!["y".repeat(300_000), "short".to_owned()],
            30 => (0..3_000)
                .map(|number| format!("{{\"line\":{number},\"text\":\"some more of it\"}}"))
                .collect(),
            _ => vec![format!("round {round}"), "z".repeat(round * 100)],
        };
        let given = lines(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        store.append(Append { lines: given, ..change("thread-1") }).await.unwrap();
        expected.extend(texts);
    }
    let whole: Vec<u8> = expected.iter().flat_map(|text| format!("{text}\n").into_bytes()).collect();
    assert_eq!(journal(&store, "thread-1").await, whole);
    for byte in [0, 1, 500, 40_000, 300_000, whole.len() - 1, whole.len()] {
        let mut read = Vec::new();
        loop {
            let more = store.journal_from_byte("thread-1", (byte + read.len()) as i64, 2).await.unwrap();
            if more.is_empty() {
                break;
            }
            read.extend(more);
        }
        assert_eq!(read, whole[byte..]);
    }
    for line in [0, 1, 39, 40, 41, 42, 1_500, expected.len() - 1, expected.len()] {
        let mut next = line as i64;
        let mut read: Vec<String> = Vec::new();
        loop {
            let runs = store.journal_from_line("thread-1", next, 3).await.unwrap();
            let Some(first) = runs.first() else { break };
            let surplus = (next - first.first_line) as usize;
            let bytes: Vec<u8> = runs.iter().flat_map(|run| run.bytes.clone()).collect();
            let text = String::from_utf8(bytes).unwrap();
            read.extend(text.lines().skip(surplus).map(str::to_owned));
            next = line as i64 + read.len() as i64;
        }
        assert_eq!(read, expected[line..]);
    }
}

#[tokio::test]
async fn items_with_long_json_come_back_as_they_went_in() {
    let home = Home::new();
    let store = home.open().await;
    let long = format!(r#"{{"text":"{}","ü":[1, 2]}}"#, "again and ".repeat(5_000));
    let items = (0..100).map(|number| item("turn-1", &format!("item-{number}"), "plan", &long)).collect();
    let append = Append { turns: vec![turn("turn-1", "completed")], items, ..create("thread-1") };
    store.append(append).await.unwrap();
    let items = store.items_page("thread-1", PageOf { limit: 200, ..PageOf::default() }).await.unwrap();
    let ids: Vec<_> = items.iter().map(|item| item.row.item_id.clone()).collect();
    assert_eq!(ids, (0..100).map(|number| format!("item-{number}")).collect::<Vec<_>>());
    assert!(items.iter().all(|item| item.row.json == long));
}

#[tokio::test]
async fn pages_of_turns_and_items_hold_each_row_once_in_both_directions() {
    let home = Home::new();
    let store = home.open().await;
    let turns: Vec<_> = (0..23).map(|number| turn(&format!("turn-{number}"), "completed")).collect();
    let items = (0..23).map(|number| item(&format!("turn-{number}"), "item", "plan", "{}")).collect();
    store.append(Append { turns: turns.clone(), items, ..create("thread-1") }).await.unwrap();
    store.append(Append { turns: vec![turn("turn-x", "completed")], ..create("thread-2") }).await.unwrap();
    let ids: Vec<_> = turns.iter().map(|turn| turn.turn_id.clone()).collect();
    for descending in [false, true] {
        let mut page = PageOf { descending, limit: 5, ..PageOf::default() };
        let (mut seen, mut seen_items) = (Vec::new(), Vec::new());
        loop {
            let rows = store.turns_page("thread-1", page).await.unwrap();
            let Some(last) = rows.last() else { break };
            if descending {
                page.before = Some(last.place)
            } else {
                page.after = Some(last.place)
            }
            seen.extend(rows.into_iter().map(|turn| turn.row.turn_id));
        }
        let mut page = PageOf { descending, limit: 5, ..PageOf::default() };
        loop {
            let rows = store.items_page("thread-1", page).await.unwrap();
            let Some(last) = rows.last() else { break };
            if descending {
                page.before = Some(last.place)
            } else {
                page.after = Some(last.place)
            }
            seen_items.extend(rows.into_iter().map(|item| item.row.turn_id));
        }
        if descending {
            seen.reverse();
            seen_items.reverse();
        }
        assert_eq!(seen, ids);
        assert_eq!(seen_items, ids);
    }
}

#[tokio::test]
async fn summary_holds_the_first_user_message_and_the_last_agent_message() {
    let home = Home::new();
    let store = home.open().await;
    let items = vec![
        item("turn-1", "u1", "userMessage", "{}"),
        item("turn-1", "a1", "agentMessage", "{}"),
        item("turn-1", "u2", "userMessage", "{}"),
        item("turn-1", "a2", "agentMessage", "{}"),
        item("turn-1", "p", "plan", "{}"),
        item("turn-2", "p", "plan", "{}"),
        item("turn-3", "a", "agentMessage", "{}"),
    ];
    let turns = ["turn-1", "turn-2", "turn-3"].map(|turn_id| turn(turn_id, "completed")).to_vec();
    store.append(Append { turns, items, ..create("thread-1") }).await.unwrap();
    let turns = store.all_turns("thread-1").await.unwrap();
    let items = store.summary_items_of_turns(turns[0].place, turns[2].place).await.unwrap();
    let ids: Vec<_> = items.iter().map(|item| item.row.item_id.as_str()).collect();
    assert_eq!(ids, ["u1", "a2", "a"]);
}

#[tokio::test]
async fn turn_is_found_by_the_client_message_that_started_it() {
    let home = Home::new();
    let store = home.open().await;
    let started = TurnRow { client_user_message_id: Some("mine".to_owned()), ..turn("turn-1", "inProgress") };
    store.append(Append { turns: vec![started], ..create("thread-1") }).await.unwrap();
    let ended = Append { turns: vec![turn("turn-1", "completed")], ..change("thread-1") };
    store.append(ended).await.unwrap();
    let found = store.turn_of_client_message("thread-1", "mine").await.unwrap().unwrap();
    assert_eq!((found.row.turn_id.as_str(), found.row.status.as_str()), ("turn-1", "completed"));
    assert_eq!(store.turn_of_client_message("thread-1", "other").await.unwrap(), None);
}

/// Ids of all threads of a query, page by page.
async fn listed(store: &Store, mut query: ThreadQuery) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let rows = store.threads_page(&query).await.unwrap();
        let Some(last) = rows.last() else { return seen };
        query.anchor = Some(Anchor {
            value: query.sort_key.value(last),
            thread_id: last.thread_id.clone(),
            inclusive: false,
        });
        seen.extend(rows.into_iter().map(|row| row.thread_id));
    }
}

#[tokio::test]
async fn list_with_equal_times_holds_each_thread_once() {
    let home = Home::new();
    let store = home.open().await;
    let ids: Vec<_> = (0..31).map(|number| format!("thread-{number:02}")).collect();
    for thread_id in &ids {
        store.append(create(thread_id)).await.unwrap();
    }
    for sort_key in [SortKey::Created, SortKey::Updated, SortKey::Recency] {
        for ascending in [true, false] {
            let query = ThreadQuery { sort_key, ascending, limit: 4, ..ThreadQuery::default() };
            let mut seen = listed(&store, query).await;
            if !ascending {
                seen.reverse();
            }
            assert_eq!(seen, ids);
        }
    }
}

#[tokio::test]
async fn list_filters() {
    let home = Home::new();
    let store = home.open().await;
    let text = |text: &str| Some(text.to_owned());
    let rows = [
        ThreadRow { cwd: "/a".to_owned(), name: text("Blue"), ..thread("blue") },
        ThreadRow { source_kind: "exec".to_owned(), model_provider: "other".to_owned(), ..thread("exec") },
        ThreadRow { archived_at_ms: Some(9), ..thread("archived") },
        ThreadRow { attached_to_thread_id: text("blue"), ..thread("attached") },
        ThreadRow { parent_thread_id: text("blue"), ..thread("child") },
        ThreadRow { parent_thread_id: text("child"), ..thread("grandchild") },
        ThreadRow { section_id: text("s"), section_position: Some(2), ..thread("placed") },
        ThreadRow {
            section_id: text("s"),
            section_position: Some(1),
            preview: String::new(),
            ..thread("silent")
        },
        ThreadRow { preview: String::new(), ..thread("empty") },
        ThreadRow { project_id: text("p"), ..thread("project") },
    ];
    for row in rows {
        let thread_id = row.thread_id.clone();
        store.append(Append { create: Some(Box::new(row)), ..change(&thread_id) }).await.unwrap();
    }
    let ids = |ids: &[&str]| Some(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
    let all = ThreadQuery { ascending: true, limit: 3, ..ThreadQuery::default() };
    let check = async |what: &str, query: ThreadQuery, expected: &[&str]| {
        assert_eq!(listed(&store, query).await, expected, "{what}");
    };
    let ordinary = ["blue", "child", "exec", "grandchild", "placed", "project"];
    check("all", all.clone(), &ordinary).await;
    check("archived", ThreadQuery { archived: true, ..all.clone() }, &["archived"]).await;
    check("cwds", ThreadQuery { cwds: ids(&["/a", "/b"]), ..all.clone() }, &["blue"]).await;
    check("no cwds", ThreadQuery { cwds: ids(&[]), ..all.clone() }, &[]).await;
    check("sources", ThreadQuery { source_kinds: ids(&["exec"]), ..all.clone() }, &["exec"]).await;
    check("providers", ThreadQuery { model_providers: ids(&["other"]), ..all.clone() }, &["exec"]).await;
    check("search in names", ThreadQuery { search: text("Blu"), ..all.clone() }, &["blue"]).await;
    check("search minds case", ThreadQuery { search: text("PREVIEW"), ..all.clone() }, &[]).await;
    check("empty search", ThreadQuery { search: text(""), ..all.clone() }, &ordinary).await;
    let included = ThreadQuery { included_ids: ids(&["exec", "empty", "nobody"]), ..all.clone() };
    check("included", included, &["exec"]).await;
    let excluded = ThreadQuery { excluded_ids: ids(&["blue", "child", "exec"]), ..all.clone() };
    check("excluded", excluded, &ordinary[3..]).await;
    check("parent", ThreadQuery { parent_id: text("blue"), ..all.clone() }, &["child"]).await;
    let ancestor = ThreadQuery { ancestor_id: text("blue"), ..all.clone() };
    check("ancestor", ancestor, &["child", "grandchild"]).await;
    let attached = ThreadQuery { attached_to_id: text("blue"), ..all.clone() };
    check("attached to", attached, &["attached"]).await;
    let with_attached = ThreadQuery { include_attached: true, limit: 100, ..all.clone() };
    assert!(listed(&store, with_attached).await.contains(&"attached".to_owned()));
    let section = ThreadQuery {
        section_id: Some(text("s")),
        sort_key: SortKey::SectionPosition,
        limit: 1,
        ..all.clone()
    };
    check("section", section, &["silent", "placed"]).await;
    let no_section = ThreadQuery { section_id: Some(None), ..all.clone() };
    check("no section", no_section, &["blue", "child", "exec", "grandchild", "project"]).await;
    check("project", ThreadQuery { project_id: Some(text("p")), ..all.clone() }, &["project"]).await;
    let no_project = ThreadQuery { project_id: Some(None), ..all.clone() };
    check("no project", no_project, &["blue", "child", "exec", "grandchild", "placed"]).await;
}

#[tokio::test]
async fn deleted_thread_is_gone_from_every_table() {
    let home = Home::new();
    let store = home.open().await;
    for thread_id in ["kept", "deleted"] {
        let append = Append {
            lines: lines(&["line"]),
            turns: vec![turn("turn-1", "inProgress")],
            items: vec![item("turn-1", "item-1", "plan", "{}")],
            usage: vec![usage("r1", 1)],
            lease: LeaseChange::Claim { turn_id: "turn-1".to_owned() },
            ..create(thread_id)
        };
        store.append(append).await.unwrap();
        let file = RolloutFileRow {
            path: format!("/{thread_id}.jsonl"),
            thread_id: Some(thread_id.to_owned()),
            verdict: "imported".to_owned(),
            ..RolloutFileRow::default()
        };
        let problems = vec![ImportProblem { line: 3, reason: "odd".to_owned() }];
        let mut imports = PreparedImports::default();
        imports.add(FileImport { file, problems, ..FileImport::default() }, &mut Packer::kept()).unwrap();
        store.import_files(imports, Urgency::Awaited).await.unwrap();
    }
    assert!(store.delete_thread("deleted").await.unwrap());
    assert!(!store.delete_thread("deleted").await.unwrap());
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let mut outsider = home.outsider().await;
    for table in
        ["threads", "journal", "turns", "items", "token_usage", "leases", "rollout_files", "import_problems"]
    {
        let sql = format!("select count(*) from {table}");
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&mut outsider).await.unwrap();
        assert_eq!(rows, 1, "{table}");
    }
}

#[tokio::test]
async fn fork_takes_turns_up_to_its_end_and_counts_no_token_twice() {
    let home = Home::new();
    let store = home.open().await;
    let source = Append {
        lines: lines(&["meta", "one", "two"]),
        turns: vec![
            TurnRow { first_line: 1, end_line: 2, ..turn("turn-1", "completed") },
            TurnRow { first_line: 2, end_line: 3, ..turn("turn-2", "inProgress") },
        ],
        items: vec![item("turn-1", "a", "plan", "1"), item("turn-2", "b", "plan", "2")],
        usage: vec![usage("r1", 5), UsageRow { turn_id: "turn-2".to_owned(), ..usage("r2", 30) }],
        ..create("source")
    };
    store.append(source).await.unwrap();
    let turns = store.all_turns("source").await.unwrap();
    let fork = |thread_id: &str, end_line: i64, last: Option<i64>| Fork {
        source_id: "source".to_owned(),
        row: ThreadRow { forked_from_id: Some("source".to_owned()), ..thread(thread_id) },
        head: lines(&["new meta"]),
        skip_lines: 1,
        end_line,
        last_turn_place: last,
        tail: lines(&["tail"]),
    };
    let inherited = store.fork_thread(fork("early", 2, Some(turns[0].place))).await.unwrap();
    assert_eq!(inherited.total.total, 5);
    assert_eq!(journal(&store, "early").await, b"new meta\none\ntail\n");
    assert_eq!(store.usage_totals("early").await.unwrap().unwrap().total, 5);
    store.fork_thread(fork("late", i64::MAX, Some(turns[1].place))).await.unwrap();
    assert_eq!(journal(&store, "late").await, b"new meta\none\ntwo\ntail\n");
    let late = store.all_turns("late").await.unwrap();
    let states: Vec<_> =
        late.iter().map(|turn| (turn.row.turn_id.as_str(), turn.row.status.as_str())).collect();
    assert_eq!(states, [("turn-1", "completed"), ("turn-2", "interrupted")]);
    assert_eq!(store.items_of_turns(late[0].place, late[1].place).await.unwrap().len(), 2);
    assert_eq!(store.usage_totals("late").await.unwrap().unwrap().total, 35);
    assert_eq!(store.usage_totals("source").await.unwrap().unwrap().total, 35);
    let mut outsider = home.outsider().await;
    let rows: i64 =
        sqlx::query_scalar("select count(*) from token_usage").fetch_one(&mut outsider).await.unwrap();
    assert_eq!(rows, 2, "the ledger has a row a response, however many forks");
    store.delete_thread("source").await.unwrap();
    assert_eq!(store.all_turns("late").await.unwrap().len(), 2);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

fn claim(turn_id: &str) -> Append {
    Append { lease: LeaseChange::Claim { turn_id: turn_id.to_owned() }, ..change("thread-1") }
}

#[tokio::test]
async fn lease_is_held_against_another_store_until_it_is_released() {
    let home = Home::new();
    let (one, two) = (home.open().await, home.open().await);
    one.append(create("thread-1")).await.unwrap();
    one.append(Append { turns: vec![turn("turn-1", "inProgress")], ..claim("turn-1") }).await.unwrap();
    let refused = two.append(Append { lines: lines(&["no"]), ..claim("turn-2") }).await;
    assert!(matches!(refused, Err(StoreError::LeaseHeld { turn_id, .. }) if turn_id == "turn-1"));
    assert!(two.turn_is_held("thread-1").await.unwrap());
    assert_eq!(two.interrupt_cut_turns(None).await.unwrap(), 0);
    one.append(Append { lease: LeaseChange::Release, ..change("thread-1") }).await.unwrap();
    assert!(!two.turn_is_held("thread-1").await.unwrap());
    two.append(claim("turn-2")).await.unwrap();
    assert!(one.append(claim("turn-3")).await.is_err());
    assert_eq!(journal(&one, "thread-1").await, b"");
}

#[tokio::test]
async fn lease_without_heartbeat_is_replaced_and_its_turn_interrupted() {
    let home = Home::new();
    let (one, two) = (home.open().await, home.open().await);
    one.append(create("thread-1")).await.unwrap();
    one.append(Append { turns: vec![turn("turn-1", "inProgress")], ..claim("turn-1") }).await.unwrap();
    home.clock.advance(29_000);
    assert_eq!(two.interrupt_cut_turns(None).await.unwrap(), 0);
    one.heartbeat_if_held().await.unwrap();
    home.clock.advance(29_000);
    assert_eq!(two.interrupt_cut_turns(None).await.unwrap(), 0);
    home.clock.advance(2_000);
    assert_eq!(two.interrupt_cut_turns(None).await.unwrap(), 1);
    assert_eq!(one.turn("thread-1", "turn-1").await.unwrap().unwrap().row.status, "interrupted");
    two.append(claim("turn-2")).await.unwrap();
}

#[tokio::test]
async fn lease_of_a_process_that_is_gone_is_replaced_at_once_and_its_fence_grows() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    store.append(Append { turns: vec![turn("turn-1", "inProgress")], ..claim("turn-1") }).await.unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = i64::from(child.id());
    child.wait().unwrap();
    let mut outsider = home.outsider().await;
    sqlx::query("update leases set owner = 'somebody', pid = ?1")
        .bind(pid)
        .execute(&mut outsider)
        .await
        .unwrap();
    assert_eq!(store.interrupt_cut_turns(Some("thread-1")).await.unwrap(), 1);
    store.append(claim("turn-2")).await.unwrap();
    store.append(Append { lease: LeaseChange::Release, ..change("thread-1") }).await.unwrap();
    store.append(claim("turn-3")).await.unwrap();
    let fence: i64 = sqlx::query_scalar("select fence from leases").fetch_one(&mut outsider).await.unwrap();
    assert_eq!(fence, 3);
}

#[tokio::test]
async fn lease_of_a_later_process_with_the_same_pid_is_replaced() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    store.append(claim("turn-1")).await.unwrap();
    let mut outsider = home.outsider().await;
    let sql = "update leases set owner = 'somebody', pid_started = pid_started - 1";
    sqlx::query(sql).execute(&mut outsider).await.unwrap();
    store.append(claim("turn-2")).await.unwrap();
}

#[tokio::test]
async fn close_gives_leases_back() {
    let home = Home::new();
    let (one, two) = (home.open().await, home.open().await);
    one.append(create("thread-1")).await.unwrap();
    one.append(claim("turn-1")).await.unwrap();
    one.close().await;
    assert!(!two.turn_is_held("thread-1").await.unwrap());
    assert!(matches!(one.append(change("thread-1")).await, Err(StoreError::Closed)));
    assert!(matches!(one.thread("thread-1").await, Err(StoreError::Closed)));
    one.close().await;
}

#[tokio::test]
async fn changes_at_the_same_time_share_commits_and_a_failing_one_fails_alone() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    let changes = (0..200).map(|number| {
        let store = store.clone();
        let status = if number % 10 == 3 { "dreaming" } else { "completed" };
        let append = Append {
            lines: lines(&[&format!("line {number}")]),
            turns: vec![turn(&format!("turn-{number}"), status)],
            ..change("thread-1")
        };
        tokio::spawn(async move { store.append(append).await })
    });
    let changes: Vec<_> = changes.collect();
    let mut stored = 0;
    for (number, change) in changes.into_iter().enumerate() {
        let outcome = change.await.unwrap();
        assert_eq!(outcome.is_err(), number % 10 == 3, "change {number}");
        stored += i64::from(outcome.is_ok());
    }
    assert_eq!(store.all_turns("thread-1").await.unwrap().len() as i64, stored);
    assert_eq!(store.thread("thread-1").await.unwrap().unwrap().journal_lines, stored);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn answer_comes_after_the_commit() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    let mut outsider = home.outsider().await;
    for number in 1..=50 {
        store.append(Append { lines: lines(&["line"]), ..change("thread-1") }).await.unwrap();
        // Another connection sees what is committed and nothing else.
        let seen: i64 =
            sqlx::query_scalar("select journal_lines from threads").fetch_one(&mut outsider).await.unwrap();
        assert_eq!(seen, number);
    }
}

#[tokio::test]
async fn change_whose_caller_went_away_is_stored() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    let mut dropped = Box::pin(store.append(Append { lines: lines(&["line"]), ..change("thread-1") }));
    // Polled once it is in the queue.
    assert!(futures_util::poll!(&mut dropped).is_pending());
    drop(dropped);
    store.append(Append { lines: lines(&["next"]), ..change("thread-1") }).await.unwrap();
    assert_eq!(journal(&store, "thread-1").await, b"line\nnext\n");
}

#[tokio::test]
async fn close_writes_what_is_queued() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    // A task is polled on about so often before tokio makes it wait its turn.
    let mut queued: Vec<_> = (0..100)
        .map(|_| Box::pin(store.append(Append { lines: lines(&["line"]), ..change("thread-1") })))
        .collect();
    for change in &mut queued {
        assert!(futures_util::poll!(change).is_pending());
    }
    store.close().await;
    for change in queued {
        change.await.unwrap();
    }
    let store = home.open().await;
    assert_eq!(store.thread("thread-1").await.unwrap().unwrap().journal_lines, 100);
}

#[tokio::test]
async fn lock_of_another_program_is_waited_for() {
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    let mut outsider = home.outsider().await;
    sqlx::raw_sql("begin immediate").execute(&mut outsider).await.unwrap();
    let mut waiting = Box::pin(store.append(Append { lines: lines(&["line"]), ..change("thread-1") }));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // Reading goes on meanwhile.
    assert!(store.thread("thread-1").await.unwrap().is_some());
    sqlx::raw_sql("commit").execute(&mut outsider).await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test]
async fn lock_that_outlasts_the_patience_is_busy_and_then_all_is_well() {
    let home = Home::new();
    let options = OpenOptions { busy_patience: Duration::from_millis(20), ..OpenOptions::default() };
    let store = Store::open_with(&home.database(), home.clock.clone(), &options).await.unwrap();
    store.append(create("thread-1")).await.unwrap();
    let mut outsider = home.outsider().await;
    sqlx::raw_sql("begin immediate").execute(&mut outsider).await.unwrap();
    assert!(matches!(store.append(create("thread-2")).await, Err(StoreError::Busy)));
    sqlx::raw_sql("rollback").execute(&mut outsider).await.unwrap();
    store.append(create("thread-2")).await.unwrap();
}

#[tokio::test]
async fn full_disk_fails_the_big_change_and_no_other() {
    let home = Home::new();
    let options = OpenOptions { bytes_max: Some(120 * 4096), ..OpenOptions::default() };
    let store = Store::open_with(&home.database(), home.clock.clone(), &options).await.unwrap();
    store.append(create("thread-1")).await.unwrap();
    // Does not compress, and is far more than the file may grow.
    let mut state = 1_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8 | 128
    };
    let noise: Vec<u8> = (0..4_000_000).map(|_| noise()).collect();
    let big = Append { lines: Lines { bytes: noise, count: 1 }, ..change("thread-1") };
    let small = |number: i64| Append { lines: lines(&[&format!("line {number}")]), ..change("thread-1") };
    let mut before: Vec<_> = (0..5).map(|number| Box::pin(store.append(small(number)))).collect();
    for change in &mut before {
        assert!(futures_util::poll!(change).is_pending());
    }
    let mut filling = Box::pin(store.append(big));
    assert!(futures_util::poll!(&mut filling).is_pending());
    let mut after: Vec<_> = (5..10).map(|number| Box::pin(store.append(small(number)))).collect();
    for change in &mut after {
        assert!(futures_util::poll!(change).is_pending());
    }
    assert!(matches!(filling.await, Err(StoreError::Full)));
    for change in before.into_iter().chain(after) {
        change.await.unwrap();
    }
    store.append(small(10)).await.unwrap();
    assert_eq!(store.thread("thread-1").await.unwrap().unwrap().journal_lines, 11);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn opening_a_new_file_many_times_at_once_works() {
    let home = Home::new();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let (path, clock) = (home.database(), home.clock.clone());
            // A runtime of its own, as a process has.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let store = Store::open(&path, clock).await.map_err(|error| error.to_string())?;
                    store.close().await;
                    Ok::<_, String>(())
                })
            })
        })
        .collect();
    for thread in opening {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
}

#[tokio::test]
async fn database_of_a_newer_version_is_refused_and_left_as_it_is() {
    let home = Home::new();
    home.open().await.close().await;
    let mut newer = home.outsider().await;
    let sql = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
               values (9000, 'from the future', 1, x'00', 0)";
    sqlx::query(sql).execute(&mut newer).await.unwrap();
    newer.close().await.unwrap();
    let before = std::fs::read(home.database()).unwrap();
    let refused = Store::open(&home.database(), home.clock.clone()).await;
    assert!(matches!(refused, Err(StoreError::NewerSchema { found: 9000, .. })));
    assert_eq!(std::fs::read(home.database()).unwrap(), before);
}

#[tokio::test]
async fn file_that_is_no_database_is_refused_and_left_as_it_is() {
    let home = Home::new();
    let text = b"this has been something else for a long time\n".repeat(100);
    std::fs::write(home.database(), &text).unwrap();
    let refused = Store::open(&home.database(), home.clock.clone()).await;
    assert!(matches!(refused, Err(StoreError::Damaged { .. })));
    assert_eq!(std::fs::read(home.database()).unwrap(), text);
}

#[tokio::test]
async fn database_of_another_program_is_refused_and_left_as_it_is() {
    let home = Home::new();
    let mut other = home.outsider().await;
    sqlx::raw_sql("create table theirs (x); insert into theirs values (1)")
        .execute(&mut other)
        .await
        .unwrap();
    other.close().await.unwrap();
    let before = std::fs::read(home.database()).unwrap();
    let refused = Store::open(&home.database(), home.clock.clone()).await;
    assert!(matches!(refused, Err(StoreError::Damaged { .. })));
    assert_eq!(std::fs::read(home.database()).unwrap(), before);
}

#[tokio::test]
async fn folder_that_cannot_be_written_is_told() {
    // Also root cannot make files there.
    let path = Path::new("/proc/threadkeep-test/threadkeep.sqlite");
    let refused = Store::open(path, Clock::system()).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })));
}

#[cfg(unix)]
#[tokio::test]
async fn new_database_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let store = home.open().await;
    store.append(create("thread-1")).await.unwrap();
    for entry in std::fs::read_dir(home.directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
    }
}

#[tokio::test]
async fn backup_is_a_database_of_its_own() {
    let home = Home::new();
    let store = home.open().await;
    store.append(Append { lines: lines(&["line"]), ..create("thread-1") }).await.unwrap();
    let copy = home.directory.path().join("copy.sqlite");
    store.backup(&copy).await.unwrap();
    let copied = Store::open(&copy, home.clock.clone()).await.unwrap();
    assert_eq!(journal(&copied, "thread-1").await, b"line\n");
    assert_eq!(copied.check().await.unwrap(), Vec::<String>::new());
    assert!(store.backup(&copy).await.is_err());
}

#[tokio::test]
async fn check_tells_of_a_journal_with_a_gap_and_of_rows_without_parents() {
    let home = Home::new();
    let store = home.open().await;
    store.append(Append { lines: lines(&["one"]), ..create("thread-1") }).await.unwrap();
    store.append(Append { lines: lines(&["two"]), ..change("thread-1") }).await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(home.database()).foreign_keys(false);
    let mut outsider = SqliteConnection::connect_with(&options).await.unwrap();
    let sql = "delete from journal where run_key = (select min(run_key) from journal);
               insert into items (item_key, turn_key, item_id, kind, encoding, payload)
               values (99 << 32, 99 << 32, 'lost', 'plan', 0, x'7b7d')";
    sqlx::raw_sql(sql).execute(&mut outsider).await.unwrap();
    let problems = store.check().await.unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
}
