//! The clock of the listener. All its parts count by one, so that their moments can be compared.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_proto::time::{Moment, Now, Timestamp};
use tokio::time::Instant;

/// Stands for moments that the machine cannot represent.
const FAR_FUTURE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Translates between instants of tokio and moments of the state machines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Returns the current moment.
    pub(super) fn now(&self) -> Moment {
        self.moment(Instant::now())
    }

    /// Returns the current moment with the system time.
    pub(super) fn now_with_system_time(&self) -> Now {
        Now { moment: self.now(), wall: system_time() }
    }

    pub(super) fn moment(&self, at: Instant) -> Moment {
        let micros = at.saturating_duration_since(self.start).as_micros();
        Moment::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    pub(super) fn instant(&self, at: Moment) -> Instant {
        self.start.checked_add(Duration::from_micros(at.micros())).unwrap_or(self.start + FAR_FUTURE)
    }

    /// Waits until this moment, or forever without one.
    pub(super) async fn sleep_until(&self, at: Option<Moment>) {
        match at {
            Some(at) => tokio::time::sleep_until(self.instant(at)).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns the system time.
pub(super) fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
