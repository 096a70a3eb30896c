//! The one flow of every transport that is bound to a connection (WebSocket, socket, gRPC, stdio): the first message
//! asks for a subscription, then events go out and replies come in until one side ends it.
//!
//! A transport brings two halves: a [`Source`] of whole messages and a [`Sink`] that frames and writes. Both halves
//! work at the same time, so a reply is heard while a slow reader holds up what is sent.

use std::future::Future;
use std::io;

use aaep::transport::{Link, LinkSender, Outbound, Rejection, ResumePolicy};
use aaep_proto::binding::CloseCode;
use aaep_proto::inbound::Inbound;
use aaep_proto::message::{Message, ReasonCode};
use bytes::Bytes;

use crate::context::{Close, Peer, ServerContext, stopped};
use crate::throttle::{Paced, Throttle};

/// Most that is written at once: more gives nothing, and a critical event must not wait behind it.
const BATCH: usize = 128;

/// Malformed messages that are let pass with a log line before the connection is closed for them.
const MALFORMED: u32 = 16;

/// Why there is nobody to talk to.
const ENDED: &str = "the producer has ended";

/// What comes from a peer.
#[derive(Debug)]
pub enum Received {
    /// A whole message.
    Message(Bytes),
    /// A sign of life.
    Alive,
    /// Something that no message can be.
    Violation(&'static str),
    /// The peer has ended the connection, or it is lost.
    End,
}

/// The half that hears.
pub trait Source: Send {
    /// The next thing. Giving up waiting loses nothing.
    fn next(&mut self) -> impl Future<Output = Received> + Send;
}

/// The half that speaks.
pub trait Sink: Send {
    /// Writes all of it, in order.
    fn send(&mut self, batch: &[Outbound]) -> impl Future<Output = io::Result<()>> + Send;

