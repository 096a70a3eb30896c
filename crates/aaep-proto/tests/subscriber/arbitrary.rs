//! Property tests with arbitrary streams.

use aaep_proto::limits;
use aaep_proto::message::{CoreType, Event, Message, Response};
use aaep_proto::subscriber::{
    DisconnectReason, HandshakeMode, PromptAnswer, PromptEnd, SubscriberEffect, SubscriberEvent,
};
use aaep_proto::time::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::*;

fn arbitrary_event() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        Just("session.started"),
        Just("session.completed"),
        Just("session.errored"),
        Just("session.cancelled"),
        Just("state.changed"),
        Just("progress.updated"),
        Just("tool.invoked"),
        Just("tool.completed"),
        Just("output.streaming"),
        Just("awaiting.confirmation"),
        Just("awaiting.clarification"),
        Just("handoff.requested"),
        Just("haptic:pulse"),
    ];
    let number = prop_oneof![Just(None), (0u64..12).prop_map(Some), Just(Some(u64::MAX)), Just(Some(u64::MAX - 1))];
    (kind, 0u32..40, 0u32..4, number, 0u32..5, 0usize..3, 0i64..200).prop_map(
        |(kind, id, session, number, token, choice, seconds)| {
            let name = if kind.contains(':') { kind.to_owned() } else { format!("aaep:agent.{kind}") };
            let state = ["awaiting_input", "thinking", "calling_tool"][choice];
            let outcome = ["accepted", "timed_out", "nonsense"][choice];
            let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": name,
                "event_id": format!("evt_{id}"), "session_id": format!("sess_{session}"),
                "timestamp": Timestamp::from_millis(START + (seconds - 100) * 1000).to_string(),
                "producer": {"agent_id": "tester"}, "summary_normal": "Hello.", "from_state": "awaiting_input",
                "to_state": state, "progress": {"percent": 1}, "tool": "mail", "status": "success", "chunk": "abc",
                "position": id * 3, "complete": false, "action": format!("Do {choice}."), "consequence": "Gone.",
                "reply_token": format!("rpl_{token}"), "timeout_seconds": seconds.max(1), "default_decision": "reject",
                "question": "Which?", "reason": "Stuck.", "target_kind": "human", "error_category": "unknown",
                "cancelled_by": "user",
                "extensions": {"consent": {"reply_token": format!("rpl_{}", token ^ 1), "outcome": outcome,
                    "tool": "mail"}}});
            if let Some(number) = number {
                event["sequence_number"] = json!(number);
            }
            if choice == 2 {
                event.as_object_mut().unwrap().remove("extensions");
            }
            event
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Event(Value),
    Bytes(Vec<u8>),
    Accepted(u8),
    Rejected(bool),
    Closed(u8),
    Connected(bool),
    Broken,
    Reply(usize, bool),
    Undelivered(u8),
    Renegotiate,
    Close,
    Pass(u64),
    Back,
}

fn arbitrary_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => arbitrary_event().prop_map(Step::Event),
        1 => proptest::collection::vec(any::<u8>(), 0..60).prop_map(Step::Bytes),
        3 => (0u8..3).prop_map(Step::Accepted),
        1 => any::<bool>().prop_map(Step::Rejected),
        1 => (0u8..3).prop_map(Step::Closed),
        3 => any::<bool>().prop_map(Step::Connected),
        1 => Just(Step::Broken),
        3 => (0usize..6, any::<bool>()).prop_map(|(n, yes)| Step::Reply(n, yes)),
        1 => (0u8..5).prop_map(Step::Undelivered),
        1 => Just(Step::Renegotiate),
        1 => (0u8..30).prop_map(|n| if n == 0 { Step::Close } else { Step::Connected(false) }),
        3 => (0u64..4000).prop_map(Step::Pass),
        1 => Just(Step::Back),
    ]
}

