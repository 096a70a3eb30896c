//! Puts the events of one session back into the order of their numbers, and says what is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::receive::memory_size;
use crate::limits;
use crate::message::Event;
use crate::time::Moment;

/// What comes out, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ordered {
    Event(Arc<Event>),
    /// These numbers did not come.
    Missing(u64, u64),
    /// This event came after its turn.
    Late(Arc<Event>),
}

/// The order of one session. Without numbers there is nothing to restore: events pass as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// The number whose turn it is, once one was seen.
    next: Option<u64>,
    /// What came before its turn. A critical event did not wait: only its number is kept.
    early: BTreeMap<u64, Option<Arc<Event>>>,
    /// About how much of it there is.
    bytes: usize,
    give_up_at: Option<Moment>,
}

impl Order {
    /// Takes the next event as it arrives.
    pub(super) fn push(&mut self, event: Arc<Event>, critical: bool, now: Moment, out: &mut Vec<Ordered>) {
        let Some(number) = event.envelope.sequence_number else { return out.push(Ordered::Event(event)) };
        // Who joins in the middle begins where it joined.
        let next = *self.next.get_or_insert(number);
        if number < next || self.early.contains_key(&number) {
            return out.push(Ordered::Late(event));
        }
        if event.core_type().is_some_and(|core| core.is_terminal()) && critical {
            // Nothing may follow the end, and a critical end does not wait: the rest goes first.
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
        self.give_up_at.get_or_insert(now.plus_millis(limits::EARLY_MILLIS));
    }

    /// When what is missing counts as lost.
    pub(super) fn due(&self) -> Option<Moment> {
        self.give_up_at
    }

    /// How many events wait, and about how many bytes.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.early.len(), self.bytes)
    }

    /// Gives up what is missing before the first that waits, if its time is over.
    pub(super) fn give_up(&mut self, now: Moment, out: &mut Vec<Ordered>) {
        if self.give_up_at.is_some_and(|at| at <= now) {
            self.skip(out);
            self.drain(now, out);
        }
    }

    /// Gives up everything that is missing.
    pub(super) fn flush(&mut self, out: &mut Vec<Ordered>) {
        while !self.early.is_empty() {
            self.skip(out);
            self.drain(Moment::default(), out);
        }
        self.give_up_at = None;
    }

    /// Forgets where it stood: the numbers begin anew.
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
        self.give_up_at = (!self.early.is_empty()).then(|| now.plus_millis(limits::EARLY_MILLIS));
    }
}
