//! Answers to what a subscriber may not ask for on its subscription (5.5, 5.7). A rejection ends the subscription that
//! the message names, and no other.

use super::{CloseInfo, Cx, Engine, EngineError, EngineOutput, SubscriptionKey};
use crate::id::SubscriptionId;
use crate::message::{CloseReason, ReasonCode};
use crate::negotiate::Rejection;

impl Engine {
    /// Answers a renegotiation that is not valid, which ends the subscription. One that names another subscription is
    /// answered and changes nothing.
    pub fn refuse_renegotiation(
        &mut self,
        cx: &mut Cx<'_>,
        from: SubscriptionKey,
        named: Option<&SubscriptionId>,
        rejection: &Rejection,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        let own = self.subscription_id(from).ok_or(EngineError::UnknownSubscription)?;
        match named.filter(|named| *named != own) {
            Some(other) => self.refuse_other(from, other),
            None => {
                self.answer(from, rejection);
                let message = rejection.message.clone();
                self.end(cx, from, CloseInfo { reason: CloseReason::RenegotiationRefused, message });
            }
        }
        Ok(())
    }

    /// Answers a renegotiation of a subscription that is not the sender's own. Whether that one exists is not told.
    pub(super) fn refuse_other(&mut self, from: SubscriptionKey, named: &SubscriptionId) {
        let Some(own) = self.subscription_id(from) else { return };
        let message = format!("subscription_id: {named} is not the subscription of this connection. Use {own}.");
        self.answer(from, &Rejection::new(ReasonCode::Unknown, message));
    }

    /// Answers a request for a subscription by someone who has one. That one goes on.
    pub fn refuse_second_request(&mut self, from: SubscriptionKey) -> Result<(), EngineError> {
        let own = self.subscription_id(from).ok_or(EngineError::UnknownSubscription)?;
        let message = format!("There is a subscription here already: {own}. Change it with subscription.renegotiate.");
        self.answer(from, &Rejection::new(ReasonCode::Unknown, message));
        Ok(())
    }

    fn answer(&mut self, to: SubscriptionKey, rejection: &Rejection) {
        self.out.push_back(EngineOutput::Message(to, Box::new(rejection.to_message().into())));
    }
}
