//! Requests of users that an agent stops.

use aaep_proto::engine::{EngineError, SessionOptions, SubscriptionKey};
use aaep_proto::id::SessionId;
use aaep_proto::message::Message;
use aaep_proto::negotiate::{CANCELLATION_URI, Offer};
use serde_json::{Value, json};

use crate::harness::EngineHarness;

fn replying_and_cancelling() -> Value {
    json!({"supports_confirmation_reply": true, "supports_clarification_reply": true, "cancellation": {}})
}

fn request_cancel(harness: &mut EngineHarness, from: SubscriptionKey, session: &SessionId) {
    harness.reply_with(
        from,
        json!({"type": "cancellation:request", "session_id": session, "requested_by": "ada", "reason": "Too slow."}),
    );
}

/// Returns why the last request of a subscription was refused.
fn refusal(harness: &EngineHarness, key: SubscriptionKey) -> Option<String> {
    harness.messages(key).last().and_then(|message| match message {
        Message::CancellationRefused(refused) => Some(refused.reason_message.clone()),
        _ => None,
    })
}

#[test]
fn first_request_reaches_the_agent_that_accepts_it() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join(replying_and_cancelling()), harness.start());
    assert_eq!(harness.act(|engine, _| engine.accept_cancel_requests(&session)), Ok(None));
    request_cancel(&mut harness, reader, &session);
    request_cancel(&mut harness, reader, &session);
    let requests = harness.cancel_requests.clone();
    let [(asked, request)] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(asked, &session);
    assert_eq!((request.requested_by.as_deref(), request.reason.as_deref()), (Some("ada"), Some("Too slow.")));
    assert_eq!(refusal(&harness, reader), None);
    // An agent that looks later learns of it too, and the session is open until the agent ends it.
    let known = harness.act(|engine, _| engine.accept_cancel_requests(&session)).unwrap();
    assert_eq!(known.as_ref(), Some(request));
    assert_eq!(harness.engine.open_sessions(), 1);
}

#[test]
fn session_can_accept_requests_from_its_first_event_on() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(replying_and_cancelling());
    let mut options = SessionOptions::new("Digging.");
    options.accepts_cancel = true;
    let session = harness.act(|engine, cx| engine.start_session(cx, options)).unwrap();
    request_cancel(&mut harness, reader, &session);
    assert_eq!(refusal(&harness, reader), None);
    assert_eq!(harness.cancel_requests.len(), 1);
}

#[test]
fn request_is_refused_with_the_reason() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join(replying_and_cancelling()), harness.start());
    request_cancel(&mut harness, reader, &session);
    assert_eq!(refusal(&harness, reader).as_deref(), Some("This agent cannot be asked to stop."));
    harness.act(|engine, _| engine.accept_cancel_requests(&session)).unwrap();
    harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    request_cancel(&mut harness, reader, &session);
    assert!(refusal(&harness, reader).unwrap().contains("has ended"));
    assert!(harness.cancel_requests.is_empty());
    assert_eq!(harness.act(|engine, _| engine.accept_cancel_requests(&session)), Err(EngineError::UnknownSession));
}

#[test]
fn only_a_subscription_that_may_answer_and_asked_for_it_may_request_it() {
    let mut harness = EngineHarness::new();
    let session = harness.start();
    harness.act(|engine, _| engine.accept_cancel_requests(&session)).unwrap();
    for capabilities in [json!({"cancellation": {}}), json!({"supports_confirmation_reply": true})] {
        let reader = harness.join(capabilities);
        request_cancel(&mut harness, reader, &session);
        assert!(refusal(&harness, reader).unwrap().contains("may not ask"));
    }
    let (one, other) = (harness.join(replying_and_cancelling()), harness.join(replying_and_cancelling()));
    let foreign = harness.engine.subscription_id(other).unwrap().to_string();
    harness.reply_with(one, json!({"type": "cancellation:request", "session_id": session, "subscription_id": foreign}));
    assert!(refusal(&harness, one).unwrap().contains("subscription_id"));
    assert!(harness.cancel_requests.is_empty());
}

#[test]
fn terms_include_cancellation_only_if_the_producer_offers_it() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(replying_and_cancelling());
    assert!(harness.engine.terms(reader).unwrap().can_cancel());
    assert!(harness.engine.manifest([]).extensions_supported.unwrap().contains(&CANCELLATION_URI.to_owned()));
    let mut harness = EngineHarness::with(|config| config.offer = Offer { extensions: Vec::new(), ..Offer::default() });
    let reader = harness.join(replying_and_cancelling());
    assert!(!harness.engine.terms(reader).unwrap().can_cancel());
}
