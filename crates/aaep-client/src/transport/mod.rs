//! The transports. Each makes a [`Connection`]: what comes in, what goes out, both bounded, and read and written at the same
//! time, so that nothing that a producer does or leaves undone holds up a reply.

pub(crate) mod frames;
pub(crate) mod grpc;
pub(crate) mod level1;
pub(crate) mod sse;
pub(crate) mod stdio;
pub(crate) mod unix;
pub(crate) mod websocket;

use aaep_proto::id::ReplyToken;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Messages that wait between a transport and the task. A message has up to a mebibyte, so there are few.
const INCOMING: usize = 16;

/// Above so many bytes a message is none, but something else that speaks or that means ill.
const ABSURD: usize = 64 * 1024 * 1024;

/// Why a connection is given up on which a message goes on and on.
fn endless() -> DisconnectReason {
    DisconnectReason::Broken("a message does not end".to_owned())
}

/// What waits to be written. A person answers slowly; whoever does not take this much is not there any more.
const OUTGOING: usize = 64;

/// What a transport hears.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A whole message.
    Message(Bytes),
    /// A message that cannot be handed on.
    Unreadable(String),
    /// A sign of life.
    Alive,
    /// A reply could not be delivered.
    Undelivered(ReplyToken),
    /// The connection has ended; this is the last.
    Lost(DisconnectReason),
}

/// What a transport is told to do.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Send this.
    Message(Box<Message>),
    /// Ask for a sign of life.
    Probe,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    /// When this is dropped, the transport sends what waits, says goodbye and ends.
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    pub(crate) resumed: bool,
    pub(crate) handshake: HandshakeMode,
    pub(crate) gives_signs_of_life: bool,
    /// Ends with the wire, if it did not end by itself.
    pub(crate) tasks: JoinSet<()>,
}

/// The far ends of a wire's queues.
pub(crate) struct TransportChannels {
    pub(crate) heard: mpsc::Sender<Incoming>,
    pub(crate) said: mpsc::Receiver<Outgoing>,
}

impl Connection {
    pub(crate) fn new(handshake: HandshakeMode, gives_signs_of_life: bool) -> (Connection, TransportChannels) {
        let (heard, incoming) = mpsc::channel(INCOMING);
        let (outgoing, said) = mpsc::channel(OUTGOING);
        let tasks = JoinSet::new();
        (
            Connection { incoming, outgoing, resumed: false, handshake, gives_signs_of_life, tasks },
            TransportChannels { heard, said },
        )
    }
}

/// The token of a reply.
pub(crate) fn token_of(message: &Message) -> Option<&ReplyToken> {
    match message {
        Message::ConfirmationReply(reply) => Some(&reply.reply_token),
        Message::ClarificationReply(reply) => Some(&reply.reply_token),
        _ => None,
    }
}

/// A message as bytes.
pub(crate) fn to_json(message: &Message) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are made of strings, numbers, lists and maps with string keys")
}
