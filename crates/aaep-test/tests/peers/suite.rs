//! The public conformance suite and the public subscribers against `aaep demo`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use aaep_test::aaep;
use serde_json::{Value, json};

use crate::python;

/// Much longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// How many results each level has, those of the levels below included.
const RESULTS: [(u32, usize); 3] = [(1, 44), (2, 58), (3, 69)];

/// The only thing that the suite may pass over. Its test looks at nothing but its own replies, and warns whenever it
/// sees a question at all; so the demo asks none when no action is asked for.
const PASSED_OVER: &str = "L2-CONF-DUPL-001";

/// A running demo. Ends when dropped.
struct Demo {
    child: Child,
    address: String,
    /// Kept open: the demo may have more to say.
    _out: BufReader<ChildStdout>,
}

impl Demo {
    fn start() -> Demo {
        let mut child = Command::new(aaep())
            .args(["demo", "--listen", "127.0.0.1:0", "--no-input"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("http://"));
        let address = word.unwrap_or_else(|| panic!("no address in {line:?}")).trim_end_matches('/').to_owned();
        Demo { child, address, _out: out }
    }

    /// Says something to the agent, as the suite does.
    fn tell(&self, text: &str) {
        let body = json!({"kind": "user_input", "text": text}).to_string();
        let (address, length) = (&self.address, body.len());
        let head = format!("POST /suite/messages HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n");
        let request = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a process; one that takes too long is ended.
fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("it did not end: {child:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// All levels, one after the other against the same demo, each as a run of its own.
fn run_suite(endpoint: impl Fn(&str) -> String) {
    let runs = std::env::var("AAEP_SUITE_RUNS").map_or(1, |runs| runs.parse().expect("AAEP_SUITE_RUNS is a number"));
    let demo = Demo::start();
    let reports = tempfile::tempdir().unwrap();
    for _ in 0..runs {
        for (level, results) in RESULTS {
            let report = reports.path().join("report.json");
            let mut suite = python::command("aaep-conformance");
            suite.args(["producer", "--fail-on-warning", "--timeout", "120", "--level", &level.to_string()]);
            suite.args(["--endpoint", &endpoint(&demo.address)]).arg("--report-json").arg(&report);
            suite.current_dir(reports.path()).stdout(Stdio::null()).stderr(Stdio::inherit());
            let status = wait(&mut suite.spawn().unwrap());
            let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
            judge(level, results, &report);
            assert_eq!(status.code(), Some(0), "level {level}");
        }
    }
}

fn judge(level: u32, results: usize, report: &Value) {
    let found = report["test_results"].as_array().unwrap();
    let failed: Vec<&Value> = found.iter().filter(|r| r["passed"] != true && r["test_id"] != PASSED_OVER).collect();
    assert!(failed.is_empty(), "level {level}: {failed:#?}");
    let over: Vec<&Value> = found.iter().filter(|r| r["passed"] != true).map(|r| &r["severity"]).collect();
    assert_eq!(over.len(), usize::from(level > 1), "level {level}");
    assert!(over.iter().all(|severity| *severity == "info"), "level {level}: {over:?}");
    // A test that had nothing to look at passes too, with these words.
    let empty: Vec<&Value> =
        found.iter().filter(|r| r["passed"] == true && r["message"].as_str().unwrap().starts_with("No ")).collect();
    assert!(empty.is_empty(), "level {level}: {empty:#?}");
    assert_eq!((&report["verdict"], found.len()), (&json!("PASS"), results), "level {level}");
}

#[test]
fn the_public_suite_passes_over_http() {
    run_suite(|address| format!("http://{address}/suite"));
}

#[test]
fn the_public_suite_passes_over_websocket() {
    run_suite(|address| format!("ws://{address}/suite/ws"));
}

/// The public listener on a demo, with its output by the line. Ends when dropped.
struct Listener {
    child: Child,
    lines: Receiver<String>,
}

impl Listener {
    fn start(demo: &Demo, arguments: &[&str]) -> Listener {
        let mut child = python::command("aaep-listen")
            .args(["--no-color", "--endpoint", &format!("http://{}/suite", demo.address)])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Listener { child, lines }
    }

    /// What it prints, up to a line with this word.
    fn until(&self, word: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(word) {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {word} in:\n{seen}"));
            seen.push_str(&line);
            seen.push('\n');
        }
        seen
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_public_listener_follows_a_session_and_its_yes_counts() {
    let demo = Demo::start();
    let listener = Listener::start(&demo, &["--auto-accept"]);
    demo.tell("Please send an email to test@example.com.");
    let seen = listener.until("session.completed");
    for words in ["session.started", "awaiting.confirmation", "tool.invoked", "irreversible: True", "on its way"] {
        assert!(seen.contains(words), "{words} is missing:\n{seen}");
    }
    assert!(seen.find("awaiting.confirmation") < seen.find("tool.invoked"), "it asks first:\n{seen}");
}

#[test]
fn the_public_listener_says_no_when_the_user_does() {
    let demo = Demo::start();
    let mut listener = Listener::start(&demo, &[]);
    demo.tell("Please delete record ID 12345 (this is high-risk and irreversible).");
    let seen = listener.until("awaiting.confirmation");
    assert!(!seen.contains("tool.invoked"), "it asks first:\n{seen}");
    listener.child.stdin.as_mut().unwrap().write_all(b"n\n").unwrap();
    let seen = listener.until("session.completed");
    assert!(seen.contains("Nothing was deleted.") && !seen.contains("tool.invoked"), "{seen}");
}

#[test]
fn the_public_recorder_keeps_a_whole_session() {
    let demo = Demo::start();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("session.jsonl");
    let mut capture = python::command("aaep-capture");
    capture.args(["--endpoint", &format!("http://{}/suite", demo.address), "--max-events", "6"]);
    let mut child = capture.arg("--output").arg(&file).stderr(Stdio::null()).spawn().unwrap();
    demo.tell("Hello, please respond briefly.");
    assert_eq!(wait(&mut child).code(), Some(0));
    assert_eq!(
        recorded(&file),
        ["", "session.started", "state.changed", "state.changed", "output.streaming", "session.completed"]
    );
}

/// The events of a recording. The first line is the acknowledgement, which is none.
fn recorded(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().enumerate().map(|(i, line)| {
        assert!(i == 0 || aaep_proto::validate(line.as_bytes()).problems.is_empty(), "{line}");
        let event: Value = serde_json::from_str(line).unwrap();
        event["type"].as_str().unwrap_or_default().replace("aaep:agent.", "")
    });
    lines.collect()
}
