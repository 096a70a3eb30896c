//! How subscriptions begin, change and end (5.7, 5.8, 5.9).

use aaep_proto::engine::{EngineError, ResumePolicy, SubscriptionKey};
use aaep_proto::id::SessionId;
use aaep_proto::message::{CloseReason, CoreType, Localized, Message, Payload, Progress, ProgressUpdated, ReasonCode};
use aaep_proto::negotiate::Rejection;
use serde_json::{Value, json};

use crate::harness::EngineHarness;

fn write(harness: &mut EngineHarness, session: &SessionId, text: &str) {
    let output = harness.act(|engine, cx| engine.open_output(cx, session, "text/plain", None)).unwrap();
    harness.act(|engine, cx| engine.write(cx, session, &output, text)).unwrap();
    harness.act(|engine, cx| engine.finish_output(cx, session, &output)).unwrap();
}

fn renegotiate(harness: &mut EngineHarness, key: SubscriptionKey, capabilities: Value) {
    let id = harness.engine.subscription_id(key).unwrap().clone();
    harness.send(key, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": capabilities}));
}

#[test]
fn subscription_accepted_precedes_any_event() {
    let mut harness = EngineHarness::new();
    harness.start();
    let reader = harness.join(json!({"languages": ["en-US"]}));
    assert!(
        matches!(&harness.received[&reader][0].1, crate::harness::Received::Message(m) if matches!(**m, Message::SubscriptionAccepted(_)))
    );
    assert!(harness.received[&reader].len() > 1);
}

#[test]
fn closed_subscription_receives_nothing_more() {
    let mut harness = EngineHarness::new();
    let (a, b) = (harness.join_reader(), harness.join_reader());
    let id = harness.engine.subscription_id(a).unwrap().clone();
    harness.send(a, json!({"type": "subscription.close", "subscription_id": id, "reason_code": "subscriber_shutdown"}));
    harness.start();
    assert_eq!(harness.events(a).len(), 0);
    assert!(harness.events(b).len() > 1);
    let close =
        Message::parse(json!({"type": "subscription.close", "subscription_id": id}).to_string().as_bytes()).unwrap();
    assert_eq!(harness.act(|engine, cx| engine.handle_message(cx, a, &close)), Err(EngineError::UnknownSubscription));
}

#[test]
fn subscription_of_another_subscriber_cannot_be_closed_or_changed() {
    let mut harness = EngineHarness::new();
    let (a, b) = (harness.join_reader(), harness.join_reader());
    let id = harness.engine.subscription_id(a).unwrap().clone();
    harness.send(b, json!({"type": "subscription.close", "subscription_id": id}));
    harness.send(b, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"max_events_per_second": 1}}));
    assert_eq!(harness.closed, []);
    assert_eq!(harness.engine.terms(a).unwrap().rate(), None);
    assert_eq!(harness.engine.find_subscription(&id, "someone else"), None);
    assert_eq!(harness.engine.find_subscription(&id, "user"), Some(a));
}

#[test]
fn new_terms_apply_to_everything_after_the_response() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    renegotiate(
        &mut harness,
        reader,
        json!({"event_filters": {"exclude": ["aaep:agent.state.*"]}, "cognitive_load": "low"}),
    );
    assert_eq!(harness.messages(reader).len(), 2);
    harness.clear();
    harness.act(|engine, cx| engine.set_state(cx, &session, "deciding", Some("Deciding."))).unwrap();
    assert_eq!(harness.events(reader).len(), 0);
}

#[test]
fn a_refused_renegotiation_ends_the_subscription() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    renegotiate(&mut harness, reader, json!({"accept_signed_manifests_only": true}));
    assert!(matches!(harness.messages(reader).last(), Some(Message::SubscriptionRejected(_))));
    assert_eq!(harness.closed.len(), 1);
    harness.start();
    assert_eq!(harness.events(reader).len(), 0);
}

fn last_rejection(harness: &EngineHarness, key: SubscriptionKey) -> String {
    match harness.messages(key).last() {
        Some(Message::SubscriptionRejected(rejected)) => rejected.reason_message.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_renegotiation_is_rejected_and_ends_the_subscription() {
    let mut harness = EngineHarness::new();
    let (reader, other) = (harness.join_reader(), harness.join_reader());
    let rejection = Rejection::new(ReasonCode::CapabilitiesIncompatible, "capabilities.pace_wpm: too slow.");
    for (key, named) in [(reader, None), (other, harness.engine.subscription_id(other).cloned())] {
        harness.act(|engine, cx| engine.reject_invalid_renegotiation(cx, key, named.as_ref(), &rejection)).unwrap();
        assert_eq!(last_rejection(&harness, key), rejection.message);
    }
    assert!(harness.closed.iter().all(|(_, closing)| closing.reason == CloseReason::RenegotiationRefused));
    assert_eq!(harness.closed.len(), 2);
}

/// A rejection ends only the subscription that the message names.
#[test]
fn renegotiation_of_another_subscription_is_rejected_without_effect() {
    let mut harness = EngineHarness::new();
    let (reader, other) = (harness.join_reader(), harness.join_reader());
    let id = harness.engine.subscription_id(other).unwrap().clone();
    harness.send(
        reader,
        json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"pace_wpm": 100}}),
    );
    assert!(last_rejection(&harness, reader).starts_with(&format!("subscription_id: {id} is not")));
    let rejection = Rejection::new(ReasonCode::Unknown, "bad");
    harness.act(|engine, cx| engine.reject_invalid_renegotiation(cx, reader, Some(&id), &rejection)).unwrap();
    assert!(last_rejection(&harness, reader).starts_with("subscription_id:"));
    assert_eq!(harness.closed, []);
    assert_eq!(harness.engine.terms(other).unwrap().pace_wpm(), None);
    harness.start();
    assert!(!harness.events(reader).is_empty() && !harness.events(other).is_empty());
}

