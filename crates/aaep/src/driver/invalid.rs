//! Answers to requests and renegotiations that are not valid (5.5, 5.7).

use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::SubscriptionId;
use aaep_proto::inbound::Inbound;
use aaep_proto::negotiate::Rejection;
use tokio::sync::OwnedSemaphorePermit;

use crate::driver::DriverState;
use crate::error::Error;
use crate::producer::Producer;

impl DriverState {
    /// A subscriber sent something invalid by its link: the answer goes there.
    pub(crate) fn hear_invalid(&mut self, key: SubscriptionKey, message: &Inbound, place: OwnedSemaphorePermit) {
        // A subscription that has ended needs no answer.
        let _ = self.act(|engine, cx| match message {
            Inbound::RefusedChange(named, rejection) => {
                engine.reject_invalid_renegotiation(cx, key, named.as_ref(), rejection)
            }
            Inbound::Refused(_) => engine.reject_second_request(key),
            _ => Ok(()),
        });
        if let Some(port) = self.ports.get_mut(&key) {
            port.heard(place);
        }
    }

    /// A principal sent an invalid renegotiation by another way than the link of its subscription. The caller answers
    /// it, so the link only learns of the end. Answers whether there was such a subscription.
    fn refuse_from(&mut self, principal: &str, id: &SubscriptionId, rejection: &Rejection) -> bool {
        let Some(key) = self.engine().find_subscription(id, principal) else { return false };
        let refused = self.act(|engine, cx| engine.reject_invalid_renegotiation(cx, key, Some(id), rejection)).is_ok();
        self.drain_but(|to, message| (to != key).then_some(message));
        refused
    }
}

impl Producer {
    /// Ends the subscription of this principal whose renegotiation is not valid (5.7). The caller answers the sender.
    /// Answers whether there was such a subscription.
    pub async fn refuse_renegotiation(
        &self,
        principal: &str,
        id: &SubscriptionId,
        rejection: &Rejection,
    ) -> Result<bool, Error> {
        let (principal, id, rejection) = (principal.to_owned(), id.clone(), rejection.clone());
        self.handle.call(move |desk| desk.refuse_from(&principal, &id, &rejection)).await
    }
}
