//! What waits for one subscription, and when it may go: budget, pace, folding, and the way of critical
//! events past all of it (decisions 3, 4, 16 and 75).
//!
//! Waiting events have a place by when they arrived. What folds (text of one output, state changes and progress of one
//! session) has one place, that of its newest part. Once something else was released meanwhile it keeps the place that
//! it has: otherwise an agent that never pauses could keep one kind of event waiting for ever.

mod terms;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::budget::Budget;
use super::fold::{Bounds, HeldText, Taken};
use super::text::BoundarySet;
use crate::frame::{Frame, FrameClass};
use crate::id::{OutputId, SessionId};
use crate::limits;
use crate::message::Payload;
use crate::negotiate::Terms;
use crate::time::{Moment, Timestamp};

pub use super::fold::CoalescedText;
use crate::pace::spoken_words;

/// How fast a subscription takes events, and where its text may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Most events per second.
    pub rate: Option<u32>,
    /// Words per minute.
    pub pace_wpm: Option<u32>,
    /// Where text may be cut.
    pub cutting: BoundarySet,
}

impl Flow {
    /// What the terms say.
    pub fn of(terms: &Terms) -> Flow {
        Flow { rate: terms.rate(), pace_wpm: terms.pace_wpm(), cutting: BoundarySet::of(terms) }
    }
}

/// What may be sent now.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// The event.
    pub what: OutgoingFrame,
    /// An event of the session with this time went before it, so it must not claim to be earlier.
    pub not_before: Option<Timestamp>,
}

/// In which form an event is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum OutgoingFrame {
    /// The frame as it is, shared with everyone of the same shape.
    Frame(Arc<Frame>),
    /// Several pieces of text as one.
    Run(CoalescedText),
    /// A state change that must leave another state than it says, since others were folded into it.
    State(Arc<Frame>, String),
}

impl OutgoingFrame {
    fn frame(&self) -> &Arc<Frame> {
        match self {
            OutgoingFrame::Frame(frame) | OutgoingFrame::State(frame, _) => frame,
            OutgoingFrame::Run(run) => &run.frame,
        }
    }
}

/// What folds into one waiting event.
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
            FrameClass::Critical | FrameClass::Started | FrameClass::Other => return None,
        };
        Some(FoldKey { session: frame.session().clone(), kind })
    }
}

#[derive(Clone, Debug)]
enum What {
    Text(HeldText),
    /// A state change and the state that the first one folded into it leaves.
    State(Arc<Frame>, String),
    Other(Arc<Frame>),
}

impl What {
    fn new(frame: &Arc<Frame>) -> What {
        match frame.class() {
            FrameClass::Text => What::Text(HeldText::new(frame)),
            FrameClass::State => What::State(frame.clone(), frame.from_state().unwrap_or_default().to_owned()),
            _ => What::Other(frame.clone()),
        }
    }

    fn frame(&self) -> &Arc<Frame> {
        match self {
            What::Text(text) => text.frame(),
            What::State(frame, _) | What::Other(frame) => frame,
        }
    }

    /// Takes a newer event of its kind in; answers whether that could be done.
    fn fold(&mut self, frame: &Arc<Frame>) -> bool {
        match self {
            What::Text(text) => return text.push(frame),
            What::State(newest, _) | What::Other(newest) => *newest = frame.clone(),
        }
        true
    }
}

#[derive(Clone, Debug)]
struct QueuedFrame {
    what: What,
    /// How many events had been released when its first part began to wait.
    since: u64,
    /// When its newest part arrived.
    newest: u64,
}

/// The outbox of one subscription.
#[derive(Clone, Debug)]
pub struct Outbox {
    budget: Budget,
    flow: Flow,
    /// When the announcement of the last text is over.
    text_ready: Moment,
    /// What waits, by its place.
    held: BTreeMap<u64, QueuedFrame>,
    /// The places of what folds.
    places: BTreeMap<FoldKey, u64>,
    arrived: u64,
    released: u64,
    /// Critical events and what had to go before them, while the link is full.
    urgent: VecDeque<Release>,
    blocked: bool,
    /// The state that the subscriber last heard of, for sessions of which it did not hear every change.
    said: BTreeMap<SessionId, String>,
    /// The latest time that was sent of a session, while something waits.
    latest: BTreeMap<SessionId, Timestamp>,
    held_bytes: usize,
    most_waiting: usize,
}

impl Outbox {
    /// An empty outbox.
    pub fn new(flow: Flow, now: Moment) -> Outbox {
        Outbox {
            budget: Budget::new(flow.rate, now),
            flow,
            text_ready: now,
            held: BTreeMap::new(),
            places: BTreeMap::new(),
            arrived: 0,
            released: 0,
            urgent: VecDeque::new(),
            blocked: false,
            said: BTreeMap::new(),
            latest: BTreeMap::new(),
            held_bytes: 0,
            most_waiting: limits::HELD_EVENTS,
        }
    }

    /// Whether the link takes nothing at the moment.
    pub fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Whether the link takes nothing.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Lets this many more events wait.
    pub fn allow_more(&mut self, events: usize) {
        self.most_waiting += events;
    }

