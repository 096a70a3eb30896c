//! The published minimal producer: it has no handshake, ignores its timeouts, and asks after it announced the call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::tmux::Tmux;

/// The source of the published server, with another port.
const SERVE: &str = "
import socket
from aiohttp import web
from aaep_minimal_producer.server import _build_app
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
web.run_app(_build_app(), sock=listener, print=None)
";

struct Minimal {
    child: Child,
    address: String,
}

impl Minimal {
    fn start() -> Minimal {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("listen");
        let python = aaep_test::python(&place, &["aaep-minimal-producer==1.0.0"]);
        let mut child =
            Command::new(python).args(["-c", SERVE]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Minimal { child, address: format!("127.0.0.1:{}", line.trim()) }
    }

    /// Starts a session with this prompt.
    fn start_session(&self, words: &str) {
        let body = json!({"user_message": words}).to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!("POST /sessions HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", self.address);
        let request = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }
}

impl Drop for Minimal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Listens, starts the session once the stream is open, and answers.
fn answered(word: &str) -> String {
    let minimal = Minimal::start();
    let tmux = Tmux::start(&["listen", &format!("http://{}", minimal.address)], &[]);
    // It reports how many listeners it has; without one the session would be lost.
    super::tmux::until("a listener", || {
        let mut stream = TcpStream::connect(&minimal.address).ok()?;
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", minimal.address);
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        body.as_object()?.values().any(|value| *value == json!(1)).then_some(())
    });
    minimal.start_session("Please transfer 500 dollars.");
    tmux.is_asked(1, "Answer yes or no.");
    let text = tmux.sees("asks: Call transfer");
    assert!(text.contains("This cannot be undone."), "{text}");
    tmux.enter(word);
    tmux.sees(&format!("Answer 1: Sent: {word}."));
    let text = tmux.sees("End: Done.");
    tmux.enter("close");
    tmux.sees("exit code: 0");
    text
}

#[test]
fn minimal_producer_is_answered_yes() {
    let text = answered("yes");
    assert!(!text.contains("declined"), "{text}");
}

#[test]
fn minimal_producer_is_answered_no() {
    let text = answered("no");
    assert!(text.to_lowercase().contains("declined") || text.contains("failed"), "{text}");
}
