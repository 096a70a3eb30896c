//! Producers without handshake.

use aaep_client::{EndReason, HandshakePolicy, NoticeKind, PromptAnswer, Subscriber};
use hyper::Method;
use serde_json::json;

use crate::harness::*;

/// Serves a producer without the endpoints of the specification.
async fn simple() -> FakeHttp {
    let producer = FakeHttp::new().await;
    producer.fix("/base/aaep/v1/subscriptions", 404, "");
    producer.fix("/.well-known/aaep-manifest.json", 404, "");
    producer
}

#[tokio::test]
async fn producer_without_handshake_is_detected_and_gets_replies() {
    let mut producer = simple().await;
    let mut subscriber = Subscriber::connect(&format!("{}/base/", producer.url()), options()).unwrap();
    let stream = producer.expect(Method::GET, "/base/events").await.stream();
    // These send unnamed events without ids.
    stream.raw(format!("data: {}\n\n", started("evt_1")));
    stream.raw(format!("data: {}\n\n", question("evt_2", "rpl_1")));
    let asked = subscriber.wait_for("the question", prompt).await;
    assert!(asked.can_answer);
    subscriber.reply(asked.id, PromptAnswer::accept()).await.unwrap();
    let reply = producer.expect(Method::POST, "/base/messages").await;
    assert_eq!((&reply.body["type"], &reply.body["reply_token"]), (&json!("confirmation.reply"), &json!("rpl_1")));
    assert!(reply.body["subscription_id"].as_str().unwrap().starts_with("sub_"));
    reply.empty(200);
    drop(stream);
    subscriber.wait_for("the loss", notice(NoticeKind::Disconnected)).await;
    let stream = producer.expect(Method::GET, "/base/events").await.stream();
    stream.raw(format!("data: {}\n\n", event("evt_3", "session.completed", json!({"summary_normal": "Done."}))));
    assert_eq!(subscriber.wait_for("the end", event_id).await, "evt_3");
}

#[tokio::test]
async fn producer_without_handshake_is_refused_if_signatures_are_required() {
    let producer = simple().await;
    let mut options = options();
    options.config.request.capabilities.fields.accept_signed_manifests_only = Some(true);
    let mut subscriber = Subscriber::connect(&format!("{}/base", producer.url()), options).unwrap();
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Refused(_)));
}

#[tokio::test]
async fn handshake_is_skipped_with_policy_never() {
    let mut producer = FakeHttp::new().await;
    let subscriber = Subscriber::connect(&producer.url(), options().handshake(HandshakePolicy::Never)).unwrap();
    let stream = producer.expect(Method::GET, "/events").await.stream();
    drop((subscriber, stream));
}
