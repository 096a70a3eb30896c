//! The one place that reads the machine's clocks and its random bytes. Everything else is told.
#![expect(clippy::disallowed_methods, reason = "this is the place")]

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_proto::id::Entropy;
use aaep_proto::time::{Moment, Now, Timestamp};
use tokio::time::{Instant, Sleep};

/// Random bytes that are read at once: every event needs some.
const RANDOM: usize = 1024;

/// Reads both clocks. The one that deadlines count by is tokio's, so a test can hold it.
pub(crate) struct Clock {
    start: Instant,
    /// Random bytes that were not given to anyone yet.
    random: Vec<u8>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { start: Instant::now(), random: Vec::new() }
    }

    pub(crate) fn now(&self) -> Now {
        let micros = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Now { moment: Moment::from_micros(micros), wall: wall() }
    }

    /// When something arrived. Deadlines of replies count by this.
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
        if self.random.len() < bytes.len() {
            self.random.resize(RANDOM.max(bytes.len()), 0);
            // Without random bytes a reply token could be guessed: better to stop than to go on.
            getrandom::fill(&mut self.random).expect("an operating system that runs this program has random bytes");
        }
        let rest = self.random.len() - bytes.len();
        bytes.copy_from_slice(&self.random[rest..]);
        self.random.truncate(rest);
    }
}

/// When a message arrived, before it waits for anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival(Instant);

impl Arrival {
    pub(crate) fn now() -> Arrival {
        Arrival(Instant::now())
    }
}

/// The time on the wall; 1970 for a clock that is set before it.
pub(crate) fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
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
        if at == self.at {
            return;
        }
        self.at = None;
        // What lies beyond all time that the machine can tell never comes.
        if let Some(instant) = at.and_then(|at| clock.instant(at)) {
            self.sleep.as_mut().reset(instant);
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
