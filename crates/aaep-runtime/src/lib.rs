//! Clocks, timers and random bytes for the state machines of [`aaep_proto`], on tokio.
//!
//! The state machines get the time and random bytes as arguments. This crate reads them from the machine: [`Clock`] and
//! [`system_time`] read the clocks, [`DeadlineTimer`] waits for the deadline of a state machine, and [`SystemEntropy`]
//! reads random bytes. The monotonic clock is tokio's, so that tests can pause it.
//!
//! ```
//! use aaep_runtime::{Clock, DeadlineTimer};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = Clock::new();
//! let deadline = clock.now().moment.plus_micros(1);
//! let mut timer = DeadlineTimer::new();
//! timer.set(&clock, Some(deadline));
//! timer.expired().await;
//! assert!(clock.now().moment >= deadline);
//! # }
//! ```

mod clock;
mod entropy;
mod timer;

pub use clock::{Clock, monotonic_time, system_time};
pub use entropy::SystemEntropy;
pub use timer::DeadlineTimer;
