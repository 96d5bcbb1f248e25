//! Clients of the real binary: over its stdin and stdout, and over WebSocket. They wait for messages, never for time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, HandshakeError, Message, WebSocket, client};

use super::{PATIENCE, id, text};

/// One connection: requests, replies, notifications.
pub struct Client {
    send: Box<dyn FnMut(&str) + Send>,
    inbox: Receiver<String>,
    kept: Vec<Value>,
    next_id: i64,
    /// Every message that came, in order.
    pub came: Vec<Value>,
}

impl Client {
    fn new(send: Box<dyn FnMut(&str) + Send>, inbox: Receiver<String>) -> Client {
        Client { send, inbox, kept: Vec::new(), next_id: 1, came: Vec::new() }
    }

    /// Send a line or frame as it stands.
    pub fn send_raw(&mut self, text: &str) {
        (self.send)(text);
    }

    /// The first message that `wanted` accepts, of those kept and those to come.
    pub fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.kept.iter().position(&wanted) {
            return self.kept.remove(place);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let message = match self.inbox.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(text) => serde_json::from_str::<Value>(&text).unwrap(),
                Err(RecvTimeoutError::Timeout) => panic!("{what} did not come; kept: {}", self.names()),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the connection ended before {what}; kept: {}", self.names())
                }
            };
            self.came.push(message.clone());
            if wanted(&message) {
                return message;
            }
            self.kept.push(message);
        }
    }

    /// Wait until the server has ended the connection.
    pub fn until_hung_up(&self) {
        until_the_end(&self.inbox);
    }

    fn names(&self) -> String {
        let names: Vec<String> = self
            .kept
            .iter()
            .map(|message| message["method"].as_str().map_or_else(|| message.to_string(), str::to_owned))
            .collect();
        names.join(", ")
    }

    /// Send a request and return its id without waiting.
    pub fn post(&mut self, method: &str, params: &Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send_raw(&json!({"id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The whole reply with this id, the type of the id included.
    pub fn reply(&mut self, id: &Value) -> Value {
        self.wait_for(&format!("the reply {id}"), |message| {
            message.get("id") == Some(id) && message.get("method").is_none()
        })
    }

    /// The result of a request that must succeed.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.post(method, params);
        let reply = self.reply(&json!(id));
        assert!(reply.get("result").is_some(), "{method} failed: {reply}");
        reply["result"].clone()
    }

    /// The error of a request that must fail.
    pub fn error(&mut self, method: &str, params: &Value) -> Value {
        let id = self.post(method, params);
        let reply = self.reply(&json!(id));
        assert!(reply.get("error").is_some(), "{method} should fail: {reply}");
        reply["error"].clone()
    }

    /// The request must fail as invalid, with this in its message.
    pub fn refused(&mut self, method: &str, params: &Value, part: &str) {
        let error = self.error(method, params);
        assert_eq!(error["code"], -32600, "{method} {params}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part), "{method} {params}: {message:?} does not have {part:?}");
    }

    /// The params of the next notification of a method.
    pub fn notification(&mut self, method: &str) -> Value {
        self.notification_where(method, |_| true)
    }

    /// The params of the next notification of a method that `wanted` accepts.
    pub fn notification_where(&mut self, method: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let message = self.wait_for(method, |message| {
            message["method"] == method && message.get("id").is_none() && wanted(&message["params"])
        });
        message["params"].clone()
    }

    /// The next request of the server of this method.
    pub fn asked(&mut self, method: &str) -> Value {
        self.wait_for(method, |message| message["method"] == method && message.get("id").is_some())
    }

    /// Answer a request of the server.
    pub fn answer(&mut self, asked: &Value, result: &Value) {
        self.send_raw(&json!({"id": asked["id"], "result": result}).to_string());
    }

    /// The next item of this type that is complete.
    pub fn item(&mut self, kind: &str) -> Value {
        self.notification_where("item/completed", |params| params["item"]["type"] == kind)["item"].clone()
    }

    /// The requests of the server so far, in order.
    pub fn questions(&self) -> Vec<&Value> {
        self.came
            .iter()
            .filter(|message| message.get("method").is_some() && message.get("id").is_some())
            .collect()
    }

    /// The items of a kind that were told to have started or completed so far.
    pub fn items(&self, thread: &str, moment: &str, kind: &str) -> Vec<Value> {
        let all = self.events(thread, &[&format!("item/{moment}")]).into_iter();
        all.map(|event| event["params"]["item"].clone()).filter(|item| item["type"] == kind).collect()
    }

    /// Initialize as a client of this name.
    pub fn initialize_as(&mut self, name: &str, capabilities: &Value) -> Value {
        let client = json!({"name": name, "title": null, "version": "0.1.0"});
        let reply = self.request("initialize", &json!({"clientInfo": client, "capabilities": capabilities}));
        self.send_raw(r#"{"method":"initialized"}"#);
        reply
    }

    pub fn initialize(&mut self) {
        self.initialize_as("it", &json!({"experimentalApi": true}));
    }

    /// Everything sent before has been looked at.
    pub fn settle(&mut self) {
        self.request("thread/loaded/list", &json!({}));
    }

    /// Start a thread and return it.
    pub fn start_thread(&mut self) -> Value {
        self.request("thread/start", &json!({}))["thread"].clone()
    }

    /// A thread that has had one turn; its id.
    pub fn used_thread(&mut self, say: &str) -> String {
        let thread = id(&self.start_thread());
        self.run_turn(&thread, say);
        thread
    }

    /// Start a turn; its id.
    pub fn start_turn(&mut self, thread: &str, say: &str) -> String {
        id(&self.request("turn/start", &json!({"threadId": thread, "input": text(say)}))["turn"])
    }

    /// Wait until this turn is over; the turn.
    pub fn completed(&mut self, turn: &str) -> Value {
        self.notification_where("turn/completed", |params| params["turn"]["id"] == turn)["turn"].clone()
    }

    /// Run a turn to its end; the turn.
    pub fn run_turn(&mut self, thread: &str, say: &str) -> Value {
        let turn = self.start_turn(thread, say);
        self.completed(&turn)
    }

    /// A thread as `thread/read` has it, with its turns.
    pub fn read(&mut self, thread: &str) -> Value {
        self.request("thread/read", &json!({"threadId": thread, "includeTurns": true}))["thread"].clone()
    }

    /// What came of these methods for a thread, in order.
    pub fn events(&self, thread: &str, methods: &[&str]) -> Vec<Value> {
        let ours = |message: &&Value| {
            message["params"]["threadId"] == thread
                && (methods.is_empty() || methods.iter().any(|method| message["method"] == *method))
        };
        self.came.iter().filter(ours).cloned().collect()
    }
}

/// A server process with its one client on stdio. It is killed when it is dropped.
pub struct Server {
    client: Client,
    process: Child,
}

impl Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Server {
    pub fn start(mut command: Command) -> Server {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin: Option<ChildStdin> = process.stdin.take();
        let send = Box::new(move |text: &str| {
            if text == END {
                stdin = None;
            } else if let Some(stdin) = &mut stdin {
                // A server that has ended is noticed by whoever waits for its answer.
                let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
            }
        });
        let inbox = lines(process.stdout.take().unwrap());
        Server { client: Client::new(send, inbox), process }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, signal: i32) {
        send_signal(&self.process, signal);
    }

    /// Kill the process at once.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// End the input and wait until the process has ended.
    pub fn close(mut self) -> ExitStatus {
        self.send_raw(END);
        self.wait()
    }

    /// Wait until the process has ended by itself.
    pub fn wait(mut self) -> ExitStatus {
        until_the_end(&self.inbox);
        self.process.wait().unwrap()
    }
}

fn send_signal(process: &Child, signal: i32) {
    // SAFETY: kill takes plain numbers; the process is our child and not yet waited for.
    unsafe { libc::kill(process.id() as i32, signal) };
}

/// Wait for the end of a process's output, which comes when it ends.
fn until_the_end(output: &Receiver<String>) {
    let end = Instant::now() + PATIENCE;
    loop {
        match output.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => panic!("the server did not end"),
        }
    }
}

/// What no message can be: ends the input of a server.
const END: &str = "\u{4}";

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The lines of a stream as they come. The channel ends with the stream.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A server process that listens for WebSocket connections. It is killed when it is dropped.
pub struct Listener {
    process: Child,
    /// What it says on stderr; the channel ends with the process.
    said: Receiver<String>,
    /// Where it listens, as it said.
    pub url: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Listener {
    pub fn start(mut command: Command) -> Listener {
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = lines(process.stderr.take().unwrap());
        let mut listener = Listener { process, said, url: String::new() };
        let end = Instant::now() + PATIENCE;
        while listener.url.is_empty() {
            let line = listener.said.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.expect("the server names its address");
            if let Some((_, url)) = line.split_once("listening on: ") {
                listener.url = url.trim().to_owned();
            }
        }
        listener
    }

    fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("ws://").parse().unwrap()
    }

    pub fn signal(&self, signal: i32) {
        send_signal(&self.process, signal);
    }

    /// Whether the process has ended already.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Wait until the process has ended by itself.
    pub fn wait(mut self) -> ExitStatus {
        until_the_end(&self.said);
        self.process.wait().unwrap()
    }

    /// Open a connection to the unix socket on which it listens.
    pub fn connect_unix(&self) -> Client {
        let stream = UnixStream::connect(self.url.trim_start_matches("unix://")).unwrap();
        let reader = stream.try_clone().unwrap();
        let opened = open_socket("ws://localhost/", &[], stream, reader);
        opened.unwrap_or_else(|status| panic!("the upgrade was refused with {status}"))
    }

    /// Open a connection with these headers, or give the status with which it is refused.
    pub fn try_connect(&self, headers: &[(&'static str, &str)]) -> Result<Client, u16> {
        let stream = TcpStream::connect(self.address()).unwrap();
        let reader = stream.try_clone().unwrap();
        open_socket(&format!("{}/", self.url), headers, stream, reader)
    }

    /// Open a connection that has not initialized.
    pub fn connect(&self) -> Client {
        self.try_connect(&[]).unwrap_or_else(|status| panic!("the upgrade was refused with {status}"))
    }

    /// Open a connection that is ready for requests.
    pub fn client(&self) -> Client {
        let mut client = self.connect();
        client.initialize();
        client
    }

    /// The status and the body of a plain HTTP request.
    pub fn http(&self, method: &str, path: &str, header: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{header}\r\n",
            self.address()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

/// Open a WebSocket connection over a socket, of which `reader` is a second handle.
fn open_socket<S: Read + Write + Send + 'static>(
    url: &str,
    headers: &[(&'static str, &str)],
    stream: S,
    reader: S,
) -> Result<Client, u16> {
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
    }
    let mut socket = match client(request, stream) {
        Ok((socket, _)) => socket,
        Err(HandshakeError::Failure(Error::Http(response))) => return Err(response.status().as_u16()),
        Err(error) => panic!("the upgrade failed: {error}"),
    };
    let reader = WebSocket::from_raw_socket(reader, Role::Client, None);
    let (sender, inbox) = channel();
    thread::spawn(move || read_frames(reader, &sender));
    let send = Box::new(move |text: &str| socket.send(Message::text(text)).unwrap());
    Ok(Client::new(send, inbox))
}

fn read_frames<S: Read + Write>(mut reader: WebSocket<S>, sender: &Sender<String>) {
    while let Ok(message) = reader.read() {
        if let Message::Text(text) = message
            && sender.send(text.to_string()).is_err()
        {
            return;
        }
    }
}
