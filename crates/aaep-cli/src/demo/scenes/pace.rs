//! How fast a scene is played. All waiting of all scenes is here.

use std::time::Duration;

/// The speed of a scene: a person's, or none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    step: Duration,
    token: Duration,
}

impl Pace {
    /// Slow enough to be followed by ear.
    pub(crate) const NORMAL: Pace = Pace { step: Duration::from_millis(1500), token: Duration::from_millis(60) };

    /// As fast as the machine can.
    pub(crate) const NONE: Pace = Pace { step: Duration::ZERO, token: Duration::ZERO };

    /// The time between two things that the agent does, and the time that a tool works.
    pub(crate) async fn step(self) {
        wait(self.step).await;
    }

    /// The time between two tokens of a model.
    pub(crate) async fn token(self) {
        wait(self.token).await;
    }

    /// How long the agent waits for a tool that does not answer. Never nothing: the tool is announced first.
    pub(crate) fn patience(self) -> Duration {
        (self.step * 2).max(Duration::from_millis(1))
    }
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
