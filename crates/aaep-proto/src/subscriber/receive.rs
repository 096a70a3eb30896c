//! Receives messages: parses and validates them, drops duplicates, restores their order and limits their rate.

use std::sync::Arc;

use super::order::{NumberOrder, Ordered};
use super::{ConnectionPhase, Cx, Gap, Notice, Subscriber, SubscriberEffect, SubscriberEvent};
use crate::confirm::reported_outcome;
use crate::id::SessionId;
use crate::json::Json;
use crate::limits;
use crate::message::{Event, Message, Payload};
use crate::rule::Severity;
use crate::sequence::recent::{fingerprint, fingerprint_of};
use crate::validate::Validator;

/// A session, with the fingerprint of its agent's id.
pub(super) type SessionKey = (u64, SessionId);

/// What a subscriber keeps of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct FollowedSession {
    pub(super) order: NumberOrder,
    last_seen: u64,
    /// The producer names the question that a state change ends, so the change does not end others.
    pub(super) names_outcomes: bool,
}

/// Returns whether an event is delivered before those that wait. The outcome of a question is: after the next question it
/// would be understood as the outcome of that one.
pub(super) fn is_urgent(event: &Event) -> bool {
    event.is_critical() || reported_outcome(event).is_some()
}

pub(super) fn session_key(event: &Event) -> SessionKey {
    (fingerprint(&event.envelope.producer.agent_id), event.envelope.session_id.clone())
}

impl Subscriber {
    /// Handles the bytes of one message from the producer.
    pub fn handle_bytes(&mut self, cx: &mut Cx<'_>, bytes: &[u8]) {
        self.handle_activity(cx);
        if !self.is_connected() {
            return;
        }
        if bytes.len() > limits::MESSAGE_BYTES {
            let why = format!("it has {} bytes, the most are {}.", bytes.len(), limits::MESSAGE_BYTES);
            return self.malformed(cx, &why);
        }
        let json = match Json::parse_from_peer(bytes) {
            Ok(json) => json,
            Err(error) => return self.malformed(cx, &error.to_string()),
        };
        match Message::from_json(&json) {
            Err(error) => self.malformed(cx, &error.to_string()),
            Ok(message) => {
                let report = Validator::new().check_json(&json, Some(bytes.len()));
                let worst = report.problems.into_iter().find(|p| p.severity == Severity::Error);
                if let Some(problem) = worst {
                    self.notice(cx, Notice::Violation(problem.rule, Notice::clip(&problem.message)));
                }
                self.take(cx, message);
            }
        }
    }

    /// Handles one parsed message from the producer.
    pub fn handle_message(&mut self, cx: &mut Cx<'_>, message: Message) {
        self.handle_activity(cx);
        if self.is_connected() {
            self.take(cx, message);
        }
    }

    /// Handles a message that the transport could not deliver, because it was too long or not text.
    pub fn handle_unreadable(&mut self, cx: &mut Cx<'_>, why: &str) {
        self.handle_activity(cx);
        if self.is_connected() {
            self.malformed(cx, why);
        }
    }

    fn malformed(&mut self, cx: &Cx<'_>, why: &str) {
        self.counts.messages += 1;
        self.counts.malformed += 1;
        self.notice(cx, Notice::Malformed(Notice::clip(why)));
    }

    fn take(&mut self, cx: &mut Cx<'_>, message: Message) {
        self.counts.messages += 1;
        match message {
            Message::Event(event) => self.take_event(cx, *event),
            Message::SubscriptionAccepted(accepted) => self.accepted(cx, *accepted),
            Message::SubscriptionRejected(rejected) => self.rejected(cx, *rejected),
            Message::SubscriptionClose(close) => self.closed_by_producer(cx, &close),
            Message::CancellationRefused(refused) => self.cancel_refused(cx, &refused),
            Message::Manifest(_) => {}
            _ => self.notice(cx, Notice::Unexpected("only subscribers send it")),
        }
    }

