//! The queue in front of the program: bounded for each producer, critical events first. A program that is slow loses the
//! least important events and gets their number; a question never waits behind text.

mod priority;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep_proto::message::{CoreType, Event};
use aaep_proto::subscriber::{PromptId, memory_size};
use tokio::sync::Notify;
use tokio::time::Instant;

use priority::{is_critical, is_outcome, keep_rank};

/// What a subscriber reports to its program, with instants of tokio's clock.
///
/// ```
/// use aaep_client::SubscriberEvent;
/// let event = SubscriberEvent::Skipped(3);
/// assert!(!matches!(event, SubscriberEvent::PromptOpened(_, _)));
/// ```
pub type SubscriberEvent = aaep_proto::subscriber::SubscriberEvent<Instant>;

/// Events of one producer that may wait, without the critical ones.
const MAX_EVENTS: usize = 1024;
/// Bytes of the events of one producer that may wait.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Critical events of one producer that may wait. With more, nothing is read from it until some are received.
const MAX_CRITICAL_EVENTS: usize = 256;

/// The memory that an event without content counts for.
const SMALL_EVENT_BYTES: usize = 64;

/// Identifies a producer in a queue.
pub(crate) type ProducerKey = u32;

struct QueueEntry {
    producer: ProducerKey,
    event: SubscriberEvent,
    bytes: usize,
}

/// What one producer occupies.
#[derive(Default)]
struct ProducerUsage {
    events: usize,
    bytes: usize,
    critical_events: usize,
    critical_bytes: usize,
    skipped: u64,
}

#[derive(Default)]
struct ReceiveQueueState {
    critical: VecDeque<QueueEntry>,
    normal: VecDeque<QueueEntry>,
    usage: BTreeMap<ProducerKey, ProducerUsage>,
    /// Producers whose sender was not dropped.
    senders: usize,
}

/// The queue of all producers of one program.
#[derive(Default)]
pub(crate) struct EventQueue {
    state: Mutex<ReceiveQueueState>,
    readable: Notify,
    capacity_freed: Notify,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, ReceiveQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a producer. In raw mode its events keep their order and none is dropped.
    pub(crate) fn add_producer(self: &Arc<Self>, producer: ProducerKey, raw: bool) -> EventSender {
        let mut state = self.lock();
        state.usage.insert(producer, ProducerUsage::default());
        state.senders += 1;
        EventSender { queue: self.clone(), producer, raw }
    }

    /// Returns the next event, or `None` when no event waits and every sender was dropped.
    pub(crate) async fn recv(&self) -> Option<(ProducerKey, SubscriberEvent)> {
        loop {
            let mut readable = std::pin::pin!(self.readable.notified());
            readable.as_mut().enable();
            {
                let mut state = self.lock();
                if let Some(next) = state.pop() {
                    self.capacity_freed.notify_waiters();
                    return Some(next);
                }
                if state.senders == 0 {
                    return None;
                }
            }
            readable.await;
        }
    }
}

impl ReceiveQueueState {
    fn usage(&mut self, producer: ProducerKey) -> &mut ProducerUsage {
        self.usage.entry(producer).or_default()
    }

    fn pop(&mut self) -> Option<(ProducerKey, SubscriberEvent)> {
        if let Some(entry) = self.remove_critical(0) {
            return Some((entry.producer, entry.event));
        }
        let producer = self.normal.front()?.producer;
        let skipped = std::mem::take(&mut self.usage(producer).skipped);
        if skipped > 0 {
            return Some((producer, SubscriberEvent::Skipped(skipped)));
        }
        self.remove_normal(0).map(|entry| (entry.producer, entry.event))
    }

    fn remove_critical(&mut self, index: usize) -> Option<QueueEntry> {
        let entry = self.critical.remove(index)?;
        let usage = self.usage(entry.producer);
        usage.critical_events -= 1;
        usage.critical_bytes -= entry.bytes;
        Some(entry)
    }

    fn remove_normal(&mut self, index: usize) -> Option<QueueEntry> {
        let entry = self.normal.remove(index)?;
        let usage = self.usage(entry.producer);
        usage.events -= 1;
        usage.bytes -= entry.bytes;
        Some(entry)
    }

    fn push_critical(&mut self, entry: QueueEntry) {
        let usage = self.usage(entry.producer);
        usage.critical_events += 1;
        usage.critical_bytes += entry.bytes;
        self.critical.push_back(entry);
    }

    fn push_normal(&mut self, entry: QueueEntry) {
        let usage = self.usage(entry.producer);
        usage.events += 1;
        usage.bytes += entry.bytes;
        self.normal.push_back(entry);
    }

