//! Running commands and their sessions.
//!
//! Each command has a task that alone owns its process: it reads the output, waits for the end, and carries out
//! signals. So a signal never goes to a process id that may have been given to somebody else.

use std::{
    collections::BTreeMap,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::PathBuf,
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use rustix::process::Signal;
use thiserror::Error;
use tokio::{
    io::unix::AsyncFd,
    process::Child,
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    left,
    output::{Decoder, HeadTail},
    process::Process,
    spawn::{self, Started},
    usage,
};
use crate::{clock::Clock, tools::sandbox::Confinement};

/// Commands that may run at the same time in one thread.
pub const SESSIONS_MAX: usize = 64;

/// How long output is awaited from children that outlive their command and hold its pipe.
const DRAIN_TIME: Duration = Duration::from_millis(150);

/// Between the request to end and the end by force.
const GRACE_TIME: Duration = Duration::from_millis(300);

const READ_BYTES: usize = 16 * 1024;

/// A command to start.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The folder to run in.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// On a terminal of its own, that can be written to, instead of a pipe.
    pub tty: bool,
    /// When to end it; never when `None`.
    pub timeout: Option<Duration>,
    /// Its limits; none when `None`.
    pub confinement: Option<Confinement>,
    /// Whose command this is (the call id); comes back in [`Listed`].
    pub label: String,
    /// On whose behalf it runs (the turn's id): what [`Sessions::kill_left`] goes by. Without a slash.
    pub owner: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal that we did not send.
    Signal(i32),
    /// Its time was over.
    TimedOut,
    /// Someone asked to end it.
    Terminated,
}

impl Exit {
    /// The number that a shell would give.
    pub fn code(&self) -> i32 {
        match self {
            Exit::Code(code) => *code,
            Exit::Signal(signal) => 128 + signal,
            Exit::TimedOut => 124,
            Exit::Terminated => 128 + libc::SIGKILL,
        }
    }
}

/// What a command tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// More output; all of these together are the whole output.
    Output(String),
    /// The last event.
    Ended {
        /// How it ended.
        exit: Exit,
        /// The whole output, without its middle if it was long.
        aggregated: String,
        /// From start to end.
        took: Duration,
    },
}

/// What came since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// New output, without its middle if it was long.
    pub output: String,
    /// Its length before the middle was left out.
    pub output_bytes: usize,
    /// `None` while it runs.
    pub exit: Option<Exit>,
    /// How long this look took.
    pub waited: Duration,
}

/// Why a session cannot be used; the text is for the model.
#[derive(Debug, Error)]
pub enum SessionError {
    /// No session has this number.
    #[error("Unknown process id {0}")]
    Unknown(i64),
    /// It has no terminal, so nothing can be written to it.
    #[error(
        "process {0} has no terminal, so its input is closed; start the command with tty=true to write to it"
    )]
    NoInput(i64),
    /// Too many commands run.
    #[error("{SESSIONS_MAX} commands are running in this thread; end some of them first")]
    TooMany,
    /// The process could not be started.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// Writing failed.
    #[error("failed to write to process {id}: {source}")]
    Write {
        /// The session.
        id: i64,
        /// What the system said.
        source: io::Error,
    },
}

/// A running command as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The session's number.
    pub id: i64,
    /// The caller's label.
    pub label: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// The process id of its leader.
    pub os_pid: u32,
    /// Processor time over run time, in percent, children included.
    pub cpu_percent: f64,
    /// Resident memory, children included.
    pub rss_kb: u64,
}

/// The commands of one thread. Dropping it does not end them; [`Sessions::shutdown`] does.
#[derive(Debug, Clone, Default)]
pub struct Sessions {
    clock: Clock,
    /// The first part of the mark that all of these commands carry; set with the first of them.
    mark: Arc<OnceLock<String>>,
    /// Guards the table only; nothing is awaited under it.
    table: Arc<Mutex<BTreeMap<i64, Session>>>,
}

/// One command. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its number, as the model and clients see it.
    pub id: i64,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spec: Spec,
    os_pid: u32,
    started: Instant,
    /// Output that [`Session::collect`] has not given yet. Written by the command's task.
    fresh: Mutex<HeadTail>,
    orders: mpsc::UnboundedSender<Order>,
    exit: watch::Receiver<Option<Exit>>,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
}

#[derive(Debug)]
enum Order {
    Terminate,
    Kill,
}

impl Sessions {
    /// No commands yet. The clock gives the random part of session numbers.
    pub fn new(clock: Clock) -> Sessions {
        Sessions { clock, mark: Arc::default(), table: Arc::default() }
    }

