//! How often one principal may ask for something, and how often one connection may send control frames.
//!
//! Producing, subscribing and replying have budgets of their own, so that an agent that sends much cannot keep a
//! listener from answering, even where no credentials are asked for and both are the same principal.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Principals that are remembered for each purpose. Above, those that were quiet longest are forgotten.
const MAX_PRINCIPALS: usize = 10_000;

/// A budget holds this many seconds' worth.
const BURST_SECONDS: f64 = 2.0;

/// How many seconds' worth of messages or control frames a connection may send in a row above its rate. Until then it is
/// slowed down, then it is closed.
pub(crate) const EXCESS_SECONDS: u32 = 10;

/// Control frames of one connection in a second: WebSocket pings and pongs, empty messages.
pub(crate) const CONTROL_FRAMES_PER_SECOND: u32 = 50;

/// What a request or message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    /// Events of agents.
    Produce,
    /// Subscriptions, streams and everything else that is not one of the others.
    Subscribe,
    /// What subscribers send: replies, renegotiations, closes.
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

    /// Takes one token, or says when there will be one.
    fn take(&mut self, per_second: f64, now: Instant) -> Result<BucketLevel, Duration> {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * per_second).min(BURST_SECONDS * per_second);
        self.at = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / per_second));
        }
        self.left -= 1.0;
        // A peer that is slowed down finds a token now and then; only one that was quiet for a while finds many.
        Ok(if self.left >= per_second { BucketLevel::Calm } else { BucketLevel::Low })
    }
}

/// How much a bucket holds after one token was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketLevel {
    /// At least one second's worth.
    Calm,
    /// Less.
    Low,
}

/// A bucket for each principal and purpose.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_second: u32,
    buckets: [Mutex<HashMap<String, TokenBucket>>; 3],
}

impl RateLimiter {
    /// A rate of nothing would lock everyone out for good, so it is at least one in a second.
    pub(crate) fn new(per_second: u32) -> RateLimiter {
        RateLimiter { per_second: per_second.max(1), buckets: Default::default() }
    }

    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Whether this principal may go on now; if not, how long it has to wait at least.
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

/// Forgets the half that was quiet longest, so that new principals always find room. Who is forgotten starts again with
/// a full bucket.
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

/// What happens to a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFrameAction {
    /// It is within the rate.
    Pass,
    /// Nothing is read for this long.
    Pause(Duration),
    /// The peer goes on in spite of the pauses.
    Excessive,
}

/// The control frames of one connection.
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

    /// Allows one frame more, since something was sent that the peer may answer with one.
    pub(crate) fn allow_one(&mut self) {
        let most = BURST_SECONDS * f64::from(CONTROL_FRAMES_PER_SECOND);
        self.bucket.left = (self.bucket.left + 1.0).min(most);
    }

    /// Counts a frame that has come.
    pub(crate) fn count(&mut self) -> ControlFrameAction {
        match self.bucket.take(f64::from(CONTROL_FRAMES_PER_SECOND), Instant::now()) {
            Ok(BucketLevel::Calm) => {
                self.in_a_row = 0;
                ControlFrameAction::Pass
            }
            Ok(BucketLevel::Low) => ControlFrameAction::Pass,
            Err(_) if self.in_a_row >= EXCESS_SECONDS * CONTROL_FRAMES_PER_SECOND => ControlFrameAction::Excessive,
            Err(_) => {
                self.in_a_row += 1;
                // The frame has used what comes in during the pause.
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
        assert!(rates.take_at("ada", RequestPurpose::Reply, start).is_ok(), "another is not held up");
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
    fn memory_is_bounded_and_newcomers_are_never_refused_for_it() {
        let rates = RateLimiter::new(1);
        let now = Instant::now();
        for n in 0..3 * MAX_PRINCIPALS {
            assert!(rates.take_at(&n.to_string(), RequestPurpose::Reply, now).is_ok(), "{n}");
        }
        assert!(rates.buckets[RequestPurpose::Reply as usize].lock().unwrap().len() <= MAX_PRINCIPALS);
    }

    #[test]
    fn those_who_keep_sending_are_not_forgotten() {
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
    async fn control_frames_are_slowed_down_and_then_too_many() {
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
