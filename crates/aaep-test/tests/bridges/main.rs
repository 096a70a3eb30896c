//! Bridges between real peers that nobody here wrote: servers and clients of published packages.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod acp;
mod copilot;
mod harness;
mod hooks;
mod listener;
mod mcp;
mod mcp_http;
mod mcp_raw;
mod mock_model;
mod packages;
