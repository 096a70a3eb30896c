//! The Unix socket and stdio transports.

use std::path::PathBuf;

use aaep_client::{ConnectError, EndReason, NoticeKind, PromptAnswer, Subscriber};
use aaep_proto::limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::harness::*;

struct FakeUnix {
    listener: UnixListener,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl FakeUnix {
    fn new() -> FakeUnix {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.sock");
        FakeUnix { listener: UnixListener::bind(&path).unwrap(), path, _directory: directory }
    }

    fn url(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    async fn accept(&self) -> UnixStream {
        in_time("a connection", self.listener.accept()).await.unwrap().0
    }
}

async fn send(stream: &mut UnixStream, value: &Value) {
    let text = value.to_string();
    stream.write_u32(text.len() as u32).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn receive(stream: &mut UnixStream) -> Value {
    let length = in_time("a length", stream.read_u32()).await.unwrap();
    let mut bytes = vec![0; length as usize];
    in_time("a message", stream.read_exact(&mut bytes)).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn question_over_a_socket_is_answered() {
    let producer = FakeUnix::new();
    let mut subscriber = Subscriber::connect(&producer.url(), options()).unwrap();
    let mut stream = producer.accept().await;
    assert_eq!(receive(&mut stream).await["type"], "subscription.request");
    send(&mut stream, &accepted("sub_1")).await;
    send(&mut stream, &question("evt_1", "rpl_1")).await;
    let asked = subscriber.wait_for("the question", prompt).await;
    subscriber.reply(asked.id, PromptAnswer::accept()).await.unwrap();
    assert_eq!(receive(&mut stream).await["decision"], "accept");
    let voice = subscriber.handle();
    let closing = tokio::spawn(async move { voice.close("done").await });
    assert_eq!(receive(&mut stream).await["type"], "subscription.close");
    assert!(in_time("the end", stream.read_u32()).await.is_err());
    drop(stream);
    in_time("the close", closing).await.unwrap();
}

#[tokio::test]
async fn oversized_message_is_skipped_and_an_invalid_length_ends_the_connection() {
    let producer = FakeUnix::new();
    let mut subscriber = Subscriber::connect(&producer.url(), options()).unwrap();
    let mut stream = producer.accept().await;
    receive(&mut stream).await;
    send(&mut stream, &accepted("sub_1")).await;
    let long = vec![b' '; limits::MESSAGE_BYTES + 1];
    stream.write_u32(long.len() as u32).await.unwrap();
    stream.write_all(&long).await.unwrap();
    subscriber.wait_for("the notice", notice(NoticeKind::Malformed)).await;
    send(&mut stream, &started("evt_1")).await;
    assert_eq!(subscriber.wait_for("the event", event_id).await, "evt_1");
    stream.write_u32(u32::MAX).await.unwrap();
    subscriber.wait_for("the loss", notice(NoticeKind::Disconnected)).await;
    let mut stream = producer.accept().await;
    assert_eq!(receive(&mut stream).await["type"], "subscription.request");
}

#[tokio::test]
async fn missing_socket_is_retried_until_it_exists() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    let mut subscriber = Subscriber::connect(&format!("unix:{}", path.display()), options()).unwrap();
    subscriber.wait_for("the loss", notice(NoticeKind::Disconnected)).await;
    let listener = UnixListener::bind(&path).unwrap();
    let (mut stream, _) = in_time("a connection", listener.accept()).await.unwrap();
    receive(&mut stream).await;
    send(&mut stream, &accepted("sub_1")).await;
    subscriber.wait_for("terms", live).await;
}

/// Returns the address of a producer that is a shell script with these arguments.
fn shell(script: &str, words: &[String]) -> aaep_client::ConnectOptions {
    let mut options = options();
    let command = ["sh", "-c", script, "sh"].into_iter().map(Into::into);
    options.command = Some(command.chain(words.iter().map(Into::into)).collect());
    options
}

fn call(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

fn result(value: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "result": value}).to_string()
}

#[tokio::test]
async fn question_of_a_command_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("received");
    let script = r#"echo "for people" >&2
        read -r line; echo "$line" >> "$1"; echo "$2"; echo "$3"; echo "$4"
        while read -r line; do echo "$line" >> "$1"; echo "$5"; done
        echo end >> "$1""#;
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "aaep.ping"}).to_string();
    let words = [
        log.display().to_string(),
        result(&accepted("sub_1")),
        ping,
        call("aaep.event", &question("evt_1", "rpl_1")),
        call("aaep.event", &started("evt_2")),
    ];
    let mut subscriber = Subscriber::connect("stdio:", shell(script, &words)).unwrap();
    let asked = subscriber.wait_for("the question", prompt).await;
    // The command responds to every line, so this response follows the pong.
    assert_eq!(subscriber.wait_for("the pong to be read", event_id).await, "evt_2");
    subscriber.reply(asked.id, PromptAnswer::accept()).await.unwrap();
    in_time("the close", subscriber.close("done")).await;
    let received = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = received.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let methods: Vec<&str> = lines.iter().map(|line| line["method"].as_str().unwrap_or("answer")).collect();
    assert_eq!(methods, ["aaep.subscribe", "answer", "aaep.reply", "aaep.close"], "{received}");
    assert_eq!(lines[0]["params"]["type"], "subscription.request");
    assert_eq!((&lines[1]["id"], &lines[1]["result"]), (&json!("p"), &json!({})));
    assert_eq!(lines[2]["params"]["reply_token"], "rpl_1");
    assert!(lines[2].get("id").is_none(), "a reply is a notification");
    assert!(received.ends_with("end\n"), "the command saw the end of its input: {received}");
}

#[tokio::test]
async fn rejecting_or_missing_command_ends_the_subscriber() {
    let rejected =
        json!({"type": "subscription.rejected", "reason_code": "version_unsupported", "reason_message": "No."});
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no", "data": rejected}});
    let script = r#"read -r line; echo "$1"; read -r line"#;
    let mut subscriber = Subscriber::connect("stdio:", shell(script, &[error.to_string()])).unwrap();
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Rejected(_)));

    let mut subscriber = Subscriber::connect("stdio:/nowhere/agent --fast", options()).unwrap();
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Refused(_)));
    assert!(matches!(Subscriber::connect("stdio:", options()), Err(ConnectError::NoCommand)));
}

#[tokio::test]
async fn command_that_exits_is_not_restarted() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("runs");
    let script = r#"echo run >> "$1"; read -r line; echo "$2"; [ -z "$3" ] || echo "$3""#;
    let close = json!({"type": "subscription.close", "subscription_id": "sub_1", "reason_code": "producer_ended"});
    for last in [String::new(), call("aaep.close", &close)] {
        let says_why = !last.is_empty();
        let words = [log.display().to_string(), result(&accepted("sub_1")), last];
        let mut subscriber = Subscriber::connect("stdio:", shell(script, &words)).unwrap();
        subscriber.wait_for("terms", live).await;
        let reason = subscriber.wait_for("the end", end).await;
        let is_expected = if says_why {
            matches!(reason, EndReason::ProducerEnded(_))
        } else {
            matches!(reason, EndReason::Refused(_))
        };
        assert!(is_expected, "{reason:?}");
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2, "once for each subscriber");
}
