//! What others have published, against what is built here. It is installed from the package index the first time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod python;
mod suite;
