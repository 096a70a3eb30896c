//! Attacks on the running server from outside. SECURITY.md names the test of each threat.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod backpressure;
mod connections;
mod consent;
mod disclosure;
mod handshake;
mod identity;
mod proxy;
mod resources;
mod stall;
mod storage;