impl SubscriberHarness {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Event(event) => self.hear(event.clone()),
            Step::Bytes(bytes) => self.act(|s, cx| s.handle_bytes(cx, bytes)),
            Step::Accepted(n) => self.accept(&format!("sub_{n}"), replying()),
            Step::Rejected(retry) => {
                let mut message =
                    json!({"type": "subscription.rejected", "reason_code": "rate_limit", "reason_message": "No."});
                if *retry {
                    message["retry_after_seconds"] = json!(3);
                }
                self.hear(message);
            }
            Step::Closed(n) => self.hear(json!({"type": "subscription.close", "subscription_id": format!("sub_{n}")})),
            Step::Connected(resumed) => self.act(|s, cx| s.connected(cx, *resumed)),
            Step::Broken => self.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("gone".into()))),
            Step::Reply(n, yes) => {
                let prompts = self.prompts();
                if let Some(prompt) = prompts.get(prompts.len().saturating_sub(n + 1)) {
                    let answer =
                        if *yes { PromptAnswer::accept() } else { PromptAnswer::response(Response::Text("a".into())) };
                    let _ = self.act(|s, cx| s.reply(cx, prompt.id, answer));
                }
            }
            Step::Undelivered(n) => {
                let token = format!("rpl_{n}").parse().unwrap();
                self.act(|s, cx| s.handle_send_failure(cx, &token));
            }
            Step::Renegotiate => {
                let changes = capabilities(json!({"max_events_per_second": 4}));
                self.act(|s, cx| s.renegotiate(cx, &changes));
            }
            Step::Close => self.act(|s, cx| s.close(cx, "done".into())),
            Step::Pass(millis) => self.pass(*millis),
            Step::Back => self.skew_millis -= 7000,
        }
    }

    /// Checks the invariants after every step.
    fn check(&self) {
        assert!(self.subscriber.open_prompts() <= limits::OPEN_PROMPTS);
        let (waiting, bytes) = self.subscriber.waiting();
        assert!(waiting <= limits::FLOOD_HELD_EVENTS + limits::EARLY_EVENTS && bytes <= limits::FLOOD_HELD_BYTES);
        if self.subscriber.is_ended() {
            assert_eq!(self.subscriber.open_prompts(), 0);
        }
    }
}

proptest! {
    /// Whatever a producer and a user do: no panic, everything bounded, every prompt ends at most once, every reply goes
    /// to a prompt that was open, and every critical event that was not a repetition is heard.
    #[test]
    fn arbitrary_streams_do_no_harm(steps in proptest::collection::vec(arbitrary_step(), 0..120), absent: bool) {
        let handshake = if absent { HandshakeMode::Absent } else { HandshakeMode::Full };
        let mut world = SubscriberHarness::new(config(replying()).handshake(handshake));
        world.act(|s, cx| s.start(cx));
        let mut critical = Vec::new();
        for step in &steps {
            let before = world.subscriber.stats();
            world.step(step);
            world.check();
            let counts = world.subscriber.stats();
            if let Step::Event(event) = step
                && counts.events > before.events
                && counts.duplicates == before.duplicates
                && let Ok(Message::Event(event)) = Message::parse(event.to_string().as_bytes())
                && event.core_type().is_some_and(CoreType::must_be_critical)
            {
                critical.push(event);
            }
        }
        let mut open = std::collections::BTreeSet::new();
        let mut replies = 0;
        let mut answered = 0;
        for effect in &world.out {
            match effect {
                SubscriberEffect::Event(SubscriberEvent::PromptOpened(prompt, _)) => prop_assert!(open.insert(prompt.id), "opened twice"),
                SubscriberEffect::Event(SubscriberEvent::PromptMoved(id, _)) => prop_assert!(open.contains(id)),
                SubscriberEffect::Event(SubscriberEvent::PromptEnded(id, end)) => {
                    prop_assert!(open.remove(id), "ended twice");
                    answered += usize::from(*end == PromptEnd::AnsweredHere);
                }
                SubscriberEffect::Send(message) => {
                    replies += usize::from(matches!(
                        **message,
                        Message::ConfirmationReply(_) | Message::ClarificationReply(_)
                    ));
                    prop_assert!(aaep_proto::validate(&serde_json::to_vec(message).unwrap()).is_valid());
                }
                _ => {}
            }
        }
        prop_assert_eq!(open.len(), world.subscriber.open_prompts());
        prop_assert_eq!(replies, answered);
        let heard: Vec<&Event> = world.events();
        for event in critical {
            prop_assert!(heard.contains(&&*event), "{:?} was not heard", event);
        }
    }
}
