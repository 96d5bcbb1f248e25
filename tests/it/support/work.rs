//! A thread at work: a home, a folder that its commands run in, and one beside it.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::client::Server;
use super::home::Home;
use super::id;
use super::model::Reply;

/// A server with a thread in a folder of its own.
pub struct Work {
    pub server: Server,
    pub thread: String,
    pub home: Home,
    folder: tempfile::TempDir,
}

impl Deref for Work {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Work {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}

impl Work {
    /// Nothing is asked and nothing confined.
    pub fn free() -> Work {
        Work::with("never", json!({"sandbox": "danger-full-access"}))
    }

    /// Everything is asked about and nothing confined.
    pub fn untrusted() -> Work {
        Work::with("untrusted", json!({"sandbox": "danger-full-access"}))
    }

    /// A thread with this policy and these parameters.
    pub fn with(policy: &str, params: Value) -> Work {
        Work::in_home(Home::new(), policy, params)
    }

    pub fn in_home(home: Home, policy: &str, params: Value) -> Work {
        let server = home.server();
        Work::on(server, home, policy, params)
    }

    /// On a server that runs.
    pub fn on(server: Server, home: Home, policy: &str, mut params: Value) -> Work {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "outside"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut work = Work { server, thread: String::new(), home, folder };
        params["cwd"] = json!(work.path(""));
        params["approvalPolicy"] = json!(policy);
        work.thread = id(&work.server.request("thread/start", &params)["thread"]);
        work
    }

    /// A path in the working folder.
    pub fn path(&self, name: &str) -> PathBuf {
        let work = self.folder.path().join("work");
        if name.is_empty() { work } else { work.join(name) }
    }

    /// A path beside the working folder.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join("outside").join(name)
    }

    /// A file of the working folder; `None` when it is not there.
    pub fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Start a turn in which the model answers so, then says `Done`; its id.
    pub fn begin(&mut self, replies: impl IntoIterator<Item = Reply>) -> String {
        self.home.model.script(replies);
        let thread = self.thread.clone();
        self.server.start_turn(&thread, "go")
    }

    /// Run such a turn to its end; the turn.
    pub fn run(&mut self, replies: impl IntoIterator<Item = Reply>) -> Value {
        let turn = self.begin(replies);
        self.server.completed(&turn)
    }

    /// The completed items of a kind.
    pub fn done(&self, kind: &str) -> Vec<Value> {
        self.server.items(&self.thread, "completed", kind)
    }

    /// The started items of a kind.
    pub fn started(&self, kind: &str) -> Vec<Value> {
        self.server.items(&self.thread, "started", kind)
    }

    /// The items of the last turn as they are read back.
    pub fn stored(&mut self) -> Vec<Value> {
        let thread = self.thread.clone();
        let turns = self.server.read(&thread)["turns"].clone();
        turns.as_array().unwrap().last().unwrap()["items"].as_array().unwrap().clone()
    }

    /// Wait until a file of the working folder has a line; the line.
    pub fn line_of(&self, name: &str) -> String {
        let wait = format!("until [ -s {0} ]; do sleep 0.02; done; cat {0}", self.path(name).display());
        let output = Command::new("timeout").args(["20", "sh", "-c", &wait]).output().unwrap();
        assert!(output.status.success(), "{name} was not written");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// Whether a process runs; one that nobody has waited for does not.
pub fn runs(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}
