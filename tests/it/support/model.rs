//! A model server on loopback whose answers a test writes beforehand: the Responses API over SSE.

use std::collections::{HashSet, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

use super::PATIENCE;

/// One scripted answer of the model.
#[derive(Clone, Default)]
pub struct Reply {
    events: Vec<Value>,
    usage: Value,
    failure: Option<(u16, String)>,
    gates: Vec<(usize, String)>,
    cut: bool,
    bare: bool,
}

/// An assistant message in one piece.
pub fn say(text: &str) -> Reply {
    Reply::default().say(text)
}

/// One call of a tool.
pub fn call(name: &str, call_id: &str, arguments: &Value) -> Reply {
    Reply::default().call(name, call_id, arguments)
}

/// One shell command of the model.
pub fn command(call_id: &str, command: &str) -> Reply {
    Reply::default().command(call_id, command)
}

/// An HTTP error with a body.
pub fn status(status: u16, body: &str) -> Reply {
    Reply { failure: Some((status, body.to_owned())), ..Reply::default() }
}

impl Reply {
    /// Exactly these events: nothing is put before or behind them.
    pub fn bare(events: &[Value]) -> Reply {
        Reply { events: events.to_vec(), bare: true, ..Reply::default() }
    }

    /// An assistant message in one piece.
    pub fn say(self, text: &str) -> Reply {
        self.stream(&[text], false)
    }

    /// An assistant message that streams in these pieces.
    pub fn pieces(self, pieces: &[&str]) -> Reply {
        self.stream(pieces, true)
    }

    fn stream(mut self, pieces: &[&str], deltas: bool) -> Reply {
        let id = format!("msg-{}", self.events.len());
        if deltas {
            self.events.push(json!({"type": "response.output_item.added",
                "item": {"type": "message", "role": "assistant", "id": id, "content": []}}));
            for piece in pieces {
                self.events
                    .push(json!({"type": "response.output_text.delta", "item_id": id, "delta": piece}));
            }
        }
        self.events.push(json!({"type": "response.output_item.done", "item": {"type": "message",
            "role": "assistant", "id": id, "content": [{"type": "output_text", "text": pieces.concat()}]}}));
        self
    }

    /// A reasoning item with a summary.
    pub fn reason(mut self, text: &str) -> Reply {
        let id = format!("rs-{}", self.events.len());
        self.events.push(json!({"type": "response.output_item.added",
            "item": {"type": "reasoning", "id": id, "summary": []}}));
        self.events.push(json!({"type": "response.reasoning_summary_text.delta", "item_id": id,
            "summary_index": 0, "delta": text}));
        self.events.push(json!({"type": "response.output_item.done", "item": {"type": "reasoning", "id": id,
            "encrypted_content": "b64", "summary": [{"type": "summary_text", "text": text}]}}));
        self
    }

    /// A function call.
    pub fn call(mut self, name: &str, call_id: &str, arguments: &Value) -> Reply {
        self.events.push(json!({"type": "response.output_item.done", "item": {"type": "function_call",
            "call_id": call_id, "name": name, "arguments": arguments.to_string()}}));
        self
    }

    /// A call of a tool in a namespace.
    pub fn call_in(mut self, namespace: &str, name: &str, call_id: &str, arguments: &Value) -> Reply {
        self.events.push(json!({"type": "response.output_item.done", "item": {"type": "function_call",
            "call_id": call_id, "namespace": namespace, "name": name, "arguments": arguments.to_string()}}));
        self
    }

    /// A call of a custom tool.
    pub fn custom(mut self, name: &str, call_id: &str, input: &str) -> Reply {
        self.events.push(json!({"type": "response.output_item.done", "item": {"type": "custom_tool_call",
            "call_id": call_id, "name": name, "input": input}}));
        self
    }

    /// A shell command of the model.
    pub fn command(self, call_id: &str, command: &str) -> Reply {
        self.call("exec_command", call_id, &json!({"cmd": command}))
    }

    /// What the response cost: input, cached, output and reasoning tokens, and their total.
    pub fn usage(mut self, input: i64, cached: i64, output: i64, reasoning: i64, total: i64) -> Reply {
        self.usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": total});
        self
    }

    /// Hold everything that follows until the test releases this gate.
    pub fn gate(mut self, name: &str) -> Reply {
        self.gates.push((self.events.len(), name.to_owned()));
        self
    }

    /// Hold the event at this place, and what follows it, until the test releases the gate.
    pub fn gate_before(mut self, place: usize, name: &str) -> Reply {
        self.gates.push((place, name.to_owned()));
        self
    }

    /// End the connection after the events so far, in the midst of the stream.
    pub fn cut(mut self) -> Reply {
        self.cut = true;
        self
    }

    fn stream_to(&self, serial: usize, shared: &Shared, stream: &mut TcpStream) -> std::io::Result<()> {
        if let Some((status, body)) = &self.failure {
            return write!(
                stream,
                "HTTP/1.1 {status} Error\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        let response = format!("resp-{serial}");
        if !self.bare {
            frame(stream, &json!({"type": "response.created", "response": {"id": response}}))?;
        }
        for place in 0..=self.events.len() {
            for (_, name) in self.gates.iter().filter(|(at, _)| *at == place) {
                shared.pass(name);
            }
            if let Some(event) = self.events.get(place) {
                frame(stream, &unique(event, serial))?;
            }
        }
        if self.cut {
            return stream.shutdown(std::net::Shutdown::Both);
        }
        if !self.bare {
            let usage = if self.usage.is_null() {
                json!({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0})
            } else {
                self.usage.clone()
            };
            frame(
                stream,
                &json!({"type": "response.completed", "response": {"id": response, "usage": usage}}),
            )?;
        }
        stream.write_all(b"0\r\n\r\n")
    }
}

/// An event whose item ids are those of this response alone.
fn unique(event: &Value, serial: usize) -> Value {
    let mut event = event.clone();
    for place in ["/item/id", "/item_id"] {
        if let Some(Value::String(id)) = event.pointer_mut(place) {
            id.push_str(&format!("-{serial}"));
        }
    }
    event
}

fn frame(stream: &mut TcpStream, event: &Value) -> std::io::Result<()> {
    let text = format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

#[derive(Default)]
struct State {
    script: VecDeque<Reply>,
    repeat: Option<Reply>,
    requests: Vec<Value>,
    /// Other requests: the request line up to the protocol's version, and the body.
    others: Vec<(String, Value)>,
    /// Statuses of other requests, by their line.
    statuses: Vec<(String, u16)>,
    released: HashSet<String>,
    over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn pass(&self, gate: &str) {
        let closed = |state: &mut State| !state.over && !state.released.contains(gate);
        drop(self.changed.wait_while(self.lock(), closed).unwrap());
    }
}

/// The model server of a test.
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Model {
    pub fn start() -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let served = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if served.lock().over {
                    return;
                }
                let (Ok(stream), shared) = (stream, served.clone()) else { continue };
                // A client that goes away is part of many tests.
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Model { address, shared }
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next answers, in order. Past their end the model says `Done`.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.lock().script.extend(replies);
    }

    /// The answer to everything past the script's end.
    pub fn repeat(&self, reply: Reply) {
        self.shared.lock().repeat = Some(reply);
    }

    /// Let the answers held at a gate go on, now and later.
    pub fn release(&self, gate: &str) {
        self.shared.lock().released.insert(gate.to_owned());
        self.shared.changed.notify_all();
    }

    /// The bodies of the model requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.lock().requests.clone()
    }

    /// The body of the last model request.
    pub fn last(&self) -> Value {
        self.requests().pop().expect("no request reached the model")
    }

    /// What the last model request says about the result of a call.
    pub fn told(&self, call_id: &str) -> String {
        output(&self.last(), call_id)
    }

    /// Answer requests with this line (`GET /path`), which are none to the model, with this status.
    pub fn refuse(&self, line: &str, status: u16) {
        self.shared.lock().statuses.push((line.to_owned(), status));
    }

    /// The bodies of the requests with this line (`POST /path`) so far.
    pub fn others(&self, line: &str) -> Vec<Value> {
        let state = self.shared.lock();
        state.others.iter().filter(|(found, _)| found == line).map(|(_, body)| body.clone()).collect()
    }

    /// Wait until a request with this line has come, and give its body.
    pub fn wait_for_other(&self, line: &str) -> Value {
        let none = |state: &mut State| !state.others.iter().any(|(found, _)| found == line);
        let (state, outcome) =
            self.shared.changed.wait_timeout_while(self.shared.lock(), PATIENCE, none).unwrap();
        assert!(!outcome.timed_out(), "{line} did not come: {:?}", state.others);
        drop(state);
        self.others(line).remove(0)
    }

    /// Wait until so many model requests have come in all.
    pub fn wait_for_requests(&self, count: usize) {
        let few = |state: &mut State| state.requests.len() < count;
        let (state, outcome) =
            self.shared.changed.wait_timeout_while(self.shared.lock(), PATIENCE, few).unwrap();
        assert!(!outcome.timed_out(), "{} of {count} model requests came", state.requests.len());
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // A test that failed while it held the lock has poisoned it.
        self.shared.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).over = true;
        self.shared.changed.notify_all();
        let _ = TcpStream::connect(self.address);
    }
}

/// The conversation in a model request: role and text of its messages, without the context put before it.
pub fn talk(body: &Value) -> Vec<(String, String)> {
    let input = body["input"].as_array().expect("a model request");
    let messages = input.iter().filter(|item| item["type"] == "message");
    messages
        .map(|item| {
            let parts = item["content"].as_array().unwrap();
            let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            (item["role"].as_str().unwrap().to_owned(), text)
        })
        .filter(|(role, text)| role != "developer" && !text.starts_with("<environment_context>"))
        .collect()
}

/// What a model request says about the result of a call: a text, or the texts of its parts.
pub fn output(body: &Value, call_id: &str) -> String {
    let input = body["input"].as_array().expect("a model request");
    let found: Vec<&Value> = input
        .iter()
        .filter(|item| item["call_id"] == call_id && item["type"].as_str().unwrap().ends_with("_output"))
        .map(|item| &item["output"])
        .collect();
    assert_eq!(found.len(), 1, "outputs of {call_id} in {body}");
    found[0].as_str().map_or_else(|| found[0].to_string(), str::to_owned)
}

/// The messages of a conversation as [`talk`] has them, for comparing.
pub fn said(messages: &[(&str, &str)]) -> Vec<(String, String)> {
    messages.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// Answer the requests of one connection until it ends.
fn serve(mut stream: TcpStream, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (line, body) = read_request(&mut reader)?;
        if !(line.starts_with("POST ") && line.contains("/responses")) {
            let line = line.rsplit_once(' ').map_or(line.as_str(), |(line, _)| line).to_owned();
            let status = {
                let mut state = shared.lock();
                let status = state.statuses.iter().find(|(refused, _)| *refused == line);
                let status = status.map_or(200, |(_, status)| *status);
                state.others.push((line, serde_json::from_slice(&body).unwrap_or_default()));
                status
            };
            shared.changed.notify_all();
            let body = r#"{"models":[],"data":[],"object":"list"}"#;
            write!(
                stream,
                "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .ok()?;
            continue;
        }
        let (serial, reply) = {
            let mut state = shared.lock();
            state.requests.push(serde_json::from_slice(&body).ok()?);
            let scripted = state.script.pop_front();
            let reply = scripted.or_else(|| state.repeat.clone()).unwrap_or_else(|| say("Done"));
            (state.requests.len(), reply)
        };
        shared.changed.notify_all();
        reply.stream_to(serial, shared, &mut stream).ok()?;
    }
}

/// The request line and the body of the next request.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, body))
}
