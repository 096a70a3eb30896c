//! What waits for one subscription, and when it may go: budget, pace, folding, and the way of critical
//! events past all of it (decisions 3, 4 and 16).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::budget::Budget;
use crate::frame::{Class, Frame};
use crate::id::{OutputId, SessionId};
use crate::limits;
use crate::time::{Moment, Timestamp};

/// Text of one output that waited together.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The first piece.
    pub first: Arc<Frame>,
    /// The last piece: how the run ends.
    pub last: Arc<Frame>,
    /// All of their text.
    pub text: String,
    chars: usize,
}

/// What may be sent now.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// The event.
    pub what: Sending,
    /// A critical event of the session with this time went before it, so it must not claim to be earlier.
    pub not_before: Option<Timestamp>,
}

/// In which form an event is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Sending {
    /// The frame as it is, shared with everyone of the same shape.
    Frame(Arc<Frame>),
    /// Several pieces of text as one.
    Run(Run),
    /// A state change that must leave another state than it says, since others were folded into it.
    State(Arc<Frame>, String),
}

#[derive(Clone, Debug)]
enum Held {
    Text(Run),
    /// A state change and the state that the first one folded into it leaves.
    State(Arc<Frame>, String),
    Other(Arc<Frame>),
}

impl Held {
    fn session(&self) -> &SessionId {
        match self {
            Held::Text(run) => run.first.session(),
            Held::State(frame, _) | Held::Other(frame) => frame.session(),
        }
    }
}

/// The outbox of one subscription.
#[derive(Clone, Debug)]
pub struct Outbox {
    budget: Budget,
    pace_wpm: Option<u32>,
    /// When the announcement of the last text is over.
    text_ready: Moment,
    held: VecDeque<Held>,
    /// Critical events and what had to go before them, while the link is full.
    urgent: VecDeque<Release>,
    blocked: bool,
    /// The state that the subscriber last heard of, for sessions of which it did not hear every change.
    said: BTreeMap<SessionId, String>,
    /// Critical events that overtook what still waits, by session: their times.
    overtaken: BTreeMap<SessionId, Timestamp>,
    held_bytes: usize,
    most_waiting: usize,
}

impl Outbox {
    /// An empty outbox.
    pub fn new(rate: Option<u32>, pace_wpm: Option<u32>, now: Moment) -> Outbox {
        Outbox {
            budget: Budget::new(rate, now),
            pace_wpm,
            text_ready: now,
            held: VecDeque::new(),
            urgent: VecDeque::new(),
            blocked: false,
            said: BTreeMap::new(),
            overtaken: BTreeMap::new(),
            held_bytes: 0,
            most_waiting: limits::HELD_EVENTS,
        }
    }

