//! AAEP over every transport: HTTP with server-sent events and WebSocket, gRPC, Unix sockets and stdio, with encryption
//! and authentication.
//!
//! A [`Server`] opens the transports of its [`Config`] for one [`aaep::Producer`]. Every transport that is bound to a
//! connection runs the same flow, [`connection::serve_connection`]; the SSE binding spreads the same steps over three
//! HTTP endpoints.
//!
//! | Module | Contents |
//! |---|---|
//! | `server`, `config`, `listeners`, `accept` | Starting and stopping, settings, sockets, the accept loop |
//! | `context`, `peer`, `close` | State shared by all transports, the peer of a connection, close codes |
//! | `connection` | The flow of a connection: handshake, read loop, write loop |
//! | `http`, `grpc`, `ipc`, `stdio` | The transports |
//! | `page` | The web page at `/` |
//! | `agents` | Endpoints for agents in other processes |
//! | `api` | The OpenAPI and AsyncAPI documents |
//! | `auth` | Credentials, client certificates, TLS, host and origin checks |
//! | `proxy`, `forwarded` | Trusted proxies, the headers by which they name the client of a request |
//! | `admission` | Limits per peer and in total: connections, subscriptions, memory, rates |
//! | `metrics`, `published_manifest` | Prometheus metrics, the signed manifest |

mod accept;
mod admission;
pub mod agents;
pub mod api;
mod auth;
mod close;
mod config;
pub mod connection;
mod context;
mod engines;
mod forwarded;
#[cfg(feature = "grpc")]
mod grpc;
mod http;
pub mod ipc;
mod listeners;
mod metrics;
mod page;
mod peer;
mod proxy;
mod published_manifest;
mod server;
pub mod stdio;

pub use close::{Close, Violation};
pub use config::{
    AuthConfig, Config, ConfigError, DataConfig, Layer, Limits, LogConfig, SigningConfig, TlsConfig, Transports,
};
pub use context::{ServerContext, Subscribed};
pub use listeners::InheritedListeners;
pub use metrics::Transport;
pub use page::Scenes;
pub use peer::Peer;
pub use proxy::{ProxyNetwork, ProxyNetworkError};
pub use server::{RunningServer, Server, ServerManifest};

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
