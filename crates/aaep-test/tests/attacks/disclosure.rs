//! Secrets and deceptive characters in events.

use std::net::SocketAddr;

use aaep_test::{Serving, now, soon};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// One end of a WebSocket.
pub(crate) struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    pub(crate) async fn agent(address: SocketAddr) -> Socket {
        Socket::connect(address, "/aaep/v1/agent/ws", None).await
    }

    /// Connects a subscriber that can reply to all questions. Returns it and its subscription id.
    pub(crate) async fn subscriber(address: SocketAddr) -> (Socket, String) {
        let mut socket = Socket::connect(address, "/aaep/v1/ws", Some("aaep.v1")).await;
        let capabilities = json!({"supports_confirmation_reply": true, "supports_clarification_reply": true});
        socket
            .send(&json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
                "capabilities": capabilities}))
            .await;
        let accepted = socket.next().await;
        assert_eq!(accepted["type"], "subscription.accepted");
        (socket, accepted["subscription_id"].as_str().unwrap().to_owned())
    }

    async fn connect(address: SocketAddr, path: &str, protocol: Option<&str>) -> Socket {
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        if let Some(protocol) = protocol {
            request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        Socket(soon("an upgrade", tokio_tungstenite::client_async(request, stream)).await.unwrap().0)
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Value {
        soon("a message", async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                    Some(Ok(_)) => {}
                    end => panic!("the connection ended: {end:?}"),
                }
            }
        })
        .await
    }

    /// Receives up to a message of this type. Returns all messages.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let message = self.next().await;
            let found = message["type"].as_str().is_some_and(|name| name.ends_with(kind));
            all.push(message);
            if found {
                return all;
            }
        }
    }

    pub(crate) async fn reply(&mut self, asked: &Value, subscription: &str, decision: &str) {
        let reply = json!({"type": "confirmation.reply", "reply_token": asked["reply_token"], "decision": decision,
            "subscription_id": subscription, "timestamp": now()});
        self.send(&reply).await;
    }
}

const KEYS: [&str; 4] = [
    "ghp_abcdefghij0123456789ABCD",
    "SG.abcdefGHIJ0123456789ab.abcdefghijklmnopqrstuvwxyz0123456789",
    "glrt-abcdefGHIJ0123456789",
    "4111 1111 1111 1111",
];

#[tokio::test(flavor = "multi_thread")]
async fn secrets_reach_no_subscriber_in_text_states_or_extensions() {
    let server = Serving::start(&["serve", "--no-unix"]);
    let (mut subscriber, _) = Socket::subscriber(server.address()).await;
    let mut agent = Socket::agent(server.address()).await;
    agent.send(&json!({"type": "session.started", "summary_normal": "Working."})).await;
    for key in KEYS {
        let text = format!("Use {key} now. ");
        for piece in text.as_bytes().chunks(5) {
            let piece = std::str::from_utf8(piece).unwrap();
            agent.send(&json!({"type": "output.streaming", "chunk": piece, "output_id": key})).await;
        }
        agent.send(&json!({"type": "output.streaming", "chunk": "Done.", "output_id": key, "complete": true})).await;
        agent
            .send(&json!({"type": "state.changed", "to_state": key, "correlation_id": key,
                "@context": ["https://aaep-protocol.org/context/v1", "https://example.org/haptic/v1"],
                "extensions": {"haptic": {"deep": [{"note": key}], "password": "hunter22"}}}))
            .await;
    }
    agent.send(&json!({"type": "session.completed", "summary_normal": "Done."})).await;
    let all = subscriber.until("session.completed").await;
    let wire = Value::from(all.clone()).to_string();
    for part in ["ghp_", "abcdefGHIJ", "glrt-", "4111 1", "1 1111", "hunter22"] {
        assert!(!wire.contains(part), "{part} was sent: {wire}");
    }
    let text: String = all.iter().filter_map(|event| event["chunk"].as_str()).collect();
    assert_eq!(text, "Use [removed] now. Done.".repeat(KEYS.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_characters_reach_no_subscriber_where_the_user_decides() {
    let server = Serving::start(&["serve", "--no-unix"]);
    let (mut subscriber, subscription) = Socket::subscriber(server.address()).await;
    let mut agent = Socket::agent(server.address()).await;
    agent
        .send(&json!({"type": "awaiting.confirmation", "action": "Pay \u{202E}001.", "consequence": "Gone\u{200B}.",
            "action_de": "Zahle \u{2067}001."}))
        .await;
    let asked = subscriber.until("awaiting.confirmation").await.pop().unwrap();
    assert_eq!(asked["action"], "Pay [direction control U+202E]001.");
    assert_eq!(asked["consequence"], "Gone[hidden character U+200B].");
    assert!(!asked.to_string().contains(['\u{202E}', '\u{200B}', '\u{2067}']), "{asked}");
    subscriber.reply(&asked, &subscription, "reject").await;
    assert_eq!(agent.until("outcome").await.pop().unwrap()["decision"], "reject");
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_prefixes_are_refused_in_any_case() {
    let server = Serving::start(&["serve", "--no-unix"]);
    let mut agent = Socket::agent(server.address()).await;
    agent.send(&json!({"type": "session.started", "summary_normal": "Working.", "event_id": "1"})).await;
    for (index, fields) in [
        json!({"type": "AAEP:agent.tool.invoked"}),
        json!({"type": "state.changed", "to_state": "deciding", "extensions": {"AAEP": {}}}),
        json!({"type": "state.changed", "to_state": "deciding", "extensions": {"Consent": {"outcome": "accepted"}}}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut event = fields;
        event["event_id"] = json!(format!("refused {index}"));
        event["@context"] = json!(["https://aaep-protocol.org/context/v1", "https://example.org/v1"]);
        agent.send(&event).await;
        let answer = agent.until("refused").await.pop().unwrap();
        assert_eq!(answer["event_id"], event["event_id"], "{answer}");
    }
}
