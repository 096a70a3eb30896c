//! Interoperability with programs of others: the public conformance suite, browsers, curl, socat, and Python clients.
//! Python packages are installed the first time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod api_documents;
mod browser;
mod curl;
mod messages;
mod python;
mod python_clients;
mod python_programs;
mod socat;
mod suite;

#[path = "../transports/harness.rs"]
#[allow(dead_code, reason = "the transport tests use more of it")]
mod harness;

use std::path::{Path, PathBuf};

/// Returns the path of a program in this directory.
fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name)
}
