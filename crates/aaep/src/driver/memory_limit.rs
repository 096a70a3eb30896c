//! Memory for subscriptions: the reservation of each one, and the limit for all of them. When queued events use too much
//! memory, the subscriptions that are furthest behind are closed.

use aaep_proto::engine::{CloseInfo, ResumePolicy, SubscriptionKey};
use aaep_proto::frame::FrameMeter;
use aaep_proto::message::{CloseReason, Message, SubscriptionRequest};
use aaep_proto::negotiate::Rejection;
use aaep_proto::occupancy::memory_after_change;

use crate::driver::DriverState;
use crate::transport::{Link, LinkTx, Reservation};

/// A subscription with at most this many unread bytes keeps up and is never closed to free memory.
const MAX_UNREAD_BYTES_IF_KEEPING_UP: usize = 64 * 1024;

/// A limit for the events that are queued for the subscriptions of several producers together. Clones share it.
///
/// ```
/// use aaep::{Producer, transport::QueueBudget};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let budget = QueueBudget::new(1 << 20);
/// let ada = Producer::builder("gardener").queue_budget(&budget).build();
/// let ben = Producer::builder("gardener").queue_budget(&budget).build();
/// # drop((ada, ben));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QueueBudget {
    max_bytes: usize,
    meter: FrameMeter,
}

impl QueueBudget {
    /// Creates a budget of this many bytes.
    pub fn new(max_bytes: usize) -> QueueBudget {
        QueueBudget { max_bytes, meter: FrameMeter::default() }
    }

    /// Returns about how many bytes of events are queued, or kept for subscribers that may resume.
    pub fn queued_bytes(&self) -> usize {
        self.meter.bytes()
    }

    /// Returns a meter for one producer.
    pub(crate) fn meter(&self) -> FrameMeter {
        self.meter.part()
    }

    fn is_exceeded(&self) -> bool {
        self.meter.bytes() > self.max_bytes
    }
}

/// The limit for events that are queued for all subscriptions together.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    max_queued_bytes: usize,
    /// The limit that this producer shares with others.
    shared: Option<QueueBudget>,
    /// Subscriptions that were closed to free memory.
    pub(crate) closed: u64,
}

impl MemoryLimit {
    pub(crate) fn new(max_queued_bytes: usize, shared: Option<QueueBudget>) -> MemoryLimit {
        MemoryLimit { max_queued_bytes, shared, closed: 0 }
    }

    fn is_exceeded_by(&self, queued_bytes: usize) -> bool {
        queued_bytes > self.max_queued_bytes || self.shared.as_ref().is_some_and(QueueBudget::is_exceeded)
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
        if !self.memory_limit.is_exceeded_by(self.queued_bytes()) {
            return false;
        }
        let history_bytes = self.memory_limit.max_queued_bytes / 4 / self.links.len().max(1);
        self.links.values().for_each(|link_tx| link_tx.trim_history(history_bytes));
        let mut closed = false;
        while self.memory_limit.is_exceeded_by(self.queued_bytes())
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