    fn take_event(&mut self, cx: &mut Cx<'_>, event: Event) {
        self.counts.events += 1;
        // A subscriber that demands a signed manifest trusts no event before the manifest is checked.
        if self.phase != ConnectionPhase::Live && self.terms.wants_signed() {
            return self.notice(cx, Notice::BeforeTerms);
        }
        let event = Arc::new(event);
        if self.is_duplicate(cx, &event) {
            return;
        }
        self.last_event = Some(event.envelope.event_id.clone());
        let key = session_key(&event);
        self.follow(cx, &key);
        let mut ordered = Vec::new();
        if let Some(session) = self.sessions.get_mut(&key) {
            session.last_seen = self.clock;
            session.order.push(event.clone(), is_urgent(&event), cx.now.moment, &mut ordered);
        }
        self.deliver_ordered(cx, &key, ordered);
        let waiting = self.sessions.values().map(|s| s.order.waiting()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        if waiting.0 > limits::EARLY_EVENTS || waiting.1 > limits::EARLY_BYTES {
            self.flush_order(cx, false);
        }
    }

    /// Returns whether the same event was received before (8.2.4). A different event with its id is delivered, since it
    /// may be critical.
    fn is_duplicate(&mut self, cx: &Cx<'_>, event: &Event) -> bool {
        let agent = fingerprint(&event.envelope.producer.agent_id);
        let content = fingerprint_of(event);
        let id = &event.envelope.event_id;
        match self.event_ids.remember(&format!("{agent:x} {id}"), content) {
            None => false,
            Some(known) if known == content => {
                self.counts.duplicates += 1;
                true
            }
            Some(_) => {
                self.notice(cx, Notice::ReusedId(id.clone()));
                false
            }
        }
    }

    /// Starts to follow the session if it is new, and stops to follow the one that was idle longest if there are too many.
    fn follow(&mut self, cx: &mut Cx<'_>, key: &SessionKey) {
        self.clock += 1;
        if self.sessions.contains_key(key) {
            return;
        }
        if self.sessions.len() >= limits::FOLLOWED_SESSIONS {
            let silent = self.sessions.iter().min_by_key(|(_, s)| s.last_seen).map(|(key, _)| key.clone());
            if let Some(silent) = silent {
                self.stop_following(cx, &silent);
            }
        }
        self.sessions.insert(key.clone(), FollowedSession::default());
    }

    /// Stops following a session and delivers its early events.
    fn stop_following(&mut self, cx: &mut Cx<'_>, key: &SessionKey) {
        let Some(mut session) = self.sessions.remove(key) else { return };
        let mut ordered = Vec::new();
        session.order.flush(&mut ordered);
        self.deliver_ordered(cx, key, ordered);
    }

    fn deliver_ordered(&mut self, cx: &mut Cx<'_>, key: &SessionKey, ordered: Vec<Ordered>) {
        for item in ordered {
            match item {
                Ordered::Event(event) => self.deliver(cx, key, event),
                Ordered::Late(event) => {
                    self.counts.out_of_order += 1;
                    self.notice(cx, Notice::OutOfOrder(key.1.clone()));
                    self.deliver(cx, key, event);
                }
                Ordered::Missing(first, last) => {
                    let session = key.1.clone();
                    self.emit(SubscriberEvent::Gap(Gap::Numbers { session, first, last }));
                }
            }
        }
    }

    fn deliver(&mut self, cx: &mut Cx<'_>, key: &SessionKey, event: Arc<Event>) {
        let now = cx.now.moment;
        self.end_resolved_prompts(cx, key, &event);
        let mut released = Vec::new();
        let effect = self.flood.push(event.clone(), memory_size(&event), now, &mut released);
        self.counts.folded += effect.folded;
        self.counts.dropped += effect.dropped;
        if effect.began {
            self.notice(cx, Notice::Flood(self.flood.most()));
        }
        if effect.critical_flood {
            self.notice(cx, Notice::CriticalFlood(limits::CRITICAL_EVENTS_PER_SECOND));
        }
        self.out.extend(released.into_iter().map(|event| SubscriberEffect::Event(SubscriberEvent::Event(event))));
        if matches!(event.payload, Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_)) {
            self.open_prompt(cx, key, event);
        } else if event.core_type().is_some_and(|core| core.is_terminal()) {
            self.stop_following(cx, key);
        }
    }

    /// Skips missing events whose time is over.
    pub(super) fn skip_missing(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.moment;
        let due: Vec<SessionKey> = self
            .sessions
            .iter()
            .filter(|(_, s)| s.order.due().is_some_and(|at| at <= now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            let mut ordered = Vec::new();
            if let Some(session) = self.sessions.get_mut(&key) {
                session.order.give_up(now, &mut ordered);
            }
            self.deliver_ordered(cx, &key, ordered);
        }
    }

    /// Delivers all early events. With `restart`, the numbering of every session starts over, as in a new subscription.
    pub(super) fn flush_order(&mut self, cx: &mut Cx<'_>, restart: bool) {
        let keys: Vec<SessionKey> = self.sessions.keys().cloned().collect();
        for key in keys {
            let mut ordered = Vec::new();
            if let Some(session) = self.sessions.get_mut(&key) {
                if restart {
                    session.order.restart(&mut ordered);
                } else {
                    session.order.flush(&mut ordered);
                }
            }
            self.deliver_ordered(cx, &key, ordered);
        }
    }

    /// Releases queued events as far as the rate allows.
    pub(super) fn release_held(&mut self, cx: &mut Cx<'_>) {
        let mut released = Vec::new();
        let over = self.flood.release(cx.now.moment, &mut released);
        self.out.extend(released.into_iter().map(|event| SubscriberEffect::Event(SubscriberEvent::Event(event))));
        if let Some((folded, dropped)) = over {
            self.notice(cx, Notice::FloodOver(folded, dropped));
        }
    }

    /// Returns how many events and bytes are queued, for tests of the bounds.
    #[doc(hidden)]
    pub fn waiting(&self) -> (usize, usize) {
        let early: usize = self.sessions.values().map(|s| s.order.waiting().0).sum();
        let (held, bytes) = self.flood.held();
        (early + held, bytes)
    }

    fn is_connected(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Requested | ConnectionPhase::Live)
    }
}

/// Returns about how many bytes an event takes in memory, without allocating, so that queues can be bounded.
pub fn memory_size(event: &Event) -> usize {
    /// The approximate overhead of a map with its first entry, and of a value beside its text.
    const MAP: usize = 640;
    const VALUE: usize = 32;
    struct JsonWeight(usize);
    impl std::io::Write for JsonWeight {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The serializer writes each punctuation mark by itself. A text that equals one is overestimated.
            self.0 += match bytes {
                b"{" => MAP,
                b"[" | b"," => VALUE,
                _ => bytes.len(),
            };
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = JsonWeight(0);
    // The writer never fails, and every event can be serialized.
    let _ = serde_json::to_writer(&mut count, event);
    count.0
}
