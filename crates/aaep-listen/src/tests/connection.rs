//! What the user is told about a connection that does not work.

use aaep_proto::message::Message;
use aaep_proto::subscriber::{EndReason, Notice, SubscriberEvent};
use serde_json::json;

use crate::test_support::SessionHarness;

fn report(harness: &mut SessionHarness, event: SubscriberEvent) -> Vec<String> {
    let now = harness.now();
    harness.listener.handle_event(now, 0, event);
    harness.perform();
    harness.take_lines()
}

#[test]
fn failed_connection_is_reported_once_in_plain_words() {
    let mut harness = SessionHarness::new(&["http://a"]);
    let refused = || SubscriberEvent::Notice(Notice::Disconnected("Connection refused (os error 111)".to_owned()));
    let lines = report(&mut harness, refused());
    assert_eq!(lines, ["Note: Not connected to http://a yet. Connection refused. Trying again."]);
    assert_eq!(report(&mut harness, refused()), [""; 0]);
}

#[test]
fn producer_that_cannot_serve_now_is_reported_once() {
    let mut harness = SessionHarness::new(&["http://a"]);
    let busy = || SubscriberEvent::Notice(Notice::Rejected("Too many subscriptions.".to_owned()));
    assert_eq!(report(&mut harness, busy()), ["Note: The agent cannot serve now: Too many subscriptions."]);
    assert_eq!(report(&mut harness, busy()), [""; 0]);
}

#[test]
fn missing_token_is_explained() {
    for (code, explained) in [("authentication_required", true), ("authorization_denied", false)] {
        let mut harness = SessionHarness::new(&["http://a"]);
        let rejected = json!({"type": "subscription.rejected", "reason_code": code, "reason_message": "No."});
        let Ok(Message::SubscriptionRejected(rejected)) = Message::parse(rejected.to_string().as_bytes()) else {
            panic!("{rejected}")
        };
        let lines = report(&mut harness, SubscriberEvent::Ended(EndReason::Rejected(rejected)));
        assert_eq!(lines[0], "Note: http://a does not serve: No.");
        assert_eq!(lines.iter().any(|line| line.contains("--token FILE")), explained, "{lines:?}");
    }
}
