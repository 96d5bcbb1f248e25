//! Commands and patches of the model that try to get out of their sandbox.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::model::{Reply, command};
use crate::support::work::Work;
use crate::support::{id, text};

fn workspace_write(network: bool) -> Value {
    json!({"type": "workspaceWrite", "writableRoots": [], "networkAccess": network, "excludeTmpdirEnvVar": true,
        "excludeSlashTmp": true})
}

/// A folder with something to take care of, beside it and in it.
fn guarded() -> Work {
    let work = Work::with("never", json!({}));
    fs::create_dir(work.path(".git")).unwrap();
    fs::write(work.path(".git/config"), "kept\n").unwrap();
    fs::write(work.outside("there"), "kept\n").unwrap();
    symlink(work.outside(""), work.path("link")).unwrap();
    symlink(work.outside("new"), work.path("dangling")).unwrap();
    work
}

/// Run these commands in one turn; their exit codes.
fn exit_codes(work: &mut Work, sandbox: &Value, commands: &[&str]) -> Vec<i64> {
    let mut reply = Reply::default();
    for (place, command) in commands.iter().enumerate() {
        reply = reply.command(&format!("c{place}"), command);
    }
    work.home.model.script([reply]);
    let params = json!({"threadId": work.thread, "input": text("go"), "sandboxPolicy": sandbox});
    let turn = id(&work.request("turn/start", &params)["turn"]);
    assert_eq!(work.completed(&turn)["status"], "completed");
    let done = work.done("commandExecution");
    let code = |place: usize| {
        let item = done.iter().rev().find(|item| item["id"] == format!("c{place}")).unwrap();
        item["exitCode"].as_i64().unwrap()
    };
    (0..commands.len()).map(code).collect()
}

fn assert_unharmed(work: &Work) {
    assert_eq!(work.file(".git/config").as_deref(), Some("kept\n"));
    assert_eq!(fs::read_to_string(work.outside("there")).unwrap(), "kept\n");
    assert_eq!(fs::read_dir(work.outside("")).unwrap().count(), 1);
}

#[test]
fn read_only_reads_and_writes_nothing() {
    let mut work = guarded();
    let read_only = json!({"type": "readOnly", "networkAccess": false});
    let bad =
        ["echo x > new", "echo x > link/there", "rm .git/config", "mkdir sub", "truncate -s 0 link/there"];
    let codes = exit_codes(&mut work, &read_only, &bad);
    assert!(codes.iter().all(|code| *code != 0), "{codes:?}");
    assert_eq!(exit_codes(&mut work, &read_only, &["cat .git/config link/there && echo x > /dev/null"]), [0]);
    assert!(work.file("new").is_none());
    assert_unharmed(&work);
}

#[test]
fn the_workspace_ends_at_its_folder() {
    let mut work = guarded();
    assert_eq!(
        exit_codes(&mut work, &workspace_write(false), &["echo x > new && mkdir -p a/b && mv new a/b"]),
        [0]
    );
    let server = work.server.pid();
    let kill = format!("kill -0 {server}");
    let environment = format!("cat /proc/{server}/environ > stolen");
    let settings = format!("echo x >> {}/config.toml", work.home.path().display());
    let bad = [
        "echo x > ../outside/new",
        "echo x > link/new",
        "echo x > dangling",
        "ln ../outside/there hard && echo x > hard",
        "mv ../outside/there .",
        "echo x > /proc/self/root$(dirname $PWD)/outside/new",
        "echo x > /tmp/threadkeep-must-not-be",
        "mount -t tmpfs none .",
        "echo x > /proc/1/root$(dirname $PWD)/outside/new",
        "echo x > .git/config",
        "mv .git other",
        "umount .git && echo x > .git/config",
        "unshare -rm sh -c 'umount .git; echo x > .git/config'",
        &settings,
        &kill,
        &environment,
    ];
    let codes = exit_codes(&mut work, &workspace_write(false), &bad);
    for (command, code) in bad.iter().zip(codes) {
        assert_ne!(code, 0, "{command}");
    }
    assert_unharmed(&work);
}

