//! Every field that an agent sends is delivered unchanged, except for those that the producer sets.

use std::collections::BTreeMap;

use aaep_proto::message::{CoreType, Envelope};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::harness::{AaepProcess, DEADLINE, Subscriber};

/// Fields that the producer sets, in all events or in some. `verbosity` and the summaries of other lengths depend on the
/// subscriber.
const DECIDED: [&str; 6] = ["event_id", "session_id", "sequence_number", "timestamp", "producer", "verbosity"];
const DECIDED_FOR: [(CoreType, &[&str]); 4] = [
    (CoreType::StateChanged, &["from_state"]),
    (CoreType::OutputStreaming, &["output_id", "coalesce_hint"]),
    (CoreType::AwaitingConfirmation, &["reply_token"]),
    (CoreType::AwaitingClarification, &["reply_token"]),
];

/// Returns every event with every field of its table, in three sessions, one for each terminal event.
fn events() -> Vec<Value> {
    let mut events = Vec::new();
    for (session, ending) in [
        (
            "done",
            json!({"type": "session.completed", "duration_ms": 7, "tool_invocations_count": 1,
            "output_summary": "A plan.", "result_uri": "https://garden.example/plan"}),
        ),
        (
            "broken",
            json!({"type": "session.errored", "error_category": "permanent", "error_code": "NO_SOIL",
            "error_uri": "https://garden.example/soil", "recoverable": false, "remediation_hint": "Buy soil."}),
        ),
        (
            "stopped",
            json!({"type": "session.cancelled", "cancelled_by": "user", "cancellation_reason": "rain_came",
            "partial_result": "One bed."}),
        ),
    ] {
        events.push((
            session,
            json!({"type": "session.started", "expected_duration_ms": 5, "requested_by": "Ada",
            "request_text": "Plan my garden.", "tools_available": ["dig", "burn"]}),
        ));
        if session == "done" {
            events.extend(middle().into_iter().map(|event| (session, event)));
        }
        events.push((session, ending));
    }
    events.into_iter().enumerate().map(|(number, (session, event))| whole(number, session, event)).collect()
}

fn middle() -> Vec<Value> {
    let text = |more: Value| {
        let mut chunk = json!({"type": "output.streaming", "chunk": "Beans.\n", "position": 0, "complete": true,
            "coalesce_hint": "completion", "output_id": "plan", "content_type": "text/markdown", "language": "yo"});
        chunk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        chunk
    };
    vec![
        json!({"type": "state.changed", "from_state": "thinking", "to_state": "deciding", "expected_duration_ms": 9,
            "urgency": "background"}),
        json!({"type": "progress.updated", "eta_ms": 3, "urgency": "normal",
            "progress": {"percent": 50, "step": 1, "total_steps": 2, "description": "Measuring."}}),
        json!({"type": "tool.invoked", "tool": "dig", "tool_call_id": "call_1", "description": "A spade.",
            "args_summary": "bed one", "expected_duration_ms": 1, "risk_level": "low", "irreversible": false}),
        json!({"type": "tool.completed", "tool": "dig", "tool_call_id": "call_1", "status": "error", "duration_ms": 2,
            "error_message": "A stone."}),
        text(json!({})),
        json!({"type": "awaiting.confirmation", "action": "Burn the leaves.", "consequence": "They are gone.",
            "reply_token": "rpl_mine", "timeout_seconds": 3600, "default_decision": "reject", "risk_level": "medium",
            "irreversible": true, "reversibility": "irreversible", "allowed_replies": ["reject", "accept"],
            "extra_context": {"bed": "one"}}),
        json!({"type": "awaiting.clarification", "question": "Which bed?", "reply_token": "rpl_mine",
            "timeout_seconds": 3600, "accepted_response_kinds": ["multiple_choice", "freetext"], "context": "Two are free.",
            "choices": [{"value": "a", "label": "The long one"}, {"value": "b", "label": "The wide one"}],
            "default_response": "a"}),
        json!({"type": "handoff.requested", "reason": "The soil needs a test.", "target_kind": "human",
            "target_uri": "https://garden.example/help", "urgency_for_handoff": "low",
            "packaged_context": {"ph": "unknown"}}),
        json!({"type": "garden:bloom", "urgency": "background", "colour": "red", "petals": {"count": 5}}),
    ]
}

/// Adds the fields that every event may have.
fn whole(number: usize, session: &str, event: Value) -> Value {
    let name = event["type"].as_str().unwrap().to_owned();
    let mut all = json!({
        "@context": ["https://aaep-protocol.org/context/v1", "https://garden.example/v1", "https://trace.example/v1"],
        "aaep_version": "1.0.0", "event_id": format!("mine-{number}"), "session_id": session,
        "timestamp": "2026-05-24T14:22:11Z", "producer": {"agent_id": "gardener"}, "verbosity": "detailed",
        "urgency": if is_critical(&name) { "critical" } else { "normal" }, "sequence_number": number,
        "localization_hints": {"primary_language": "en-GB", "text_direction": "ltr", "available_languages": ["en-GB", "de"],
            "fallback_chain": ["en"], "script": "Latn", "calendar": "gregorian"},
        "correlation_id": format!("trace-{number}"),
        "extensions": {"garden": {"bed": number}, "trace": {"parent": "none"}},
    });
    let all_fields = all.as_object_mut().unwrap();
    if name != "output.streaming" {
        for length in ["terse", "normal", "detailed"] {
            all_fields.insert(format!("summary_{length}"), json!(format!("{name}, {length}.")));
        }
    }
    all_fields.extend(event.as_object().unwrap().clone());
    all
}

