//! Commands that try to get out.

use std::{fs, os::unix::fs::symlink, path::Path};

use tokio::sync::mpsc;

use super::{Confinement, WorkspaceWrite, prepare::support};
use crate::config::environment::EnvironmentPolicy;
use crate::{
    clock::Clock,
    tools::exec::{
        session::{Event, Exit, Sessions, Spec},
        shell,
    },
};

/// A folder with a workspace, a place outside of it, and a home inside of it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        // Not under /tmp, which a test may allow.
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
        fs::create_dir_all(&target).unwrap();
        let folder = tempfile::tempdir_in(target).unwrap();
        for name in ["work/.git", "work/home", "outside"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in ["work/.git/config", "work/home/auth.json", "outside/there"] {
            fs::write(folder.path().join(name), "kept\n").unwrap();
        }
        Place { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn workspace(&self, network_access: bool) -> Confinement {
        let settings = WorkspaceWrite {
            network_access,
            exclude_slash_tmp: true,
            exclude_tmpdir_env_var: true,
            ..Default::default()
        };
        Confinement::workspace_write(
            Path::new(&self.path("work")),
            &settings,
            Path::new(&self.path("work/home")),
        )
    }

    async fn run(&self, confinement: Option<&Confinement>, command: &str) -> (String, Exit) {
        let spec = Spec {
            argv: shell::wrap(command, None, false),
            cwd: self.path("work").into(),
            environment: EnvironmentPolicy::default().environment_for_model(),
            confinement: confinement.cloned(),
            ..Spec::default()
        };
        let (sender, mut events) = mpsc::channel(64);
        Sessions::new(Clock::system()).start(spec, sender).await.unwrap();
        loop {
            if let Event::Ended { exit, aggregated, .. } = events.recv().await.unwrap() {
                return (aggregated, exit);
            }
        }
    }

    async fn fails(&self, confinement: &Confinement, command: &str) {
        let (output, exit) = self.run(Some(confinement), command).await;
        assert_ne!(exit, Exit::Code(0), "{command}: {output}");
    }

    async fn works(&self, confinement: &Confinement, command: &str) -> String {
        let (output, exit) = self.run(Some(confinement), command).await;
        assert_eq!(exit, Exit::Code(0), "{command}: {output}");
        output
    }
}

#[tokio::test]
async fn read_only_reads_and_does_not_write() {
    let place = Place::new();
    let limits = Confinement::read_only(false);
    assert_eq!(place.works(&limits, "cat ../outside/there; echo x > /dev/null").await, "kept\n");
    for command in [
        "echo x > new",
        "echo x >> ../outside/there",
        "rm ../outside/there",
        "mkdir sub",
        "truncate -s 0 ../outside/there",
    ] {
        place.fails(&limits, command).await;
    }
    assert_eq!(fs::read_to_string(place.path("outside/there")).unwrap(), "kept\n");
}

#[tokio::test]
async fn the_workspace_is_written_and_nothing_beside_it() {
    let place = Place::new();
    let limits = place.workspace(false);
    symlink(place.path("outside"), place.path("work/link")).unwrap();
    place.works(&limits, "echo x > new && mkdir -p a/b && mv new a/b/ && rm -r a && pwd").await;
    for command in [
        "echo x > ../outside/new",
        "echo x > link/new",
        "ln ../outside/there hard && echo x > hard",
        "mv ../outside/there .",
        "echo x > /proc/self/cwd/../outside/new",
        "echo x > /proc/self/root$(dirname $PWD)/outside/new",
        "echo x > /tmp/threadkeep-must-not-be",
        "python3 -c 'import os; os.truncate(\"../outside/there\", 0)'",
        "mknod node c 1 3",
        "mount -t tmpfs none .",
    ] {
        place.fails(&limits, command).await;
    }
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(place.path("outside/there")).unwrap(), "kept\n");
}

#[tokio::test]
async fn version_control_data_and_the_home_stay() {
    let place = Place::new();
    if !support().namespaces {
        return;
    }
    let limits = place.workspace(false);
    assert_eq!(place.works(&limits, "cat .git/config home/auth.json").await, "kept\nkept\n");
    for command in [
        "echo x > .git/config",
        "cd .git && echo x > hooks",
        "rm -rf .git/config",
        "mv .git other",
        "rmdir home",
        "ln .git/config hard && echo x > hard",
        "umount .git && echo x > .git/config",
        "mount -o remount,rw,bind .git && echo x > .git/config",
        "unshare -rm sh -c 'umount .git; echo x > .git/config'",
        "echo x > home/auth.json",
    ] {
        place.fails(&limits, command).await;
    }
    assert_eq!(fs::read_to_string(place.path("work/.git/config")).unwrap(), "kept\n");
    assert_eq!(fs::read_to_string(place.path("work/home/auth.json")).unwrap(), "kept\n");
}

