//! Protects the user from a producer that sends too much: what is above the rate waits, is put together, and in the
//! end left out, the least important first. Critical events pass at once, always.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits;
use crate::message::{Event, Payload, Urgency};
use crate::shaping::budget::Budget;
use crate::time::Moment;

#[derive(Clone, Debug)]
struct QueuedEvent {
    event: Arc<Event>,
    bytes: usize,
}

/// What the gate did with an event, besides releasing some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) began: bool,
    pub(super) critical_flood: bool,
    pub(super) folded: u64,
    pub(super) dropped: u64,
}

#[derive(Clone, Debug)]
pub(super) struct FloodGuard {
    most: u32,
    budget: Budget,
    critical: Budget,
    held: VecDeque<QueuedEvent>,
    bytes: usize,
    /// Folded and dropped since the flood began.
    since: Option<(u64, u64)>,
}

impl FloodGuard {
    pub(super) fn new(most: u32) -> FloodGuard {
        FloodGuard {
            most: most.max(1),
            budget: Budget::new(Some(most), Moment::default()),
            critical: Budget::new(Some(limits::CRITICAL_PER_SECOND), Moment::default()),
            held: VecDeque::new(),
            bytes: 0,
            since: None,
        }
    }

    /// The rate that holds from now on.
    pub(super) fn set_rate(&mut self, most: u32, now: Moment) {
        self.most = most.max(1);
        self.budget = self.budget.with_rate(Some(most), now);
    }

    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// When something that waits may pass.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        (!self.held.is_empty()).then(|| self.budget.ready_at(now))
    }

    pub(super) fn held(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }

    /// Takes an event; what may pass now comes out.
    pub(super) fn push(&mut self, event: Arc<Event>, bytes: usize, now: Moment, out: &mut Vec<Arc<Event>>) -> Effect {
        if event.is_critical() {
            if event.core_type().is_some_and(|core| core.is_terminal()) {
                self.release_session(&event, now, out);
            }
            out.push(event);
            return Effect { critical_flood: !self.critical.take(now), ..Effect::default() };
        }
        if self.held.is_empty() && self.budget.take(now) {
            out.push(event);
            return Effect::default();
        }
        let mut effect = Effect { began: self.since.is_none(), ..Effect::default() };
        self.hold(event, bytes, &mut effect);
        while self.held.len() > limits::FLOOD_HELD_EVENTS || self.bytes > limits::FLOOD_HELD_BYTES {
            self.drop_one();
            effect.dropped += 1;
        }
        let (folded, dropped) = self.since.unwrap_or_default();
        self.since = Some((folded + effect.folded, dropped + effect.dropped));
        effect
    }

    /// Lets pass what may; answers what became of the flood if that was its end.
    pub(super) fn release(&mut self, now: Moment, out: &mut Vec<Arc<Event>>) -> Option<(u64, u64)> {
        while !self.held.is_empty() && self.budget.take(now) {
            out.extend(self.pop(0));
        }
        if self.held.is_empty() { self.since.take() } else { None }
    }

    fn pop(&mut self, index: usize) -> Option<Arc<Event>> {
        let held = self.held.remove(index)?;
        self.bytes -= held.bytes;
        Some(held.event)
    }

    /// Nothing may follow the end of a session: what waits of it goes first, and later events pay for it.
    fn release_session(&mut self, end: &Event, now: Moment, out: &mut Vec<Arc<Event>>) {
        let mut index = 0;
        while let Some(held) = self.held.get(index) {
            if same_session(&held.event, end) {
                self.budget.owe(now);
                out.extend(self.pop(index));
            } else {
                index += 1;
            }
        }
    }

    fn hold(&mut self, event: Arc<Event>, bytes: usize, effect: &mut Effect) {
        let last = self.held.iter().rposition(|held| same_session(&held.event, &event));
        if let Some(index) = last
            && let Some(folded) = fold(&self.held[index].event, &event)
        {
            let old = self.pop(index);
            debug_assert!(old.is_some(), "it was found there");
            effect.folded += 1;
            let bytes = if folded.is_text { bytes.saturating_add(folded.text_before) } else { bytes };
            return self.put(folded.event, bytes);
        }
        self.put(event, bytes);
    }

    fn put(&mut self, event: Arc<Event>, bytes: usize) {
        self.bytes += bytes;
        self.held.push_back(QueuedEvent { event, bytes });
    }

    fn drop_one(&mut self) {
        let least = self.held.iter().enumerate().min_by_key(|(index, held)| (worth(&held.event), *index));
        if let Some(index) = least.map(|(index, _)| index) {
            self.pop(index);
        }
    }
}

/// How bad it would be not to hear of an event.
fn worth(event: &Event) -> u8 {
    match &event.payload {
        payload if payload.core_type().is_some_and(|core| core.is_terminal()) => 4,
        Payload::SessionStarted(_) => 3,
        _ if *event.urgency() == Urgency::Background => 0,
        Payload::ProgressUpdated(_) | Payload::StateChanged(_) => 0,
        Payload::OutputStreaming(_) => 2,
        _ => 1,
    }
}

fn same_session(a: &Event, b: &Event) -> bool {
    a.envelope.session_id == b.envelope.session_id && a.envelope.producer.agent_id == b.envelope.producer.agent_id
}

struct Folded {
    event: Arc<Event>,
    is_text: bool,
    text_before: usize,
}

/// Two events of a session, one after the other, as one, if the second makes the first stale or continues it.
fn fold(older: &Event, newer: &Arc<Event>) -> Option<Folded> {
    match (&older.payload, &newer.payload) {
        (Payload::ProgressUpdated(_), Payload::ProgressUpdated(_))
        | (Payload::StateChanged(_), Payload::StateChanged(_)) => {
            Some(Folded { event: newer.clone(), is_text: false, text_before: 0 })
        }
        (Payload::OutputStreaming(first), Payload::OutputStreaming(second)) => {
            let chars = first.chunk.chars().count();
            let continues = first.output_id == second.output_id
                && first.language == second.language
                && first.content_type == second.content_type
                && !first.complete
                && first.position.checked_add(chars as u64) == Some(second.position);
            if !continues || chars + second.chunk.chars().count() > limits::CHUNK_CHARS {
                return None;
            }
            let mut event = Event::clone(newer);
            if let Payload::OutputStreaming(text) = &mut event.payload {
                text.chunk.insert_str(0, &first.chunk);
                text.position = first.position;
            }
            Some(Folded { event: Arc::new(event), is_text: true, text_before: first.chunk.len() })
        }
        _ => None,
    }
}
