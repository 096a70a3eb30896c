//! Agents that connect to a server: their identity, their sessions, and waiting for questions.

use std::time::Duration;

use aaep_server::{AuthConfig, Config, RunningServer, Server, Transports};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::harness::{DEADLINE, Subscriber};

const ADA: &str = "token-of-ada-0000";
const EVE: &str = "token-of-eve-0000";
const EAR: &str = "token-of-ear-0000";

struct AgentServer {
    running: RunningServer,
    _dir: tempfile::TempDir,
}

impl AgentServer {
    async fn new() -> AgentServer {
        let dir = tempfile::tempdir().unwrap();
        let tokens = dir.path().join("tokens");
        let text = format!("{ADA} ada produce\n{EVE} eve produce\n{EAR} ear subscribe,reply\n");
        std::fs::write(&tokens, text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            auth: AuthConfig { tokens: Some(tokens), ..AuthConfig::default() },
            transports: Transports { unix: false, ..Transports::default() },
            ..Config::default()
        };
        let producer = Server::producer(&config);
        let running = Server::new(config, producer).with_agents().start().await.unwrap();
        AgentServer { running, _dir: dir }
    }

    /// Sends one request. Returns the status and the body.
    async fn post(&self, token: &str, query: &str, body: &str) -> (u16, String) {
        let kind = if body.contains('\n') { "application/x-ndjson" } else { "application/json" };
        let request = format!(
            "POST /aaep/v1/agent/events{query} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut answer = String::new();
        let work = async {
            let mut stream = TcpStream::connect(self.running.address()).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.read_to_string(&mut answer).await.unwrap();
        };
        tokio::time::timeout(DEADLINE, work).await.expect("a response in time");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn post_event(&self, token: &str, query: &str, event: Value) -> (u16, Value) {
        let (status, body) = self.post(token, query, &event.to_string()).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    async fn subscribe(&self) -> Subscriber {
        Subscriber::new(&self.running.url(), Some(EAR)).await
    }
}

fn question() -> Value {
    json!({"type": "awaiting.confirmation", "event_id": "q", "action": "Burn the leaves.", "tool": "burn",
        "consequence": "They are gone.", "irreversible": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_question_can_be_sent_again_for_its_outcome() {
    let server = AgentServer::new().await;
    let mut subscriber = server.subscribe().await;
    let (status, answer) = server.post_event(ADA, "?wait=0", question()).await;
    assert_eq!((status, &answer), (202, &json!({"type": "pending", "event_id": "q"})));
    let (asked, _) = subscriber.wait_for_event("awaiting.confirmation").await;
    let waiting = server.post_event(ADA, "?wait=200", question());
    let (answered, ()) = tokio::join!(waiting, subscriber.reply(&asked, "decision", json!("accept")));
    assert_eq!(
        (answered.0, &answered.1["decision"], &answered.1["verdict"]),
        (200, &json!("accept"), &json!("accepted"))
    );
    // The outcome does not change, and the question was asked once.
    assert_eq!(server.post_event(ADA, "?wait=0", question()).await, answered);
    let burn = json!({"type": "tool.invoked", "tool": "burn", "irreversible": true, "summary_normal": "Burning."});
    assert_eq!(server.post_event(ADA, "", burn).await.0, 200);
    let (_, before) = subscriber.wait_for_event("tool.invoked").await;
    assert!(before.iter().all(|event| event["type"] != "aaep:agent.awaiting.confirmation"), "{before:?}");
    server.running.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_cannot_write_to_a_session_of_another_token() {
    let server = AgentServer::new().await;
    let mut subscriber = server.subscribe().await;
    let (status, answer) =
        server.post_event(ADA, "", json!({"type": "session.started", "summary_normal": "Mine."})).await;
    assert_eq!((status, &answer["type"]), (200, &json!("published")));
    let (started, _) = subscriber.wait_for_event("session.started").await;
    assert_eq!(started["producer"]["agent_id"], "ada");
    assert_eq!(started["session_id"], answer["session_id"]);
    let end = json!({"type": "session.completed", "summary_normal": "Over.", "session_id": answer["session_id"]});
    let (status, refused) = server.post_event(EVE, "", end.clone()).await;
    assert_eq!((status, &refused["type"]), (422, &json!("refused")));
    assert_eq!(refused["problems"][0]["message"], "This session belongs to another agent.");
    assert_eq!(server.post_event(ADA, "", end).await.0, 200);
    server.running.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_id_must_match_the_credentials() {
    let server = AgentServer::new().await;
    let started = |id: &str| json!({"type": "session.started", "summary_normal": "Hello.", "session_id": id, "producer": {"agent_id": id}});
    for (query, id, status) in [("", "ada", 200), ("", "ada/roses", 200), ("", "eve", 422), ("", "adam", 422)] {
        let (got, answer) = server.post_event(ADA, query, started(id)).await;
        assert_eq!(got, status, "{answer}");
    }
    let mut subscriber = server.subscribe().await;
    server.post_event(ADA, "?agent=beans", json!({"type": "session.started", "summary_normal": "Hello."})).await;
    loop {
        let (event, _) = subscriber.wait_for_event("session.started").await;
        if event["producer"]["agent_id"] == "ada/beans" {
            break;
        }
    }
    let (status, _) = server.post_event(EAR, "", started("ear")).await;
    assert_eq!(status, 403, "a subscriber must not act as an agent");
    assert_eq!(server.post_event("token-of-nobody-00", "", started("x")).await.0, 401);
    assert_eq!(server.post_event(ADA, "?agent=a%20b", started("x")).await.0, 400);
    server.running.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_gets_one_response_per_line() {
    let server = AgentServer::new().await;
    let mut subscriber = server.subscribe().await;
    let body = "{\"type\":\"session.started\",\"summary_normal\":\"Hello.\",\"event_id\":\"a\"}\n\n\
        {\"type\":\"output.streaming\",\"chunk\":\"Text.\",\"complete\":true}\nnonsense\n\
        {\"type\":\"session.completed\",\"summary_normal\":\"Bye.\"}\n";
    let (status, answers) = server.post(ADA, "", body).await;
    assert_eq!(status, 200);
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<&str> = answers.iter().map(|answer| answer["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["published", "published", "refused", "published"]);
    assert_eq!(answers[0]["event_id"], "a");
    subscriber.wait_for_event("session.completed").await;
    server.running.stop("Done.").await;
}

async fn connect(
    server: &AgentServer,
    token: &str,
    query: &str,
) -> tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<TcpStream>> {
    let address = format!("ws://{}/aaep/v1/agent/ws?access_token={token}{query}", server.running.address());
    tokio_tungstenite::connect_async(address).await.unwrap().0
}

async fn next(
    socket: &mut (impl futures_util::Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin),
) -> Message {
    loop {
        let message = tokio::time::timeout(DEADLINE, socket.next()).await.unwrap().unwrap().unwrap();
        if !message.is_ping() && !message.is_pong() {
            return message;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn websocket_carries_events_and_outcomes() {
    let server = AgentServer::new().await;
    let mut subscriber = server.subscribe().await;
    let mut agent = connect(&server, ADA, "&agent=roses").await;
    agent.send(Message::text("nonsense")).await.unwrap();
    let refused: Value = serde_json::from_str(next(&mut agent).await.to_text().unwrap()).unwrap();
    assert_eq!(refused["type"], "refused");
    agent.send(Message::text(question().to_string())).await.unwrap();
    let (asked, _) = subscriber.wait_for_event("awaiting.confirmation").await;
    // The connection is lost. The agent reconnects and sends its question again.
    drop(agent);
    let mut agent = connect(&server, ADA, "&agent=roses").await;
    agent.send(Message::text(question().to_string())).await.unwrap();
    subscriber.reply(&asked, "decision", json!("accept")).await;
    let outcome: Value = serde_json::from_str(next(&mut agent).await.to_text().unwrap()).unwrap();
    assert_eq!((&outcome["event_id"], &outcome["decision"]), (&json!("q"), &json!("accept")));
    let end = json!({"type": "session.completed", "summary_normal": "Done."});
    agent.send(Message::text(end.to_string())).await.unwrap();
    let (_, before) = subscriber.wait_for_event("session.completed").await;
    assert!(before.iter().all(|event| event["type"] != "aaep:agent.awaiting.confirmation"), "{before:?}");
    drop(agent);
    server.running.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_without_produce_role_is_closed_with_a_reason() {
    let server = AgentServer::new().await;
    for (token, code) in [("token-of-nobody-00", 4002), (EAR, 4003)] {
        let mut agent = connect(&server, token, "").await;
        let Message::Close(Some(frame)) = next(&mut agent).await else { panic!() };
        assert_eq!(u16::from(frame.code), code);
    }
    tokio::time::timeout(Duration::from_secs(120), server.running.stop("Done.")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn body_without_json_is_refused() {
    let server = AgentServer::new().await;
    for body in ["hello", "{\"type\":", "type=session.started\nhello"] {
        let (status, answer) = server.post(ADA, "", body).await;
        assert_eq!(status, 422, "{answer}");
        assert!(answer.contains("This is not JSON"), "{answer}");
    }
    server.running.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_after_the_end_starts_no_session_by_accident() {
    let server = AgentServer::new().await;
    let started = json!({"type": "session.started", "summary_normal": "Digging."});
    let completed = json!({"type": "session.completed", "summary_normal": "Dug."});
    let late = json!({"type": "progress.updated", "progress": {"percent": 50}, "summary_normal": "Half."});
    // The first event of an agent starts a session by itself.
    for event in [&late, &completed] {
        assert_eq!(server.post_event(ADA, "", event.clone()).await.0, 200);
    }
    let chunk = json!({"type": "output.streaming", "chunk": "Late."});
    for event in [&late, &chunk, &completed] {
        let (status, answer) = server.post_event(ADA, "", event.clone()).await;
        assert_eq!((status, &answer["problems"][0]["rule"]), (422, &json!("seq.after-terminal")), "{answer}");
    }
    let mut named = late.clone();
    named["session_id"] = json!("another");
    for event in [&named, &started, &late] {
        assert_eq!(server.post_event(ADA, "", event.clone()).await.0, 200, "{event}");
    }
    server.running.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_on_a_server_learn_that_the_user_asks_them_to_stop() {
    let server = AgentServer::new().await;
    let mut subscriber = server.subscribe().await;
    let started = json!({"type": "session.started", "summary_normal": "Digging.", "takes_cancel": true});
    let late = json!({"type": "progress.updated", "progress": {"percent": 50}, "summary_normal": "Half."});
    let url =
        format!("{}/aaep/v1/agent/ws?agent=one&access_token={ADA}", server.running.url().replacen("http", "ws", 1));
    let (mut agent, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
    agent.send(Message::text(started.to_string())).await.unwrap();
    let (event, _) = subscriber.wait_for_event("session.started").await;
    subscriber.request_cancel(&event).await;
    let expected =
        json!({"type": "cancel_requested", "session_id": event["session_id"], "reason": "It takes too long."});
    assert_eq!(next_text(&mut agent).await, expected);
    // A connection that is opened later gets it too.
    drop(agent);
    let (mut agent, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
    assert_eq!(next_text(&mut agent).await, expected);
    // With requests, it comes with the next response.
    let (_, answer) = server.post_event(ADA, "", started).await;
    assert!(answer.get("cancel_requested").is_none(), "{answer}");
    let (event, _) = subscriber.wait_for_event("session.started").await;
    subscriber.request_cancel(&event).await;
    let until = tokio::time::Instant::now() + DEADLINE;
    while server.post_event(ADA, "", late.clone()).await.1["cancel_requested"] != json!(true) {
        assert!(tokio::time::Instant::now() < until, "no request");
    }
    server.running.stop("Done.").await;
}

async fn next_text<S>(socket: &mut tokio_tungstenite::WebSocketStream<S>) -> Value
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    // One deadline for all: pings come for as long as the connection is open.
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        let message = tokio::time::timeout_at(deadline, socket.next()).await.expect("a message in time");
        if let Message::Text(text) = message.expect("an open connection").unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}
