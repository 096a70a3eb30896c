//! The messages of an agent's WebSocket. While one is handled, a bounded number of the next ones is read ahead, so that a
//! question is noticed behind text that is held back.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::urgent::{Urgent, UrgentMark};
use crate::admission::memory_budget::MemoryReservation;
use crate::admission::message_memory::{MessageMemory, MeteredIo};

/// Messages that are read ahead.
const AHEAD: usize = 64;

/// Bytes of messages that are read ahead; the last of them may exceed this.
const AHEAD_BYTES: usize = 256 * 1024;

/// What came from the agent: nothing at the end of the connection.
type Received = Option<Result<Message, Error>>;

/// The WebSocket of an agent.
pub(super) type Socket = WebSocketStream<MeteredIo<TokioIo<Upgraded>>>;

/// What an agent sends, and the memory for it.
pub(super) struct Incoming {
    pub(super) source: SplitStream<Socket>,
    /// Counts the bytes of the message that is being received.
    pub(super) unfinished: MessageMemory,
    /// For messages that are read ahead.
    pub(super) ahead: MemoryReservation,
}

impl Incoming {
    /// The next message. Giving up waiting loses nothing.
    async fn next(&mut self) -> Received {
        let received = self.source.next().await;
        match &received {
            Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => {
                self.unfinished.skip_control_frame(payload.len());
            }
            Some(Ok(_)) => self.unfinished.finish(),
            Some(Err(_)) | None => {}
        }
        received
    }
}

/// A message that was read ahead.
struct Ahead {
    received: Received,
    bytes: usize,
    urgent: Option<UrgentMark>,
}

pub(super) struct Inbox {
    incoming: Incoming,
    ahead: VecDeque<Ahead>,
    ahead_bytes: usize,
    ended: bool,
    /// There is no memory to read further ahead.
    out_of_memory: bool,
    urgent: Urgent,
}

impl Inbox {
    pub(super) fn new(incoming: Incoming, urgent: Urgent) -> Inbox {
        Inbox { incoming, ahead: VecDeque::new(), ahead_bytes: 0, ended: false, out_of_memory: false, urgent }
    }

    /// The next message, with the mark of an urgent one. Giving up waiting loses nothing.
    pub(super) async fn next(&mut self) -> (Received, Option<UrgentMark>) {
        match self.ahead.pop_front() {
            Some(ahead) => {
                self.ahead_bytes -= ahead.bytes;
                self.reserve_ahead();
                (ahead.received, ahead.urgent)
            }
            None => {
                let received = self.incoming.next().await;
                let urgent = self.mark(&received);
                (received, urgent)
            }
        }
    }

    /// Reads ahead while something is done.
    pub(super) async fn read_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            let has_room = self.has_room();
            tokio::select! {
                biased;
                done = &mut work => return done,
                received = self.incoming.next(), if has_room => self.keep(received),
            }
        }
    }

    fn has_room(&self) -> bool {
        !self.ended && !self.out_of_memory && self.ahead.len() < AHEAD && self.ahead_bytes < AHEAD_BYTES
    }

    fn reserve_ahead(&mut self) {
        self.out_of_memory = self.incoming.ahead.resize_unfinished(self.ahead_bytes).is_err();
    }

    fn keep(&mut self, received: Received) {
        self.ended = !matches!(&received, Some(Ok(message)) if !matches!(message, Message::Close(_)));
        let bytes = match &received {
            Some(Ok(Message::Text(text))) => text.len(),
            Some(Ok(Message::Binary(bytes))) => bytes.len(),
            _ => 0,
        };
        self.ahead_bytes += bytes;
        self.reserve_ahead();
        let urgent = self.mark(&received);
        self.ahead.push_back(Ahead { received, bytes, urgent });
    }

    fn mark(&self, received: &Received) -> Option<UrgentMark> {
        let Some(Ok(Message::Text(text))) = received else { return None };
        self.urgent.mark_if_urgent(text.as_bytes())
    }
}
