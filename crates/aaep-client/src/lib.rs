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
mod driver;
mod http;
mod net;
mod open;
mod options;
mod queue;
mod subscriber;
mod transport;
mod trust;

pub use aaep_proto::subscriber::{
    Answer, Config, Counts, Ended, Gap, Notice, NoticeKind, Prompt, PromptEnd, PromptId, ReplyRefused,
};
pub use address::{Address, InvalidAddress, Site};
pub use options::{ConnectError, Handshake, Options, Tls};
pub use queue::Heard;
pub use subscriber::{ProducerId, ReplyError, Subscriber, Subscribers, Voice};
pub use trust::{KnownKeys, KnownKeysFault, producer_name};
