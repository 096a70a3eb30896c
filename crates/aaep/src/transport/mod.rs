//! For transports: carrying events to subscribers and their messages back.
//!
//! A transport authenticates a peer, reads its [`SubscriptionRequest`](crate::message::SubscriptionRequest) and passes
//! both to [`Producer::subscribe`](crate::Producer::subscribe). That returns a [`Link`]: a queue of outbound messages
//! and a sender for inbound ones. A subscriber in the same process uses the link as it is; see
//! [`Producer::subscribe_local`](crate::Producer::subscribe_local). `examples/custom_transport.rs` is a complete transport.

mod event;
mod history;
mod link;
mod link_sender;
mod link_tx;
mod queue;
mod reservation;

pub use link::Link;
pub use link_sender::LinkSender;
pub use queue::Outbound;
pub use reservation::Reservation;

pub(crate) use event::{InboundMessage, LinkEvent, OutOfBandMessage};
pub(crate) use link_tx::LinkTx;

pub use crate::driver::QueueBudget;
pub use aaep_proto::engine::{CloseInfo, ReplyRejection, ResumePolicy};
pub use aaep_proto::frame::Frame;
pub use aaep_proto::inbound::Inbound;
pub use aaep_proto::negotiate::Rejection;
