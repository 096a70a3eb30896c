//! Which events are passed on, in which order, and how many.

use aaep_proto::limits;
use aaep_proto::message::{CoreType, Payload};
use aaep_proto::subscriber::{Gap, NoticeKind, SubscriberEffect, SubscriberEvent};
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn duplicates_are_dropped_and_a_reused_id_is_noticed() {
    let mut world = SubscriberHarness::live(replying());
    let event = world.event("session.started", json!({"summary_normal": "Hello."}));
    world.hear(event.clone());
    world.hear(event.clone());
    assert_eq!(world.ids(), ["evt_1"]);
    assert_eq!(world.subscriber.stats().duplicates, 1);
    let mut other = event;
    other["summary_normal"] = json!("Something else.");
    world.hear(other);
    assert_eq!(world.notices(), [NoticeKind::ReusedId]);
    assert_eq!(world.events().len(), 2);
}

#[test]
fn order_is_restored_and_missing_events_are_reported() {
    let mut world = SubscriberHarness::live(replying());
    let numbered: Vec<Value> = (0..6)
        .map(|n| {
            let (kind, fields) = match n {
                0 => ("session.started", json!({"summary_normal": "Hello.", "sequence_number": n})),
                _ => {
                    ("output.streaming", json!({"chunk": "a", "position": n, "complete": false, "sequence_number": n}))
                }
            };
            world.event(kind, fields)
        })
        .collect();
    for n in [0, 2, 1, 5, 4] {
        world.hear(numbered[n].clone());
    }
    assert_eq!(world.ids(), ["evt_1", "evt_2", "evt_3"]);
    world.pass(limits::EARLY_WAIT_MILLIS);
    assert_eq!(world.ids(), ["evt_1", "evt_2", "evt_3", "evt_5", "evt_6"]);
    let gap = Gap::Numbers { session: "sess_1".parse().unwrap(), first: 3, last: 3 };
    assert!(world.has(&SubscriberEffect::Event(SubscriberEvent::Gap(gap))));
    world.hear(numbered[3].clone());
    assert_eq!(world.notices(), [NoticeKind::OutOfOrder]);
    assert_eq!(world.ids().last(), Some(&"evt_4"), "late is better than never");
}

#[test]
fn critical_event_does_not_wait_for_missing_events() {
    let mut world = SubscriberHarness::live(replying());
    world.say("session.started", json!({"summary_normal": "Hello.", "sequence_number": 0}));
    world.ask("rpl_1", json!({"sequence_number": 3}));
    assert_eq!(world.ids(), ["evt_1", "evt_2"]);
    world.say("output.streaming", json!({"chunk": "a", "position": 0, "complete": true, "sequence_number": 1}));
    world.say("tool.invoked", json!({"tool": "look", "summary_normal": "Looking.", "sequence_number": 2}));
    world.say("state.changed", json!({"from_state": "a", "to_state": "b", "sequence_number": 4}));
    assert_eq!(world.ids(), ["evt_1", "evt_2", "evt_3", "evt_4", "evt_5"]);
    assert!(!world.out.iter().any(|o| matches!(o, SubscriberEffect::Event(SubscriberEvent::Gap(_)))));
}

#[test]
fn nothing_follows_a_critical_end() {
    let mut world = SubscriberHarness::live(replying());
    world.say("session.started", json!({"summary_normal": "Hello.", "sequence_number": 0}));
    world.say("tool.invoked", json!({"tool": "look", "summary_normal": "Looking.", "sequence_number": 2}));
    world.say(
        "session.errored",
        json!({"urgency": "critical", "error_category": "unknown",
        "summary_normal": "Failed.", "sequence_number": 4}),
    );
    assert_eq!(world.ids(), ["evt_1", "evt_2", "evt_3"]);
    let missing: Vec<_> =
        world.out.iter().filter(|o| matches!(o, SubscriberEffect::Event(SubscriberEvent::Gap(_)))).collect();
    assert_eq!(missing.len(), 2);
}

