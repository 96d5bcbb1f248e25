//! Starting the process of a command.
//!
//! All processes are started by one thread that never ends. The kernel sends the parent-death signal when the *thread*
//! that forked ends, and the threads of an async runtime's blocking pool do end while their children run.
//!
//! Between fork and exec only plain system calls are made, on values prepared before: the other threads of the server
//! may hold any lock at the moment of the fork.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::{OnceLock, mpsc},
};

use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal},
    pty::OpenptFlags,
};
use tokio::{process::Child, runtime::Handle, sync::oneshot};

use super::session::Spec;
use crate::tools::sandbox::{
    enter,
    prepare::{self, Sandbox},
};

/// A started process.
pub struct Started {
    /// The leader of its session.
    pub child: Child,
    /// Its output, and for a terminal also its input. Does not block.
    pub stream: OwnedFd,
}

/// Starts the process that `spec` describes.
pub async fn spawn(spec: &Spec) -> io::Result<Started> {
    let (command, stream) = prepare(spec)?;
    rustix::io::ioctl_fionbio(&stream, true)?;
    Ok(Started { child: spawn_prepared(command).await?, stream })
}

/// Starts a helper that talks over its standard streams, in its own group and with the server's life.
pub async fn spawn_helper(mut command: Command) -> io::Result<Child> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = rustix::process::getpid();
    // SAFETY: it makes system calls only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(move || become_command(server, false, None)) };
    spawn_prepared(command).await
}

async fn spawn_prepared(command: Command) -> io::Result<Child> {
    let (reply, started) = oneshot::channel();
    let order = Order { command, runtime: Handle::current(), reply };
    let gone = || io::Error::other("the thread that starts processes is gone");
    spawner()?.send(order).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

struct Order {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

fn spawner() -> io::Result<mpsc::Sender<Order>> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    if let Some(spawner) = SPAWNER.get() {
        return Ok(spawner.clone());
    }
    let (sender, orders) = mpsc::channel::<Order>();
    std::thread::Builder::new().name("spawner".into()).spawn(move || {
        for Order { command, runtime, reply } in orders {
            // A runtime that is shutting down panics here; the others still need this thread.
            let start = AssertUnwindSafe(|| {
                let _context = runtime.enter();
                tokio::process::Command::from(command).kill_on_drop(true).spawn()
            });
            if let Ok(child) = catch_unwind(start) {
                // If nobody waits any more, the dropped child is killed.
                let _ = reply.send(child);
            }
        }
    })?;
    // A second thread started in a race ends when its sender is dropped here, before it has any child.
    Ok(SPAWNER.get_or_init(|| sender).clone())
}

fn prepare(spec: &Spec) -> io::Result<(Command, OwnedFd)> {
    let (program, arguments) = spec
        .argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&spec.cwd).env_clear().envs(&spec.environment);
    let stream = if spec.tty { terminal(&mut command)? } else { pipes(&mut command)? };
    let terminal = spec.tty;
    let server = rustix::process::getpid();
    let sandbox = spec.confinement.as_ref().map(|limits| prepare::prepare(limits, &spec.cwd)).transpose();
    let sandbox = sandbox.map_err(io::Error::other)?;
    let become_command = move || become_command(server, terminal, sandbox.as_ref());
    // SAFETY: it makes system calls only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(become_command) };
    Ok((command, stream))
}

/// Both outputs into one pipe, so that they come in the order of writing. No input: programs that look whether they
/// are fed would wait for it.
fn pipes(command: &mut Command) -> io::Result<OwnedFd> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    Ok(reader.into())
}

fn terminal(command: &mut Command) -> io::Result<OwnedFd> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave =
        rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    let size = rustix::termios::Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&slave, size)?;
    let slave = File::from(slave);
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    Ok(master)
}

/// Runs in the child, before the program.
fn become_command(server: Pid, terminal: bool, sandbox: Option<&Sandbox>) -> io::Result<()> {
    rustix::process::setsid()?;
    if terminal {
        rustix::process::ioctl_tiocsctty(io::stdin().as_fd())?;
    }
    if let Some(sandbox) = sandbox {
        enter::enter_namespace(sandbox)?;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The server may have died before the line above.
    if rustix::process::getppid() != Some(server) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    close_on_exec_all();
    sandbox.map_or(Ok(()), enter::restrict)
}

/// Descriptors that the server itself inherited, or that a library opened carelessly.
fn close_on_exec_all() {
    // SAFETY: takes numbers only; it touches no memory of ours.
    // Kernels before 5.11 refuse; there every descriptor of ours still has the flag from its opening.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
