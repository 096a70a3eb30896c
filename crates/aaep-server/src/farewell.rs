//! How transports without close codes tell why they end a subscription: by `subscription.close`.

use aaep::Closing;
use aaep_proto::id::SubscriptionId;
use aaep_proto::message::{Message, SubscriptionClose};

use crate::hub::Close;

/// Remembers whose subscription it is and whether its end was told. It is told once, and not to who asked for it.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    subscription: Option<SubscriptionId>,
    told: bool,
}

impl Farewell {
    /// Looks at a message that goes out.
    pub(crate) fn note(&mut self, message: &Message) {
        if let Message::SubscriptionAccepted(accepted) = message {
            self.subscription = Some(accepted.subscription_id.clone());
        }
    }

    /// What to say when the producer ends the subscription.
    pub(crate) fn of(&mut self, closing: &Closing) -> Option<Message> {
        let by_subscriber = closing.reason_code == "subscriber_closed";
        self.told |= by_subscriber;
        self.say(closing.reason_code, &closing.message)
    }

    /// What to say when the connection ends, if nothing was said yet.
    pub(crate) fn last(&mut self, close: &Close) -> Option<Message> {
        match close.code {
            Close::VIOLATION => self.say("violation", &close.reason),
            Close::CLEAN => self.say("producer_ended", &close.reason),
            _ => None,
        }
    }

    fn say(&mut self, reason_code: &str, message: &str) -> Option<Message> {
        let subscription_id = self.subscription.clone().filter(|_| !self.told)?;
        self.told = true;
        let close = SubscriptionClose {
            subscription_id,
            reason_code: Some(reason_code.to_owned()),
            reason_message: Some(message.to_owned()),
            correlation_id: None,
        };
        Some(close.into())
    }
}
