//! Protects the user from a producer that exceeds the rate: events above it are queued, coalesced, and in the end
//! dropped, the least important first. Critical events and the outcomes of questions are always delivered at once.

use std::collections::VecDeque;
use std::sync::Arc;

use super::receive::is_urgent;
use crate::limits;
use crate::message::{Event, Payload, Urgency};
use crate::shaping::budget::RateBudget;
use crate::time::Moment;

#[derive(Clone, Debug)]
struct QueuedEvent {
    event: Arc<Event>,
    bytes: usize,
}

/// What happened when an event was pushed, besides the events that were released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FloodEffect {
    pub(super) began: bool,
    pub(super) critical_flood: bool,
    pub(super) folded: u64,
    pub(super) dropped: u64,
}

#[derive(Clone, Debug)]
pub(super) struct FloodGuard {
    most: u32,
    budget: RateBudget,
    critical: RateBudget,
    held: VecDeque<QueuedEvent>,
    bytes: usize,
    /// How many events were coalesced and dropped since the flood began.
    since: Option<(u64, u64)>,
}

impl FloodGuard {
    pub(super) fn new(most: u32) -> FloodGuard {
        FloodGuard {
            most: most.max(1),
            budget: RateBudget::new(Some(most), Moment::default()),
            critical: RateBudget::new(Some(limits::CRITICAL_EVENTS_PER_SECOND), Moment::default()),
            held: VecDeque::new(),
            bytes: 0,
            since: None,
        }
    }

    /// Changes the rate.
    pub(super) fn set_rate(&mut self, most: u32, now: Moment) {
        self.most = most.max(1);
        self.budget = self.budget.with_rate(Some(most), now);
    }

    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// Returns when the next queued event may be released, or `None` if none is queued.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        (!self.held.is_empty()).then(|| self.budget.ready_at(now))
    }

    pub(super) fn held(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }

    /// Takes an event and appends the events that may be delivered now to `out`.
    pub(super) fn push(
        &mut self,
        event: Arc<Event>,
        bytes: usize,
        now: Moment,
        out: &mut Vec<Arc<Event>>,
    ) -> FloodEffect {
        if is_urgent(&event) {
            if event.core_type().is_some_and(|core| core.is_terminal()) {
                self.release_session(&event, now, out);
            } else if matches!(event.payload, Payload::StateChanged(_)) {
                self.drop_states(&event);
            }
            out.push(event);
            return FloodEffect { critical_flood: !self.critical.take(now), ..FloodEffect::default() };
        }
        if self.held.is_empty() && self.budget.take(now) {
            out.push(event);
            return FloodEffect::default();
        }
        let mut effect = FloodEffect { began: self.since.is_none(), ..FloodEffect::default() };
        self.hold(event, bytes, &mut effect);
        while self.held.len() > limits::FLOOD_HELD_EVENTS || self.bytes > limits::FLOOD_HELD_BYTES {
            self.drop_one();
            effect.dropped += 1;
        }
        let (folded, dropped) = self.since.unwrap_or_default();
        self.since = Some((folded + effect.folded, dropped + effect.dropped));
        effect
    }

    /// Releases as many queued events as the rate allows. Returns how many were coalesced and dropped if the flood is over.
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

    /// Releases the queued events of a session before its end, since nothing may follow that. They are charged to the
    /// budget of later events.
    fn release_session(&mut self, end: &Event, now: Moment, out: &mut Vec<Arc<Event>>) {
        let mut index = 0;
        while let Some(held) = self.held.get(index) {
            if same_session(&held.event, end) {
                self.budget.force_take(now);
                out.extend(self.pop(index));
            } else {
                index += 1;
            }
        }
    }

    /// Drops queued state changes of a session, since a newer one is delivered before them.
    fn drop_states(&mut self, newer: &Event) {
        let is_old = |event: &Event| matches!(event.payload, Payload::StateChanged(_)) && same_session(event, newer);
        while let Some(index) = self.held.iter().position(|held| is_old(&held.event)) {
            self.pop(index);
        }
    }

    fn hold(&mut self, event: Arc<Event>, bytes: usize, effect: &mut FloodEffect) {
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

/// Returns how important an event is; the least important is dropped first.
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

struct CoalescedEvent {
    event: Arc<Event>,
    is_text: bool,
    text_before: usize,
}

/// Coalesces two consecutive events of a session if the second supersedes or continues the first.
fn fold(older: &Event, newer: &Arc<Event>) -> Option<CoalescedEvent> {
    match (&older.payload, &newer.payload) {
        (Payload::ProgressUpdated(_), Payload::ProgressUpdated(_))
        | (Payload::StateChanged(_), Payload::StateChanged(_)) => {
            Some(CoalescedEvent { event: newer.clone(), is_text: false, text_before: 0 })
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
            Some(CoalescedEvent { event: Arc::new(event), is_text: true, text_before: first.chunk.len() })
        }
        _ => None,
    }
}
