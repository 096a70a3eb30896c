//! Reading ahead from an agent's WebSocket: while one message is handled, a limited number of the next ones is received
//! and parsed, so that an urgent event is noticed behind text that waits for slow subscribers.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::raw_event::{ParsedLine, RawEvent};
use super::urgent::{UrgentCounter, UrgentGuard};
use crate::admission::memory_budget::MemoryReservation;
use crate::admission::message_memory::{MessageMemory, MeteredIo};

/// Most messages that are read ahead.
const MAX_AHEAD_MESSAGES: usize = 64;

/// Memory of messages that are read ahead; the last of them may exceed this.
const MAX_AHEAD_BYTES: usize = 256 * 1024;

/// The WebSocket of an agent.
pub(super) type AgentSocket = WebSocketStream<MeteredIo<TokioIo<Upgraded>>>;

/// One message of an agent.
#[derive(Debug)]
pub(super) enum AgentMessage {
    /// A text message, parsed, and counted as urgent until the guard is dropped if it is.
    Event(ParsedLine, Option<UrgentGuard>),
    /// A binary message.
    Binary,
    /// A ping or a pong.
    Control,
    /// The connection was closed, in whatever way.
    Closed(Option<Error>),
}

/// The receiving half of an agent's WebSocket, and the memory for its messages.
pub(super) struct AgentMessages {
    pub(super) source: SplitStream<AgentSocket>,
    /// Counts the bytes of the message that is being received.
    pub(super) unfinished: MessageMemory,
    /// The memory of messages that are read ahead.
    pub(super) ahead_memory: MemoryReservation,
    pub(super) urgent_events: UrgentCounter,
}

impl AgentMessages {
    /// Receives the next message. Cancel safe.
    async fn next(&mut self) -> AgentMessage {
        let received = self.source.next().await;
        match received {
            Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => {
                self.unfinished.skip_control_frame(payload.len());
                AgentMessage::Control
            }
            Some(Ok(message)) => {
                self.unfinished.finish();
                match message {
                    Message::Text(text) => {
                        let event = RawEvent::parse(text.as_bytes());
                        let urgent = self.urgent_events.guard_if_urgent(&event);
                        AgentMessage::Event(event, urgent)
                    }
                    Message::Binary(_) => AgentMessage::Binary,
                    _ => AgentMessage::Closed(None),
                }
            }
            Some(Err(error)) => AgentMessage::Closed(Some(error)),
            None => AgentMessage::Closed(None),
        }
    }
}

/// A message that was read ahead.
struct QueuedMessage {
    message: AgentMessage,
    bytes: usize,
}

/// The messages of an agent, in order, some of them read ahead.
pub(super) struct ReadAhead {
    messages: AgentMessages,
    queue: VecDeque<QueuedMessage>,
    queued_bytes: usize,
    is_closed: bool,
    /// There is no memory to read further ahead.
    is_out_of_memory: bool,
}

impl ReadAhead {
    pub(super) fn new(messages: AgentMessages) -> ReadAhead {
        ReadAhead { messages, queue: VecDeque::new(), queued_bytes: 0, is_closed: false, is_out_of_memory: false }
    }

    /// Returns the next message. Cancel safe.
    pub(super) async fn next(&mut self) -> AgentMessage {
        match self.queue.pop_front() {
            Some(queued) => {
                self.queued_bytes -= queued.bytes;
                self.reserve();
                queued.message
            }
            None => self.messages.next().await,
        }
    }

    /// Reads ahead until `work` is done.
    pub(super) async fn read_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            let has_capacity = self.has_capacity();
            tokio::select! {
                biased;
                done = &mut work => return done,
                message = self.messages.next(), if has_capacity => self.push(message),
            }
        }
    }

    fn has_capacity(&self) -> bool {
        !self.is_closed
            && !self.is_out_of_memory
            && self.queue.len() < MAX_AHEAD_MESSAGES
            && self.queued_bytes < MAX_AHEAD_BYTES
    }

    fn reserve(&mut self) {
        self.is_out_of_memory = self.messages.ahead_memory.resize_unfinished(self.queued_bytes).is_err();
    }

    fn push(&mut self, message: AgentMessage) {
        let bytes = match &message {
            AgentMessage::Event(Ok(event), _) => event.heap_bytes(),
            AgentMessage::Closed(_) => {
                self.is_closed = true;
                0
            }
            _ => 0,
        };
        self.queued_bytes += bytes;
        self.reserve();
        self.queue.push_back(QueuedMessage { message, bytes });
    }
}
