//! Tests of each rule of the private contract. The suite itself runs in `tests/interop/suite.rs`.

use std::time::Duration;

use aaep::Producer;
use aaep_proto::message::Message as Wire;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::connection::{NotAnObject, SuiteConnection};
use super::hub::one_line;
use super::*;

const DELETE: &str = "Please delete record ID 12345 (this is high-risk and irreversible).";
const EMAIL: &str = "Please send an email to test@example.com. Use a tool that requires confirmation.";

fn producer() -> Producer {
    Producer::builder("demo").name("Demo").language("en".parse().unwrap()).build()
}

async fn connection() -> SuiteConnection {
    SuiteConnection::open(producer()).await.unwrap()
}

async fn send(connection: &mut SuiteConnection, message: Value) {
    connection.handle_message(message.to_string().as_bytes()).await.unwrap();
}

async fn trigger(connection: &mut SuiteConnection, text: &str) {
    send(connection, json!({"kind": "user_input", "text": text})).await;
}

async fn next(connection: &mut SuiteConnection) -> Value {
    serde_json::from_str(&connection.next().await.unwrap()).unwrap()
}

/// Returns whether no message comes for a long time. The clock is paused, so this does not wait.
async fn is_silent(connection: &mut SuiteConnection) -> bool {
    tokio::time::timeout(Duration::from_secs(60), connection.next()).await.is_err()
}

fn name(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default().trim_start_matches("aaep:agent.")
}

fn is_last(event: &Value) -> bool {
    ["session.completed", "session.errored", "session.cancelled"].contains(&name(event))
}

/// Returns the events after the acknowledgement, up to the end of the session or a question.
async fn session(connection: &mut SuiteConnection, text: &str) -> Vec<Value> {
    trigger(connection, text).await;
    let ack = next(connection).await;
    assert_eq!((&ack["kind"], &ack["type"]), (&json!("user_input.ack"), &Value::Null));
    rest(connection, &ack["session_id"]).await
}

async fn rest(connection: &mut SuiteConnection, id: &Value) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let event = next(connection).await;
        assert_eq!(&event["session_id"], id);
        assert_eq!(aaep_proto::validate(event.to_string().as_bytes()).problems, []);
        let ends = is_last(&event) || name(&event).starts_with("awaiting.");
        events.push(event);
        if ends {
            return events;
        }
    }
}

fn request(capabilities: Value) -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "suite",
        "subscriber_name": "Suite", "subscriber_version": "1.0.0", "capabilities": capabilities})
}

fn decision(question: &Value, word: &str) -> Value {
    json!({"type": "confirmation.reply", "reply_token": question["reply_token"], "decision": word,
        "subscription_id": "sub_madeup", "decided_by": "suite"})
}

/// The inputs of the suite, and how many messages it reads before it goes on to the next test.
#[tokio::test(start_paused = true)]
async fn sessions_keep_to_the_budgets_of_the_suite() {
    let tests = [
        ("Hello, please respond briefly.", 5, "session.completed"),
        ("Tell me a short fact about the moon.", 15, "session.completed"),
        ("Please use a tool to fetch some data, then respond.", 15, "session.completed"),
        ("Write a short three-sentence paragraph.", 15, "session.completed"),
        ("Please call a tool that does not exist: 'this_tool_does_not_exist_xyz'.", 10, "session.errored"),
        (
            "Please call a tool with these arguments: url=https://api.example.com, api_key=sk-test-12345",
            10,
            "session.completed",
        ),
        ("Please book a meeting room tomorrow at 2pm.", 30, "awaiting.confirmation"),
        (EMAIL, 30, "awaiting.confirmation"),
        (DELETE, 5, "awaiting.confirmation"),
        ("Don't assume my location - ask me where I am first via clarification.", 30, "awaiting.clarification"),
        ("Please request confirmation for any action you take.", 10, "session.completed"),
        ("Please escalate this conversation to a human via handoff.", 10, "session.completed"),
        ("Please trigger a deliberate error.", 10, "session.errored"),
    ];
    let mut connection = connection().await;
    for (text, budget, end) in tests {
        let events = session(&mut connection, text).await;
        let names: Vec<&str> = events.iter().map(name).collect();
        assert_eq!((names[0], *names.last().unwrap()), ("session.started", end), "{text}");
        assert!(names.len() <= budget, "{text}: {names:?}");
        assert!(!format!("{events:?}").contains("sk-"), "{text}: {events:?}");
    }
    assert!(is_silent(&mut connection).await);
}

