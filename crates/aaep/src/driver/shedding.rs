//! What subscriptions occupy: each holds a lease from its beginning to its end, and when the events that wait for readers
//! use too much memory, the subscriptions that are furthest behind are ended.

use aaep_proto::engine::{CloseInfo, ResumePolicy, SubscriptionKey};
use aaep_proto::message::{CloseReason, Message, SubscriptionRequest};
use aaep_proto::negotiate::Rejection;
use aaep_proto::occupancy::memory_after_change;

use crate::driver::DriverState;
use crate::transport::{Lease, Link, LinkTx};

/// Whoever has less than this unread keeps up.
const KEEPS_UP_BYTES: usize = 64 * 1024;

/// When subscriptions are ended for what waits for them.
#[derive(Debug)]
pub(crate) struct Shedding {
    /// Most bytes of events and text that may wait for readers.
    limit_bytes: usize,
    /// Subscriptions that were ended.
    pub(crate) ended: u64,
}

impl Shedding {
    pub(crate) fn new(limit_bytes: usize) -> Shedding {
        Shedding { limit_bytes, ended: 0 }
    }
}

impl DriverState {
    /// Opens a subscription and its link.
    pub(crate) fn subscribe(
        &mut self,
        request: &SubscriptionRequest,
        principal: &str,
        binding: ResumePolicy,
        lease: Option<Box<dyn Lease>>,
    ) -> Result<Option<Link>, Rejection> {
        let key = self.act(|engine, cx| engine.subscribe(cx, request, principal, binding))?;
        let link = self.link(key, binding);
        if let Some(port) = self.ports.get_mut(&key) {
            port.lease = lease;
        }
        Ok(link)
    }

    /// Has a renegotiation rejected that the lease of its subscription has no room for. Answers whether that happened.
    pub(crate) fn reject_oversized(&mut self, key: SubscriptionKey, message: &Message) -> bool {
        let Message::SubscriptionRenegotiate(change) = message else { return false };
        let Some(terms) = self.engine().terms(key) else { return false };
        if self.engine().subscription_id(key) != Some(&change.subscription_id) {
            return false;
        }
        let bytes = memory_after_change(terms, &change.capabilities);
        let Some(lease) = self.ports.get_mut(&key).and_then(|port| port.lease.as_mut()) else { return false };
        match lease.resize(bytes) {
            Ok(()) => false,
            Err(rejection) => {
                self.act(|engine, cx| engine.reject_renegotiation(cx, key, &rejection));
                true
            }
        }
    }

    /// Frees memory if too much waits for readers. First less is kept for readers that may come back; then subscriptions
    /// that do not keep up are ended, the one that is furthest behind first. Answers whether any was ended. A subscription
    /// that keeps up is never ended.
    pub(crate) fn shed(&mut self) -> bool {
        let limit = self.shedding.limit_bytes;
        if self.waiting_bytes() <= limit {
            return false;
        }
        let share = limit / 4 / self.ports.len().max(1);
        self.ports.values().for_each(|port| port.trim_history(share));
        let mut ended = false;
        while self.waiting_bytes() > limit
            && let Some(key) = self.furthest_behind()
        {
            tracing::warn!(subscription = ?self.engine().subscription_id(key), "a subscription that does not keep up is \
                ended: the events that wait for readers use too much memory");
            if let Some(port) = self.ports.get(&key) {
                port.discard();
            }
            let message = "Too much is waiting for all subscribers, and this one does not keep up.".to_owned();
            self.act(|engine, cx| {
                engine.close_subscription(cx, key, CloseInfo { reason: CloseReason::TooSlow, message })
            });
            self.take_outputs();
            self.shedding.ended += 1;
            ended = true;
        }
        ended
    }

    /// About how many bytes wait for readers or are kept for those that come back.
    fn waiting_bytes(&self) -> usize {
        self.engine().config().frames.bytes()
    }

    fn furthest_behind(&self) -> Option<SubscriptionKey> {
        let unread = |(key, port): (&SubscriptionKey, &LinkTx)| {
            (port.unread_bytes() + self.engine().held_memory_bytes(*key), *key)
        };
        let furthest = self.ports.iter().map(unread).max()?;
        (furthest.0 > KEEPS_UP_BYTES).then_some(furthest.1)
    }
}
