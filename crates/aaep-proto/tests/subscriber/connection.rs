//! Connecting, losing the connection, silence and reconnecting.

use aaep_proto::limits;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{
    DisconnectReason, EndReason, Gap, HandshakeMode, Notice, NoticeKind, PromptAnswer, PromptReplyError,
    SubscriberEffect, SubscriberEvent,
};
use aaep_proto::time::Moment;
use serde_json::json;

use crate::harness::*;

#[test]
fn reconnect_delays_grow_with_jitter_and_a_good_connection_resets_them() {
    let mut world = SubscriberHarness::new(config(replying()));
    world.act(|s, cx| s.start(cx));
    let mut waits = Vec::new();
    for _ in 0..12 {
        world.take();
        world.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("refused".into())));
        let Some(SubscriberEffect::Event(SubscriberEvent::Retrying(at))) =
            world.out.iter().find(|o| matches!(o, SubscriberEffect::Event(SubscriberEvent::Retrying(_)))).cloned()
        else {
            panic!("{:?}", world.out)
        };
        waits.push(at.since(Moment::from_millis(world.millis)) / 1000);
        world.pass(60_000);
        assert!(world.out.iter().any(|o| matches!(o, SubscriberEffect::Connect(_))));
    }
    for (attempt, wait) in waits.iter().enumerate() {
        let most = (limits::BACKOFF_FIRST_MILLIS << attempt).min(limits::BACKOFF_MAX_MILLIS);
        assert!((most / 2..=most).contains(wait), "{attempt}: {waits:?}");
    }
    assert!(waits[7..].iter().any(|w| *w != waits[6]), "there is chance in it: {waits:?}");
    world.act(|s, cx| s.connected(cx, false));
    world.accept("sub_1", replying());
    world.pass(limits::GOOD_CONNECTION_SECONDS * 1000);
    world.take();
    world.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("gone".into())));
    world.pass(limits::BACKOFF_FIRST_MILLIS);
    assert!(world.out.iter().any(|o| matches!(o, SubscriberEffect::Connect(Some(_)))));
}

#[test]
fn subscription_is_resumed_after_the_last_event() {
    let mut world = SubscriberHarness::live(replying());
    world.say("session.started", json!({"summary_normal": "Hello."}));
    let prompt = world.ask("rpl_1", json!({}));
    world.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("gone".into())));
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::reject())), Err(PromptReplyError::NotConnected));
    world.pass(1000);
    let resume =
        world.out.iter().find_map(|o| if let SubscriberEffect::Connect(r) = o { r.clone() } else { None }).unwrap();
    assert_eq!(resume.subscription_id.as_str(), "sub_1");
    assert_eq!(resume.after.as_ref().map(|id| id.as_str()), Some("evt_2"));
    world.take();
    world.act(|s, cx| s.connected(cx, true));
    assert!(world.take().is_empty(), "no request, no gap");
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::reject())), Ok(()));
}

#[test]
fn permanent_transport_error_is_final() {
    let mut world = SubscriberHarness::new(config(replying()));
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.disconnected(cx, DisconnectReason::Refused("The token is not valid.".into())));
    assert_eq!(
        world.out.last(),
        Some(&SubscriberEffect::Event(SubscriberEvent::Ended(EndReason::Refused("The token is not valid.".into()))))
    );
    world.pass(100_000);
    assert_eq!(world.out.iter().filter(|o| matches!(o, SubscriberEffect::Connect(_))).count(), 1);
}

#[test]
fn silent_connection_is_closed_only_if_the_transport_has_signs_of_life() {
    let mut world = SubscriberHarness::live(replying());
    world.pass(limits::SILENCE_SECONDS * 1000 - 1);
    world.act(|s, cx| s.handle_activity(cx));
    assert!(world.out.is_empty());
    world.pass(limits::SILENCE_SECONDS * 1000);
    assert_eq!(world.take(), [SubscriberEffect::Probe], "a producer with nothing to say is no news");
    world.act(|s, cx| s.handle_activity(cx));
    assert!(world.out.is_empty());
    let told = limits::SILENCE_SECONDS + limits::PROBE_SECONDS;
    world.pass(told * 1000);
    assert_eq!(
        world.take(),
        [SubscriberEffect::Probe, SubscriberEffect::Event(SubscriberEvent::Notice(Notice::Stalled(told)))]
    );
    world.pass(10 * limits::SILENCE_SECONDS * 1000);
    assert!(world.subscriber.is_live());
    assert!(world.notices().is_empty(), "once is enough");
    world.act(|s, cx| s.handle_activity(cx));
    assert_eq!(world.notices(), [NoticeKind::Alive]);

    let mut config = config(replying());
    config.give_up_silent = true;
    let mut world = SubscriberHarness::new(config);
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.connected(cx, false));
    world.accept("sub_1", replying());
    world.pass((told + limits::SILENCE_SECONDS) * 1000);
    assert!(world.has(&SubscriberEffect::Disconnect));
    assert!(!world.subscriber.is_live());
}

#[test]
fn producers_without_handshake_are_received_and_replied_to() {
    let mut world = SubscriberHarness::new(config(replying()).handshake(HandshakeMode::Absent));
    world.act(|s, cx| s.start(cx));
    world.act(|s, cx| s.connected(cx, false));
    assert!(world.sent().is_empty());
    let prompt = world.ask("rpl_1", json!({}));
    assert!(prompt.can_answer);
    world.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("gone".into())));
    world.pass(1000);
    assert!(world.has(&SubscriberEffect::Connect(None)), "a made-up id cannot be resumed");
    world.take();
    world.act(|s, cx| s.connected(cx, false));
    assert_eq!(world.out, [SubscriberEffect::Event(SubscriberEvent::Gap(Gap::Away))]);
    world.pass(limits::REASK_SECONDS * 2000);
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::accept())), Ok(()), "nobody asks again there");
    let sent = world.sent();
    assert!(matches!(sent[..], [Message::ConfirmationReply(r)] if r.subscription_id.as_str().starts_with("sub_")));
    assert!(aaep_proto::validate(&serde_json::to_vec(sent[0]).unwrap()).is_valid());
}
