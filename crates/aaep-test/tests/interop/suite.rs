//! The public conformance suite and the public subscribers against `suite-server`, which speaks their private contract.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use aaep_test::{PATIENCE, Process, Serving};
use serde_json::{Value, json};

use crate::python;

/// The number of results of each level, which includes the levels below.
const RESULTS: [(u32, usize); 3] = [(1, 44), (2, 58), (3, 69)];

/// The only test that may be skipped. It looks only at its own replies and warns whenever it sees a question, so the
/// agent asks none when no action is requested.
const SKIPPED: &str = "L2-CONF-DUPL-001";

fn suite_server() -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suite-server"));
    command.args(["--listen", "127.0.0.1:0"]);
    Serving::spawn(&mut command)
}

/// Sends user input to the agent, like the suite.
fn send_input(server: &Serving, text: &str) {
    let body = json!({"kind": "user_input", "text": text}).to_string();
    let (address, length) = (server.address(), body.len());
    let head = format!("POST /messages HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n");
    let request = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
}

/// Runs all levels one after the other against the same server.
fn run_suite(endpoint: impl Fn(&Serving) -> String) {
    let runs = std::env::var("AAEP_SUITE_RUNS").map_or(1, |runs| runs.parse().expect("AAEP_SUITE_RUNS is a number"));
    let server = suite_server();
    let reports = tempfile::tempdir().unwrap();
    for _ in 0..runs {
        for (level, results) in RESULTS {
            let report = reports.path().join("report.json");
            let mut suite = python::command("aaep-conformance");
            suite.args(["producer", "--fail-on-warning", "--timeout", "120", "--level", &level.to_string()]);
            suite.args(["--endpoint", &endpoint(&server)]).arg("--report-json").arg(&report);
            let mut suite = Process::start(suite.current_dir(reports.path()));
            let status = suite.wait();
            assert!(report.exists(), "level {level}: {}", suite.errors());
            check_report(level, results, &serde_json::from_slice(&fs::read(&report).unwrap()).unwrap());
            fs::remove_file(report).unwrap();
            assert_eq!(status.code(), Some(0), "level {level}");
        }
    }
}

fn check_report(level: u32, results: usize, report: &Value) {
    let found = report["test_results"].as_array().unwrap();
    let failed: Vec<&Value> = found.iter().filter(|r| r["passed"] != true && r["test_id"] != SKIPPED).collect();
    assert!(failed.is_empty(), "level {level}: {failed:#?}");
    let skipped: Vec<&Value> = found.iter().filter(|r| r["passed"] != true).map(|r| &r["severity"]).collect();
    assert_eq!(skipped.len(), usize::from(level > 1), "level {level}");
    assert!(skipped.iter().all(|severity| *severity == "info"), "level {level}: {skipped:?}");
    // A test that found nothing to check passes too, with a message that begins so.
    let empty: Vec<&Value> =
        found.iter().filter(|r| r["passed"] == true && r["message"].as_str().unwrap().starts_with("No ")).collect();
    assert!(empty.is_empty(), "level {level}: {empty:#?}");
    assert_eq!((&report["verdict"], found.len()), (&json!("PASS"), results), "level {level}");
}

#[test]
fn suite_passes_over_http() {
    run_suite(|server| server.url(""));
}

#[test]
fn suite_passes_over_websocket() {
    run_suite(|server| format!("ws://{}/ws", server.address()));
}

/// Starts the public listener.
fn listen(server: &Serving, arguments: &[&str]) -> Process {
    let mut command = python::command("aaep-listen");
    command.args(["--no-color", "--endpoint", &server.url("")]).args(arguments);
    Process::with_input(&mut command)
}

/// Returns its output up to a line with this word.
fn until(listener: &Process, word: &str) -> String {
    let mut seen = String::new();
    listener.find(word, |line| {
        seen.push_str(line);
        seen.push('\n');
        line.contains(word).then_some(())
    });
    seen
}

#[test]
fn public_listener_follows_a_session_and_accepts_a_confirmation() {
    let server = suite_server();
    let listener = listen(&server, &["--auto-accept"]);
    send_input(&server, "Please send an email to test@example.com.");
    let seen = until(&listener, "session.completed");
    for words in ["session.started", "awaiting.confirmation", "tool.invoked", "irreversible: True", "on its way"] {
        assert!(seen.contains(words), "{words} is missing:\n{seen}");
    }
    assert!(seen.find("awaiting.confirmation") < seen.find("tool.invoked"), "it asks first:\n{seen}");
}

#[test]
fn public_listener_rejects_when_the_user_does() {
    let server = suite_server();
    let mut listener = listen(&server, &[]);
    send_input(&server, "Please delete record ID 12345 (this is high-risk and irreversible).");
    let seen = until(&listener, "awaiting.confirmation");
    assert!(!seen.contains("tool.invoked"), "it asks first:\n{seen}");
    listener.say("n\n");
    let seen = until(&listener, "session.completed");
    assert!(seen.contains("Nothing was deleted.") && !seen.contains("tool.invoked"), "{seen}");
}

#[test]
fn public_recorder_writes_a_whole_session() {
    let server = suite_server();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("session.jsonl");
    let mut capture = python::command("aaep-capture");
    capture.args(["--endpoint", &server.url(""), "--max-events", "6"]);
    let mut recorder = Process::start(capture.arg("--output").arg(&file));
    send_input(&server, "Hello, please respond briefly.");
    assert_eq!(recorder.wait().code(), Some(0), "{}", recorder.errors());
    assert_eq!(
        recorded(&file),
        ["", "session.started", "state.changed", "state.changed", "output.streaming", "session.completed"]
    );
}

/// Returns the event types of a recording. The first line is the acknowledgement, which is not an event.
fn recorded(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().enumerate().map(|(i, line)| {
        assert!(i == 0 || aaep_proto::validate(line.as_bytes()).problems.is_empty(), "{line}");
        let event: Value = serde_json::from_str(line).unwrap();
        event["type"].as_str().unwrap_or_default().replace("aaep:agent.", "")
    });
    lines.collect()
}
