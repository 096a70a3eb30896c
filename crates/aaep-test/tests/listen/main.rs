//! `aaep listen` end to end: a real terminal, a keyboard, other processes, a voice, a display. Needs the Debian packages
//! tmux, speech-dispatcher and brltty.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod agents;
mod banking;
mod braille;
#[path = "../../../aaep-voice/tests/brltty/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of displays")]
mod brltty;
mod demo;
mod endless;
mod hostile;
mod minimal;
mod options;
mod question_speech;
mod said;
mod scenes;
mod speech;
#[path = "../../../aaep-voice/tests/speechd/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of voices")]
mod speechd;
mod tmux;
mod windows;
