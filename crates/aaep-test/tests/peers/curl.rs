//! The `curl` of the machine follows a session and answers it.

use std::process::Command;

use aaep_test::{Process, Serving};
use serde_json::Value;

use crate::talk::{judge_banking, judge_order, kind, request, yes};

/// Talks to this machine only, and does not collect what it gets.
pub(crate) fn curl(version: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--no-buffer", "--noproxy", "*", version]);
    command
}

/// Sends a message; answers the version of HTTP and the status, and the body.
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

/// Subscribes; answers the subscription's name.
pub(crate) fn subscribe(demo: &Serving, version: &str, name: &str) -> String {
    let (status, body) = post(demo, version, "/aaep/v1/subscriptions", &request("curl"));
    assert_eq!(status, format!("{name} 201"), "{body}");
    let accepted: Value = serde_json::from_str(&body).unwrap();
    accepted["subscription_id"].as_str().unwrap().to_owned()
}

/// A stream that curl follows.
pub(crate) struct Followed(pub(crate) Process);

/// One block of a stream.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) event: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl Followed {
    pub(crate) fn open(demo: &Serving, version: &str, subscription: &str) -> Followed {
        let url = demo.url(&format!("/aaep/v1/events?subscription_id={subscription}"));
        let followed = Followed(Process::start(curl(version).args(["--include", &url])));
        let mut head = String::new();
        // The head ends with an empty line.
        followed.0.find("a head", |line| {
            head.push_str(&line.to_lowercase());
            line.trim().is_empty().then_some(())
        });
        assert!(head.contains(" 200") && head.contains("content-type: text/event-stream"), "{head}");
        followed
    }

    /// The next block with data; nothing at the end.
    pub(crate) fn next(&self) -> Option<Block> {
        let mut block = Block { event: String::new(), id: String::new(), data: Value::Null };
        while let Some(line) = self.0.line() {
            match line.split_once(": ") {
                Some(("event", event)) => block.event = event.to_owned(),
                Some(("id", id)) => block.id = id.to_owned(),
                Some(("data", data)) => block.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && !block.data.is_null() => return Some(block),
                // Comments, the time to wait before a new try, and the empty lines after them.
                _ => {}
            }
        }
        None
    }

    /// Events up to one of this kind.
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

/// From the subscription to the orderly end that a service manager brings about.
fn follow(version: &str, name: &str) {
    let mut demo = Serving::start(&["demo", "banking", "--no-input", "--no-pauses"]);
    let subscription = subscribe(&demo, version, name);
    let mut stream = Followed::open(&demo, version, &subscription);

    let mut events = stream.until("awaiting.confirmation");
    let (status, body) = post(&demo, version, "/aaep/v1/replies", &yes(&subscription, events.last().unwrap()));
    assert_eq!(status, format!("{name} 204"), "{body}");
    events.extend(stream.until("session.completed"));
    judge_banking(&events);

    // The next session is told to stop while it waits for an answer.
    events.extend(stream.until("awaiting.confirmation"));
    demo.process.terminate();
    events.extend(stream.until("session.cancelled"));
    judge_order(&events);
    let last = stream.next().expect("the end is told");
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
