//! WebSocket connections: over TCP, and (by `unix`) over unix sockets (`protocol/connection.md`, section 7).

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};

use super::auth::Auth;
use super::connection::Connection;
use super::head::{self, Head};
use super::outbox::Outbox;
use super::{Server, Signals};

/// The largest frame.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// The largest message of several frames.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How long accepting pauses when the process has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a client that reads too slowly may take to read why it is disconnected.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(5);

/// Listen on an address until a signal ends the process.
///
/// # Errors
/// The address cannot be used.
pub async fn serve(server: Server, address: SocketAddr, auth: Auth) -> anyhow::Result<()> {
    super::check_open(address, &auth)?;
    let signals = Signals::listen()?;
    let listener = TcpListener::bind(address).await?;
    announce(listener.local_addr()?);
    tokio::select! {
        () = accept(async || Ok(listener.accept().await?.0), |stream: TcpStream| {
            // Small messages go out at once; a socket that refuses the option works all the same.
            let _ = stream.set_nodelay(true);
            tokio::spawn(handle(server.clone(), stream, auth.clone(), OriginRule::Refused));
        }) => {}
        () = super::drain(&server, signals) => {}
    }
    Ok(())
}

fn announce(bound: SocketAddr) {
    eprintln!("threadkeep app-server (WebSockets)");
    eprintln!("  listening on: ws://{bound}");
    eprintln!("  readyz: http://{bound}/readyz");
    eprintln!("  healthz: http://{bound}/healthz");
    if bound.ip().is_loopback() {
        eprintln!("  note: binds localhost only (use SSH port-forwarding for remote access)");
    } else {
        eprintln!("  note: websocket auth is required for non-localhost listeners");
    }
}

/// Serve each stream that a listener gives, for good.
pub(super) async fn accept<S>(next: impl AsyncFn() -> std::io::Result<S>, serve: impl Fn(S)) {
    loop {
        match next().await {
            Ok(stream) => serve(stream),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether requests of web pages are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginRule {
    /// On TCP any page could send them.
    Refused,
    /// On a unix socket none can.
    Allowed,
}

/// Serve one stream: health, or an upgrade.
pub(super) async fn handle<S>(server: Server, mut stream: S, auth: Auth, origin: OriginRule)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (head, rest) = match head::read_head(&mut stream).await {
        Ok(read) => read,
        Err(error) => {
            tracing::debug!(%error, "a connection ended before its request");
            return;
        }
    };
    match refusal(&head, &auth, origin, server.runtime.clock.now_ms() / 1000) {
        Some(Refusal { status, headers, body }) => head::respond(&mut stream, status, headers, body).await,
        None => {
            let key = derive_accept_key(head.header("sec-websocket-key").unwrap_or_default().as_bytes());
            let more = match origin {
                OriginRule::Allowed => {
                    format!("x-codex-websocket-max-unfragmented-message-bytes: {MAX_FRAME_BYTES}\r\n")
                }
                OriginRule::Refused => String::new(),
            };
            let accepted = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-accept: {key}\r\n{more}\r\n"
            );
            if stream.write_all(accepted.as_bytes()).await.is_ok() {
                talk(server, stream, rest).await;
            }
        }
    }
}

struct Refusal {
    status: &'static str,
    headers: &'static str,
    body: &'static str,
}

/// What a request that is no good upgrade is answered.
fn refusal(head: &Head, auth: &Auth, origin: OriginRule, now_s: i64) -> Option<Refusal> {
    let refuse = |status, headers, body| Some(Refusal { status, headers, body });
    if origin == OriginRule::Refused && head.header("origin").is_some() {
        return refuse("403 Forbidden", "", "");
    }
    if matches!(head.path.as_str(), "/readyz" | "/healthz") {
        return match head.method.as_str() {
            "GET" | "HEAD" => refuse("200 OK", "", ""),
            _ => refuse("405 Method Not Allowed", "allow: GET,HEAD\r\n", ""),
        };
    }
    let has = |name: &str, word: &str| {
        head.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    if !has("connection", "upgrade") {
        return refuse("400 Bad Request", "", "Connection header did not include 'upgrade'");
    }
    if !has("upgrade", "websocket") {
        return refuse("400 Bad Request", "", "`Upgrade` header did not include 'websocket'");
    }
    if head.header("sec-websocket-version") != Some("13") {
        return refuse("400 Bad Request", "", "`Sec-WebSocket-Version` header did not include '13'");
    }
    if head.header("sec-websocket-key").is_none() {
        return refuse("400 Bad Request", "", "`Sec-WebSocket-Key` header missing");
    }
    match auth.check(head.header("authorization"), now_s) {
        Ok(()) => None,
        Err(body) => refuse("401 Unauthorized", "", body),
    }
}

/// Messages in and out until either side ends.
async fn talk<S>(server: Server, stream: S, rest: Vec<u8>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = WebSocketConfig::default()
        .max_frame_size(Some(MAX_FRAME_BYTES))
        .max_message_size(Some(MAX_MESSAGE_BYTES));
    let _open = server.open.token();
    let ending = server.ending.clone();
    let socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, Some(limits)).await;
    let (sink, mut source) = socket.split();
    let connection = Connection::new(server);
    let outbox = connection.outbox();
    let mut writer = tokio::spawn({
        let outbox = outbox.clone();
        async move { write(&outbox, sink).await }
    });
    let mut writing = true;
    loop {
        let message = tokio::select! {
            message = source.next() => message,
            _ = &mut writer => {
                writing = false;
                break;
            }
            () = outbox.given_up() => break,
            () = ending.cancelled() => break,
        };
        match message {
            Some(Ok(Message::Text(text))) => connection.receive(&text),
            Some(Ok(Message::Close(_))) | None => break,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection broke");
                break;
            }
        }
    }
    connection.closed();
    // A socket that is closed before all that came was read loses what was sent, so it is read on.
    let written = async {
        if writing {
            // How it ended does not matter any more.
            let _ = (&mut writer).await;
        }
    };
    let rest = async { while let Some(Ok(_)) = source.next().await {} };
    if outbox.is_given_up() {
        let told = async { tokio::join!(written, rest) };
        let _ = tokio::time::timeout(GOODBYE_PATIENCE, told).await;
    } else if ending.is_cancelled() {
        // Whoever ends the process does not wait longer than it wants to.
        tokio::select! {
            () = written => {}
            () = rest => {}
        }
    }
    writer.abort();
}

/// Write what waits, several messages at a time when several wait; a client that was too slow is told so.
async fn write<S>(outbox: &Outbox, mut sink: SplitSink<WebSocketStream<S>, Message>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(text) = outbox.next().await {
        if sink.feed(Message::text(text.as_ref())).await.is_err() {
            return;
        }
        if outbox.is_empty() && sink.flush().await.is_err() {
            return;
        }
    }
    if outbox.is_given_up() {
        let reason = "too many messages wait; reconnect and resume the threads".into();
        let frame = CloseFrame { code: CloseCode::Again, reason };
        // It may be gone by now.
        let _ = sink.send(Message::Close(Some(frame))).await;
    }
}