    /// Other terms from now on.
    pub fn set_terms(&mut self, rate: Option<u32>, pace_wpm: Option<u32>, now: Moment) {
        self.budget = self.budget.with_rate(rate, now);
        self.pace_wpm = pace_wpm;
        if pace_wpm.is_none() {
            self.text_ready = now;
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

    /// Whether more waits than may: the subscription has to be closed, since nothing may be dropped.
    pub fn is_overfull(&self) -> bool {
        self.waiting() > self.most_waiting || self.held_bytes > limits::HELD_BYTES
    }

    /// Takes the next frame; what may go now is handed to `out` in order.
    pub fn push(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(Release)) {
        match frame.class() {
            Class::Critical => self.push_critical(frame, now, out),
            class => {
                let free = self.held.is_empty() && !self.blocked && self.urgent.is_empty();
                let spoken = class != Class::Text || now >= self.text_ready;
                if free && spoken && self.budget.take(now) {
                    self.release_frame(frame, now, out);
                } else {
                    self.hold(frame);
                }
            }
        }
    }

    /// A state change that this user does not want to hear: the next one leaves the state before it.
    pub fn skip_state(&mut self, frame: &Frame) {
        let session = frame.session();
        let waiting = self.held.iter().find_map(|h| match h {
            Held::State(f, from) if f.session() == session => Some(from.as_str()),
            _ => None,
        });
        if let Some(from) = waiting.or(frame.from_state()).map(str::to_owned) {
            self.said.entry(session.clone()).or_insert(from);
        }
    }

    /// A session of which nothing more will come.
    pub fn forget(&mut self, session: &SessionId) {
        self.said.remove(session);
        self.overtaken.remove(session);
    }

    /// Hands on what may go by now.
    pub fn pump(&mut self, now: Moment, out: &mut impl FnMut(Release)) {
        if self.blocked {
            return;
        }
        while let Some(release) = self.urgent.pop_front() {
            out(release);
        }
        while let Some(front) = self.held.front() {
            let spoken = !matches!(front, Held::Text(_)) || now >= self.text_ready;
            if !spoken || !self.budget.take(now) {
                return;
            }
            if let Some(held) = self.pop() {
                self.let_go(held, now, out);
            }
        }
        self.overtaken.clear();
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
        Some(match self.held.front()? {
            Held::Text(_) => by_budget.max(self.text_ready),
            _ => by_budget,
        })
    }

    /// A critical event overtakes what waits. It makes waiting states and progress of its session
    /// stale; an end takes the rest of the session along first, as nothing may follow it.
    fn push_critical(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(Release)) {
        let session = frame.session().clone();
        let ends = frame.is_terminal();
        let mut before = Vec::new();
        let held = std::mem::take(&mut self.held);
        for item in held {
            let first = matches!(&item, Held::Other(f) if f.class() == Class::Started);
            let stale = match &item {
                Held::State(..) => true,
                Held::Other(f) => f.class() == Class::Progress,
                Held::Text(_) => false,
            };
            if *item.session() != session {
                self.held.push_back(item);
            } else if stale {
                if let Held::State(_, from) = item {
                    self.said.entry(session.clone()).or_insert(from);
                }
            } else if ends || first {
                before.push(item);
            } else {
                self.held.push_back(item);
            }
        }
        let mut urgent = Vec::new();
        for item in before {
            self.budget.owe(now);
            self.let_go(item, now, &mut |release| urgent.push(release));
        }
        urgent.push(Release { what: Sending::Frame(frame.clone()), not_before: None });
        if ends {
            self.said.remove(&session);
            self.overtaken.remove(&session);
        } else if self.held.iter().any(|h| *h.session() == session) {
            self.overtaken.insert(session, frame.event().envelope.timestamp);
        }
        for release in urgent {
            let wait = self.blocked || !self.urgent.is_empty();
            if wait { self.urgent.push_back(release) } else { out(release) }
        }
    }

    fn release_frame(&mut self, frame: &Arc<Frame>, now: Moment, out: &mut impl FnMut(Release)) {
        match frame.class() {
            Class::State if !self.said.is_empty() => {
                let from = frame.from_state().unwrap_or_default().to_owned();
                self.release_state(frame.clone(), from, out);
            }
            Class::Text => {
                self.wait_for(frame.chunk(), now);
                self.send(Sending::Frame(frame.clone()), out);
            }
            _ => {
                if frame.is_terminal() {
                    self.said.remove(frame.session());
                }
                self.send(Sending::Frame(frame.clone()), out);
            }
        }
    }

    fn let_go(&mut self, held: Held, now: Moment, out: &mut impl FnMut(Release)) {
        match held {
            Held::Text(run) => {
                self.held_bytes = self.held_bytes.saturating_sub(run.text.len());
                self.wait_for(&run.text, now);
                let alone = Arc::ptr_eq(&run.first, &run.last);
                self.send(if alone { Sending::Frame(run.first) } else { Sending::Run(run) }, out);
            }
            Held::State(frame, from) => self.release_state(frame, from, out),
            Held::Other(frame) => self.release_frame(&frame, now, out),
        }
    }

    fn release_state(&mut self, frame: Arc<Frame>, from: String, out: &mut impl FnMut(Release)) {
        let from = match (self.said.get_mut(frame.session()), frame.to_state()) {
            (Some(said), Some(to)) => std::mem::replace(said, to.to_owned()),
            _ => from,
        };
        let same = frame.from_state() == Some(from.as_str());
        self.send(if same { Sending::Frame(frame) } else { Sending::State(frame, from) }, out);
    }

    fn send(&self, what: Sending, out: &mut impl FnMut(Release)) {
        let session = match &what {
            Sending::Frame(frame) | Sending::State(frame, _) => frame.session(),
            Sending::Run(run) => run.last.session(),
        };
        let not_before = self.overtaken.get(session).copied();
        out(Release { what, not_before });
    }

    /// Text is handed over no faster than it can be announced.
    fn wait_for(&mut self, text: &str, now: Moment) {
        if let Some(pace) = self.pace_wpm {
            let micros = spoken_words(text) * 60_000_000 / u64::from(pace.max(1));
            self.text_ready = self.text_ready.max(now).plus_micros(micros);
        }
    }

    fn hold(&mut self, frame: &Arc<Frame>) {
        match frame.class() {
            Class::Text => self.hold_text(frame),
            Class::State => self.hold_state(frame),
            Class::Progress => {
                // Only the newest progress of a session is worth telling.
                let session = frame.session();
                self.held
                    .retain(|h| !matches!(h, Held::Other(f) if f.class() == Class::Progress && f.session() == session));
                self.held.push_back(Held::Other(frame.clone()));
            }
            _ => self.held.push_back(Held::Other(frame.clone())),
        }
    }

    fn hold_text(&mut self, frame: &Arc<Frame>) {
        let chunk = frame.chunk();
        let chars = chunk.chars().count();
        self.held_bytes += chunk.len();
        if let Some(Held::Text(run)) = self.held.back_mut()
            && run.takes(frame, chunk, self.pace_wpm)
        {
            run.text.push_str(chunk);
            run.chars += chars;
            run.last = frame.clone();
            return;
        }
        let run = Run { first: frame.clone(), last: frame.clone(), text: chunk.to_owned(), chars };
        self.held.push_back(Held::Text(run));
    }

    /// Neighbouring state changes fold into one that leaves the first and enters the last.
    fn hold_state(&mut self, frame: &Arc<Frame>) {
        if let Some(Held::State(last, _)) = self.held.back_mut()
            && last.session() == frame.session()
        {
            *last = frame.clone();
            return;
        }
        let from = frame.from_state().unwrap_or_default().to_owned();
        self.held.push_back(Held::State(frame.clone(), from));
    }

    /// Takes what goes next, with everything that has become its neighbour since it was held.
    fn pop(&mut self) -> Option<Held> {
        let mut first = self.held.pop_front()?;
        loop {
            match (&mut first, self.held.front()) {
                (Held::Text(run), Some(Held::Text(next)))
                    if self.pace_wpm.is_none() && run.takes(&next.first, &next.text, None) =>
                {
                    run.text.push_str(&next.text);
                    run.chars += next.chars;
                    run.last = next.last.clone();
                }
                (Held::State(last, _), Some(Held::State(next, _))) if last.session() == next.session() => {
                    *last = next.clone()
                }
                _ => return Some(first),
            }
            self.held.pop_front();
        }
    }
}

impl Run {
    /// The output that the text belongs to.
    pub fn output(&self) -> Option<&OutputId> {
        self.first.output()
    }

    /// Whether the run can grow by this. Who listens at a pace gets pieces of a bearable length.
    fn takes(&self, frame: &Frame, text: &str, pace_wpm: Option<u32>) -> bool {
        let bearable = |pace: u32| {
            let most = u64::from(pace) * limits::SPOKEN_SECONDS / 60;
            spoken_words(&self.text) + spoken_words(text) <= most
        };
        let end = self.first.position().map(|p| p + self.chars as u64);
        end == frame.position()
            && self.first.output() == frame.output()
            && self.first.session() == frame.session()
            && self.chars + text.chars().count() <= limits::CHUNK_CHARS
            && pace_wpm.is_none_or(bearable)
    }
}

/// How many words a text takes to announce. Scripts without spaces are counted by characters, two to a word.
pub fn spoken_words(text: &str) -> u64 {
    let mut words = 0u64;
    let mut dense = 0u64;
    let mut inside = false;
    for c in text.chars() {
        let is_dense = matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}');
        dense += u64::from(is_dense);
        let in_word = !c.is_whitespace() && !is_dense;
        words += u64::from(in_word && !inside);
        inside = in_word;
    }
    words + dense.div_ceil(2)
}
