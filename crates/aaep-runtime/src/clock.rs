//! The monotonic clock and the system clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_proto::time::{Moment, Now, Timestamp};
use tokio::time::Instant;

/// Stands for moments that an [`Instant`] cannot represent.
const FAR_FUTURE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads both clocks and converts between instants of tokio and moments of the state machines. Moments of different
/// clocks cannot be compared; those of a copy can.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Creates a clock whose moments count from now.
    #[expect(clippy::new_without_default, reason = "a default value should not depend on the time")]
    pub fn new() -> Clock {
        Clock { start: monotonic_time() }
    }

    /// Returns the current moment and the system time.
    pub fn now(&self) -> Now {
        Now { moment: self.moment(monotonic_time()), wall: system_time() }
    }

    /// Converts an instant to a moment. An instant before the start of the clock becomes its first moment.
    pub fn moment(&self, at: Instant) -> Moment {
        let since = at.saturating_duration_since(self.start);
        Moment::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// Converts a moment to an instant. A moment that an instant cannot represent becomes one in the far future.
    pub fn instant(&self, at: Moment) -> Instant {
        self.start.checked_add(Duration::from_micros(at.micros())).unwrap_or(self.start + FAR_FUTURE)
    }

    /// Waits until a moment, or forever if there is none.
    pub async fn sleep_until(&self, at: Option<Moment>) {
        match at {
            Some(at) => tokio::time::sleep_until(self.instant(at)).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns the time of tokio's monotonic clock.
pub fn monotonic_time() -> Instant {
    Instant::now()
}

/// Returns the system time, or 1970 if the system clock is set to an earlier time.
pub fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn moments_follow_the_clock_of_tokio() {
        let clock = Clock::new();
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(clock.now().moment, Moment::from_millis(1500));
        assert_eq!(clock.instant(Moment::from_millis(1500)), monotonic_time());
    }

    #[tokio::test(start_paused = true)]
    async fn instant_before_the_start_is_the_first_moment() {
        let early = monotonic_time();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(Clock::new().moment(early), Moment::from_micros(0));
    }

    #[tokio::test]
    async fn latest_moment_is_in_the_far_future() {
        let clock = Clock::new();
        assert!(clock.instant(Moment::from_micros(u64::MAX)) >= clock.start + FAR_FUTURE);
    }
}
