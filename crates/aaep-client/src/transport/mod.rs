//! The transports. Each opens a [`TransportConnection`], which is a pair of bounded queues. Reading and writing run in
//! separate tasks, so that a producer that is slow or silent never delays a reply.

#[cfg(feature = "grpc")]
pub(crate) mod grpc;
#[cfg(feature = "sse")]
pub(crate) mod level1;
#[cfg(feature = "unix")]
pub(crate) mod local;
#[cfg(any(feature = "websocket", feature = "unix", feature = "grpc", feature = "stdio"))]
mod message_loop;
#[cfg(feature = "sse")]
pub(crate) mod sse;
#[cfg(feature = "stdio")]
pub(crate) mod stdio;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;

use aaep_proto::binding::TransportKind;
use aaep_proto::id::ReplyToken;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Events that wait between a transport and the driver. A message has up to a mebibyte, so there are few.
const MAX_WAITING_EVENTS: usize = 16;

/// Commands that wait to be carried out. A user answers slowly: a peer that does not accept this many is gone.
const MAX_WAITING_COMMANDS: usize = 64;

/// Bytes of one message that are skipped because it is too long. Beyond that the peer does not send messages at all.
#[cfg(any(feature = "sse", feature = "unix", feature = "stdio"))]
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;

/// What a transport reports to the driver.
#[derive(Debug)]
#[cfg_attr(
    not(all(feature = "sse", feature = "unix", feature = "stdio", feature = "websocket", feature = "grpc")),
    allow(dead_code, reason = "not every transport reports everything")
)]
pub(crate) enum TransportEvent {
    /// A whole message was received.
    Message(Bytes),
    /// A message was received that cannot be read, for this reason.
    Unreadable(String),
    /// A sign of life was received.
    Alive,
    /// A reply could not be delivered.
    Undelivered(ReplyToken),
    /// The connection is lost. No event follows.
    Disconnected(DisconnectReason),
}

/// What the driver asks a transport to do.
#[derive(Debug)]
pub(crate) enum TransportCommand {
    /// Sends a message.
    Send(Box<Message>),
    /// Asks the peer for a sign of life.
    Probe,
}

/// An open connection: the driver's ends of its queues.
#[derive(Debug)]
pub(crate) struct TransportConnection {
    pub(crate) transport: TransportKind,
    pub(crate) events: mpsc::Receiver<TransportEvent>,
    /// When this is dropped, the transport sends what waits, closes the connection and ends.
    pub(crate) commands: mpsc::Sender<TransportCommand>,
    /// Whether the subscription of an earlier connection continues.
    pub(crate) resumed: bool,
    pub(crate) handshake: HandshakeMode,
    /// Whether the peer shows regularly that it is alive, so that silence means that it is gone.
    pub(crate) has_keepalive: bool,
    /// The tasks of the transport. They are aborted when the connection is dropped.
    pub(crate) tasks: JoinSet<()>,
}

/// The transport's ends of the queues of a connection.
pub(crate) struct TransportChannels {
    pub(crate) events: mpsc::Sender<TransportEvent>,
    pub(crate) commands: mpsc::Receiver<TransportCommand>,
}

impl TransportConnection {
    pub(crate) fn new(
        transport: TransportKind,
        handshake: HandshakeMode,
        has_keepalive: bool,
    ) -> (TransportConnection, TransportChannels) {
        let (event_sender, events) = mpsc::channel(MAX_WAITING_EVENTS);
        let (commands, command_receiver) = mpsc::channel(MAX_WAITING_COMMANDS);
        let tasks = JoinSet::new();
        let connection =
            TransportConnection { transport, events, commands, resumed: false, handshake, has_keepalive, tasks };
        (connection, TransportChannels { events: event_sender, commands: command_receiver })
    }
}

/// Returns the token of a reply, or `None` if the message is not a reply.
pub(crate) fn reply_token(message: &Message) -> Option<&ReplyToken> {
    match message {
        Message::ConfirmationReply(reply) => Some(&reply.reply_token),
        Message::ClarificationReply(reply) => Some(&reply.reply_token),
        _ => None,
    }
}

/// Returns a message as JSON.
#[cfg(any(feature = "sse", feature = "websocket", feature = "unix", feature = "grpc"))]
fn to_json(message: &Message) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are made of strings, numbers, lists and maps with string keys")
}

/// Returns the reason to give up a connection on which one message does not end.
#[cfg(any(feature = "sse", feature = "stdio"))]
fn message_too_long() -> DisconnectReason {
    DisconnectReason::Broken("a message is too long.".to_owned())
}