#[test]
fn malformed_messages_are_counted_and_do_no_harm() {
    let mut world = SubscriberHarness::live(replying());
    for bad in
        [&b"not json"[..], b"{\"kind\":\"user_input.ack\"}", b"[1]", b"{\"type\":\"subscription.accepted\"}", b"\xff"]
    {
        world.act(|s, cx| s.handle_bytes(cx, bad));
    }
    world.act(|s, cx| s.handle_bytes(cx, &vec![b' '; limits::MESSAGE_BYTES + 1]));
    assert_eq!(world.subscriber.stats().malformed, 6);
    assert!(world.notices().iter().all(|kind| *kind == NoticeKind::Malformed));
    assert_eq!(world.subscriber.stats().notices_suppressed + world.notices().len() as u64, 6);
    world.take();
    world.say("session.errored", json!({"error_category": "unknown", "summary_normal": "Failed."}));
    assert_eq!(world.notices(), [NoticeKind::Violation], "it should have been critical");
    assert_eq!(world.events().len(), 1);
}

#[test]
fn events_of_relayed_agents_are_delivered_without_a_notice() {
    let mut world = SubscriberHarness::live(replying());
    world.say("session.started", json!({"summary_normal": "Hello.", "producer": {"agent_id": "mail-agent"}}));
    assert_eq!((world.notices(), world.events().len()), (vec![], 1));
}

#[test]
fn flood_is_coalesced_and_dropped_but_critical_events_are_not() {
    let mut world = SubscriberHarness::live(replying());
    world.say("session.started", json!({"summary_normal": "Hello."}));
    for percent in 0..1000 {
        world.say("progress.updated", json!({"urgency": "background", "progress": {"percent": percent % 100}}));
        if percent % 100 == 0 {
            world.ask(&format!("rpl_{percent}"), json!({}));
        }
    }
    let heard = world.events().len();
    assert!(heard <= limits::FLOOD_EVENTS_PER_SECOND as usize + 10, "{heard}");
    assert_eq!(world.prompts().len(), 10);
    assert_eq!(world.notices().iter().filter(|k| **k == NoticeKind::Flood).count(), 1);
    world.pass(5000);
    let last = world.events().into_iter().rfind(|e| e.core_type() == Some(CoreType::ProgressUpdated)).unwrap();
    let Payload::ProgressUpdated(progress) = &last.payload else { panic!() };
    assert_eq!(progress.progress.percent.map(|d| d.0), Some(99.0), "the latest is kept");
    assert!(world.notices().contains(&NoticeKind::FloodOver));
    assert!(world.subscriber.stats().folded > 900);
}

#[test]
fn flooded_text_is_coalesced_without_loss() {
    let mut world = SubscriberHarness::live(replying());
    for n in 0..400 {
        world.say("output.streaming", json!({"chunk": "ä", "position": n, "complete": n == 399, "output_id": "out_1"}));
    }
    world.pass(10_000);
    let mut at = 0;
    for event in world.events() {
        let Payload::OutputStreaming(text) = &event.payload else { panic!() };
        assert_eq!(text.position, at);
        at += text.chunk.chars().count() as u64;
        assert_eq!(text.complete, at == 400);
    }
    assert_eq!(at, 400);
    assert_eq!(world.subscriber.stats().dropped, 0);
}

#[test]
fn the_end_of_a_session_outlives_a_flood() {
    let mut world = SubscriberHarness::live(replying());
    for n in 0..2000 {
        world.say(
            "tool.invoked",
            json!({"tool": "look", "summary_normal": "Looking.", "session_id": format!("sess_{}", n % 7)}),
        );
    }
    world.say("session.completed", json!({"summary_normal": "Done."}));
    for n in 0..2000 {
        world.say(
            "tool.invoked",
            json!({"tool": "look", "summary_normal": "Looking.", "session_id": format!("sess_{}", n % 7 + 10)}),
        );
    }
    let (waiting, bytes) = world.subscriber.waiting();
    assert!(waiting <= limits::FLOOD_HELD_EVENTS && bytes <= limits::FLOOD_HELD_BYTES);
    assert!(world.subscriber.stats().dropped > 3000);
    world.pass(60_000);
    assert!(world.events().iter().any(|e| e.core_type() == Some(CoreType::SessionCompleted)));
}

#[test]
fn agreed_rate_limits_delivery() {
    let mut world = SubscriberHarness::live(json!({"max_events_per_second": 2}));
    for n in 0..20 {
        world.say("tool.invoked", json!({"tool": "look", "summary_normal": format!("Looking {n}.")}));
    }
    assert_eq!(world.events().len(), 4);
    world.pass(4000);
    assert_eq!(world.events().len(), 20);
}
