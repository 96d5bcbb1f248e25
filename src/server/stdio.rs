//! One message a line on standard input and output (`protocol/connection.md`, section 6).
//!
//! The end of the input or of the output, or a signal, ends the process: running turns are interrupted and that is
//! stored.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::connection::Connection;
use super::outbox::Outbox;
use super::{Server, Signals};

/// Serve until the input ends or a signal comes.
///
/// # Errors
/// The signals cannot be listened to, or the client does not read what is sent.
pub async fn serve(server: Server) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let connection = Connection::new(server.clone());
    let outbox = connection.outbox();
    let mut writer = tokio::spawn({
        let outbox = outbox.clone();
        async move { write(&outbox).await }
    });
    tokio::select! {
        () = read(&connection) => {}
        _ = signals.next() => {}
        // The client has closed our output.
        _ = &mut writer => {}
        () = outbox.given_up() => {}
    }
    super::stop(&server, &mut signals).await;
    writer.abort();
    anyhow::ensure!(!outbox.is_given_up(), "the client does not read what is sent to it");
    Ok(())
}

async fn read(connection: &Connection) {
    let mut input = BufReader::with_capacity(64 << 10, tokio::io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line).await {
            Ok(0) => return,
            Ok(_) => match std::str::from_utf8(&line) {
                Ok(text) => connection.receive(text),
                Err(error) => tracing::warn!(%error, "a line that is no UTF-8 is left out"),
            },
            Err(error) => {
                tracing::warn!(%error, "the input cannot be read");
                return;
            }
        }
    }
}

/// Write what waits, several messages at a time when several wait.
async fn write(outbox: &Outbox) {
    let mut output = tokio::io::stdout();
    let mut buffer: Vec<u8> = Vec::new();
    while let Some(text) = outbox.next().await {
        buffer.extend_from_slice(text.as_bytes());
        buffer.push(b'\n');
        if outbox.is_empty() || buffer.len() > 256 << 10 {
            if output.write_all(&buffer).await.is_err() || output.flush().await.is_err() {
                return;
            }
            buffer.clear();
        }
    }
}
