//! Order, limits and fairness of the queue.

use super::*;
use aaep_proto::engine::Cx;
use aaep_proto::id::Entropy;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{HandshakeMode, Prompt, PromptEnd, Subscriber, SubscriberConfig, SubscriberEffect};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn event(n: u32, kind: &str, session: u32, fields: Value) -> Value {
    let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
        "event_id": format!("evt_{n}"), "session_id": format!("sess_{session}"),
        "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"}});
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

fn parse(value: Value) -> SubscriberEvent {
    match Message::parse(value.to_string().as_bytes()).unwrap() {
        Message::Event(event) => SubscriberEvent::Event(event.into()),
        other => panic!("{other:?}"),
    }
}

fn tool(n: u32, session: u32) -> SubscriberEvent {
    parse(event(n, "tool.invoked", session, json!({"tool": "look", "summary_normal": "Looking."})))
}

fn failed(n: u32, session: u32) -> SubscriberEvent {
    let fields = json!({"urgency": "critical", "error_category": "unknown", "summary_normal": "Failed."});
    parse(event(n, "session.errored", session, fields))
}

/// Returns a prompt as the state machine reports it.
fn opened() -> Box<Prompt> {
    let mut machine = Subscriber::new(SubscriberConfig::new("r", Default::default()).handshake(HandshakeMode::Absent));
    let wall = Timestamp::from_millis(0);
    let cx = &mut Cx { now: Now { moment: Moment::default(), wall }, entropy: &mut Zeros };
    machine.start(cx);
    machine.connected(cx, false);
    let fields = json!({"urgency": "critical", "action": "Delete.", "consequence": "Gone.", "reply_token": "rpl_1",
        "timeout_seconds": 60, "default_decision": "reject", "timestamp": "1970-01-01T00:00:00Z"});
    machine.handle_bytes(cx, event(0, "awaiting.confirmation", 1, fields).to_string().as_bytes());
    loop {
        match machine.poll_effect() {
            SubscriberEffect::Event(aaep_proto::subscriber::SubscriberEvent::PromptOpened(prompt, _)) => {
                return prompt;
            }
            SubscriberEffect::Idle(_) => panic!("no prompt"),
            _ => {}
        }
    }
}

async fn ids(queue: &EventQueue) -> Vec<String> {
    let mut ids = Vec::new();
    while let Some((producer, event)) = queue.recv().await {
        ids.push(match event {
            SubscriberEvent::Event(event) => format!("{producer} {}", event.envelope.event_id),
            SubscriberEvent::Skipped(count) => format!("{producer} skipped {count}"),
            SubscriberEvent::PromptOpened(..) => format!("{producer} opened"),
            SubscriberEvent::PromptEnded(..) => format!("{producer} ended"),
            other => format!("{producer} {other:?}"),
        });
    }
    ids
}

#[tokio::test]
async fn a_critical_end_overtakes_other_sessions_but_not_its_own() {
    let queue = Arc::<EventQueue>::default();
    let sender = queue.add_producer(1, false);
    for event in [tool(1, 1), tool(2, 2), tool(3, 1), failed(4, 1), tool(5, 2)] {
        sender.send(event);
    }
    drop(sender);
    assert_eq!(ids(&queue).await, ["1 evt_1", "1 evt_3", "1 evt_4", "1 evt_2", "1 evt_5"]);
}

#[tokio::test]
async fn the_next_question_does_not_overtake_the_outcome_of_the_one_before() {
    let queue = Arc::<EventQueue>::default();
    let sender = queue.add_producer(1, false);
    let outcome = json!({"from_state": "awaiting_input", "to_state": "thinking",
        "extensions": {"consent": {"reply_token": "rpl_1", "outcome": "rejected"}}});
    let at = tokio::time::sleep(std::time::Duration::ZERO).deadline();
    sender.send(tool(1, 1));
    sender.send(parse(event(2, "state.changed", 1, outcome)));
    sender.send(SubscriberEvent::PromptOpened(opened(), at));
    drop(sender);
    assert_eq!(ids(&queue).await, ["1 evt_2", "1 opened", "1 evt_1"]);
}