#[tokio::test(start_paused = true)]
async fn replies_count_whatever_subscription_they_name() {
    let mut connection = connection().await;
    let question = session(&mut connection, EMAIL).await.pop().unwrap();
    send(&mut connection, decision(&question, "accept")).await;
    let events = rest(&mut connection, &question["session_id"]).await;
    assert!(events.iter().any(|e| name(e) == "tool.invoked" && e["irreversible"] == true), "{events:?}");
    let question = session(&mut connection, "clarification").await.pop().unwrap();
    let reply = json!({"type": "clarification.reply", "reply_token": question["reply_token"], "response": "Lagos",
        "timestamp": question["timestamp"]});
    send(&mut connection, reply).await;
    let events = rest(&mut connection, &question["session_id"]).await;
    assert!(format!("{events:?}").contains("Lagos"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn modified_action_is_not_an_acceptance() {
    let mut connection = connection().await;
    for otherwise in [false, true] {
        let question = session(&mut connection, EMAIL).await.pop().unwrap();
        let mut reply = decision(&question, if otherwise { "accept" } else { "reject" });
        if otherwise {
            reply["modified_action"] = json!({"to": "everyone@example.com"});
        }
        send(&mut connection, reply).await;
        let events = rest(&mut connection, &question["session_id"]).await;
        assert!(!events.iter().any(|e| name(e) == "tool.invoked"), "{events:?}");
        assert_eq!(name(events.last().unwrap()), "session.completed");
    }
}

#[tokio::test(start_paused = true)]
async fn question_times_out_after_five_minutes() {
    let mut connection = connection().await;
    let asked = tokio::time::Instant::now();
    let question = session(&mut connection, DELETE).await.pop().unwrap();
    assert_eq!((&question["default_decision"], &question["timeout_seconds"]), (&json!("reject"), &json!(300)));
    let end = loop {
        let event = next(&mut connection).await;
        assert_ne!(name(&event), "tool.invoked");
        if is_last(&event) {
            break event;
        }
    };
    assert_eq!((name(&end), asked.elapsed().as_secs()), ("session.completed", 300));
}

#[tokio::test(start_paused = true)]
async fn request_replaces_the_subscription() {
    let mut connection = connection().await;
    session(&mut connection, DELETE).await;
    for rate in [5, 2] {
        send(&mut connection, request(json!({"max_events_per_second": rate}))).await;
        let accepted = next(&mut connection).await;
        assert_eq!(accepted["type"], "subscription.accepted");
        assert_eq!(accepted["honored_capabilities"]["max_events_per_second"], rate);
        assert!(is_silent(&mut connection).await, "the previous subscription is over");
    }
    let names: Vec<String> = session(&mut connection, "Hello").await.iter().map(|e| name(e).to_owned()).collect();
    assert_eq!(names.iter().filter(|n| *n == "session.started").count(), 1, "each event comes once: {names:?}");
}

#[tokio::test(start_paused = true)]
async fn rejection_leaves_the_connection_open() {
    let mut connection = connection().await;
    let mut impossible = request(json!({}));
    impossible["aaep_version"] = json!("99.99.99");
    send(&mut connection, impossible).await;
    let rejected = next(&mut connection).await;
    assert_eq!(
        (&rejected["type"], &rejected["reason_code"]),
        (&json!("subscription.rejected"), &json!("version_unsupported"))
    );
    let question = session(&mut connection, DELETE).await.pop().unwrap();
    assert_eq!(name(&question), "awaiting.confirmation", "it can still answer");
}

/// One event per second, including the acknowledgement, and finished before the next test begins.
#[tokio::test(start_paused = true)]
async fn explanation_keeps_to_the_requested_rate() {
    let mut connection = connection().await;
    session(&mut connection, DELETE).await;
    send(&mut connection, request(json!({"max_events_per_second": 1, "supports_confirmation_reply": true}))).await;
    next(&mut connection).await;
    let begun = tokio::time::Instant::now();
    let events = session(&mut connection, "Please give me a detailed explanation of how rainbows form.").await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(events.len() < 6, "{events:?}");
    assert!(is_silent(&mut connection).await);
}

#[tokio::test(start_paused = true)]
async fn events_of_other_sessions_are_sent_until_a_session_is_started() {
    let producer = producer();
    let mut connection = SuiteConnection::open(producer.clone()).await.unwrap();
    producer.session("Elsewhere.").await.unwrap().complete("Done.").await.unwrap();
    assert_eq!(next(&mut connection).await["summary_normal"], "Elsewhere.");
    while !is_silent(&mut connection).await {}
    session(&mut connection, "Hello").await;
    producer.session("Elsewhere again.").await.unwrap().complete("Done.").await.unwrap();
    assert!(is_silent(&mut connection).await);
}

#[tokio::test(start_paused = true)]
async fn unknown_messages_are_ignored() {
    let mut connection = connection().await;
    for document in ["", "[]", "null", "{", "\u{0}"] {
        assert_eq!(connection.handle_message(document.as_bytes()).await, Err(NotAnObject), "{document:?}");
    }
    let messages = [
        json!({}),
        json!({"kind": 7, "type": []}),
        json!({"type": "subscription.request"}),
        json!({"type": "confirmation.reply", "reply_token": "rpl_unknown", "decision": "accept"}),
        json!({"type": "confirmation.reply"}),
        json!({"type": "aaep:agent.session.started"}),
        json!({"type": "subscription.close", "subscription_id": "sub_madeup"}),
    ];
    for message in messages {
        send(&mut connection, message).await;
    }
    assert!(is_silent(&mut connection).await);
    session(&mut connection, "Hello").await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_subscription_is_silent_until_the_next_request() {
    let mut connection = connection().await;
    send(&mut connection, request(json!({}))).await;
    let id = next(&mut connection).await["subscription_id"].clone();
    send(&mut connection, json!({"type": "subscription.close", "subscription_id": id})).await;
    assert!(is_silent(&mut connection).await);
    send(&mut connection, request(json!({}))).await;
    assert_eq!(next(&mut connection).await["type"], "subscription.accepted");
}

/// A client that writes and never reads is slowed down or disconnected; its queue is bounded.
#[tokio::test(start_paused = true)]
async fn queue_of_a_client_that_never_reads_is_bounded() {
    let mut connection = connection().await;
    send(&mut connection, request(json!({}))).await;
    let id = next(&mut connection).await["subscription_id"].clone();
    for _ in 0..5000 {
        send(&mut connection, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {}}))
            .await;
    }
    let mut waited = 0;
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(60), connection.next()).await {
        waited += 1;
    }
    assert!(waited <= 1100, "{waited}");
}

#[test]
fn data_lines_contain_no_line_ends() {
    let text = json!({"chunk": "a\u{2028}b\u{2029}c\u{85}d\u{b}\u{c}\u{1c}\u{1d}\u{1e}\r\n"}).to_string();
    let line = one_line(&text);
    assert!(!line.contains(['\u{2028}', '\u{2029}', '\u{85}']) && !line.chars().any(char::is_control), "{line}");
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
}

#[test]
fn only_loopback_hosts_and_origins_are_accepted() {
    for (authority, here) in [
        ("127.0.0.1:8080", true),
        ("127.0.0.1", true),
        ("localhost:1", true),
        ("[::1]:8080", true),
        ("[::1]", true),
        ("example.org:8080", false),
        ("localhost.example.org", false),
        ("127.0.0.1.example.org:80", false),
        ("10.0.0.1:80", false),
        ("", false),
    ] {
        assert_eq!(is_loopback(authority), here, "{authority}");
    }
    let headers = |origin: &'static str| HeaderMap::from_iter([(header::ORIGIN, origin.parse().unwrap())]);
    assert!(has_loopback_headers(&headers("http://localhost:3000")) && has_loopback_headers(&HeaderMap::new()));
    assert!(!has_loopback_headers(&headers("https://example.org")) && !has_loopback_headers(&headers("null")));
}

/// Serves the paths on a free port.
async fn serve(producer: Producer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().merge(router(producer));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

/// Sends a request and returns its status and a reader of the rest of the response.
async fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status).await.unwrap();
    (status.split(' ').nth(1).unwrap().parse().unwrap(), reader)
}

