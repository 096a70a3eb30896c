//! `curl` follows a session and replies.

use std::process::Command;

use aaep_test::{Process, Serving};
use serde_json::Value;

use crate::messages::{acceptance, assert_banking_session, assert_valid_sequence, kind, request};

/// Returns a `curl` that uses no proxy and does not buffer its output.
pub(crate) fn curl(version: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--no-buffer", "--noproxy", "*", version]);
    command
}

/// Posts a message. Returns the HTTP version with the status, and the body.
pub(crate) fn post(demo: &Serving, version: &str, path: &str, message: &Value) -> (String, String) {
    let url = demo.url(path);
    let mut command = curl(version);
    command.args(["--json", &message.to_string(), "--write-out", "\n%{http_version} %{http_code}", &url]);
    let mut process = Process::start(&mut command);
    let mut lines = process.rest();
    let status = lines.pop().unwrap_or_default();
    assert!(process.wait().success(), "{}", process.errors());
    (status, lines.join("\n"))
}

/// Subscribes. Returns the subscription id.
pub(crate) fn subscribe(demo: &Serving, version: &str, name: &str) -> String {
    let (status, body) = post(demo, version, "/aaep/v1/subscriptions", &request("curl"));
    assert_eq!(status, format!("{name} 201"), "{body}");
    let accepted: Value = serde_json::from_str(&body).unwrap();
    accepted["subscription_id"].as_str().unwrap().to_owned()
}

/// An event stream that curl reads.
pub(crate) struct CurlStream(pub(crate) Process);

/// One event of an SSE stream.
#[derive(Debug)]
pub(crate) struct SseBlock {
    pub(crate) event: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl CurlStream {
    pub(crate) fn open(demo: &Serving, version: &str, subscription: &str) -> CurlStream {
        let url = demo.url(&format!("/aaep/v1/events?subscription_id={subscription}"));
        let stream = CurlStream(Process::start(curl(version).args(["--include", &url])));
        let mut head = String::new();
        // The head ends with an empty line.
        stream.0.find("a head", |line| {
            head.push_str(&line.to_lowercase());
            line.trim().is_empty().then_some(())
        });
        assert!(head.contains(" 200") && head.contains("content-type: text/event-stream"), "{head}");
        stream
    }

    /// Returns the next block with data, or `None` at the end.
    pub(crate) fn next(&self) -> Option<SseBlock> {
        let mut block = SseBlock { event: String::new(), id: String::new(), data: Value::Null };
        while let Some(line) = self.0.line() {
            match line.split_once(": ") {
                Some(("event", event)) => block.event = event.to_owned(),
                Some(("id", id)) => block.id = id.to_owned(),
                Some(("data", data)) => block.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && !block.data.is_null() => return Some(block),
                // Comments, the retry time, and the empty lines after them.
                _ => {}
            }
        }
        None
    }

    /// Returns the events up to one of this type.
    pub(crate) fn until(&self, wanted: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while events.last().is_none_or(|event| kind(event) != wanted) {
            let block = self.next().unwrap_or_else(|| panic!("the end came before {wanted}: {events:#?}"));
            assert_eq!(
                (block.event.as_str(), block.id.as_str()),
                ("aaep.event", block.data["event_id"].as_str().unwrap())
            );
            events.push(block.data);
        }
        events
    }
}

/// Follows a session from the subscription to a shutdown by SIGTERM.
fn follow(version: &str, name: &str) {
    let mut demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses"]);
    let subscription = subscribe(&demo, version, name);
    let mut stream = CurlStream::open(&demo, version, &subscription);

    let mut events = stream.until("awaiting.confirmation");
    let (status, body) = post(&demo, version, "/aaep/v1/replies", &acceptance(&subscription, events.last().unwrap()));
    assert_eq!(status, format!("{name} 204"), "{body}");
    events.extend(stream.until("session.completed"));
    assert_banking_session(&events);

    // The server is stopped while the next session waits for a reply.
    events.extend(stream.until("awaiting.confirmation"));
    demo.process.terminate();
    events.extend(stream.until("session.cancelled"));
    assert_valid_sequence(&events);
    let last = stream.next().expect("the subscription is closed");
    assert_eq!((last.event.as_str(), &last.data["type"]), ("aaep.message", &"subscription.close".into()), "{last:?}");
    assert_eq!(last.data["subscription_id"], *subscription);
    let more = stream.next();
    assert!(more.is_none(), "nothing follows: {more:?}");
    assert!(stream.0.wait().success(), "{}", stream.0.errors());
    assert_eq!(demo.process.wait().code(), Some(0), "{}", demo.process.errors());
}

#[test]
fn curl_follows_a_session_over_http_1() {
    follow("--http1.1", "1.1");
}

#[test]
fn curl_follows_a_session_over_http_2() {
    follow("--http2-prior-knowledge", "2");
}
