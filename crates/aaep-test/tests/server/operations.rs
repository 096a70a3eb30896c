//! The commands `serve`, `demo` and `manifest print`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use crate::harness::*;

fn aaep(arguments: &[&str]) -> Command {
    let mut command = Command::new(aaep_test::aaep());
    command.args(arguments).stdin(Stdio::null()).env_remove("AAEP_LISTEN");
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = aaep(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A server in a separate process.
struct ServerProcess {
    child: Child,
    address: std::net::SocketAddr,
}

impl ServerProcess {
    fn start(arguments: &[&str]) -> ServerProcess {
        let mut child = aaep(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("//").next().unwrap().parse();
        let address = address.unwrap_or_else(|_| panic!("no address in {line:?}"));
        ServerProcess { child, address }
    }

    /// Terminates it. Returns its exit status and its log.
    fn end(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (status.code(), log)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
    }
}

#[test]
fn print_config_merges_file_environment_and_flags() {
    let files = tempfile::TempDir::new().unwrap();
    let file = files.path().join("aaep.toml");
    std::fs::write(&file, "agent_id = \"from-file\"\n[limits]\nconnections = 5\nsubscriptions = 6\n").unwrap();
    let mut command = aaep(&["serve", "--print-config", "--config", file.to_str().unwrap(), "--host", "a.example"]);
    let output = command.env("AAEP_LIMITS__CONNECTIONS", "7").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["agent_id = \"from-file\"", "connections = 7", "subscriptions = 6", "hosts = [\"a.example\"]"] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    let (code, _, error) = run(&["serve", "--config", "/nowhere/aaep.toml"]);
    assert_eq!((code, error.lines().count()), (Some(2), 1), "{error}");
}

#[test]
fn serve_refuses_public_addresses_without_tls_and_authentication() {
    let (code, _, error) = run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("aaep: refusing to listen on 0.0.0.0:0") && error.contains("--tls-cert"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn printed_manifest_is_valid() {
    let (code, text, _) = run(&["manifest", "print", "--agent-id", "banker", "--no-unix", "--grpc", "127.0.0.1:1"]);
    assert_eq!(code, Some(0));
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["agent_id"], "banker");
    assert_eq!(manifest["transports_supported"], serde_json::json!(["sse", "websocket", "grpc"]));
    assert!(aaep_proto::validate(text.as_bytes()).is_valid());
    let (code, _, error) = run(&["manifest", "print", "--signed"]);
    assert!(code == Some(2) && error.contains("--manifest-key"), "{error}");
}

#[tokio::test]
async fn sigterm_cancels_sessions_and_closes_subscriptions_before_exit() {
    let server = ServerProcess::start(&["demo", "banking", "--listen", "127.0.0.1:0", "--no-unix"]);
    let id = subscribe(server.address, &request(), None).await;
    let mut stream = Stream::open(server.address, &id, &[]).await;
    let question = stream.find("awaiting.confirmation").await;
    assert_eq!(question["irreversible"], true);
    let ending = tokio::task::spawn_blocking(|| server.end());
    let rest = stream.rest().await;
    // A question overtakes queued events, so earlier states and tool calls may follow it.
    assert!(rest.iter().all(|event| event.data["irreversible"] != true), "shutdown must not accept the question");
    let last: Vec<&str> = rest.iter().rev().take(2).map(|event| kind_of(&event.data)).collect();
    assert_eq!(last, ["subscription.close", "session.cancelled"]);
    let close = rest.last().unwrap();
    assert_eq!((close.name.as_str(), close.id.as_str()), ("aaep.message", ""));
    assert_eq!(close.data["reason_code"], "producer_shutdown");
    let (code, log) = ending.await.unwrap();
    assert_eq!(code, Some(0), "{log}");
}

#[tokio::test]
async fn event_text_is_logged_at_trace_level_only() {
    for (filter, told) in [("info,aaep_server=debug,aaep=debug", false), ("trace", true)] {
        let arguments = ["demo", "greetings", "--no-pauses", "--listen", "127.0.0.1:0", "--no-unix", "--log", filter];
        let server = ServerProcess::start(&arguments);
        let id = subscribe(server.address, &request(), None).await;
        let mut stream = Stream::open(server.address, &id, &[]).await;
        let chunk = stream.find("output.streaming").await["chunk"].as_str().unwrap().to_owned();
        stream.find("session.completed").await;
        let words: String = chunk.chars().take(20).collect();
        drop(stream);
        let (_, log) = server.end();
        assert!(log.contains("no credentials configured"), "it is logged once: {log}");
        assert_eq!(log.contains(&words), told, "with {filter}: {words}");
    }
}
