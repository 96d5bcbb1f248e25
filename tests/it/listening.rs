//! Listeners: unix sockets, HTTP, frames and slow readers of WebSockets, and what keeps a server from starting.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Output, Stdio};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message, WebSocket, client};

use crate::support::home::Home;
use crate::support::model::Reply;
use crate::support::{PATIENCE, id};

/// A server of which the test reads what it says.
struct Listening {
    process: Child,
    stderr: BufReader<ChildStderr>,
}

impl Listening {
    fn start(home: &Home, arguments: &[&str]) -> Listening {
        let mut all = vec!["app-server"];
        all.extend(arguments);
        let mut process = home.command(&all).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        Listening { process, stderr }
    }

    /// The rest of the next line that has this in it.
    fn says(&mut self, part: &str) -> String {
        let mut line = String::new();
        while self.stderr.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once(part) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the server ended without saying {part:?}");
    }

    fn terminate(mut self) -> Option<i32> {
        // SAFETY: kill takes plain numbers; the process is our child and not yet waited for.
        unsafe { libc::kill(self.process.id() as i32, libc::SIGTERM) };
        self.process.wait().unwrap().code()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(home: &Home, arguments: &[&str]) -> Output {
    let mut all = vec!["app-server"];
    all.extend(arguments);
    home.command(&all).stdin(Stdio::null()).output().unwrap()
}

/// The server must not start.
fn check_refused(home: &Home, arguments: &[&str], code: i32, part: &str) {
    let output = run(home, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part), "{arguments:?}: {said:?} does not have {part:?}");
}

/// The result of a request on a socket, whatever comes between.
fn request<S: Read + Write>(socket: &mut WebSocket<S>, id: i64, method: &str, params: &Value) -> Value {
    let text = json!({"id": id, "method": method, "params": params}).to_string();
    socket.send(Message::text(text)).unwrap();
    reply(socket, id)["result"].clone()
}

fn reply<S: Read + Write>(socket: &mut WebSocket<S>, id: i64) -> Value {
    loop {
        if let Message::Text(text) = socket.read().unwrap() {
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }
}

fn introduce<S: Read + Write>(socket: &mut WebSocket<S>) -> Value {
    request(socket, 0, "initialize", &json!({"clientInfo": {"name": "it", "version": "0.1.0"}}))
}

fn on_tcp(url: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(url.trim_start_matches("ws://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    client(url, stream).unwrap().0
}

// Unix sockets ----------------------------------------------------------------------------------------------------

fn on_unix(path: &Path) -> WebSocket<UnixStream> {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (socket, response) = client("ws://localhost/any/path", stream).unwrap();
    assert_eq!(response.headers()["x-codex-websocket-max-unfragmented-message-bytes"], "16777216");
    socket
}

#[test]
fn a_unix_socket_serves_its_owner_alone_and_goes_with_the_process() {
    let home = Home::new();
    let mut server = Listening::start(&home, &["--listen", "unix://"]);
    let path = server.says("unix://");
    let path = Path::new(&path);
    assert_eq!(path, home.path().join("app-server-control/app-server-control.sock"));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700));
    let reply = introduce(&mut on_unix(path));
    assert_eq!(reply["platformFamily"], "unix");
    assert_eq!(server.terminate(), Some(0));
    assert!(!path.exists());
}

#[test]
fn a_unix_socket_in_use_is_left_alone_and_a_stale_one_replaced() {
    let home = Home::new();
    let path = home.path().join("own.sock");
    let url = format!("unix://{}", path.display());
    let mut first = Listening::start(&home, &["--listen", &url]);
    first.says("unix://");
    check_refused(&home, &["--listen", &url], 1, "app-server control socket is already in use at");
    introduce(&mut on_unix(&path));
    first.kill();
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
    let mut second = Listening::start(&home, &["--listen", &url]);
    second.says("unix://");
    introduce(&mut on_unix(&path));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a file").unwrap();
    let part = "app-server control socket path exists and is not a socket";
    check_refused(&home, &["--listen", &url], 1, part);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
}

// HTTP ------------------------------------------------------------------------------------------------------------

/// Status and body of a request, as curl would send it.
fn post(address: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The reply to a call.
fn call(address: &str, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let (status, body) = post(address, "", &body);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn http_serves_the_same_methods_without_initialize() {
    let home = Home::new();
    let mut server = Listening::start(&home, &["--listen", "http://127.0.0.1:0"]);
    let address = server.says("listening on: http://");
    let started = call(&address, "thread/start", &json!({"historyMode": "paginated"}));
    let thread = id(&started["result"]["thread"]);
    let turn = json!({"threadId": thread, "input": [{"type": "text", "text": "hello"}]});
    assert!(call(&address, "turn/start", &turn).get("result").is_some());
    home.model.wait_for_requests(1);
    let read = call(&address, "thread/read", &json!({"threadId": thread, "includeTurns": true}));
    assert_eq!(id(&read["result"]["thread"]), thread);
    assert_eq!(read["result"]["thread"]["turns"].as_array().unwrap().len(), 1);
    let refused = call(&address, "thread/read", &json!({"threadId": 5}));
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(call(&address, "nosuch", &json!({}))["error"]["code"], -32601);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn http_refuses_web_pages_and_asks_for_the_token() {
    let home = Home::new();
    let token = home.path().join("token");
    std::fs::write(&token, "open-sesame\n").unwrap();
    let arguments = ["--ws-auth", "capability-token", "--ws-token-file", token.to_str().unwrap()];
    let mut all = vec!["--listen", "http://127.0.0.1:0"];
    all.extend(arguments);
    let mut server = Listening::start(&home, &all);
    let address = server.says("listening on: http://");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "thread/list", "params": {}}).to_string();
    let bearer = "authorization: Bearer open-sesame\r\n";
    assert_eq!(post(&address, "", &body), (401, "missing websocket bearer token".to_owned()));
    assert_eq!(post(&address, &format!("{bearer}origin: http://evil\r\n"), &body), (403, String::new()));
    assert_eq!(post(&address, bearer, &body).0, 200);
}

// WebSocket -------------------------------------------------------------------------------------------------------

#[test]
fn pings_are_answered_and_binary_frames_left_out() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let mut socket = on_tcp(&listener.url);
    socket.send(Message::Ping(Bytes::from_static(b"there?"))).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong(Bytes::from_static(b"there?")));
    let list = json!({"id": 1, "method": "thread/loaded/list", "params": {}}).to_string();
    socket.send(Message::Binary(Bytes::from(list.into_bytes()))).unwrap();
    introduce(&mut socket);
    request(&mut socket, 2, "thread/loaded/list", &json!({}));
}

#[test]
fn a_frame_above_the_limit_ends_the_connection() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let mut socket = on_tcp(&listener.url);
    // The server may be gone before all is written.
    let _ = socket.send(Message::text(" ".repeat((16 << 20) + 1)));
    assert!(socket.read().is_err());
    introduce(&mut on_tcp(&listener.url));
}

