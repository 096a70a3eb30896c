//! How many events a subscription may still get: a token bucket that refills smoothly (decision 4).

use crate::time::Moment;

/// Tokens are counted in millionths, so that a microsecond of refill is a whole number of them.
const TOKEN: i64 = 1_000_000;

/// A token bucket: holds one second's worth, and is asked with the time.
///
/// ```
/// use aaep_proto::shaping::budget::Budget;
/// use aaep_proto::time::Moment;
/// let mut budget = Budget::new(Some(1), Moment::default());
/// assert!(budget.take(Moment::default()));
/// assert!(!budget.take(Moment::from_millis(999)));
/// assert_eq!(budget.ready_at(Moment::from_millis(999)), Moment::from_millis(1000));
/// assert!(budget.take(Moment::from_millis(1000)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Events per second; `None` is no bound.
    rate: Option<u32>,
    tokens: i64,
    refilled: Moment,
}

impl Budget {
    /// A full bucket.
    pub fn new(rate: Option<u32>, now: Moment) -> Budget {
        // A rate of nothing would mean never; the slowest there is is one.
        let rate = rate.map(|r| r.max(1));
        Budget { rate, tokens: i64::from(rate.unwrap_or(0)) * TOKEN, refilled: now }
    }

    /// The same bucket with another rate: what was used stays used, and nothing is given away.
    pub fn with_rate(mut self, rate: Option<u32>, now: Moment) -> Budget {
        let rate = rate.map(|r| r.max(1));
        if self.rate == rate {
            return self;
        }
        self.refill(now);
        let full = i64::from(rate.unwrap_or(0)) * TOKEN;
        let tokens = if self.rate.is_some() { self.tokens.min(full) } else { full };
        Budget { rate, tokens, refilled: now }
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Moment) -> bool {
        if self.rate.is_none() {
            return true;
        }
        self.refill(now);
        let enough = self.tokens >= TOKEN;
        if enough {
            self.tokens -= TOKEN;
        }
        enough
    }

    /// Takes a token that may not be there: later events pay for it.
    pub fn owe(&mut self, now: Moment) {
        if self.rate.is_some() {
            self.refill(now);
            self.tokens -= TOKEN;
        }
    }

    /// When the next token is there.
    pub fn ready_at(&self, now: Moment) -> Moment {
        let Some(rate) = self.rate else { return now };
        let missing = TOKEN - self.tokens - gain(rate, now.since(self.refilled));
        if missing <= 0 {
            return now;
        }
        // Rounded up, so that the token is there when the time has come.
        now.plus_micros((missing as u64).div_ceil(u64::from(rate)))
    }

    fn refill(&mut self, now: Moment) {
        let Some(rate) = self.rate else { return };
        let full = i64::from(rate) * TOKEN;
        self.tokens = self.tokens.saturating_add(gain(rate, now.since(self.refilled))).min(full);
        self.refilled = self.refilled.max(now);
    }
}

/// Millionths of a token that so many microseconds bring.
fn gain(rate: u32, micros: u64) -> i64 {
    i64::try_from(u64::from(rate).saturating_mul(micros)).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_is_one_second_and_refill_is_smooth() {
        let mut budget = Budget::new(Some(4), Moment::default());
        assert_eq!((0..10).filter(|_| budget.take(Moment::default())).count(), 4);
        // A quarter of a second brings exactly one, not four at the full second.
        assert!(!budget.take(Moment::from_micros(249_999)));
        assert!(budget.take(Moment::from_micros(250_000)));
        assert!(!budget.take(Moment::from_micros(250_000)));
    }

    #[test]
    fn a_rate_of_nothing_is_the_slowest_there_is() {
        let mut budget = Budget::new(Some(0), Moment::default());
        assert!(budget.take(Moment::default()));
        assert_eq!(budget.ready_at(Moment::default()), Moment::from_millis(1000));
        assert!(!budget.with_rate(Some(0), Moment::default()).take(Moment::default()));
    }

    #[test]
    fn what_is_owed_is_paid_later() {
        let mut budget = Budget::new(Some(1), Moment::default());
        for _ in 0..3 {
            budget.owe(Moment::default());
        }
        assert_eq!(budget.ready_at(Moment::default()), Moment::from_millis(3000));
        assert!(!budget.take(Moment::from_millis(2999)));
        assert!(budget.take(Moment::from_millis(3000)));
    }

    #[test]
    fn a_change_of_rate_gives_nothing_away() {
        let mut budget = Budget::new(Some(10), Moment::default());
        assert_eq!((0..20).filter(|_| budget.take(Moment::default())).count(), 10);
        let mut budget = budget.with_rate(Some(5), Moment::default());
        assert!(!budget.take(Moment::default()));
        let mut full = Budget::new(Some(10), Moment::default()).with_rate(Some(2), Moment::default());
        assert_eq!((0..20).filter(|_| full.take(Moment::default())).count(), 2);
    }

    proptest! {
        /// The bound of decision 4, in every window, whatever the times of asking.
        #[test]
        fn no_window_has_more_than_rate_times_length_plus_rate(rate in 1u32..50, gaps in proptest::collection::vec(0u64..400_000, 1..200)) {
            let mut budget = Budget::new(Some(rate), Moment::default());
            let mut now = Moment::default();
            let mut taken = Vec::new();
            for gap in gaps {
                now = now.plus_micros(gap);
                let ready = budget.ready_at(now);
                let took = budget.take(now);
                prop_assert_eq!(took, ready == now);
                if took {
                    taken.push(now);
                }
            }
            for (i, start) in taken.iter().enumerate() {
                for (count, end) in taken[i..].iter().enumerate() {
                    let seconds = end.since(*start) as f64 / 1e6;
                    prop_assert!((count + 1) as f64 <= f64::from(rate) * seconds + f64::from(rate) + 1e-6);
                }
            }
        }
    }
}
