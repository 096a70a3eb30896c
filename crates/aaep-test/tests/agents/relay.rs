//! What a relay makes of an agent's events, without a process or a network.

use aaep::Producer;
use aaep::message::{Capabilities, CapabilityFields, Decision, EventFilters, Payload};
use aaep::transport::{Link, Outbound};
use aaep_server::agents::{AgentIdentity, Relay, ResponseState};
use serde_json::{Value, json};

struct World {
    relay: Relay,
    link: Link,
}

impl World {
    async fn new() -> World {
        let producer = Producer::builder("house").build();
        let fields = CapabilityFields {
            supports_confirmation_reply: Some(true),
            supports_clarification_reply: Some(true),
            event_filters: Some(EventFilters {
                include: Some(vec!["aaep:*".into(), "garden:*".into()]),
                exclude: None,
            }),
            ..CapabilityFields::default()
        };
        let link = producer.subscribe_local("ear", Capabilities { fields, ..Capabilities::default() }).await.unwrap();
        let who = AgentIdentity::unrestricted("gardener", "en".parse().unwrap());
        World { relay: Relay::new(producer, who), link }
    }

    async fn take(&mut self, event: &Value) -> ResponseState {
        let reply = self.relay.handle_line(event.to_string().as_bytes()).await;
        self.relay.flush().await;
        reply
    }

    /// An event that is answered at once.
    async fn say(&mut self, event: Value) -> Value {
        match self.take(&event).await {
            ResponseState::Ready(answer) => answer.to_json(),
            ResponseState::Pending(_) => panic!("{event} is a question"),
        }
    }

    async fn published(&mut self, event: Value) {
        let answer = self.say(event.clone()).await;
        assert_eq!(answer["type"], "published", "{event}: {answer}");
    }

    /// An event that is refused; answers what is wrong with it.
    async fn refused(&mut self, event: Value) -> String {
        let answer = self.say(event.clone()).await;
        assert_eq!(answer["type"], "refused", "{event}: {answer}");
        answer["problems"].as_array().unwrap().iter().filter_map(|p| p["message"].as_str()).collect()
    }

    /// Asks, lets the user decide, and answers the outcome.
    async fn decide(&mut self, question: Value, decision: Decision) -> Value {
        let ResponseState::Pending(pending) = self.take(&question).await else { panic!("{question} is no question") };
        let token = loop {
            match self.link.recv().await.expect("the question comes") {
                Outbound::Event(frame) => {
                    if let Payload::AwaitingConfirmation(asked) = &frame.event().payload {
                        break asked.reply_token.clone();
                    }
                }
                _ => continue,
            }
        };
        self.link.decide(&token, decision).await.unwrap();
        pending.wait().await.to_json()
    }

    /// The next event of this type.
    async fn until(&mut self, kind: &str) -> Value {
        loop {
            if let Outbound::Event(frame) = self.link.recv().await.expect("it comes") {
                let event = serde_json::to_value(frame.event()).unwrap();
                if event["type"] == kind {
                    return event;
                }
            }
        }
    }
}

