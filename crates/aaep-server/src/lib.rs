//! AAEP over every transport: HTTP with server-sent events and WebSocket, gRPC, Unix sockets and stdio, encrypted and
//! with known callers.
//!
//! A [`Server`] opens what its [`Config`] says for one [`aaep::Producer`]. All transports do the same work in the same
//! way: those that are bound to a connection hold a [`conversation`], and the SSE binding spreads the same steps over
//! three endpoints.

mod admission;
pub mod agents;
mod auth;
mod clock;
mod close_notice;
mod config;
pub mod connection;
mod context;
mod credentials;
mod extra_listeners;
mod frames;
mod grpc;
mod http;
mod idle;
pub mod ipc;
mod listener;
mod memory_budget;
mod metered;
mod metrics;
mod places;
mod published_manifest;
mod quota;
mod rate;
mod server;
pub mod stdio;
mod throttle;
mod tls;

pub use config::{Auth, Config, ConfigError, Data, Layer, Limits, Log, Signing, TlsConfig, Transports};
pub use context::{Close, Peer, ServerContext};
pub use metrics::Transport;
pub use server::{Running, Server};
