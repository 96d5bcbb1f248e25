//! All that a database holds of threads, as text: two that hold the same give the same.

use std::path::Path;

use sqlx::{Connection, SqliteConnection};

/// Tables with rows of threads: name, its key, and the column of another key into the same range.
const CLUSTERED: [(&str, &str, Option<&str>); 4] = [
    ("journal", "run_key", None),
    ("turns", "turn_key", None),
    ("items", "item_key", Some("turn_key")),
    ("token_usage", "usage_key", None),
];

/// Every row of every table, without the short keys (which depend on what came first) and the times of files.
pub fn dump(home: &Path) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let file = home.join(threadkeep::store::FILE_NAME);
        let mut db = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap();
        let mut lines = Vec::new();
        for (table, key, other) in CLUSTERED {
            let mut columns = columns(&mut db, table).await;
            columns
                .retain(|column| column != key && column != "thread_key" && Some(column.as_str()) != other);
            let other = other.map_or(String::new(), |other| format!("|| ' in ' || ({other} & 0xffffffff)"));
            let order = format!("(select thread_id from threads where threads.thread_key = {key} >> 32)");
            let place = format!("{order} || ' ' || ({key} & 0xffffffff) {other}");
            rows(&mut db, table, &place, &columns, &mut lines).await;
        }
        for (table, place, left_out) in [
            ("threads", "thread_id", &["thread_key", "archived"][..]),
            ("rollout_files", "path", &["mtime_ns"]),
            ("import_problems", "path || ' ' || line", &[]),
        ] {
            let mut columns = columns(&mut db, table).await;
            columns.retain(|column| !left_out.contains(&column.as_str()));
            rows(&mut db, table, place, &columns, &mut lines).await;
        }
        db.close().await.unwrap();
        lines.join("\n").replace(&home.display().to_string(), "HOME")
    })
}

async fn columns(db: &mut SqliteConnection, table: &str) -> Vec<String> {
    sqlx::query_scalar("select name from pragma_table_info(?1)").bind(table).fetch_all(db).await.unwrap()
}

async fn rows(
    db: &mut SqliteConnection,
    table: &str,
    place: &str,
    columns: &[String],
    lines: &mut Vec<String>,
) {
    let columns: Vec<String> =
        columns.iter().map(|column| format!("'{column}=' || quote({column})")).collect();
    let columns = columns.join(" || ' ' || ");
    let sql = format!("select '{table} ' || {place} || ' ' || {columns} from {table} order by 1");
    let rows: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(db).await.unwrap();
    lines.extend(rows);
}
