//! An agent that comes back after the server was killed finds its question, its answer and its permit again.

use std::path::Path;

use aaep_test::Serving;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::{DEADLINE, Subscriber};

/// A server on this directory. It is killed when dropped.
fn serve(dir: &Path) -> Serving {
    Serving::start(&["serve", "--no-unix", "--data", dir.to_str().unwrap()])
}

/// What an agent gets for an event; nothing if the server goes away meanwhile.
async fn post(server: &Serving, query: &str, event: &Value) -> Option<(u16, Value)> {
    let body = event.to_string();
    let request = format!(
        "POST /aaep/v1/agent/events{query} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    answer(server.address(), request).await
}

async fn answer(address: std::net::SocketAddr, request: String) -> Option<(u16, Value)> {
    let work = async {
        let mut answer = String::new();
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
    };
    tokio::time::timeout(DEADLINE, work).await.expect("an answer in time")
}

async fn say(server: &Serving, query: &str, event: &Value) -> (u16, Value) {
    post(server, query, event).await.expect("the server is there")
}

fn question(action: &str) -> Value {
    json!({"type": "awaiting.confirmation", "event_id": "q", "session_id": "s", "action": action, "tool": "burn",
        "consequence": "They are gone.", "irreversible": true, "timeout_seconds": 3600})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_outlasts_the_server_and_its_permit_is_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let leaves = question("Burn the leaves.");
    let burn = json!({"type": "tool.invoked", "tool": "burn", "irreversible": true, "summary_normal": "Burning.",
        "session_id": "s"});

    let server = serve(dir.path());
    let started = json!({"type": "session.started", "session_id": "s", "summary_normal": "Tidying."});
    let session = say(&server, "", &started).await.1["session_id"].clone();
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let asking = post(&server, "?wait=300", &leaves);
    let seen = subscriber.until("awaiting.confirmation");
    let asked = tokio::select! {
        answer = asking => panic!("nobody has decided: {answer:?}"),
        (asked, _) = seen => asked,
    };
    drop(server);

    let server = serve(dir.path());
    assert_eq!(say(&server, "?wait=0", &leaves).await.0, 202);
    let mut subscriber = Subscriber::new(&server.url(""), None).await;
    let (again, _) = subscriber.until("awaiting.confirmation").await;
    assert_eq!((&again["reply_token"], &again["session_id"]), (&asked["reply_token"], &session));
    let (decided, ()) =
        tokio::join!(say(&server, "?wait=300", &leaves), subscriber.reply(&again, "decision", json!("accept")));
    assert_eq!((decided.0, &decided.1["decision"], &decided.1["session_id"]), (200, &json!("accept"), &session));
    let (status, answer) = say(&server, "", &burn).await;
    assert_eq!((status, &answer["session_id"]), (200, &session), "{answer}");
    let (_, before) = subscriber.until("tool.invoked").await;
    assert!(before.iter().all(|event| event["type"] != "aaep:agent.awaiting.confirmation"), "{before:?}");
    drop(server);

    let server = serve(dir.path());
    assert_eq!(say(&server, "?wait=0", &leaves).await, decided);
    let (status, answer) = say(&server, "", &burn).await;
    assert_eq!((status, &answer["type"]), (422, &json!("refused")), "{answer}");
    assert!(answer["problems"][0]["message"].as_str().unwrap().starts_with("Ask first"), "{answer}");
    drop(server);

    // Another question under the same name does not get the answer of the first.
    let server = serve(dir.path());
    assert_eq!(say(&server, "?wait=0", &question("Burn the house.")).await.0, 202);
}
