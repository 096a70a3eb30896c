//! How subscriptions begin, change and end (5.7, 5.8, 5.9).

use aaep_proto::engine::{EngineError, ResumePolicy, SubscriptionKey};
use aaep_proto::id::SessionId;
use aaep_proto::message::{CloseReason, CoreType, Localized, Message, Payload, Progress, ProgressUpdated, ReasonCode};
use aaep_proto::negotiate::Rejection;
use serde_json::{Value, json};

use crate::harness::World;

fn write(world: &mut World, session: &SessionId, text: &str) {
    let output = world.act(|engine, cx| engine.open_output(cx, session, "text/plain", None)).unwrap();
    world.act(|engine, cx| engine.write(cx, session, &output, text)).unwrap();
    world.act(|engine, cx| engine.finish_output(cx, session, &output)).unwrap();
}

fn renegotiate(world: &mut World, key: SubscriptionKey, capabilities: Value) {
    let id = world.engine.subscription_id(key).unwrap().clone();
    world.send(key, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": capabilities}));
}

#[test]
fn the_answer_comes_before_any_event() {
    let mut world = World::new();
    world.start();
    let reader = world.join(json!({"languages": ["en-US"]}));
    assert!(
        matches!(&world.received[&reader][0].1, crate::harness::Received::Message(m) if matches!(**m, Message::SubscriptionAccepted(_)))
    );
    assert!(world.received[&reader].len() > 1);
}

#[test]
fn a_closed_subscription_gets_nothing_more() {
    let mut world = World::new();
    let (a, b) = (world.join_reader(), world.join_reader());
    let id = world.engine.subscription_id(a).unwrap().clone();
    world.send(a, json!({"type": "subscription.close", "subscription_id": id, "reason_code": "subscriber_shutdown"}));
    world.start();
    assert_eq!(world.events(a).len(), 0);
    assert!(world.events(b).len() > 1);
    let close =
        Message::parse(json!({"type": "subscription.close", "subscription_id": id}).to_string().as_bytes()).unwrap();
    assert_eq!(world.act(|engine, cx| engine.handle_message(cx, a, &close)), Err(EngineError::UnknownSubscription));
}

#[test]
fn nobody_closes_or_changes_what_belongs_to_another() {
    let mut world = World::new();
    let (a, b) = (world.join_reader(), world.join_reader());
    let id = world.engine.subscription_id(a).unwrap().clone();
    world.send(b, json!({"type": "subscription.close", "subscription_id": id}));
    world.send(b, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"max_events_per_second": 1}}));
    assert_eq!(world.closed, []);
    assert_eq!(world.engine.terms(a).unwrap().rate(), None);
    assert_eq!(world.engine.find_subscription(&id, "someone else"), None);
    assert_eq!(world.engine.find_subscription(&id, "user"), Some(a));
}

#[test]
fn new_terms_hold_for_everything_after_the_answer() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    renegotiate(
        &mut world,
        reader,
        json!({"event_filters": {"exclude": ["aaep:agent.state.*"]}, "cognitive_load": "low"}),
    );
    assert_eq!(world.messages(reader).len(), 2);
    world.clear();
    world.act(|engine, cx| engine.set_state(cx, &session, "deciding", Some("Deciding."))).unwrap();
    assert_eq!(world.events(reader).len(), 0);
}

#[test]
fn a_refused_renegotiation_ends_the_subscription() {
    let mut world = World::new();
    let reader = world.join_reader();
    renegotiate(&mut world, reader, json!({"accept_signed_manifests_only": true}));
    assert!(matches!(world.messages(reader).last(), Some(Message::SubscriptionRejected(_))));
    assert_eq!(world.closed.len(), 1);
    world.start();
    assert_eq!(world.events(reader).len(), 0);
}

