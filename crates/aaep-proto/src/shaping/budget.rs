//! The rate limit of a subscription: a token bucket that refills smoothly (decision 4).

use crate::time::Moment;

/// Tokens are counted in millionths, so that a microsecond of refill is a whole number of them.
const TOKEN_MILLIONTHS: i64 = 1_000_000;

/// A token bucket that holds the tokens of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateBudget {
    /// Events per second; unlimited if `None`.
    rate: Option<u32>,
    tokens: i64,
    refilled: Moment,
}

impl RateBudget {
    /// Creates a full bucket.
    pub(crate) fn new(rate: Option<u32>, now: Moment) -> RateBudget {
        // The slowest rate is one event per second; zero would never send anything.
        let rate = rate.map(|r| r.max(1));
        RateBudget { rate, tokens: i64::from(rate.unwrap_or(0)) * TOKEN_MILLIONTHS, refilled: now }
    }

    /// Changes the rate. Used tokens stay used, so that a change of rate never allows more events.
    pub(crate) fn with_rate(mut self, rate: Option<u32>, now: Moment) -> RateBudget {
        let rate = rate.map(|r| r.max(1));
        if self.rate == rate {
            return self;
        }
        self.refill(now);
        let full = i64::from(rate.unwrap_or(0)) * TOKEN_MILLIONTHS;
        let tokens = if self.rate.is_some() { self.tokens.min(full) } else { full };
        RateBudget { rate, tokens, refilled: now }
    }

    /// Takes a token and returns whether there was one.
    pub(crate) fn take(&mut self, now: Moment) -> bool {
        if self.rate.is_none() {
            return true;
        }
        self.refill(now);
        let enough = self.tokens >= TOKEN_MILLIONTHS;
        if enough {
            self.tokens -= TOKEN_MILLIONTHS;
        }
        enough
    }

    /// Takes a token even if there is none; the bucket then refills from below zero.
    pub(crate) fn force_take(&mut self, now: Moment) {
        if self.rate.is_some() {
            self.refill(now);
            self.tokens -= TOKEN_MILLIONTHS;
        }
    }

    /// Returns when the next token is available.
    pub(crate) fn ready_at(&self, now: Moment) -> Moment {
        let Some(rate) = self.rate else { return now };
        let missing = TOKEN_MILLIONTHS - self.tokens - gain(rate, now.since(self.refilled));
        if missing <= 0 {
            return now;
        }
        // Rounded up, so that the token is available at that time.
        now.plus_micros((missing as u64).div_ceil(u64::from(rate)))
    }

    fn refill(&mut self, now: Moment) {
        let Some(rate) = self.rate else { return };
        let full = i64::from(rate) * TOKEN_MILLIONTHS;
        self.tokens = self.tokens.saturating_add(gain(rate, now.since(self.refilled))).min(full);
        self.refilled = self.refilled.max(now);
    }
}

/// Returns how many millionths of a token are added in this many microseconds.
fn gain(rate: u32, micros: u64) -> i64 {
    i64::try_from(u64::from(rate).saturating_mul(micros)).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn burst_is_one_second_and_refill_is_smooth() {
        let mut budget = RateBudget::new(Some(4), Moment::default());
        assert_eq!((0..10).filter(|_| budget.take(Moment::default())).count(), 4);
        // A quarter of a second refills exactly one token, rather than a full second all four.
        assert!(!budget.take(Moment::from_micros(249_999)));
        assert!(budget.take(Moment::from_micros(250_000)));
        assert!(!budget.take(Moment::from_micros(250_000)));
    }

    #[test]
    fn rate_of_zero_is_one_event_per_second() {
        let mut budget = RateBudget::new(Some(0), Moment::default());
        assert!(budget.take(Moment::default()));
        assert_eq!(budget.ready_at(Moment::default()), Moment::from_millis(1000));
        assert!(!budget.with_rate(Some(0), Moment::default()).take(Moment::default()));
    }

    #[test]
    fn forced_tokens_are_repaid_later() {
        let mut budget = RateBudget::new(Some(1), Moment::default());
        for _ in 0..3 {
            budget.force_take(Moment::default());
        }
        assert_eq!(budget.ready_at(Moment::default()), Moment::from_millis(3000));
        assert!(!budget.take(Moment::from_millis(2999)));
        assert!(budget.take(Moment::from_millis(3000)));
    }

    #[test]
    fn change_of_rate_adds_no_tokens() {
        let mut budget = RateBudget::new(Some(10), Moment::default());
        assert_eq!((0..20).filter(|_| budget.take(Moment::default())).count(), 10);
        let mut budget = budget.with_rate(Some(5), Moment::default());
        assert!(!budget.take(Moment::default()));
        let mut full = RateBudget::new(Some(10), Moment::default()).with_rate(Some(2), Moment::default());
        assert_eq!((0..20).filter(|_| full.take(Moment::default())).count(), 2);
    }

    proptest! {
        /// The bound of decision 4 holds in every window, whenever tokens are taken.
        #[test]
        fn no_window_has_more_than_rate_times_length_plus_rate(rate in 1u32..50, gaps in proptest::collection::vec(0u64..400_000, 1..200)) {
            let mut budget = RateBudget::new(Some(rate), Moment::default());
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
