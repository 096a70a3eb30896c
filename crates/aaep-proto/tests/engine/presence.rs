//! Confirmations while subscribers that can reply are missing, leave or return (chapter 6).

use aaep_proto::confirm::Resolution;
use aaep_proto::engine::{EngineConfig, NoSubscriberPolicy, ReplyRejection, ResumePolicy};
use aaep_proto::message::{CloseReason, CoreType, Decision, Payload};
use serde_json::json;

use crate::confirmations::{asked, transfer};
use crate::harness::EngineHarness;

#[test]
fn default_applies_at_once_if_no_subscriber_can_reply() {
    let mut harness = EngineHarness::new();
    let captions = harness.join(json!({}));
    let session = harness.start();
    harness.ask(&session, transfer());
    assert_eq!(harness.outcome().resolution, Resolution::NobodyCouldAnswer);
    assert_eq!(
        harness.count(captions, CoreType::AwaitingConfirmation),
        0,
        "a question that nobody can answer is not sent"
    );
    assert_eq!(harness.states(captions).last().map(String::as_str), Some("awaiting_input>thinking"));
}

#[test]
fn question_without_subscribers_waits_for_one_that_can_reply() {
    let mut harness = EngineHarness::new();
    let session = harness.start();
    let token = harness.ask(&session, transfer());
    harness.pass(100_000);
    assert_eq!(harness.decided.len(), 0);
    let captions = harness.join(json!({}));
    assert_eq!(harness.count(captions, CoreType::AwaitingConfirmation), 0);
    let reader = harness.join_reader();
    assert_eq!(harness.count(reader, CoreType::AwaitingConfirmation), 1);
    assert_eq!(
        harness.count(captions, CoreType::AwaitingConfirmation),
        1,
        "the question is sent to all as soon as one can reply"
    );
    harness.reply(reader, &token, "accept");
    assert_eq!(harness.outcome().resolution, Resolution::Accepted);
}

#[test]
fn apply_default_policy_does_not_wait_for_subscribers() {
    let mut harness =
        EngineHarness::with(|config: &mut EngineConfig| config.no_subscriber_policy = NoSubscriberPolicy::ApplyDefault);
    let session = harness.start();
    harness.ask(&session, transfer());
    assert_eq!(harness.outcome().resolution, Resolution::NobodyCouldAnswer);
}

#[test]
fn question_is_resolved_when_the_last_capable_subscriber_leaves() {
    let (mut harness, reader, _, _) = asked();
    let id = harness.engine.subscription_id(reader).unwrap().clone();
    harness.send(reader, json!({"type": "subscription.close", "subscription_id": id}));
    let outcome = harness.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Reject, Resolution::SubscriberLeft));

    let (mut harness, reader, _, _) = asked();
    harness.act(|engine, cx| engine.disconnect(cx, reader));
    assert_eq!(harness.outcome().resolution, Resolution::SubscriberLeft);
}

#[test]
fn question_stays_open_while_another_subscriber_can_reply() {
    let (mut harness, reader, _, token) = asked();
    let other = harness.join_reader();
    harness.act(|engine, cx| engine.disconnect(cx, reader));
    assert_eq!(harness.decided.len(), 0);
    harness.reply(other, &token, "accept");
    assert_eq!(harness.outcome().resolution, Resolution::Accepted);
}

#[test]
fn resumable_subscriber_has_a_grace_period_to_reconnect() {
    let capable = json!({"supports_confirmation_reply": true});
    let mut harness = EngineHarness::new();
    let reader = harness.try_join_as("user", ResumePolicy::Resumable, capable).unwrap();
    let session = harness.start();
    let token = harness.ask(&session, transfer());
    harness.act(|engine, cx| engine.disconnect(cx, reader));
    harness.pass(14_999);
    assert_eq!(harness.decided.len(), 0);
    harness.act(|engine, cx| engine.reconnect(cx, reader)).unwrap();
    harness.pass(60_000);
    assert_eq!(harness.decided.len(), 0);
    harness.act(|engine, cx| engine.disconnect(cx, reader));
    harness.pass(15_000);
    assert_eq!(harness.outcome().resolution, Resolution::SubscriberLeft);
    harness.act(|engine, cx| engine.reconnect(cx, reader)).unwrap();
    harness.reply(reader, &token, "accept");
    assert_eq!(harness.ignored, [ReplyRejection::Settled]);
}

#[test]
fn renegotiating_away_replies_counts_as_leaving() {
    let (mut harness, reader, _, _) = asked();
    let id = harness.engine.subscription_id(reader).unwrap().clone();
    harness.send(reader, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"supports_confirmation_reply": false}}));
    assert_eq!(harness.outcome().resolution, Resolution::SubscriberLeft);
}

#[test]
fn disconnected_subscriber_does_not_count_as_present() {
    let mut harness = EngineHarness::new();
    let away =
        harness.try_join_as("user", ResumePolicy::Resumable, json!({"supports_confirmation_reply": true})).unwrap();
    let session = harness.start();
    harness.act(|engine, cx| engine.disconnect(cx, away));
    harness.act(|engine, cx| engine.disconnect(cx, away));
    harness.pass(15_000);
    // Nobody is connected: the question waits and is sent to the subscriber that reconnects.
    let token = harness.ask(&session, transfer());
    assert_eq!(harness.decided.len(), 0);
    harness.reply(away, &token, "accept");
    assert_eq!(harness.decided.len(), 0, "a disconnected subscriber cannot reply");
    harness.act(|engine, cx| engine.reconnect(cx, away)).unwrap();
    assert_eq!(harness.count(away, CoreType::AwaitingConfirmation), 1);
    harness.pass(20_000);
    assert_eq!(harness.decided.len(), 0, "the grace timer was cancelled");
    harness.reply(away, &token, "accept");
    assert_eq!(harness.outcome().resolution, Resolution::Accepted);
    // A subscription that does not reconnect is closed.
    harness.act(|engine, cx| engine.disconnect(cx, away));
    harness.pass(15_000 + 300_000);
    assert_eq!(
        harness.closed.last().map(|(key, closing)| (*key, &closing.reason)),
        Some((away, &CloseReason::AwayTooLong))
    );
}

#[test]
fn timeout_is_the_longest_that_a_capable_subscriber_needs() {
    let mut harness = EngineHarness::new();
    harness.join_reader();
    let slow = harness.join(json!({"supports_confirmation_reply": true, "more_time": {"factor": 3}}));
    harness.join(json!({"more_time": {"factor": 10}}));
    let session = harness.start();
    harness.ask(&session, transfer().timeout_seconds(100));
    let event = harness.events(slow).pop().unwrap().clone();
    assert!(
        matches!(event.payload, Payload::AwaitingConfirmation(c) if c.timeout_seconds == 300),
        "the factor of a subscriber without reply support does not count"
    );
    harness.pass(299_000);
    assert_eq!(harness.decided.len(), 0);
    harness.pass(1_000);
    assert_eq!(harness.outcome().resolution, Resolution::TimedOut);
}
