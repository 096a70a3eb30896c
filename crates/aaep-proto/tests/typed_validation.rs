//! A typed event is validated without being serialized. Both ways must find the same, for valid and for invalid events.

use aaep_proto::json::Json;
use aaep_proto::message::{CoreType, Event};
use aaep_proto::{Validator, validate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// One event of a core type, with most of its fields.
fn base(core: CoreType) -> Value {
    let mut event = json!({
        "@context": "https://aaep-protocol.org/context/v1", "aaep_version": "1.0.0", "type": core.as_str(),
        "event_id": "evt_1", "session_id": "sess_1", "sequence_number": 3, "timestamp": "2026-05-24T14:22:13.108Z",
        "producer": {"agent_id": "planner", "agent_version": "2", "agent_name": "Planner"}, "verbosity": "normal",
        "urgency": if core.must_be_critical() { "critical" } else { "normal" },
        "localization_hints": {"primary_language": "en", "text_direction": "ltr"}, "correlation_id": "c-1",
        "summary_normal": "Now.", "summary_normal_yo": "Nísisìyí.",
    });
    let payload = match core {
        CoreType::SessionStarted | CoreType::SessionCompleted => json!({}),
        CoreType::SessionErrored => json!({"error_category": "transient", "recoverable": true}),
        CoreType::SessionCancelled => json!({"cancelled_by": "user", "partial_result": "half"}),
        CoreType::StateChanged => json!({"from_state": "idle", "to_state": "thinking"}),
        CoreType::ProgressUpdated => json!({"progress": {"percent": 12.5, "description": "Reading."}}),
        CoreType::ToolInvoked => json!({"tool": "search", "tool_call_id": "call_1", "irreversible": false}),
        CoreType::ToolCompleted => {
            json!({"tool": "search", "tool_call_id": "call_1", "status": "success", "duration_ms": 7})
        }
        CoreType::OutputStreaming => json!({"chunk": "Text.", "position": 0, "complete": true, "output_id": "out_1"}),
        CoreType::AwaitingConfirmation => json!({
            "action": "Delete.", "consequence": "Gone.", "reply_token": "rpl_1", "timeout_seconds": 60,
            "default_decision": "reject", "risk_level": "high", "extra_context": {"files": [1, 2.5, {"a": null}]},
        }),
        CoreType::AwaitingClarification => json!({
            "question": "Which?", "reply_token": "rpl_1", "timeout_seconds": 60,
            "accepted_response_kinds": ["multiple_choice"], "choices": [{"value": "a", "label": "A"}],
        }),
        CoreType::HandoffRequested => json!({"target_kind": "human", "reason": "It is stuck."}),
        other => unreachable!("{other} needs a payload here"),
    };
    let (Some(fields), Value::Object(payload)) = (event.as_object_mut(), payload) else { unreachable!() };
    fields.extend(payload);
    event
}

/// Values that fields should and should not have.
fn values() -> Vec<Value> {
    let deep = (0..70).fold(json!(1), |inside, _| json!([inside]));
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(3.0),
        json!(0.1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("high"),
        json!("fr-CA"),
        json!("sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
        json!("Pay \u{202e}evil\u{202c} \"now\"\n\u{1}"),
        json!("long ".repeat(900)),
        json!("very long ".repeat(9000)),
        json!([]),
        json!(["https://aaep-protocol.org/context/v1", "urn:x:1"]),
        json!([1, "two", {"three": 3}]),
        json!({}),
        json!({"x": {"y": 1}}),
        json!({"aaep": {"y": 1}, "x": 2}),
        json!({"value": "a"}),
        deep,
    ]
}

const NAMES: [&str; 16] = [
    "type",
    "urgency",
    "verbosity",
    "timeout_seconds",
    "summary_terse",
    "summary_normal",
    "summary_normal_fr",
    "summary_normal_",
    "extensions",
    "@context",
    "correlation_id",
    "localization_hints",
    "progress",
    "choices",
    "custom",
    "aaep_custom",
];

fn compare(document: &Value) -> Option<bool> {
    let event: Event = serde_json::from_value(document.clone()).ok()?;
    let text = serde_json::to_vec(&event).expect("an event serializes");
    if let Ok(parsed) = Json::parse(&text) {
        assert_eq!(event.to_json(), parsed, "{document}");
    }
    let typed = Validator::new().check_event(&event);
    assert_eq!(typed, validate(&text), "{document}");
    Some(typed.problems.is_empty())
}

#[test]
fn typed_and_serialized_events_have_the_same_findings() {
    let (mut clean, mut faulty) = (0, 0);
    for core in CoreType::ALL {
        let base = base(*core);
        assert!(compare(&base).is_some(), "{base}");
        let fields: Vec<String> = base.as_object().unwrap().keys().cloned().collect();
        for name in fields.iter().map(String::as_str).chain(NAMES) {
            let mut without = base.clone();
            without.as_object_mut().unwrap().remove(name);
            let with = values().into_iter().map(|value| {
                let mut changed = base.clone();
                changed[name] = value;
                changed
            });
            for document in with.chain([without]) {
                match compare(&document) {
                    Some(true) => clean += 1,
                    Some(false) => faulty += 1,
                    None => {}
                }
            }
        }
    }
    assert!(clean > 200 && faulty > 500, "{clean} without and {faulty} with findings");
}

proptest! {
    #[test]
    fn typed_and_serialized_events_agree_after_any_changes(
        core in 0..CoreType::ALL.len(),
        changes in prop::collection::vec((0..NAMES.len() + 12, 0..values().len(), any::<bool>()), 1..5),
        type_name in prop::option::of("[a-z]{1,6}:[a-z.]{1,8}"),
    ) {
        let mut document = base(CoreType::ALL[core]);
        if let Some(name) = type_name {
            document["type"] = name.into();
        }
        for (field, value, remove) in changes {
            let fields: Map<String, Value> = document.as_object().unwrap().clone();
            let name = match NAMES.get(field) {
                Some(name) => (*name).to_owned(),
                None => fields.keys().nth(field % fields.len()).unwrap().clone(),
            };
            if remove {
                document.as_object_mut().unwrap().remove(&name);
            } else {
                document[&name] = values()[value].clone();
            }
        }
        compare(&document);
    }
}
