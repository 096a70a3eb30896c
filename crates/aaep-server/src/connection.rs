//! The flow of every transport that is bound to a connection (WebSocket, local socket, gRPC, stdio): the handshake, then
//! a read loop and a write loop until one side closes.
//!
//! A transport provides two halves: a [`Source`] that reads whole messages and a [`Sink`] that frames and writes them.
//! Both loops run concurrently, so that a reply is handled while a slow peer blocks writes.

use aaep_proto::binding::CloseCode;
use std::future::Future;
use std::io;

use aaep::transport::{Link, LinkSender, Outbound, Rejection, ResumePolicy};
use aaep_proto::inbound::Inbound;
use aaep_proto::message::{Message, ReasonCode};
use bytes::Bytes;

use crate::admission::throttle::{MessageThrottle, PacedSource};
use crate::close::{Close, Violation};
use crate::context::{ServerContext, Subscribed, stopped};
use crate::peer::Peer;

/// Messages written at once. More would make a critical event wait behind them.
const MAX_BATCH: usize = 128;

/// Malformed messages that are logged and ignored before the connection is closed.
const MAX_MALFORMED: u32 = 16;

/// Close reason if the producer ended.
const ENDED: &str = "the producer has ended";

/// What a [`Source`] read.
#[derive(Debug)]
pub enum Received {
    /// The bytes of a whole message.
    Message(Bytes),
    /// A whole message that the source had to read itself.
    Parsed(Inbound),
    /// A sign of life: a ping, a pong or an empty message.
    Alive,
    /// Bytes that violate the framing or the limits of the transport.
    Violation(Violation),
    /// The peer closed the connection, or it was lost.
    End,
}

/// The read half of a connection.
pub trait Source: Send {
    /// Waits for the next item. Must be cancel-safe: dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Received> + Send;
}

/// The write half of a connection.
pub trait Sink: Send {
    /// Writes a batch in order.
    fn send(&mut self, batch: &[Outbound]) -> impl Future<Output = io::Result<()>> + Send;

