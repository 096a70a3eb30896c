//! Events that are expensive to process must not delay replies.

use std::time::{Duration, Instant};

use aaep_test::Serving;
use serde_json::json;

use crate::disclosure::Socket;

/// Returns events of the maximum size: one full of secrets, one full of prefixes of secrets.
fn expensive() -> Vec<serde_json::Value> {
    let secrets = |bytes: usize| "4111111111111111 ".repeat(bytes / 17);
    let beginnings = |bytes: usize| "token:".repeat(bytes / 6);
    let extension = |text: Vec<String>| {
        json!({"type": "state.changed", "to_state": "deciding", "summary_normal": "The card is 4111 1111 1111 1111.",
            "extensions": {"haptic": {"notes": text}},
            "@context": ["https://aaep-protocol.org/context/v1", "https://example.org/haptic/v1"]})
    };
    vec![
        extension(vec![secrets(900_000)]),
        json!({"type": "state.changed", "to_state": "deciding", "summary_normal": secrets(990_000)}),
        json!({"type": "progress.updated", "progress": {"description": beginnings(360_000)}}),
        extension(vec![secrets(60_000); 16]),
        extension(vec![beginnings(60_000); 16]),
        json!({"type": "output.streaming", "chunk": secrets(990_000)}),
        json!({"type": "output.streaming", "chunk": beginnings(990_000)}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn timely_rejection_is_honored_while_another_agent_sends_expensive_events() {
    let server = Serving::start(&["serve", "--no-unix"]);
    let address = server.address();
    let (mut subscriber, subscription) = Socket::subscriber(address).await;
    let (mut agent, mut hostile) = (Socket::agent(address).await, Socket::agent(address).await);
    let started = json!({"type": "session.started", "summary_normal": "Working.", "event_id": "first"});
    hostile.send(&started).await;
    subscriber.until("session.started").await;
    // A timeout would accept.
    agent
        .send(&json!({"type": "awaiting.confirmation", "action": "Move the file.", "consequence": "It is moved.",
            "timeout_seconds": 20, "default_decision": "accept", "risk_level": "low"}))
        .await;
    let asked = subscriber.until("awaiting.confirmation").await.pop().unwrap();
    let begun = Instant::now();
    hostile.send(&expensive()[0]).await;
    // The server has either finished the first event or is still processing it when the reply arrives.
    let _ = tokio::time::timeout(Duration::from_secs(1), hostile.until("refused")).await;
    let flood = tokio::spawn(async move {
        for _ in 0..3 {
            for event in expensive() {
                hostile.send(&event).await;
            }
        }
    });
    subscriber.reply(&asked, &subscription, "reject").await;
    let outcome = agent.until("outcome").await.pop().unwrap();
    assert_eq!((&outcome["decision"], &outcome["verdict"]), (&json!("reject"), &json!("rejected")), "{outcome}");
    // Far longer than needed, and far shorter than the minutes that a quadratic search for secrets takes.
    assert!(begun.elapsed() < Duration::from_secs(19), "the answer took {:?}", begun.elapsed());
    flood.abort();
}
