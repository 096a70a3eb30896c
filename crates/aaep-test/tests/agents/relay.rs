//! How a relay handles the events of an agent, without a process or a network.

use aaep::Producer;
use aaep::message::{Capabilities, CapabilityFields, Decision, EventFilters, Payload};
use aaep::transport::{Link, Outbound};
use aaep_server::agents::{AgentIdentity, Relay, ResponseState};
use serde_json::{Value, json};

struct RelayHarness {
    relay: Relay,
    link: Link,
}

impl RelayHarness {
    async fn new() -> RelayHarness {
        let producer = Producer::builder("garden").build();
        let fields = CapabilityFields {
            supports_confirmation_reply: Some(true),
            supports_clarification_reply: Some(true),
            event_filters: Some(EventFilters {
                include: Some(vec!["aaep:*".into(), "garden:*".into()]),
                exclude: None,
            }),
            ..CapabilityFields::default()
        };
        let link = producer
            .subscribe_local("screen-reader", Capabilities { fields, ..Capabilities::default() })
            .await
            .unwrap();
        let identity = AgentIdentity::unrestricted("gardener", "en".parse().unwrap());
        RelayHarness { relay: Relay::new(producer, identity), link }
    }

    async fn send(&mut self, event: &Value) -> ResponseState {
        let reply = self.relay.handle_line(event.to_string().as_bytes()).await;
        self.relay.flush().await;
        reply
    }

    /// Sends an event that is no question. Returns the response.
    async fn send_event(&mut self, event: Value) -> Value {
        match self.send(&event).await {
            ResponseState::Ready(answer) => answer.to_json(),
            ResponseState::Pending(_) => panic!("{event} is a question"),
        }
    }

    async fn published(&mut self, event: Value) {
        let answer = self.send_event(event.clone()).await;
        assert_eq!(answer["type"], "published", "{event}: {answer}");
    }

    /// Sends an event that is refused. Returns the error messages.
    async fn refused(&mut self, event: Value) -> String {
        let answer = self.send_event(event.clone()).await;
        assert_eq!(answer["type"], "refused", "{event}: {answer}");
        answer["problems"].as_array().unwrap().iter().filter_map(|p| p["message"].as_str()).collect()
    }

