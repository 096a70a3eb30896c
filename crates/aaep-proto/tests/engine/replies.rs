//! Which replies are accepted, by decision and by time of arrival.

use aaep_proto::confirm::{Confirmation, Resolution};
use aaep_proto::engine::{ReplyRejection, SubscriptionKey};
use aaep_proto::id::ReplyToken;
use aaep_proto::message::Message;
use aaep_proto::time::Moment;
use serde_json::json;

use crate::harness::EngineHarness;

#[test]
fn accept_must_be_an_allowed_decision_but_reject_always_counts() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join_reader(), harness.start());
    let ask = |listed: &str| Confirmation::new("Dig.", "A hole.").allowed_replies(vec![listed.to_owned()]);
    let token = harness.act(|engine, cx| engine.ask(cx, &session, ask("reject"))).unwrap();
    harness.reply(reader, &token, "accept");
    assert_eq!((harness.ignored.as_slice(), harness.decided.len()), (&[ReplyRejection::NotAllowed][..], 0));
    harness.reply(reader, &token, "reject");
    assert_eq!(harness.decided[0].1.resolution, Resolution::Rejected);
    let harmless = ask("accept").accept_on_timeout().unwrap();
    let token = harness.act(|engine, cx| engine.ask(cx, &session, harmless)).unwrap();
    harness.reply(reader, &token, "reject");
    assert_eq!(harness.decided[1].1.resolution, Resolution::Rejected);
}

/// Handles a rejection with an arrival time in the past, in milliseconds.
fn reject_arrived(harness: &mut EngineHarness, from: SubscriptionKey, token: &ReplyToken, arrived: u64, said_at: &str) {
    let id = harness.engine.subscription_id(from).unwrap().to_string();
    let reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "reject",
        "subscription_id": id, "timestamp": said_at});
    let reply = Message::parse(reply.to_string().as_bytes()).unwrap();
    harness.act(|engine, cx| engine.handle_arrived(cx, from, &reply, Moment::from_millis(arrived))).unwrap();
}

#[test]
fn reply_received_in_time_counts_even_if_handled_late() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join_reader(), harness.start());
    let ask = Confirmation::new("Dig.", "A hole.").timeout_seconds(1).accept_on_timeout().unwrap();
    let token = harness.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    let said_at = harness.wall().to_string();
    // The engine is stalled: nothing is handled for ten seconds, neither the reply nor the deadline.
    harness.millis += 10_000;
    reject_arrived(&mut harness, reader, &token, 999, &said_at);
    harness.act(|engine, cx| engine.handle_timeout(cx));
    assert_eq!((harness.decided.len(), harness.decided[0].1.resolution), (1, Resolution::Rejected));
}

#[test]
fn reply_received_late_is_ignored_even_if_handled_before_the_timer() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join_reader(), harness.start());
    let ask = Confirmation::new("Dig.", "A hole.").timeout_seconds(1);
    let token = harness.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    let said_at = harness.wall().to_string();
    harness.millis += 10_000;
    reject_arrived(&mut harness, reader, &token, 1000, &said_at);
    assert_eq!((harness.ignored.as_slice(), harness.decided.len()), (&[ReplyRejection::Late][..], 0));
    // An arrival time in the future is not accepted either.
    reject_arrived(&mut harness, reader, &token, u64::MAX / 2000, &said_at);
    assert_eq!(harness.ignored.len(), 2);
    harness.act(|engine, cx| engine.handle_timeout(cx));
    assert_eq!(harness.decided[0].1.resolution, Resolution::TimedOut);
}
