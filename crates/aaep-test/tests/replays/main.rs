//! Recordings: what was captured is what was said, what is replayed is what was captured, whoever is killed meanwhile.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod choices;
mod harness;
mod killed;
mod load;
mod round_trip;
mod slow;
mod told;
