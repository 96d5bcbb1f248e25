//! Each migration from the schema before it: what was known is known afterwards.

use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use threadkeep::clock::Clock;
use threadkeep::store::goals::{GoalEvent, GoalRow};
use threadkeep::store::queue::{QueueChange, QueuedRow};
use threadkeep::store::{FILE_NAME, Store};

/// A database in which only the migrations before this one have run, filled by some statements.
async fn older(folder: &Path, before: &str, fill: &'static str) -> PathBuf {
    let migrations = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations")).unwrap() {
        let migration = entry.unwrap().path();
        let name = migration.file_name().unwrap();
        if name.to_string_lossy().as_ref() < before {
            std::fs::copy(&migration, migrations.path().join(name)).unwrap();
        }
    }
    let file = folder.join(FILE_NAME);
    let mut db: SqliteConnection =
        SqliteConnectOptions::new().filename(&file).create_if_missing(true).connect().await.unwrap();
    sqlx::migrate::Migrator::new(migrations.path()).await.unwrap().run(&mut db).await.unwrap();
    sqlx::raw_sql(fill).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
    file
}

const A_THREAD: &str = "insert into threads (thread_key, thread_id, session_id, preview, source_json, source_kind,
        cli_version, model_provider, cwd, settings_json, history_mode, created_at_ms, updated_at_ms, recency_at_ms)
    values (7, 't', 't', 'hello', '\"cli\"', 'cli', '1', 'p', '/', '{}', 'paginated', 1, 2, 3)";

#[tokio::test]
async fn the_reducers_state_goes_and_the_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let fill =
        "insert into rollout_files (path, size, mtime_ns, bytes_taken, lines_taken, verdict, reducer_json)
                values ('/elsewhere/rollout-a.jsonl', 1, 2, 3, 4, 'conflict', '{}')";
    let file = older(folder.path(), "0007", fill).await;
    let store = Store::open(&file, Clock::system()).await.unwrap();
    let row = store.rollout_file("/elsewhere/rollout-a.jsonl").await.unwrap().unwrap();
    assert_eq!((row.size, row.mtime_ns, row.bytes_taken, row.lines_taken), (1, 2, 3, 4));
    assert_eq!((row.verdict.as_str(), row.reducer), ("conflict", None));
    store.close().await;
}

#[tokio::test]
async fn threads_from_before_goals_get_goals_and_a_queue() {
    let folder = tempfile::tempdir().unwrap();
    let file = older(folder.path(), "0008", A_THREAD).await;
    let store = Store::open(&file, Clock::system()).await.unwrap();
    assert_eq!(store.thread("t").await.unwrap().unwrap().preview, "hello");
    assert_eq!(store.goal("t").await.unwrap(), None);
    let goal =
        GoalRow { goal_id: "g".into(), objective: "o".into(), status: "active".into(), ..GoalRow::default() };
    let made = goal.clone();
    let rule = std::sync::Arc::new(move |_: Option<&GoalRow>| Ok(Some(made.clone())));
    let event = GoalEvent { kind: "set".into(), ..GoalEvent::default() };
    store.change_goal("t", event, rule).await.unwrap().unwrap();
    assert_eq!(store.goal("t").await.unwrap(), Some(goal));
    let row = QueuedRow { submission_id: "q".into(), input_json: "[]".into(), ..QueuedRow::default() };
    assert_eq!(store.enqueue("t", row).await.unwrap(), QueueChange::Done);
    store.close().await;
}

#[tokio::test]
async fn goals_from_before_other_databases_were_read_stay() {
    let folder = tempfile::tempdir().unwrap();
    let fill = "insert into threads (thread_key, thread_id, session_id, preview, source_json, source_kind, cli_version,
            model_provider, cwd, settings_json, history_mode, created_at_ms, updated_at_ms, recency_at_ms)
        values (7, 't', 't', 'hello', '\"cli\"', 'cli', '1', 'p', '/', '{}', 'paginated', 1, 2, 3);
        insert into goals (thread_key, goal_id, objective, status, created_at_ms, updated_at_ms)
        values (7, 'g', 'o', 'paused', 1, 1)";
    let file = older(folder.path(), "0009", fill).await;
    let store = Store::open(&file, Clock::system()).await.unwrap();
    assert_eq!(store.goal("t").await.unwrap().unwrap().status, "paused");
    assert!(store.check().await.unwrap().is_empty());
    store.close().await;
}