#[test]
fn a_client_that_does_not_read_is_disconnected_and_told_why() {
    let home = Home::new();
    let mut server = Listening::start(&home, &["--listen", "ws://127.0.0.1:0"]);
    let url = format!("ws://{}", server.says("ws://"));
    let mut socket = on_tcp(&url);
    let stream = socket.get_ref().try_clone().unwrap();
    // Each is refused with a text that has the whole name, which soon fills what the kernel holds.
    let name = format!("{}\n", "x".repeat(2000));
    let text =
        json!({"id": 1, "method": "initialize", "params": {"clientInfo": {"name": name, "version": "1"}}})
            .to_string();
    let writing = std::thread::spawn(move || {
        let role = tokio_tungstenite::tungstenite::protocol::Role::Client;
        let mut socket = WebSocket::from_raw_socket(stream, role, None);
        while socket.send(Message::text(text.as_str())).is_ok() {}
    });
    server.says("a client reads too slowly");
    let close = loop {
        match socket.read().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            Message::Text(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(close.code, CloseCode::Again);
    assert!(close.reason.contains("resume"), "{}", close.reason);
    socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    writing.join().unwrap();
    introduce(&mut on_tcp(&url));
}

#[test]
fn a_client_that_reads_late_holds_up_no_turn_and_gets_the_whole_text() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let mut client = listener.connect();
    let all = ["item/agentMessage/delta"];
    client.initialize_as("it", &json!({"experimentalApi": true, "optOutNotificationMethods": all}));
    let thread = client.used_thread("hello");
    let mut late = on_tcp(&listener.url);
    introduce(&mut late);
    request(&mut late, 1, "thread/resume", &json!({"threadId": thread}));
    let pieces: Vec<String> = (0..3_000).map(|number| format!("{number:06}{}", "x".repeat(1000))).collect();
    let borrowed: Vec<&str> = pieces.iter().map(String::as_str).collect();
    home.model.script([Reply::default().pieces(&borrowed)]);
    let turn = client.run_turn(&thread, "say much");
    assert_eq!(turn["status"], "completed", "the turn waits for nobody");
    let mut deltas = Vec::new();
    loop {
        let Message::Text(frame) = late.read().unwrap() else { continue };
        let message: Value = serde_json::from_str(&frame).unwrap();
        match message["method"].as_str() {
            Some("item/agentMessage/delta") => {
                deltas.push(message["params"]["delta"].as_str().unwrap().to_owned());
            }
            Some("turn/completed") => break,
            _ => {}
        }
    }
    assert!(deltas.concat() == pieces.concat(), "the text is not whole");
}

#[test]
fn five_hundred_connections_are_served_and_told() {
    // Also in the server, which inherits it.
    let most = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
    // SAFETY: the pointer is to a value that lives as long as the call.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) };
    let home = Home::new();
    let listener = home.listen(&[]);
    let mut sockets: Vec<_> = (0..500).map(|_| on_tcp(&listener.url)).collect();
    for socket in &mut sockets {
        introduce(socket);
    }
    let mut client = listener.client();
    let thread = client.used_thread("hello");
    for socket in &mut sockets {
        let listed = request(socket, 1, "thread/list", &json!({}));
        assert_eq!(listed["data"][0]["id"], thread);
    }
    let renamed = client.request("thread/name/set", &json!({"threadId": thread, "name": "known to all"}));
    assert_eq!(renamed, json!({}));
    for socket in &mut sockets {
        loop {
            let Message::Text(frame) = socket.read().unwrap() else { continue };
            let message: Value = serde_json::from_str(&frame).unwrap();
            if message["method"] == "thread/name/updated" {
                assert_eq!(message["params"]["threadName"], "known to all");
                break;
            }
        }
    }
}

#[test]
fn a_signed_token_opens_the_connection_for_its_audience_and_time() {
    let home = Home::new();
    let secret = "a secret of thirty-two bytes or more";
    let file = home.path().join("secret");
    std::fs::write(&file, secret).unwrap();
    let listener = home.listen(&[
        "--ws-auth",
        "signed-bearer-token",
        "--ws-shared-secret-file",
        file.to_str().unwrap(),
        "--ws-issuer",
        "us",
        "--ws-audience",
        "threads",
        "--ws-max-clock-skew-seconds",
        "60",
    ]);
    let now_s = threadkeep::clock::Clock::system().now_ms() / 1000;
    let connect = |claims: Value| {
        let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes()).unwrap();
        let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap();
        listener.try_connect(&[("authorization", &format!("Bearer {token}"))]).err()
    };
    let claims =
        |issuer: &str, audience: Value, until_s: i64| json!({"iss": issuer, "aud": audience, "exp": until_s});
    assert_eq!(connect(claims("us", json!("threads"), now_s + 60)), None);
    assert_eq!(connect(claims("us", json!(["others", "threads"]), now_s + 60)), None);
    assert_eq!(connect(claims("us", json!("threads"), now_s - 30)), None, "within the clock skew");
    assert_eq!(connect(claims("us", json!("threads"), now_s - 3600)), Some(401), "over");
    assert_eq!(connect(claims("them", json!("threads"), now_s + 60)), Some(401), "another issuer");
    assert_eq!(connect(claims("us", json!("others"), now_s + 60)), Some(401), "another audience");
    assert_eq!(listener.try_connect(&[]).err(), Some(401), "no token");
}

