//! The subscriber on fake time: inputs in, effects out, no waiting.

#![allow(unreachable_pub, reason = "a harness for several files")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod arbitrary;
mod connection;
mod events;
mod handshake;
mod harness;
mod questions;
mod with_engine;
