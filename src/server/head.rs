//! The head of an HTTP request on our own listener: health, refusals, and what asks for an upgrade.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most bytes of a head.
const MAX_HEAD: usize = 16 << 10;

/// How long a client may take to send a head.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// The head of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The first value of a header, its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Read a head, and what was read beyond it.
///
/// # Errors
/// The connection broke, it took too long, or what it sent is no head.
pub(super) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(Head, Vec<u8>)> {
    let (bytes, rest) = tokio::time::timeout(HEAD_PATIENCE, read_to_end_of_head(stream))
        .await
        .map_err(|_| bad("the head of a request took too long"))??;
    let text = std::str::from_utf8(&bytes).map_err(|_| bad("the head of a request is no text"))?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let path = path.split('?').next().unwrap_or_default();
    Ok((Head { method: method.to_owned(), path: path.to_owned(), headers }, rest))
}

/// The bytes of a head, and those after it.
async fn read_to_end_of_head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > MAX_HEAD {
            return Err(bad("the head of a request is too large"));
        }
        let mut chunk = [0; 2048];
        match stream.read(&mut chunk).await? {
            0 => return Err(bad("the connection ended within a head")),
            length => bytes.extend_from_slice(&chunk[..length]),
        }
    };
    let rest = bytes.split_off(end);
    Ok((bytes, rest))
}

fn bad(text: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}

/// Answer and close.
pub(super) async fn respond(stream: &mut (impl AsyncWrite + Unpin), status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}");
    // The client may be gone already; nothing hangs on the answer.
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}