    /// Sends a ping, on transports that have one.
    fn ping(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Notifies the peer of the reason and closes the connection.
    fn close(&mut self, close: &Close) -> impl Future<Output = ()> + Send;
}

/// How a connection gets its subscription.
#[derive(Debug)]
pub enum SubscribeMode {
    /// The first message requests a new subscription. The policy decides whether it survives a lost connection.
    New(ResumePolicy),
    /// The connection continues an existing subscription.
    Resume(Subscribed),
}

/// Serves one connection until either side closes it, and returns the reason.
pub async fn serve_connection(
    context: &ServerContext,
    peer: &Peer,
    mode: SubscribeMode,
    source: impl Source,
    mut sink: impl Sink,
) -> Close {
    let mut source = PacedSource::new(source);
    let _open = context.metrics.connection(peer.transport);
    let subscribed = match mode {
        SubscribeMode::New(resume_policy) => handshake(context, peer, resume_policy, &mut source).await,
        SubscribeMode::Resume(subscribed) => Ok(subscribed),
    };
    let close = match subscribed {
        Err(HandshakeFailure { rejection, close }) => {
            if let Some(rejection) = rejection {
                let message = Outbound::Message(Box::new(rejection.to_message().into()));
                // The connection is closed next, whether or not the peer received this.
                let _ = with_write_timeout(context, sink.send(&[message])).await;
            }
            close
        }
        Ok(Subscribed { mut link, peer, engine: _engine }) => {
            let peer = &peer;
            let _held = peer.hold();
            let sender = link.sender();
            let close = tokio::select! {
                close = read_loop(context, peer, &sender, &mut source) => close,
                close = write_loop(context, peer, &mut link, &mut sink) => close,
                () = peer.lapsed() => Close::lapsed(),
            };
            tracing::debug!(subscription = %link.id(), code = close.code.as_u16(), reason = %close.reason, "subscription closed");
            close
        }
    };
    context.metrics.closed(close.code);
    // A peer that does not read cannot delay the end.
    let _ = tokio::time::timeout(context.limits.write_timeout(), sink.close(&close)).await;
    close
}

/// A handshake that led to no subscription.
struct HandshakeFailure {
    /// The answer to the request, if one is due.
    rejection: Option<Rejection>,
    close: Close,
}

impl From<Close> for HandshakeFailure {
    fn from(close: Close) -> HandshakeFailure {
        HandshakeFailure { rejection: None, close }
    }
}

impl From<Rejection> for HandshakeFailure {
    fn from(rejection: Rejection) -> HandshakeFailure {
        HandshakeFailure { close: Close::rejected(&rejection), rejection: Some(rejection) }
    }
}

/// Reads the first message and opens the subscription it requests.
async fn handshake(
    context: &ServerContext,
    peer: &Peer,
    resume_policy: ResumePolicy,
    source: &mut impl Source,
) -> Result<Subscribed, HandshakeFailure> {
    let mut stopping = context.stopping.clone();
    let first = tokio::select! {
        first = tokio::time::timeout(context.limits.request(), first_message(source)) => first,
        () = stopped(&mut stopping) => return Err(Close::new(CloseCode::Normal, ENDED).into()),
        () = peer.lapsed() => return Err(Close::lapsed().into()),
    };
    let message = match first {
        Err(_) => return Err(Close::violation("no subscription.request came in time").into()),
        Ok(Err(close)) if close.code == CloseCode::Violation => {
            let message = format!("This is not a message: {}. Send one subscription.request.", close.reason);
            return Err(HandshakeFailure { rejection: Some(Rejection::new(ReasonCode::Unknown, message)), close });
        }
        Ok(Err(close)) => return Err(close.into()),
        Ok(Ok(message)) => message,
    };
    match message.into_request() {
        Ok(request) => Ok(context.admit(peer, *request, resume_policy).await?),
        Err(rejection) => {
            context.metrics.malformed();
            Err(rejection.into())
        }
    }
}

async fn first_message(source: &mut impl Source) -> Result<Inbound, Close> {
    loop {
        if let Some(message) = read_message(source.next().await)? {
            return Ok(message);
        }
    }
}

/// Reads what was received: `None` for a sign of life, an error if the connection must close. Every message of every
/// transport is parsed and validated once, here or by a source that answers on its own.
fn read_message(received: Received) -> Result<Option<Inbound>, Close> {
    match received {
        Received::Message(bytes) => Ok(Some(Inbound::read(&bytes))),
        Received::Parsed(message) => Ok(Some(message)),
        Received::Alive => Ok(None),
        Received::Violation(violation) => Err(Close::violation(violation)),
        Received::End => Err(peer_closed()),
    }
}

/// Forwards messages of the subscriber to its subscription, until it violates the protocol or stays silent for too long.
async fn read_loop(context: &ServerContext, peer: &Peer, link: &LinkSender, source: &mut impl Source) -> Close {
    let mut malformed = 0;
    let mut throttle = MessageThrottle::default();
    let silence = context.limits.silence();
    loop {
        let Ok(received) = tokio::time::timeout(silence, source.next()).await else {
            return Close::violation("the connection gives no sign of life");
        };
        let message = match read_message(received) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(close) => return close,
        };
        if let Err(close) = throttle.pass(context, peer, &message).await {
            return close;
        }
        // The credentials may have lapsed while the message was received or throttled.
        if !peer.is_current() {
            return Close::lapsed();
        }
        if !matches!(message, Inbound::Message(_)) {
            malformed += 1;
            context.metrics.malformed();
            tracing::info!(principal = peer.principal(), "message not valid here");
            if malformed > MAX_MALFORMED {
                return Close::violation("too many malformed messages");
            }
        }
        let sent = match message {
            Inbound::Message(message) => link.send(peer.narrow_message(message)).await,
            Inbound::Request(request) => link.send(Message::SubscriptionRequest(request)).await,
            invalid @ (Inbound::Refused(_) | Inbound::RefusedChange(..)) => link.send_invalid(invalid).await,
            Inbound::Invalid(_) => Ok(()),
        };
        if sent.is_err() {
            return Close::new(CloseCode::Normal, ENDED);
        }
    }
}

/// Writes what the subscription delivers, with everything that is queued in one batch, and pings.
async fn write_loop(context: &ServerContext, peer: &Peer, link: &mut Link, sink: &mut impl Sink) -> Close {
    let mut batch = Vec::new();
    let mut ping = tokio::time::interval(context.limits.keep_alive());
    ping.reset();
    loop {
        let sent = tokio::select! {
            count = link.recv_many(&mut batch, MAX_BATCH) => {
                if count == 0 {
                    return Close::new(CloseCode::Normal, ENDED);
                }
                context.metrics.delivered(peer.transport, &batch);
                trace_events(&batch);
                let closing = match batch.last() {
                    Some(Outbound::Closed(closing)) => Some(Close::of(closing)),
                    _ => None,
                };
                let sent = with_write_timeout(context, sink.send(&batch)).await;
                batch.clear();
                batch.shrink_to(MAX_BATCH / 8);
                if let Some(close) = closing {
                    return close;
                }
                sent
            }
            _ = ping.tick() => with_write_timeout(context, sink.ping()).await,
        };
        if let Err(error) = sent {
            let slow = error.kind() == io::ErrorKind::TimedOut;
            return if slow { Close::too_slow() } else { peer_closed() };
        }
    }
}

/// Logs the text of events. Only at trace level: it may be private.
pub(crate) fn trace_events(batch: &[Outbound]) {
    if !tracing::enabled!(tracing::Level::TRACE) {
        return;
    }
    for item in batch {
        if let Outbound::Event(frame) = item {
            tracing::trace!(event = %String::from_utf8_lossy(frame.json()), "event sent");
        }
    }
}

async fn with_write_timeout(context: &ServerContext, write: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::time::timeout(context.limits.write_timeout(), write).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

fn peer_closed() -> Close {
    Close::new(CloseCode::SubscriberClosed, "the peer closed the connection")
}