#[test]
fn the_network_is_open_only_when_it_is_allowed() {
    let mut work = guarded();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp, udp) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let socket = work.outside("there").with_file_name("socket");
    let unix = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let ways = [
        format!("socket.create_connection((\"127.0.0.1\", {tcp}), 2)"),
        format!("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {udp}))"),
        format!("socket.socket(socket.AF_UNIX).connect(\"{}\")", socket.display()),
    ]
    .map(|code| format!("python3 -c 'import socket; {code}'"));
    let ways: Vec<&str> = ways.iter().map(String::as_str).collect();
    let codes = exit_codes(&mut work, &workspace_write(false), &ways);
    assert!(codes.iter().all(|code| *code != 0), "{codes:?}");
    let codes = exit_codes(&mut work, &workspace_write(true), &ways);
    assert_eq!(codes, [0, 0, 0]);
    drop(unix);
}

#[test]
fn processes_outside_are_out_of_reach() {
    let mut work = guarded();
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = bystander.id();
    let kill = format!("kill -9 {pid}");
    let memory = format!("python3 -c 'open(\"/proc/{pid}/mem\", \"r+b\")'");
    let codes = exit_codes(&mut work, &workspace_write(false), &[&kill, &memory]);
    let lives = bystander.try_wait().unwrap().is_none();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(lives, "the signal arrived");
    assert!(codes.iter().all(|code| *code != 0), "{codes:?}");
}

#[test]
fn descriptors_of_the_server_are_not_inherited() {
    let mut work = guarded();
    // The three standard streams, and the folder that ls itself reads.
    assert_eq!(
        exit_codes(&mut work, &workspace_write(false), &["test $(ls /proc/self/fd | wc -l) -le 4"]),
        [0]
    );
}

#[test]
fn a_child_that_outlives_its_command_is_still_confined() {
    let mut work = guarded();
    let late =
        "(until [ -e go ]; do sleep 0.02; done; echo x > ../outside/new; echo done > late) >/dev/null 2>&1 &";
    assert_eq!(exit_codes(&mut work, &workspace_write(false), &[late]), [0]);
    fs::write(work.path("go"), "").unwrap();
    assert_eq!(work.line_of("late"), "done");
    assert_unharmed(&work);
}

#[test]
fn patches_stay_in_the_workspace_as_well() {
    let mut work = guarded();
    let names = ["../outside/new", "link/new", "dangling", ".git/hooks/new", "/tmp/threadkeep-must-not-be"];
    let patch = |name: &str| {
        format!("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch\nEOF")
    };
    let mut reply = Reply::default();
    for name in names {
        reply = reply.command(name, &patch(name));
    }
    work.home.model.script([reply.command("good", &patch("sub/new"))]);
    let params =
        json!({"threadId": work.thread, "input": text("go"), "sandboxPolicy": workspace_write(false)});
    let turn = id(&work.request("turn/start", &params)["turn"]);
    work.completed(&turn);
    for name in names {
        let told = work.home.model.told(name);
        let expected = match name {
            // A link to nowhere is there, and cannot be read.
            "dangling" => "apply_patch verification failed: failed to read ",
            _ => "patch rejected: writing outside of the project",
        };
        assert!(told.starts_with(expected), "{name}: {told}");
    }
    assert_eq!(work.file("sub/new").as_deref(), Some("x\n"));
    assert_unharmed(&work);
}

#[test]
fn a_moved_file_may_not_leave_the_workspace() {
    let mut work = guarded();
    fs::write(work.path("a"), "one\n").unwrap();
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a\n*** Move to: ../outside/new\n@@\n-one\n+two\n\
                 *** End Patch\nEOF";
    work.home.model.script([command("c1", patch)]);
    let params =
        json!({"threadId": work.thread, "input": text("go"), "sandboxPolicy": workspace_write(false)});
    let turn = id(&work.request("turn/start", &params)["turn"]);
    work.completed(&turn);
    assert!(work.home.model.told("c1").starts_with("patch rejected"), "{}", work.home.model.told("c1"));
    assert_eq!(work.file("a").as_deref(), Some("one\n"));
    assert_unharmed(&work);
}
