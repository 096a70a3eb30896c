//! A listener under test, fed by real subscriber state machines, without a network.

use aaep_announce::Profile;
use aaep_proto::id::Entropy;
use aaep_proto::subscriber::{Cx, HandshakeMode, PromptAnswer, Subscriber, SubscriberConfig, SubscriberEffect};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

use crate::{AnswerError, Effect, Listener};

/// The system time at moment zero, in milliseconds since 1970.
const START_UNIX_MS: i64 = 1_779_632_531_000;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// A listener, one subscriber for each of its producers, and a clock that tests advance.
pub(crate) struct SessionHarness {
    pub(crate) listener: Listener,
    subscribers: Vec<Subscriber>,
    now_ms: u64,
    events_sent: u64,
    /// The effects since they were last cleared.
    pub(crate) effects: Vec<Effect>,
}

impl SessionHarness {
    pub(crate) fn new(addresses: &[&str]) -> SessionHarness {
        let addresses: Vec<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
        let mut harness = SessionHarness {
            listener: Listener::new(Profile::default(), &addresses),
            subscribers: Vec::new(),
            now_ms: 0,
            events_sent: 0,
            effects: Vec::new(),
        };
        for producer in 0..addresses.len() {
            let mut config = SubscriberConfig::new("r", Profile::default().capabilities());
            config.handshake = HandshakeMode::Absent;
            harness.subscribers.push(Subscriber::new(config));
            harness.subscriber(producer, |subscriber, cx| subscriber.start(cx));
            harness.subscriber(producer, |subscriber, cx| subscriber.connected(cx, false));
        }
        harness
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::from_millis(self.now_ms)
    }

    pub(crate) fn advance_ms(&mut self, millis: u64) {
        self.now_ms += millis;
    }

    fn system_time(&self) -> Timestamp {
        Timestamp::from_millis(START_UNIX_MS + i64::try_from(self.now_ms).unwrap())
    }

    /// Changes a subscriber, then passes its events to the listener.
    fn subscriber<T>(&mut self, producer: usize, input: impl FnOnce(&mut Subscriber, &mut Cx<'_>) -> T) -> T {
        let now = Now { moment: self.now(), wall: self.system_time() };
        let result = input(&mut self.subscribers[producer], &mut Cx { now, entropy: &mut Zeros });
        loop {
            match self.subscribers[producer].poll_effect() {
                SubscriberEffect::Idle(_) => break,
                SubscriberEffect::Event(event) => self.listener.handle_event(self.now(), producer, event),
                _ => {}
            }
        }
        self.perform();
        result
    }

    /// Collects effects, and sends replies through the subscriber.
    pub(crate) fn perform(&mut self) {
        loop {
            let effects = self.listener.drain_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.effects.push(effect.clone());
                if let Effect::SendReply { producer, prompt, number, answer } = effect {
                    let result = self.subscriber(producer, |subscriber, cx| subscriber.reply(cx, prompt, answer));
                    self.listener.handle_reply_result(self.now(), number, result.map_err(AnswerError::Refused));
                }
            }
        }
    }

    /// Emits an event of this type with these fields.
    pub(crate) fn event(&mut self, producer: usize, event_type: &str, fields: Value) {
        self.events_sent += 1;
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1",
            "type": format!("aaep:agent.{event_type}"), "event_id": format!("evt_{}", self.events_sent),
            "session_id": "sess_1", "timestamp": self.system_time().to_string(),
            "producer": {"agent_id": format!("agent{producer}"), "agent_name": format!("Agent {producer}")},
            "localization_hints": {"primary_language": "en"}});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let bytes = event.to_string();
        self.subscriber(producer, |subscriber, cx| subscriber.handle_bytes(cx, bytes.as_bytes()));
    }

    /// Asks for consent to something irreversible.
    pub(crate) fn ask(&mut self, producer: usize, token: &str, action: &str) {
        let fields = json!({"urgency": "critical", "action": action, "consequence": "It is gone.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "reject", "irreversible": true, "risk_level": "high"});
        self.event(producer, "awaiting.confirmation", fields);
    }

    /// Asks for consent to something harmless.
    pub(crate) fn ask_harmless(&mut self, token: &str) {
        let fields = json!({"urgency": "critical", "action": "Sort.", "consequence": "Sorted.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "accept", "irreversible": false, "risk_level": "low"});
        self.event(0, "awaiting.confirmation", fields);
    }

    pub(crate) fn enter(&mut self, line: &str) {
        self.listener.handle_line(self.now(), line);
        self.perform();
    }

    pub(crate) fn timeout(&mut self) {
        self.listener.handle_timeout(self.now());
        self.perform();
    }

    /// Returns the printed lines and clears the effects.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        let text = |effect: &Effect| if let Effect::PrintLine(line) = effect { Some(line.to_text()) } else { None };
        let lines = self.effects.iter().filter_map(text).collect();
        self.effects.clear();
        lines
    }

    /// Returns the answers that were sent, with the numbers of their questions.
    pub(crate) fn answers(&self) -> Vec<(u32, PromptAnswer)> {
        let answer = |effect: &Effect| match effect {
            Effect::SendReply { number, answer, .. } => Some((*number, answer.clone())),
            _ => None,
        };
        self.effects.iter().filter_map(answer).collect()
    }

    /// Returns whether an utterance with this text in it was spoken.
    pub(crate) fn spoke(&self, part: &str) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Speak(utterance) | Effect::Respond(utterance) if utterance.text.contains(part)))
    }
}

pub(crate) fn contains(lines: &[String], part: &str) -> bool {
    lines.iter().any(|line| line.contains(part))
}
