//! The messages of an agent's WebSocket. While one is handled, a bounded number of the next ones is read ahead, so that a
//! question is noticed behind text that is held back.

use std::collections::VecDeque;

use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;

use super::urgent::{Urgent, UrgentMark};

/// Messages that are read ahead.
const AHEAD: usize = 64;

/// Bytes of messages that are read ahead; the last of them may exceed this.
const AHEAD_BYTES: usize = 256 * 1024;

/// What came from the agent: nothing at the end of the connection.
type Received = Option<Result<Message, axum::Error>>;

/// A message that was read ahead.
struct Ahead {
    received: Received,
    bytes: usize,
    urgent: Option<UrgentMark>,
}

pub(super) struct Inbox {
    source: SplitStream<WebSocket>,
    ahead: VecDeque<Ahead>,
    ahead_bytes: usize,
    ended: bool,
    urgent: Urgent,
}

impl Inbox {
    pub(super) fn new(source: SplitStream<WebSocket>, urgent: Urgent) -> Inbox {
        Inbox { source, ahead: VecDeque::new(), ahead_bytes: 0, ended: false, urgent }
    }

    /// The next message, with the mark of an urgent one. Giving up waiting loses nothing.
    pub(super) async fn next(&mut self) -> (Received, Option<UrgentMark>) {
        match self.ahead.pop_front() {
            Some(ahead) => {
                self.ahead_bytes -= ahead.bytes;
                (ahead.received, ahead.urgent)
            }
            None => {
                let received = self.source.next().await;
                let urgent = self.mark(&received);
                (received, urgent)
            }
        }
    }

    /// Reads ahead while something is done.
    pub(super) async fn read_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            let has_room = !self.ended && self.ahead.len() < AHEAD && self.ahead_bytes < AHEAD_BYTES;
            tokio::select! {
                biased;
                done = &mut work => return done,
                received = self.source.next(), if has_room => self.keep(received),
            }
        }
    }

    fn keep(&mut self, received: Received) {
        self.ended = !matches!(&received, Some(Ok(message)) if !matches!(message, Message::Close(_)));
        let bytes = match &received {
            Some(Ok(Message::Text(text))) => text.len(),
            Some(Ok(Message::Binary(bytes))) => bytes.len(),
            _ => 0,
        };
        self.ahead_bytes += bytes;
        let urgent = self.mark(&received);
        self.ahead.push_back(Ahead { received, bytes, urgent });
    }

    fn mark(&self, received: &Received) -> Option<UrgentMark> {
        let Some(Ok(Message::Text(text))) = received else { return None };
        self.urgent.mark_if_urgent(text.as_bytes())
    }
}
