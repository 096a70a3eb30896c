//! Tests of the whole workspace: the requirements table, the schemas, the command, and rules that no compiler checks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod api_documents;
mod architecture;
mod command;
mod examples;
mod hostile;
mod names;
mod packaging;
mod requirements;
mod round_trip;
mod schemas;
mod source;
mod tidy;
mod wording;
