//! How often one principal may ask for something, and how often one connection may send control frames.
//!
//! Producing, subscribing and replying have budgets of their own, so that an agent that sends much cannot keep a
//! listener from answering, even where no credentials are asked for and both are the same principal.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Principals that are remembered for each purpose. Above, those that were quiet longest are forgotten.
const PRINCIPALS: usize = 10_000;

/// A budget holds this many seconds' worth.
const BURST_SECONDS: f64 = 2.0;

/// How many seconds' worth of messages or control frames a connection may send in a row above its rate. Until then it is
/// slowed down, then it is closed.
pub(crate) const EXCESS_SECONDS: u32 = 10;

/// Control frames of one connection in a second: WebSocket pings and pongs, empty messages.
pub(crate) const CONTROL_FRAMES_PER_SECOND: u32 = 50;

/// What a request or message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Events of agents.
    Produce,
    /// Subscriptions, streams and everything else that is not one of the others.
    Subscribe,
    /// What subscribers send: replies, renegotiations, closes.
    Reply,
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(per_second: f64, now: Instant) -> Bucket {
        Bucket { left: BURST_SECONDS * per_second, at: now }
    }

    /// Takes one token, or says when there will be one.
    fn take(&mut self, per_second: f64, now: Instant) -> Result<Level, Duration> {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * per_second).min(BURST_SECONDS * per_second);
        self.at = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / per_second));
        }
        self.left -= 1.0;
        // A peer that is slowed down finds a token now and then; only one that was quiet for a while finds many.
        Ok(if self.left >= per_second { Level::Calm } else { Level::Low })
    }
}

/// How much a bucket holds after one token was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// At least one second's worth.
    Calm,
    /// Less.
    Low,
}

/// A bucket for each principal and purpose.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: u32,
    buckets: [Mutex<HashMap<String, Bucket>>; 3],
}

impl Rates {
    /// A rate of nothing would lock everyone out for good, so it is at least one in a second.
    pub(crate) fn new(per_second: u32) -> Rates {
        Rates { per_second: per_second.max(1), buckets: Default::default() }
    }

    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Whether this principal may go on now; if not, how long it has to wait at least.
    pub(crate) fn take(&self, principal: &str, purpose: Purpose) -> Result<Level, Duration> {
        self.take_at(principal, purpose, Instant::now())
    }

    fn take_at(&self, principal: &str, purpose: Purpose, now: Instant) -> Result<Level, Duration> {
        let per_second = f64::from(self.per_second);
        let mut buckets = self.buckets[purpose as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(principal) {
            return bucket.take(per_second, now);
        }
        if buckets.len() >= PRINCIPALS {
            forget_the_quiet(&mut buckets);
        }
        buckets.entry(principal.to_owned()).or_insert_with(|| Bucket::full(per_second, now)).take(per_second, now)
    }
}

/// Forgets the half that was quiet longest, so that new principals always find room. Who is forgotten starts again with
/// a full bucket.
fn forget_the_quiet(buckets: &mut HashMap<String, Bucket>) {
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
pub(crate) enum Control {
    /// It is within the rate.
    Pass,
    /// Nothing is read for this long.
    Pause(Duration),
    /// The peer goes on in spite of the pauses.
    Excessive,
}

/// The control frames of one connection.
#[derive(Debug)]
pub(crate) struct ControlFrames {
    bucket: Bucket,
    in_a_row: u32,
}

impl ControlFrames {
    pub(crate) fn new() -> ControlFrames {
        ControlFrames { bucket: Bucket::full(f64::from(CONTROL_FRAMES_PER_SECOND), Instant::now()), in_a_row: 0 }
    }

    /// Allows one frame more, since something was sent that the peer may answer with one.
    pub(crate) fn allow_one(&mut self) {
        let most = BURST_SECONDS * f64::from(CONTROL_FRAMES_PER_SECOND);
        self.bucket.left = (self.bucket.left + 1.0).min(most);
    }

    /// Counts a frame that has come.
    pub(crate) fn count(&mut self) -> Control {
        match self.bucket.take(f64::from(CONTROL_FRAMES_PER_SECOND), Instant::now()) {
            Ok(Level::Calm) => {
                self.in_a_row = 0;
                Control::Pass
            }
            Ok(Level::Low) => Control::Pass,
            Err(_) if self.in_a_row >= EXCESS_SECONDS * CONTROL_FRAMES_PER_SECOND => Control::Excessive,
            Err(_) => {
                self.in_a_row += 1;
                // The frame has used what comes in during the pause.
                self.bucket.left -= 1.0;
                Control::Pause(Duration::from_secs(1) / CONTROL_FRAMES_PER_SECOND)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_its_own_rate() {
        let rates = Rates::new(5);
        let start = Instant::now();
        let taken = |who: &str, at| (0..100).filter(|_| rates.take_at(who, Purpose::Reply, at).is_ok()).count();
        assert_eq!(taken("eve", start), 10, "two seconds' worth");
        assert!(rates.take_at("ada", Purpose::Reply, start).is_ok(), "another is not held up");
        assert_eq!(rates.take_at("eve", Purpose::Reply, start), Err(Duration::from_millis(200)));
        assert_eq!(taken("eve", start + Duration::from_secs(1)), 5);
    }

    #[test]
    fn each_purpose_has_its_own_rate() {
        let rates = Rates::new(5);
        let now = Instant::now();
        while rates.take_at("local", Purpose::Produce, now).is_ok() {}
        assert!(rates.take_at("local", Purpose::Reply, now).is_ok());
        assert!(rates.take_at("local", Purpose::Subscribe, now).is_ok());
    }

    #[test]
    fn memory_is_bounded_and_newcomers_are_never_refused_for_it() {
        let rates = Rates::new(1);
        let now = Instant::now();
        for n in 0..3 * PRINCIPALS {
            assert!(rates.take_at(&n.to_string(), Purpose::Reply, now).is_ok(), "{n}");
        }
        assert!(rates.buckets[Purpose::Reply as usize].lock().unwrap().len() <= PRINCIPALS);
    }

    #[test]
    fn those_who_keep_sending_are_not_forgotten() {
        let rates = Rates::new(1);
        let start = Instant::now();
        for n in 0..PRINCIPALS {
            let _ = rates.take_at(&n.to_string(), Purpose::Reply, start);
        }
        let later = start + Duration::from_millis(1);
        while rates.take_at("0", Purpose::Reply, later).is_ok() {}
        assert!(rates.take_at("new", Purpose::Reply, later).is_ok());
        assert!(rates.take_at("0", Purpose::Reply, later).is_err(), "it has no new bucket");
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_are_slowed_down_and_then_too_many() {
        let mut frames = ControlFrames::new();
        let start = Instant::now();
        let mut count = 0;
        loop {
            match frames.count() {
                Control::Pass => count += 1,
                Control::Pause(pause) => {
                    count += 1;
                    // Timers are late.
                    tokio::time::advance(pause + Duration::from_millis(3)).await;
                }
                Control::Excessive => break,
            }
        }
        let rate = CONTROL_FRAMES_PER_SECOND;
        assert!((11 * rate..=16 * rate).contains(&count), "{count} frames");
        assert!(start.elapsed() >= Duration::from_secs(10), "{:?}", start.elapsed());
        // A peer that pings now and then is never slowed down.
        let mut frames = ControlFrames::new();
        for _ in 0..1_000 {
            tokio::time::advance(Duration::from_secs(1) / rate).await;
            assert_eq!(frames.count(), Control::Pass);
        }
    }
}
