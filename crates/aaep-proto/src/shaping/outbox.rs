//! The queue of one subscription: rate, pace, coalescing, and critical events that overtake all of it (decisions 3, 4,
//! 16 and 75).
//!
//! Waiting events are ordered by arrival. Events that coalesce (text of one output, state changes and progress of one
//! session) have one place, that of the newest. Once another event was released in the meantime, they keep their place:
//! otherwise an agent that never pauses could delay one kind of event forever.

mod states;
mod terms;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::budget::RateBudget;
use super::fold::{ChunkBounds, QueuedText, TakenText};
use super::text::BoundarySet;
use crate::frame::{Frame, FrameClass};
use crate::id::{OutputId, SessionId};
use crate::limits;
use crate::negotiate::Terms;
use crate::time::{Moment, Timestamp};

pub(crate) use super::fold::CoalescedText;
use crate::pace::spoken_words;

/// The part of the terms that the outbox applies: rate, pace and boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxTerms {
    /// Most events per second.
    pub(crate) rate: Option<u32>,
    /// Words per minute.
    pub(crate) pace_wpm: Option<u32>,
    /// Where text may be split.
    pub(crate) boundaries: BoundarySet,
}

impl OutboxTerms {
    /// Extracts them from the terms of a subscription.
    pub(crate) fn of(terms: &Terms) -> OutboxTerms {
        OutboxTerms { rate: terms.rate(), pace_wpm: terms.pace_wpm(), boundaries: BoundarySet::of(terms) }
    }
}

/// An event that may be sent now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReleasedFrame {
    /// The event.
    pub(crate) content: OutgoingFrame,
    /// The timestamp of an event of the session that overtook it, so it must not claim to be earlier.
    pub(crate) not_before: Option<Timestamp>,
}

/// The form in which an event is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OutgoingFrame {
    /// The frame as it is, shared by all subscriptions with equal terms.
    Frame(Arc<Frame>),
    /// Several chunks of text as one.
    Coalesced(CoalescedText),
    /// A state change that starts from another state, since earlier ones were coalesced into it.
    State(Arc<Frame>, String),
}

impl OutgoingFrame {
    fn frame(&self) -> &Arc<Frame> {
        match self {
            OutgoingFrame::Frame(frame) | OutgoingFrame::State(frame, _) => frame,
            OutgoingFrame::Coalesced(run) => &run.frame,
        }
    }
}

/// Identifies the events that coalesce into one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FoldKey {
    session: SessionId,
    kind: FoldKind,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FoldKind {
    Text(Option<OutputId>),
    State,
    Progress,
}

impl FoldKey {
    fn of(frame: &Frame) -> Option<FoldKey> {
        let kind = match frame.class() {
            FrameClass::Text => FoldKind::Text(frame.output().cloned()),
            FrameClass::State => FoldKind::State,
            FrameClass::Progress => FoldKind::Progress,
            FrameClass::Critical | FrameClass::Started | FrameClass::Outcome | FrameClass::Other => return None,
        };
        Some(FoldKey { session: frame.session().clone(), kind })
    }
}

#[derive(Clone, Debug)]
enum QueuedContent {
    Text(QueuedText),
    /// A state change, and the state from which the first one coalesced into it started.
    State(Arc<Frame>, String),
    Other(Arc<Frame>),
}

impl QueuedContent {
    fn new(frame: &Arc<Frame>) -> QueuedContent {
        match frame.class() {
            FrameClass::Text => QueuedContent::Text(QueuedText::new(frame)),
            FrameClass::State | FrameClass::Outcome => {
                QueuedContent::State(frame.clone(), frame.from_state().unwrap_or_default().to_owned())
            }
            _ => QueuedContent::Other(frame.clone()),
        }
    }

    fn frame(&self) -> &Arc<Frame> {
        match self {
            QueuedContent::Text(text) => text.frame(),
            QueuedContent::State(frame, _) | QueuedContent::Other(frame) => frame,
        }
    }