// Starting --------------------------------------------------------------------------------------------------------

#[test]
fn authentication_flags_that_do_not_fit_keep_the_server_from_starting() {
    let home = Home::new();
    let file = |name: &str, text: &str| {
        std::fs::write(home.path().join(name), text).unwrap();
    };
    file("token", "open-sesame");
    file("empty", " \n");
    file("short", "0123456789");
    const TOKEN: &str = "capability-token";
    const SIGNED: &str = "signed-bearer-token";
    for (arguments, part) in [
        (
            vec!["--ws-auth", TOKEN],
            "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set",
        ),
        (
            vec!["--ws-auth", TOKEN, "--ws-token-file", "token", "--ws-token-sha256", "00"],
            "`--ws-token-file` and `--ws-token-sha256` are mutually exclusive",
        ),
        (
            vec!["--ws-auth", TOKEN, "--ws-token-sha256", "00"],
            "--ws-token-sha256 must be a 64-character hex SHA-256 digest",
        ),
        (
            vec!["--ws-auth", SIGNED],
            "`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set",
        ),
        (
            vec!["--ws-token-file", "token"],
            "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`",
        ),
        (
            vec!["--ws-auth", SIGNED, "--ws-token-file", "token"],
            "`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`",
        ),
        (
            vec!["--ws-auth", TOKEN, "--ws-token-file", "token", "--ws-issuer", "us"],
            "`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require",
        ),
        (
            vec!["--ws-auth", TOKEN, "--ws-token-file", "missing"],
            "failed to read websocket auth secret missing: No such file or directory (os error 2)",
        ),
        (
            vec!["--ws-auth", TOKEN, "--ws-token-file", "empty"],
            "websocket auth secret empty must not be empty",
        ),
        (
            vec!["--ws-auth", SIGNED, "--ws-shared-secret-file", "short"],
            "signed websocket bearer secret short must be at least 32 bytes",
        ),
    ] {
        let mut all = vec!["--listen", "ws://127.0.0.1:0"];
        all.extend(arguments);
        check_refused(&home, &all, 1, part);
    }
}

