//! Memory for subscriptions: the reservation of each one, and the limit for all of them. When queued events use too much
//! memory, the subscriptions that are furthest behind are closed.

use aaep_proto::engine::{CloseInfo, ResumePolicy, SubscriptionKey};
use aaep_proto::message::{CloseReason, Message, SubscriptionRequest};
use aaep_proto::negotiate::Rejection;
use aaep_proto::occupancy::memory_after_change;

use crate::driver::DriverState;
use crate::transport::{Link, LinkTx, Reservation};

/// A subscription with at most this many unread bytes keeps up and is never closed to free memory.
const MAX_UNREAD_BYTES_IF_KEEPING_UP: usize = 64 * 1024;

/// The limit for events that are queued for all subscriptions together.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    max_queued_bytes: usize,
    /// Subscriptions that were closed to free memory.
    pub(crate) closed: u64,
}

impl MemoryLimit {
    pub(crate) fn new(max_queued_bytes: usize) -> MemoryLimit {
        MemoryLimit { max_queued_bytes, closed: 0 }
    }
}

impl DriverState {
    /// Opens a subscription and its link.
    pub(crate) fn subscribe(
        &mut self,
        request: &SubscriptionRequest,
        principal: &str,
        policy: ResumePolicy,
        reservation: Option<Box<dyn Reservation>>,
    ) -> Result<Option<Link>, Rejection> {
        let key = self.with_engine(|engine, cx| engine.subscribe(cx, request, principal, policy))?;
        let link = self.connect_link(key, policy);
        if let Some(link_tx) = self.links.get_mut(&key) {
            link_tx.reservation = reservation;
        }
        Ok(link)
    }

    /// Rejects a renegotiation if the reservation of its subscription refuses the memory for it. Returns whether it was
    /// rejected.
    pub(crate) fn reject_oversized(&mut self, key: SubscriptionKey, message: &Message) -> bool {
        let Message::SubscriptionRenegotiate(change) = message else { return false };
        let Some(terms) = self.engine().terms(key) else { return false };
        if self.engine().subscription_id(key) != Some(&change.subscription_id) {
            return false;
        }
        let bytes = memory_after_change(terms, &change.capabilities);
        let Some(reservation) = self.links.get_mut(&key).and_then(|link_tx| link_tx.reservation.as_mut()) else {
            return false;
        };
        match reservation.resize(bytes) {
            Ok(()) => false,
            Err(rejection) => {
                self.with_engine(|engine, cx| engine.reject_renegotiation(cx, key, &rejection));
                true
            }
        }
    }

    /// Frees memory if queued events use too much: first the histories for subscribers that may resume, then
    /// subscriptions that do not keep up are closed, the one that is furthest behind first. Returns whether one was closed.
    pub(crate) fn shed_slow_subscriptions(&mut self) -> bool {
        let limit = self.memory_limit.max_queued_bytes;
        if self.queued_bytes() <= limit {
            return false;
        }
        let history_bytes = limit / 4 / self.links.len().max(1);
        self.links.values().for_each(|link_tx| link_tx.trim_history(history_bytes));
        let mut closed = false;
        while self.queued_bytes() > limit
            && let Some(key) = self.furthest_behind()
        {
            tracing::warn!(
                subscription = ?self.engine().subscription_id(key),
                "slow subscription closed: queued events use too much memory"
            );
            if let Some(link_tx) = self.links.get(&key) {
                link_tx.discard_queued();
            }
            let message = "Too much is waiting for all subscribers, and this one does not keep up.".to_owned();
            let info = CloseInfo { reason: CloseReason::TooSlow, message };
            self.with_engine(|engine, cx| engine.close_subscription(cx, key, info));
            self.drain_effects();
            self.memory_limit.closed += 1;
            closed = true;
        }
        closed
    }

    /// Returns about how many bytes of events are queued, or kept for subscribers that may resume.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.engine().config().frames.bytes()
    }

    fn furthest_behind(&self) -> Option<SubscriptionKey> {
        let unread = |(key, link_tx): (&SubscriptionKey, &LinkTx)| {
            (link_tx.unread_bytes() + self.engine().held_memory_bytes(*key), *key)
        };
        let (bytes, key) = self.links.iter().map(unread).max()?;
        (bytes > MAX_UNREAD_BYTES_IF_KEEPING_UP).then_some(key)
    }
}