fn is_critical(name: &str) -> bool {
    CoreType::parse(&format!("aaep:agent.{name}")).is_some_and(CoreType::must_be_critical)
}

fn core_type(event: &Value) -> Option<CoreType> {
    CoreType::parse(&format!("aaep:agent.{}", event["type"].as_str().unwrap()))
}

/// Fails if a field is added to a table but not to the sample events.
#[test]
fn sample_events_cover_every_field_of_every_type() {
    let events = events();
    for core in CoreType::ALL {
        let event = events.iter().find(|event| core_type(event) == Some(*core)).expect("an event of each type");
        for field in Envelope::shape().fields.iter().chain(core.shape().fields) {
            assert!(event.get(field.name).is_some(), "{} of {}", field.name, core.as_str());
        }
    }
}

/// Returns the fields of an event that must be delivered unchanged.
fn expected(event: &Value) -> Map<String, Value> {
    let core = core_type(event);
    let decided = DECIDED_FOR.iter().find(|(of, _)| Some(*of) == core).map_or(&[][..], |(_, fields)| fields);
    let keeps = |name: &str| !DECIDED.contains(&name) && !decided.contains(&name) && name != "summary_terse";
    let mut kept: Map<String, Value> = event
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| keeps(name))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if let Some(core) = core {
        kept.insert("type".to_owned(), core.as_str().into());
    }
    kept
}

/// Compares the sent events with the received ones. Events are matched by their `correlation_id`.
fn compare(sent: &[Value], received: &[Value]) {
    let traces: BTreeMap<&str, &Value> =
        received.iter().filter_map(|e| Some((e["correlation_id"].as_str()?, e))).collect();
    for event in sent {
        let received =
            traces.get(event["correlation_id"].as_str().unwrap()).unwrap_or_else(|| panic!("{event} is missing"));
        for (name, value) in expected(event) {
            let got = match name.as_str() {
                // The producer may add entries to these, and adds the subject of a question.
                "@context" => received[&name].as_array().unwrap().iter().take(3).cloned().collect(),
                "extensions" => {
                    value.as_object().unwrap().keys().map(|k| (k.clone(), received[&name][k].clone())).collect()
                }
                _ => received[&name].clone(),
            };
            assert_eq!(got, value, "{name} of {event}");
        }
        assert!(aaep_proto::validate(received.to_string().as_bytes()).is_valid(), "{received}");
    }
}

/// Receives all events and replies to every question, until all three sessions have ended.
async fn receive_all(subscriber: &mut Subscriber) -> Vec<Value> {
    let (mut received, mut ended) = (Vec::new(), 0);
    while ended < 3 {
        let event = subscriber.next().await.expect("the sessions have not ended");
        match event["type"].as_str().unwrap() {
            "aaep:agent.awaiting.confirmation" => subscriber.reply(&event, "decision", json!("accept")).await,
            "aaep:agent.awaiting.clarification" => subscriber.reply(&event, "response", json!("b")).await,
            kind => {
                let core = CoreType::parse(kind);
                ended += usize::from(core.is_some_and(CoreType::is_terminal));
            }
        }
        received.push(event);
    }
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_delivered_under_aaep_run() {
    let mut process = AaepProcess::python(
        r#"
go()
for line in open(os.path.join(os.environ["DIR"], "events")):
    sys.stdout.write(line)
    sys.stdout.flush()
    if "awaiting" in line:
        sys.stdin.readline()
"#,
    );
    let sent = events();
    let lines: String = sent.iter().map(|event| format!("{event}\n")).collect();
    std::fs::write(process.dir.path().join("events"), lines).unwrap();
    let mut subscriber = Subscriber::new(&process.url, None).await;
    process.go();
    compare(&sent, &receive_all(&mut subscriber).await);
    drop(subscriber);
    assert_eq!(process.end().await.code(), Some(0), "{}", process.err.text());
    assert!(!process.err.text().contains("of the agent"), "{}", process.err.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_delivered_through_a_server() {
    let process = AaepProcess::start(&["serve", "--listen", "127.0.0.1:0", "--no-unix"]);
    let mut subscriber = Subscriber::new(&process.url, None).await;
    let address = format!("{}/aaep/v1/agent/ws", process.url.replacen("http", "ws", 1));
    let (mut agent, _) = tokio_tungstenite::connect_async(address).await.unwrap();
    let sent = events();
    let sending = async {
        for event in &sent {
            agent.send(Message::text(event.to_string())).await.unwrap();
            if event["type"].as_str().unwrap().starts_with("awaiting") {
                let answer = tokio::time::timeout(DEADLINE, agent.next()).await.unwrap().unwrap().unwrap();
                let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
                assert_eq!(answer["type"], "outcome", "{answer}");
            }
        }
    };
    let (received, ()) = tokio::join!(receive_all(&mut subscriber), sending);
    compare(&sent, &received);
}
