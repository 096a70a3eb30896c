//! The HTTP transport: server-sent events and POST.

use aaep_client::{
    ConnectOptions, EndReason, Gap, HandshakePolicy, NoticeKind, PromptAnswer, PromptEnd, Subscriber, SubscriberEvent,
};
use aaep_proto::limits;
use hyper::Method;
use serde_json::json;

use crate::harness::*;

fn always() -> ConnectOptions {
    options().handshake(HandshakePolicy::Always)
}

#[tokio::test]
async fn question_is_received_and_the_reply_is_sent() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always().bearer("t0ken")).unwrap();
    let request = producer.expect(Method::POST, "/aaep/v1/subscriptions").await;
    assert_eq!(request.headers["authorization"], "Bearer t0ken");
    assert_eq!(request.body["type"], "subscription.request");
    assert_eq!(request.body["capabilities"], replying());
    request.grant(&accepted("sub_1"));
    let stream = producer.expect(Method::GET, "/aaep/v1/events?subscription_id=sub_1").await;
    assert_eq!(stream.headers["authorization"], "Bearer t0ken");
    assert_eq!(stream.headers["accept"], "text/event-stream");
    let stream = stream.stream();
    stream.raw(": hello\n\n");
    stream.send(&started("evt_1"));
    stream.send(&question("evt_2", "rpl_1"));
    subscriber.wait_for("terms", live).await;
    let asked = subscriber.wait_for("the question", prompt).await;
    assert!(asked.can_answer);
    subscriber.reply(asked.id, PromptAnswer::reject()).await.unwrap();
    let reply = producer.expect(Method::POST, "/aaep/v1/replies").await;
    assert_eq!(reply.headers["authorization"], "Bearer t0ken");
    let told = ["type", "reply_token", "decision", "subscription_id"].map(|name| reply.body[name].as_str().unwrap());
    assert_eq!(told, ["confirmation.reply", "rpl_1", "reject", "sub_1"]);
    reply.empty(204);
    assert_eq!(subscriber.wait_for("its end", prompt_end).await, (asked.id, PromptEnd::AnsweredHere));
}

#[tokio::test]
async fn broken_stream_resumes_after_the_last_event() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let stream = producer.serve("sub_1").await;
    stream.send(&started("evt_1"));
    let asking = question("evt_2", "rpl_1");
    stream.send(&asking);
    let asked = subscriber.wait_for("the question", prompt).await;
    drop(stream);
    subscriber.wait_for("the loss", notice(NoticeKind::Disconnected)).await;
    let again = producer.expect(Method::GET, "/aaep/v1/events?subscription_id=sub_1").await;
    assert_eq!(again.headers["last-event-id"], "evt_2");
    let stream = again.stream();
    stream.send(&asking);
    stream.send(&event("evt_3", "state.changed", json!({"from_state": "idle", "to_state": "awaiting_input"})));
    let received = subscriber.wait_for("the next event", event_id).await;
    assert_eq!(received, "evt_3", "what came before is not received again");
    subscriber.reply(asked.id, PromptAnswer::accept()).await.unwrap();
    assert_eq!(producer.expect(Method::POST, "/aaep/v1/replies").await.body["subscription_id"], "sub_1");
}

#[tokio::test]
async fn unknown_subscription_is_requested_again() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let stream = producer.serve("sub_1").await;
    stream.send(&started("evt_1"));
    subscriber.wait_for("the event", event_id).await;
    drop(stream);
    producer.expect(Method::GET, "/aaep/v1/events?subscription_id=sub_1").await.empty(404);
    let stream = producer.serve("sub_2").await;
    stream.send(&started("evt_2"));
    let away = subscriber
        .wait_for("the gap", |received| if let SubscriberEvent::Gap(gap) = received { Some(gap) } else { None });
    assert_eq!(away.await, Gap::Away);
    assert_eq!(subscriber.wait_for("the event", event_id).await, "evt_2");
}

#[tokio::test]
async fn stuck_reply_does_not_delay_the_next_and_a_failed_reply_reopens_its_prompt() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let stream = producer.serve("sub_1").await;
    let mut asked = Vec::new();
    for n in 0..3 {
        stream.send(&question(&format!("evt_{n}"), &format!("rpl_{n}")));
        asked.push(subscriber.wait_for("a question", prompt).await.id);
    }
    subscriber.reply(asked[0], PromptAnswer::accept()).await.unwrap();
    let stuck = producer.expect(Method::POST, "/aaep/v1/replies").await;
    subscriber.reply(asked[1], PromptAnswer::accept()).await.unwrap();
    let second = producer.expect(Method::POST, "/aaep/v1/replies").await;
    assert_eq!(second.body["reply_token"], "rpl_1");
    second.empty(503);
    let again = subscriber.wait_for("the question again", prompt).await;
    assert_eq!(again.token().unwrap().as_str(), "rpl_1");
    subscriber.reply(again.id, PromptAnswer::reject()).await.unwrap();
    assert_eq!(producer.expect(Method::POST, "/aaep/v1/replies").await.body["decision"], "reject");
    drop(stuck);
}