    /// Asks a question and replies to it. Returns the outcome.
    async fn decide(&mut self, question: Value, decision: Decision) -> Value {
        let ResponseState::Pending(pending) = self.send(&question).await else { panic!("{question} is no question") };
        let token = loop {
            match self.link.recv().await.expect("the link is open") {
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

    /// Receives events until one of this type. Returns it.
    async fn wait_for(&mut self, kind: &str) -> Value {
        loop {
            if let Outbound::Event(frame) = self.link.recv().await.expect("the link is open") {
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
async fn irreversible_call_needs_a_permit_for_that_call() {
    let mut harness = RelayHarness::new().await;
    harness.published(json!({"type": "session.started", "summary_normal": "Tidying."})).await;
    let message = harness.refused(burn(json!({}))).await;
    assert!(message.contains("Ask first") && message.contains("agent.awaiting.confirmation"), "{message}");

    let call = json!({"tool": "burn", "args": {"bed": 1}});
    let outcome = harness.decide(confirmation("no", call.clone()), Decision::Reject).await;
    assert_eq!((&outcome["decision"], &outcome["verdict"]), (&json!("reject"), &json!("rejected")));
    harness.refused(burn(json!({"args": {"bed": 1}}))).await;

    let outcome = harness.decide(confirmation("yes", call), Decision::Accept).await;
    assert_eq!((&outcome["type"], &outcome["decision"]), (&json!("outcome"), &json!("accept")));
    assert_eq!((&outcome["verdict"], &outcome["event_id"]), (&json!("accepted"), &json!("yes")));
    let message = harness.refused(burn(json!({"args": {"bed": 2}}))).await;
    assert!(message.contains("other arguments"), "{message}");
    harness.refused(burn(json!({}))).await;
    // The tool stays irreversible, even if the agent states otherwise.
    harness.refused(burn(json!({"irreversible": false, "args": {"bed": 2}}))).await;
    harness.published(burn(json!({"args": {"bed": 1}}))).await;
    let event = harness.wait_for("aaep:agent.tool.invoked").await;
    assert_eq!((&event["tool"], &event["irreversible"]), (&json!("burn"), &json!(true)));
    // The permit is used.
    harness.refused(burn(json!({"args": {"bed": 1}}))).await;
}

#[tokio::test]
async fn permit_without_arguments_is_for_one_call_of_the_tool() {
    let mut harness = RelayHarness::new().await;
    harness.decide(confirmation("yes", json!({"tool": "burn"})), Decision::Accept).await;
    assert!(harness.refused(burn(json!({"tool": "dig"}))).await.contains("Ask first: dig"));
    harness.published(burn(json!({"args": {"bed": 1}}))).await;
    harness.refused(burn(json!({}))).await;
    // A confirmation that names no tool grants no permit.
    harness.decide(confirmation("general", json!({})), Decision::Accept).await;
    harness.refused(burn(json!({}))).await;
}

#[tokio::test]
async fn permit_is_valid_in_its_session_only() {
    let mut harness = RelayHarness::new().await;
    let question = confirmation("yes", json!({"tool": "burn", "session_id": "one"}));
    harness.decide(question, Decision::Accept).await;
    harness.refused(burn(json!({"session_id": "two"}))).await;
    harness.published(burn(json!({"session_id": "one"}))).await;
}

#[tokio::test]
async fn repeated_event_is_emitted_once() {
    let mut harness = RelayHarness::new().await;
    let started = json!({"type": "session.started", "summary_normal": "Tidying.", "event_id": "a"});
    let answer = harness.send_event(started.clone()).await;
    assert_eq!(harness.send_event(started).await, answer);
    let again = harness.refused(json!({"type": "session.started", "summary_normal": "Else.", "event_id": "a"})).await;
    assert!(again.contains("was another event"), "{again}");
    let chunk = json!({"type": "output.streaming", "chunk": "Once. ", "event_id": "b"});
    harness.published(chunk.clone()).await;
    harness.published(chunk).await;
    harness.published(json!({"type": "output.streaming", "chunk": "End.", "complete": true, "position": 6})).await;
    let mut text = harness.wait_for("aaep:agent.output.streaming").await["chunk"].as_str().unwrap().to_owned();
    while !text.ends_with("End.") {
        text.push_str(harness.wait_for("aaep:agent.output.streaming").await["chunk"].as_str().unwrap());
    }
    assert_eq!(text, "Once. End.");
}

#[tokio::test]
async fn repeated_question_gets_the_same_outcome() {
    let mut harness = RelayHarness::new().await;
    let question = confirmation("q", json!({"tool": "burn"}));
    let ResponseState::Pending(first) = harness.send(&question).await else { panic!() };
    let ResponseState::Pending(second) = harness.send(&question).await else { panic!() };
    let outcome = {
        let event = harness.wait_for("aaep:agent.awaiting.confirmation").await;
        let token = event["reply_token"].as_str().unwrap().parse().unwrap();
        harness.link.decide(&token, Decision::Accept).await.unwrap();
        first.wait().await.to_json()
    };
    assert_eq!(outcome["decision"], "accept");
    assert_eq!(second.wait().await.to_json(), outcome);
    assert_eq!(harness.send_event(question).await, outcome);
    // Another question with the same id does not get this outcome.
    let other = confirmation("q", json!({"tool": "burn", "action": "Burn the house."}));
    assert!(harness.refused(other).await.contains("was another event"));
}

#[tokio::test]
async fn refused_event_can_be_corrected_with_the_same_id() {
    let mut harness = RelayHarness::new().await;
    harness.refused(json!({"type": "session.started", "event_id": "a"})).await;
    harness.published(json!({"type": "session.started", "event_id": "a", "summary_normal": "Tidying."})).await;
}

#[tokio::test]
async fn session_starts_with_its_first_event_and_ends_once() {
    let mut harness = RelayHarness::new().await;
    let message = harness.refused(json!({"type": "session.completed", "summary_normal": "Done."})).await;
    assert!(message.contains("no session"), "{message}");
    harness.published(json!({"type": "tool.invoked", "tool": "dig", "summary_normal": "Digging a hole."})).await;
    let started = harness.wait_for("aaep:agent.session.started").await;
    assert_eq!(started["summary_normal"], "Digging a hole.");
    assert_eq!(started["producer"]["agent_id"], "gardener");
    let message = harness.refused(json!({"type": "session.completed", "summary_normal": "Done."})).await;
    assert!(message.contains("Complete the tools"), "{message}");
    harness.refused(json!({"type": "session.started", "summary_normal": "Another."})).await;
    harness.published(json!({"type": "tool.completed", "tool": "dig", "status": "success"})).await;
    harness.refused(json!({"type": "tool.completed", "tool": "dig", "status": "success"})).await;
    harness.published(json!({"type": "session.completed", "summary_normal": "Done."})).await;
    harness.wait_for("aaep:agent.session.completed").await;
    harness.published(json!({"type": "session.started", "summary_normal": "Again.", "session_id": "s"})).await;
    let cancelled =
        json!({"type": "session.cancelled", "cancelled_by": "user", "summary_normal": "Enough.", "session_id": "s"});
    harness.published(cancelled.clone()).await;
    assert!(harness.refused(cancelled).await.contains("has ended"));
}

#[tokio::test]
async fn events_of_every_kind_are_delivered() {
    let mut harness = RelayHarness::new().await;
    for event in [
        json!({"type": "session.started", "summary_normal": "Garten.", "summary_normal_en": "Garden.", "language": "de"}),
        json!({"type": "state.changed", "to_state": "deciding", "summary_normal": "Wähle."}),
        json!({"type": "progress.updated", "progress": {"percent": 10}}),
        json!({"type": "garden:bloom", "@context": ["https://aaep-protocol.org/context/v1", "https://garden.example/v1"],
            "summary_normal": "Eine Rose blüht."}),
        json!({"type": "handoff.requested", "reason": "Es ist zu schwer.", "target_kind": "human"}),
        json!({"type": "session.errored", "error_category": "permanent", "summary_normal": "Kaputt."}),
    ] {
        harness.published(event).await;
    }
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("aaep:agent.session.errored") {
        if let Outbound::Event(frame) = harness.link.recv().await.unwrap() {
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
async fn irreversible_question_cannot_default_to_accept() {
    let mut harness = RelayHarness::new().await;
    let message = harness.refused(confirmation("q", json!({"tool": "burn", "default_decision": "accept"}))).await;
    assert!(message.contains("silence must not start it"), "{message}");
}

#[tokio::test]
async fn invalid_event_names_the_field_and_changes_nothing() {
    let mut harness = RelayHarness::new().await;
    harness.published(json!({"type": "session.started", "summary_normal": "Tidying."})).await;
    for (event, rule, pointer) in [
        (json!({"type": "progress.updated", "progress": {"step": 0}}), "payload.limit", "/progress/step"),
        (json!({"type": "progress.updated", "progress": {"percent": 900}}), "payload.limit", "/progress/percent"),
        (json!({"type": "progress.updated"}), "payload.required", "/progress"),
        (json!({"type": "tool.invoked", "tool": "a b", "summary_normal": "Digging."}), "payload.format", "/tool"),
        (json!({"type": "session.completed", "summary_normal": ""}), "payload.limit", "/summary_normal"),
    ] {
        let response = harness.send_event(event.clone()).await;
        let problem = &response["problems"][0];
        assert_eq!(
            (&response["type"], &problem["pointer"]),
            (&json!("refused"), &json!(pointer)),
            "{event}: {response}"
        );
        assert_eq!(problem["rule"], rule, "{event}: {response}");
    }
    // The session is still open, and an invalid call does not use the permit.
    harness.decide(confirmation("yes", json!({"tool": "burn"})), Decision::Accept).await;
    harness.refused(burn(json!({"summary_normal": ""}))).await;
    harness.published(burn(json!({}))).await;
}

#[tokio::test]
async fn invalid_event_starts_no_session() {
    let mut harness = RelayHarness::new().await;
    harness.refused(json!({"type": "progress.updated", "progress": {"step": 0}})).await;
    assert_eq!(harness.relay.sessions(), 0);
}
