//! Agents that speak through a server: who they are, what is theirs, how questions are waited for.

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

struct World {
    server: RunningServer,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new() -> World {
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
        let server = Server::new(config, producer).with_agents().start().await.unwrap();
        World { server, _dir: dir }
    }

    /// One request; the status and the body.
    async fn post(&self, token: &str, query: &str, body: &str) -> (u16, String) {
        let kind = if body.contains('\n') { "application/x-ndjson" } else { "application/json" };
        let request = format!(
            "POST /aaep/v1/agent/events{query} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut answer = String::new();
        let work = async {
            let mut stream = TcpStream::connect(self.server.address()).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.read_to_string(&mut answer).await.unwrap();
        };
        tokio::time::timeout(DEADLINE, work).await.expect("an answer in time");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn say(&self, token: &str, query: &str, event: Value) -> (u16, Value) {
        let (status, body) = self.post(token, query, &event.to_string()).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    async fn listen(&self) -> Subscriber {
        Subscriber::new(&self.server.url(), Some(EAR)).await
    }
}

fn question() -> Value {
    json!({"type": "awaiting.confirmation", "event_id": "q", "action": "Burn the leaves.", "tool": "burn",
        "consequence": "They are gone.", "irreversible": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_waited_for_and_can_be_taken_up_again() {
    let world = World::new().await;
    let mut subscriber = world.listen().await;
    let (status, answer) = world.say(ADA, "?wait=0", question()).await;
    assert_eq!((status, &answer), (202, &json!({"type": "pending", "event_id": "q"})));
    let (asked, _) = subscriber.until("awaiting.confirmation").await;
    let waiting = world.say(ADA, "?wait=200", question());
    let (answered, ()) = tokio::join!(waiting, subscriber.reply(&asked, "decision", json!("accept")));
    assert_eq!(
        (answered.0, &answered.1["decision"], &answered.1["verdict"]),
        (200, &json!("accept"), &json!("accepted"))
    );
    // It stays so, and it was asked once.
    assert_eq!(world.say(ADA, "?wait=0", question()).await, answered);
    let burn = json!({"type": "tool.invoked", "tool": "burn", "irreversible": true, "summary_normal": "Burning."});
    assert_eq!(world.say(ADA, "", burn).await.0, 200);
    let (_, before) = subscriber.until("tool.invoked").await;
    assert!(before.iter().all(|event| event["type"] != "aaep:agent.awaiting.confirmation"), "{before:?}");
    world.server.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_belong_to_who_began_them() {
    let world = World::new().await;
    let mut subscriber = world.listen().await;
    let (status, answer) = world.say(ADA, "", json!({"type": "session.started", "summary_normal": "Mine."})).await;
    assert_eq!((status, &answer["type"]), (200, &json!("published")));
    let (started, _) = subscriber.until("session.started").await;
    assert_eq!(started["producer"]["agent_id"], "ada");
    assert_eq!(started["session_id"], answer["session_id"]);
    let end = json!({"type": "session.completed", "summary_normal": "Over.", "session_id": answer["session_id"]});
    let (status, refused) = world.say(EVE, "", end.clone()).await;
    assert_eq!((status, &refused["type"]), (422, &json!("refused")));
    assert_eq!(refused["problems"][0]["message"], "This session belongs to another agent.");
    assert_eq!(world.say(ADA, "", end).await.0, 200);
    world.server.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_who_their_credentials_say() {
    let world = World::new().await;
    let started = |id: &str| json!({"type": "session.started", "summary_normal": "Hello.", "session_id": id, "producer": {"agent_id": id}});
    for (query, id, status) in [("", "ada", 200), ("", "ada/roses", 200), ("", "eve", 422), ("", "adam", 422)] {
        let (got, answer) = world.say(ADA, query, started(id)).await;
        assert_eq!(got, status, "{answer}");
    }
    let mut subscriber = world.listen().await;
    world.say(ADA, "?agent=beans", json!({"type": "session.started", "summary_normal": "Hello."})).await;
    loop {
        let (event, _) = subscriber.until("session.started").await;
        if event["producer"]["agent_id"] == "ada/beans" {
            break;
        }
    }
    let (status, _) = world.say(EAR, "", started("ear")).await;
    assert_eq!(status, 403, "who listens is no agent");
    assert_eq!(world.say("token-of-nobody-00", "", started("x")).await.0, 401);
    assert_eq!(world.say(ADA, "?agent=a%20b", started("x")).await.0, 400);
    world.server.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_events_are_answered_one_by_one() {
    let world = World::new().await;
    let mut subscriber = world.listen().await;
    let body = "{\"type\":\"session.started\",\"summary_normal\":\"Hello.\",\"event_id\":\"a\"}\n\n\
        {\"type\":\"output.streaming\",\"chunk\":\"Text.\",\"complete\":true}\nnonsense\n\
        {\"type\":\"session.completed\",\"summary_normal\":\"Bye.\"}\n";
    let (status, answers) = world.post(ADA, "", body).await;
    assert_eq!(status, 200);
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<&str> = answers.iter().map(|answer| answer["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["published", "published", "refused", "published"]);
    assert_eq!(answers[0]["event_id"], "a");
    subscriber.until("session.completed").await;
    world.server.stop("Done.").await;
}

async fn connect(
    world: &World,
    token: &str,
    query: &str,
) -> tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<TcpStream>> {
    let address = format!("ws://{}/aaep/v1/agent/ws?access_token={token}{query}", world.server.address());
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
async fn a_websocket_carries_events_and_outcomes() {
    let world = World::new().await;
    let mut subscriber = world.listen().await;
    let mut agent = connect(&world, ADA, "&agent=roses").await;
    agent.send(Message::text("nonsense")).await.unwrap();
    let refused: Value = serde_json::from_str(next(&mut agent).await.to_text().unwrap()).unwrap();
    assert_eq!(refused["type"], "refused");
    agent.send(Message::text(question().to_string())).await.unwrap();
    let (asked, _) = subscriber.until("awaiting.confirmation").await;
    // The connection is lost, and the agent comes back to its question.
    drop(agent);
    let mut agent = connect(&world, ADA, "&agent=roses").await;
    agent.send(Message::text(question().to_string())).await.unwrap();
    subscriber.reply(&asked, "decision", json!("accept")).await;
    let outcome: Value = serde_json::from_str(next(&mut agent).await.to_text().unwrap()).unwrap();
    assert_eq!((&outcome["event_id"], &outcome["decision"]), (&json!("q"), &json!("accept")));
    let end = json!({"type": "session.completed", "summary_normal": "Done."});
    agent.send(Message::text(end.to_string())).await.unwrap();
    let (_, before) = subscriber.until("session.completed").await;
    assert!(before.iter().all(|event| event["type"] != "aaep:agent.awaiting.confirmation"), "{before:?}");
    drop(agent);
    world.server.stop("Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_speak_is_closed_with_the_reason() {
    let world = World::new().await;
    for (token, code) in [("token-of-nobody-00", 4002), (EAR, 4003)] {
        let mut agent = connect(&world, token, "").await;
        let Message::Close(Some(frame)) = next(&mut agent).await else { panic!() };
        assert_eq!(u16::from(frame.code), code);
    }
    tokio::time::timeout(Duration::from_secs(120), world.server.stop("Done.")).await.unwrap();
}
