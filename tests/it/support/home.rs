//! A scratch home: a folder with a config.toml that names the scripted model, and processes that use it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};

use super::client::{Listener, Server};
use super::model::Model;

/// A home of its own for a test, gone when the test ends.
pub struct Home {
    directory: tempfile::TempDir,
    pub model: Model,
}

impl Home {
    pub fn new() -> Home {
        let home = Home { directory: tempfile::tempdir().unwrap(), model: Model::start() };
        home.configure("");
        home
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Write the config.toml anew, with `more` at its end.
    pub fn configure(&self, more: &str) {
        let text = format!(
            r#"model = "mock-model"
approval_policy = "never"
sandbox_mode = "read-only"
model_provider = "mock_provider"

[model_providers.mock_provider]
name = "Mock provider for test"
base_url = "{base}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

{more}
"#,
            base = self.model.base()
        );
        std::fs::write(self.path().join("config.toml"), text).unwrap();
    }

    /// The binary with this home, in an environment that holds nothing of the machine's own settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadkeep"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let ours = ["OPENAI_", "CODEX_", "THREADKEEP_", "RUST_LOG", "LOG_FORMAT"];
            if ours.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        // A login shell of the model's would read the profile of whoever runs the tests.
        command.env("HOME", self.path());
        command.env("THREADKEEP_HOME", self.path()).current_dir(self.path()).args(arguments);
        command
    }

    /// A server on stdio whose client has not initialized.
    pub fn start(&self) -> Server {
        Server::start(self.command(&["app-server"]))
    }

    /// A server on stdio that is ready for requests.
    pub fn server(&self) -> Server {
        let mut server = self.start();
        server.initialize();
        server
    }

    /// A server that listens for WebSocket connections.
    pub fn listen(&self, arguments: &[&str]) -> Listener {
        let mut all = vec!["app-server", "--listen", "ws://127.0.0.1:0"];
        all.extend(arguments);
        Listener::start(self.command(&all))
    }

    /// Write a setting of the top level before all others.
    pub fn set(&self, line: &str) {
        let file = self.path().join("config.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, format!("{line}\n{text}")).unwrap();
    }

    /// Change the database, while no server runs.
    pub fn change(&self, sql: &'static str) {
        self.with_database(async |db| {
            sqlx::raw_sql(sql).execute(db).await.unwrap();
        });
    }

    /// The first column of a query, as text.
    pub fn query(&self, sql: &'static str) -> Vec<String> {
        self.with_database(async |db| sqlx::query_scalar(sql).fetch_all(db).await.unwrap())
    }

    fn with_database<T>(&self, work: impl AsyncFnOnce(&mut SqliteConnection) -> T) -> T {
        let file = self.path().join(threadkeep::store::FILE_NAME);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(10));
            let mut db = SqliteConnection::connect_with(&options).await.unwrap();
            work(&mut db).await
        })
    }

    /// The rollout files, in order of their paths.
    pub fn rollouts(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in ["sessions", "archived_sessions"] {
            walk(&self.path().join(folder), &mut found);
        }
        found.sort();
        found
    }

    /// The bytes of a thread's journal, each line with its end.
    pub fn journal(&self, thread_id: &str) -> Vec<u8> {
        let database = self.path().join(threadkeep::store::FILE_NAME);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = threadkeep::clock::Clock::system();
            let store = threadkeep::store::Store::open(&database, clock).await.unwrap();
            let bytes = store.journal_from_byte(thread_id, 0, i64::MAX).await.unwrap();
            store.close().await;
            bytes
        })
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}