#[test]
fn a_second_request_is_rejected_and_the_subscription_goes_on() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let second =
        json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "x", "capabilities": {}});
    harness.send(reader, second);
    assert!(last_rejection(&harness, reader).contains("already"));
    assert_eq!(harness.closed, []);
    harness.start();
    assert!(!harness.events(reader).is_empty());
}

/// Text is neither lost nor repeated when the terms change in the middle of an output.
#[test]
fn renegotiation_in_the_middle_of_an_output_loses_nothing() {
    let wishes = [
        json!(["none"]),
        json!(["sentence"]),
        json!(["paragraph", "completion"]),
        json!(["completion"]),
        json!(["word"]),
    ];
    for first in &wishes {
        for second in &wishes {
            for with_company in [false, true] {
                let mut harness = EngineHarness::new();
                let reader = harness.join(json!({"coalesce_boundaries": first}));
                if with_company {
                    harness.join(json!({"coalesce_boundaries": second}));
                }
                let session = harness.start();
                let output = harness.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
                let text = "One is here. Two is there.\n\nThree is far. Four is gone.";
                let (head, tail) = text.split_at(20);
                harness.act(|engine, cx| engine.write(cx, &session, &output, head)).unwrap();
                renegotiate(&mut harness, reader, json!({"coalesce_boundaries": second}));
                harness.act(|engine, cx| engine.write(cx, &session, &output, tail)).unwrap();
                harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
                let chunks = harness.chunks(reader);
                let mut position = 0;
                for (text, at, _, _) in &chunks {
                    assert_eq!(*at, position, "{first} to {second}: {chunks:?}");
                    position += text.chars().count() as u64;
                }
                assert_eq!(harness.texts(reader).concat(), text, "{first} to {second}");
                assert_eq!(chunks.iter().filter(|c| c.3).count(), 1);
            }
        }
    }
}

#[test]
fn slow_subscription_does_not_delay_another() {
    let mut alone = EngineHarness::new();
    let only = alone.join(json!({"max_events_per_second": 50}));
    let session = alone.start();
    write(&mut alone, &session, "A first sentence. A second one. And a third.");
    let mut crowd = EngineHarness::new();
    let among = crowd.join(json!({"max_events_per_second": 50}));
    let slow = crowd.join(json!({"max_events_per_second": 1, "pace_wpm": 50}));
    crowd.act(|engine, cx| engine.set_blocked(cx, slow, true));
    let session = crowd.start();
    write(&mut crowd, &session, "A first sentence. A second one. And a third.");
    assert_eq!(alone.names(only), crowd.names(among));
    assert_eq!(alone.texts(only), crowd.texts(among));
    assert_eq!(crowd.events(slow).len(), 0);
}

#[test]
fn slow_subscription_is_closed_instead_of_losing_events() {
    let mut harness = EngineHarness::new();
    let slow = harness.join_reader();
    let fine = harness.join_reader();
    harness.act(|engine, cx| engine.set_blocked(cx, slow, true));
    for _ in 0..2000 {
        let session = harness.start();
        harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    }
    assert_eq!(harness.closed.len(), 1);
    assert_eq!((harness.closed[0].0, &harness.closed[0].1.reason), (slow, &CloseReason::TooSlow));
    assert!(matches!(harness.messages(slow).last(), Some(Message::SubscriptionClose(_))));
    assert_eq!(harness.count(fine, CoreType::SessionCompleted), 2000);
}

#[test]
fn subscriber_counts_report_which_questions_can_be_answered() {
    let mut harness = EngineHarness::new();
    harness.join(json!({}));
    harness.join(json!({"supports_confirmation_reply": true}));
    let reader = harness.join_reader();
    let presence = harness.engine.subscriber_counts();
    assert_eq!((presence.subscriptions, presence.can_confirm, presence.can_clarify), (3, 2, 1));
    harness.act(|engine, cx| engine.disconnect(cx, reader));
    assert_eq!(harness.engine.subscriber_counts().can_clarify, 0);
    let away =
        harness.try_join_as("user", ResumePolicy::Resumable, json!({"supports_clarification_reply": true})).unwrap();
    harness.act(|engine, cx| engine.disconnect(cx, away));
    assert_eq!(harness.engine.subscriber_counts().can_clarify, 1);
    harness.pass(15_000);
    assert_eq!(harness.engine.subscriber_counts().can_clarify, 0);
}

