//! The WebSocket protocol on a unix socket (`protocol/connection.md`, section 8).

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use super::auth::Auth;
use super::websocket::{self, OriginRule};
use super::{Server, Signals};

/// The socket's place when none is given.
pub fn default_path(home: &Path) -> PathBuf {
    home.join("app-server-control").join("app-server-control.sock")
}

/// Listen on a socket until a signal ends the process; the socket is removed then.
///
/// # Errors
/// The path is in use, or cannot be used.
pub async fn serve(server: Server, path: &Path) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let listener = bind(path).await?;
    eprintln!("threadkeep app-server (unix socket)\n  listening on: unix://{}", path.display());
    tokio::select! {
        () = accept(&server, &listener) => {}
        () = super::drain(&server.runtime, signals) => {}
    }
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, path = %path.display(), "the socket could not be removed");
    }
    Ok(())
}

async fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(dir) = path.parent()
        && !dir.exists()
    {
        fs::create_dir_all(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
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
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn accept(server: &Server, listener: &UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(websocket::handle(server.clone(), stream, Auth::Open, OriginRule::Allowed));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}
