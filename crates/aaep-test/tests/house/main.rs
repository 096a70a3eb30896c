//! Tests that look at the whole house. One binary, one module per question.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod command;
mod hostile;
mod requirements;
mod round_trip;
mod schemas;
mod tidy;