    /// How many events wait.
    pub fn waiting(&self) -> usize {
        self.held.len() + self.urgent.len()
    }

    /// How many bytes of text wait.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// About how many bytes of events and text wait.
    pub fn memory_bytes(&self) -> usize {
        let held = self.held.values().map(|held| match &held.what {
            What::Text(text) => text.bytes(),
            What::State(frame, _) | What::Other(frame) => frame.memory_bytes(),
        });
        let urgent = self.urgent.iter().map(|release| match &release.what {
            OutgoingFrame::Frame(frame) | OutgoingFrame::State(frame, _) => frame.memory_bytes(),
            OutgoingFrame::Run(run) => run.text.len(),
        });
        held.chain(urgent).sum()
    }

    /// Whether more waits than may: the subscription has to be closed, since nothing may be dropped.
    pub fn is_overfull(&self) -> bool {
        self.waiting() > self.most_waiting || self.held_bytes > limits::HELD_BYTES
    }

    /// Takes the next frame; what may go now is handed to `out` in order.
    pub fn push(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(Release)) {
        match frame.class() {
            FrameClass::Critical => self.push_critical(frame, now, out),
            class => {
                let free = self.held.is_empty() && !self.blocked && self.urgent.is_empty();
                let spoken = class != FrameClass::Text || now >= self.text_ready;
                if free && spoken && self.budget.take(now) {
                    self.release_frame(frame, now, out);
                } else {
                    self.hold(frame);
                    // Text that waits for the voice may have moved behind something that need not wait.
                    self.pump(now, out);
                }
            }
        }
    }

    /// A state change that this user does not want to hear: the next one leaves the state before it.
    pub fn skip_state(&mut self, frame: &Frame) {
        let session = frame.session();
        let key = FoldKey { session: session.clone(), kind: FoldKind::State };
        let waiting = self.places.get(&key).and_then(|place| match &self.held.get(place)?.what {
            What::State(_, from) => Some(from.as_str()),
            _ => None,
        });
        if let Some(from) = waiting.or(frame.from_state()).map(str::to_owned) {
            self.said.entry(session.clone()).or_insert(from);
        }
    }

    /// A session of which nothing more will come.
    pub fn forget(&mut self, session: &SessionId) {
        self.said.remove(session);
        self.latest.remove(session);
    }

    /// Hands on what may go by now.
    pub fn pump(&mut self, now: Moment, out: &mut impl FnMut(Release)) {
        if self.blocked {
            return;
        }
        while let Some(release) = self.urgent.pop_front() {
            out(release);
        }
        while let Some((place, front)) = self.held.first_key_value() {
            let place = *place;
            let spoken = !matches!(front.what, What::Text(_)) || now >= self.text_ready;
            if !spoken || self.budget.ready_at(now) > now {
                return;
            }
            if self.tells_nothing(&front.what) {
                self.remove(place);
            } else if self.budget.take(now) {
                self.release_front(place, now, out);
            }
        }
        self.latest.clear();
    }

    /// When [`Outbox::pump`] should be called next, if anything waits.
    pub fn ready_at(&self, now: Moment) -> Option<Moment> {
        if self.blocked {
            return None;
        }
        if !self.urgent.is_empty() {
            return Some(now);
        }
        let by_budget = self.budget.ready_at(now);
        let (_, front) = self.held.first_key_value()?;
        Some(if matches!(front.what, What::Text(_)) { by_budget.max(self.text_ready) } else { by_budget })
    }

