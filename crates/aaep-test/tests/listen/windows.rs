//! Answers from another process, and listening without a terminal.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use aaep_test::{Process, aaep};
use serde_json::Value;

use super::agents::{Demo, FakeProducer};
use super::tmux::{Tmux, until};

fn run(runtime: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(aaep());
    command.args(arguments).env("XDG_RUNTIME_DIR", runtime).stdin(Stdio::null());
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn other_process_answers_by_number() {
    let demo = Demo::start(&["banking", "--once", "--no-pauses"]);
    let tmux = Tmux::start(&["listen", &demo.url], &[]);
    tmux.is_asked(1, "Answer yes or no.");
    let listed = run(&tmux.runtime(), &["pending", "--json"]);
    assert_eq!(listed.status.code(), Some(0), "{}", out(&listed));
    let json: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(json["questions"][0]["number"], 1);
    assert_eq!(json["questions"][0]["needs_care"], true);
    let blind = run(&tmux.runtime(), &["accept"]);
    assert_eq!(blind.status.code(), Some(1), "{}", out(&blind));
    assert!(out(&blind).contains("name its number"), "{}", out(&blind));
    assert!(!tmux.text().contains("Transferring"));
    let wrong = run(&tmux.runtime(), &["accept", "2"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", out(&wrong));
    let right = run(&tmux.runtime(), &["accept", "1"]);
    assert_eq!(right.status.code(), Some(0), "{}", out(&right));
    tmux.sees("Transferring 500 dollars to savings.");
    let nothing = run(&tmux.runtime(), &["pending"]);
    assert_eq!(nothing.status.code(), Some(1), "{}", out(&nothing));
    tmux.enter("close");
    tmux.sees("exit code: 0");
    let nobody = run(&tmux.runtime(), &["pending"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", out(&nobody));
}

#[test]
fn other_process_answers_without_a_runtime_directory() {
    let demo = Demo::start(&["banking", "--once", "--no-pauses"]);
    let home = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(aaep());
        command.args(arguments).env("HOME", home.path()).env_remove("XDG_RUNTIME_DIR");
        command
    };
    let listener = Process::start(&mut command(&["listen", &demo.url]));
    listener.find("the question", |line| line.contains("Answer yes or no.").then_some(()));
    // Other listeners of this user may share the directory.
    let id = listener.id().to_string();
    let listed = command(&["pending", "--listener", &id]).output().unwrap();
    assert_eq!(listed.status.code(), Some(0), "{}", out(&listed));
    let accepted = command(&["accept", "1", "--listener", &id]).output().unwrap();
    assert_eq!(accepted.status.code(), Some(0), "{}", out(&accepted));
    listener.find("the transfer", |line| line.contains("Transferring 500 dollars").then_some(()));
}

#[test]
fn control_socket_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let fake = FakeProducer::start();
    let tmux = Tmux::start(&["listen", &fake.url], &[]);
    fake.wait_for_listener();
    let directory = tmux.runtime().join("aaep");
    let socket = until("the socket", || {
        let mut entries = std::fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.path());
        entries.find(|path| path.extension().is_some_and(|e| e == "sock"))
    });
    until("its mode", || {
        let mode = std::fs::metadata(&socket).ok()?.permissions().mode() & 0o777;
        (mode == 0o600).then_some(())
    });
    assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn without_a_terminal_events_are_only_printed() {
    let fake = FakeProducer::start();
    let runtime = tempfile::tempdir().unwrap();
    let transcript = runtime.path().join("transcript");
    let mut child = Command::new(aaep())
        .args(["listen", "--json", &fake.url, "--transcript", transcript.to_str().unwrap()])
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env("HOME", runtime.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    fake.wait_for_listener();
    fake.ask("rpl_1", "Delete all.");
    let mut kinds = Vec::new();
    let prompt = loop {
        let line: Value = serde_json::from_str(&lines.next().expect("it prints on").unwrap()).unwrap();
        kinds.push(line["type"].as_str().unwrap().to_owned());
        if line["type"] == "prompt" {
            break line;
        }
    };
    assert!(kinds.contains(&"notice".to_owned()) && kinds.contains(&"utterance".to_owned()), "{kinds:?}");
    assert_eq!((&prompt["state"], &prompt["asks"]), (&"open".into(), &"Delete all.".into()));
    assert_eq!(prompt["event"]["reply_token"], "rpl_1");
    let answered = run(runtime.path(), &["reject", "1"]);
    assert_eq!(answered.status.code(), Some(0), "{}", out(&answered));
    let heard = until("the answer", || fake.replies().into_iter().next());
    assert_eq!((&heard["decision"], &heard["reply_token"]), (&"reject".into(), &"rpl_1".into()));
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let kept = std::fs::read_to_string(&transcript).unwrap();
    assert!(kept.lines().any(|line| line.contains(" question 1 FakeProducer asks: Delete all.")), "{kept}");
}

#[test]
fn hook_answers_or_the_question_stays_open() {
    let fake = FakeProducer::start();
    let hook = "grep -q harmless && echo accept || exit 3";
    let tmux = Tmux::start(&["listen", "--on-prompt", hook, &fake.url], &[]);
    fake.wait_for_listener();
    fake.ask("rpl_1", "Do something harmless.");
    let heard = until("the answer", || fake.replies().into_iter().next());
    assert_eq!((&heard["decision"], &heard["reply_token"]), (&"accept".into(), &"rpl_1".into()));
    tmux.sees("Your command answered question 1: accept.");
    fake.ask("rpl_2", "Delete all.");
    tmux.sees("Your command did not answer question 2");
    assert_eq!(fake.replies().len(), 1);
}

#[test]
fn usage_errors_have_exit_code_2() {
    let runtime = tempfile::tempdir().unwrap();
    for arguments in [
        &["listen"][..],
        &["listen", "ftp://somewhere"],
        &["listen", "http://127.0.0.1:1", "--profile", "/nowhere/profile.toml"],
        &["listen", "http://127.0.0.1:1", "--token", "/nowhere/token"],
        &["listen", "http://127.0.0.1:1", "--sounds", "bel"],
        &["listen", "https://127.0.0.1:1", "--ca", "/nowhere/ca.pem"],
        &["listen", "http://192.0.2.1"],
        &["pending"],
    ] {
        let output = run(runtime.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", out(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}
