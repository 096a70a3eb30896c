//! Agents in other languages: under `aaep run`, and connected to a server. One test binary, one module per topic.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod cancel;
mod examples;
mod fields;
mod flood;
mod harness;
mod link;
mod process;
mod quick_start;
mod relay;
mod restart;
