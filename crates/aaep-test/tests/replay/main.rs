//! `aaep capture` and `aaep replay`: recordings are exact and complete, or reported as incomplete.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod describe;
mod filters;
mod harness;
mod killed;
mod load;
mod round_trip;
mod slow;
