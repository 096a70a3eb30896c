//! A subscription's two queues: what the producer sends, what the subscriber says. Transports carry them
//! over a wire; in the same process they can be used as they are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep_proto::engine::{Closing, SubscriptionKey};
use aaep_proto::frame::Frame;
use aaep_proto::id::{ReplyToken, SubscriptionId};
use aaep_proto::message::{ClarificationReply, ConfirmationReply, Decision, Message, Response};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::clock;
use crate::error::Error;

/// How much waits in a link before its subscription is held back.
const QUEUE: usize = 256;

/// How little must be left before it goes on.
const ROOM: usize = QUEUE / 2;

/// How many messages of one subscriber wait to be heard.
const SAID: usize = 16;

/// What the producer sends.
///
/// ```
/// use aaep::Outgoing;
/// fn is_event(outgoing: &Outgoing) -> bool {
///     matches!(outgoing, Outgoing::Event(_))
/// }
/// # let _ = is_event;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// An event, typed and as JSON. Subscriptions with the same terms share it.
    Event(Arc<Frame>),
    /// A message of the handshake.
    Message(Box<Message>),
    /// The subscription has ended; this is the last.
    Closed(Closing),
}

/// What comes from the far end of a link.
pub(crate) enum News {
    /// The subscriber says something. The permit is its place in the queue.
    Said(SubscriptionKey, Box<Message>, OwnedSemaphorePermit),
    /// There is room again.
    Room(SubscriptionKey),
    /// The reader with this number has left.
    Gone(SubscriptionKey, u64),
}

/// What waits for the reader. It belongs to the subscription, so a reader that comes back finds the rest.
pub(crate) struct Queue {
    state: Mutex<Waiting>,
}

struct Waiting {
    items: VecDeque<Outgoing>,
    /// Which reader may take them, counted from 1.
    reader: u64,
    ready: Arc<Notify>,
    wants_room: bool,
    closed: bool,
}

/// What a reader finds.
enum Found {
    Item(Outgoing, bool),
    Nothing,
    End,
}

impl Queue {
    fn new() -> Queue {
        let waiting = Waiting {
            items: VecDeque::new(),
            reader: 0,
            ready: Arc::new(Notify::new()),
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
    fn push(&self, item: Outgoing) -> bool {
        let mut state = self.lock();
        state.items.push_back(item);
        state.ready.notify_one();
        let full = state.items.len() >= QUEUE;
        state.wants_room |= full;
        full
    }

    fn is_full(&self) -> bool {
        self.lock().items.len() >= QUEUE
    }

    fn take(&self, reader: u64) -> Found {
        let mut state = self.lock();
        if state.reader != reader {
            return Found::End;
        }
        match state.items.pop_front() {
            Some(item) => {
                let room = state.wants_room && state.items.len() <= ROOM;
                state.wants_room &= !room;
                Found::Item(item, room)
            }
            None if state.closed => Found::End,
            None => Found::Nothing,
        }
    }

    /// Nothing more will come.
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.ready.notify_one();
    }

    /// A new reader takes the place of the last one.
    fn next_reader(&self) -> (u64, Arc<Notify>) {
        let mut state = self.lock();
        let last = std::mem::replace(&mut state.ready, Arc::new(Notify::new()));
        last.notify_one();
        state.reader += 1;
        (state.reader, state.ready.clone())
    }
}

/// The producer's end of a link.
pub(crate) struct Port {
    queue: Arc<Queue>,
    said: Arc<Semaphore>,
    /// Places of messages that were heard while the reader did not read: it shall not say more then.
    held: Vec<OwnedSemaphorePermit>,
    pub(crate) blocked: bool,
    /// The reader, if there is one.
    pub(crate) reader: Option<u64>,
}

impl Port {
    pub(crate) fn new() -> Port {
        let said = Arc::new(Semaphore::new(SAID));
        Port { queue: Arc::new(Queue::new()), said, held: Vec::new(), blocked: false, reader: None }
    }