    /// Coalesces a newer event of its kind and returns whether that was possible.
    fn fold(&mut self, frame: &Arc<Frame>) -> bool {
        match self {
            QueuedContent::Text(text) => return text.push(frame),
            QueuedContent::State(newest, _) | QueuedContent::Other(newest) => *newest = frame.clone(),
        }
        true
    }
}

#[derive(Clone, Debug)]
struct QueuedFrame {
    content: QueuedContent,
    /// How many events had been released when the first of its events was queued.
    since: u64,
    /// The arrival number of the newest of its events.
    newest: u64,
}

/// The outbox of one subscription.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    budget: RateBudget,
    terms: OutboxTerms,
    /// When the announcement of the last text ends.
    text_ready: Moment,
    /// Waiting events by place.
    queued: BTreeMap<u64, QueuedFrame>,
    /// The places of the events that coalesce.
    places: BTreeMap<FoldKey, u64>,
    arrived: u64,
    released: u64,
    /// Critical events and those that must precede them, while the link is blocked.
    urgent: VecDeque<ReleasedFrame>,
    blocked: bool,
    /// The last state that was sent of sessions of which not every change was sent.
    last_sent_state: BTreeMap<SessionId, String>,
    /// The latest timestamp that was sent of a session, while events wait.
    latest: BTreeMap<SessionId, Timestamp>,
    queued_text_bytes: usize,
    max_waiting: usize,
}

impl Outbox {
    /// Creates an empty outbox.
    pub(crate) fn new(terms: OutboxTerms, now: Moment) -> Outbox {
        Outbox {
            budget: RateBudget::new(terms.rate, now),
            terms,
            text_ready: now,
            queued: BTreeMap::new(),
            places: BTreeMap::new(),
            arrived: 0,
            released: 0,
            urgent: VecDeque::new(),
            blocked: false,
            last_sent_state: BTreeMap::new(),
            latest: BTreeMap::new(),
            queued_text_bytes: 0,
            max_waiting: limits::OUTBOX_EVENTS,
        }
    }

    /// Sets whether the link is blocked.
    pub(crate) fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Returns whether the link is blocked.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Permits this many more events to wait.
    pub(crate) fn allow_more(&mut self, events: usize) {
        self.max_waiting += events;
    }

