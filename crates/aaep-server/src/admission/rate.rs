//! Rate limits: requests and messages per principal, control frames per connection.
//!
//! Producing, subscribing and replying have separate rates, so that a busy agent cannot keep a subscriber from replying,
//! even without credentials, where both are the same principal.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Principals with a token bucket, for each purpose. Above that, the least recently active ones are forgotten.
const MAX_PRINCIPALS: usize = 10_000;

/// The capacity of a token bucket, in seconds of its rate.
const BURST_SECONDS: f64 = 2.0;

/// How many seconds' worth of messages or control frames a connection may send above its rate before it is closed. Until
/// then it is slowed down.
pub(crate) const EXCESS_SECONDS: u32 = 10;

/// Control frames of one connection per second: WebSocket pings and pongs, empty messages.
pub(crate) const CONTROL_FRAMES_PER_SECOND: u32 = 50;

/// The purpose of a request or message, which has its own rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    /// Events of agents.
    Produce,
    /// Subscriptions, streams and everything else that is not one of the others.
    Subscribe,
    /// Messages of subscribers: replies, renegotiations, closes.
    Reply,
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    left: f64,
    at: Instant,
}

impl TokenBucket {
    fn full(per_second: f64, now: Instant) -> TokenBucket {
        TokenBucket { left: BURST_SECONDS * per_second, at: now }
    }

    /// Takes one token, or returns how long it takes until there is one.
    fn take(&mut self, per_second: f64, now: Instant) -> Result<BucketLevel, Duration> {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * per_second).min(BURST_SECONDS * per_second);
        self.at = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / per_second));
        }
        self.left -= 1.0;
        // A peer that is slowed down finds single tokens; only one that was quiet for a while finds many.
        Ok(if self.left >= per_second { BucketLevel::High } else { BucketLevel::Low })
    }
}

/// How much a bucket holds after one token was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketLevel {
    /// At least one second's worth.
    High,
    /// Less than one second's worth.
    Low,
}

/// A token bucket for each principal and purpose.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_second: u32,
    buckets: [Mutex<HashMap<String, TokenBucket>>; 3],
}

impl RateLimiter {
    /// Creates a limiter with a rate of at least one per second: zero would reject everything forever.
    pub(crate) fn new(per_second: u32) -> RateLimiter {
        RateLimiter { per_second: per_second.max(1), buckets: Default::default() }
    }

    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Takes a token of a principal. Fails with the time until the next one if there is none.
    pub(crate) fn take(&self, principal: &str, purpose: RequestPurpose) -> Result<BucketLevel, Duration> {
        self.take_at(principal, purpose, Instant::now())
    }

    fn take_at(&self, principal: &str, purpose: RequestPurpose, now: Instant) -> Result<BucketLevel, Duration> {
        let per_second = f64::from(self.per_second);
        let mut buckets = self.buckets[purpose as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(principal) {
            return bucket.take(per_second, now);
        }
        if buckets.len() >= MAX_PRINCIPALS {
            forget_least_recent(&mut buckets);
        }
        buckets.entry(principal.to_owned()).or_insert_with(|| TokenBucket::full(per_second, now)).take(per_second, now)
    }
}

/// Forgets the least recently active half, so that a new principal always gets a bucket. A forgotten principal starts again
/// with a full bucket.
fn forget_least_recent(buckets: &mut HashMap<String, TokenBucket>) {
    let mut times: Vec<Instant> = buckets.values().map(|bucket| bucket.at).collect();
    let half = times.len() / 2;
    let (_, middle, _) = times.select_nth_unstable(half);
    let middle = *middle;
    let mut surplus = half;
    buckets.retain(|_, bucket| {
        let quiet = bucket.at <= middle && surplus > 0;
        surplus -= usize::from(quiet);
        !quiet
    });
}

/// What to do after a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFrameAction {
    /// Continue: it is within the rate.
    Pass,
    /// Read nothing for this long.
    Pause(Duration),
    /// Close the connection: the peer goes on in spite of the pauses.
    Excessive,
}

/// The rate of control frames of one connection.
#[derive(Debug)]
pub(crate) struct ControlFrameRate {
    bucket: TokenBucket,
    in_a_row: u32,
}

impl ControlFrameRate {
    pub(crate) fn new() -> ControlFrameRate {
        ControlFrameRate {
            bucket: TokenBucket::full(f64::from(CONTROL_FRAMES_PER_SECOND), Instant::now()),
            in_a_row: 0,
        }
    }

