//! The request, the terms and how they change.

use aaep_proto::limits;
use aaep_proto::message::{Manifest, Message};
use aaep_proto::subscriber::{
    CancelRequestError, DisconnectReason, EndReason, Gap, ManifestCheck, Notice, NoticeKind, PromptAnswer, PromptEnd,
    PromptReplyError, SubscriberEffect, SubscriberEvent,
};
use serde_json::json;

use crate::harness::*;

#[test]
fn the_request_comes_first_and_terms_are_accepted() {
    let mut world = SubscriberHarness::new(config(replying()));
    world.act(|s, cx| s.start(cx));
    assert_eq!(world.take(), [SubscriberEffect::Connect(None)]);
    world.act(|s, cx| s.connected(cx, false));
    let sent = world.sent();
    let Message::SubscriptionRequest(request) = sent[0] else { panic!("{sent:?}") };
    assert_eq!(request.subscriber_id, "reader");
    assert!(aaep_proto::validate(&serde_json::to_vec(sent[0]).unwrap()).is_valid());
    world.accept("sub_1", replying());
    assert!(world.subscriber.is_live());
    assert!(world.out.iter().any(
        |o| matches!(o, SubscriberEffect::Event(SubscriberEvent::Accepted(a)) if a.subscription_id.as_str() == "sub_1")
    ));
    assert!(world.notices().is_empty());
}

#[test]
fn unanswered_request_is_sent_again() {
    let mut world = SubscriberHarness::new(config(replying()));
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.connected(cx, false));
    world.take();
    world.pass(limits::RESPONSE_SECONDS * 1000);
    assert!(world.notices().contains(&NoticeKind::NoResponse));
    assert!(world.has(&SubscriberEffect::Disconnect));
    world.pass(limits::BACKOFF_FIRST_MILLIS);
    assert!(world.has(&SubscriberEffect::Connect(None)));
}

#[test]
fn a_rejection_is_final_or_asks_to_wait() {
    let reject = |code: &str, retry: Option<u32>| {
        let mut world = SubscriberHarness::new(config(replying()));
        world.act(|s, cx| s.start(cx));
        world.act(|s, cx| s.connected(cx, false));
        let mut message = json!({"type": "subscription.rejected", "reason_code": code, "reason_message": "No."});
        if let Some(seconds) = retry {
            message["retry_after_seconds"] = json!(seconds);
        }
        world.take();
        world.hear(message);
        world
    };
    let mut world = reject("rate_limit", Some(20));
    assert!(!world.subscriber.is_ended());
    world.pass(19_999);
    assert!(!world.has(&SubscriberEffect::Connect(None)), "it waits for retry_after_seconds");
    world.pass(1000);
    assert!(world.has(&SubscriberEffect::Connect(None)));
    for code in ["version_unsupported", "authorization_denied", "capabilities_incompatible"] {
        let world = reject(code, None);
        assert!(world.subscriber.is_ended(), "{code}");
        assert!(
            world
                .out
                .iter()
                .any(|o| matches!(o, SubscriberEffect::Event(SubscriberEvent::Ended(EndReason::Rejected(_))))),
            "{code}"
        );
    }
    assert!(!reject("unknown", None).subscriber.is_ended());
}

#[test]
fn terms_that_are_wider_than_the_request_are_noticed_and_not_used() {
    let mut world = SubscriberHarness::new(config(json!({"max_events_per_second": 3})));
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.connected(cx, false));
    world.accept("sub_1", json!({"max_events_per_second": 9, "supports_confirmation_reply": true}));
    let Some(SubscriberEffect::Event(SubscriberEvent::Notice(Notice::UnfitTerms(fields)))) =
        world.out.iter().find(|o| matches!(o, SubscriberEffect::Event(SubscriberEvent::Notice(_))))
    else {
        panic!("{:?}", world.out)
    };
    assert_eq!(fields, "max_events_per_second, supports_confirmation_reply");
    let prompt = world.ask("rpl_1", json!({}));
    assert!(!prompt.can_answer);
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::accept())), Err(PromptReplyError::NotGranted));
}

#[test]
fn another_major_version_is_refused() {
    let mut world = SubscriberHarness::new(config(replying()));
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.connected(cx, false));
    world.hear(json!({"type": "subscription.accepted", "subscription_id": "sub_1", "aaep_version": "2.0.0",
        "producer": {"agent_id": "tester"}, "honored_capabilities": {}}));
    assert!(
        world
            .out
            .iter()
            .any(|o| matches!(o, SubscriberEffect::Event(SubscriberEvent::Ended(EndReason::ManifestMismatch(_)))))
    );
    assert!(
        matches!(world.sent().last(), Some(Message::SubscriptionClose(c)) if c.subscription_id.as_str() == "sub_1")
    );
}

