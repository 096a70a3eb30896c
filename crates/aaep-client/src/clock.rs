//! The one place that reads the machine's clocks and its random bytes. Everything else is told.
#![expect(clippy::disallowed_methods, reason = "this is the place")]

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_proto::id::Entropy;
use aaep_proto::time::{Moment, Now, Timestamp};
use tokio::time::{Instant, Sleep};

/// Reads both clocks. The one that deadlines count by is tokio's, so a test can hold it.
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

    /// The moment as others know it. What lies beyond all time that the machine can tell is far away.
    pub(crate) fn instant(&self, at: Moment) -> Instant {
        let far = Duration::from_secs(365 * 24 * 3600);
        self.start.checked_add(Duration::from_micros(at.micros())).unwrap_or(self.start + far)
    }
}

impl Entropy for Clock {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without random bytes an id could be guessed: better to stop than to go on.
        getrandom::fill(bytes).expect("an operating system that runs this program has random bytes");
    }
}

/// One timer that is set again and again.
pub(crate) struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    at: Option<Moment>,
}

impl DeadlineTimer {
    pub(crate) fn new() -> DeadlineTimer {
        DeadlineTimer { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    /// Sets it for this moment, or for never.
    pub(crate) fn set(&mut self, clock: &Clock, at: Option<Moment>) {
        if at != self.at {
            if let Some(at) = at {
                self.sleep.as_mut().reset(clock.instant(at));
            }
            self.at = at;
        }
    }

    /// Waits for the moment. After that it is not set any more.
    pub(crate) async fn ring(&mut self) {
        if self.at.is_none() {
            std::future::pending::<()>().await;
        }
        self.sleep.as_mut().await;
        self.at = None;
    }
}
