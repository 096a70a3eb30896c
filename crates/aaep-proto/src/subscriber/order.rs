//! Restores the order of a session's events by their sequence numbers, and reports missing ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::receive::memory_size;
use crate::limits;
use crate::message::Event;
use crate::time::Moment;

/// One item of the restored order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ordered {
    Event(Arc<Event>),
    /// Events from the first to the last of these numbers are missing.
    Missing(u64, u64),
    /// This event arrived after events with higher numbers were delivered.
    Late(Arc<Event>),
}

/// The order of one session. Events without numbers pass as they arrive.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberOrder {
    /// The number that is due next, once one was seen.
    next: Option<u64>,
    /// Events that arrived early, by number. Of a critical event, which does not wait, only the number is kept.
    early: BTreeMap<u64, Option<Arc<Event>>>,
    /// The approximate size of the early events.
    bytes: usize,
    give_up_at: Option<Moment>,
}

impl NumberOrder {
    /// Takes an event as it arrives and appends what may be delivered to `out`.
    pub(super) fn push(&mut self, event: Arc<Event>, critical: bool, now: Moment, out: &mut Vec<Ordered>) {
        let Some(number) = event.envelope.sequence_number else { return out.push(Ordered::Event(event)) };
        // A subscriber that joins midway starts at the first number that it sees.
        let next = *self.next.get_or_insert(number);
        if number < next || self.early.contains_key(&number) {
            return out.push(Ordered::Late(event));
        }
        if event.core_type().is_some_and(|core| core.is_terminal()) && critical {
            // Nothing may follow the end, and a critical end does not wait, so early events are delivered first.
            self.flush(out);
            if self.next.is_some_and(|next| next < number) {
                out.push(Ordered::Missing(self.next.unwrap_or(number), number - 1));
            }
            self.next = Some(number.saturating_add(1));
            return out.push(Ordered::Event(event));
        }
        if number == next {
            out.push(Ordered::Event(event));
            self.next = Some(number.saturating_add(1));
            return self.drain(now, out);
        }
        if critical {
            out.push(Ordered::Event(event));
            self.early.insert(number, None);
        } else {
            self.bytes += memory_size(&event);
            self.early.insert(number, Some(event));
        }
        self.give_up_at.get_or_insert(now.plus_millis(limits::EARLY_WAIT_MILLIS));
    }

    /// Returns when missing events count as lost.
    pub(super) fn due(&self) -> Option<Moment> {
        self.give_up_at
    }

    /// Returns how many events are early, and their approximate bytes.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.early.len(), self.bytes)
    }

    /// Skips the events that are missing before the first early one, if their time is over.
    pub(super) fn give_up(&mut self, now: Moment, out: &mut Vec<Ordered>) {
        if self.give_up_at.is_some_and(|at| at <= now) {
            self.skip(out);
            self.drain(now, out);
        }
    }

    /// Skips all missing events.
    pub(super) fn flush(&mut self, out: &mut Vec<Ordered>) {
        while !self.early.is_empty() {
            self.skip(out);
            self.drain(Moment::default(), out);
        }
        self.give_up_at = None;
    }

    /// Flushes, and expects numbering to start over.
    pub(super) fn restart(&mut self, out: &mut Vec<Ordered>) {
        self.flush(out);
        self.next = None;
    }

    fn skip(&mut self, out: &mut Vec<Ordered>) {
        if let (Some((first, _)), Some(next)) = (self.early.first_key_value(), self.next)
            && *first > next
        {
            out.push(Ordered::Missing(next, *first - 1));
            self.next = Some(*first);
        }
    }

    fn drain(&mut self, now: Moment, out: &mut Vec<Ordered>) {
        while let Some(entry) = self.early.first_entry()
            && Some(*entry.key()) == self.next
        {
            let (number, event) = entry.remove_entry();
            if let Some(event) = event {
                self.bytes = self.bytes.saturating_sub(memory_size(&event));
                out.push(Ordered::Event(event));
            }
            self.next = Some(number.saturating_add(1));
        }
        self.give_up_at = (!self.early.is_empty()).then(|| now.plus_millis(limits::EARLY_WAIT_MILLIS));
    }
}
