//! What a person meets who runs the command for the first time: servers that relay agents, agents that are found, errors
//! in settings, certificates, help. Needs the Debian packages openssl, python3 and nodejs.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod certificates;
mod discovery;
mod help;
mod home;
mod relay;
mod sample;
mod settings;
