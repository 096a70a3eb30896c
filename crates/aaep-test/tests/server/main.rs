//! End-to-end tests of the server: bindings, identity, TLS, limits, load.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod api;
mod fast_path;
mod harness;
mod http;
mod identity;
mod limits;
mod load;
mod operations;
mod resume;
mod tls;
mod ws;
