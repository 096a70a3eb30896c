//! For transports: carrying events to subscribers and their messages back.
//!
//! A transport authenticates a peer, reads its [`SubscriptionRequest`](crate::message::SubscriptionRequest) and passes
//! both to [`Producer::subscribe`](crate::Producer::subscribe). That returns a [`Link`]: a queue of outbound messages,
//! and a sender for inbound ones. A subscriber in the same process uses the link as it is; see
//! [`Producer::subscribe_local`](crate::Producer::subscribe_local). `examples/custom_transport.rs` is a complete transport.

mod history;
mod lease;
mod link;
mod link_sender;

pub use lease::Lease;
pub use link::{Link, Outbound};
pub use link_sender::LinkSender;

pub(crate) use link::{Heard, LinkEvent, LinkTx, Received, is_reply};

pub use aaep_proto::engine::{CloseInfo, ReplyRejection, ResumePolicy};
pub use aaep_proto::frame::Frame;
pub use aaep_proto::negotiate::Rejection;
