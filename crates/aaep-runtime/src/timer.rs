//! A timer for the deadlines of a state machine.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use aaep_proto::time::Moment;
use tokio::time::Sleep;

use crate::Clock;

/// A timer that is set again and again.
pub struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    deadline: Option<Moment>,
}

impl DeadlineTimer {
    /// Creates a timer that is not set. Panics outside of a tokio runtime.
    #[expect(clippy::new_without_default, reason = "a default value should not need a runtime")]
    pub fn new() -> DeadlineTimer {
        DeadlineTimer { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), deadline: None }
    }

    /// Sets the deadline; `None` stops the timer.
    pub fn set(&mut self, clock: &Clock, deadline: Option<Moment>) {
        if deadline == self.deadline {
            return;
        }
        if let Some(at) = deadline {
            self.sleep.as_mut().reset(clock.instant(at));
        }
        self.deadline = deadline;
    }

    /// Waits for the deadline, then stops the timer. Waits forever if the timer is not set.
    pub async fn expired(&mut self) {
        if self.deadline.is_none() {
            std::future::pending::<()>().await;
        }
        self.sleep.as_mut().await;
        self.deadline = None;
    }
}

impl fmt::Debug for DeadlineTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineTimer").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn timer_expires_at_its_newest_deadline_and_once() {
        let (clock, mut timer) = (Clock::new(), DeadlineTimer::new());
        timer.set(&clock, Some(Moment::from_millis(10)));
        timer.set(&clock, Some(Moment::from_millis(20)));
        timer.expired().await;
        assert_eq!(clock.now().moment, Moment::from_millis(20));
        assert!(tokio::time::timeout(HOUR, timer.expired()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_timer_never_expires() {
        let (clock, mut timer) = (Clock::new(), DeadlineTimer::new());
        assert!(tokio::time::timeout(HOUR, timer.expired()).await.is_err());
        timer.set(&clock, Some(Moment::from_millis(10)));
        timer.set(&clock, None);
        assert!(tokio::time::timeout(HOUR, timer.expired()).await.is_err());
    }
}