    /// A critical event overtakes what waits. It makes waiting states and progress of its session
    /// stale; an end takes the rest of the session along first, as nothing may follow it.
    fn push_critical(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(Release)) {
        let session = frame.session().clone();
        let ends = frame.is_terminal();
        let of_session = self.held.iter().filter(|(_, held)| *held.what.frame().session() == session);
        let waiting: Vec<(u64, FrameClass)> =
            of_session.map(|(place, held)| (*place, held.what.frame().class())).collect();
        let mut urgent = Vec::new();
        let mut left = false;
        for (place, class) in waiting {
            let stale = matches!(class, FrameClass::State | FrameClass::Progress);
            if !stale && !ends && class != FrameClass::Started {
                left = true;
                continue;
            }
            let Some(held) = self.remove(place) else { continue };
            if stale {
                self.drop_unsent(held.what);
            } else {
                self.flush(held.what, now, &mut |release| urgent.push(release));
            }
        }
        urgent.push(Release { what: OutgoingFrame::Frame(frame.clone()), not_before: None });
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

    /// Releases something out of turn, in the fewest events; later events pay for it.
    fn flush(&mut self, mut what: What, now: Moment, out: &mut impl FnMut(Release)) {
        loop {
            self.budget.owe(now);
            match what {
                What::Text(mut text) => {
                    let taken = text.take(Bounds { cutting: self.flow.cutting, pace_wpm: None });
                    self.release_text(taken, now, out);
                    if text.is_empty() {
                        return;
                    }
                    what = What::Text(text);
                }
                What::State(frame, from) => return self.release_state(frame, from, out),
                What::Other(frame) => return self.release_frame(&frame, now, out),
            }
        }
    }

    /// Releases what is first in line, or as much of it as one event may say.
    fn release_front(&mut self, place: u64, now: Moment, out: &mut impl FnMut(Release)) {
        let Some(held) = self.remove(place) else { return };
        self.released += 1;
        match held.what {
            What::Text(mut text) => {
                let taken = text.take(Bounds { cutting: self.flow.cutting, pace_wpm: self.flow.pace_wpm });
                if !text.is_empty() {
                    // What is left stands where its newest part stood, so that nothing behind it waits for ever.
                    let rest = QueuedFrame { what: What::Text(text), since: self.released, newest: held.newest };
                    self.insert(held.newest, rest);
                }
                self.release_text(taken, now, out);
            }
            What::State(frame, from) => self.release_state(frame, from, out),
            What::Other(frame) => self.release_frame(&frame, now, out),
        }
    }

    fn release_frame(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(Release)) {
        match frame.class() {
            FrameClass::State if !self.said.is_empty() => {
                let from = frame.from_state().unwrap_or_default().to_owned();
                self.release_state(frame.clone(), from, out);
            }
            FrameClass::Text => self.release_text(Taken::Frame(frame.clone()), now, out),
            _ => {
                self.send(OutgoingFrame::Frame(frame.clone()), out);
                if frame.is_terminal() {
                    self.forget(frame.session());
                }
            }
        }
    }

    fn release_text(&mut self, taken: Taken, now: Moment, out: &mut impl FnMut(Release)) {
        match taken {
            Taken::Frame(frame) => {
                self.wait_for(frame.chunk(), now);
                self.send(OutgoingFrame::Frame(frame), out);
            }
            Taken::Run(run) => {
                self.wait_for(&run.text, now);
                self.send(OutgoingFrame::Run(run), out);
            }
        }
    }

    fn release_state(&mut self, frame: Arc<Frame>, from: String, out: &mut impl FnMut(Release)) {
        let from = match (self.said.get_mut(frame.session()), frame.to_state()) {
            (Some(said), Some(to)) => std::mem::replace(said, to.to_owned()),
            _ => from,
        };
        let same = frame.from_state() == Some(from.as_str());
        self.send(if same { OutgoingFrame::Frame(frame) } else { OutgoingFrame::State(frame, from) }, out);
    }

    fn send(&mut self, what: OutgoingFrame, out: &mut impl FnMut(Release)) {
        let (session, time) = (what.frame().session(), what.frame().event().envelope.timestamp);
        let not_before = self.latest.get(session).copied().filter(|latest| *latest > time);
        if !self.held.is_empty() {
            self.latest.insert(session.clone(), not_before.unwrap_or(time));
        }
        out(Release { what, not_before });
    }

    /// Text is handed over no faster than it can be announced.
    fn wait_for(&mut self, text: &str, now: Moment) {
        if let Some(pace) = self.flow.pace_wpm {
            let micros = spoken_words(text) * 60_000_000 / u64::from(pace.max(1));
            self.text_ready = self.text_ready.max(now).plus_micros(micros);
        }
    }

    fn hold(&mut self, frame: &Arc<Frame>) {
        let arrival = self.arrived;
        self.arrived += 1;
        let reserved = FoldKey::of(frame).and_then(|key| self.places.get(&key).copied());
        let mut place = arrival;
        if let Some(found) = reserved {
            match self.remove(found) {
                // The place of text that was taken out to be cut again.
                None => place = found,
                Some(mut held) => {
                    let folded = held.what.fold(frame);
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
        self.insert(place, QueuedFrame { what: What::new(frame), since: self.released, newest: arrival });
    }

    /// Whether state changes have folded into one that leads nowhere and says nothing.
    fn tells_nothing(&self, what: &What) -> bool {
        let What::State(frame, from) = what else { return false };
        let Payload::StateChanged(change) = &frame.event().payload else { return false };
        let believed = self.said.get(frame.session()).unwrap_or(from);
        change.from_state != *from
            && change.summary_normal.is_none()
            && frame.event().envelope.extensions.is_none()
            && change.to_state == *believed
    }

    /// A state change that the subscriber will not hear of: the next one leaves the state that it left.
    fn drop_unsent(&mut self, what: What) {
        if let What::State(frame, from) = what {
            self.said.entry(frame.session().clone()).or_insert(from);
        }
    }

    fn insert(&mut self, place: u64, held: QueuedFrame) {
        if let What::Text(text) = &held.what {
            self.held_bytes += text.bytes();
        }
        if let Some(key) = FoldKey::of(held.what.frame()) {
            self.places.insert(key, place);
        }
        self.held.insert(place, held);
    }

    fn remove(&mut self, place: u64) -> Option<QueuedFrame> {
        let held = self.held.remove(&place)?;
        if let What::Text(text) = &held.what {
            self.held_bytes = self.held_bytes.saturating_sub(text.bytes());
        }
        if let Some(key) = FoldKey::of(held.what.frame())
            && self.places.get(&key) == Some(&place)
        {
            self.places.remove(&key);
        }
        Some(held)
    }
}
