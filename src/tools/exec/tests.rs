//! Commands that really run.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use tokio::{sync::mpsc, time::Instant};

use super::{
    session::{Event, Exit, SessionError, Sessions, Spec},
    shell,
};
use crate::clock::Clock;
use crate::config::environment::EnvironmentPolicy;

/// Far beyond what any of these commands needs.
const LONG: Duration = Duration::from_secs(20);

fn spec(command: &str) -> Spec {
    Spec {
        argv: shell::wrap(command, None, false),
        cwd: PathBuf::from("/tmp"),
        environment: EnvironmentPolicy::default().environment_for_model(),
        ..Spec::default()
    }
}

struct Run {
    sessions: Sessions,
    session: super::session::Session,
    events: mpsc::Receiver<Event>,
}

impl Run {
    async fn new(spec: Spec) -> Run {
        let sessions = Sessions::new(Clock::system());
        let (sender, events) = mpsc::channel(64);
        let session = sessions.start(spec, sender).await.unwrap();
        Run { sessions, session, events }
    }

    /// The output of all events until it holds `text`.
    async fn until(&mut self, text: &str) {
        let mut output = String::new();
        while !output.contains(text) {
            match self.events.recv().await {
                Some(Event::Output(more)) => output += &more,
                other => panic!("{text:?} did not come: {output:?}, {other:?}"),
            }
        }
    }
}

async fn finished(spec: Spec) -> (String, Exit) {
    let mut run = Run::new(spec).await;
    let mut output = String::new();
    loop {
        match run.events.recv().await.unwrap() {
            Event::Output(text) => output += &text,
            Event::Ended { exit, aggregated, .. } => {
                if output.len() < 100_000 {
                    assert_eq!(aggregated, output, "the deltas add up");
                }
                return (aggregated, exit);
            }
        }
    }
}

#[tokio::test]
async fn both_outputs_come_in_the_order_of_writing() {
    let (output, exit) = finished(spec("echo one; echo two >&2; echo three; exit 3")).await;
    assert_eq!((output.as_str(), exit), ("one\ntwo\nthree\n", Exit::Code(3)));
}

#[tokio::test]
async fn quick_output_is_never_lost() {
    for _ in 0..50 {
        assert_eq!(finished(spec("echo x")).await, ("x\n".into(), Exit::Code(0)));
    }
}

#[tokio::test]
async fn a_command_may_be_ended_by_a_signal() {
    assert_eq!(finished(spec("kill -9 $$")).await.1, Exit::Signal(9));
}

#[tokio::test]
async fn long_output_keeps_its_ends() {
    let (output, exit) = finished(spec("echo first; seq 1 400000; echo last")).await;
    assert_eq!(exit, Exit::Code(0));
    assert!(
        output.starts_with("first\n1\n")
            && output.ends_with("400000\nlast\n")
            && output.contains("truncated")
    );
}

#[tokio::test]
async fn collecting_waits_for_the_end_or_the_time() {
    let run = Run::new(spec("echo x; exit 2")).await;
    let begin = Instant::now();
    let collected = run.session.collect(LONG).await;
    assert_eq!((collected.output.as_str(), collected.exit), ("x\n", Some(Exit::Code(2))));
    assert!(begin.elapsed() < LONG / 2);

    let run = Run::new(spec("sleep 60")).await;
    let collected = run.session.collect(Duration::from_millis(50)).await;
    assert_eq!((collected.output.as_str(), collected.exit), ("", None));
    run.sessions.shutdown().await;
}

#[tokio::test]
async fn a_terminal_can_be_written_to() {
    let mut run =
        Run::new(Spec { tty: true, ..spec("test -t 0 && echo ready; read line; echo got $line; exit 4") })
            .await;
    run.until("ready").await;
    run.sessions.session(run.session.id).unwrap().write("hello\n").await.unwrap();
    let collected = run.session.collect(LONG).await;
    assert!(collected.output.contains("got hello"), "{collected:?}");
    assert_eq!(collected.exit, Some(Exit::Code(4)));
}

