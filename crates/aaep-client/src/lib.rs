//! The listening side of AAEP: a subscriber over every transport.
//!
//! [`Subscriber::connect`] begins to listen at an address; [`Subscriber::recv`] yields events and questions as they
//! come; [`Subscriber::reply`] answers. Connections are made, kept and made again by a task of its own, so that nothing
//! that a producer does or leaves undone holds up an answer. [`Subscribers`] listens to several producers at once.
//!
//! The rules of the protocol stand in [`aaep_proto::subscriber`]; this crate brings them to the network.
//!
//! The rooms: `driver.rs` is the task, `open.rs` chooses the transport, `transport/` holds one file for each, `trust.rs`
//! checks signed manifests, `queue.rs` is what waits for the program, `clock.rs` reads clocks and entropy.

mod address;
mod clock;
mod connect;
mod driver;
mod http;
mod net;
mod options;
mod queue;
mod subscriber;
mod transport;
mod trust;

pub use aaep_proto::subscriber::{
    EndReason, Gap, Notice, NoticeKind, Prompt, PromptAnswer, PromptEnd, PromptId, PromptReplyError, SubscriberConfig,
    SubscriberStats,
};
pub use address::{Address, HttpOrigin, ParseAddressError};
pub use options::{ConnectError, ConnectOptions, Handshake, TlsOptions};
pub use queue::SubscriberEvent;
pub use subscriber::{ProducerId, ReplyError, Subscriber, SubscriberHandle, Subscribers};
pub use trust::{KnownKeys, KnownKeysError, producer_name};
