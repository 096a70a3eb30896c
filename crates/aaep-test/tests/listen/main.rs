//! `aaep listen` end to end: a real terminal, a keyboard, other processes, a voice, a display. Needs the Debian packages
//! tmux, speech-dispatcher and brltty.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod agents;
mod banking;
mod braille;
mod demo;
mod endless;
mod hostile;
mod minimal;
mod options;
mod question_speech;
mod said;
mod scenes;
mod speech;
mod tmux;
mod windows;
