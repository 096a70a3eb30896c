//! A subscription's two queues: what the producer sends, what the subscriber says. Transports carry them
//! over a wire; in the same process they can be used as they are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use aaep_proto::engine::{CloseInfo, SubscriptionKey};
use aaep_proto::frame::Frame;
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::inbound::Inbound;
use aaep_proto::message::{Decision, Message, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::history::{History, Rewound};
use super::link_sender::LinkSender;
use crate::backpressure::Connected;
use crate::clock::Arrival;
use crate::driver::inbound::Answered;
use crate::error::Error;
use crate::transport::Lease;

/// How much waits in a link before its subscription is held back.
const QUEUE: usize = 256;

/// How little must be left before it goes on.
const ROOM: usize = QUEUE / 2;

/// Most bytes of events that a reader takes at once, unless one event has more. A reader that stops in the middle of a
/// write keeps what it took.
const BATCH_BYTES: usize = 64 * 1024;

/// How many messages of one subscriber wait to be heard.
const SAID: usize = 16;

/// How many replies of one subscriber wait to be heard. They have places of their own, so that no other message keeps
/// them from the engine.
const REPLIES: usize = 16;

/// What the producer sends.
///
/// ```
/// use aaep::transport::Outbound;
/// fn is_event(outgoing: &Outbound) -> bool {
///     matches!(outgoing, Outbound::Event(_))
/// }
/// # let _ = is_event;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Outbound {
    /// An event, typed and as JSON. Subscriptions with the same terms share it.
    Event(Arc<Frame>),
    /// A message of the handshake.
    Message(Box<Message>),
    /// The subscription has ended; this is the last.
    Closed(CloseInfo),
}

/// What comes from the far end of a link.
pub(crate) enum LinkEvent {
    /// The subscriber sent a message by its link.
    Said(SubscriptionKey, Received),
    /// A principal sent a message by another way than the link of its subscription.
    Heard(Box<Heard>),
    /// The subscriber sent something that is not valid and gets an answer.
    Invalid(SubscriptionKey, Box<Inbound>, OwnedSemaphorePermit),
    /// There is room again.
    Room(SubscriptionKey),
    /// The reader with this number has left.
    Gone(SubscriptionKey, u64),
}

/// A message from a subscriber.
pub(crate) struct Received {
    pub(crate) message: Box<Message>,
    pub(crate) arrived: Arrival,
    /// Its place in the queue.
    pub(crate) place: OwnedSemaphorePermit,
}

/// A message that did not come by a link.
pub(crate) struct Heard {
    pub(crate) principal: String,
    pub(crate) received: Received,
    /// Takes the answer, and what to wait for until the decision is on record.
    pub(crate) answer: oneshot::Sender<Answered>,
}

/// Whether a message answers a question.
pub(crate) fn is_reply(message: &Message) -> bool {
    matches!(message, Message::ConfirmationReply(_) | Message::ClarificationReply(_))
}

/// What waits for the reader. It belongs to the subscription, so a reader that comes back finds the rest.
pub(crate) struct Queue {
    state: Mutex<Waiting>,
}

struct Waiting {
    items: VecDeque<Outbound>,
    /// What was taken, for a subscription that may come back for it.
    history: Option<Box<History>>,
    /// Which reader may take them, counted from 1.
    reader: u64,
    /// Who waits for something to take.
    waker: Option<Waker>,
    wants_room: bool,
    closed: bool,
}

impl Waiting {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What a reader took: nothing when all is over.
#[derive(Default)]
struct Taken {
    count: usize,
    /// Whether there is room again.
    room: bool,
}

impl Queue {
    fn new(resumable: bool) -> Queue {
        let waiting = Waiting {
            items: VecDeque::new(),
            history: resumable.then(Box::default),
            reader: 0,
            waker: None,
            wants_room: false,
            closed: false,
        };
        Queue { state: Mutex::new(waiting) }
    }

    /// No code that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the queue; answers whether it is full now. Nothing is ever turned away: what comes after
    /// full is what the engine had already let go.
    fn push(&self, item: Outbound) -> bool {
        let mut state = self.lock();
        state.items.push_back(item);
        state.wake();
        let full = state.items.len() >= QUEUE;
        state.wants_room |= full;
        full
    }

    fn is_full(&self) -> bool {
        self.lock().items.len() >= QUEUE
    }

    fn take(&self, cx: &mut Context<'_>, reader: u64, into: &mut Vec<Outbound>, limit: usize) -> Poll<Taken> {
        let mut state = self.lock();
        if state.reader != reader {
            return Poll::Ready(Taken::default());
        }
        let Waiting { items, history, wants_room, closed, waker, .. } = &mut *state;
        let count = batch_length(items, limit);
        if count == 0 && *closed {
            return Poll::Ready(Taken::default());
        }
        if count == 0 {
            waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            return Poll::Pending;
        }
        if let Some(history) = history {
            let events = items.iter().take(count).filter_map(|item| match item {
                Outbound::Event(frame) => Some(frame),
                _ => None,
            });
            events.for_each(|frame| history.push(frame));
        }
        into.extend(items.drain(..count));
        let room = *wants_room && items.len() <= ROOM;
        *wants_room &= !room;
        Poll::Ready(Taken { count, room })
    }

