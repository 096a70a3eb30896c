//! Tests of the engine with a manual clock.

#![allow(unreachable_pub, dead_code, reason = "the harness serves two binaries")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod cancellation;
mod clarifications;
mod confirmations;
mod disclosure;
mod folding;
mod harness;
mod negotiation;
mod permits;
mod presence;
mod replies;
mod sentences;
mod sessions;
mod shaping;
mod subscriptions;
mod terms;