fn confirmation(id: &str, more: Value) -> Value {
    let mut event = json!({"type": "awaiting.confirmation", "event_id": id, "action": format!("Burn the leaves ({id})."),
        "consequence": "They are gone.", "irreversible": true});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

fn burn(more: Value) -> Value {
    let mut event = json!({"type": "tool.invoked", "tool": "burn", "irreversible": true, "summary_normal": "Burning."});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

#[tokio::test]
async fn what_cannot_be_undone_needs_the_permit_for_that_call() {
    let mut world = World::new().await;
    world.published(json!({"type": "session.started", "summary_normal": "Tidying."})).await;
    let message = world.refused(burn(json!({}))).await;
    assert!(message.contains("Ask first") && message.contains("agent.awaiting.confirmation"), "{message}");

    let call = json!({"tool": "burn", "args": {"bed": 1}});
    let outcome = world.decide(confirmation("no", call.clone()), Decision::Reject).await;
    assert_eq!((&outcome["decision"], &outcome["verdict"]), (&json!("reject"), &json!("rejected")));
    world.refused(burn(json!({"args": {"bed": 1}}))).await;

    let outcome = world.decide(confirmation("yes", call), Decision::Accept).await;
    assert_eq!((&outcome["type"], &outcome["decision"]), (&json!("outcome"), &json!("accept")));
    assert_eq!((&outcome["verdict"], &outcome["event_id"]), (&json!("accepted"), &json!("yes")));
    let message = world.refused(burn(json!({"args": {"bed": 2}}))).await;
    assert!(message.contains("other arguments"), "{message}");
    world.refused(burn(json!({}))).await;
    // Who was asked about it as irreversible was right, whatever the agent says of it now.
    world.refused(burn(json!({"irreversible": false, "args": {"bed": 2}}))).await;
    world.published(burn(json!({"args": {"bed": 1}}))).await;
    let event = world.until("aaep:agent.tool.invoked").await;
    assert_eq!((&event["tool"], &event["irreversible"]), (&json!("burn"), &json!(true)));
    // Once.
    world.refused(burn(json!({"args": {"bed": 1}}))).await;
}

#[tokio::test]
async fn a_permit_without_arguments_is_for_the_tool() {
    let mut world = World::new().await;
    world.decide(confirmation("yes", json!({"tool": "burn"})), Decision::Accept).await;
    assert!(world.refused(burn(json!({"tool": "dig"}))).await.contains("Ask first: dig"));
    world.published(burn(json!({"args": {"bed": 1}}))).await;
    world.refused(burn(json!({}))).await;
    // Agreement to something in general permits no call in particular.
    world.decide(confirmation("general", json!({})), Decision::Accept).await;
    world.refused(burn(json!({}))).await;
}

#[tokio::test]
async fn a_permit_is_for_its_session() {
    let mut world = World::new().await;
    let question = confirmation("yes", json!({"tool": "burn", "session_id": "one"}));
    world.decide(question, Decision::Accept).await;
    world.refused(burn(json!({"session_id": "two"}))).await;
    world.published(burn(json!({"session_id": "one"}))).await;
}

#[tokio::test]
async fn the_same_event_is_said_once() {
    let mut world = World::new().await;
    let started = json!({"type": "session.started", "summary_normal": "Tidying.", "event_id": "a"});
    let answer = world.say(started.clone()).await;
    assert_eq!(world.say(started).await, answer);
    let again = world.refused(json!({"type": "session.started", "summary_normal": "Else.", "event_id": "a"})).await;
    assert!(again.contains("was another event"), "{again}");
    let chunk = json!({"type": "output.streaming", "chunk": "Once. ", "event_id": "b"});
    world.published(chunk.clone()).await;
    world.published(chunk).await;
    world.published(json!({"type": "output.streaming", "chunk": "End.", "complete": true, "position": 6})).await;
    let mut text = world.until("aaep:agent.output.streaming").await["chunk"].as_str().unwrap().to_owned();
    while !text.ends_with("End.") {
        text.push_str(world.until("aaep:agent.output.streaming").await["chunk"].as_str().unwrap());
    }
    assert_eq!(text, "Once. End.");
}

#[tokio::test]
async fn a_question_asked_again_is_the_same_question() {
    let mut world = World::new().await;
    let question = confirmation("q", json!({"tool": "burn"}));
    let ResponseState::Pending(first) = world.take(&question).await else { panic!() };
    let ResponseState::Pending(second) = world.take(&question).await else { panic!() };
    let outcome = {
        let event = world.until("aaep:agent.awaiting.confirmation").await;
        let token = event["reply_token"].as_str().unwrap().parse().unwrap();
        world.link.decide(&token, Decision::Accept).await.unwrap();
        first.wait().await.to_json()
    };
    assert_eq!(outcome["decision"], "accept");
    assert_eq!(second.wait().await.to_json(), outcome);
    assert_eq!(world.say(question).await, outcome);
    // Another question under the same name does not inherit the answer.
    let other = confirmation("q", json!({"tool": "burn", "action": "Burn the house."}));
    assert!(world.refused(other).await.contains("was another event"));
}

#[tokio::test]
async fn a_refused_event_can_be_put_right() {
    let mut world = World::new().await;
    world.refused(json!({"type": "session.started", "event_id": "a"})).await;
    world.published(json!({"type": "session.started", "event_id": "a", "summary_normal": "Tidying."})).await;
}

#[tokio::test]
async fn sessions_begin_by_themselves_and_end_once() {
    let mut world = World::new().await;
    let message = world.refused(json!({"type": "session.completed", "summary_normal": "Done."})).await;
    assert!(message.contains("no session"), "{message}");
    world.published(json!({"type": "tool.invoked", "tool": "dig", "summary_normal": "Digging a hole."})).await;
    let started = world.until("aaep:agent.session.started").await;
    assert_eq!(started["summary_normal"], "Digging a hole.");
    assert_eq!(started["producer"]["agent_id"], "gardener");
    let message = world.refused(json!({"type": "session.completed", "summary_normal": "Done."})).await;
    assert!(message.contains("Complete the tools"), "{message}");
    world.refused(json!({"type": "session.started", "summary_normal": "Another."})).await;
    world.published(json!({"type": "tool.completed", "tool": "dig", "status": "success"})).await;
    world.refused(json!({"type": "tool.completed", "tool": "dig", "status": "success"})).await;
    world.published(json!({"type": "session.completed", "summary_normal": "Done."})).await;
    world.until("aaep:agent.session.completed").await;
    // The next one.
    world.published(json!({"type": "session.started", "summary_normal": "Again.", "session_id": "s"})).await;
    let cancelled =
        json!({"type": "session.cancelled", "cancelled_by": "user", "summary_normal": "Enough.", "session_id": "s"});
    world.published(cancelled.clone()).await;
    assert!(world.refused(cancelled).await.contains("has ended"));
}

#[tokio::test]
async fn every_kind_of_event_gets_through() {
    let mut world = World::new().await;
    for event in [
        json!({"type": "session.started", "summary_normal": "Garten.", "summary_normal_en": "Garden.", "language": "de"}),
        json!({"type": "state.changed", "to_state": "deciding", "summary_normal": "Wähle."}),
        json!({"type": "progress.updated", "progress": {"percent": 10}}),
        json!({"type": "garden:bloom", "@context": ["https://aaep-protocol.org/context/v1", "https://garden.example/v1"],
            "summary_normal": "Eine Rose blüht."}),
        json!({"type": "handoff.requested", "reason": "Es ist zu schwer.", "target_kind": "human"}),
        json!({"type": "session.errored", "error_category": "permanent", "summary_normal": "Kaputt."}),
    ] {
        world.published(event).await;
    }
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("aaep:agent.session.errored") {
        if let Outbound::Event(frame) = world.link.recv().await.unwrap() {
            let event = serde_json::to_vec(frame.event()).unwrap();
            assert!(aaep_proto::validate(&event).is_valid(), "{}", String::from_utf8_lossy(&event));
            heard.push(frame.event().type_name().to_owned());
        }
    }
    for kind in ["session.started", "state.changed", "handoff.requested"] {
        assert!(heard.contains(&format!("aaep:agent.{kind}")), "{heard:?}");
    }
    assert!(heard.contains(&"garden:bloom".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn silence_starts_nothing_that_cannot_be_undone() {
    let mut world = World::new().await;
    let message = world.refused(confirmation("q", json!({"tool": "burn", "default_decision": "accept"}))).await;
    assert!(message.contains("silence must not start it"), "{message}");
}
