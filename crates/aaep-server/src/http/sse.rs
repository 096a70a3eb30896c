//! Events in the form of server-sent events. All that waits is written at once.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aaep::message::{CloseReason, Message};
use aaep::transport::{Link, Outbound};
use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::admission::connection_slots::SlotHold;
use crate::close::Close;
use crate::close::close_message;
use crate::connection::trace_events;
use crate::context::ServerContext;
use crate::metrics::Transport;
use crate::peer::Peer;

/// Most events in one write.
const MAX_BATCH: usize = 128;

/// When a browser should try again after a lost connection, in milliseconds.
const RETRY_FIELD: &str = "retry: 2000\n\n";

/// The body of an event stream.
pub(crate) struct EventStream {
    context: Arc<ServerContext>,
    link: Link,
    batch: Vec<Outbound>,
    /// When to say that the stream is alive; set again by every write.
    quiet: Pin<Box<Sleep>>,
    every: Duration,
    /// Resolves when the reader's credentials are no longer accepted. Without credentials there is nothing to wait for.
    lapsed: Option<LapsedFuture>,
    greeted: bool,
    ended: bool,
    /// The place of the connection that carries the stream.
    _held: Option<SlotHold>,
}

type LapsedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl EventStream {
    pub(crate) fn new(context: Arc<ServerContext>, link: Link, peer: Peer) -> EventStream {
        let every = context.limits.keep_alive();
        let quiet = Box::pin(tokio::time::sleep(every));
        context.metrics.opened(Transport::Sse);
        let held = peer.hold();
        let lapsed = peer.lease.map(|lease| -> LapsedFuture { Box::pin(async move { lease.lapsed().await }) });
        EventStream {
            context,
            link,
            batch: Vec::new(),
            quiet,
            every,
            lapsed,
            greeted: false,
            ended: false,
            _held: held,
        }
    }

    /// The last message to a reader whose credentials are no longer accepted. The subscription stays for a while, so that
    /// the same principal can go on with new ones.
    fn dismiss(&mut self) -> Bytes {
        let close = Close::lapsed();
        self.context.metrics.closed(close.code);
        self.ended = true;
        let message = close_message(self.link.id().clone(), CloseReason::AuthenticationRequired, &close);
        let mut bytes = BytesMut::new();
        put_message(&mut bytes, &message);
        bytes.freeze()
    }

    /// Frames all that waits.
    fn frame(&mut self) -> Bytes {
        self.context.metrics.delivered(Transport::Sse, &self.batch);
        trace_events(&self.batch);
        let size =
            self.batch.iter().map(|item| if let Outbound::Event(frame) = item { frame.json().len() + 96 } else { 256 });
        let mut bytes = BytesMut::with_capacity(size.sum());
        for item in self.batch.drain(..) {
            match item {
                Outbound::Event(event) => put_event(&mut bytes, &event),
                Outbound::Message(message) => put_message(&mut bytes, &message),
                Outbound::Closed(closing) => {
                    self.context.metrics.closed(Close::of(&closing).code);
                    self.ended = true;
                }
            }
        }
        self.batch.shrink_to(MAX_BATCH / 8);
        bytes.freeze()
    }
}

fn put_event(bytes: &mut BytesMut, event: &aaep::transport::Frame) {
    let id = event.event().envelope.event_id.as_str();
    put(bytes, &[b"event: aaep.event\nid: ", id.as_bytes(), b"\ndata: ", event.json(), b"\n\n"]);
}

fn put_message(bytes: &mut BytesMut, message: &Message) {
    let json = serde_json::to_vec(message).unwrap_or_default();
    put(bytes, &[b"event: aaep.message\ndata: ", &json, b"\n\n"]);
}

fn put(bytes: &mut BytesMut, parts: &[&[u8]]) {
    parts.iter().for_each(|part| bytes.put_slice(part));
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(lapsed) = &mut this.lapsed
            && lapsed.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Ok(Frame::data(this.dismiss()))));
        }
        let bytes = if !std::mem::replace(&mut this.greeted, true) {
            // The first bytes come at once, so that everyone on the way sees that the stream is open.
            Bytes::from_static(RETRY_FIELD.as_bytes())
        } else {
            match this.link.poll_many(cx, &mut this.batch, MAX_BATCH) {
                Poll::Ready(0) => return Poll::Ready(None),
                Poll::Ready(_) => this.frame(),
                Poll::Pending => {
                    std::task::ready!(this.quiet.as_mut().poll(cx));
                    Bytes::from_static(b": alive\n\n")
                }
            }
        };
        this.quiet.as_mut().reset(Instant::now() + this.every);
        if bytes.is_empty() { Poll::Ready(None) } else { Poll::Ready(Some(Ok(Frame::data(bytes)))) }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.context.metrics.gone(Transport::Sse);
    }
}