fn last_rejection(world: &World, key: SubscriptionKey) -> String {
    match world.messages(key).last() {
        Some(Message::SubscriptionRejected(rejected)) => rejected.reason_message.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invalid_renegotiation_is_answered_and_ends_the_subscription() {
    let mut world = World::new();
    let (reader, other) = (world.join_reader(), world.join_reader());
    let rejection = Rejection::new(ReasonCode::CapabilitiesIncompatible, "capabilities.pace_wpm: too slow.");
    for (key, named) in [(reader, None), (other, world.engine.subscription_id(other).cloned())] {
        world.act(|engine, cx| engine.reject_invalid_renegotiation(cx, key, named.as_ref(), &rejection)).unwrap();
        assert_eq!(last_rejection(&world, key), rejection.message);
    }
    assert!(world.closed.iter().all(|(_, closing)| closing.reason == CloseReason::RenegotiationRefused));
    assert_eq!(world.closed.len(), 2);
}

/// A rejection ends the subscription that the message names; another one must not lose its user for it.
#[test]
fn a_renegotiation_of_another_subscription_is_answered_and_changes_nothing() {
    let mut world = World::new();
    let (reader, other) = (world.join_reader(), world.join_reader());
    let id = world.engine.subscription_id(other).unwrap().clone();
    world.send(
        reader,
        json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"pace_wpm": 100}}),
    );
    assert!(last_rejection(&world, reader).starts_with(&format!("subscription_id: {id} is not")));
    let rejection = Rejection::new(ReasonCode::Unknown, "bad");
    world.act(|engine, cx| engine.reject_invalid_renegotiation(cx, reader, Some(&id), &rejection)).unwrap();
    assert!(last_rejection(&world, reader).starts_with("subscription_id:"));
    assert_eq!(world.closed, []);
    assert_eq!(world.engine.terms(other).unwrap().pace_wpm(), None);
    world.start();
    assert!(!world.events(reader).is_empty() && !world.events(other).is_empty());
}

#[test]
fn a_second_request_is_rejected_and_the_subscription_goes_on() {
    let mut world = World::new();
    let reader = world.join_reader();
    let second =
        json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "x", "capabilities": {}});
    world.send(reader, second);
    assert!(last_rejection(&world, reader).contains("already"));
    assert_eq!(world.closed, []);
    world.start();
    assert!(!world.events(reader).is_empty());
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
                let mut world = World::new();
                let reader = world.join(json!({"coalesce_boundaries": first}));
                if with_company {
                    world.join(json!({"coalesce_boundaries": second}));
                }
                let session = world.start();
                let output = world.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
                let text = "One is here. Two is there.\n\nThree is far. Four is gone.";
                let (head, tail) = text.split_at(20);
                world.act(|engine, cx| engine.write(cx, &session, &output, head)).unwrap();
                renegotiate(&mut world, reader, json!({"coalesce_boundaries": second}));
                world.act(|engine, cx| engine.write(cx, &session, &output, tail)).unwrap();
                world.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
                let chunks = world.chunks(reader);
                let mut position = 0;
                for (text, at, _, _) in &chunks {
                    assert_eq!(*at, position, "{first} to {second}: {chunks:?}");
                    position += text.chars().count() as u64;
                }
                assert_eq!(world.texts(reader).concat(), text, "{first} to {second}");
                assert_eq!(chunks.iter().filter(|c| c.3).count(), 1);
            }
        }
    }
}

