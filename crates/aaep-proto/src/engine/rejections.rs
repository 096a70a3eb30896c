//! Rejections of messages on a subscription (5.5, 5.7). A rejection ends the subscription that the message names, and no
//! other.

use super::{CloseInfo, Cx, Engine, EngineError, SubscriptionKey};
use crate::id::SubscriptionId;
use crate::message::{CloseReason, ReasonCode};
use crate::negotiate::Rejection;

impl Engine {
    /// Rejects a change of terms and ends the subscription (5.7): it is not valid, or the caller has no room for it.
    /// Does nothing if the subscription has ended.
    pub fn reject_renegotiation(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, rejection: &Rejection) {
        self.observe_time(cx);
        if self.subscriptions.get(key).is_some() {
            self.out.send(key, rejection.to_message());
            let message = rejection.message.clone();
            self.end_subscription(cx, key, CloseInfo { reason: CloseReason::RenegotiationRefused, message });
        }
    }

    /// Rejects a change of terms that is not valid and names this subscription, if any. If that is not the sender's own,
    /// nothing is changed; otherwise the subscription ends.
    pub fn reject_invalid_renegotiation(
        &mut self,
        cx: &mut Cx<'_>,
        from: SubscriptionKey,
        named: Option<&SubscriptionId>,
        rejection: &Rejection,
    ) -> Result<(), EngineError> {
        let own = self.subscription_id(from).ok_or(EngineError::UnknownSubscription)?;
        match named {
            Some(named) if named != own => self.reject_foreign(from, named),
            _ => self.reject_renegotiation(cx, from, rejection),
        }
        Ok(())
    }

    /// Rejects a change of terms of a subscription that is not the sender's own. Whether that exists is not revealed.
    pub(super) fn reject_foreign(&mut self, from: SubscriptionKey, named: &SubscriptionId) {
        let Some(own) = self.subscription_id(from) else { return };
        let message = format!("subscription_id: {named} is not the subscription of this connection. Use {own}.");
        self.out.send(from, Rejection::new(ReasonCode::Unknown, message).to_message());
    }

    /// Rejects a request for a subscription on a connection that has one. The existing one continues.
    pub fn reject_second_request(&mut self, from: SubscriptionKey) -> Result<(), EngineError> {
        let own = self.subscription_id(from).ok_or(EngineError::UnknownSubscription)?;
        let message = format!("There is a subscription here already: {own}. Change it with subscription.renegotiate.");
        self.out.send(from, Rejection::new(ReasonCode::Unknown, message).to_message());
        Ok(())
    }
}
