//! An engine with a manual clock, and a record of everything that its subscriptions received.

use std::collections::{BTreeMap, BTreeSet};

use aaep_proto::confirm::{AuditRecord, ClarificationOutcome, ConfirmationOutcome};
use aaep_proto::engine::{
    CancelRequest, CloseInfo, Cx, Engine, EngineConfig, EngineEffect, ReplyRejection, ResumePolicy, SessionOptions,
    SubscriptionKey,
};
use aaep_proto::id::{Entropy, ReplyToken, SessionId};
use aaep_proto::message::{CoreType, Event, Message, Payload, Producer, SubscriptionRequest};
use aaep_proto::negotiate::Rejection;
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
const START: i64 = 1_780_000_000_000;

/// An engine with a manual clock that records its effects.
pub struct EngineHarness {
    pub engine: Engine,
    pub entropy: Seeded,
    pub millis: u64,
    /// The offset of the wall clock from the monotonic clock.
    pub skew_millis: i64,
    /// Everything that each subscription received, with the time in milliseconds.
    pub received: BTreeMap<SubscriptionKey, Vec<(u64, Received)>>,
    pub closed: Vec<(SubscriptionKey, CloseInfo)>,
    pub decided: Vec<(ReplyToken, ConfirmationOutcome)>,
    /// When each confirmation was decided.
    pub decided_at: BTreeMap<ReplyToken, u64>,
    pub answered: Vec<(ReplyToken, ClarificationOutcome)>,
    pub audit: Vec<AuditRecord>,
    pub ignored: Vec<ReplyRejection>,
    pub cancel_requests: Vec<(SessionId, CancelRequest)>,
    /// The latest expiry that any subscription received for each question, in milliseconds of the wall clock.
    pub expires: BTreeMap<ReplyToken, i64>,
    /// Subscriptions that a simulation tracks.
    pub known: BTreeSet<SubscriptionKey>,
    /// Tracked subscriptions that count as disconnected.
    pub gone: BTreeSet<SubscriptionKey>,
}

#[derive(Clone, Debug)]
pub enum Received {
    Event(Box<Event>),
    Message(Box<Message>),
}

impl EngineHarness {
    pub fn new() -> EngineHarness {
        EngineHarness::with(|_| {})
    }

