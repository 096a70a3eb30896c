//! How the demo ends.

use std::process::Command;

use aaep_test::{Process, aaep};
use serde_json::Value;

use super::agents::Demo;

#[test]
fn stop_signal_right_after_the_start_ends_the_demo_cleanly() {
    // Several times, because the race with the signal handler does not always show.
    for _ in 0..10 {
        let mut command = Command::new(aaep());
        command.args(["demo", "banking", "--listen", "127.0.0.1:0", "--no-unix", "--no-input"]);
        let mut demo = Process::start(&mut command);
        demo.find("its address", |line| line.contains("http://").then_some(()));
        demo.terminate();
        assert_eq!(demo.wait().code(), Some(0));
    }
}

const ENDED: &str = "Demo has ended the connection.";

#[test]
fn demo_ends_only_after_listeners_received_everything() {
    let demo = Demo::start(&["greetings", "--once", "--no-pauses"]);
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(aaep());
    command.args(["listen", "--json", &demo.url]);
    command.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
    let listener = Process::start(&mut command);
    // Everything is sent at once, but this listener receives it at the pace of speech.
    let last = listener.find("the end of the session", |line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_ne!(line["text"], ENDED);
        (line["kind"] == "end").then_some(line)
    });
    assert_eq!(last["text"], "Done. The opening hours are ready in five languages.");
    // A clean end is not reported as a fault.
    let then = listener.find("the next line", |line| Some(serde_json::from_str::<Value>(line).unwrap()));
    assert_eq!(then["text"], ENDED);
}
