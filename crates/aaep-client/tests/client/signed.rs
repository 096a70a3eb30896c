//! Signed manifests and known keys.

use std::path::Path;

use aaep_client::{
    ConnectOptions, EndReason, HandshakePolicy, KnownKeys, NoticeKind, Subscriber, SubscriberEvent, producer_name,
};
use aaep_keys::{Algorithm, KeySet, SigningKey, sign_manifest_json};
use aaep_proto::time::Timestamp;
use hyper::Method;
use serde_json::{Value, json};

use crate::harness::*;

fn key() -> SigningKey {
    SigningKey::generate(Algorithm::Es256).unwrap()
}

fn signed(key: &SigningKey, manifest: &Value) -> String {
    let at: Timestamp = now().parse().unwrap();
    sign_manifest_json(manifest.to_string().as_bytes(), key, at).unwrap()
}

fn demanding(file: &Path) -> ConnectOptions {
    let mut options = options().handshake(HandshakePolicy::Always).remember_keys(file);
    options.config.request.capabilities.fields.accept_signed_manifests_only = Some(true);
    options
}

/// Serves one subscription with a manifest signed by this key. Returns the first event: terms or the end.
async fn meet(
    producer: &mut FakeHttp,
    options: ConnectOptions,
    by: &SigningKey,
    manifest: &Value,
) -> (SubscriberEvent, Vec<NoticeKind>) {
    producer.fix("/.well-known/aaep-keys.json", 200, KeySet::from_iter([by.public().clone()]).to_jwks());
    let mut subscriber = Subscriber::connect(&producer.url(), options).unwrap();
    producer.fix("/aaep/v1/replies", 204, "");
    let mut terms = accepted("sub_1");
    terms["honored_capabilities"]["accept_signed_manifests_only"] = json!(true);
    terms["signed_manifest"] = json!(signed(by, manifest));
    producer.expect(Method::POST, "/aaep/v1/subscriptions").await.grant(&terms);
    producer.fix("/aaep/v1/events?subscription_id=sub_1", 503, "");
    let mut notices = Vec::new();
    let received = subscriber.wait_for("terms or the end", |received| match received {
        SubscriberEvent::Accepted(_) | SubscriberEvent::Ended(_) => Some(received),
        SubscriberEvent::Notice(notice) => {
            notices.push(notice.kind());
            None
        }
        _ => None,
    });
    let received = received.await;
    (received, notices)
}

#[tokio::test]
async fn changed_key_is_refused_with_a_notice() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("known-keys.json");
    let mut producer = FakeHttp::new().await;
    let manifest = manifest(&["sse"]);
    let (first, second) = (key(), key());
    let (received, notices) = meet(&mut producer, demanding(&file), &first, &manifest).await;
    assert!(matches!(received, SubscriberEvent::Accepted(_)), "{received:?} {notices:?}");
    let (received, notices) = meet(&mut producer, demanding(&file), &second, &manifest).await;
    assert!(matches!(received, SubscriberEvent::Ended(EndReason::ManifestMismatch(_))), "{received:?}");
    assert!(notices.contains(&NoticeKind::KeyChanged), "{notices:?}");
    // Without the requirement of a signature the user is warned too, and the subscription is opened.
    let easy = options().handshake(HandshakePolicy::Always).remember_keys(&file);
    let (received, notices) = meet(&mut producer, easy, &second, &manifest).await;
    assert!(matches!(received, SubscriberEvent::Accepted(_)), "{received:?}");
    assert!(notices.contains(&NoticeKind::KeyChanged), "{notices:?}");
    // The user can remove the old key.
    let site = producer.url().parse::<aaep_client::Address>().unwrap();
    KnownKeys::new(&file).forget(&producer_name(site.origin(), "tester")).unwrap();
    let (received, _) = meet(&mut producer, demanding(&file), &second, &manifest).await;
    assert!(matches!(received, SubscriberEvent::Accepted(_)), "{received:?}");
    let (received, _) = meet(&mut producer, demanding(&file), &first, &manifest).await;
    assert!(matches!(received, SubscriberEvent::Ended(EndReason::ManifestMismatch(_))), "{received:?}");
}

#[tokio::test]
async fn manifest_must_be_signed_by_a_trusted_key_and_match_the_producer() {
    let directory = tempfile::tempdir().unwrap();
    let mut producer = FakeHttp::new().await;
    let trusted = key();
    let trusting = |name: &str| {
        let mut options = demanding(&directory.path().join(name));
        options.known_keys = None;
        options.keys = KeySet::from_iter([trusted.public().clone()]);
        options
    };
    let (received, _) = meet(&mut producer, trusting("a"), &trusted, &manifest(&["sse"])).await;
    assert!(matches!(received, SubscriberEvent::Accepted(_)), "{received:?}");
    let (received, _) = meet(&mut producer, trusting("b"), &key(), &manifest(&["sse"])).await;
    assert!(matches!(received, SubscriberEvent::Ended(EndReason::ManifestMismatch(_))), "another key: {received:?}");
    let (received, _) = meet(&mut producer, trusting("c"), &trusted, &manifest(&["websocket"])).await;
    assert!(
        matches!(received, SubscriberEvent::Ended(EndReason::ManifestMismatch(_))),
        "another transport: {received:?}"
    );
    let mut other = manifest(&["sse"]);
    other["agent_id"] = json!("someone-else");
    let (received, _) = meet(&mut producer, trusting("d"), &trusted, &other).await;
    assert!(matches!(received, SubscriberEvent::Ended(EndReason::ManifestMismatch(_))), "another agent: {received:?}");
}

#[tokio::test]
async fn no_event_is_delivered_without_a_required_signature() {
    let directory = tempfile::tempdir().unwrap();
    let mut producer = FakeHttp::new().await;
    producer.fix("/.well-known/aaep-manifest.json", 406, "");
    let mut subscriber = Subscriber::connect(&producer.url(), demanding(&directory.path().join("k"))).unwrap();
    let stream = producer.serve("sub_1").await;
    stream.send(&question("evt_1", "rpl_1"));
    let close = producer.expect(Method::POST, "/aaep/v1/replies").await;
    assert_eq!(close.body["type"], "subscription.close");
    close.empty(204);
    let mut received = Vec::new();
    while let Some(next) = in_time("the end", subscriber.recv()).await {
        received.push(next);
    }
    assert!(matches!(received.last(), Some(SubscriberEvent::Ended(EndReason::ManifestMismatch(_)))), "{received:?}");
    assert!(
        !received.iter().any(|h| matches!(h, SubscriberEvent::Event(_) | SubscriberEvent::PromptOpened(..))),
        "{received:?}"
    );
}
