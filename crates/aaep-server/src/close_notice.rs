//! How transports without close codes tell a subscriber why its connection ends: by `subscription.close`.

use aaep_proto::id::SubscriptionId;
use aaep_proto::message::{CloseReason, Message, SubscriptionClose};

use crate::context::Close;

/// Remembers whose subscription it is and whether the producer has told its end: it is told once.
#[derive(Debug, Default)]
pub(crate) struct CloseNotifier {
    subscription: Option<SubscriptionId>,
    told: bool,
}

impl CloseNotifier {
    /// Looks at a message that goes out.
    pub(crate) fn note(&mut self, message: &Message) {
        match message {
            Message::SubscriptionAccepted(accepted) => self.subscription = Some(accepted.subscription_id.clone()),
            Message::SubscriptionClose(_) => self.told = true,
            _ => {}
        }
    }

    /// What is left to say when the connection ends like this.
    pub(crate) fn last(&self, close: &Close) -> Option<Message> {
        let reason = match close.code {
            Close::VIOLATION => CloseReason::Violation,
            Close::UNAUTHENTICATED => CloseReason::AuthenticationRequired,
            _ => return None,
        };
        let subscription = self.subscription.clone().filter(|_| !self.told)?;
        Some(closing(subscription, reason, close))
    }
}

/// The message that tells why a connection ends.
pub(crate) fn closing(subscription_id: SubscriptionId, reason: CloseReason, close: &Close) -> Message {
    SubscriptionClose {
        subscription_id,
        reason_code: Some(reason),
        reason_message: Some(close.reason.clone()),
        correlation_id: None,
    }
    .into()
}