    /// Allows one more frame, after a write that the peer may answer with one.
    pub(crate) fn allow_one(&mut self) {
        let most = BURST_SECONDS * f64::from(CONTROL_FRAMES_PER_SECOND);
        self.bucket.left = (self.bucket.left + 1.0).min(most);
    }

    /// Counts a received frame.
    pub(crate) fn count(&mut self) -> ControlFrameAction {
        match self.bucket.take(f64::from(CONTROL_FRAMES_PER_SECOND), Instant::now()) {
            Ok(BucketLevel::High) => {
                self.in_a_row = 0;
                ControlFrameAction::Pass
            }
            Ok(BucketLevel::Low) => ControlFrameAction::Pass,
            Err(_) if self.in_a_row >= EXCESS_SECONDS * CONTROL_FRAMES_PER_SECOND => ControlFrameAction::Excessive,
            Err(_) => {
                self.in_a_row += 1;
                // The frame uses the token that is added during the pause.
                self.bucket.left -= 1.0;
                ControlFrameAction::Pause(Duration::from_secs(1) / CONTROL_FRAMES_PER_SECOND)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_its_own_rate() {
        let rates = RateLimiter::new(5);
        let start = Instant::now();
        let taken = |who: &str, at| (0..100).filter(|_| rates.take_at(who, RequestPurpose::Reply, at).is_ok()).count();
        assert_eq!(taken("eve", start), 10, "two seconds' worth");
        assert!(rates.take_at("ada", RequestPurpose::Reply, start).is_ok(), "another principal is not affected");
        assert_eq!(rates.take_at("eve", RequestPurpose::Reply, start), Err(Duration::from_millis(200)));
        assert_eq!(taken("eve", start + Duration::from_secs(1)), 5);
    }

    #[test]
    fn each_purpose_has_its_own_rate() {
        let rates = RateLimiter::new(5);
        let now = Instant::now();
        while rates.take_at("local", RequestPurpose::Produce, now).is_ok() {}
        assert!(rates.take_at("local", RequestPurpose::Reply, now).is_ok());
        assert!(rates.take_at("local", RequestPurpose::Subscribe, now).is_ok());
    }

    #[test]
    fn memory_is_bounded_and_new_principals_are_admitted() {
        let rates = RateLimiter::new(1);
        let now = Instant::now();
        for n in 0..3 * MAX_PRINCIPALS {
            assert!(rates.take_at(&n.to_string(), RequestPurpose::Reply, now).is_ok(), "{n}");
        }
        assert!(rates.buckets[RequestPurpose::Reply as usize].lock().unwrap().len() <= MAX_PRINCIPALS);
    }

    #[test]
    fn active_principals_are_not_forgotten() {
        let rates = RateLimiter::new(1);
        let start = Instant::now();
        for n in 0..MAX_PRINCIPALS {
            let _ = rates.take_at(&n.to_string(), RequestPurpose::Reply, start);
        }
        let later = start + Duration::from_millis(1);
        while rates.take_at("0", RequestPurpose::Reply, later).is_ok() {}
        assert!(rates.take_at("new", RequestPurpose::Reply, later).is_ok());
        assert!(rates.take_at("0", RequestPurpose::Reply, later).is_err(), "it has no new bucket");
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_are_slowed_down_and_then_excessive() {
        let mut frames = ControlFrameRate::new();
        let start = Instant::now();
        let mut count = 0;
        loop {
            match frames.count() {
                ControlFrameAction::Pass => count += 1,
                ControlFrameAction::Pause(pause) => {
                    count += 1;
                    // Timers are late.
                    tokio::time::advance(pause + Duration::from_millis(3)).await;
                }
                ControlFrameAction::Excessive => break,
            }
        }
        let rate = CONTROL_FRAMES_PER_SECOND;
        assert!((11 * rate..=16 * rate).contains(&count), "{count} frames");
        assert!(start.elapsed() >= Duration::from_secs(10), "{:?}", start.elapsed());
        // A peer that pings now and then is never slowed down.
        let mut frames = ControlFrameRate::new();
        for _ in 0..1_000 {
            tokio::time::advance(Duration::from_secs(1) / rate).await;
            assert_eq!(frames.count(), ControlFrameAction::Pass);
        }
    }
}
