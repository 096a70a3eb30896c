//! The deadlines of the engine: one table, with at most one deadline per [`Timer`].

use std::collections::{BTreeMap, BTreeSet};

use super::subscription::SubscriptionKey;
use crate::id::{OutputId, ReplyToken, SessionId};
use crate::time::Moment;

/// What a deadline is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// An outbox may release more.
    Outbox(SubscriptionKey),
    /// A resumable subscription has been disconnected for too long.
    Away(SubscriptionKey),
    /// The remaining time of a question is emitted.
    Countdown(ReplyToken),
    /// A question times out.
    Timeout(ReplyToken),
    /// The agent of a recovered session did not adopt it in time.
    Orphan(SessionId),
    /// Text that the redactor holds back is released.
    HeldText(SessionId, OutputId),
    /// Nothing was written to an output for a while.
    Pause(SessionId, OutputId),
}

/// All timers that are set, ordered by deadline.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_deadline: BTreeSet<(Moment, Timer)>,
    deadlines: BTreeMap<Timer, Moment>,
}

impl Timers {
    /// Sets a timer. A deadline that it had before is replaced.
    pub(super) fn set(&mut self, timer: Timer, at: Moment) {
        match self.deadlines.insert(timer.clone(), at) {
            Some(before) if before == at => {}
            Some(before) => {
                let mut entry = (before, timer);
                self.by_deadline.remove(&entry);
                entry.0 = at;
                self.by_deadline.insert(entry);
            }
            None => {
                self.by_deadline.insert((at, timer));
            }
        }
    }

    /// Sets a timer, or stops it if there is no deadline.
    pub(super) fn set_or_stop(&mut self, timer: Timer, at: Option<Moment>) {
        match at {
            Some(at) => self.set(timer, at),
            None => self.stop(timer),
        }
    }

    /// Stops a timer if it is set.
    pub(super) fn stop(&mut self, timer: Timer) {
        if let Some(at) = self.deadlines.remove(&timer) {
            self.by_deadline.remove(&(at, timer));
        }
    }

    /// Whether a timer is set.
    pub(super) fn is_set(&self, timer: &Timer) -> bool {
        self.deadlines.contains_key(timer)
    }

    /// Returns the earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.by_deadline.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest timer that is due by now.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Timer> {
        if self.next_deadline()? > now {
            return None;
        }
        let (_, timer) = self.by_deadline.pop_first()?;
        self.deadlines.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(token: &str) -> Timer {
        Timer::Timeout(token.parse().unwrap())
    }

    fn at(seconds: u64) -> Moment {
        Moment::default().plus_seconds(seconds)
    }

    #[test]
    fn timers_are_due_in_order_of_their_deadlines() {
        let mut timers = Timers::default();
        timers.set(timeout("rpl_1"), at(2));
        timers.set(timeout("rpl_2"), at(1));
        assert_eq!(timers.next_deadline(), Some(at(1)));
        assert_eq!(timers.pop_due(at(0)), None);
        assert_eq!(timers.pop_due(at(3)), Some(timeout("rpl_2")));
        assert_eq!(timers.pop_due(at(3)), Some(timeout("rpl_1")));
        assert_eq!((timers.pop_due(at(3)), timers.next_deadline()), (None, None));
    }

    #[test]
    fn a_new_deadline_replaces_the_old_one() {
        let mut timers = Timers::default();
        timers.set(timeout("rpl_1"), at(1));
        timers.set(timeout("rpl_1"), at(5));
        assert_eq!(timers.pop_due(at(4)), None);
        assert_eq!(timers.pop_due(at(5)), Some(timeout("rpl_1")));
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn a_stopped_timer_is_never_due() {
        let mut timers = Timers::default();
        timers.set(timeout("rpl_1"), at(1));
        timers.stop(timeout("rpl_1"));
        timers.stop(timeout("rpl_2"));
        assert!(!timers.is_set(&timeout("rpl_1")));
        assert_eq!((timers.pop_due(at(9)), timers.next_deadline()), (None, None));
    }
}
