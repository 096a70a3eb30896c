//! Agents to listen to: the demo, and one that says whatever a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use aaep_test::aaep;
use serde_json::{Value, json};

use super::tmux::until;

/// A running demo without a keyboard. Ends when dropped.
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

/// A simple producer without handshake that says what it is told, and keeps what it is answered.
pub(crate) struct Puppet {
    pub(crate) url: String,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    said: Arc<Mutex<Vec<Value>>>,
    count: Mutex<u32>,
}

impl Puppet {
    pub(crate) fn start() -> Puppet {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (streams, said) = (Arc::<Mutex<Vec<TcpStream>>>::default(), Arc::<Mutex<Vec<Value>>>::default());
        let (to_streams, to_said) = (streams.clone(), said.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (streams, said) = (to_streams.clone(), to_said.clone());
                std::thread::spawn(move || serve(stream, &streams, &said));
            }
        });
        Puppet { url, streams, said, count: Mutex::new(0) }
    }

    /// Waits for someone who listens.
    pub(crate) fn has_listener(&self) {
        until("a listener", || (!self.streams.lock().unwrap().is_empty()).then_some(()));
    }

    /// Says an event.
    pub(crate) fn say(&self, kind: &str, fields: Value) {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let time = aaep_proto::time::Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap()).to_string();
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{count}"), "session_id": "sess_1", "timestamp": time,
            "producer": {"agent_id": "puppet", "agent_name": "Puppet"},
            "localization_hints": {"primary_language": "en"}});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        for stream in self.streams.lock().unwrap().iter_mut() {
            let _ = stream.write_all(format!("data: {event}\n\n").as_bytes());
        }
    }

    /// Asks for consent to something that cannot be undone.
    pub(crate) fn ask(&self, token: &str, action: &str) {
        let fields = json!({"urgency": "critical", "action": action, "consequence": "It is gone.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "reject", "irreversible": true, "risk_level": "high"});
        self.say("awaiting.confirmation", fields);
    }

    /// What it was answered.
    pub(crate) fn heard(&self) -> Vec<Value> {
        self.said.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, streams: &Mutex<Vec<TcpStream>>, said: &Mutex<Vec<Value>>) {
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
        if first.starts_with("GET /events ") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").unwrap();
            streams.lock().unwrap().push(stream);
            return;
        }
        let status = if first.starts_with("POST /messages ") {
            said.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            "202 Accepted"
        } else {
            "404 Not Found"
        };
        if stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).is_err() {
            return;
        }
    }
}
