//! What others have published, against what is built here. Python packages are installed the first time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod browser;
mod curl;
mod python;
mod python_clients;
mod suite;
mod talk;