    /// The far end, for a new reader.
    pub(crate) fn link(&mut self, key: SubscriptionKey, id: SubscriptionId, news: mpsc::UnboundedSender<News>) -> Link {
        let (reader, ready) = self.queue.next_reader();
        self.reader = Some(reader);
        let sender = LinkSender { key, id, news, said: self.said.clone() };
        Link { queue: self.queue.clone(), reader, ready, sender }
    }

    /// Sends; answers whether the queue is full now.
    pub(crate) fn push(&self, item: Outgoing) -> bool {
        self.queue.push(item)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    /// Gives a message's place back, at once or when the reader reads again.
    pub(crate) fn heard(&mut self, place: OwnedSemaphorePermit) {
        if self.blocked {
            self.held.push(place);
        }
    }

    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
        self.held.clear();
    }
}

impl Drop for Port {
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
/// use aaep::{Outgoing, Producer, message::{Capabilities, Message}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let producer = Producer::builder("gardener").build();
/// let mut link = producer.listen("console", Capabilities::default()).await.expect("a place");
/// let Some(Outgoing::Message(first)) = link.recv().await else { unreachable!() };
/// assert!(matches!(*first, Message::SubscriptionAccepted(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Link {
    queue: Arc<Queue>,
    reader: u64,
    ready: Arc<Notify>,
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

    /// The next thing that the producer sends. Nothing comes after [`Outgoing::Closed`], or after
    /// another link has taken this one's place. Giving up waiting loses nothing.
    pub async fn recv(&mut self) -> Option<Outgoing> {
        loop {
            match self.queue.take(self.reader) {
                Found::Item(item, room) => {
                    if room {
                        // Without a producer there is nobody left to tell.
                        let _ = self.sender.news.send(News::Room(self.sender.key));
                    }
                    return Some(item);
                }
                Found::End => return None,
                Found::Nothing => self.ready.notified().await,
            }
        }
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
        let _ = self.sender.news.send(News::Gone(self.sender.key, self.reader));
    }
}

/// The half of a [`Link`] that speaks. It keeps nothing alive.
///
/// ```
/// use aaep::{LinkSender, message::Decision};
/// async fn agree(sender: LinkSender, token: &aaep::id::ReplyToken) -> Result<(), aaep::Error> {
///     sender.decide(token, Decision::Accept).await
/// }
/// # let _ = agree;
/// ```
#[derive(Clone, Debug)]
pub struct LinkSender {
    key: SubscriptionKey,
    id: SubscriptionId,
    news: mpsc::UnboundedSender<News>,
    said: Arc<Semaphore>,
}

impl LinkSender {
    /// Says something to the producer. Waits while too much that was said before is not heard.
    pub async fn send(&self, message: Message) -> Result<(), Error> {
        let place = self.said.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        self.news.send(News::Said(self.key, Box::new(message), place)).map_err(|_| Error::Gone)
    }

    /// Answers a confirmation, now.
    pub async fn decide(&self, token: &ReplyToken, decision: Decision) -> Result<(), Error> {
        let reply = ConfirmationReply {
            reply_token: token.clone(),
            decision,
            subscription_id: self.id.clone(),
            timestamp: clock::wall(),
            decided_by: None,
            decision_rationale: None,
            modified_action: None,
            correlation_id: None,
        };
        self.send(reply.into()).await
    }

    /// Answers a clarification, now.
    pub async fn answer(&self, token: &ReplyToken, response: Response) -> Result<(), Error> {
        let reply = ClarificationReply {
            reply_token: token.clone(),
            response,
            subscription_id: self.id.clone(),
            timestamp: clock::wall(),
            decided_by: None,
            confidence: None,
            correlation_id: None,
        };
        self.send(reply.into()).await
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
        let mut link = producer.listen("flood", Capabilities::default()).await.unwrap();
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
            assert!(matches!(link.recv().await, Some(Outgoing::Message(_))));
        }
        assert!(tokio::time::timeout(Duration::from_secs(1), link.send(ask().into())).await.is_ok());
    }
}
