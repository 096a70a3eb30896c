//! The clients that Python programs use, following a session and answering it. The scripts stand beside this file.

use aaep_test::{Process, Serving, root};
use serde_json::Value;

use crate::python;
use crate::talk::judge_banking;

/// Runs a script against a demo; it has to hear a whole session and to end well.
fn follow(script: &str, url: impl Fn(&Serving) -> String, more: &[&str]) {
    let demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses"]);
    let mut command = python::command("python");
    command.arg(root().join("crates/aaep-test/tests/peers").join(script)).arg(url(&demo)).args(more);
    let mut client = Process::start(&mut command);
    let lines = client.rest();
    assert_eq!(client.wait().code(), Some(0), "{}", client.errors());
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    judge_banking(&events);
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