    /// Drops the least important events of a producer until the rest is within its limits.
    fn enforce_limits(&mut self, producer: ProducerKey) {
        while {
            let usage = self.usage(producer);
            usage.events > MAX_EVENTS || usage.bytes > MAX_BYTES
        } {
            let own = self.normal.iter().enumerate().filter(|(_, entry)| entry.producer == producer);
            let least = own.min_by_key(|(index, entry)| (keep_rank(&entry.event), *index)).map(|(index, _)| index);
            if least.and_then(|index| self.remove_normal(index)).is_none() {
                return;
            }
            self.usage(producer).skipped += 1;
        }
    }

    /// Makes waiting events of a producer critical, so that this critical event does not overtake them: the outcomes of
    /// questions, because a user would take them for outcomes of the next question, the start of its session and, if it
    /// ends the session, all of the session.
    fn promote_before(&mut self, producer: ProducerKey, critical: &Event) {
        let session = &critical.envelope.session_id;
        let is_end = critical.core_type().is_some_and(CoreType::is_terminal);
        let comes_first = |event: &SubscriberEvent| match event {
            SubscriberEvent::Event(event) => {
                let starts_or_ends = is_end || event.core_type() == Some(CoreType::SessionStarted);
                is_outcome(event) || (event.envelope.session_id == *session && starts_or_ends)
            }
            _ => false,
        };
        let mut index = 0;
        while let Some(entry) = self.normal.get(index) {
            if entry.producer != producer || !comes_first(&entry.event) {
                index += 1;
            } else if let Some(entry) = self.remove_normal(index) {
                self.push_critical(entry);
            }
        }
    }

    /// Returns the index of a question that the program has not received yet.
    fn waiting_prompt(&self, producer: ProducerKey, id: PromptId) -> Option<usize> {
        let is_prompt = |event: &SubscriberEvent| matches!(event, SubscriberEvent::PromptOpened(p, _) if p.id == id);
        self.critical.iter().position(|entry| entry.producer == producer && is_prompt(&entry.event))
    }

    fn push(&mut self, producer: ProducerKey, event: SubscriberEvent) {
        match &event {
            SubscriberEvent::PromptMoved(id, at) => {
                if let Some(index) = self.waiting_prompt(producer, *id)
                    && let SubscriberEvent::PromptOpened(_, deadline) = &mut self.critical[index].event
                {
                    *deadline = *at;
                    return;
                }
            }
            SubscriberEvent::PromptEnded(id, _) => {
                // A question that ended before it was received is not reported. Its event stays.
                if let Some(index) = self.waiting_prompt(producer, *id) {
                    self.remove_critical(index);
                    return;
                }
            }
            SubscriberEvent::Event(event) if event.is_critical() => self.promote_before(producer, event),
            _ => {}
        }
        let bytes = if let SubscriberEvent::Event(event) = &event { memory_size(event) } else { SMALL_EVENT_BYTES };
        let critical = is_critical(&event);
        let entry = QueueEntry { producer, event, bytes };
        if critical {
            self.push_critical(entry);
        } else {
            self.push_normal(entry);
            self.enforce_limits(producer);
        }
    }

    /// Adds an event of a producer in raw mode. Its sender waits for capacity before it reads more.
    fn push_raw(&mut self, producer: ProducerKey, event: SubscriberEvent) {
        let bytes = if let SubscriberEvent::Message(bytes) = &event { bytes.len() } else { SMALL_EVENT_BYTES };
        self.push_normal(QueueEntry { producer, event, bytes });
    }
}

/// The end of the queue for one producer.
pub(crate) struct EventSender {
    queue: Arc<EventQueue>,
    producer: ProducerKey,
    raw: bool,
}

impl EventSender {
    /// Returns whether messages are reported as they were received.
    pub(crate) fn is_raw(&self) -> bool {
        self.raw
    }

    pub(crate) fn send(&self, event: SubscriberEvent) {
        let mut state = self.queue.lock();
        if self.raw {
            state.push_raw(self.producer, event);
        } else {
            state.push(self.producer, event);
        }
        drop(state);
        self.queue.readable.notify_one();
    }

    /// Returns whether more may be read from the producer.
    pub(crate) fn has_capacity(&self) -> bool {
        let mut state = self.queue.lock();
        let usage = state.usage(self.producer);
        if self.raw {
            return usage.events < MAX_EVENTS && usage.bytes < MAX_BYTES;
        }
        usage.critical_events < MAX_CRITICAL_EVENTS && usage.critical_bytes < MAX_BYTES
    }

    /// Waits until more may be read from the producer.
    pub(crate) async fn wait_for_capacity(&self) {
        loop {
            let mut freed = std::pin::pin!(self.queue.capacity_freed.notified());
            freed.as_mut().enable();
            if self.has_capacity() {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        self.queue.lock().senders -= 1;
        self.queue.readable.notify_one();
    }
}

#[cfg(test)]
mod tests;