/// Reads lines like the suite, until a session ends.
async fn until_end(reader: &mut BufReader<TcpStream>) -> Vec<Value> {
    let mut messages = Vec::new();
    let reading = async {
        loop {
            let mut text = String::new();
            assert_ne!(reader.read_line(&mut text).await.unwrap(), 0, "the stream ended: {messages:?}");
            let Some(data) = text.strip_prefix("data: ") else { continue };
            let message: Value = serde_json::from_str(data).unwrap();
            let last = is_last(&message);
            messages.push(message);
            if last {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap();
    messages
}

/// Waits until the producer has no subscriptions.
async fn until_over(producer: &Producer) {
    let over = async {
        while producer.subscriber_counts().await.subscriptions > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), over).await.unwrap();
}

/// Runs back to back. Each posts before its stream is open, and each receives only its own messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_over_http_do_not_see_each_other() {
    let producer = producer();
    let address = serve(producer.clone()).await;
    let hello = json!({"kind": "user_input", "text": "Hello"}).to_string();
    for _ in 0..20 {
        let (status, _) = call(address, "POST", "/messages", &hello).await;
        assert_eq!(status, 204);
        let (status, mut stream) = call(address, "GET", "/events", "").await;
        assert_eq!(status, 200);
        let messages = until_end(&mut stream).await;
        let names: Vec<&str> = messages.iter().map(name).collect();
        let wanted = ["", "session.started", "state.changed", "state.changed", "output.streaming", "session.completed"];
        assert_eq!(names, wanted);
        let (status, _) =
            call(address, "POST", "/messages", &json!({"kind": "user_input", "text": DELETE}).to_string()).await;
        assert_eq!(status, 204);
        drop(stream);
        // Closing the stream ends the sessions that the run left open.
        until_over(&producer).await;
    }
    assert_eq!(call(address, "POST", "/messages", "no JSON").await.0, 400);
    assert_eq!(call(address, "GET", "/nothing", "").await.0, 404);
}

#[tokio::test]
async fn page_of_another_origin_is_rejected() {
    let address = serve(producer()).await;
    for (origin, status) in [("https://example.org", "403"), ("http://localhost", "204")] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /messages HTTP/1.1\r\nHost: {address}\r\nOrigin: {origin}\r\n");
        let request = format!("{head}Connection: close\r\nContent-Length: 2\r\n\r\n{{}}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

#[test]
fn request_of_the_suite_is_a_valid_request() {
    let message = Wire::parse(request(json!({"languages": ["yo-NG", "en-US"]})).to_string().as_bytes());
    assert!(matches!(message, Ok(Wire::SubscriptionRequest(_))));
}
