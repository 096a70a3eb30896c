//! The half of a link by which a subscriber sends messages to the producer.

use std::sync::Arc;

use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::inbound::Inbound;
use aaep_proto::message::{ClarificationReply, ConfirmationReply, Decision, Message, Response};
use tokio::sync::{Semaphore, mpsc};

use super::link::{LinkEvent, Received, is_reply};
use crate::clock::{self, Arrival};
use crate::error::Error;

/// The half of a [`Link`](crate::transport::Link) that speaks. It keeps nothing alive.
///
/// ```
/// use aaep::transport::LinkSender;
/// use aaep::message::Decision;
/// async fn agree(sender: LinkSender, token: &aaep::id::ReplyToken) -> Result<(), aaep::Error> {
///     sender.decide(token, Decision::Accept).await
/// }
/// # let _ = agree;
/// ```
#[derive(Clone, Debug)]
pub struct LinkSender {
    pub(crate) key: SubscriptionKey,
    pub(crate) id: SubscriptionId,
    pub(crate) news: mpsc::UnboundedSender<LinkEvent>,
    pub(crate) said: Arc<Semaphore>,
    pub(crate) replies: Arc<Semaphore>,
}

impl LinkSender {
    /// Says something to the producer. Waits while too much that was said before is not heard. A reply counts from the
    /// moment of this call, however long it waits.
    pub async fn send(&self, message: Message) -> Result<(), Error> {
        let arrived = Arrival::now();
        let places = if is_reply(&message) { &self.replies } else { &self.said };
        let place = places.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        let received = Received { message: Box::new(message), arrived, place };
        self.news.send(LinkEvent::Said(self.key, received)).map_err(|_| Error::Gone)
    }

    /// Has an invalid message of the subscriber answered. A request is rejected because there is a subscription already;
    /// a rejected renegotiation ends the subscription, unless it names another one. Anything else gets no answer.
    pub async fn send_invalid(&self, message: Inbound) -> Result<(), Error> {
        let place = self.said.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        self.news.send(LinkEvent::Invalid(self.key, Box::new(message), place)).map_err(|_| Error::Gone)
    }

    /// Answers a confirmation, now.
    pub async fn decide(&self, token: &ReplyToken, decision: Decision) -> Result<(), Error> {
        let reply = ConfirmationReply {
            reply_token: token.clone(),
            decision,
            subscription_id: self.id.clone(),
            timestamp: clock::wall(),
            decided_by: None,
            decision_rationale: None,
            modified_action: None,
            correlation_id: None,
        };
        self.send(reply.into()).await
    }

    /// Answers a clarification, now.
    pub async fn answer(&self, token: &ReplyToken, response: Response) -> Result<(), Error> {
        let reply = ClarificationReply {
            reply_token: token.clone(),
            response,
            subscription_id: self.id.clone(),
            timestamp: clock::wall(),
            decided_by: None,
            confidence: None,
            correlation_id: None,
        };
        self.send(reply.into()).await
    }
}