fn manifest(agent: &str, levels: &[u32]) -> Box<Manifest> {
    let value = json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:producer.manifest",
        "agent_id": agent, "aaep_versions_supported": ["1.0.0"], "conformance_levels_supported": levels,
        "transports_supported": ["sse"]});
    match Message::parse(value.to_string().as_bytes()).unwrap() {
        Message::Manifest(manifest) => manifest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn demanded_signed_manifest_is_required_for_delivery() {
    let wish = json!({"accept_signed_manifests_only": true, "supported_conformance_levels": [1, 2]});
    let outcome = |check: Option<ManifestCheck>| {
        let mut world = SubscriberHarness::new(config(wish.clone()));
        world.act(|s, cx| s.start(cx));
        world.act(|s, cx| s.connected(cx, false));
        world.say("session.started", json!({"summary_normal": "Hello."}));
        assert!(world.events().is_empty(), "nothing is heard before the check");
        if let Some(check) = check {
            world.act(|s, cx| s.manifest_checked(cx, check));
        }
        world.accept("sub_1", wish.clone());
        (world.subscriber.is_live(), world.notices())
    };
    assert!(outcome(Some(ManifestCheck::Verified(manifest("tester", &[1, 2])))).0);
    assert!(!outcome(None).0);
    assert!(!outcome(Some(ManifestCheck::Failed("bad".into()))).0);
    assert!(!outcome(Some(ManifestCheck::Verified(manifest("other", &[1, 2])))).0);
    assert!(!outcome(Some(ManifestCheck::Verified(manifest("tester", &[1])))).0);
    let (live, notices) = outcome(Some(ManifestCheck::KeyChanged(manifest("tester", &[1, 2]))));
    assert!(!live && notices.contains(&NoticeKind::KeyChanged));
}

#[test]
fn changed_key_is_noticed_even_if_no_signature_is_demanded() {
    let mut world = SubscriberHarness::new(config(replying()));
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.connected(cx, false));
    world.act(|s, cx| s.manifest_checked(cx, ManifestCheck::KeyChanged(manifest("other", &[3]))));
    world.accept("sub_1", replying());
    assert!(world.subscriber.is_live());
    assert_eq!(world.notices(), [NoticeKind::KeyChanged, NoticeKind::UnfitManifest]);
}

#[test]
fn renegotiation_changes_terms_and_survives_reconnection() {
    let mut world = SubscriberHarness::live(json!({"max_events_per_second": 5}));
    let changes = capabilities(json!({"supports_confirmation_reply": true}));
    assert!(world.act(|s, cx| s.renegotiate(cx, &changes)));
    let sent = world.sent();
    let Message::SubscriptionRenegotiate(change) = sent[0] else { panic!("{sent:?}") };
    assert_eq!((change.subscription_id.as_str(), &change.capabilities), ("sub_1", &changes));
    assert!(!world.ask("rpl_1", json!({})).can_answer, "not before it is granted");
    world.accept("sub_1", json!({"max_events_per_second": 5, "supports_confirmation_reply": true}));
    assert!(world.ask("rpl_2", json!({})).can_answer);
    world.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("gone".into())));
    world.pass(1000);
    world.take();
    world.act(|s, cx| s.connected(cx, false));
    let sent = world.sent();
    let Message::SubscriptionRequest(request) = sent[0] else { panic!("{sent:?}") };
    let fields = &request.capabilities.fields;
    assert_eq!((fields.max_events_per_second, fields.supports_confirmation_reply), (Some(5), Some(true)));
}

#[test]
fn rejected_renegotiation_ends_the_subscription_and_keeps_the_old_capabilities() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    let changes = capabilities(json!({"max_events_per_second": 1}));
    world.act(|s, cx| s.renegotiate(cx, &changes));
    world.hear(json!({"type": "subscription.rejected", "reason_code": "unknown", "reason_message": "No."}));
    assert!(world.notices().contains(&NoticeKind::RenegotiationRefused));
    assert!(world.has(&SubscriberEffect::Disconnect));
    assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::Closed)], "it can no longer be answered");
    world.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("gone".into())));
    world.pass(1000);
    world.act(|s, cx| s.connected(cx, false));
    let Some(Message::SubscriptionRequest(request)) = world.sent().into_iter().next_back() else { panic!() };
    assert_eq!(request.capabilities.fields.max_events_per_second, None);
}

