//! How often one principal may ask for something.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Principals that are remembered; above, those whose bucket is full again are forgotten.
const PRINCIPALS: usize = 10_000;

/// A token bucket for each principal: two seconds' worth, refilled steadily.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: f64,
    buckets: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rates {
    pub(crate) fn new(per_second: u32) -> Rates {
        Rates { per_second: f64::from(per_second), buckets: Mutex::default() }
    }

    /// Whether this principal may go on now.
    pub(crate) fn take(&self, principal: &str) -> bool {
        self.take_at(principal, Instant::now())
    }

    fn take_at(&self, principal: &str, now: Instant) -> bool {
        let most = 2.0 * self.per_second;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= PRINCIPALS && !buckets.contains_key(principal) {
            buckets.retain(|_, (left, at)| *left + now.duration_since(*at).as_secs_f64() * self.per_second < most);
            if buckets.len() >= PRINCIPALS {
                return false;
            }
        }
        let (left, at) = buckets.entry(principal.to_owned()).or_insert((most, now));
        *left = (*left + now.duration_since(*at).as_secs_f64() * self.per_second).min(most);
        *at = now;
        let may = *left >= 1.0;
        *left -= if may { 1.0 } else { 0.0 };
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_principal_has_its_own_rate() {
        let rates = Rates::new(5);
        let start = Instant::now();
        let taken = (0..100).filter(|_| rates.take_at("eve", start)).count();
        assert_eq!(taken, 10, "two seconds' worth");
        assert!(rates.take_at("ada", start), "another is not held up");
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| rates.take_at("eve", later)).count(), 5);
    }

    #[test]
    fn memory_is_bounded() {
        let rates = Rates::new(1);
        let now = Instant::now();
        for n in 0..PRINCIPALS + 5 {
            rates.take_at(&n.to_string(), now);
        }
        assert!(rates.buckets.lock().unwrap().len() <= PRINCIPALS);
        assert!(rates.take_at("late", now + Duration::from_secs(10)), "who was silent makes place");
    }
}
