//! Messages that the tests send to the demo, and checks of the events that a client received.

use aaep_proto::message::Message;
use aaep_proto::{SequenceChecker, validate};
use serde_json::{Value, json};

/// Returns a request for all events.
pub(crate) fn request(subscriber: &str) -> Value {
    let capabilities = json!({"supports_confirmation_reply": true, "supports_clarification_reply": true});
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": subscriber,
        "capabilities": capabilities})
}

/// Returns a reply that accepts a confirmation.
pub(crate) fn acceptance(subscription: &str, question: &Value) -> Value {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = aaep_proto::time::Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap());
    json!({"type": "confirmation.reply", "reply_token": question["reply_token"], "decision": "accept",
        "subscription_id": subscription, "timestamp": now.to_string()})
}

/// Returns the type without its namespace.
pub(crate) fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default().trim_start_matches("aaep:agent.")
}

/// Asserts that the events are a whole banking session: valid, in order, without duplicates, the question before the
/// irreversible call, the whole output, one end.
pub(crate) fn assert_banking_session(events: &[Value]) {
    assert_valid_sequence(events);
    let kinds: Vec<&str> = events.iter().map(kind).collect();
    let at =
        |wanted: &str| kinds.iter().position(|kind| *kind == wanted).unwrap_or_else(|| panic!("{wanted}: {kinds:?}"));
    assert_eq!((at("session.started"), at("session.completed")), (0, kinds.len() - 1), "{kinds:?}");
    let tools =
        |wanted: &str| events.iter().filter(|e| kind(e) == wanted).map(|e| e["tool"].clone()).collect::<Vec<_>>();
    assert_eq!(tools("tool.invoked"), ["fetch_balance", "transfer_funds"], "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "tool.completed").count(), 2, "{kinds:?}");
    let call = events.iter().position(|e| kind(e) == "tool.invoked" && e["tool"] == "transfer_funds");
    assert!(call > Some(at("awaiting.confirmation")), "{kinds:?}");
    let states: Vec<&Value> = events.iter().filter(|e| kind(e) == "state.changed").collect();
    assert!(
        states.windows(2).all(|pair| pair[0]["to_state"] == pair[1]["from_state"]),
        "no state is missing: {states:#?}"
    );
    let words = events.iter().filter(|e| kind(e) == "output.streaming").filter_map(|e| e["chunk"].as_str());
    assert_eq!(words.collect::<String>(), "Transferred $500 successfully. New balance: $12,000.");
}

/// Asserts that all events are valid and in order, and that every session ends.
pub(crate) fn assert_valid_sequence(events: &[Value]) {
    let mut sequence = SequenceChecker::new();
    for event in events {
        let text = event.to_string();
        let problems = validate(text.as_bytes()).problems;
        assert!(problems.is_empty(), "{problems:?} in {text}");
        let problems = sequence.observe(&Message::parse(text.as_bytes()).unwrap());
        assert!(problems.is_empty(), "{problems:?} at {text}");
    }
    let problems = sequence.finish();
    assert!(problems.is_empty(), "{problems:?}");
}
