//! A producer, an announcer and a voice on one clock that tests advance.

use std::collections::BTreeMap;

use aaep_announce::{Announcer, Pacer, Profile, Utterance};
use aaep_proto::confirm::{ConfirmationOutcome, Permit};
use aaep_proto::engine::{Cx, Engine, EngineConfig, EngineEffect, ResumePolicy, SubscriptionKey};
use aaep_proto::id::{Entropy, ReplyToken};
use aaep_proto::message::{Event, Message, Payload, Producer, SubscriptionRequest};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

use crate::voice::SimulatedVoice;

/// Random bytes that are the same in every run.
struct Seeded(u64);

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for b in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *b = (self.0 >> 56) as u8;
        }
    }
}

pub(crate) struct ListenerHarness {
    engine: Engine,
    entropy: Seeded,
    millis: u64,
    key: Option<SubscriptionKey>,
    pub(crate) announcer: Announcer,
    pub(crate) pacer: Pacer,
    pub(crate) voice: SimulatedVoice,
    permits: BTreeMap<ReplyToken, Permit>,
    /// The questions that the listener received, and when.
    pub(crate) asked: Vec<(ReplyToken, u64)>,
    /// All output that the producer sent.
    pub(crate) sent: String,
}

impl ListenerHarness {
    /// Creates a listener with this profile, subscribed with its capabilities to an agent that offers these languages.
    pub(crate) fn new(profile: Profile, languages: &[&str]) -> ListenerHarness {
        let mut config = EngineConfig::new(Producer::new("helper").with_name("Helper"));
        config.offer.languages = languages.iter().map(|l| l.parse().unwrap()).collect();
        let request = SubscriptionRequest::new("reader", profile.capabilities());
        let mut harness = ListenerHarness {
            engine: Engine::new(config),
            entropy: Seeded(7),
            millis: 0,
            key: None,
            voice: SimulatedVoice::new(profile.pace_wpm.into()),
            pacer: Pacer::new(&profile),
            announcer: Announcer::new(profile),
            permits: BTreeMap::new(),
            asked: Vec::new(),
            sent: String::new(),
        };
        let key =
            harness.update(|engine, cx| engine.subscribe(cx, &request, "user", ResumePolicy::Connection)).unwrap();
        harness.key = Some(key);
        harness
    }

    fn moment(&self) -> Moment {
        Moment::from_millis(self.millis)
    }

    fn system_time(&self) -> Timestamp {
        Timestamp::from_millis(1_780_000_000_000 + self.millis as i64)
    }

    /// Changes the engine once, then drains its outputs.
    pub(crate) fn update<T>(&mut self, input: impl FnOnce(&mut Engine, &mut Cx<'_>) -> T) -> T {
        let now = Now { moment: self.moment(), wall: self.system_time() };
        let result = input(&mut self.engine, &mut Cx { now, entropy: &mut self.entropy });
        loop {
            match self.engine.poll_effect() {
                EngineEffect::Event(_, frame) => {
                    let event: Event = serde_json::from_slice(frame.json()).unwrap();
                    self.receive(&event);
                }
                EngineEffect::Decided(token, ConfirmationOutcome { permit: Some(permit), .. }) => {
                    self.permits.insert(token, permit);
                }
                EngineEffect::Idle(_) => return result,
                _ => {}
            }
        }
    }

    /// Receives a recording with its own pauses.
    pub(crate) fn replay(&mut self, lines: &str) {
        let mut before: Option<Timestamp> = None;
        for line in lines.lines().filter(|line| line.contains("\"event_id\"")) {
            let event: Event = serde_json::from_str(line).unwrap();
            let at = event.envelope.timestamp;
            let pause = before.map_or(0, |before| at.micros().saturating_sub(before.micros()) / 1000);
            before = Some(at);
            self.advance_ms(u64::try_from(pause).unwrap_or(0));
            self.receive(&event);
        }
    }

    fn receive(&mut self, event: &Event) {
        match &event.payload {
            Payload::AwaitingConfirmation(q) => self.asked.push((q.reply_token.clone(), self.millis)),
            Payload::AwaitingClarification(q) => self.asked.push((q.reply_token.clone(), self.millis)),
            Payload::OutputStreaming(o) => self.sent.push_str(&o.chunk),
            _ => {}
        }
        let said = self.announcer.announce(self.moment(), event);
        self.speak(said);
    }

    fn speak(&mut self, utterances: Vec<Utterance>) {
        let now = self.moment();
        for utterance in self.pacer.push(now, utterances) {
            self.voice.speak(self.millis, utterance);
        }
    }

    /// Advances the clock and handles every deadline.
    pub(crate) fn advance_ms(&mut self, millis: u64) {
        let end = self.millis + millis;
        loop {
            let due = |at: Option<Moment>| at.map(|at| at.micros().div_ceil(1000));
            let (engine, announcer) = (due(self.engine.next_deadline()), due(self.announcer.next_deadline()));
            let pacer = due(self.pacer.next_deadline());
            let dues = [engine, announcer, pacer].into_iter().flatten();
            let Some(next) = dues.min().filter(|next| *next <= end) else { break };
            self.millis = self.millis.max(next);
            for utterance in self.pacer.handle_timeout(self.moment()) {
                self.voice.speak(self.millis, utterance);
            }
            if engine.is_some_and(|at| at <= self.millis) {
                self.update(|engine, cx| engine.handle_timeout(cx));
            }
            if announcer.is_some_and(|at| at <= self.millis) {
                let said = self.announcer.handle_timeout(self.moment());
                self.speak(said);
            }
        }
        self.millis = end;
    }

    /// Sends a reply of the user.
    pub(crate) fn reply(&mut self, mut reply: Value) {
        let key = self.key.unwrap();
        reply["subscription_id"] = json!(self.engine.subscription_id(key).unwrap());
        reply["timestamp"] = json!(self.system_time().to_string());
        let message = Message::parse(reply.to_string().as_bytes()).unwrap();
        self.update(|engine, cx| engine.handle_message(cx, key, &message)).unwrap();
    }

    pub(crate) fn permit(&mut self, token: &ReplyToken) -> Permit {
        self.permits.remove(token).unwrap()
    }
}
