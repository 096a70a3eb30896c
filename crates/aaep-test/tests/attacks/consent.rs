//! Irreversible tool calls without the consent of a person.

use std::io::Write as _;
use std::process::{Command, Stdio};

use aaep_test::{Serving, aaep, now, soon};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Sends the lines to the agent endpoint in one request. Returns the response to each.
async fn post(server: &Serving, lines: &[Value]) -> Vec<Value> {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    post_text(server, &body).await
}

async fn post_text(server: &Serving, body: &str) -> Vec<Value> {
    let request = format!(
        "POST /aaep/v1/agent/events?wait=120 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = soon("the answer of the agent endpoint", exchange).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A subscriber over WebSocket that can reply to questions.
struct TestSubscriber {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    subscription: String,
}

impl TestSubscriber {
    async fn connect(server: &Serving) -> TestSubscriber {
        let address = format!("ws://{}/aaep/v1/ws", server.address());
        let (socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
        let mut subscriber = TestSubscriber { socket, subscription: String::new() };
        let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "subscriber",
            "capabilities": {"supports_confirmation_reply": true, "supports_clarification_reply": true}});
        subscriber.socket.send(Message::text(request.to_string())).await.unwrap();
        let accepted = subscriber.next().await;
        assert_eq!(accepted["type"], "subscription.accepted", "{accepted}");
        subscriber.subscription = accepted["subscription_id"].as_str().unwrap().to_owned();
        subscriber
    }

    async fn next(&mut self) -> Value {
        loop {
            match soon("a message to the subscriber", self.socket.next()).await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                _ => continue,
            }
        }
    }

    /// Receives up to and including the first event of this type.
    async fn read_to(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let found = event["type"] == format!("aaep:agent.{kind}");
            events.push(event);
            if found {
                return events;
            }
        }
    }

    async fn accept(&mut self, question: &Value) {
        let reply = json!({"type": "confirmation.reply", "subscription_id": self.subscription, "decision": "accept",
            "reply_token": question["reply_token"], "timestamp": now()});
        self.socket.send(Message::text(reply.to_string())).await.unwrap();
    }
}

fn started() -> Value {
    json!({"type": "session.started", "summary_normal": "Working."})
}

fn completed() -> Value {
    json!({"type": "session.completed", "summary_normal": "Done."})
}