#[tokio::test]
async fn a_working_folder_below_a_protected_one_is_protected() {
    let place = Place::new();
    if !support().namespaces {
        return;
    }
    let spec = Spec {
        argv: shell::wrap("echo x > config", None, false),
        cwd: place.path("work/.git").into(),
        environment: EnvironmentPolicy::default().environment(),
        confinement: Some(place.workspace(false)),
        ..Spec::default()
    };
    let (sender, _events) = mpsc::channel(64);
    let session = Sessions::new(Clock::system()).start(spec, sender).await.unwrap();
    assert_ne!(session.ended().await, Exit::Code(0));
}

/// Each prints `open` only if the way is open.
const NETWORK: [&str; 6] = [
    "import socket; s=socket.create_connection(('127.0.0.1', PORT)); print('open')",
    "import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', PORT)); print('open')",
    "import socket; s=socket.socket(socket.AF_INET6); print('open')",
    "import socket; s=socket.socket(socket.AF_UNIX); s.connect('SOCKET'); print('open')",
    "import socket; s=socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', 'SOCKET'); print('open')",
    "import socket; a,b=socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', 'SOCKET'); print('open')",
];

#[tokio::test]
async fn the_network_is_off_unless_allowed() {
    let place = Place::new();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = place.path("work/s");
    let _unix = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let port = tcp.local_addr().unwrap().port().to_string();
    let python =
        |code: &str| format!("python3 -c \"{}\"", code.replace("PORT", &port).replace("SOCKET", &socket));
    for limits in [Confinement::read_only(false), place.workspace(false)] {
        for code in NETWORK {
            let (output, _) = place.run(Some(&limits), &python(code)).await;
            assert!(!output.contains("open") && output.contains("Error"), "{code}: {output}");
        }
        let pair = "import socket; a,b=socket.socketpair(); a.send(b'x'); print('open' if b.recv(1) else '')";
        assert_eq!(place.works(&limits, &python(pair)).await, "open\n");
    }
    let open = place.works(&place.workspace(true), &python(NETWORK[0])).await;
    assert_eq!(open, "open\n");
}

#[tokio::test]
async fn processes_outside_are_out_of_reach() {
    let place = Place::new();
    let limits = place.workspace(false);
    let server = std::process::id();
    if support().signals_are_scoped() {
        place.fails(&limits, &format!("kill -0 {server}")).await;
    }
    place.fails(&limits, &format!("cat /proc/{server}/environ")).await;
    place.fails(&limits, &format!("readlink /proc/{server}/fd/0")).await;
    place.fails(&limits, &format!("echo x > /proc/{server}/root/{}", place.path("outside/new"))).await;
    // Among themselves they may.
    place.works(&limits, "sleep 60 & kill $!").await;
}

#[tokio::test]
async fn only_rights_on_files_are_kept() {
    let place = Place::new();
    for limits in [Confinement::read_only(false), place.workspace(false)] {
        let output =
            place.works(&limits, "grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status").await;
        let effective = u64::from_str_radix(output.split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_eq!(effective & !0b11011, 0, "{output}");
        assert!(output.contains("NoNewPrivs:\t1"), "{output}");
    }
}

#[tokio::test]
async fn a_child_that_outlives_its_command_is_still_confined() {
    let place = Place::new();
    let limits = place.workspace(false);
    let late = "(sleep 0.3; echo x > ../outside/late; echo done > late) > /dev/null 2>&1 & echo started";
    assert_eq!(place.works(&limits, late).await, "started\n");
    let written = place.path("work/late");
    // The child is nobody's to wait for; it is done soon.
    place.run(None, &format!("until [ -e {written} ]; do sleep 0.05; done")).await;
    assert!(!Path::new(&place.path("outside/late")).exists());
}

#[test]
fn patches_are_judged_by_the_real_path() {
    let place = Place::new();
    let limits = place.workspace(false);
    symlink(place.path("outside"), place.path("work/link")).unwrap();
    symlink(place.path("outside/new"), place.path("work/dangling")).unwrap();
    let check = |name: &str, expected: bool| {
        assert_eq!(limits.may_write(Path::new(&place.path(name))), expected, "{name}")
    };
    check("work/new", true);
    check("work/a/b/new", true);
    check("outside/new", false);
    check("work/link/new", false);
    check("work/dangling", false);
    check("work/.git/config", false);
    check("work/home/x", false);
    assert!(!Confinement::read_only(true).may_write(Path::new(&place.path("work/new"))));
}
