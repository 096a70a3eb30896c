//! Malformed and incomplete subscription requests.

use std::net::SocketAddr;
use std::time::Duration;

use aaep_test::{Serving, soon};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

/// Starts a server that requires no credentials.
fn serve() -> Serving {
    Serving::start(&["serve", "--no-unix"])
}

/// A complete response: status, headers in lower case, body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Posts bytes. Reads the response until the connection is closed.
async fn post(address: SocketAddr, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that rejects the header may not read the body.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    soon("an answer", stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

const JSON: &str = "content-type: application/json\r\n";

async fn post_json(server: &Serving, path: &str, message: &Value) -> Answer {
    post(server.address(), path, JSON, message.to_string().as_bytes()).await
}

fn request(capabilities: Value) -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test", "capabilities": capabilities})
}

async fn subscribe(server: &Serving, capabilities: Value) -> Value {
    let answer = post_json(server, "/aaep/v1/subscriptions", &request(capabilities)).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json()
}

/// The event stream of a subscription.
struct Events(tokio::io::Lines<BufReader<TcpStream>>);

impl Events {
    async fn open(server: &Serving, subscription: &Value, headers: &str) -> Events {
        let id = subscription["subscription_id"].as_str().unwrap();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let head = format!("GET /aaep/v1/events?subscription_id={id} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Events(BufReader::new(stream).lines())
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            let line = soon("a line", self.0.next_line()).await.unwrap()?;
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    async fn find(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("it ended before {kind}"));
            if event["type"] == format!("aaep:agent.{kind}") {
                return event;
            }
        }
    }
}

/// Emits an event of an agent.
async fn emit(server: &Serving, event: &Value) {
    let answer = post_json(server, "/aaep/v1/agent/events", event).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn every_subscription_request_over_http_gets_a_protocol_message() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("aaep.toml");
    std::fs::write(&config, "[limits]\nmessage_bytes = 10000\n").unwrap();
    let server = Serving::start(&["serve", "--no-unix", "--config", config.to_str().unwrap()]);
    let large = "x".repeat(20_000);
    let version = request(json!({})).to_string().replace("1.0.0", "7.0.0");
    let cases: [(&str, &str, &[u8], u16, &str); 9] = [
        (JSON, "malformed JSON", b"{\"type\":\"subscription.request\"", 400, "unknown"),
        (JSON, "invalid UTF-8", b"\xff\xfe{}", 400, "unknown"),
        (JSON, "an empty body", b"", 400, "unknown"),
        (JSON, "another type", br#"{"type":"subscription.renegotiate"}"#, 400, "unknown"),
        (JSON, "not an object", b"[1]", 400, "unknown"),
        (JSON, "no fields", br#"{"type":"subscription.request"}"#, 400, "version_unsupported"),
        ("content-type: text/plain\r\n", "not JSON", b"{}", 415, "unknown"),
        (JSON, "too large", large.as_bytes(), 413, "unknown"),
        (JSON, "another version", version.as_bytes(), 422, "version_unsupported"),
    ];
    for (headers, what, body, status, code) in cases {
        let answer = post(server.address(), "/aaep/v1/subscriptions", headers, body).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        let rejected = answer.json();
        assert_eq!((&rejected["type"], &rejected["reason_code"]), (&json!("subscription.rejected"), &json!(code)));
        assert!(rejected["reason_message"].as_str().is_some_and(|text| text.len() > 10), "{what}: {rejected}");
    }
}

#[tokio::test]
async fn unauthenticated_requests_are_rejected_on_every_endpoint_without_details() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "ada-secret-ada-secret-ada-secret ada subscribe,reply\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let server = Serving::start(&["serve", "--no-unix", "--tokens", tokens.to_str().unwrap()]);
    let change = json!({"type": "subscription.renegotiate", "subscription_id": "sub_1", "capabilities": {}});
    for (path, message) in [("/aaep/v1/subscriptions", request(json!({}))), ("/aaep/v1/replies", change)] {
        let answer = post_json(&server, path, &message).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        let rejected = answer.json();
        assert_eq!(rejected["type"], "subscription.rejected", "{path}");
        assert_eq!(rejected["reason_code"], "authentication_required", "{path}");
    }
    let reply = json!({"type": "confirmation.reply", "reply_token": "rpl_1", "decision": "accept",
        "subscription_id": "sub_1", "timestamp": aaep_test::now()});
    let answer = post_json(&server, "/aaep/v1/replies", &reply).await;
    assert_eq!((answer.status, answer.json().get("reason_code")), (401, None), "replies get no details");
    let (mut socket, _) =
        tokio_tungstenite::connect_async(format!("ws://{}/aaep/v1/ws", server.address())).await.unwrap();
    let first = soon("an answer", socket.next()).await.unwrap().unwrap().into_text().unwrap();
    assert!(first.contains("authentication_required"), "{first}");
    let close = soon("the end", socket.next()).await.unwrap().unwrap();
    assert!(matches!(close, Message::Close(Some(frame)) if u16::from(frame.code) == 4002));
}

#[tokio::test]
async fn invalid_renegotiation_over_post_is_rejected_and_ends_the_stream() {
    let server = serve();
    let subscription = subscribe(&server, json!({})).await;
    let mut events = Events::open(&server, &subscription, "").await;
    let id = subscription["subscription_id"].as_str().unwrap();
    let change = json!({"type": "subscription.renegotiate", "subscription_id": id,
        "capabilities": {"max_events_per_second": 0}});
    let answer = post_json(&server, "/aaep/v1/replies", &change).await;
    assert_eq!(answer.status, 400);
    let rejected = answer.json();
    assert_eq!(rejected["type"], "subscription.rejected");
    assert!(rejected["reason_message"].as_str().unwrap().starts_with("capabilities.max_events_per_second: "));
    assert_eq!(events.next().await, None, "the stream ends");
    let again = post_json(&server, "/aaep/v1/replies", &change).await;
    assert_eq!((again.status, &again.json()["type"]), (404, &json!("subscription.rejected")));
}

#[tokio::test]
async fn websocket_without_a_first_message_is_closed_after_request_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("aaep.toml");
    std::fs::write(&config, "[limits]\nrequest_seconds = 1\n").unwrap();
    let server = Serving::start(&["serve", "--no-unix", "--config", config.to_str().unwrap()]);
    let (mut socket, _) =
        tokio_tungstenite::connect_async(format!("ws://{}/aaep/v1/ws", server.address())).await.unwrap();
    let close = async {
        loop {
            // Pings are not a request.
            let _ = socket.send(Message::Ping(Vec::new().into())).await;
            match tokio::time::timeout(Duration::from_millis(200), socket.next()).await {
                Ok(Some(Ok(Message::Close(frame)))) => return frame.map_or(0, |frame| frame.code.into()),
                Ok(Some(Ok(_))) | Err(_) => {}
                Ok(Some(Err(_)) | None) => return 1006,
            }
        }
    };
    // Far below the default of ten seconds, so that the setting takes effect.
    let code: u16 = tokio::time::timeout(Duration::from_secs(8), close).await.expect("it is closed in time");
    assert_eq!(code, 4004);
}

#[tokio::test]
async fn unknown_last_event_id_gets_a_summary_instead_of_a_full_replay() {
    let server = serve();
    let subscription = subscribe(&server, json!({})).await;
    let mut events = Events::open(&server, &subscription, "").await;
    emit(&server, &json!({"type": "aaep:agent.session.started", "summary_normal": "Planning."})).await;
    emit(&server, &json!({"type": "aaep:agent.tool.invoked", "tool": "look_up", "summary_normal": "Looking it up."}))
        .await;
    events.find("tool.invoked").await;
    drop(events);
    for unknown in ["evt_neverSent", "not-an-id"] {
        let mut events = Events::open(&server, &subscription, &format!("last-event-id: {unknown}\r\n")).await;
        let first = events.next().await.unwrap();
        assert_eq!(first["type"], "aaep:agent.state.changed", "{unknown}: {first}");
        assert!(first["summary_normal"].as_str().unwrap().contains("calling tool"), "{first}");
        emit(
            &server,
            &json!({"type": "aaep:agent.progress.updated", "progress": {"percent": 5},
            "summary_normal": "Half-way."}),
        )
        .await;
        let next = events.next().await.unwrap();
        assert_eq!(next["type"], "aaep:agent.progress.updated", "{unknown}: nothing is replayed: {next}");
    }
}

#[tokio::test]
async fn subscriber_gets_its_language_unless_the_operator_restricts_languages() {
    let started = json!({"type": "aaep:agent.session.started", "summary_normal": "Planning.",
        "summary_normal_de": "Ich plane.", "summary_normal_ar": "أخطط.", "summary_normal_en_US": "Planning it."});
    let server = serve();
    for (wanted, language, text, direction) in [
        (json!(["de"]), "de", "Ich plane.", None),
        (json!(["de-AT", "en"]), "de", "Ich plane.", None),
        (json!(["ar-EG"]), "ar", "أخطط.", Some("rtl")),
        (json!(["fr", "ar"]), "ar", "أخطط.", Some("rtl")),
        (json!(["fr"]), "en", "Planning.", None),
    ] {
        let subscription = subscribe(&server, json!({"languages": wanted})).await;
        assert_eq!(subscription["honored_capabilities"]["languages"], wanted);
        let mut events = Events::open(&server, &subscription, "").await;
        emit(&server, &started).await;
        let event = events.find("session.started").await;
        assert_eq!(event["summary_normal"], text, "{wanted}");
        assert_eq!(event["localization_hints"]["primary_language"], language, "{wanted}");
        assert_eq!(event["localization_hints"]["text_direction"].as_str(), direction, "{wanted}");
        emit(&server, &json!({"type": "aaep:agent.session.completed", "summary_normal": "Done."})).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("aaep.toml");
    std::fs::write(&config, "languages = [\"en\"]\n").unwrap();
    let server = Serving::start(&["serve", "--no-unix", "--config", config.to_str().unwrap()]);
    let subscription = subscribe(&server, json!({"languages": ["de"]})).await;
    assert_eq!(subscription["honored_capabilities"].get("languages"), None);
    assert!(subscription["negotiation_notes"].as_str().unwrap().contains("de"));
}