#[test]
fn one_subscription_does_not_suffer_from_another() {
    let mut alone = World::new();
    let only = alone.join(json!({"max_events_per_second": 50}));
    let session = alone.start();
    write(&mut alone, &session, "A first sentence. A second one. And a third.");
    let mut crowd = World::new();
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
fn who_cannot_keep_up_is_closed_with_a_reason_not_cheated() {
    let mut world = World::new();
    let slow = world.join_reader();
    let fine = world.join_reader();
    world.act(|engine, cx| engine.set_blocked(cx, slow, true));
    for _ in 0..2000 {
        let session = world.start();
        world.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    }
    assert_eq!(world.closed.len(), 1);
    assert_eq!((world.closed[0].0, &world.closed[0].1.reason), (slow, &CloseReason::TooSlow));
    assert!(matches!(world.messages(slow).last(), Some(Message::SubscriptionClose(_))));
    assert_eq!(world.count(fine, CoreType::SessionCompleted), 2000);
}

#[test]
fn presence_tells_who_could_answer() {
    let mut world = World::new();
    world.join(json!({}));
    world.join(json!({"supports_confirmation_reply": true}));
    let reader = world.join_reader();
    let presence = world.engine.subscriber_counts();
    assert_eq!((presence.subscriptions, presence.can_confirm, presence.can_clarify), (3, 2, 1));
    world.act(|engine, cx| engine.disconnect(cx, reader));
    assert_eq!(world.engine.subscriber_counts().can_clarify, 0);
    let away =
        world.try_join_as("user", ResumePolicy::Resumable, json!({"supports_clarification_reply": true})).unwrap();
    world.act(|engine, cx| engine.disconnect(cx, away));
    assert_eq!(world.engine.subscriber_counts().can_clarify, 1);
    world.pass(15_000);
    assert_eq!(world.engine.subscriber_counts().can_clarify, 0);
}

#[test]
fn the_manifest_says_what_is_offered() {
    let world = World::with(|config| config.offer.max_subscriptions = 7);
    let manifest = world.engine.manifest(["sse".to_owned()]);
    let text = serde_json::to_value(Message::from(manifest)).unwrap();
    assert!(aaep_proto::validate(text.to_string().as_bytes()).problems.is_empty());
    assert_eq!((&text["agent_id"], &text["max_concurrent_subscriptions"]), (&json!("tester"), &json!(7)));
    assert_eq!(text["transports_supported"], json!(["sse"]));
    assert_eq!(text["conformance_levels_supported"], json!([1, 2, 3]));
}

/// Going to other terms and back, while others keep both, says nothing twice.
#[test]
fn changing_terms_back_and_forth_repeats_nothing() {
    let mut world = World::new();
    let (sentences, paragraphs) = (json!(["sentence"]), json!(["paragraph", "completion"]));
    let reader = world.join(json!({"coalesce_boundaries": sentences}));
    world.join(json!({"coalesce_boundaries": sentences}));
    world.join(json!({"coalesce_boundaries": paragraphs}));
    let session = world.start();
    let output = world.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    let mut whole = String::new();
    for round in 0..6 {
        let text = format!("This is sentence {round}. And one more. ");
        world.act(|engine, cx| engine.write(cx, &session, &output, &text)).unwrap();
        whole.push_str(&text);
        let wish = if round % 2 == 0 { &paragraphs } else { &sentences };
        renegotiate(&mut world, reader, json!({"coalesce_boundaries": wish}));
    }
    world.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    assert_eq!(world.texts(reader).concat(), whole);
    let mut position = 0;
    for (text, at, _, _) in world.chunks(reader) {
        assert_eq!(at, position);
        position += text.chars().count() as u64;
    }
}

/// Text that was left out by a filter in between is not glued over.
#[test]
fn text_with_a_gap_is_not_put_together() {
    let mut world = World::new();
    let reader = world.join(json!({"coalesce_boundaries": ["none"]}));
    let session = world.start();
    let output = world.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    world.act(|engine, cx| engine.set_blocked(cx, reader, true));
    for (exclude, text) in
        [(json!([]), "one two "), (json!(["aaep:agent.output.streaming"]), "three four "), (json!([]), "five six ")]
    {
        renegotiate(&mut world, reader, json!({"event_filters": {"exclude": exclude}}));
        world.act(|engine, cx| engine.write(cx, &session, &output, text)).unwrap();
    }
    world.act(|engine, cx| engine.set_blocked(cx, reader, false));
    world.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    let all = "one two three four five six ";
    for (text, at, _, _) in world.chunks(reader) {
        let here: String = all.chars().skip(at as usize).take(text.chars().count()).collect();
        assert_eq!(text, here, "every chunk is what stands at its position");
    }
    assert!(world.chunks(reader).len() >= 2);
}

#[test]
fn a_slow_subscriber_can_join_a_busy_producer() {
    let mut world = World::new();
    let sessions: Vec<SessionId> = (0..700).map(|_| world.start()).collect();
    let slow = world.join(json!({"max_events_per_second": 3}));
    assert_eq!(world.closed, []);
    for session in &sessions {
        world.act(|engine, cx| engine.complete_session(cx, session, "Done.")).unwrap();
    }
    assert_eq!(world.closed, []);
    world.pass(800_000);
    assert_eq!(world.count(slow, CoreType::SessionCompleted), 700);
}

#[test]
fn a_change_of_language_holds_for_later_events() {
    let german = "de".parse().unwrap();
    let mut world = World::with(|config| config.offer.languages = ["en", "de"].map(|l| l.parse().unwrap()).to_vec());
    let reader = world.join(json!({"languages": ["en"]}));
    let session = world.start();
    for _ in 0..2 {
        let progress = Progress { step: Some(1), ..Progress::default() };
        let updated =
            ProgressUpdated { progress, summary_normal: Some("Step one.".into()), ..ProgressUpdated::default() };
        let updated = Localized::new(updated).text("summary_normal", &german, "Erster Schritt.").into_payload();
        world.act(|engine, cx| engine.emit_localized(cx, &session, updated)).unwrap();
        renegotiate(&mut world, reader, json!({"languages": ["de"]}));
    }
    let said: Vec<_> = world
        .events(reader)
        .iter()
        .filter_map(|e| match &e.payload {
            Payload::ProgressUpdated(p) => p.summary_normal.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["Step one.", "Erster Schritt."]);
}
