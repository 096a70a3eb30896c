//! Agents in other languages: under `aaep run`, and through a server. One binary, one module per question.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod examples;
mod fields;
mod flood;
mod harness;
mod link;
mod process;
mod relay;
mod restart;
