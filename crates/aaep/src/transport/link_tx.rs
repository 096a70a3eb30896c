//! The driver's end of a link.

use std::sync::Arc;

use aaep_proto::engine::SubscriptionKey;
use aaep_proto::frame::Frame;
use aaep_proto::id::SubscriptionId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::history::ResumeReplay;
use super::link::Link;
use super::link_sender::LinkSender;
use super::queue::{Outbound, OutboundQueue};
use super::reservation::Reservation;
use crate::backpressure::ConnectedGuard;
use crate::worker::DriverInputs;

/// Messages of one subscriber, other than replies, that may wait for the driver.
pub(super) const MAX_INBOUND: usize = 16;

/// Replies of one subscriber that may wait for the driver. They have slots of their own, so that no other message keeps
/// them from the engine.
const MAX_REPLIES: usize = 16;

/// The driver's end of a link. It exists as long as the subscription; the [`Link`] exists as long as a connection.
pub(crate) struct LinkTx {
    queue: Arc<OutboundQueue>,
    inbound_slots: Arc<Semaphore>,
    reply_slots: Arc<Semaphore>,
    /// Slots of messages that were handled while the link was full. They are released when it is read again, so a
    /// subscriber that does not read cannot send without end.
    held_slots: Vec<OwnedSemaphorePermit>,
    blocked: bool,
    resumable: bool,
    /// Counts the subscription for backpressure, while it has a connection.
    connected: Option<ConnectedGuard>,
    /// The number of the current reader, while there is one.
    reader: Option<u64>,
    /// Released when the subscription ends.
    pub(crate) reservation: Option<Box<dyn Reservation>>,
}

impl LinkTx {
    pub(crate) fn new(resumable: bool) -> LinkTx {
        LinkTx {
            queue: Arc::new(OutboundQueue::new(resumable)),
            inbound_slots: Arc::new(Semaphore::new(MAX_INBOUND)),
            reply_slots: Arc::new(Semaphore::new(MAX_REPLIES)),
            held_slots: Vec::new(),
            blocked: false,
            resumable,
            connected: None,
            reader: None,
            reservation: None,
        }
    }

    /// Makes the other end for a new connection. It replaces the previous one.
    pub(crate) fn connect(
        &mut self,
        key: SubscriptionKey,
        id: SubscriptionId,
        inputs: DriverInputs,
        connected: ConnectedGuard,
    ) -> Link {
        let reader = self.queue.next_reader();
        self.reader = Some(reader);
        self.connected = Some(connected);
        let (inbound_slots, reply_slots) = (self.inbound_slots.clone(), self.reply_slots.clone());
        let sender = LinkSender { key, id, inputs, inbound_slots, reply_slots };
        Link { queue: self.queue.clone(), reader, sender }
    }

    /// Ends the connection of this reader. Returns whether it was the current one.
    pub(crate) fn disconnect(&mut self, reader: u64) -> bool {
        if self.reader != Some(reader) {
            return false;
        }
        self.reader = None;
        self.connected = None;
        self.set_blocked(false);
        true
    }

    /// Queues an item. Returns whether the queue is full now.
    pub(crate) fn push(&self, item: Outbound) -> bool {
        self.queue.push(item)
    }

    /// Puts events before everything that is queued.
    pub(crate) fn push_front(&self, frames: Vec<Arc<Frame>>) {
        self.queue.replay_after(None, |_| frames);
    }

    /// Queues the events after `last` again, as changed by the caller, before everything that is queued.
    pub(crate) fn replay_after(&self, last: Option<&str>, change: impl FnOnce(ResumeReplay) -> Vec<Arc<Frame>>) {
        self.queue.replay_after(last, change);
    }

    /// Whether the queue has reached its high-water mark.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    /// Whether the engine was notified that the link is full.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether the subscription may be resumed after its connection was lost.
    pub(crate) fn is_resumable(&self) -> bool {
        self.resumable
    }

    /// Whether there is a connection.
    pub(crate) fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns how many items are queued.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns about how many bytes of events are queued.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.queue.unread_bytes()
    }

    /// Reduces the events that are kept for a subscriber that resumes to at most this many bytes.
    pub(crate) fn trim_history(&self, bytes: usize) {
        self.queue.trim_history(bytes);
    }

    /// Drops everything that is queued. Only for a subscription that is about to be closed.
    pub(crate) fn discard_queued(&self) {
        self.queue.discard();
    }

    /// Releases the slot of a message that was handled, or holds it until the link is read again.
    pub(crate) fn release_slot(&mut self, slot: OwnedSemaphorePermit) {
        if self.blocked {
            self.held_slots.push(slot);
        }
    }

    pub(crate) fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
        if let Some(connected) = &mut self.connected {
            connected.set_blocked(blocked);
        }
        if !blocked {
            self.held_slots.clear();
        }
    }
}

impl Drop for LinkTx {
    fn drop(&mut self) {
        self.queue.close();
    }
}