#[tokio::test]
async fn a_question_overtakes_other_events_but_not_the_start_of_its_session() {
    let queue = Arc::<EventQueue>::default();
    let sender = queue.add_producer(1, false);
    let started = |n, session| parse(event(n, "session.started", session, json!({"summary_normal": "Tidying."})));
    let fields = json!({"urgency": "critical", "action": "Delete.", "consequence": "Gone.", "reply_token": "rpl_1",
        "timeout_seconds": 60, "default_decision": "reject"});
    let question = parse(event(5, "awaiting.confirmation", 1, fields));
    for event in [tool(1, 2), started(2, 2), started(3, 1), tool(4, 1), question] {
        sender.send(event);
    }
    drop(sender);
    assert_eq!(ids(&queue).await, ["1 evt_3", "1 evt_5", "1 evt_1", "1 evt_2", "1 evt_4"]);
}

#[tokio::test]
async fn a_question_does_not_overtake_the_outcome_of_an_earlier_one() {
    let queue = Arc::<EventQueue>::default();
    let sender = queue.add_producer(1, false);
    let outcome = |n, session| {
        let fields = json!({"from_state": "awaiting_input", "to_state": "thinking", "summary_normal": "Rejected."});
        parse(event(n, "state.changed", session, fields))
    };
    let fields = json!({"urgency": "critical", "action": "Delete.", "consequence": "Gone.", "reply_token": "rpl_1",
        "timeout_seconds": 60, "default_decision": "reject"});
    let question = parse(event(5, "awaiting.confirmation", 1, fields));
    for event in [tool(1, 1), outcome(2, 1), tool(3, 2), outcome(4, 2), question] {
        sender.send(event);
    }
    drop(sender);
    assert_eq!(ids(&queue).await, ["1 evt_2", "1 evt_4", "1 evt_5", "1 evt_1", "1 evt_3"]);
}

#[tokio::test]
async fn a_question_that_ends_before_it_is_received_is_not_reported() {
    let queue = Arc::<EventQueue>::default();
    let sender = queue.add_producer(1, false);
    let at = tokio::time::sleep(std::time::Duration::ZERO).deadline();
    let first = opened();
    sender.send(SubscriberEvent::PromptOpened(first.clone(), at));
    sender.send(SubscriberEvent::PromptEnded(first.id, PromptEnd::Expired));
    assert!(queue.lock().critical.is_empty());
    sender.send(SubscriberEvent::PromptOpened(first.clone(), at));
    assert!(matches!(queue.recv().await, Some((1, SubscriberEvent::PromptOpened(..)))));
    sender.send(SubscriberEvent::PromptEnded(first.id, PromptEnd::Expired));
    drop(sender);
    assert_eq!(ids(&queue).await, ["1 ended"]);
}

#[tokio::test]
async fn one_producer_cannot_crowd_out_another() {
    let queue = Arc::<EventQueue>::default();
    let (loud, quiet) = (queue.add_producer(1, false), queue.add_producer(2, false));
    quiet.send(tool(0, 1));
    for n in 0..3000 {
        loud.send(tool(n, 1));
    }
    assert!(quiet.has_capacity() && loud.has_capacity());
    for n in 0..MAX_CRITICAL_EVENTS as u32 {
        loud.send(failed(n + 3000, n + 10));
    }
    assert!(quiet.has_capacity() && !loud.has_capacity());
    drop((loud, quiet));
    let ids = ids(&queue).await;
    assert!(ids.contains(&"2 evt_0".to_owned()));
    assert!(ids.contains(&format!("1 skipped {}", 3000 - MAX_EVENTS)));
    assert_eq!(ids.len(), 1 + MAX_EVENTS + 1 + MAX_CRITICAL_EVENTS);
}