    /// Puts back what the last reader took but did not get, as far as it is known. The caller may change it.
    fn rewind(&self, last: Option<&str>, change: impl FnOnce(Rewound) -> Vec<Arc<Frame>>) {
        let mut state = self.lock();
        let Some(history) = &mut state.history else { return };
        let again = change(history.rewind(last));
        again.into_iter().rev().for_each(|frame| state.items.push_front(Outbound::Event(frame)));
    }

    /// About how many bytes of events wait for the reader.
    fn unread_bytes(&self) -> usize {
        let state = self.lock();
        let waiting = state.items.iter().filter_map(|item| match item {
            Outbound::Event(frame) => Some(frame.memory_bytes()),
            _ => None,
        });
        waiting.sum()
    }

    /// Keeps at most so many bytes of what a reader that comes back could get again.
    fn trim_history(&self, bytes: usize) {
        if let Some(history) = &mut self.lock().history {
            history.trim(bytes);
        }
    }

    /// Drops all that waits and all that is kept. Only for a subscription that is about to end.
    fn discard(&self) {
        let mut state = self.lock();
        state.items = VecDeque::new();
        state.history = None;
    }

    /// Nothing more will come.
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.wake();
    }

    /// A new reader takes the place of the last one.
    fn next_reader(&self) -> u64 {
        let mut state = self.lock();
        state.wake();
        state.reader += 1;
        state.reader
    }
}

/// How many items a reader takes at once.
fn batch_length(items: &VecDeque<Outbound>, limit: usize) -> usize {
    let mut bytes = 0;
    let fits = |item: &&Outbound| {
        let before = bytes;
        bytes += if let Outbound::Event(frame) = item { frame.json().len() } else { 0 };
        before == 0 || bytes <= BATCH_BYTES
    };
    items.iter().take(limit).take_while(fits).count()
}

/// The producer's end of a link.
pub(crate) struct LinkTx {
    queue: Arc<Queue>,
    said: Arc<Semaphore>,
    replies: Arc<Semaphore>,
    /// Places of messages that were heard while the reader did not read: it shall not say more then.
    held: Vec<OwnedSemaphorePermit>,
    pub(crate) blocked: bool,
    resumable: bool,
    /// Counts the subscription among those that agents may have to wait for, while it has a reader.
    connected: Option<Connected>,
    /// The reader, if there is one.
    pub(crate) reader: Option<u64>,
    /// What the subscription occupies elsewhere, given back when it ends.
    pub(crate) lease: Option<Box<dyn Lease>>,
}

impl LinkTx {
    pub(crate) fn new(resumable: bool) -> LinkTx {
        let said = Arc::new(Semaphore::new(SAID));
        LinkTx {
            queue: Arc::new(Queue::new(resumable)),
            said,
            replies: Arc::new(Semaphore::new(REPLIES)),
            held: Vec::new(),
            blocked: false,
            resumable,
            connected: None,
            reader: None,
            lease: None,
        }
    }

    /// The far end, for a new reader.
    pub(crate) fn link(
        &mut self,
        key: SubscriptionKey,
        id: SubscriptionId,
        news: mpsc::UnboundedSender<LinkEvent>,
    ) -> Link {
        let reader = self.queue.next_reader();
        self.reader = Some(reader);
        let sender = LinkSender { key, id, news, said: self.said.clone(), replies: self.replies.clone() };
        Link { queue: self.queue.clone(), reader, sender }
    }

    /// Sends; answers whether the queue is full now.
    pub(crate) fn push(&self, item: Outbound) -> bool {
        self.queue.push(item)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    /// About how many bytes of events wait for the reader.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.queue.unread_bytes()
    }

    /// Keeps at most so many bytes of what a reader that comes back could get again.
    pub(crate) fn trim_history(&self, bytes: usize) {
        self.queue.trim_history(bytes);
    }

    /// Drops all that waits, for a subscription that is about to end.
    pub(crate) fn discard(&self) {
        self.queue.discard();
    }

    /// Whether its subscription may come back after its connection is lost.
    pub(crate) fn is_resumable(&self) -> bool {
        self.resumable
    }

    /// Puts these before everything that waits.
    pub(crate) fn put_first(&self, frames: Vec<Arc<Frame>>) {
        self.queue.rewind(None, |_| frames);
    }

    /// Goes back to what came after this event.
    pub(crate) fn rewind(&self, last: Option<&str>, change: impl FnOnce(Rewound) -> Vec<Arc<Frame>>) {
        self.queue.rewind(last, change);
    }

