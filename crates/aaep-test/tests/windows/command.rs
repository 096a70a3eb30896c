//! The command: a demo answered through the pipe, an agent, and documents.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use aaep_test::{Process, root};

use super::fixture::Programs;

/// Returns the command `aaep` with these arguments, on Windows.
fn aaep(arguments: &[&str]) -> Command {
    let programs = Programs::get();
    let mut command = programs.run(&programs.aaep);
    command.args(arguments);
    command
}

/// Runs `aaep` and returns its exit code and its output.
fn result(arguments: &[&str]) -> (i32, String) {
    let mut process = Process::start(&mut aaep(arguments));
    let output = process.rest().join("\n");
    (process.wait().code().unwrap(), output)
}

/// Starts `aaep listen` at the pipe of an agent.
fn listen(agent_id: &str, flags: &[&str]) -> Process {
    Process::start(aaep(&["listen", &format!(r"\\.\pipe\aaep\{agent_id}")]).args(flags))
}

fn wait_for(process: &Process, text: &str) {
    process.find(text, |line| line.contains(text).then_some(()));
}

/// Held by tests with a listener: `aaep pending` and `aaep accept` want one of several to be named.
static LISTENING: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "builds for Windows and needs Wine; scripts/test runs it"]
fn demo_is_answered_through_the_pipe_from_another_process() {
    let _one = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, output) = result(&["pending"]);
    assert_eq!(code, 2, "nobody listens yet: {output}");
    let arguments = ["demo", "banking", "--no-input", "--once", "--no-pauses", "--listen", "127.0.0.1:0"];
    let mut demo = Process::start(&mut aaep(&arguments));
    wait_for(&demo, "Serving the demo");
    let listener = listen("aaep-demo", &[]);
    wait_for(&listener, r"Listening to Demo at \\.\pipe\aaep\aaep-demo");
    wait_for(&listener, "This cannot be undone.");
    let (code, output) = result(&["pending"]);
    assert_eq!((code, output.contains("Transfer 500 dollars")), (0, true), "{output}");
    let (code, output) = result(&["accept", "1"]);
    assert_eq!(code, 0, "{output}");
    wait_for(&listener, "The transfer is done.");
    wait_for(&listener, "End: ");
    assert!(demo.wait().success(), "{}", demo.errors());
    wait_for(&listener, "Demo has ended the connection.");
}

#[test]
#[ignore = "builds for Windows and needs Wine; scripts/test runs it"]
fn agent_of_run_asks_through_the_pipe_and_its_exit_code_is_returned() {
    let _one = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let agent = Programs::get().compile("agent.c", directory.path());
    let mut command = aaep(&["run", "--agent-id", "mailman", "--listen", "127.0.0.1:0", "--"]);
    let mut run = Process::start(command.arg(&agent).arg(&go));
    // The user's own command answers.
    let listener = listen("mailman", &["--on-prompt", "echo accept"]);
    wait_for(&listener, r"Listening to mailman at \\.\pipe\aaep\mailman");
    std::fs::write(&go, "").unwrap();
    wait_for(&listener, "They cannot be brought back.");
    wait_for(&listener, "Deleting the letters.");
    wait_for(&listener, "Your mailbox is tidy.");
    assert_eq!(run.wait().code(), Some(7), "{}", run.errors());
}

#[test]
#[ignore = "builds for Windows and needs Wine; scripts/test runs it"]
fn valid_documents_pass_and_invalid_ones_do_not() {
    let examples = root().join("examples/banking.ndjson");
    let (code, output) = result(&["validate", examples.to_str().unwrap()]);
    assert_eq!((code, output.contains("all valid")), (0, true), "{output}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.json");
    std::fs::write(&path, r#"{"type":"subscription.close"}"#).unwrap();
    let (code, output) = result(&["validate", path.to_str().unwrap()]);
    assert_eq!((code, output.contains("subscription_id")), (1, true), "{output}");
}
