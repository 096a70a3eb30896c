//! How transports without close codes tell a subscriber that it broke the rules: by `subscription.close`.

use aaep_proto::id::SubscriptionId;
use aaep_proto::message::{Message, SubscriptionClose};

use crate::hub::Close;

/// Remembers whose subscription it is and whether the producer has told its end: it is told once.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    subscription: Option<SubscriptionId>,
    told: bool,
}

impl Farewell {
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
        let untold = close.code == Close::VIOLATION && !self.told;
        let close = SubscriptionClose {
            subscription_id: self.subscription.clone().filter(|_| untold)?,
            reason_code: Some("violation".to_owned()),
            reason_message: Some(close.reason.clone()),
            correlation_id: None,
        };
        Some(close.into())
    }
}
