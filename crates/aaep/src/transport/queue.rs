//! The queue of outbound messages of one subscription.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use aaep_proto::engine::CloseInfo;
use aaep_proto::frame::Frame;
use aaep_proto::message::Message;

use super::history::{History, ResumeReplay};

/// Queued items at which a link is full. The engine then holds further events of the subscription back.
pub(super) const HIGH_WATER: usize = 256;

/// Queued items at which a link that was full takes events again.
const LOW_WATER: usize = HIGH_WATER / 2;

/// Bytes of events that a reader takes at once, unless a single event has more. A reader that stops in the middle of a
/// write keeps what it took, so this bounds the memory for it.
const MAX_BATCH_BYTES: usize = 64 * 1024;

/// Something that the producer sends to a subscriber.
///
/// Exhaustive on purpose: a transport that skips one loses it for its subscriber.
///
/// ```
/// use aaep::message::Capabilities;
/// use aaep::transport::Outbound;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let producer = aaep::Producer::builder("gardener").build();
/// let mut link = producer.subscribe_local("console", Capabilities::default()).await.expect("valid terms");
/// assert!(matches!(link.recv().await, Some(Outbound::Message(_))), "subscription.accepted comes first");
/// let session = producer.session("Planning your garden.").await.expect("a session");
/// assert!(matches!(link.recv().await, Some(Outbound::Event(_))), "then events");
/// # drop(session);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Outbound {
    /// An event, typed and as JSON. Subscriptions with equal terms share it.
    Event(Arc<Frame>),
    /// A message of the handshake.
    Message(Box<Message>),
    /// The subscription was closed. Nothing comes after this.
    Closed(CloseInfo),
}

impl Outbound {
    fn frame(&self) -> Option<&Arc<Frame>> {
        match self {
            Outbound::Event(frame) => Some(frame),
            Outbound::Message(_) | Outbound::Closed(_) => None,
        }
    }
}

/// The queue of one subscription. It belongs to the subscription, not to the connection: a subscriber that resumes reads
/// on where its last reader stopped.
pub(crate) struct OutboundQueue {
    state: Mutex<OutboundQueueState>,
}

struct OutboundQueueState {
    items: VecDeque<Outbound>,
    /// Events that were read lately, if the subscription may be resumed.
    history: Option<Box<History>>,
    /// The number of the only reader that may take items, counted from 1.
    reader: u64,
    /// Wakes the reader when there is something to take.
    waker: Option<Waker>,
    /// Whether the queue was full and the driver must be notified when it has reached the low-water mark.
    was_full: bool,
    closed: bool,
}

impl OutboundQueueState {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What a reader took from the queue.
#[derive(Default)]
pub(super) struct Batch {
    /// How many items it took; none if the queue is closed, or another reader has replaced this one.
    pub(super) count: usize,
    /// Whether the queue was full and is now down to its low-water mark.
    pub(super) capacity_freed: bool,
}

impl OutboundQueue {
    pub(super) fn new(resumable: bool) -> OutboundQueue {
        let state = OutboundQueueState {
            items: VecDeque::new(),
            history: resumable.then(Box::default),
            reader: 0,
            waker: None,
            was_full: false,
            closed: false,
        };
        OutboundQueue { state: Mutex::new(state) }
    }

    /// No code that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, OutboundQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. Returns whether the queue is full now. A full queue still takes what the engine had released before
    /// it learned that the queue is full.
    pub(super) fn push(&self, item: Outbound) -> bool {
        let mut state = self.lock();
        state.items.push_back(item);
        state.wake();
        let full = state.items.len() >= HIGH_WATER;
        state.was_full |= full;
        full
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= HIGH_WATER
    }

    pub(super) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Moves up to `limit` items to the end of `into`.
    pub(super) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        reader: u64,
        into: &mut Vec<Outbound>,
        limit: usize,
    ) -> Poll<Batch> {
        let mut state = self.lock();
        if state.reader != reader {
            return Poll::Ready(Batch::default());
        }
        let OutboundQueueState { items, history, was_full, closed, waker, .. } = &mut *state;
        let count = batch_length(items, limit);
        if count == 0 && *closed {
            return Poll::Ready(Batch::default());
        }
        if count == 0 {
            waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            return Poll::Pending;
        }
        if let Some(history) = history {
            items.iter().take(count).filter_map(Outbound::frame).for_each(|frame| history.push(frame));
        }
        into.extend(items.drain(..count));
        let capacity_freed = *was_full && items.len() <= LOW_WATER;
        if capacity_freed {
            *was_full = false;
        }
        Poll::Ready(Batch { count, capacity_freed })
    }

    /// Takes the events after `last` out of the history, lets the caller change them, and puts the result before
    /// everything that is queued.
    pub(super) fn replay_after(&self, last: Option<&str>, change: impl FnOnce(ResumeReplay) -> Vec<Arc<Frame>>) {
        let mut state = self.lock();
        let Some(history) = &mut state.history else { return };
        let frames = change(history.take_after(last));
        frames.into_iter().rev().for_each(|frame| state.items.push_front(Outbound::Event(frame)));
    }

    /// Returns about how many bytes of events are queued.
    pub(super) fn unread_bytes(&self) -> usize {
        self.lock().items.iter().filter_map(Outbound::frame).map(|frame| frame.memory_bytes()).sum()
    }

    /// Reduces the history to at most this many bytes.
    pub(super) fn trim_history(&self, bytes: usize) {
        if let Some(history) = &mut self.lock().history {
            history.trim(bytes);
        }
    }

    /// Drops all queued items and the history. Only for a subscription that is about to be closed.
    pub(super) fn discard(&self) {
        let mut state = self.lock();
        state.items = VecDeque::new();
        state.history = None;
    }

    /// Marks the queue as closed: a reader gets what is queued, and nothing after that.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.wake();
    }

    /// Replaces the reader. Returns the number of the new one.
    pub(super) fn next_reader(&self) -> u64 {
        let mut state = self.lock();
        state.wake();
        state.reader += 1;
        state.reader
    }
}

impl fmt::Debug for OutboundQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Returns how many items a reader takes at once.
fn batch_length(items: &VecDeque<Outbound>, limit: usize) -> usize {
    let mut bytes = 0;
    let fits = |item: &&Outbound| {
        let before = bytes;
        bytes += item.frame().map_or(0, |frame| frame.json().len());
        before == 0 || bytes <= MAX_BATCH_BYTES
    };
    items.iter().take(limit).take_while(fits).count()
}