#[tokio::test]
async fn rejections_and_refusals_end_the_subscriber() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let rejected =
        json!({"type": "subscription.rejected", "reason_code": "version_unsupported", "reason_message": "No."});
    producer.next().await.json(422, &rejected);
    let EndReason::Rejected(why) = subscriber.wait_for("the end", end).await else { panic!() };
    assert_eq!(why.reason_message, "No.");
    assert!(subscriber.recv().await.is_none());

    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    producer.next().await.json(401, &json!({"title": "Unauthorized"}));
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Refused(_)));
}

#[tokio::test]
async fn renegotiation_updates_the_terms_and_close_ends_the_subscriber() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let stream = producer.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
    assert!(subscriber.renegotiate(capabilities(json!({"max_events_per_second": 2}))).await);
    let change = producer.expect(Method::POST, "/aaep/v1/replies").await;
    assert_eq!(change.body["capabilities"], json!({"max_events_per_second": 2}));
    let mut terms = accepted("sub_1");
    terms["honored_capabilities"]["max_events_per_second"] = json!(2);
    change.json(200, &terms);
    let rate = subscriber.wait_for("new terms", |received| match received {
        SubscriberEvent::Accepted(accepted) => accepted.honored_capabilities.fields.max_events_per_second,
        _ => None,
    });
    assert_eq!(rate.await, 2);
    let voice = subscriber.handle();
    let closing = tokio::spawn(async move { voice.close("user_left").await });
    let close = producer.expect(Method::POST, "/aaep/v1/replies").await;
    assert_eq!((&close.body["type"], &close.body["reason_code"]), (&json!("subscription.close"), &json!("user_left")));
    close.empty(204);
    in_time("the close", closing).await.unwrap();
    assert_eq!(subscriber.wait_for("the end", end).await, EndReason::Closed);
    assert!(in_time("nothing", subscriber.recv()).await.is_none());
    drop(stream);
}

#[tokio::test]
async fn dropped_subscriber_closes_its_subscription() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let _stream = producer.serve("sub_1").await;
    subscriber.wait_for("terms", live).await;
    drop(subscriber);
    let close = producer.expect(Method::POST, "/aaep/v1/replies").await;
    assert_eq!(close.body["type"], "subscription.close");
}

#[tokio::test]
async fn malformed_event_is_reported_and_the_next_is_received() {
    let mut producer = FakeHttp::new().await;
    let mut subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let stream = producer.serve("sub_1").await;
    stream.raw("data: {nonsense\n\n");
    subscriber.wait_for("the notice", notice(NoticeKind::Malformed)).await;
    stream.raw(format!("data: \"{}\"\n\n", "x".repeat(limits::MESSAGE_BYTES + 1)));
    subscriber.wait_for("the notice", notice(NoticeKind::Malformed)).await;
    stream.send(&started("evt_1"));
    assert_eq!(subscriber.wait_for("the event", event_id).await, "evt_1");
    assert_eq!(subscriber.stats().await.malformed, 2);
}

#[tokio::test]
async fn location_on_another_host_is_not_followed() {
    let mut producer = FakeHttp::new().await;
    let _subscriber = Subscriber::connect(&producer.url(), always()).unwrap();
    let terms = accepted("sub_1");
    let request = producer.expect(Method::POST, "/aaep/v1/subscriptions").await;
    request.grant_at(&terms, "//evil.example/aaep/v1/events?subscription_id=sub_1");
    producer.expect(Method::GET, "/aaep/v1/events?subscription_id=sub_1").await;
}

#[tokio::test]
async fn transport_is_selected_from_the_manifest() {
    let mut producer = FakeHttp::new().await;
    producer.fix("/.well-known/aaep-manifest.json", 200, manifest(&["websocket", "sse"]));
    let _subscriber = Subscriber::connect(&producer.url(), options()).unwrap();
    producer.expect(Method::POST, "/aaep/v1/subscriptions").await;

    let mut producer = FakeHttp::new().await;
    producer.fix("/.well-known/aaep-manifest.json", 200, manifest(&["websocket"]));
    let _subscriber = Subscriber::connect(&producer.url(), options()).unwrap();
    let upgrade = producer.expect(Method::GET, "/aaep/v1/ws").await;
    assert_eq!(upgrade.headers["sec-websocket-protocol"], "aaep.v1");
}
