//! Sends messages of a subscriber to the producer.

use std::sync::Arc;

use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::inbound::Inbound;
use aaep_proto::message::{ClarificationReply, ConfirmationReply, Decision, Message, Response};
use aaep_runtime::{monotonic_time, system_time};
use tokio::sync::Semaphore;

use super::event::{InboundMessage, LinkEvent};
use crate::driver::is_reply;
use crate::error::Error;
use crate::worker::DriverInputs;

/// Sends messages of a subscriber to the producer. Made by [`Link::sender`](crate::transport::Link::sender). It keeps
/// neither the link nor the producer alive.
///
/// ```
/// use aaep::message::Decision;
/// use aaep::transport::LinkSender;
/// async fn accept(sender: LinkSender, token: &aaep::id::ReplyToken) -> Result<(), aaep::Error> {
///     sender.decide(token, Decision::Accept).await
/// }
/// # let _ = accept;
/// ```
#[derive(Clone, Debug)]
pub struct LinkSender {
    pub(super) key: SubscriptionKey,
    pub(super) id: SubscriptionId,
    pub(super) inputs: DriverInputs,
    pub(super) inbound_slots: Arc<Semaphore>,
    pub(super) reply_slots: Arc<Semaphore>,
}

impl LinkSender {
    /// Sends a message to the producer. Waits while too many earlier messages were not handled. A reply counts from the
    /// moment of this call, however long it waits.
    pub async fn send(&self, message: Message) -> Result<(), Error> {
        let arrived = monotonic_time();
        let slots = if is_reply(&message) { &self.reply_slots } else { &self.inbound_slots };
        let slot = slots.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        let message = InboundMessage { message: Box::new(message), arrived, slot };
        self.inputs.send_link_event(LinkEvent::Message(self.key, message))
    }

    /// Reports an invalid message of the subscriber, so that the producer replies to it. A request is rejected, because
    /// there is a subscription already. A rejected renegotiation closes the subscription, unless it names another one.
    /// Any other message gets no reply.
    pub async fn send_invalid(&self, message: Inbound) -> Result<(), Error> {
        let slot = self.inbound_slots.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        let event = LinkEvent::Invalid { key: self.key, message: Box::new(message), slot };
        self.inputs.send_link_event(event)
    }

    /// Replies to a confirmation, with the current time.
    pub async fn decide(&self, token: &ReplyToken, decision: Decision) -> Result<(), Error> {
        let reply = ConfirmationReply {
            reply_token: token.clone(),
            decision,
            subscription_id: self.id.clone(),
            timestamp: system_time(),
            decided_by: None,
            decision_rationale: None,
            modified_action: None,
            correlation_id: None,
        };
        self.send(reply.into()).await
    }

    /// Replies to a clarification, with the current time.
    pub async fn answer(&self, token: &ReplyToken, response: Response) -> Result<(), Error> {
        let reply = ClarificationReply {
            reply_token: token.clone(),
            response,
            subscription_id: self.id.clone(),
            timestamp: system_time(),
            decided_by: None,
            confidence: None,
            correlation_id: None,
        };
        self.send(reply.into()).await
    }
}