    /// Returns how many events wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queued.len() + self.urgent.len()
    }

    /// Returns how many bytes of text wait.
    pub(crate) fn queued_text_bytes(&self) -> usize {
        self.queued_text_bytes
    }

    /// Returns the approximate memory of all waiting events.
    pub(crate) fn memory_bytes(&self) -> usize {
        let held = self.queued.values().map(|held| match &held.content {
            QueuedContent::Text(text) => text.bytes(),
            QueuedContent::State(frame, _) | QueuedContent::Other(frame) => frame.memory_bytes(),
        });
        let urgent = self.urgent.iter().map(|release| match &release.content {
            OutgoingFrame::Frame(frame) | OutgoingFrame::State(frame, _) => frame.memory_bytes(),
            OutgoingFrame::Coalesced(run) => run.text.len(),
        });
        held.chain(urgent).sum()
    }

    /// Returns whether a bound is exceeded. The subscription must then be closed, since no event may be dropped.
    pub(crate) fn is_overfull(&self) -> bool {
        self.waiting() > self.max_waiting || self.queued_text_bytes > limits::OUTBOX_TEXT_BYTES
    }

    /// Queues a frame and passes the events that may be sent now to `out`, in order.
    pub(crate) fn push(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(ReleasedFrame)) {
        match frame.class() {
            FrameClass::Critical => self.push_critical(frame, now, out),
            class => {
                let free = self.queued.is_empty() && !self.blocked && self.urgent.is_empty();
                let pace_allows = class != FrameClass::Text || now >= self.text_ready;
                if free && pace_allows && self.budget.take(now) {
                    self.release_frame(frame, now, out);
                } else {
                    self.enqueue(frame);
                    // Paced text may have moved behind an event that need not wait.
                    self.pump(now, out);
                }
            }
        }
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.last_sent_state.remove(session);
        self.latest.remove(session);
    }

    /// Passes the events that may be sent by now to `out`.
    pub(crate) fn pump(&mut self, now: Moment, out: &mut impl FnMut(ReleasedFrame)) {
        if self.blocked {
            return;
        }
        while let Some(release) = self.urgent.pop_front() {
            out(release);
        }
        while let Some((place, front)) = self.queued.first_key_value() {
            let place = *place;
            let pace_allows = !matches!(front.content, QueuedContent::Text(_)) || now >= self.text_ready;
            if !pace_allows || self.budget.ready_at(now) > now {
                return;
            }
            if self.is_redundant(&front.content) {
                self.remove(place);
            } else if self.budget.take(now) {
                self.release_front(place, now, out);
            }
        }
        self.latest.clear();
    }

    /// Returns when [`Outbox::pump`] should be called next, or `None` if nothing can be sent.
    pub(crate) fn ready_at(&self, now: Moment) -> Option<Moment> {
        if self.blocked {
            return None;
        }
        if !self.urgent.is_empty() {
            return Some(now);
        }
        let by_budget = self.budget.ready_at(now);
        let (_, front) = self.queued.first_key_value()?;
        Some(if matches!(front.content, QueuedContent::Text(_)) { by_budget.max(self.text_ready) } else { by_budget })
    }

    /// Sends a critical event ahead of the queue. It supersedes waiting states and progress of its session. Waiting outcomes
    /// of questions are sent first: after the next question they would be understood as its outcome. If the event ends the
    /// session, all waiting events of the session are sent first, as nothing may follow the end.
    fn push_critical(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(ReleasedFrame)) {
        let session = frame.session().clone();
        let ends = frame.is_terminal();
        let of_session = self.queued.iter().filter(|(_, held)| *held.content.frame().session() == session);
        let waiting: Vec<(u64, FrameClass)> =
            of_session.map(|(place, held)| (*place, held.content.frame().class())).collect();
        let mut urgent = Vec::new();
        let mut left = false;
        for (place, class) in waiting {
            let stale = matches!(class, FrameClass::State | FrameClass::Progress);
            if !stale && !ends && !matches!(class, FrameClass::Started | FrameClass::Outcome) {
                left = true;
                continue;
            }
            if stale {
                self.drop_unsent(place);
            } else if let Some(held) = self.remove(place) {
                self.release_out_of_turn(held.content, now, &mut |release| urgent.push(release));
            }
        }
        urgent.push(ReleasedFrame { content: OutgoingFrame::Frame(frame.clone()), not_before: None });
        if ends {
            self.forget(&session);
        } else if left {
            self.latest.insert(session, frame.event().envelope.timestamp);
        }
        for release in urgent {
            let wait = self.blocked || !self.urgent.is_empty();
            if wait { self.urgent.push_back(release) } else { out(release) }
        }
    }

    /// Releases content out of turn, in the fewest events, which are charged to the rate of later ones.
    fn release_out_of_turn(&mut self, mut content: QueuedContent, now: Moment, out: &mut impl FnMut(ReleasedFrame)) {
        loop {
            self.budget.force_take(now);
            match content {
                QueuedContent::Text(mut text) => {
                    let taken = text.take(ChunkBounds { boundaries: self.terms.boundaries, pace_wpm: None });
                    self.release_text(taken, now, out);
                    if text.is_empty() {
                        return;
                    }
                    content = QueuedContent::Text(text);
                }
                QueuedContent::State(frame, from) => return self.release_state(frame, from, out),
                QueuedContent::Other(frame) => return self.release_frame(&frame, now, out),
            }
        }
    }

    /// Releases the first of the queue, or as much of its text as one event may hold.
    fn release_front(&mut self, place: u64, now: Moment, out: &mut impl FnMut(ReleasedFrame)) {
        let Some(held) = self.remove(place) else { return };
        self.released += 1;
        match held.content {
            QueuedContent::Text(mut text) => {
                let taken = text.take(ChunkBounds { boundaries: self.terms.boundaries, pace_wpm: self.terms.pace_wpm });
                if !text.is_empty() {
                    // The rest moves to the place of its newest chunk, so that the events after it do not wait forever.
                    let rest =
                        QueuedFrame { content: QueuedContent::Text(text), since: self.released, newest: held.newest };
                    self.insert(held.newest, rest);
                }
                self.release_text(taken, now, out);
            }
            QueuedContent::State(frame, from) => self.release_state(frame, from, out),
            QueuedContent::Other(frame) => self.release_frame(&frame, now, out),
        }
    }

    fn release_frame(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(ReleasedFrame)) {
        match frame.class() {
            FrameClass::State | FrameClass::Outcome if !self.last_sent_state.is_empty() => {
                let from = frame.from_state().unwrap_or_default().to_owned();
                self.release_state(frame.clone(), from, out);
            }
            FrameClass::Text => self.release_text(TakenText::Frame(frame.clone()), now, out),
            _ => {
                self.send(OutgoingFrame::Frame(frame.clone()), out);
                if frame.is_terminal() {
                    self.forget(frame.session());
                }
            }
        }
    }

    fn release_text(&mut self, taken: TakenText, now: Moment, out: &mut impl FnMut(ReleasedFrame)) {
        match taken {
            TakenText::Frame(frame) => {
                self.delay_next_text(frame.chunk(), now);
                self.send(OutgoingFrame::Frame(frame), out);
            }
            TakenText::Coalesced(run) => {
                self.delay_next_text(&run.text, now);
                self.send(OutgoingFrame::Coalesced(run), out);
            }
        }
    }

    fn send(&mut self, content: OutgoingFrame, out: &mut impl FnMut(ReleasedFrame)) {
        let (session, time) = (content.frame().session(), content.frame().event().envelope.timestamp);
        let not_before = self.latest.get(session).copied().filter(|latest| *latest > time);
        if !self.queued.is_empty() {
            self.latest.insert(session.clone(), not_before.unwrap_or(time));
        }
        out(ReleasedFrame { content, not_before });
    }

    /// Delays the next text until this one is announced.
    fn delay_next_text(&mut self, text: &str, now: Moment) {
        if let Some(pace) = self.terms.pace_wpm {
            let micros = spoken_words(text) * 60_000_000 / u64::from(pace.max(1));
            self.text_ready = self.text_ready.max(now).plus_micros(micros);
        }
    }

    fn enqueue(&mut self, frame: &Arc<Frame>) {
        if frame.class() == FrameClass::Outcome {
            self.drop_waiting_state(frame.session());
        }
        let arrival = self.arrived;
        self.arrived += 1;
        let reserved = FoldKey::of(frame).and_then(|key| self.places.get(&key).copied());
        let mut place = arrival;
        if let Some(found) = reserved {
            match self.remove(found) {
                // The reserved place of text that is being split again.
                None => place = found,
                Some(mut held) => {
                    let folded = held.content.fold(frame);
                    if folded {
                        held.newest = arrival;
                        let passed = held.since < self.released;
                        self.insert(if passed { found } else { arrival }, held);
                        return;
                    }
                    self.insert(found, held);
                }
            }
        }
        self.insert(place, QueuedFrame { content: QueuedContent::new(frame), since: self.released, newest: arrival });
    }

    fn insert(&mut self, place: u64, held: QueuedFrame) {
        if let QueuedContent::Text(text) = &held.content {
            self.queued_text_bytes += text.bytes();
        }
        if let Some(key) = FoldKey::of(held.content.frame()) {
            self.places.insert(key, place);
        }
        self.queued.insert(place, held);
    }

    fn remove(&mut self, place: u64) -> Option<QueuedFrame> {
        let held = self.queued.remove(&place)?;
        if let QueuedContent::Text(text) = &held.content {
            self.queued_text_bytes = self.queued_text_bytes.saturating_sub(text.bytes());
        }
        if let Some(key) = FoldKey::of(held.content.frame())
            && self.places.get(&key) == Some(&place)
        {
            self.places.remove(&key);
        }
        Some(held)
    }
}

#[cfg(test)]
mod tests;
