//! The simulation of one seed: an engine, its agents and subscribers, and the checks after every step.

use std::collections::{BTreeMap, BTreeSet};

use aaep_proto::confirm::Resolution;
use aaep_proto::engine::{ResumePolicy, SubscriptionKey};
use aaep_proto::id::{OutputId, ReplyToken};
use aaep_proto::limits;
use aaep_proto::message::{CoreType, Decision, Event, Urgency};
use aaep_proto::time::Timestamp;
use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization;

use crate::agent::Session;
use crate::check;
use crate::harness::{EngineHarness, Received};
use crate::random::Random;
use crate::subscriber::{SimulatedSubscriber, change, wish};
use crate::totals::Totals;

const STEPS: usize = 120;

/// A reply on its way to the producer.
struct Flying {
    arrives: u64,
    from: SubscriptionKey,
    reply: Value,
}

struct Sim {
    harness: EngineHarness,
    random: Random,
    sessions: Vec<Session>,
    /// Sessions that ended. Their questions must never be resolved again.
    subscribers: BTreeMap<SubscriptionKey, SimulatedSubscriber>,
    flying: Vec<Flying>,
    settled: BTreeSet<ReplyToken>,
    /// The full text of finished outputs, and when they were opened.
    finished: Vec<(OutputId, String, usize)>,
    began: BTreeMap<OutputId, usize>,
    /// A subscription without limits that never leaves, in half of the runs. The events it receives are the reference.
    observer: Option<SubscriptionKey>,
    totals: Totals,
    step: usize,
}

pub fn seed(seed: u64) -> Totals {
    let mut producers: Vec<Sim> = (0..1 + seed % 3).map(|n| Sim::new(seed * 7 + n)).collect();
    for step in 0..STEPS {
        for sim in &mut producers {
            sim.step = step;
            sim.do_something();
            sim.check_step();
        }
    }
    let mut totals = Totals::default();
    for mut sim in producers {
        sim.wind_down();
        totals.add(&sim.totals);
    }
    totals
}

impl Sim {
    fn new(seed: u64) -> Sim {
        let mut harness = EngineHarness::new();
        harness.entropy.0 = seed;
        let observer = seed.is_multiple_of(2).then(|| harness.join(json!({})));
        harness.known.extend(observer);
        let subscribers =
            observer.map(|key| (key, SimulatedSubscriber::new(key, ResumePolicy::Connection, &json!({}), false, 0)));
        Sim {
            harness,
            random: Random(seed),
            observer,
            sessions: Vec::new(),
            subscribers: subscribers.into_iter().collect(),
            flying: Vec::new(),
            settled: BTreeSet::new(),
            finished: Vec::new(),
            began: BTreeMap::new(),
            totals: Totals::default(),
            step: 0,
        }
    }

    fn do_something(&mut self) {
        match self.random.below(20) {
            0 | 1 if self.subscribers.len() < 6 => self.join(),
            2 => self.leave(),
            3 => self.renegotiate(),
            4 => self.block(),
            5 | 6 if self.sessions.len() < 3 => {
                let session = Session::start(&mut self.harness);
                self.sessions.push(session);
            }
            7 | 8 => self.reply(),
            9 | 10 => self.pass_time(),
            11 => self.harness.skew_millis = self.random.below(20_000) as i64 - 10_000,
            _ => self.act(),
        }
        self.land();
    }

    fn join(&mut self) {
        let wish = wish(&mut self.random);
        let binding = if self.random.chance(30) { ResumePolicy::Resumable } else { ResumePolicy::Connection };
        let key = self.harness.try_join_as("user", binding, wish.clone()).unwrap();
        self.harness.known.insert(key);
        let midway = !self.sessions.is_empty();
        self.subscribers.insert(key, SimulatedSubscriber::new(key, binding, &wish, midway, self.step));
    }

    fn pick_subscriber(&mut self) -> Option<SubscriptionKey> {
        let keys: Vec<SubscriptionKey> =
            self.subscribers.keys().copied().filter(|k| Some(*k) != self.observer).collect();
        (!keys.is_empty()).then(|| *self.random.pick(&keys))
    }