    /// Asks the peer for a sign of life, on transports that can.
    fn ping(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Says why it ends, and ends it.
    fn close(&mut self, close: &Close) -> impl Future<Output = ()> + Send;
}

/// How a subscriber comes.
#[derive(Debug)]
pub enum SubscribeMode {
    /// With a request. Where a connection is the subscription it cannot come back, elsewhere it can.
    Anew(ResumePolicy),
    /// To a subscription that it has.
    Back(Link),
}

/// Holds the conversation to its end.
pub async fn converse(hub: &ServerContext, peer: &Peer, source: impl Source, sink: impl Sink) -> Close {
    converse_with(hub, (peer, SubscribeMode::Anew(ResumePolicy::Connection)), source, sink).await
}

/// The same with someone who may come back, or does.
pub async fn converse_with(
    hub: &ServerContext,
    (peer, coming): (&Peer, SubscribeMode),
    source: impl Source,
    mut sink: impl Sink,
) -> Close {
    let mut source = Paced::new(source);
    let _open = hub.metrics.connection(peer.transport);
    let begun = match coming {
        SubscribeMode::Anew(binding) => begin(hub, (peer, binding), &mut source).await,
        SubscribeMode::Back(link) => Ok(link),
    };
    let close = match begun {
        Err((rejection, close)) => {
            if let Some(rejection) = rejection {
                let message = Outbound::Message(Box::new(rejection.to_message().into()));
                // Who has gone need not be told.
                let _ = bounded(hub, sink.send(&[message])).await;
            }
            close
        }
        Ok(mut link) => {
            let _held = peer.hold();
            let sender = link.sender();
            let close = tokio::select! {
                close = hear(hub, peer, &sender, &mut source) => close,
                close = speak(hub, peer, &mut link, &mut sink) => close,
                () = peer.lapsed() => Close::lapsed(),
            };
            tracing::debug!(subscription = %link.id(), code = close.code.as_u16(), reason = %close.reason, "a subscription ended");
            close
        }
    };
    hub.metrics.closed(close.code);
    // A peer that takes nothing cannot be told; it is not waited for.
    let _ = tokio::time::timeout(hub.limits.write_timeout(), sink.close(&close)).await;
    close
}

type Refused = (Option<Rejection>, Close);

/// The handshake.
async fn begin(
    hub: &ServerContext,
    (peer, binding): (&Peer, ResumePolicy),
    source: &mut impl Source,
) -> Result<Link, Refused> {
    let mut stopping = hub.stopping.clone();
    let first = tokio::select! {
        first = tokio::time::timeout(hub.limits.request(), first_message(source)) => first,
        () = stopped(&mut stopping) => return Err((None, Close::new(Close::CLEAN, ENDED))),
        () = peer.lapsed() => return Err((None, Close::lapsed())),
    };
    let bytes = match first {
        Err(_) => return Err((None, Close::violation("no subscription.request came in time"))),
        Ok(Err(close)) if close.code == Close::VIOLATION => {
            let message = format!("This is not a message: {}. Send one subscription.request.", close.reason);
            return Err((Some(Rejection::new(ReasonCode::Unknown, message)), close));
        }
        Ok(Err(close)) => return Err((None, close)),
        Ok(Ok(bytes)) => bytes,
    };
    let admitted = match Inbound::read(&bytes).into_request() {
        Ok(request) => hub.admit(peer, *request, binding).await,
        Err(rejection) => {
            hub.metrics.malformed();
            Err(rejection)
        }
    };
    admitted.map_err(|rejection| {
        let close = Close::new(CloseCode::from(&rejection.reason_code), rejection.message.clone());
        (Some(rejection), close)
    })
}

async fn first_message(source: &mut impl Source) -> Result<Bytes, Close> {
    loop {
        match source.next().await {
            Received::Message(bytes) => return Ok(bytes),
            Received::Alive => {}
            Received::Violation(what) => return Err(Close::violation(what)),
            Received::End => return Err(gone()),
        }
    }
}

/// Hands on what the subscriber says, until it breaks the rules or falls silent.
async fn hear(hub: &ServerContext, peer: &Peer, link: &LinkSender, source: &mut impl Source) -> Close {
    let mut malformed = 0;
    let mut throttle = Throttle::default();
    let silence = hub.limits.silence();
    loop {
        let Ok(received) = tokio::time::timeout(silence, source.next()).await else {
            return Close::violation("the connection gives no sign of life");
        };
        let bytes = match received {
            Received::Message(bytes) => bytes,
            Received::Alive => continue,
            Received::Violation(what) => return Close::violation(what),
            Received::End => return gone(),
        };
        if let Err(close) = throttle.pass(hub, peer, &bytes).await {
            return close;
        }
        // The time to close may have come while the message was under way.
        if !peer.is_current() {
            return Close::lapsed();
        }
        let message = Inbound::read(&bytes);
        if !matches!(message, Inbound::Message(_)) {
            malformed += 1;
            hub.metrics.malformed();
            tracing::info!(principal = peer.principal(), "a message that is not valid here");
            if malformed > MALFORMED {
                return Close::violation("too many malformed messages");
            }
        }
        let sent = match message {
            Inbound::Message(message) => link.send(narrowed(peer, message)).await,
            Inbound::Request(request) => link.send(Message::SubscriptionRequest(request)).await,
            invalid @ (Inbound::Refused(_) | Inbound::RefusedChange(..)) => link.send_invalid(invalid).await,
            Inbound::Invalid(_) => Ok(()),
        };
        if sent.is_err() {
            return Close::new(Close::CLEAN, ENDED);
        }
    }
}

/// A message without what this peer may not ask for.
pub(crate) fn narrowed(peer: &Peer, message: Message) -> Message {
    match message {
        Message::SubscriptionRenegotiate(mut change) => {
            change.capabilities = peer.narrow(change.capabilities);
            Message::SubscriptionRenegotiate(change)
        }
        other => other,
    }
}

/// Sends what the subscription gets: all that waits, in one go.
async fn speak(hub: &ServerContext, peer: &Peer, link: &mut Link, sink: &mut impl Sink) -> Close {
    let mut batch = Vec::new();
    let mut ping = tokio::time::interval(hub.limits.keep_alive());
    ping.reset();
    loop {
        let sent = tokio::select! {
            count = link.recv_many(&mut batch, BATCH) => {
                if count == 0 {
                    return Close::new(Close::CLEAN, ENDED);
                }
                hub.metrics.delivered(peer.transport, &batch);
                trace(&batch);
                let closing = match batch.last() {
                    Some(Outbound::Closed(closing)) => Some(Close::of(closing)),
                    _ => None,
                };
                let sent = bounded(hub, sink.send(&batch)).await;
                batch.clear();
                batch.shrink_to(BATCH / 8);
                if let Some(close) = closing {
                    return close;
                }
                sent
            }
            _ = ping.tick() => bounded(hub, sink.ping()).await,
        };
        if let Err(error) = sent {
            let slow = error.kind() == io::ErrorKind::TimedOut;
            return if slow { Close::violation("too_slow: the subscriber takes nothing") } else { gone() };
        }
    }
}

/// The text of events is for those who look for a fault with the user's consent: at the lowest level only.
pub(crate) fn trace(batch: &[Outbound]) {
    if !tracing::enabled!(tracing::Level::TRACE) {
        return;
    }
    for item in batch {
        if let Outbound::Event(frame) = item {
            tracing::trace!(event = %String::from_utf8_lossy(frame.json()), "sent");
        }
    }
}

async fn bounded(hub: &ServerContext, sending: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::time::timeout(hub.limits.write_timeout(), sending).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

fn gone() -> Close {
    Close::new(Close::BY_SUBSCRIBER, "the peer has gone")
}