fn question(more: Value) -> Value {
    let mut event = json!({"type": "awaiting.confirmation", "event_id": "question", "tool": "wire",
        "action": "Tidy up.", "consequence": "The desk is tidy."});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

fn wire(more: Value) -> Value {
    let mut event = json!({"type": "tool.invoked", "tool": "wire", "irreversible": true, "summary_normal": "Wiring."});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

fn rejection(answer: &Value) -> &str {
    assert_eq!(answer["type"], "refused", "{answer}");
    answer["problems"][0]["message"].as_str().unwrap()
}

fn invoked(events: &[Value]) -> usize {
    events.iter().filter(|event| event["type"] == "aaep:agent.tool.invoked").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_of_a_question_not_declared_irreversible_gives_no_permit() {
    for risk in ["low", "high"] {
        for listens in [false, true] {
            let server = Serving::start(&["serve", "--no-unix"]);
            // A subscriber that could reply but does not.
            let mut subscriber = if listens { Some(TestSubscriber::connect(&server).await) } else { None };
            let asked = question(json!({"default_decision": "accept", "timeout_seconds": 1, "risk_level": risk}));
            let answers = post(&server, &[started(), asked]).await;
            assert_eq!(answers[1]["decision"], "accept", "{answers:?}");
            let answers = post(&server, &[wire(json!({})), completed()]).await;
            assert!(rejection(&answers[0]).contains("irreversible: true"), "{answers:?}");
            if let Some(subscriber) = &mut subscriber {
                assert_eq!(invoked(&subscriber.read_to("session.completed").await), 0);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acceptance_of_a_question_not_declared_irreversible_gives_no_permit() {
    for stated in [json!({}), json!({"irreversible": false}), json!({"reversibility": "reversible"})] {
        let server = Serving::start(&["serve", "--no-unix"]);
        let mut subscriber = TestSubscriber::connect(&server).await;
        let lines = [started(), question(stated)];
        let answering = async {
            let events = subscriber.read_to("awaiting.confirmation").await;
            subscriber.accept(events.last().unwrap()).await;
        };
        let (answers, ()) = tokio::join!(post(&server, &lines), answering);
        assert_eq!(answers[1]["verdict"], "accepted", "{answers:?}");
        let answers = post(&server, &[wire(json!({})), completed()]).await;
        assert!(rejection(&answers[0]).contains("irreversible: true"), "{answers:?}");
        assert_eq!(invoked(&subscriber.read_to("session.completed").await), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_once_declared_irreversible_needs_a_permit_in_every_session() {
    let server = Serving::start(&["serve", "--no-unix"]);
    let asked = question(json!({"irreversible": true, "timeout_seconds": 1}));
    let answers = post(&server, &[started(), asked]).await;
    assert_eq!(answers[1]["decision"], "reject", "{answers:?}");
    for event in [
        wire(json!({"irreversible": false})),
        wire(json!({"irreversible": false, "tool": "WIRE"})),
        wire(json!({"irreversible": false, "session_id": "another"})),
        wire(json!({"irreversible": false, "tool": "Wire", "session_id": "a third"})),
    ] {
        let answers = post(&server, &[event]).await;
        assert!(rejection(&answers[0]).contains("Ask first"), "{answers:?}");
    }
    let answers = post(&server, &[completed(), started(), wire(json!({"irreversible": false}))]).await;
    assert!(rejection(&answers[2]).contains("Ask first"), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_json_arguments_are_refused() {
    let server = Serving::start(&["serve", "--no-unix"]);
    post(&server, &[started()]).await;
    for args in [
        r#"{"amount": 18446744073709551616}"#,
        r#"{"amount": 0.10000000000000000001}"#,
        r#"{"amount": 1, "amount": 1000000}"#,
        r#"{"deep": [{"amount": 1, "amount": 2}]}"#,
    ] {
        let line = format!(
            r#"{{"type":"awaiting.confirmation","tool":"wire","irreversible":true,"action":"Pay.","consequence":"It is gone.","args":{args}}}"#
        );
        let answers = post_text(&server, &line).await;
        let message = rejection(&answers[0]);
        assert!(message.contains("string") || message.contains("once"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn question_is_reversible_only_if_the_agent_declares_it() {
    for (stated, heard) in [(json!({}), Value::Null), (json!({"irreversible": false}), json!(false))] {
        let server = Serving::start(&["serve", "--no-unix"]);
        let mut subscriber = TestSubscriber::connect(&server).await;
        let lines = [started(), question(stated)];
        let answering = async {
            let events = subscriber.read_to("awaiting.confirmation").await;
            let asked = events.last().unwrap().clone();
            subscriber.accept(&asked).await;
            asked
        };
        let (_, asked) = tokio::join!(post(&server, &lines), answering);
        assert_eq!(asked["irreversible"], heard, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswerable_questions_are_refused() {
    let server = Serving::start(&["serve", "--no-unix"]);
    let ask = |more: Value| {
        let mut event = json!({"type": "awaiting.clarification", "question": "Which?", "timeout_seconds": 1});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let choices = json!([{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]);
    let lines = [
        started(),
        ask(json!({"accepted_response_kinds": ["multiple_choice"]})),
        ask(json!({"choices": choices, "default_response": "c"})),
        ask(json!({"choices": choices, "default_response": "b"})),
    ];
    let answers = post(&server, &lines).await;
    assert!(rejection(&answers[1]).contains("choices"), "{answers:?}");
    assert!(rejection(&answers[2]).contains("default_response"), "{answers:?}");
    assert_eq!((&answers[3]["type"], &answers[3]["response"]), (&json!("outcome"), &json!("b")), "{answers:?}");
}

/// A timeout gives no permit to an agent on the standard streams of `aaep run`.
#[test]
fn agent_under_run_gets_no_permit_from_a_timeout() {
    let script = r#"
read_outcome() { read -r line; }
echo '{"type":"session.started","summary_normal":"Working."}'
echo '{"type":"awaiting.confirmation","event_id":"q","tool":"wire","action":"Tidy up.","consequence":"Tidy.","default_decision":"accept","timeout_seconds":1}'
read_outcome
echo "outcome: $line"
echo '{"type":"tool.invoked","event_id":"w","tool":"wire","irreversible":true,"summary_normal":"Wiring."}'
echo '{"type":"tool.completed","event_id":"refused-anyway","tool":"none","status":"success"}'
read_outcome
echo "wired: $line"
echo '{"type":"session.completed","summary_normal":"Done."}'
"#;
    let run = Command::new(aaep())
        .args(["run", "--listen", "127.0.0.1:0", "--no-unix", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(out.contains("outcome: ") && out.contains(r#""decision":"accept""#), "{out}");
    let wired = out.lines().find(|line| line.starts_with("wired: ")).unwrap();
    assert!(wired.contains(r#""event_id":"w""#) && wired.contains("irreversible: true"), "{out}");
}

/// The stream of a producer that does not enforce these rules is reported as invalid.
#[test]
fn validate_reports_an_irreversible_call_without_an_irreversible_question() {
    let event = |n: usize, kind: &str, more: Value| {
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{n}"), "session_id": "sess_1", "timestamp": format!("2026-05-24T14:00:0{n}Z"),
            "producer": {"agent_id": "a"}, "localization_hints": {"primary_language": "en"}});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{event}\n")
    };
    let stream: String = [
        event(0, "session.started", json!({"summary_normal": "Working."})),
        event(
            1,
            "awaiting.confirmation",
            json!({"urgency": "critical", "action": "Tidy up.", "consequence": "Tidy.", "reply_token": "rpl_1",
                "timeout_seconds": 1, "default_decision": "accept", "risk_level": "high", "irreversible": false,
                "summary_normal": "Tidy up?"}),
        ),
        event(
            3,
            "state.changed",
            json!({"from_state": "awaiting_input", "to_state": "calling_tool", "urgency": "background"}),
        ),
        event(
            4,
            "tool.invoked",
            json!({"tool": "wire", "tool_call_id": "call_1", "irreversible": true, "summary_normal": "Wiring."}),
        ),
        event(5, "tool.completed", json!({"tool": "wire", "tool_call_id": "call_1", "status": "success"})),
        event(6, "session.completed", json!({"summary_normal": "Done."})),
    ]
    .concat();
    let mut validate = Command::new(aaep())
        .args(["validate", "--sequence", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    validate.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    let output = validate.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{out}");
    assert!(out.contains("seq.irreversible-not-asked"), "{out}");
}