    /// Starts a command. Its events go to `events` in order; when that is full the command waits, when the receiver is
    /// dropped they are lost, and the command goes on. So read them in a task of their own: while it is full, the command
    /// cannot be ended either.
    pub async fn start(&self, mut spec: Spec, events: mpsc::Sender<Event>) -> Result<Session, SessionError> {
        if self.running().len() >= SESSIONS_MAX {
            return Err(SessionError::TooMany);
        }
        let failed = |source| {
            let program = spec.argv.first().cloned().unwrap_or_default();
            let program = if spec.cwd.is_dir() { program } else { format!("folder {}", spec.cwd.display()) };
            SessionError::Start { program, source }
        };
        let all = self.mark.get_or_init(|| format!("{}/{}", left::server(), self.clock.new_id()));
        let mark = format!("{all}/{}/{}", spec.owner, self.clock.new_id());
        spec.environment.insert(left::VARIABLE.to_owned(), mark);
        let Started { child, stream } = spawn::spawn(&spec).await.map_err(failed)?;
        // SAFETY: an `OwnedFd` always gives the same descriptor and keeps it open until it is dropped, after the `AsyncFd`
        // has taken it out of the reactor.
        let stream = unsafe { AsyncFd::register(stream) }.map_err(|error| failed(error.into()))?;
        let stream = Arc::new(stream);
        let (orders, order_queue) = mpsc::unbounded_channel();
        let (exit_sender, exit) = watch::channel(None);
        let shared = Arc::new(Shared {
            os_pid: child.id().unwrap_or_default(),
            started: Instant::now(),
            fresh: Mutex::default(),
            orders,
            exit,
            terminal: spec.tty.then(|| stream.clone()),
            spec,
        });
        let id = self.enter(&shared);
        let task = Task {
            shared,
            stream,
            events,
            orders: order_queue,
            aggregated: HeadTail::default(),
            decoder: Decoder::default(),
        };
        tokio::spawn(task.run(child, exit_sender));
        self.session(id)
    }

    fn enter(&self, shared: &Arc<Shared>) -> i64 {
        let mut table = self.table();
        // Finished ones that nobody asked for any more make room.
        while table.len() >= 2 * SESSIONS_MAX {
            let finished = table.values().find(|session| session.exit().is_some()).map(|session| session.id);
            let Some(finished) = finished else { break };
            table.remove(&finished);
        }
        loop {
            // Random, so that a number from before a restart does not name a newer command.
            let (high, low) = self.clock.new_id().as_u64_pair();
            let id = 1_000 + ((high ^ low) % 99_000) as i64;
            if let std::collections::btree_map::Entry::Vacant(entry) = table.entry(id) {
                entry.insert(Session { id, shared: shared.clone() });
                return id;
            }
        }
    }

    /// The session with this number; a finished one until its end was collected.
    pub fn session(&self, id: i64) -> Result<Session, SessionError> {
        self.table().get(&id).cloned().ok_or(SessionError::Unknown(id))
    }

    /// Forget a session whose end the model has been told.
    pub fn forget(&self, id: i64) {
        self.table().remove(&id);
    }

    /// A short random word for an answer.
    pub fn chunk_id(&self) -> String {
        let id = self.clock.new_id().simple().to_string();
        id[id.len() - 6..].to_owned()
    }

    /// The commands that run now.
    pub fn list(&self) -> Vec<Listed> {
        self.running().iter().map(Session::listed).collect()
    }

    /// Ends a running command; false when there is none with this number.
    pub fn terminate(&self, id: i64) -> bool {
        let Ok(session) = self.session(id) else { return false };
        session.exit().is_none() && session.terminate()
    }

    /// Ends all running commands, without waiting for it.
    pub fn terminate_all(&self) {
        for session in self.running() {
            session.terminate();
        }
    }

    /// Kills all running commands and what others have left, and waits until they are gone.
    pub async fn shutdown(&self) {
        let running = self.running();
        for session in &running {
            let _ = session.shared.orders.send(Order::Kill);
        }
        for session in running {
            session.ended().await;
        }
        if let Some(all) = self.mark.get() {
            kill_marked(format!("{all}/")).await;
        }
    }

    /// Kills what the finished commands of this owner have left in the background.
    pub async fn kill_left(&self, owner: &str) {
        if let Some(all) = self.mark.get() {
            kill_marked(format!("{all}/{owner}/")).await;
        }
    }

    fn running(&self) -> Vec<Session> {
        self.table().values().filter(|session| session.exit().is_none()).cloned().collect()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<i64, Session>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// What the command was started with.
    pub fn spec(&self) -> &Spec {
        &self.shared.spec
    }

    /// The process id of its leader.
    pub fn os_pid(&self) -> u32 {
        self.shared.os_pid
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.shared.exit.borrow()
    }

    /// How long it has run, or ran.
    pub fn took(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// Ends it at once; false when it has ended.
    pub fn kill(&self) -> bool {
        self.shared.orders.send(Order::Kill).is_ok()
    }

    /// Waits until it has ended and all output is there.
    pub async fn ended(&self) -> Exit {
        let mut exit = self.shared.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Terminated),
            // Its task is gone without an end: the runtime is shutting down.
            Err(_) => Exit::Terminated,
        }
    }

    /// Waits for the end, at most for `wait`, and gives the output that came since the last time.
    ///
    /// *Cancel safety*: a dropped call takes no output away.
    pub async fn collect(&self, wait: Duration) -> Collected {
        let begin = Instant::now();
        let exit = timeout_at(begin + wait, self.ended()).await.ok();
        let fresh = std::mem::take(&mut *self.shared.fresh());
        Collected { output: fresh.text(), output_bytes: fresh.bytes(), exit, waited: begin.elapsed() }
    }

