//! Subscribers against producers that the tests control, over real sockets.

#![allow(unreachable_pub, reason = "a harness for several files")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod examples;
mod grpc;
mod harness;
mod http;
mod local;
mod secure;
mod several;
mod signed;
mod simple;
mod websocket;
