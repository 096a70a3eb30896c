//! Agents to listen to: the demo, and one that sends whatever a test wants.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aaep_test::aaep;
use serde_json::{Value, json};

use super::tmux::until;

/// A running demo without a keyboard. It is ended on drop.
pub(crate) struct Demo {
    child: Child,
    pub(crate) url: String,
    _out: BufReader<ChildStdout>,
}

impl Demo {
    pub(crate) fn start(arguments: &[&str]) -> Demo {
        let mut command = Command::new(aaep());
        command.args(["demo", "--listen", "127.0.0.1:0", "--no-input", "--no-unix"]).args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Demo { child, url, _out: out }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A producer that sends the events of a test and keeps the replies. It has no handshake, unless a test gives it a page
/// for one.
pub(crate) struct FakeProducer {
    pub(crate) url: String,
    state: Arc<FakeProducerState>,
    count: Mutex<u32>,
}

/// The state that its connections share.
#[derive(Default)]
struct FakeProducerState {
    streams: Mutex<Vec<TcpStream>>,
    said: Mutex<Vec<Value>>,
    /// The response bodies by path.
    pages: Mutex<BTreeMap<String, String>>,
    /// Whether the next stream request is refused, unless a subscription comes before.
    forgets: AtomicBool,
}

impl FakeProducer {
    pub(crate) fn start() -> FakeProducer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<FakeProducerState>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        FakeProducer { url, state, count: Mutex::new(0) }
    }

    /// Responds to requests for this path with this body from now on.
    pub(crate) fn page(&self, path: &str, body: &str) {
        self.state.pages.lock().unwrap().insert(path.to_owned(), body.to_owned());
    }

    /// Waits for a listener.
    pub(crate) fn wait_for_listener(&self) {
        until("a listener", || (!self.state.streams.lock().unwrap().is_empty()).then_some(()));
    }

    /// Ends the streams of all listeners and forgets their subscriptions.
    pub(crate) fn forget_subscriptions(&self) {
        self.state.forgets.store(true, Ordering::Relaxed);
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Sends these bytes to all listeners, as far as they accept them.
    pub(crate) fn send(&self, bytes: &[u8]) {
        for stream in self.state.streams.lock().unwrap().iter_mut() {
            let _ = stream.write_all(bytes);
        }
    }

    /// Emits an event.
    pub(crate) fn emit(&self, kind: &str, fields: Value) {
        let event = self.event(kind, fields);
        self.send(format!("data: {event}\n\n").as_bytes());
    }

    /// Returns an event with a new id, unless the fields have one.
    pub(crate) fn event(&self, kind: &str, fields: Value) -> Value {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let time = aaep_proto::time::Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap()).to_string();
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{count}"), "session_id": "sess_1", "timestamp": time,
            "producer": {"agent_id": "fake", "agent_name": "FakeProducer"},
            "localization_hints": {"primary_language": "en"}});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    }

    /// Asks for consent to something irreversible.
    pub(crate) fn ask(&self, token: &str, action: &str) {
        let fields = json!({"urgency": "critical", "action": action, "consequence": "It is gone.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "reject", "irreversible": true, "risk_level": "high"});
        self.emit("awaiting.confirmation", fields);
    }

    /// Returns the replies.
    pub(crate) fn replies(&self) -> Vec<Value> {
        self.state.said.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, state: &FakeProducerState) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) == 0 {
                return;
            }
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            length = header.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let path = first.split(' ').nth(1).unwrap_or_default();
        let page = state.pages.lock().unwrap().get(path).cloned();
        if path == "/aaep/v1/subscriptions" {
            state.forgets.store(false, Ordering::Relaxed);
        }
        let known = !state.forgets.load(Ordering::Relaxed);
        if path == "/events" || (path.starts_with("/aaep/v1/events?") && known) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").unwrap();
            state.streams.lock().unwrap().push(stream);
            return;
        }
        let (status, answer) = match page {
            _ if matches!(path, "/messages" | "/aaep/v1/replies") => {
                state.said.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                ("202 Accepted", String::new())
            }
            Some(page) => ("200 OK", page),
            None => ("404 Not Found", String::new()),
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len());
        if stream.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}
