//! One subscriber with a manual clock, and its effects.

use aaep_proto::id::Entropy;
use aaep_proto::message::{Capabilities, Event, Message};
use aaep_proto::subscriber::{
    Cx, NoticeKind, Prompt, PromptEnd, PromptId, Subscriber, SubscriberConfig, SubscriberEffect, SubscriberEvent,
};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

/// Deterministic entropy.
pub struct Seeded(pub u64);

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for b in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *b = (self.0 >> 56) as u8;
        }
    }
}

/// The wall clock at the start of every test.
pub const START: i64 = 1_780_000_000_000;

pub struct SubscriberHarness {
    pub subscriber: Subscriber,
    pub entropy: Seeded,
    pub millis: u64,
    pub skew_millis: i64,
    pub out: Vec<SubscriberEffect>,
    pub next_event: u32,
}

pub fn capabilities(value: Value) -> Capabilities {
    serde_json::from_value(value).unwrap()
}

pub fn replying() -> Value {
    json!({"supports_confirmation_reply": true, "supports_clarification_reply": true})
}

pub fn config(value: Value) -> SubscriberConfig {
    SubscriberConfig::new("reader", capabilities(value))
}

impl SubscriberHarness {
    pub fn new(config: SubscriberConfig) -> SubscriberHarness {
        SubscriberHarness {
            subscriber: Subscriber::new(config),
            entropy: Seeded(3),
            millis: 0,
            skew_millis: 0,
            out: Vec::new(),
            next_event: 0,
        }
    }

    /// Returns a connected subscriber with exactly the requested terms.
    pub fn live(wish: Value) -> SubscriberHarness {
        let mut world = SubscriberHarness::new(config(wish.clone()));
        world.act(|s, cx| s.start(cx));
        world.act(|s, cx| s.connected(cx, false));
        world.accept("sub_1", wish);
        assert!(world.subscriber.is_live());
        world.out.clear();
        world
    }

    pub fn now(&self) -> Now {
        let wall = Timestamp::from_millis(START + self.millis as i64 + self.skew_millis);
        Now { moment: Moment::from_millis(self.millis), wall }
    }

    /// Gives one input to the subscriber and records every effect.
    pub fn act<T>(&mut self, input: impl FnOnce(&mut Subscriber, &mut Cx<'_>) -> T) -> T {
        let now = self.now();
        let result = input(&mut self.subscriber, &mut Cx { now, entropy: &mut self.entropy });
        loop {
            match self.subscriber.poll_effect() {
                SubscriberEffect::Idle(_) => return result,
                effect => self.out.push(effect),
            }
        }
    }

    /// Advances the clock and handles every deadline on the way.
    pub fn pass(&mut self, millis: u64) {
        let end = self.millis + millis;
        while let Some(at) = self.subscriber.next_deadline() {
            let due = at.micros().div_ceil(1000);
            if due > end {
                break;
            }
            self.millis = self.millis.max(due);
            self.act(|s, cx| s.handle_timeout(cx));
        }
        self.millis = end;
    }

    pub fn hear(&mut self, value: Value) {
        self.act(|s, cx| s.handle_bytes(cx, value.to_string().as_bytes()));
    }

    pub fn accept(&mut self, id: &str, honored: Value) {
        self.hear(json!({"type": "subscription.accepted", "subscription_id": id, "aaep_version": "1.0.0",
            "producer": {"agent_id": "tester"}, "honored_capabilities": honored}));
    }

    /// Returns an event of session 1 with the current timestamp and these fields.
    pub fn event(&mut self, kind: &str, fields: Value) -> Value {
        self.next_event += 1;
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{}", self.next_event), "session_id": "sess_1",
            "timestamp": self.now().wall.to_string(), "producer": {"agent_id": "tester"},
            "localization_hints": {"primary_language": "en"}});
        for (name, value) in fields.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    pub fn say(&mut self, kind: &str, fields: Value) {
        let event = self.event(kind, fields);
        self.hear(event);
    }

    pub fn ask(&mut self, token: &str, fields: Value) -> Prompt {
        let mut all = json!({"urgency": "critical", "action": "Delete all.", "consequence": "They are gone.",
            "reply_token": token, "timeout_seconds": 60, "default_decision": "reject"});
        for (name, value) in fields.as_object().unwrap() {
            all[name] = value.clone();
        }
        self.say("awaiting.confirmation", all);
        self.prompts().pop().expect("a prompt was opened")
    }

    pub fn take(&mut self) -> Vec<SubscriberEffect> {
        std::mem::take(&mut self.out)
    }

    pub fn events(&self) -> Vec<&Event> {
        self.out
            .iter()
            .filter_map(|o| if let SubscriberEffect::Event(SubscriberEvent::Event(e)) = o { Some(&**e) } else { None })
            .collect()
    }

    pub fn ids(&self) -> Vec<&str> {
        self.events().iter().map(|e| e.envelope.event_id.as_str()).collect()
    }

    pub fn prompts(&self) -> Vec<Prompt> {
        self.out
            .iter()
            .filter_map(|o| {
                if let SubscriberEffect::Event(SubscriberEvent::PromptOpened(p, _)) = o {
                    Some((**p).clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn ended_prompts(&self) -> Vec<(PromptId, PromptEnd)> {
        self.out
            .iter()
            .filter_map(|o| {
                if let SubscriberEffect::Event(SubscriberEvent::PromptEnded(p, e)) = o { Some((*p, *e)) } else { None }
            })
            .collect()
    }

    pub fn notices(&self) -> Vec<NoticeKind> {
        self.out
            .iter()
            .filter_map(
                |o| if let SubscriberEffect::Event(SubscriberEvent::Notice(n)) = o { Some(n.kind()) } else { None },
            )
            .collect()
    }

    pub fn sent(&self) -> Vec<&Message> {
        self.out.iter().filter_map(|o| if let SubscriberEffect::Send(m) = o { Some(&**m) } else { None }).collect()
    }

    pub fn has(&self, effect: &SubscriberEffect) -> bool {
        self.out.contains(effect)
    }
}