#[test]
fn close_is_sent_once_and_ends_everything() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    world.take();
    world.act(|s, cx| s.close(cx, "user_left".into()));
    world.act(|s, cx| s.close(cx, "user_left".into()));
    let sent = world.sent();
    assert!(matches!(sent[..], [Message::SubscriptionClose(c)] if c.reason_code == Some("user_left".into())));
    assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::Closed)]);
    assert_eq!(world.out.last(), Some(&SubscriberEffect::Event(SubscriberEvent::Ended(EndReason::Closed))));
    assert_eq!(world.subscriber.next_deadline(), None);
    world.say("session.started", json!({"summary_normal": "Hello."}));
    assert!(world.events().is_empty());
}

#[test]
fn a_close_by_the_producer_ends_prompts_and_is_followed_by_a_new_request() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    world.hear(json!({"type": "subscription.close", "subscription_id": "sub_9"}));
    assert!(world.subscriber.is_live(), "that was another subscription");
    world.hear(json!({"type": "subscription.close", "subscription_id": "sub_1", "reason_code": "too_slow"}));
    assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::Closed)]);
    world.pass(1000);
    assert!(world.has(&SubscriberEffect::Connect(None)), "there is nothing to resume");
}

#[test]
fn producer_that_says_that_it_ends_ends_the_subscriber() {
    let close = |reason: &str| json!({"type": "subscription.close", "subscription_id": "sub_1", "reason_code": reason, "reason_message": "Bye."});
    for reason in ["producer_shutdown", "producer_ended"] {
        let mut world = SubscriberHarness::live(replying());
        let prompt = world.ask("rpl_1", json!({}));
        world.hear(close(reason));
        assert!(world.subscriber.is_ended());
        assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::Closed)]);
        let ended = SubscriberEvent::Ended(EndReason::ProducerEnded("Bye.".into()));
        assert_eq!(world.out.last(), Some(&SubscriberEffect::Event(ended)));
        assert_eq!(world.subscriber.next_deadline(), None, "it does not connect again");
    }
}

#[test]
fn subscriber_that_outlives_the_producer_connects_again() {
    let mut config = config(replying());
    config.outlive_producer = true;
    let mut world = SubscriberHarness::new(config);
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.connected(cx, false));
    world.accept("sub_1", replying());
    world.take();
    world.hear(json!({"type": "subscription.close", "subscription_id": "sub_1", "reason_code": "producer_shutdown"}));
    assert_eq!(world.notices(), [NoticeKind::ClosedByProducer]);
    world.pass(1000);
    assert!(world.has(&SubscriberEffect::Connect(None)));
    world.act(|s, cx| s.connected(cx, false));
    world.accept("sub_2", replying());
    assert!(world.subscriber.is_live());
    assert!(!world.has(&SubscriberEffect::Event(SubscriberEvent::Gap(Gap::Away))), "nothing was lost");
}

#[test]
fn terms_that_can_never_answer_are_noticed() {
    for (honored, expected) in [
        (replying(), None),
        (json!({"supports_confirmation_reply": true}), Some("clarifications")),
        (json!({"supports_clarification_reply": true}), Some("confirmations")),
        (json!({}), Some("questions")),
    ] {
        let mut world = SubscriberHarness::new(config(replying()));
        world.act(|s, cx| s.start(cx));
        world.act(|s, cx| s.connected(cx, false));
        world.accept("sub_1", honored);
        let notice = world.out.iter().find_map(|output| match output {
            SubscriberEffect::Event(SubscriberEvent::Notice(Notice::CannotAnswer(kind))) => Some(*kind),
            _ => None,
        });
        assert_eq!(notice, expected);
    }
}

#[test]
fn agent_is_asked_to_stop_only_if_the_terms_include_it() {
    let session = "sess_1".parse().unwrap();
    let mut world = SubscriberHarness::live(replying());
    world.take();
    let refused = world.act(|s, cx| s.request_cancel(cx, &session, None));
    assert_eq!(refused, Err(CancelRequestError::NotOffered));
    assert!(world.sent().is_empty());
    let mut wish = replying();
    wish["cancellation"] = json!({});
    let mut world = SubscriberHarness::live(wish);
    world.take();
    assert_eq!(world.act(|s, cx| s.request_cancel(cx, &session, Some("Too slow.".into()))), Ok(()));
    let sent = world.sent();
    let [Message::CancellationRequest(request)] = sent[..] else { panic!("{sent:?}") };
    assert_eq!((request.subscription_id.as_str(), request.session_id.as_str()), ("sub_1", "sess_1"));
    assert!(aaep_proto::validate(&serde_json::to_vec(sent[0]).unwrap()).is_valid());
    world.hear(json!({"type": "cancellation:refused", "subscription_id": "sub_1", "session_id": "sess_1",
        "reason_message": "This agent cannot be asked to stop."}));
    assert_eq!(world.notices(), [NoticeKind::CancelRefused]);
}
