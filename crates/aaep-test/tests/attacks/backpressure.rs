//! Subscribers that stop reading must not delay agents or other subscribers.

#[path = "../../benches/stalled/site.rs"]
mod site;

use std::time::Duration;

use aaep_server::agents::stdio::{AgentPipes, relay_lines};
use aaep_server::agents::{AgentIdentity, Relay};
use aaep_test::{now, soon, until};
use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;

use site::{Agent, Site, Subscriber, TRANSPORTS, Transport, text};

/// How long a write to a stalled subscriber may take. The tests assert that these subscribers are still open at the end,
/// so anything that waits for one of them fails the test. Shorter than the longest time that an agent is slowed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(50);

/// Receives all events in a separate task. Returns the subscription id and a channel with the questions.
fn keep_reading(mut subscriber: Subscriber) -> (String, watch::Receiver<Vec<String>>) {
    let (found, questions) = watch::channel(Vec::new());
    let id = subscriber.id.clone();
    tokio::spawn(async move {
        loop {
            let before = subscriber.read_until("\"reply_token\":\"").await;
            let token = subscriber.read_until("\"").await;
            let token = String::from_utf8_lossy(&token).trim_matches('"').to_owned();
            drop(before);
            found.send_modify(|tokens| {
                if !tokens.contains(&token) {
                    tokens.push(token);
                }
            });
        }
    });
    (id, questions)
}

/// An agent writes text until at least this many subscribers are blocked at the same time.
async fn flood(site: &Site, blocked: usize) {
    let mut agent = Agent::connect(site.server.address()).await;
    let flooding = async {
        for round in 0.. {
            agent.post("flood", &text(round)).await;
        }
    };
    tokio::select! {
        () = flooding => {}
        () = until("blocked subscribers", async || site.subscriptions().await.1 >= blocked) => {}
    }
}

fn progress(number: usize) -> Value {
    json!({"type": "progress.updated", "progress": {"step": number}, "summary_normal": "One more step is done."})
}

fn question(number: usize) -> Value {
    json!({"type": "awaiting.confirmation", "event_id": format!("q{number}"), "action": "Send the letter.",
        "consequence": "It cannot be called back.", "timeout_seconds": 600})
}

/// Another agent posts 200 events and asks two questions, which a healthy subscriber answers.
async fn another_agent_works(site: &Site, healthy: &str, mut questions: watch::Receiver<Vec<String>>) {
    let address = site.server.address();
    let mut agent = Agent::connect(address).await;
    for number in 1..=200 {
        let answer = soon("an answer to a post", agent.post("other", &progress(number))).await;
        assert_eq!(answer["type"], "published", "{answer}");
    }
    for number in 0..2 {
        let asked = tokio::spawn(async move {
            let mut agent = Agent::connect(address).await;
            agent.post("other", &question(number)).await
        });
        let tokens = soon("a question", questions.wait_for(|tokens| tokens.len() > number)).await.unwrap().clone();
        let reply = json!({"type": "confirmation.reply", "reply_token": tokens[number], "decision": "accept",
            "subscription_id": healthy, "timestamp": now()});
        agent.send("/aaep/v1/replies", &reply).await;
        let outcome = soon("an outcome", asked).await.unwrap();
        assert_eq!((&outcome["type"], &outcome["decision"]), (&json!("outcome"), &json!("accept")), "{outcome}");
    }
}

/// Subscribers that never read are blocked by a flood; then another agent works without delay while they are open.
async fn others_are_not_delayed(stalled: &[Transport]) {
    let site = Site::start(WRITE_TIMEOUT).await;
    let mut sleeping = Vec::new();
    for transport in stalled {
        sleeping.push(site.subscribe(*transport).await);
    }
    let (healthy, questions) = keep_reading(site.subscribe(Transport::WebSocket).await);
    // Socket buffers differ, so many subscribers are not all blocked at the same time.
    flood(&site, stalled.len().div_ceil(2)).await;
    another_agent_works(&site, &healthy, questions).await;
    assert_eq!(site.subscriptions().await.0, stalled.len() + 1, "no stalled subscriber was closed meanwhile");
    drop(sleeping);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_subscribers_that_never_read_delay_no_other_agent() {
    others_are_not_delayed(&[Transport::WebSocket; 100]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_subscriber_of_any_transport_that_never_reads_delays_no_other_agent() {
    for transport in TRANSPORTS {
        others_are_not_delayed(&[transport]).await;
    }
}

/// A server whose only subscriber is stalled and blocked.
async fn blocked_site() -> (Site, Subscriber) {
    let site = Site::start(WRITE_TIMEOUT).await;
    let stalled = site.subscribe(Transport::WebSocket).await;
    flood(&site, 1).await;
    (site, stalled)
}

/// Waits for a question to be asked, and checks that it did not have to wait for the stalled subscriber.
async fn is_asked_while_blocked(site: &Site) {
    let questions = async || site.server.producer().stats().await.unwrap().questions;
    until("a question", async || questions().await == 1).await;
    assert_eq!(site.subscriptions().await, (1, 1), "the stalled subscriber is still connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn question_over_post_does_not_wait_behind_blocked_text() {
    let (site, _stalled) = blocked_site().await;
    let address = site.server.address();
    let (posted, mut posts) = watch::channel(0);
    let writing = tokio::spawn(async move {
        let mut agent = Agent::connect(address).await;
        for round in 0.. {
            agent.post("writer", &text(round)).await;
            posted.send_replace(round + 1);
        }
    });
    // No subscriber keeps up, so a request is delayed while it holds the lock of its agent.
    while tokio::time::timeout(Duration::from_secs(1), posts.changed()).await.is_ok() {}
    let before = *posts.borrow();
    let asking = tokio::spawn(async move { Agent::connect(address).await.post("writer", &question(0)).await });
    is_asked_while_blocked(&site).await;
    soon("the answer to the text", posts.wait_for(|count| *count > before)).await.unwrap();
    writing.abort();
    asking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn question_over_websocket_does_not_wait_behind_blocked_text() {
    let (site, _stalled) = blocked_site().await;
    let url = format!("ws://{}/aaep/v1/agent/ws", site.server.address());
    let (mut socket, _) = soon("a connection", tokio_tungstenite::connect_async(url)).await.unwrap();
    for message in [text(0), text(1), question(0)] {
        socket.send(Message::text(message.to_string())).await.unwrap();
    }
    is_asked_while_blocked(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn question_of_a_process_does_not_wait_behind_blocked_text() {
    let (site, _stalled) = blocked_site().await;
    let who = AgentIdentity::unrestricted("writer", "en".parse().unwrap());
    let mut relay = Relay::new(site.server.producer().clone(), who);
    let (mut agent, output) = tokio::io::duplex(256 * 1024);
    let relaying = tokio::spawn(async move {
        let pipes = AgentPipes { stdout: output, stdin: tokio::io::sink() };
        relay_lines(&mut relay, pipes, std::future::pending(), |_| {}).await
    });
    // More than is read at once, so that the question is read while the text is delayed.
    let lines: String = (0..5).map(text).chain([question(0)]).map(|event| format!("{event}\n")).collect();
    agent.write_all(lines.as_bytes()).await.unwrap();
    is_asked_while_blocked(&site).await;
    drop(agent);
    soon("the end", relaying).await.unwrap().unwrap();
}