#[test]
fn manifest_lists_the_offer() {
    let harness = EngineHarness::with(|config| config.offer.max_subscriptions = 7);
    let manifest = harness.engine.manifest(["sse".to_owned()]);
    let text = serde_json::to_value(Message::from(manifest)).unwrap();
    assert!(aaep_proto::validate(text.to_string().as_bytes()).problems.is_empty());
    assert_eq!((&text["agent_id"], &text["max_concurrent_subscriptions"]), (&json!("tester"), &json!(7)));
    assert_eq!(text["transports_supported"], json!(["sse"]));
    assert_eq!(text["conformance_levels_supported"], json!([1, 2, 3]));
}

/// Changing the terms and changing them back, while other subscriptions keep both, sends nothing twice.
#[test]
fn changing_terms_back_and_forth_repeats_nothing() {
    let mut harness = EngineHarness::new();
    let (sentences, paragraphs) = (json!(["sentence"]), json!(["paragraph", "completion"]));
    let reader = harness.join(json!({"coalesce_boundaries": sentences}));
    harness.join(json!({"coalesce_boundaries": sentences}));
    harness.join(json!({"coalesce_boundaries": paragraphs}));
    let session = harness.start();
    let output = harness.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    let mut whole = String::new();
    for round in 0..6 {
        let text = format!("This is sentence {round}. And one more. ");
        harness.act(|engine, cx| engine.write(cx, &session, &output, &text)).unwrap();
        whole.push_str(&text);
        let wish = if round % 2 == 0 { &paragraphs } else { &sentences };
        renegotiate(&mut harness, reader, json!({"coalesce_boundaries": wish}));
    }
    harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    assert_eq!(harness.texts(reader).concat(), whole);
    let mut position = 0;
    for (text, at, _, _) in harness.chunks(reader) {
        assert_eq!(at, position);
        position += text.chars().count() as u64;
    }
}

/// Chunks are not joined across text that a filter removed between them.
#[test]
fn text_with_a_gap_is_not_coalesced() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"coalesce_boundaries": ["none"]}));
    let session = harness.start();
    let output = harness.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    harness.act(|engine, cx| engine.set_blocked(cx, reader, true));
    for (exclude, text) in
        [(json!([]), "one two "), (json!(["aaep:agent.output.streaming"]), "three four "), (json!([]), "five six ")]
    {
        renegotiate(&mut harness, reader, json!({"event_filters": {"exclude": exclude}}));
        harness.act(|engine, cx| engine.write(cx, &session, &output, text)).unwrap();
    }
    harness.act(|engine, cx| engine.set_blocked(cx, reader, false));
    harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    let all = "one two three four five six ";
    for (text, at, _, _) in harness.chunks(reader) {
        let here: String = all.chars().skip(at as usize).take(text.chars().count()).collect();
        assert_eq!(text, here, "every chunk is the text at its position");
    }
    assert!(harness.chunks(reader).len() >= 2);
}

#[test]
fn a_slow_subscriber_can_join_a_busy_producer() {
    let mut harness = EngineHarness::new();
    let sessions: Vec<SessionId> = (0..700).map(|_| harness.start()).collect();
    let slow = harness.join(json!({"max_events_per_second": 3}));
    assert_eq!(harness.closed, []);
    for session in &sessions {
        harness.act(|engine, cx| engine.complete_session(cx, session, "Done.")).unwrap();
    }
    assert_eq!(harness.closed, []);
    harness.pass(800_000);
    assert_eq!(harness.count(slow, CoreType::SessionCompleted), 700);
}

#[test]
fn language_change_applies_to_later_events() {
    let german = "de".parse().unwrap();
    let mut harness =
        EngineHarness::with(|config| config.offer.languages = ["en", "de"].map(|l| l.parse().unwrap()).to_vec());
    let reader = harness.join(json!({"languages": ["en"]}));
    let session = harness.start();
    for _ in 0..2 {
        let progress = Progress { step: Some(1), ..Progress::default() };
        let updated =
            ProgressUpdated { progress, summary_normal: Some("Step one.".into()), ..ProgressUpdated::default() };
        let updated = Localized::new(updated).text("summary_normal", &german, "Erster Schritt.").into_payload();
        harness.act(|engine, cx| engine.emit_localized(cx, &session, updated)).unwrap();
        renegotiate(&mut harness, reader, json!({"languages": ["de"]}));
    }
    let said: Vec<_> = harness
        .events(reader)
        .iter()
        .filter_map(|e| match &e.payload {
            Payload::ProgressUpdated(p) => p.summary_normal.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["Step one.", "Erster Schritt."]);
}
