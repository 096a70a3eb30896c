//! Attacks on the data directory: reading, incomplete copies, damage.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use aaep_test::{Serving, aaep, now, soon, until};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

fn serve(dir: &Path) -> Serving {
    Serving::start(&["serve", "--no-unix", "--data", dir.to_str().unwrap()])
}

/// Stops a server gracefully.
fn stop(mut server: Serving) {
    server.process.terminate();
    assert!(server.process.wait().success());
}

fn run(arguments: &[&str]) -> Output {
    Command::new(aaep()).args(arguments).output().unwrap()
}

/// Starts a server on this directory, which must fail. Returns the error message.
fn rejection(dir: &Path) -> String {
    let ended = run(&["serve", "--no-unix", "--listen", "127.0.0.1:0", "--data", dir.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    String::from_utf8(ended.stderr).unwrap()
}

/// Returns the decisions in a data directory.
fn decisions(dir: &Path) -> Vec<Value> {
    let ended = run(&["audit", "--json", "--data", dir.to_str().unwrap()]);
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends an event of an agent. Returns the response.
async fn post(server: &Serving, query: &str, event: &Value) -> Value {
    let body = event.to_string();
    let request = format!(
        "POST /aaep/v1/agent/events{query} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    soon("an answer", async {
        let mut answer = String::new();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.read_to_string(&mut answer).await.unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    })
    .await
}

/// A subscriber that can reply to questions.
struct TestSubscriber {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    id: String,
}

impl TestSubscriber {
    async fn new(server: &Serving) -> TestSubscriber {
        let url = server.url("/aaep/v1/ws").replacen("http", "ws", 1);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "ear",
            "capabilities": {"supports_confirmation_reply": true}});
        socket.send(Message::text(request.to_string())).await.unwrap();
        let mut subscriber = TestSubscriber { socket, id: String::new() };
        subscriber.id = subscriber.next().await["subscription_id"].as_str().unwrap().to_owned();
        subscriber
    }

    async fn next(&mut self) -> Value {
        soon("a message", async {
            loop {
                if let Message::Text(text) = self.socket.next().await.unwrap().unwrap() {
                    return serde_json::from_str(&text).unwrap();
                }
            }
        })
        .await
    }

    /// Receives until an event of this type. Returns it and all events before it.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            seen.push(self.next().await);
            if seen.last().unwrap()["type"] == format!("aaep:agent.{kind}") {
                return seen;
            }
        }
    }

    /// Accepts the question about this action. Others may be open.
    async fn accept(&mut self, action: &str) {
        let question = loop {
            let question = self.until("awaiting.confirmation").await.pop().unwrap();
            if question["action"] == action {
                break question;
            }
        };
        let reply = json!({"type": "confirmation.reply", "reply_token": question["reply_token"], "decision": "accept",
            "subscription_id": self.id, "timestamp": now()});
        self.socket.send(Message::text(reply.to_string())).await.unwrap();
    }
}

/// Asks a question and accepts it. The decision is recorded when this returns.
async fn decide(server: &Serving, subscriber: &mut TestSubscriber, number: u32) {
    let action = format!("Plant tree {number}.");
    let question = json!({"type": "awaiting.confirmation", "event_id": format!("q{number}"), "session_id": "s",
        "action": action, "consequence": "It grows.", "timeout_seconds": 600});
    let (answer, ()) = tokio::join!(post(server, "?wait=300", &question), subscriber.accept(&action));
    assert_eq!(answer["decision"], "accept", "{answer}");
}

fn copy(from: &Path, to: &Path, names: &[&str]) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, Permissions::from_mode(0o700)).unwrap();
    for name in names {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test]
async fn data_directory_is_private_to_its_owner() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("data");
    let server = serve(&dir);
    let mut subscriber = TestSubscriber::new(&server).await;
    decide(&server, &mut subscriber, 1).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["aaep.db", "aaep.db-wal", "lock", "mark"] {
        assert!(files.contains(&dir.join(name)), "{name} of {files:?}");
    }
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    stop(server);
    fs::set_permissions(dir.join("aaep.db"), Permissions::from_mode(0o644)).unwrap();
    let told = rejection(&dir);
    assert!(told.contains(&format!("chmod -R go= {}", dir.display())), "{told}");
    assert!(Command::new("chmod").args(["-R", "go="]).arg(&dir).status().unwrap().success());
    stop(serve(&dir));
}

#[tokio::test]
async fn database_copied_without_its_write_ahead_log_is_refused() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("data");
    let server = serve(&dir);
    let mut subscriber = TestSubscriber::new(&server).await;
    decide(&server, &mut subscriber, 1).await;
    for (copied, names) in [("one", &["aaep.db"][..]), ("two", &["aaep.db", "mark"]), ("three", &["mark"])] {
        let to = work.path().join(copied);
        copy(&dir, &to, names);
        let told = rejection(&to);
        assert!(told.contains("a part of a store") && told.contains("aaep backup"), "{names:?}: {told}");
        let audit = run(&["audit", "--data", to.to_str().unwrap()]);
        let told = String::from_utf8_lossy(&audit.stderr).into_owned();
        assert!(audit.status.code() == Some(2) && told.contains("aaep backup"), "{names:?}: {audit:?}");
    }
    assert_eq!(decisions(&dir).len(), 1);
}

