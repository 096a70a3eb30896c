//! The only module that reads clocks and random bytes. All others get the time from here.
#![expect(clippy::disallowed_methods, reason = "the only module that reads clocks and random bytes")]

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_proto::id::Entropy;
use aaep_proto::time::{Moment, Now, Timestamp};
use tokio::time::{Instant, Sleep};

/// Reads the monotonic and the wall clock. The monotonic one is tokio's, so that tests can pause it.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        let micros = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        Now { moment: Moment::from_micros(micros), wall }
    }

    /// Converts a moment to an instant. One that the system cannot represent becomes an instant in the far future.
    pub(crate) fn instant(&self, at: Moment) -> Instant {
        let far = Duration::from_secs(365 * 24 * 3600);
        self.start.checked_add(Duration::from_micros(at.micros())).unwrap_or(self.start + far)
    }
}

impl Entropy for Clock {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without random bytes ids could be guessed, so panicking is better than continuing.
        getrandom::fill(bytes).expect("an operating system that runs this program has random bytes");
    }
}

/// A timer that is set again and again.
pub(crate) struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    at: Option<Moment>,
}

impl DeadlineTimer {
    pub(crate) fn new() -> DeadlineTimer {
        DeadlineTimer { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    /// Sets the timer to this moment, or stops it.
    pub(crate) fn set(&mut self, clock: &Clock, at: Option<Moment>) {
        if at != self.at {
            if let Some(at) = at {
                self.sleep.as_mut().reset(clock.instant(at));
            }
            self.at = at;
        }
    }

    /// Waits until the timer expires, then stops it. Waits forever if it is not set.
    pub(crate) async fn expired(&mut self) {
        if self.at.is_none() {
            std::future::pending::<()>().await;
        }
        self.sleep.as_mut().await;
        self.at = None;
    }
}
