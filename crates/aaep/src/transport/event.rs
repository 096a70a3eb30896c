//! What links report to the driver.

use aaep_proto::engine::SubscriptionKey;
use aaep_proto::inbound::Inbound;
use aaep_proto::message::Message;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::driver::OutOfBandReply;

/// A message of a subscriber, or a change of its link.
pub(crate) enum LinkEvent {
    /// The subscriber sent a message by its link.
    Message(SubscriptionKey, InboundMessage),
    /// A principal sent a message by another way than the link of its subscription.
    OutOfBand(Box<OutOfBandMessage>),
    /// The subscriber sent an invalid message that needs a reply.
    Invalid { key: SubscriptionKey, message: Box<Inbound>, slot: OwnedSemaphorePermit },
    /// The queue of a full link was read down to its low-water mark.
    CapacityFreed(SubscriptionKey),
    /// The link with this reader number was dropped.
    Closed { key: SubscriptionKey, reader: u64 },
}

/// A message of a subscriber. It occupies a slot until it was handled.
pub(crate) struct InboundMessage {
    pub(crate) message: Box<Message>,
    /// When it arrived, before it waited for a slot. Deadlines of replies are compared with it.
    pub(crate) arrived: Instant,
    pub(crate) slot: OwnedSemaphorePermit,
}

/// A message of a subscriber that was not received by its link.
pub(crate) struct OutOfBandMessage {
    pub(crate) principal: String,
    pub(crate) inbound: InboundMessage,
    pub(crate) reply: oneshot::Sender<OutOfBandReply>,
}
