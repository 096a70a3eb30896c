//! The transport's end of a link.

use std::sync::Arc;
use std::task::{Context, Poll};

use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::message::{Decision, Message, Response};

use super::event::LinkEvent;
use super::link_sender::LinkSender;
use super::queue::{Outbound, OutboundQueue};
use crate::error::Error;

/// The producer's end of one subscription, as a transport uses it: a queue of outbound messages and a sender for inbound
/// ones.
///
/// A reader that is slow slows its subscription down, and loses nothing. Dropping the link closes the subscription, or, if
/// it is resumable, leaves it for [`Producer::resume`](crate::Producer::resume).
///
/// ```
/// use aaep::Producer;
/// use aaep::message::{Capabilities, Message};
/// use aaep::transport::Outbound;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").build();
/// let mut link = producer.subscribe_local("console", Capabilities::default()).await?;
/// let Some(Outbound::Message(first)) = link.recv().await else { unreachable!() };
/// assert!(matches!(*first, Message::SubscriptionAccepted(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Link {
    pub(super) queue: Arc<OutboundQueue>,
    pub(super) reader: u64,
    pub(super) sender: LinkSender,
}

impl Link {
    /// Returns the id of the subscription.
    pub fn id(&self) -> &SubscriptionId {
        &self.sender.id
    }

    /// Receives the next thing that the producer sends. Returns `None` after [`Outbound::Closed`], and if another link has
    /// replaced this one. Cancel safe.
    pub async fn recv(&mut self) -> Option<Outbound> {
        let mut one = Vec::with_capacity(1);
        self.recv_many(&mut one, 1).await;
        one.pop()
    }

    /// Waits until something is queued, then moves everything that is queued, up to `limit` items, to the end of `into`.
    /// Returns how many items that are; 0 where [`Link::recv`] would return `None`. Cancel safe.
    pub async fn recv_many(&mut self, into: &mut Vec<Outbound>, limit: usize) -> usize {
        std::future::poll_fn(|cx| self.poll_many(cx, into, limit)).await
    }

    /// Does what [`Link::recv_many`] does, for callers that implement a future or a stream themselves. If nothing is
    /// queued, the task is woken when something is.
    pub fn poll_many(&mut self, cx: &mut Context<'_>, into: &mut Vec<Outbound>, limit: usize) -> Poll<usize> {
        let batch = std::task::ready!(self.queue.poll_take(cx, self.reader, into, limit));
        if batch.capacity_freed {
            // An error means that the producer has ended.
            let _ = self.sender.inputs.send_link_event(LinkEvent::CapacityFreed(self.sender.key));
        }
        Poll::Ready(batch.count)
    }

    /// Sends a message of the subscriber to the producer; see [`LinkSender::send`].
    pub async fn send(&self, message: Message) -> Result<(), Error> {
        self.sender.send(message).await
    }

    /// Replies to a confirmation.
    pub async fn decide(&self, token: &ReplyToken, decision: Decision) -> Result<(), Error> {
        self.sender.decide(token, decision).await
    }

    /// Replies to a clarification.
    pub async fn answer(&self, token: &ReplyToken, response: Response) -> Result<(), Error> {
        self.sender.answer(token, response).await
    }

    /// Returns a sender for the messages of the subscriber, for transports that read and write in different tasks.
    pub fn sender(&self) -> LinkSender {
        self.sender.clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // An error means that the producer has ended.
        let closed = LinkEvent::Closed { key: self.sender.key, reader: self.reader };
        let _ = self.sender.inputs.send_link_event(closed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aaep_proto::message::{Capabilities, SubscriptionRenegotiate};

    use super::super::link_tx::MAX_INBOUND;
    use super::super::queue::HIGH_WATER;
    use super::*;
    use crate::Producer;

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_that_does_not_read_cannot_send_without_end() {
        let producer = Producer::builder("patient").build();
        let mut link = producer.subscribe_local("flood", Capabilities::default()).await.unwrap();
        let id = link.id().clone();
        let renegotiate = || SubscriptionRenegotiate {
            subscription_id: id.clone(),
            capabilities: Capabilities::default(),
            correlation_id: None,
        };
        let mut sent = 0;
        while tokio::time::timeout(Duration::from_secs(1), link.send(renegotiate().into())).await.is_ok() {
            sent += 1;
            assert!(sent <= HIGH_WATER + 2 * MAX_INBOUND, "it can send too much");
        }
        assert!(sent >= HIGH_WATER, "it has to wait too early: {sent}");
        for _ in 0..sent {
            assert!(matches!(link.recv().await, Some(Outbound::Message(_))));
        }
        assert!(tokio::time::timeout(Duration::from_secs(1), link.send(renegotiate().into())).await.is_ok());
    }
}
