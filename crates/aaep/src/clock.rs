//! The only place that reads the machine's clocks and its random bytes.
#![expect(clippy::disallowed_methods, reason = "this is the place")]

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_proto::id::Entropy;
use aaep_proto::time::{Moment, Now, Timestamp};
use tokio::time::{Instant, Sleep};

/// Random bytes that are read from the operating system at once: every event needs some.
const ENTROPY_BUFFER_BYTES: usize = 1024;

/// Reads both clocks. Deadlines count by tokio's clock, so a test can pause it.
pub(crate) struct Clock {
    start: Instant,
    /// Random bytes that are not used yet.
    entropy: Vec<u8>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { start: Instant::now(), entropy: Vec::new() }
    }

    pub(crate) fn now(&self) -> Now {
        let micros = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Now { moment: Moment::from_micros(micros), wall: system_time() }
    }

    /// Returns when a message arrived, for the deadlines of replies.
    pub(crate) fn moment(&self, arrived: Arrival) -> Moment {
        let since = arrived.0.saturating_duration_since(self.start);
        Moment::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn instant(&self, at: Moment) -> Option<Instant> {
        self.start.checked_add(Duration::from_micros(at.micros()))
    }
}

impl Entropy for Clock {
    fn fill(&mut self, bytes: &mut [u8]) {
        if self.entropy.len() < bytes.len() {
            self.entropy.resize(ENTROPY_BUFFER_BYTES.max(bytes.len()), 0);
            // Without random bytes a reply token could be guessed, so it is better to stop.
            getrandom::fill(&mut self.entropy).expect("an operating system that runs this program has random bytes");
        }
        let rest = self.entropy.len() - bytes.len();
        bytes.copy_from_slice(&self.entropy[rest..]);
        self.entropy.truncate(rest);
    }
}

/// The time when a message arrived, taken before it waits for anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival(Instant);

impl Arrival {
    pub(crate) fn now() -> Arrival {
        Arrival(Instant::now())
    }
}

/// Returns the system time; 1970 if the system's clock is set before that.
pub(crate) fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A timer that is set again and again.
pub(crate) struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    deadline: Option<Moment>,
}

impl DeadlineTimer {
    pub(crate) fn new() -> DeadlineTimer {
        DeadlineTimer { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), deadline: None }
    }

    /// Sets the deadline; `None` stops the timer.
    pub(crate) fn set(&mut self, clock: &Clock, deadline: Option<Moment>) {
        if deadline == self.deadline {
            return;
        }
        self.deadline = None;
        // A deadline that is too far away for an `Instant` never comes.
        if let Some(instant) = deadline.and_then(|at| clock.instant(at)) {
            self.sleep.as_mut().reset(instant);
            self.deadline = deadline;
        }
    }

    /// Waits for the deadline, forever if there is none. The timer is stopped after that.
    pub(crate) async fn expired(&mut self) {
        if self.deadline.is_none() {
            std::future::pending::<()>().await;
        }
        self.sleep.as_mut().await;
        self.deadline = None;
    }
}
