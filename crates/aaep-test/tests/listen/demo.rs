//! The demo as a program among others: how it ends.

use std::process::Command;

use aaep_test::{Process, aaep};
use serde_json::Value;

use super::agents::Demo;

#[test]
fn told_to_stop_at_once_it_ends_in_order() {
    // More than once: a signal that comes before it is minded does not always do so.
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
fn it_does_not_end_before_everyone_has_heard_all_of_it() {
    let demo = Demo::start(&["greetings", "--once", "--no-pauses"]);
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(aaep());
    command.args(["listen", "--json", &demo.url]);
    command.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
    let listener = Process::start(&mut command);
    // All of it is there at once, but this listener takes it no faster than it can be heard.
    let last = listener.find("the end of the session", |line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_ne!(line["text"], ENDED);
        (line["kind"] == "end").then_some(line)
    });
    assert_eq!(last["text"], "Done. The opening hours are ready in five languages.");
    // An end in good order does not sound like a fault.
    let then = listener.find("the next line", |line| Some(serde_json::from_str::<Value>(line).unwrap()));
    assert_eq!(then["text"], ENDED);
}