#[test]
fn addresses_that_cannot_be_listened_on_are_named() {
    let home = Home::new();
    let listener = home.listen(&[]);
    let taken = listener.url.clone();
    for (arguments, code, part) in [
        (vec!["--listen", "off"], 1, "no transport configured"),
        (vec!["--listen", "ftp://x"], 2, "unsupported --listen URL `ftp://x`; expected `stdio://`"),
        (
            vec!["--listen", "ws://localhost:0"],
            2,
            "invalid websocket --listen URL `ws://localhost:0`; expected `ws://IP:PORT`",
        ),
        (vec!["--listen", "http://localhost"], 2, "invalid http --listen URL"),
        (vec!["--listen", "stdio://", "--stdio"], 2, "cannot be used with"),
        (vec!["--listen", "http://0.0.0.0:0"], 1, "--ws-auth"),
        (vec!["--listen", &taken], 1, "(os error 98)"),
        (vec!["--ws-auth", "magic"], 2, "capability-token"),
    ] {
        check_refused(&home, &arguments, code, part);
    }
}

#[test]
fn settings_that_are_gone_keep_the_server_from_starting() {
    let home = Home::new();
    let part = "approval_policy = \"untrusted\" is no longer supported; remove this setting";
    check_refused(&home, &["-c", "approval_policy=untrusted"], 1, part);
}

#[test]
fn overrides_before_and_after_the_command_both_count() {
    let home = Home::new();
    let arguments = ["-c", "model=\"one\"", "app-server", "-c", "model_provider=\"mock_provider\""];
    let mut server = crate::support::client::Server::start(home.command(&arguments));
    server.initialize();
    assert_eq!(server.start_thread()["modelProvider"], "mock_provider");
    let read = server.request("config/read", &json!({}));
    assert_eq!(read["config"]["model"], "one");
}