#[tokio::test]
async fn backup_of_a_busy_server_is_complete_and_can_be_restored() {
    let work = tempfile::tempdir().unwrap();
    let (dir, to) = (work.path().join("data"), work.path().join("copy"));
    let server = serve(&dir);
    let mut subscriber = TestSubscriber::new(&server).await;
    for number in 0..5 {
        decide(&server, &mut subscriber, number).await;
    }
    let before = decisions(&dir);
    let (from, into) = (dir.clone(), to.clone());
    let backup = move || run(&["backup", from.to_str().unwrap(), into.to_str().unwrap()]);
    let mut copying = tokio::task::spawn_blocking(backup.clone());
    let mut number = 5;
    let made = loop {
        tokio::select! {
            made = &mut copying => break made.unwrap(),
            () = decide(&server, &mut subscriber, number) => number += 1,
        }
    };
    assert!(made.status.success(), "{made:?}");
    let again = backup();
    assert!(
        again.status.code() == Some(2) && String::from_utf8_lossy(&again.stderr).contains("not empty"),
        "{again:?}"
    );
    stop(server);
    let (copied, all) = (decisions(&to), decisions(&dir));
    assert_eq!(copied[..before.len()], before);
    assert_eq!(copied, all[..copied.len()]);
    for (path, mode) in [(to.clone(), 0o700), (to.join("aaep.db"), 0o600), (to.join("mark"), 0o600)] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    // The restored server continues from the time of the backup.
    let server = serve(&to);
    let mut subscriber = TestSubscriber::new(&server).await;
    decide(&server, &mut subscriber, 1000).await;
    assert_eq!(decisions(&to).len(), copied.len() + 1);
}

#[tokio::test]
async fn altered_decision_is_reported_at_startup_and_by_audit() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("data");
    let server = serve(&dir);
    let mut subscriber = TestSubscriber::new(&server).await;
    decide(&server, &mut subscriber, 7).await;
    decide(&server, &mut subscriber, 8).await;
    post(&server, "", &json!({"type": "session.completed", "session_id": "s", "summary_normal": "Done."})).await;
    stop(server);
    let path = dir.join("aaep.db");
    let mut bytes = fs::read(&path).unwrap();
    let word = b"Plant tree 7.";
    let places: Vec<usize> = (0..bytes.len() - word.len()).filter(|at| bytes[*at..].starts_with(word)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[at + word.len() - 2] = b'9');
    fs::write(&path, bytes).unwrap();
    let told = rejection(&dir);
    assert!(told.contains("damaged") && told.contains("backup") && told.lines().count() <= 2, "{told}");
    let audit = run(&["audit", "--data", dir.to_str().unwrap()]);
    let (shown, told) = (String::from_utf8_lossy(&audit.stdout), String::from_utf8_lossy(&audit.stderr));
    assert_eq!((audit.status.code(), told.lines().count()), (Some(2), 1), "{told}");
    assert!(told.contains("damaged") && told.contains("put a backup in its place"), "{told}");
    assert!(shown.contains("Plant tree 8.") && !shown.contains("Plant tree 9."), "{shown}");
}

#[tokio::test]
async fn event_sent_again_after_a_kill_is_emitted_once() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("data");
    let server = serve(&dir);
    let started = json!({"type": "session.started", "event_id": "e0", "session_id": "s", "summary_normal": "Digging."});
    let step = json!({"type": "state.changed", "event_id": "e1", "session_id": "s", "to_state": "deciding",
        "summary_normal": "One bed is done."});
    let text = json!({"type": "output.streaming", "event_id": "e2", "session_id": "s", "chunk": "Some words. "});
    let mut answers = Vec::new();
    for event in [&started, &step, &text] {
        answers.push(post(&server, "", event).await);
        assert_eq!(answers.last().unwrap()["type"], "published", "{answers:?}");
    }
    // An outcome is returned after it is on the disk, and with it everything before.
    let mut subscriber = TestSubscriber::new(&server).await;
    decide(&server, &mut subscriber, 1).await;
    drop(server);

    let server = serve(&dir);
    let mut subscriber = TestSubscriber::new(&server).await;
    for (event, answer) in [&started, &step, &text].into_iter().zip(&answers) {
        assert_eq!(post(&server, "", event).await, *answer, "{event}");
    }
    let end = json!({"type": "session.completed", "event_id": "e3", "session_id": "s", "summary_normal": "Done."});
    let ended = post(&server, "", &end).await;
    assert_eq!((&ended["type"], &ended["session_id"]), (&json!("published"), &answers[0]["session_id"]));
    let seen = subscriber.until("session.completed").await;
    let kinds: Vec<&str> = seen.iter().filter_map(|event| event["type"].as_str()).collect();
    // A late subscriber gets one summary of the open sessions, and nothing is emitted again.
    assert_eq!(kinds.iter().filter(|kind| kind.ends_with("session.started")).count(), 1, "{kinds:?}");
    let texts = Value::Array(seen.clone()).to_string();
    assert!(!kinds.contains(&"aaep:agent.output.streaming") && !texts.contains("One bed is done."), "{texts}");
    // Another event with the same id is a new one: the agent may have been restarted too.
    until("the server", async || {
        post(
            &server,
            "",
            &json!({"type": "session.started", "event_id": "e1",
        "session_id": "t", "summary_normal": "Again."}),
        )
        .await["type"]
            == "published"
    })
    .await;
}