#[tokio::test]
async fn without_a_terminal_the_input_is_closed() {
    let run = Run::new(spec("cat; sleep 60")).await;
    assert!(matches!(run.session.write("x").await, Err(SessionError::NoInput(_))));
    run.sessions.shutdown().await;
    let unknown = run.sessions.session(5).unwrap_err();
    assert_eq!(unknown.to_string(), "Unknown process id 5");
}

#[tokio::test]
async fn time_ends_a_command_and_its_children() {
    let mut run =
        Run::new(Spec { timeout: Some(Duration::from_millis(200)), ..spec("sleep 61 & echo $!; sleep 60") })
            .await;
    let Some(Event::Output(pid)) = run.events.recv().await else { panic!("a number") };
    assert_eq!(run.session.ended().await, Exit::TimedOut);
    assert_eq!(Exit::TimedOut.code(), 124);
    gone(pid.trim()).await;
}

#[tokio::test]
async fn a_running_command_is_listed_and_can_be_ended() {
    let mut run = Run::new(Spec {
        label: "call-1".into(),
        ..spec("trap '' TERM; echo on; while true; do sleep 1; done")
    })
    .await;
    run.until("on").await;
    let listed = run.sessions.list();
    assert_eq!(
        (listed.len(), listed[0].label.as_str(), listed[0].os_pid),
        (1, "call-1", run.session.os_pid())
    );
    assert!(listed[0].rss_kb > 0);
    assert!(run.sessions.terminate(run.session.id));
    assert_eq!(run.session.ended().await, Exit::Terminated);
    assert_eq!(run.sessions.list(), []);
    assert!(!run.sessions.terminate(run.session.id));
}

#[tokio::test]
async fn shutdown_kills_the_whole_group() {
    let mut run = Run::new(spec("sleep 62 & echo $!; wait")).await;
    let Some(Event::Output(pid)) = run.events.recv().await else { panic!("a number") };
    run.sessions.shutdown().await;
    gone(pid.trim()).await;
}

/// Killed children become zombies until init looks at them.
async fn gone(pid: &str) {
    let end = Instant::now() + LONG;
    while let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        if stat.contains(") Z ") {
            return;
        }
        assert!(Instant::now() < end, "{stat}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_background_child_does_not_hold_the_command() {
    let begin = Instant::now();
    let (output, exit) = finished(spec("sleep 3 & echo x")).await;
    assert_eq!((output.as_str(), exit), ("x\n", Exit::Code(0)));
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn no_descriptor_is_inherited() {
    // A descriptor without the flag, as a careless library would leave it.
    let careless =
        rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    for tty in [false, true] {
        let (output, _) =
            finished(Spec { tty, argv: vec!["ls".into(), "-l".into(), "/proc/self/fd".into()], ..spec("") })
                .await;
        let entries: Vec<&str> = output.lines().filter(|line| line.contains("->")).collect();
        // 3 is the folder that ls itself reads.
        assert_eq!(entries.len(), 4, "{output}");
    }
    drop(careless);
}

#[tokio::test]
async fn what_cannot_start_is_said() {
    let sessions = Sessions::new(Clock::system());
    let start = async |spec: Spec| {
        let (sender, _events) = mpsc::channel(1);
        sessions.start(spec, sender).await.unwrap_err().to_string()
    };
    let missing = Spec { argv: vec!["/no/such".into()], ..spec("") };
    assert_eq!(start(missing).await, "/no/such: No such file or directory (os error 2)");
    let folder = start(Spec { cwd: "/no/where".into(), ..spec("true") }).await;
    assert_eq!(folder, "folder /no/where: No such file or directory (os error 2)");
    let empty = Spec { argv: Vec::new(), environment: BTreeMap::new(), ..spec("") };
    assert!(start(empty).await.contains("the command is empty"));
}
