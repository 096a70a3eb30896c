//! Python HTTP and WebSocket clients that follow a session and reply. The scripts are in this directory.

use aaep_test::{Process, Serving};
use serde_json::Value;

use crate::messages::assert_banking_session;
use crate::{program, python};

/// Runs a script against a demo. It must receive a whole session and exit with 0.
fn follow(script: &str, url: impl Fn(&Serving) -> String, more: &[&str]) {
    let demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses"]);
    let mut command = python::command("python");
    command.arg(program(script)).arg(url(&demo)).args(more);
    let mut client = Process::start(&mut command);
    let lines = client.rest();
    assert_eq!(client.wait().code(), Some(0), "{}", client.errors());
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_banking_session(&events);
}

#[test]
fn httpx_follows_a_session_over_http_1() {
    follow("follow_http.py", |demo| demo.url(""), &["1"]);
}

#[test]
fn httpx_follows_a_session_over_http_2() {
    follow("follow_http.py", |demo| demo.url(""), &["2"]);
}

#[test]
fn websockets_follows_a_session() {
    follow("follow_ws.py", |demo| format!("ws://{}/aaep/v1/ws", demo.address()), &[]);
}
