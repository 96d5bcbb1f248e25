//! The WebSocket protocol on a unix socket (`protocol/connection.md`, section 8).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};

use super::auth::Auth;
use super::websocket::{self, OriginRule};
use super::{Server, Signals};

/// The folder, in a home, of the socket and of the lock under which a process takes a socket's place.
const CONTROL_DIR: &str = "app-server-control";

/// The socket's place when none is given.
pub fn default_path(home: &Path) -> PathBuf {
    home.join(CONTROL_DIR).join("app-server-control.sock")
}

/// Listen on a socket until a signal ends the process; the socket is removed then.
///
/// # Errors
/// The path is in use, or cannot be used.
pub async fn serve(server: Server, path: &Path) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let listener = bind(path, &server.runtime.config.home().path().join(CONTROL_DIR)).await?;
    eprintln!("threadkeep app-server (unix socket)\n  listening on: unix://{}", path.display());
    tokio::select! {
        () = websocket::accept(async || Ok(listener.accept().await?.0), |stream: UnixStream| {
            tokio::spawn(websocket::handle(server.clone(), stream, Auth::Open, OriginRule::Allowed));
        }) => {}
        () = super::drain(&server, signals) => {}
    }
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, path = %path.display(), "the socket could not be removed");
    }
    Ok(())
}

/// Take the socket's place. Two processes that start at once must not both find a stale socket and replace it, so a lock
/// is held until the new one is there.
async fn bind(path: &Path, control: &Path) -> anyhow::Result<UnixListener> {
    for dir in [Some(control), path.parent()].into_iter().flatten() {
        if !dir.as_os_str().is_empty() && !dir.exists() {
            fs::create_dir_all(dir)?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        }
    }
    let lock = File::create(control.join("app-server-startup.lock"))?;
    lock.lock()?;
    match fs::symlink_metadata(path) {
        Ok(data) if !data.file_type().is_socket() => {
            anyhow::bail!("app-server control socket path exists and is not a socket: {}", path.display());
        }
        Ok(_) => {
            if UnixStream::connect(path).await.is_ok() {
                anyhow::bail!("app-server control socket is already in use at {}", path.display());
            }
            // Its process is gone.
            fs::remove_file(path)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    // Nobody else may connect between the two calls either.
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