    /// Writes to the command's terminal.
    pub async fn write(&self, chars: &str) -> Result<(), SessionError> {
        let terminal = self.shared.terminal.as_ref().ok_or(SessionError::NoInput(self.id))?;
        let mut rest = chars.as_bytes();
        while !rest.is_empty() {
            let written = terminal
                .async_io(tokio::io::Interest::WRITABLE, |stream| Ok(rustix::io::write(stream, rest)?))
                .await
                .map_err(|source| SessionError::Write { id: self.id, source })?;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Asks the command to end, and makes it soon after; false when it has ended.
    pub fn terminate(&self) -> bool {
        self.shared.orders.send(Order::Terminate).is_ok()
    }

    fn listed(&self) -> Listed {
        let usage = usage::of_session(self.shared.os_pid);
        let seconds = self.shared.started.elapsed().as_secs_f64().max(0.01);
        let Spec { argv, cwd, label, .. } = self.spec().clone();
        Listed {
            id: self.id,
            label,
            argv,
            cwd,
            os_pid: self.shared.os_pid,
            cpu_percent: 100.0 * usage.cpu_seconds / seconds,
            rss_kb: usage.rss_kb,
        }
    }
}

impl Shared {
    fn fresh(&self) -> MutexGuard<'_, HeadTail> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner of a running process.
struct Task {
    shared: Arc<Shared>,
    stream: Arc<AsyncFd<OwnedFd>>,
    events: mpsc::Sender<Event>,
    orders: mpsc::UnboundedReceiver<Order>,
    aggregated: HeadTail,
    decoder: Decoder,
}

impl Task {
    async fn run(mut self, child: Child, exit_sender: watch::Sender<Option<Exit>>) {
        let mut process = Process::new(child);
        let exit = self.until_exit(&mut process).await;
        if let (Exit::TimedOut | Exit::Terminated, Some(mark)) =
            (exit, self.shared.spec.environment.get(left::VARIABLE))
        {
            kill_marked(mark.clone()).await;
        }
        self.drain().await;
        let rest = self.decoder.finish();
        self.take(rest).await;
        // First the events' end, then the sessions': who sees the end has seen all output.
        let ended =
            Event::Ended { exit, aggregated: self.aggregated.text(), took: self.shared.started.elapsed() };
        let _ = self.events.send(ended).await;
        let _ = exit_sender.send(Some(exit));
    }

    async fn until_exit(&mut self, process: &mut Process) -> Exit {
        let mut deadline = self.shared.spec.timeout.map(|timeout| self.shared.started + timeout);
        let mut forced_end = None;
        let mut asked = None;
        let mut open = true;
        loop {
            let wake = [deadline, forced_end].into_iter().flatten().min();
            tokio::select! {
                biased;
                order = self.orders.recv() => {
                    asked.get_or_insert(Exit::Terminated);
                    match order {
                        Some(Order::Terminate) if forced_end.is_none() => {
                            process.signal(Signal::TERM);
                            forced_end = Some(Instant::now() + GRACE_TIME);
                        }
                        Some(Order::Terminate) => {}
                        // Nobody can ask for anything any more, which the shared state rules out, or a kill.
                        Some(Order::Kill) | None => process.signal(Signal::KILL),
                    }
                }
                _ = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        asked.get_or_insert(Exit::TimedOut);
                        deadline = None;
                    }
                    forced_end = None;
                    process.signal(Signal::KILL);
                }
                read = read(&self.stream), if open => open = self.took(read).await,
                status = process.wait() => return asked.unwrap_or_else(|| of_status(status)),
            }
        }
    }

    /// What was written before the end is still in the pipe; what children of the command write later is not awaited.
    async fn drain(&mut self) {
        let end = Instant::now() + DRAIN_TIME;
        loop {
            match timeout_at(end, read(&self.stream)).await {
                Ok(bytes) => {
                    if !self.took(bytes).await {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    async fn took(&mut self, read: io::Result<Vec<u8>>) -> bool {
        match read {
            Ok(bytes) if !bytes.is_empty() => {
                let text = self.decoder.decode(&bytes);
                self.take(text).await;
                true
            }
            // The end; a terminal says EIO when its last user is gone.
            _ => false,
        }
    }

    async fn take(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        self.aggregated.push(&text);
        self.shared.fresh().push(&text);
        let _ = self.events.send(Event::Output(text)).await;
    }
}

async fn kill_marked(mark: String) {
    // It fails only when the runtime is shutting down.
    let _ = tokio::task::spawn_blocking(move || left::kill(&mark)).await;
}

async fn read(stream: &AsyncFd<OwnedFd>) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; READ_BYTES];
    let read = stream
        .async_io(tokio::io::Interest::READABLE, |stream| Ok(rustix::io::read(stream, &mut buffer[..])?))
        .await?;
    buffer.truncate(read);
    Ok(buffer)
}

fn of_status(status: io::Result<ExitStatus>) -> Exit {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Code(-1),
        },
        Err(_) => Exit::Code(-1),
    }
}
