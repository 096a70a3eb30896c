//! Python programs subscribe over the Unix socket, gRPC and stdio.

use std::path::Path;
use std::process::Stdio;

use aaep_test::{aaep, python, root};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{TestServer, asking, soon};
use crate::program;

/// Runs a program. Returns its output, which must be JSON.
async fn output_of(mut command: Command) -> Value {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.env("PYTHONUNBUFFERED", "1");
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?} cannot be started: {e}. Install python3"));
    let output = soon("a program", child.wait_with_output()).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"))
}

/// Asserts the order of the events of a session with a question.
fn assert_session(heard: &Value) {
    let heard: Vec<&str> = heard.as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect();
    let at = |kind: &str| heard.iter().position(|heard| *heard == kind).unwrap_or_else(|| panic!("{kind}: {heard:?}"));
    let started = at("aaep:agent.session.started");
    let asked = at("aaep:agent.awaiting.confirmation");
    assert!(started < asked && asked < at("aaep:agent.session.completed"), "{heard:?}");
}

/// Starts a program, then an agent that asks a question, and returns the output of the program.
async fn follow_with(test: &TestServer, command: Command) -> Value {
    let running = tokio::spawn(output_of(command));
    test.subscriptions(1).await;
    let permitted = soon("the agent", asking(test.producer())).await.unwrap();
    assert!(permitted, "the program accepted");
    soon("the program", running).await.unwrap()
}

#[tokio::test]
async fn python_subscribes_over_the_unix_socket() {
    for framing in ["lengths", "lines"] {
        let test = TestServer::start().await;
        let mut command = Command::new("python3");
        command.arg(program("socket_client.py")).arg(test.socket()).arg(framing);
        let heard = follow_with(&test, command).await;
        assert_eq!(heard[0], "subscription.accepted");
        assert_session(&heard);
        test.subscriptions(0).await;
    }
}

#[tokio::test]
async fn python_subscribes_over_grpc() {
    let python = python(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop-grpc"), &["grpcio", "grpcio-tools"]);
    let test = TestServer::start().await;
    let stub = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.arg(program("grpc_client.py")).arg(test.server.grpc_address().unwrap().to_string());
    command.arg(root().join("crates/aaep-grpc/proto")).arg(stub.path());
    let told = follow_with(&test, command).await;
    assert_eq!(told["transports"], json!(["sse", "websocket", "unix-socket", "grpc"]));
    assert_session(&told["heard"]);
    test.subscriptions(0).await;
}

#[tokio::test]
async fn python_parent_subscribes_over_stdio() {
    let aaep = tokio::task::spawn_blocking(aaep).await.unwrap();
    let mut command = Command::new("python3");
    command.arg(program("stdio_parent.py")).arg(aaep);
    let told = output_of(command).await;
    assert_session(&told["heard"]);
    assert_eq!((&told["renegotiated"], &told["code"]), (&json!(true), &json!(0)), "{told}");
    assert_eq!(told["errors"], "", "nothing is printed without an error");
}
