//! What comes from subscribers: replies, renegotiations, closes, and that a reader has room again or has gone.
//!
//! All of it arrives in one queue of its own, in order, and the driver empties that queue before it serves agents and
//! before it lets a deadline pass. So a user's answer waits for at most one command of an agent, counts from when it
//! arrived, and counts before the disconnection that follows it.

use aaep_proto::engine::ReplyRejection;
use aaep_proto::id::SubscriptionId;
use aaep_proto::message::Message;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Arrival;
use crate::driver::{DriverState, Handle};
use crate::error::Error;
use crate::transport::{Heard, LinkEvent, Received, is_reply};

/// Messages of subscribers, by another way than their links, that may wait.
pub(crate) const WAITING: usize = 256;

/// What a message was answered with, and what to wait for until the decision is on record.
pub(crate) type Answered = (Option<Box<Message>>, Option<oneshot::Receiver<bool>>);

impl Handle {
    /// Hands in a message of a subscriber. It waits behind other messages of subscribers, never behind agents.
    pub(crate) async fn hear(&self, principal: &str, message: Message) -> Result<Answered, Error> {
        let arrived = Arrival::now();
        let place = self.reply_places.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        let (answer, answered) = oneshot::channel();
        let received = Received { message: Box::new(message), arrived, place };
        let heard = Heard { principal: principal.to_owned(), received, answer };
        self.news.send(LinkEvent::Heard(Box::new(heard))).map_err(|_| Error::Gone)?;
        answered.await.map_err(|_| Error::Gone)
    }
}

impl DriverState {
    /// Handles what has arrived from subscribers, up to a limit.
    pub(crate) fn hear_all(&mut self, heard: &mut mpsc::UnboundedReceiver<LinkEvent>, limit: usize) {
        for _ in 0..limit {
            let Ok(news) = heard.try_recv() else { return };
            self.hear(news);
            self.take_outputs();
        }
    }

    pub(crate) fn hear(&mut self, news: LinkEvent) {
        match news {
            LinkEvent::Said(key, Received { message, arrived, place }) => {
                let arrived = self.clock.moment(arrived);
                if !self.reject_oversized(key, &message) {
                    // A subscription that has ended has nothing to say.
                    let _ = self.act(|engine, cx| engine.handle_arrived(cx, key, &message, arrived));
                }
                if let Some(port) = self.ports.get_mut(&key).filter(|_| !is_reply(&message)) {
                    port.heard(place);
                }
            }
            LinkEvent::Heard(heard) => {
                let Heard { principal, received, answer } = *heard;
                let answered = self.hear_from(&principal, (&received.message, received.arrived));
                let kept = self.until_binding_kept();
                // The sender may have gone away meanwhile.
                let _ = answer.send((answered, kept));
            }
            LinkEvent::Invalid(key, message, place) => self.hear_invalid(key, &message, place),
            LinkEvent::Room(key) => {
                if self.ports.get(&key).is_some_and(|port| port.blocked && !port.is_full()) {
                    self.set_blocked(key, false);
                }
            }
            LinkEvent::Gone(key, reader) => {
                let Some(port) = self.ports.get_mut(&key).filter(|port| port.reader == Some(reader)) else { return };
                port.disconnect();
                self.act(|engine, cx| engine.disconnect(cx, key));
            }
        }
    }

    /// A message of this principal about a subscription of its own, by another way than that subscription's link.
    /// What the engine answers to it comes back instead of going to the link.
    fn hear_from(&mut self, principal: &str, (message, arrived): (&Message, Arrival)) -> Option<Box<Message>> {
        let id = subscription_of(message)?;
        let Some(key) = self.engine().find_subscription(id, principal) else {
            self.stats.ignored(ReplyRejection::WrongSubscription);
            tracing::info!(subscription = %id, principal, "a message about no subscription of this sender was ignored");
            return None;
        };
        let arrived = self.clock.moment(arrived);
        if !self.reject_oversized(key, message) {
            // A subscription that has ended has nothing to say.
            let _ = self.act(|engine, cx| engine.handle_arrived(cx, key, message, arrived));
        }
        let mut answer = None;
        self.drain_but(|to, message| {
            let own = to == key && answer.is_none();
            if own {
                answer = Some(message);
                return None;
            }
            Some(message)
        });
        answer
    }
}

/// The subscription that a message is about.
fn subscription_of(message: &Message) -> Option<&SubscriptionId> {
    match message {
        Message::ConfirmationReply(reply) => Some(&reply.subscription_id),
        Message::ClarificationReply(reply) => Some(&reply.subscription_id),
        Message::SubscriptionRenegotiate(change) => Some(&change.subscription_id),
        Message::SubscriptionClose(close) => Some(&close.subscription_id),
        _ => None,
    }
}
