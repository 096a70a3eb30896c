//! AAEP over every transport: HTTP with server-sent events and WebSocket, gRPC, Unix sockets and stdio, encrypted and
//! with known callers.
//!
//! A [`Server`] opens what its [`Config`] says for one [`aaep::Producer`]. All transports do the same work in the same
//! way: those that are bound to a connection hold a [`conversation`], and the SSE binding spreads the same steps over
//! three endpoints.

mod admission;
pub mod agents;
mod clock;
mod config;
pub mod conversation;
mod credentials;
mod farewell;
mod frames;
mod gate;
mod grpc;
mod http;
mod hub;
mod idle;
pub mod ipc;
mod listener;
mod memory_budget;
mod metered;
mod metrics;
mod others;
mod places;
mod quota;
mod rate;
mod server;
mod signing;
pub mod stdio;
mod throttle;
mod tls;

pub use config::{Auth, Config, ConfigError, Data, Layer, Limits, Log, Signing, Tls, Transports};
pub use hub::{Close, Hub, Peer};
pub use metrics::Transport;
pub use server::{Running, Server};
