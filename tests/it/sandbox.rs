//! Attempts of the model's commands to leave their sandbox, through the real binary.

use std::os::unix::net::UnixListener;

use serde_json::json;

use crate::support::home::Home;
use crate::support::id;
use crate::support::model::{Reply, output, say};

/// Run commands one after another in a sandbox; what the model was told of each.
fn run(home: &Home, sandbox: &str, commands: &[String]) -> Vec<String> {
    let work = home.path().join("work");
    std::fs::create_dir_all(work.join(".git")).unwrap();
    let mut replies: Vec<Reply> = Vec::new();
    for (n, command) in commands.iter().enumerate() {
        replies.push(Reply::default().command(&format!("call-{n}"), command));
    }
    replies.push(say("done"));
    home.model.script(replies);
    let mut server = home.server();
    let policy = match sandbox {
        "read-only" => json!({"type": "readOnly"}),
        _ => json!({"type": "workspaceWrite", "writableRoots": [], "networkAccess": false,
            "excludeTmpdirEnvVar": true, "excludeSlashTmp": true}),
    };
    let thread = id(&server.request("thread/start", &json!({"cwd": work}))["thread"]);
    let params = json!({"threadId": thread, "input": crate::support::text("go"), "sandboxPolicy": policy});
    let turn = id(&server.request("turn/start", &params)["turn"]);
    assert_eq!(server.completed(&turn)["status"], "completed");
    let last = home.model.last();
    (0..commands.len()).map(|n| output(&last, &format!("call-{n}"))).collect()
}

fn must_fail(told: &[String], commands: &[String]) {
    for (told, command) in told.iter().zip(commands) {
        assert!(!told.contains("exited with code 0"), "{command}: {told}");
        assert!(told.contains("exited with code"), "{command} did not run: {told}");
    }
}

#[test]
fn writes_outside_of_the_roots_fail() {
    let home = Home::new();
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let target = outside.path().join("target");
    std::fs::write(&target, "before").unwrap();
    let t = target.display();
    let up = "../".repeat(12);
    let commands = [
        format!("echo x > {t}"),
        format!("echo x > {up}{t}"),
        format!("ln -s {t} link && echo x > link"),
        format!("ln {t} hard && echo x > hard"),
        format!("mv {t} stolen"),
        format!("unlink {t}"),
        format!("echo x > /proc/self/root{t}"),
        format!("echo x > /proc/1/root{t}"),
        format!("mkdir {}/made", outside.path().display()),
        "echo x > .git/config".to_owned(),
        format!("echo x > {}/config.toml", home.path().display()),
    ];
    must_fail(&run(&home, "workspace-write", &commands), &commands);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "before");
    assert!(!outside.path().join("made").exists());
}

#[test]
fn the_network_and_other_processes_are_out_of_reach() {
    let home = Home::new();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().join("socket");
    let _unix = UnixListener::bind(&path).unwrap();
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = bystander.id();
    let python = |code: &str| format!("python3 -c '{code}'");
    let commands = [
        python(&format!("import socket; socket.create_connection((\"127.0.0.1\", {tcp_port}), 2)")),
        python(&format!(
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {udp_port}))"
        )),
        python(&format!("import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")", path.display())),
        format!("kill -9 {pid}"),
        python(&format!("open(\"/proc/{pid}/mem\", \"r+b\")")),
    ];
    let told = run(&home, "workspace-write", &commands);
    let alive = bystander.try_wait().unwrap().is_none();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    must_fail(&told, &commands);
    assert!(alive, "the signal arrived");
}

#[test]
fn read_only_is_just_that() {
    let home = Home::new();
    std::fs::write(home.path().join("readable"), "text").unwrap();
    let commands = ["echo x > new".to_owned(), "echo x > /tmp/threadkeep-escape".to_owned()];
    must_fail(&run(&home, "read-only", &commands), &commands);
    assert!(!home.path().join("work/new").exists());
}

#[test]
fn descriptors_of_the_server_are_not_inherited() {
    let home = Home::new();
    let commands = ["ls /proc/self/fd | wc -l".to_owned(), "ls -l /proc/self/fd".to_owned()];
    let told = run(&home, "workspace-write", &commands);
    assert!(!told[1].contains("threadkeep.sqlite"), "{}", told[1]);
    let count: usize = told[0].trim().lines().last().unwrap().parse().unwrap();
    assert!(count <= 4, "{}", told[1]);
}

#[test]
fn what_a_sandboxed_command_leaves_behind_is_ended_with_the_server() {
    let home = Home::new();
    let word = home.path().file_name().unwrap().to_str().unwrap().to_owned();
    let commands = [format!("(exec -a {word} setsid sleep 600 >/dev/null 2>&1 &) ; true")];
    run(&home, "workspace-write", &commands);
    let runs = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(&word))
        })
    };
    assert!(!runs(), "a child outlives the turn");
}