    fn leave(&mut self) {
        let Some(key) = self.pick_subscriber() else { return };
        let subscriber = &self.subscribers[&key];
        match (subscriber.binding, subscriber.away, self.random.below(3)) {
            (ResumePolicy::Resumable, true, _) => {
                self.harness.act(|e, cx| e.reconnect(cx, key)).unwrap();
                self.harness.gone.remove(&key);
                let subscriber = self.subscribers.get_mut(&key).unwrap();
                (subscriber.away, subscriber.gone_at, subscriber.blocked) = (false, None, false);
            }
            (ResumePolicy::Resumable, false, 0 | 1) => {
                self.harness.act(|e, cx| e.disconnect(cx, key));
                let gone = self.harness.millis + 15_000;
                let subscriber = self.subscribers.get_mut(&key).unwrap();
                (subscriber.away, subscriber.gone_at) = (true, Some(gone));
            }
            (ResumePolicy::Connection, _, 0) => self.harness.act(|e, cx| e.disconnect(cx, key)),
            _ if self.random.chance(50) => {
                let id = self.harness.engine.subscription_id(key).unwrap().clone();
                self.harness.send(key, json!({"type": "subscription.close", "subscription_id": id}));
            }
            _ => {}
        }
    }

    fn renegotiate(&mut self) {
        let Some(key) = self.pick_subscriber() else { return };
        let change = change(&mut self.random);
        let id = self.harness.engine.subscription_id(key).unwrap().clone();
        // Events received before follow the old terms.
        self.check_step();
        self.harness
            .send(key, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": change}));
        if let Some(subscriber) = self.subscribers.get_mut(&key) {
            let fields: aaep_proto::message::Capabilities = serde_json::from_value(change).unwrap();
            let old = subscriber.rate();
            macro_rules! take {
                ($($f:ident),+) => { $( if fields.fields.$f.is_some() { subscriber.capabilities.fields.$f = fields.fields.$f.clone(); } )+ };
            }
            take!(
                max_events_per_second,
                supports_confirmation_reply,
                supports_clarification_reply,
                coalesce_boundaries,
                cognitive_load,
                pace_wpm
            );
            if subscriber.rate() != old {
                subscriber.paced.clear();
            }
            subscriber.constant = false;
        }
    }

    fn block(&mut self) {
        let Some(key) = self.pick_subscriber() else { return };
        let subscriber = self.subscribers.get_mut(&key).unwrap();
        if !subscriber.away {
            subscriber.blocked = !subscriber.blocked;
            let blocked = subscriber.blocked;
            self.harness.act(|e, cx| e.set_blocked(cx, key, blocked));
        }
    }

    fn act(&mut self) {
        if self.sessions.is_empty() {
            return;
        }
        let index = self.random.below(self.sessions.len());
        let before: BTreeSet<OutputId> = self.sessions[index].outputs.keys().cloned().collect();
        let (ended, finished) = self.sessions[index].step(&mut self.harness, &mut self.random);
        for id in self.sessions[index].outputs.keys().filter(|id| !before.contains(*id)) {
            self.began.insert(id.clone(), self.step);
        }
        for (id, text) in finished {
            let began = self.began[&id];
            self.finished.push((id, text, began));
            self.totals.outputs += 1;
        }
        self.take_outcomes();
        if ended {
            let session = self.sessions.remove(index);
            assert!(session.ran <= session.agreed, "more irreversible calls ran than were agreed to");
            self.totals.irreversible += session.ran;
            self.settled.extend(session.questions.into_keys());
        }
    }

    /// Sends a valid or invalid reply, which may be delayed, lost or duplicated.
    fn reply(&mut self) {
        let Some(from) = self.pick_subscriber() else { return };
        let mut tokens: Vec<ReplyToken> = self.subscribers[&from].prompts.clone();
        tokens.extend(self.sessions.iter().flat_map(|s| s.questions.keys().cloned()));
        tokens.extend(self.settled.iter().next().cloned());
        if self.random.chance(5) || tokens.is_empty() {
            tokens = vec!["rpl_forged".parse().unwrap()];
        }
        let token = self.random.pick(&tokens).clone();
        let confirmation = self.question(&token).is_none_or(|q| q.confirmation) || self.random.chance(5);
        let decision = if self.random.chance(60) { "accept" } else { "reject" };
        let mut reply = match confirmation {
            true => json!({"type": "confirmation.reply", "reply_token": token, "decision": decision}),
            false => json!({"type": "clarification.reply", "reply_token": token, "response": self.random.chance(50)}),
        };
        let at = match self.random.below(10) {
            0 => self.harness.wall().millis() - 60_000,
            1 => self.harness.wall().millis() + 400_000,
            _ => self.harness.wall().millis(),
        };
        reply["timestamp"] = json!(Timestamp::from_millis(at).to_string());
        if self.random.chance(10) {
            reply["subscription_id"] = json!("sub_stolen");
        }
        let lost = self.random.chance(10);
        let copies = if self.random.chance(20) { 2 } else { 1 };
        for _ in 0..if lost { 0 } else { copies } {
            let arrives = self.harness.millis + self.random.below(3_000) as u64;
            self.flying.push(Flying { arrives, from, reply: reply.clone() });
        }
    }

    /// Delivers the replies that have arrived, and checks the result of each.
    fn land(&mut self) {
        self.flying.sort_by_key(|f| f.arrives);
        while self.flying.first().is_some_and(|f| f.arrives <= self.harness.millis) {
            let flying = self.flying.remove(0);
            if self.harness.engine.subscription_id(flying.from).is_none() {
                continue;
            }
            let token: ReplyToken = serde_json::from_value(flying.reply["reply_token"].clone()).unwrap();
            // A question in a blocked link was not received, so it cannot be answered.
            let subscriber = &self.subscribers[&flying.from];
            if (subscriber.blocked || subscriber.away) && !self.was_handed(&flying, &token) {
                continue;
            }
            let counts = self.should_count(&flying, &token);
            let (decided, answered, ignored) =
                (self.harness.decided.len(), self.harness.answered.len(), self.harness.ignored.len());
            self.harness.reply_with(flying.from, flying.reply.clone());
            let settled = self.harness.decided.len() + self.harness.answered.len() - decided - answered;
            assert_eq!(settled == 1, counts, "{} {:?}", flying.reply, self.harness.ignored.last());
            assert_eq!(self.harness.ignored.len() - ignored, usize::from(!counts));
            if counts && let Some((_, outcome)) = self.harness.decided.last() {
                let yes = flying.reply["decision"] == "accept";
                assert_eq!(outcome.decision == Decision::Accept, yes);
            }
            self.take_outcomes();
        }
    }

    fn question(&self, token: &ReplyToken) -> Option<&crate::agent::Asked> {
        self.sessions.iter().find_map(|s| s.questions.get(token))
    }

    /// Returns whether the subscriber has received the question.
    fn was_handed(&self, flying: &Flying, token: &ReplyToken) -> bool {
        let just_now = self.harness.received.get(&flying.from).into_iter().flatten();
        self.subscribers[&flying.from].prompts.contains(token)
            || just_now.into_iter().any(|(_, r)| matches!(r, Received::Event(e) if check_token(e, token)))
    }

    /// An independent implementation of the checks of chapter 6.
    fn should_count(&self, flying: &Flying, token: &ReplyToken) -> bool {
        let Some(question) = self.question(token) else { return false };
        let subscriber = &self.subscribers[&flying.from];
        let kind =
            if flying.reply["type"] == "confirmation.reply" { question.confirmation } else { !question.confirmation };
        let capable = if question.confirmation { subscriber.can_confirm() } else { subscriber.can_clarify() };
        let capable = capable && !self.harness.gone.contains(&flying.from);
        let handed = self.was_handed(flying, token);
        let at: Timestamp = serde_json::from_value(flying.reply["timestamp"].clone()).unwrap();
        let expires = self.harness.expires.get(token).copied().unwrap_or(i64::MAX);
        let in_time = self.harness.millis < question.deadline_millis
            && at.millis() < expires
            && at.millis() + 5_000 >= question.asked_wall_millis;
        !question.settled && kind && capable && handed && in_time && flying.reply.get("subscription_id").is_none()
    }

    fn pass_time(&mut self) {
        let millis = *self.random.pick(&[10, 200, 1_000, 4_000, 20_000, 300_000]);
        let end = self.harness.millis + millis;
        // Replies arrive on the way.
        while let Some(next) = self.flying.iter().map(|f| f.arrives).filter(|a| *a <= end).min() {
            let step = next.saturating_sub(self.harness.millis);
            self.harness.pass(step);
            self.note_gone();
            self.take_outcomes();
            self.land();
        }
        let rest = end.saturating_sub(self.harness.millis);
        self.harness.pass(rest);
        self.note_gone();
        self.take_outcomes();
    }

    fn note_gone(&mut self) {
        for (key, subscriber) in &self.subscribers {
            if subscriber.gone_at.is_some_and(|at| at <= self.harness.millis) {
                self.harness.gone.insert(*key);
            }
        }
    }

    /// Checks the outcomes: each question is resolved once, with a valid resolution.
    fn take_outcomes(&mut self) {
        for (token, outcome) in std::mem::take(&mut self.harness.decided) {
            assert!(self.settled.insert(token.clone()), "{token} was decided twice");
            let accepted = outcome.decision == Decision::Accept;
            match outcome.resolution {
                Resolution::Accepted => self.totals.accepted += 1,
                Resolution::Rejected => self.totals.rejected += 1,
                Resolution::TimedOut => self.totals.timed_out += 1,
                Resolution::SubscriberLeft => self.totals.left += 1,
                Resolution::NobodyCouldAnswer => self.totals.nobody += 1,
                _ => assert!(!accepted),
            }
            for session in &mut self.sessions {
                let Some(question) = session.questions.get_mut(&token) else { continue };
                question.settled = true;
                if outcome.resolution == Resolution::TimedOut {
                    assert!(self.harness.millis >= question.deadline_millis, "timed out too early");
                }
                assert!(
                    !accepted || outcome.resolution == Resolution::Accepted || question.default_accept,
                    "silence started something"
                );
                // An independent implementation of decision 60.
                let said_yes = outcome.resolution == Resolution::Accepted;
                let consents = accepted && question.irreversible && (said_yes || question.low_risk);
                assert_eq!(outcome.permit.is_some(), consents, "{outcome:?}");
                if accepted && !consents {
                    self.totals.harmless += 1;
                }
                if let Some(permit) = outcome.permit {
                    session.agreed += 1;
                    session.permits.push((permit, question.call.clone().unwrap(), self.harness.decided_at[&token]));
                }
                break;
            }
        }
        for (token, _) in std::mem::take(&mut self.harness.answered) {
            assert!(self.settled.insert(token.clone()), "{token} was answered twice");
            self.sessions.iter_mut().filter_map(|s| s.questions.get_mut(&token)).for_each(|q| q.settled = true);
        }
        self.totals.ignored += std::mem::take(&mut self.harness.ignored).len();
        for session in &self.sessions {
            let late = session.questions.values().find(|q| !q.settled && q.deadline_millis < self.harness.millis);
            assert!(late.is_none(), "a question outlived its deadline");
        }
    }

    /// Checks the events that all subscribers received in this step.
    fn check_step(&mut self) {
        self.take_outcomes();
        let received = std::mem::take(&mut self.harness.received);
        let closed: BTreeSet<SubscriptionKey> =
            std::mem::take(&mut self.harness.closed).into_iter().map(|(k, _)| k).collect();
        self.totals.closed += closed.len();
        let mut critical: BTreeMap<String, Event> = BTreeMap::new();
        for (key, items) in &received {
            let events: Vec<(u64, Event)> = items
                .iter()
                .filter_map(|(at, r)| if let Received::Event(e) = r { Some((*at, (**e).clone())) } else { None })
                .collect();
            self.totals.events += events.len();
            for (_, event) in events.iter().filter(|_| Some(*key) == self.observer) {
                if *event.urgency() == Urgency::Critical {
                    critical.insert(event.envelope.event_id.to_string(), event.clone());
                }
            }
            if let Some(subscriber) = self.subscribers.get_mut(key) {
                check::check_honored(items, subscriber);
                check::received(subscriber, &events, closed.contains(key));
            }
            self.check_text_first(*key, &events);
        }
        self.check_critical(&received, &critical, &closed);
        for key in &closed {
            self.subscribers.remove(key);
            self.harness.known.remove(key);
        }
        for (key, subscriber) in &self.subscribers {
            let waiting = self.harness.engine.waiting(*key);
            assert!(waiting <= limits::OUTBOX_EVENTS, "{waiting} events wait");
            assert!(!subscriber.is_unlimited() || waiting == 0, "events wait for a subscriber without limits");
        }
    }

    /// Checks that a complete sentence is delivered before the events that follow it in its session.
    fn check_text_first(&self, key: SubscriptionKey, events: &[(u64, Event)]) {
        let Some(subscriber) = self.subscribers.get(&key).filter(|subscriber| subscriber.gets_sentences()) else {
            return;
        };
        for session in &self.sessions {
            let last = events.iter().rev().find(|(_, event)| event.envelope.session_id == session.id);
            if last.is_some_and(|(_, event)| event.core_type() != Some(CoreType::OutputStreaming)) {
                for (output, text) in &session.outputs {
                    let written: String = text.nfc().collect();
                    check::nothing_finished_is_missing(subscriber, output.as_str(), &written);
                }
            }
        }
    }

    /// Checks that every connected subscriber received each critical event in the same step as the observer.
    fn check_critical(
        &self,
        received: &BTreeMap<SubscriptionKey, Vec<(u64, Received)>>,
        critical: &BTreeMap<String, Event>,
        closed: &BTreeSet<SubscriptionKey>,
    ) {
        for (id, event) in critical {
            for (key, subscriber) in &self.subscribers {
                let open = !subscriber.blocked && !subscriber.away && !closed.contains(key);
                if open && subscriber.joined_at_step < self.step {
                    let is_it = |r: &Received| matches!(r, Received::Event(e) if e.envelope.event_id.as_str() == id);
                    let got = received.get(key).into_iter().flatten().any(|(_, r)| is_it(r));
                    // It may have received the question in an earlier step, before the observer subscribed.
                    let had = subscriber.prompts.iter().any(|t| check_token(event, t));
                    assert!(got || had, "{key:?} lacks the critical event {event:?}");
                }
            }
        }
    }

    /// Unblocks all subscribers and lets time pass, then checks that they received everything that was written.
    fn wind_down(&mut self) {
        for key in self.subscribers.keys().copied().collect::<Vec<_>>() {
            let _ = self.harness.act(|e, cx| e.reconnect(cx, key));
            self.harness.act(|e, cx| e.set_blocked(cx, key, false));
            let subscriber = self.subscribers.get_mut(&key).unwrap();
            (subscriber.blocked, subscriber.away, subscriber.gone_at) = (false, false, None);
        }
        self.harness.gone.clear();
        self.check_step();
        for mut session in std::mem::take(&mut self.sessions) {
            let id = session.id.clone();
            for (output, text) in std::mem::take(&mut session.outputs) {
                let began = self.began[&output];
                self.finished.push((output, text, began));
            }
            self.harness.act(|e, cx| e.cancel_session(cx, &id, "system".into(), "The end.")).unwrap();
            self.settled.extend(session.questions.into_keys());
            self.harness.decided.clear();
            self.harness.answered.clear();
        }
        for _ in 0..200 {
            self.harness.pass(30_000);
            self.harness.decided.clear();
            self.check_step();
            if self.harness.engine.next_deadline().is_none() {
                break;
            }
        }
        assert_eq!(self.harness.engine.next_deadline(), None, "a timer is left behind");
        for subscriber in self.subscribers.values().filter(|l| l.filter.passes_core(CoreType::OutputStreaming)) {
            for (id, truth, began) in &self.finished {
                if *began <= subscriber.joined_at_step {
                    continue;
                }
                let truth: String = truth.nfc().collect();
                let got = subscriber.texts.get(id.as_str()).unwrap_or_else(|| panic!("{id} never came"));
                assert_eq!((got.0, &got.1, got.2), (0, &truth, true), "the whole text of {id}");
            }
        }
    }
}

fn check_token(event: &Event, token: &ReplyToken) -> bool {
    use aaep_proto::message::Payload::*;
    matches!(&event.payload, AwaitingConfirmation(c) if c.reply_token == *token)
        || matches!(&event.payload, AwaitingClarification(c) if c.reply_token == *token)
}
