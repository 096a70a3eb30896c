//! An `aaep` process and a subscriber for it. Every wait has a deadline.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use aaep_test::{aaep, root};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Generous: the machine may be busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The output of a process so far.
#[derive(Clone, Default)]
pub(crate) struct ProcessOutput(Arc<(Mutex<String>, Condvar)>);

impl ProcessOutput {
    fn of(from: impl Read + Send + 'static) -> ProcessOutput {
        let written = ProcessOutput::default();
        let to = written.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(from);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                to.0.0.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                to.0.1.notify_all();
                line.clear();
            }
        });
        written
    }

    pub(crate) fn text(&self) -> String {
        self.0.0.lock().unwrap().clone()
    }

    /// Waits for a line with this prefix. Returns the rest of it.
    pub(crate) fn wait_for(&self, beginning: &str) -> String {
        let until = Instant::now() + DEADLINE;
        let mut text = self.0.0.lock().unwrap();
        loop {
            if let Some(rest) = text.lines().find_map(|line| line.strip_prefix(beginning)) {
                return rest.to_owned();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no line begins with {beginning:?}: {text}");
            text = self.0.1.wait_timeout(text, left).unwrap().0;
        }
    }
}

/// A running `aaep run` or `aaep serve`, killed when it is dropped.
pub(crate) struct AaepProcess {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) out: ProcessOutput,
    pub(crate) err: ProcessOutput,
    pub(crate) dir: tempfile::TempDir,
}

impl AaepProcess {
    /// Starts `aaep run` with this agent. The environment variable `DIR` names a directory for it.
    pub(crate) fn run(agent: &[&str]) -> AaepProcess {
        let mut args = vec!["run", "--listen", "127.0.0.1:0", "--no-unix", "--"];
        args.extend(agent);
        AaepProcess::start(&args)
    }

    /// Starts `aaep run` with an agent in Python.
    pub(crate) fn python(script: &str) -> AaepProcess {
        AaepProcess::run(&["python3", "-c", &format!("{PRELUDE}\n{script}")])
    }

    pub(crate) fn start(args: &[&str]) -> AaepProcess {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(aaep())
            .args(args)
            .current_dir(root())
            .env("DIR", dir.path())
            // Long, so that a subscriber that stops reading on purpose is not disconnected on a busy machine.
            .env("AAEP_LIMITS__WRITE_SECONDS", "300")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, err) =
            (ProcessOutput::of(child.stdout.take().unwrap()), ProcessOutput::of(child.stderr.take().unwrap()));
        let log = if args[0] == "run" { &err } else { &out };
        let url = log.wait_for("Serving at ");
        AaepProcess { child, url, out, err, dir }
    }

    /// Lets an agent continue that waits in `go()`.
    pub(crate) fn go(&self) {
        std::fs::write(self.dir.path().join("go"), "").unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it exits.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not exit: {}", self.err.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for AaepProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Helper functions for agents in Python.
pub(crate) const PRELUDE: &str = r#"
import json, os, signal, sys, time
def emit(**event):
    print(json.dumps(event), flush=True)
def go():
    while not os.path.exists(os.path.join(os.environ["DIR"], "go")):
        time.sleep(0.01)
def note(name, text):
    path = os.path.join(os.environ["DIR"], name)
    with open(path + ".new", "w") as file:
        file.write(str(text))
    os.replace(path + ".new", path)
"#;

/// A subscriber over WebSocket.
pub(crate) struct Subscriber {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    id: String,
}

impl Subscriber {
    /// Subscribes, with support for replies.
    pub(crate) async fn new(url: &str, token: Option<&str>) -> Subscriber {
        let query = token.map(|token| format!("?access_token={token}")).unwrap_or_default();
        let address = format!("{}/aaep/v1/ws{query}", url.replacen("http", "ws", 1));
        let (mut socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
        let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "screen-reader",
            "capabilities": {"supports_confirmation_reply": true, "supports_clarification_reply": true,
                "cancellation": {}, "cognitive_load": "high", "event_filters": {"include": ["aaep:*", "garden:*"]}}});
        socket.send(Message::text(request.to_string())).await.unwrap();
        let mut subscriber = Subscriber { socket, id: String::new() };
        let accepted = subscriber.next().await.expect("a response");
        assert_eq!(accepted["type"], "subscription.accepted", "{accepted}");
        subscriber.id = accepted["subscription_id"].as_str().unwrap().to_owned();
        subscriber
    }

    /// Receives the next message. Returns `None` after the connection was closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(DEADLINE, self.socket.next()).await.expect("a message in time");
            match next? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Receives until an event of this type. Returns it and the events before it.
    pub(crate) async fn wait_for_event(&mut self, kind: &str) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        while let Some(event) = self.next().await {
            if event["type"] == format!("aaep:agent.{kind}") {
                return (event, before);
            }
            before.push(event);
        }
        panic!("no {kind}: {before:?}");
    }

    /// Asks the agent of an event's session to stop.
    pub(crate) async fn request_cancel(&mut self, event: &Value) {
        let request = json!({"type": "cancellation:request", "subscription_id": self.id, "reason": "It takes too long.",
            "session_id": event["session_id"], "timestamp": event["timestamp"]});
        self.socket.send(Message::text(request.to_string())).await.unwrap();
    }

    /// Replies to a question.
    pub(crate) async fn reply(&mut self, question: &Value, field: &str, value: Value) {
        let kind = if field == "decision" { "confirmation.reply" } else { "clarification.reply" };
        // The question's own timestamp: a reply must not be older.
        let mut reply = json!({"type": kind, "subscription_id": self.id, "reply_token": question["reply_token"],
            "timestamp": question["timestamp"]});
        reply[field] = value;
        self.socket.send(Message::text(reply.to_string())).await.unwrap();
    }

    /// Receives until the producer closes the connection. Returns all messages.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// Returns the types of events without the common prefix.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().trim_start_matches("aaep:agent.")).collect()
}

/// Returns the text of all outputs, in order.
pub(crate) fn text(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["chunk"].as_str()).collect()
}
