//! Programs that others write, in another language or without any, against our transports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod socket;
mod speaks;

#[path = "../transports/world.rs"]
#[allow(dead_code, reason = "the other suite uses more of it")]
mod world;

use std::path::{Path, PathBuf};

/// A program of this directory.
fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wires").join(name)
}
