//! `aaep-voice` with real servers: speech-dispatcher and BRLTTY.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod braille;
mod speech;