    /// How much waits for the reader.
    pub(crate) fn depth(&self) -> usize {
        self.queue.lock().items.len()
    }

    /// Gives a message's place back, at once or when the reader reads again.
    pub(crate) fn heard(&mut self, place: OwnedSemaphorePermit) {
        if self.blocked {
            self.held.push(place);
        }
    }

    /// A reader connects.
    pub(crate) fn connect(&mut self, connected: Connected) {
        self.connected = Some(connected);
    }

    /// The reader has left.
    pub(crate) fn disconnect(&mut self) {
        self.reader = None;
        self.connected = None;
        self.unblock();
    }

    /// The reader does not keep up.
    pub(crate) fn block(&mut self) {
        self.set_blocked(true);
    }

    /// The reader keeps up again.
    pub(crate) fn unblock(&mut self) {
        self.set_blocked(false);
        self.held.clear();
    }

    fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
        if let Some(connected) = &mut self.connected {
            connected.set_blocked(blocked);
        }
    }
}

impl Drop for LinkTx {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// The far end of a subscription: what the producer sends comes out, what the subscriber says goes in.
///
/// A reader that is slow is held back, and nothing is lost. Dropping the link ends the subscription, or,
/// if it is resumable, leaves it for [`Producer::resume`](crate::Producer::resume).
///
/// ```
/// use aaep::transport::Outbound;
/// use aaep::{Producer, message::{Capabilities, Message}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").build();
/// let mut link = producer.subscribe_local("console", Capabilities::default()).await.expect("a place");
/// let Some(Outbound::Message(first)) = link.recv().await else { unreachable!() };
/// assert!(matches!(*first, Message::SubscriptionAccepted(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Link {
    queue: Arc<Queue>,
    reader: u64,
    sender: LinkSender,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.lock().items.len()).finish()
    }
}

impl Link {
    /// The subscription.
    pub fn id(&self) -> &SubscriptionId {
        &self.sender.id
    }

    /// The next thing that the producer sends. Nothing comes after [`Outbound::Closed`], or after
    /// another link has taken this one's place. Giving up waiting loses nothing.
    pub async fn recv(&mut self) -> Option<Outbound> {
        let mut one = Vec::with_capacity(1);
        self.recv_many(&mut one, 1).await;
        one.pop()
    }

    /// Waits for something, then takes all that waits, up to a limit; answers how many that are. None means the same
    /// as for [`Link::recv`]. Giving up waiting loses nothing.
    pub async fn recv_many(&mut self, into: &mut Vec<Outbound>, limit: usize) -> usize {
        std::future::poll_fn(|cx| self.poll_many(cx, into, limit)).await
    }

    /// The same for those who cannot await: the task is woken when there is something new.
    pub fn poll_many(&mut self, cx: &mut Context<'_>, into: &mut Vec<Outbound>, limit: usize) -> Poll<usize> {
        let taken = std::task::ready!(self.queue.take(cx, self.reader, into, limit));
        if taken.room {
            // Without a producer there is nobody left to tell.
            let _ = self.sender.news.send(LinkEvent::Room(self.sender.key));
        }
        Poll::Ready(taken.count)
    }

    /// Says something to the producer.
    pub async fn send(&self, message: Message) -> Result<(), Error> {
        self.sender.send(message).await
    }

    /// Answers a confirmation.
    pub async fn decide(&self, token: &ReplyToken, decision: Decision) -> Result<(), Error> {
        self.sender.decide(token, decision).await
    }

    /// Answers a clarification.
    pub async fn answer(&self, token: &ReplyToken, response: Response) -> Result<(), Error> {
        self.sender.answer(token, response).await
    }

    /// The half that speaks, for transports where replies come another way than events go.
    pub fn sender(&self) -> LinkSender {
        self.sender.clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Without a producer there is nobody left to tell.
        let _ = self.sender.news.send(LinkEvent::Gone(self.sender.key, self.reader));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aaep_proto::message::{Capabilities, SubscriptionRenegotiate};

    use super::*;
    use crate::Producer;

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_cannot_go_on_talking() {
        let producer = Producer::builder("patient").build();
        let mut link = producer.subscribe_local("flood", Capabilities::default()).await.unwrap();
        let id = link.id().clone();
        let ask = || SubscriptionRenegotiate {
            subscription_id: id.clone(),
            capabilities: Capabilities::default(),
            correlation_id: None,
        };
        let mut said = 0;
        while tokio::time::timeout(Duration::from_secs(1), link.send(ask().into())).await.is_ok() {
            said += 1;
            assert!(said <= QUEUE + 2 * SAID, "it is not held back");
        }
        assert!(said >= QUEUE, "it is held back too early: {said}");
        for _ in 0..said {
            assert!(matches!(link.recv().await, Some(Outbound::Message(_))));
        }
        assert!(tokio::time::timeout(Duration::from_secs(1), link.send(ask().into())).await.is_ok());
    }
}
