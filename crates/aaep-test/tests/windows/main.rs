//! The command and the transport suite on Windows: built here for `x86_64-pc-windows-gnu`, and run under Wine.
//!
//! Wine is not Windows. It keeps owners and access control lists of pipes and reports them, but does not enforce them; it
//! ignores that a pipe must be the first of its name; it does not know the process at the other end of a pipe.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod command;
mod fixture;
mod transports;
