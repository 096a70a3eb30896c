//! The subscriber side of AAEP, over every transport.
//!
//! [`Subscriber::connect`] starts a subscription at an address; [`Subscriber::recv`] returns events and questions as they
//! arrive; [`Subscriber::reply`] answers a question. A background task opens, keeps and reopens connections, so that a
//! producer that is slow or silent never delays a reply. [`Subscribers`] subscribes to several producers at once.
//!
//! The rules of the protocol are in [`aaep_proto::subscriber`]; this crate connects them to the network.
//!
//! # Cargo features
//!
//! Each transport is a feature, and all of them are on by default: `sse`, `websocket`, `grpc`, `unix` and `stdio`. An
//! address whose transport is not compiled in is refused with [`ConnectError::TransportDisabled`].
//!
//! # Modules
//!
//! `driver` is the background task, `connect` chooses the transport, `transport` holds one file for each, `http` and
//! `net` are the HTTP client with TCP and TLS, `trust` checks signed manifests against `known_keys`, and `queue`
//! holds what waits for the program.

#[cfg(not(any(feature = "sse", feature = "websocket", feature = "unix", feature = "grpc", feature = "stdio")))]
compile_error!("enable at least one transport of aaep-client: sse, websocket, unix, grpc or stdio");

mod address;
mod connect;
#[cfg(feature = "sse")]
mod discover;
mod driver;
mod error;
#[cfg(feature = "_http")]
mod http;
mod known_keys;
#[cfg(feature = "_http")]
mod net;
mod options;
mod queue;
#[cfg(feature = "_http")]
mod self_signed;
mod subscriber;
mod transport;
mod trust;

pub use aaep_proto::subscriber::{
    CancelRequestError, EndReason, Gap, Notice, NoticeKind, Prompt, PromptAnswer, PromptEnd, PromptId,
    PromptReplyError, SubscriberConfig, SubscriberStats,
};
pub use address::{Address, HttpOrigin, ParseAddressError};
#[cfg(feature = "sse")]
pub use discover::{DEFAULT_PORT, find_local};
pub use error::{ConnectError, ReplyError};
pub use known_keys::{KnownKeys, KnownKeysError, producer_name};
pub use options::{ConnectOptions, HandshakePolicy, TlsIdentity, TlsOptions};
pub use queue::SubscriberEvent;
pub use subscriber::{ProducerId, Subscriber, SubscriberHandle, Subscribers};
