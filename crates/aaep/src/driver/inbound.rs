//! Messages of subscribers, and changes of their links.
//!
//! All of them arrive in one channel, in order. The worker handles up to 64 of them before commands of agents, and all of
//! them before a deadline passes. So a user's reply does not wait for agents, counts
//! from when it arrived, and counts before the disconnection that follows it.

use aaep_proto::engine::{ReplyRejection, SubscriptionKey};
use aaep_proto::id::SubscriptionId;
use aaep_proto::inbound::Inbound;
use aaep_proto::message::Message;
use aaep_proto::negotiate::Rejection;
use aaep_runtime::monotonic_time;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::driver::{DriverState, Handle};
use crate::error::Error;
use crate::producer::Producer;
use crate::transport::{InboundMessage, LinkEvent, OutOfBandMessage};

/// What an out-of-band message led to.
#[derive(Debug)]
pub(crate) struct OutOfBandReply {
    /// What the engine replied, if it did.
    pub(crate) message: Option<Box<Message>>,
    /// Resolves when the decision that the message caused is recorded, or could not be. `None` if there is nothing to
    /// wait for.
    pub(crate) recorded: Option<oneshot::Receiver<bool>>,
}

impl Handle {
    /// Passes a message that was received by another way than the link of its subscription. It waits behind other
    /// messages of subscribers, never behind commands of agents.
    pub(crate) async fn send_out_of_band(&self, principal: &str, message: Message) -> Result<OutOfBandReply, Error> {
        let arrived = monotonic_time();
        let slot = self.out_of_band_slot().await?;
        let (reply_tx, reply) = oneshot::channel();
        let inbound = InboundMessage { message: Box::new(message), arrived, slot };
        let message = OutOfBandMessage { principal: principal.to_owned(), inbound, reply: reply_tx };
        self.send_link_event(LinkEvent::OutOfBand(Box::new(message)))?;
        reply.await.map_err(|_| Error::Gone)
    }
}

impl DriverState {
    pub(crate) fn handle_link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Message(key, InboundMessage { message, arrived, slot }) => {
                self.handle_message(key, &message, arrived);
                if !is_reply(&message) {
                    self.release_slot(key, slot);
                }
            }
            LinkEvent::OutOfBand(message) => {
                let OutOfBandMessage { principal, inbound, reply } = *message;
                let message = self.handle_out_of_band(&principal, &inbound);
                let recorded = self.durable_commit_ticket();
                // An error means that the caller stopped waiting.
                let _ = reply.send(OutOfBandReply { message, recorded });
            }
            LinkEvent::Invalid { key, message, slot } => {
                self.handle_invalid(key, &message);
                self.release_slot(key, slot);
            }
            LinkEvent::CapacityFreed(key) => {
                if self.links.get(&key).is_some_and(|link_tx| link_tx.is_blocked() && !link_tx.is_full()) {
                    self.set_blocked(key, false);
                }
            }
            LinkEvent::Closed { key, reader } => {
                let Some(link_tx) = self.links.get_mut(&key) else { return };
                if link_tx.disconnect(reader) {
                    self.with_engine(|engine, cx| engine.disconnect(cx, key));
                }
            }
        }
    }

    fn handle_message(&mut self, key: SubscriptionKey, message: &Message, arrived: Instant) {
        let arrived = self.clock.moment(arrived);
        if !self.reject_oversized(key, message) {
            // An error means that the subscription has ended meanwhile; messages of it no longer count.
            let _ = self.with_engine(|engine, cx| engine.handle_arrived(cx, key, message, arrived));
        }
    }

    /// Replies to an invalid request or renegotiation (5.5, 5.7).
    fn handle_invalid(&mut self, key: SubscriptionKey, message: &Inbound) {
        // An error means that the subscription has ended meanwhile and needs no reply.
        let _ = self.with_engine(|engine, cx| match message {
            Inbound::RefusedChange(named, rejection) => {
                engine.reject_invalid_renegotiation(cx, key, named.as_ref(), rejection)
            }
            Inbound::Refused(_) => engine.reject_second_request(key),
            _ => Ok(()),
        });
    }

    fn release_slot(&mut self, key: SubscriptionKey, slot: OwnedSemaphorePermit) {
        if let Some(link_tx) = self.links.get_mut(&key) {
            link_tx.release_slot(slot);
        }
    }

    /// Handles a message of a principal about one of its subscriptions. What the engine replies is returned instead of
    /// being sent to the link.
    fn handle_out_of_band(&mut self, principal: &str, inbound: &InboundMessage) -> Option<Box<Message>> {
        let id = inbound.message.subscription_id()?;
        let Some(key) = self.engine().find_subscription(id, principal) else {
            self.stats.count_ignored(ReplyRejection::WrongSubscription);
            tracing::info!(subscription = %id, principal, "message ignored: the sender has no such subscription");
            return None;
        };
        // A message that an earlier input left in the queue is not the reply to this one.
        self.drain_effects();
        self.handle_message(key, &inbound.message, inbound.arrived);
        let mut reply = None;
        self.drain_effects_with(|to, message| {
            if to == key && reply.is_none() {
                reply = Some(message);
                return None;
            }
            Some(message)
        });
        reply
    }

    /// Closes the subscription of a principal that sent an invalid renegotiation by another way than its link. The caller
    /// replies to the sender, so no reply goes to the link. Returns whether there was such a subscription.
    fn refuse_renegotiation_of(&mut self, principal: &str, id: &SubscriptionId, rejection: &Rejection) -> bool {
        let Some(key) = self.engine().find_subscription(id, principal) else { return false };
        self.drain_effects();
        let refused =
            self.with_engine(|engine, cx| engine.reject_invalid_renegotiation(cx, key, Some(id), rejection)).is_ok();
        self.drain_effects_with(|to, message| if to == key { None } else { Some(message) });
        refused
    }
}

impl Producer {
    /// Closes the subscription of a principal whose renegotiation is invalid (5.7). The caller sends the rejection to the
    /// subscriber. Returns whether there was such a subscription.
    pub async fn refuse_renegotiation(
        &self,
        principal: &str,
        id: &SubscriptionId,
        rejection: &Rejection,
    ) -> Result<bool, Error> {
        let (principal, id, rejection) = (principal.to_owned(), id.clone(), rejection.clone());
        self.handle.call(move |driver| driver.refuse_renegotiation_of(&principal, &id, &rejection)).await
    }
}

/// Whether a message is a reply to a question.
pub(crate) fn is_reply(message: &Message) -> bool {
    matches!(message, Message::ConfirmationReply(_) | Message::ClarificationReply(_))
}