    pub fn with(configure: impl FnOnce(&mut EngineConfig)) -> EngineHarness {
        let mut config = EngineConfig::new(Producer::new("tester"));
        configure(&mut config);
        EngineHarness {
            engine: Engine::new(config),
            entropy: Seeded(7),
            millis: 0,
            skew_millis: 0,
            received: BTreeMap::new(),
            closed: Vec::new(),
            decided: Vec::new(),
            decided_at: BTreeMap::new(),
            answered: Vec::new(),
            audit: Vec::new(),
            ignored: Vec::new(),
            cancel_requests: Vec::new(),
            expires: BTreeMap::new(),
            known: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    pub fn wall(&self) -> Timestamp {
        Timestamp::from_millis(START + self.millis as i64 + self.skew_millis)
    }

    /// Gives one input to the engine and records every effect.
    pub fn act<T>(&mut self, input: impl FnOnce(&mut Engine, &mut Cx<'_>) -> T) -> T {
        let now = Now { moment: Moment::from_millis(self.millis), wall: self.wall() };
        let result = input(&mut self.engine, &mut Cx { now, entropy: &mut self.entropy });
        self.drain();
        result
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll_effect() {
                EngineEffect::Event(key, frame) => {
                    let event: Event = serde_json::from_slice(frame.json()).unwrap();
                    assert_eq!(&event, frame.event(), "the JSON is that of the event");
                    if let Some((token, seconds)) = question(&event) {
                        let end = event.envelope.timestamp.plus_seconds(seconds.into()).millis();
                        let expires = self.expires.entry(token).or_insert(end);
                        *expires = end.max(*expires);
                    }
                    let report = aaep_proto::validate(frame.json());
                    assert!(report.is_valid(), "{:?} in {event:?}", report.problems);
                    self.received.entry(key).or_default().push((self.millis, Received::Event(Box::new(event))));
                }
                EngineEffect::Message(key, message) => {
                    let text = serde_json::to_vec(&message).unwrap();
                    assert!(aaep_proto::validate(&text).is_valid(), "{message:?}");
                    self.received.entry(key).or_default().push((self.millis, Received::Message(message)));
                }
                EngineEffect::Closed(key, closing) => self.closed.push((key, closing)),
                EngineEffect::Decided(token, outcome) => {
                    self.decided_at.insert(token.clone(), self.millis);
                    self.decided.push((token, outcome));
                }
                EngineEffect::Answered(token, answer) => self.answered.push((token, answer)),
                EngineEffect::Audit(record) => self.audit.push(*record),
                EngineEffect::Ignored(_, fault) => self.ignored.push(fault),
                EngineEffect::CancelRequested(session, request) => self.cancel_requests.push((session, request)),
                EngineEffect::Journal(_) | EngineEffect::Invoked(..) => {}
                EngineEffect::Idle(_) => return,
            }
        }
    }

    /// Advances the clock and handles every deadline on the way.
    pub fn pass(&mut self, millis: u64) {
        let end = self.millis + millis;
        while let Some(at) = self.engine.next_deadline() {
            let due = at.micros().div_ceil(1000);
            if due > end {
                break;
            }
            self.millis = self.millis.max(due);
            self.act(|engine, cx| engine.handle_timeout(cx));
        }
        self.millis = end;
    }

    pub fn try_join_as(
        &mut self,
        principal: &str,
        binding: ResumePolicy,
        capabilities: Value,
    ) -> Result<SubscriptionKey, Rejection> {
        let request = request(capabilities);
        self.act(|engine, cx| engine.subscribe(cx, &request, principal, binding))
    }

    pub fn join(&mut self, capabilities: Value) -> SubscriptionKey {
        self.try_join_as("user", ResumePolicy::Connection, capabilities).unwrap()
    }

    /// Joins a subscriber that can reply to every question and has no rate limit.
    pub fn join_reader(&mut self) -> SubscriptionKey {
        self.join(json!({"supports_confirmation_reply": true, "supports_clarification_reply": true}))
    }

    pub fn start(&mut self) -> SessionId {
        self.act(|engine, cx| engine.start_session(cx, SessionOptions::new("Working."))).unwrap()
    }

    pub fn reply(&mut self, from: SubscriptionKey, token: &ReplyToken, decision: &str) {
        self.reply_with(from, json!({"type": "confirmation.reply", "reply_token": token, "decision": decision}));
    }

    /// Sends a reply, with valid values for the required fields that it omits.
    pub fn reply_with(&mut self, from: SubscriptionKey, mut reply: Value) {
        let id = self.engine.subscription_id(from).map(ToString::to_string).unwrap_or_else(|| "sub_gone".into());
        for (name, value) in [("subscription_id", json!(id)), ("timestamp", json!(self.wall().to_string()))] {
            if reply.get(name).is_none() {
                reply[name] = value;
            }
        }
        let message = Message::parse(reply.to_string().as_bytes()).unwrap();
        let _ = self.act(|engine, cx| engine.handle_message(cx, from, &message));
    }

    pub fn send(&mut self, from: SubscriptionKey, message: Value) {
        let message = Message::parse(message.to_string().as_bytes()).unwrap();
        self.act(|engine, cx| engine.handle_message(cx, from, &message)).unwrap();
    }

    pub fn events(&self, key: SubscriptionKey) -> Vec<&Event> {
        let all = self.received.get(&key).into_iter().flatten();
        all.filter_map(|(_, r)| if let Received::Event(e) = r { Some(&**e) } else { None }).collect()
    }

    pub fn messages(&self, key: SubscriptionKey) -> Vec<&Message> {
        let all = self.received.get(&key).into_iter().flatten();
        all.filter_map(|(_, r)| if let Received::Message(m) = r { Some(&**m) } else { None }).collect()
    }

    /// Returns the types of the received events without their prefix: `state.changed`.
    pub fn names(&self, key: SubscriptionKey) -> Vec<String> {
        self.events(key).iter().map(|e| e.type_name().replace("aaep:agent.", "")).collect()
    }

    pub fn count(&self, key: SubscriptionKey, core: CoreType) -> usize {
        self.events(key).iter().filter(|e| e.core_type() == Some(core)).count()
    }

    /// Returns the received state changes as `from>to`.
    pub fn states(&self, key: SubscriptionKey) -> Vec<String> {
        let change = |e: &&Event| match &e.payload {
            Payload::StateChanged(c) => Some(format!("{}>{}", c.from_state, c.to_state)),
            _ => None,
        };
        self.events(key).iter().filter_map(change).collect()
    }

    /// Returns the received chunks: text, position, hint, complete.
    pub fn chunks(&self, key: SubscriptionKey) -> Vec<(String, u64, String, bool)> {
        let chunk = |e: &&Event| match &e.payload {
            Payload::OutputStreaming(o) => {
                Some((o.chunk.clone(), o.position, o.coalesce_hint.as_ref().unwrap().to_string(), o.complete))
            }
            _ => None,
        };
        self.events(key).iter().filter_map(chunk).collect()
    }

    pub fn texts(&self, key: SubscriptionKey) -> Vec<String> {
        self.chunks(key).into_iter().map(|c| c.0).collect()
    }

    pub fn clear(&mut self) {
        self.received.clear();
    }
}

/// Returns the token and the timeout in seconds if the event is a question.
fn question(event: &Event) -> Option<(ReplyToken, u32)> {
    match &event.payload {
        Payload::AwaitingConfirmation(q) => Some((q.reply_token.clone(), q.timeout_seconds)),
        Payload::AwaitingClarification(q) => Some((q.reply_token.clone(), q.timeout_seconds)),
        _ => None,
    }
}

pub fn request(capabilities: Value) -> SubscriptionRequest {
    let document = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader", "capabilities": capabilities});
    match Message::parse(document.to_string().as_bytes()).unwrap() {
        Message::SubscriptionRequest(request) => *request,
        other => panic!("{other:?}"),
    }
}
