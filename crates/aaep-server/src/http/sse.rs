//! The body of an event stream, in the format of server-sent events. All queued events are written at once.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aaep::message::{CloseReason, Message};
use aaep::transport::{Link, Outbound};
use aaep_proto::binding::{SSE_KEEP_ALIVE, encode_sse_event, encode_sse_message, encode_sse_retry};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::admission::connection_slots::SlotHold;
use crate::close::Close;
use crate::close::close_message;
use crate::connection::trace_events;
use crate::context::{ServerContext, Subscribed};
use crate::engines::EngineRef;
use crate::metrics::Transport;

/// Events in one write.
const MAX_BATCH: usize = 128;

/// When a browser should reconnect after a lost connection.
const RETRY_MS: u64 = 2000;

/// The body of an event stream.
pub(crate) struct EventStream {
    context: Arc<ServerContext>,
    link: Link,
    batch: Vec<Outbound>,
    /// When to write a keep-alive comment. Reset by every write.
    keep_alive: Pin<Box<Sleep>>,
    keep_alive_interval: Duration,
    /// Resolves when the credentials of the reader are no longer accepted. `None` without credentials.
    lapsed: Option<LapsedFuture>,
    /// Whether the first bytes were written.
    started: bool,
    ended: bool,
    /// Keeps the engine of the user.
    _engine: EngineRef,
    /// Protects the connection from eviction.
    _held: Option<SlotHold>,
}

type LapsedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl EventStream {
    pub(crate) fn new(context: Arc<ServerContext>, subscribed: Subscribed) -> EventStream {
        let Subscribed { link, peer, engine } = subscribed;
        let keep_alive_interval = context.limits.keep_alive();
        let keep_alive = Box::pin(tokio::time::sleep(keep_alive_interval));
        context.metrics.opened(Transport::Sse);
        let held = peer.hold();
        let lapsed =
            peer.credentials.map(|credentials| -> LapsedFuture { Box::pin(async move { credentials.lapsed().await }) });
        EventStream {
            context,
            link,
            batch: Vec::new(),
            keep_alive,
            keep_alive_interval,
            lapsed,
            started: false,
            ended: false,
            _engine: engine,
            _held: held,
        }
    }

    /// Returns the last message to a reader whose credentials are no longer accepted. The subscription stays resumable, so
    /// that the same principal can continue with new credentials.
    fn end_lapsed(&mut self) -> Bytes {
        let close = Close::lapsed();
        self.context.metrics.closed(close.code);
        self.ended = true;
        let message = close_message(self.link.id().clone(), CloseReason::AuthenticationRequired, &close);
        let mut bytes = BytesMut::new();
        put_message(&mut bytes, &message);
        bytes.freeze()
    }

    /// Encodes all queued items.
    fn encode_batch(&mut self) -> Bytes {
        self.context.metrics.delivered(Transport::Sse, &self.batch);
        trace_events(&self.batch);
        let size =
            self.batch.iter().map(|item| if let Outbound::Event(frame) = item { frame.json().len() + 96 } else { 256 });
        let mut bytes = BytesMut::with_capacity(size.sum());
        for item in self.batch.drain(..) {
            match item {
                Outbound::Event(event) => {
                    let id = event.event().envelope.event_id.as_str();
                    encode_sse_event(id, event.json(), &mut bytes);
                }
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

fn put_message(bytes: &mut BytesMut, message: &Message) {
    // Messages hold text, numbers and maps with text keys only, so serialization cannot fail.
    encode_sse_message(&serde_json::to_vec(message).unwrap_or_default(), bytes);
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
            return Poll::Ready(Some(Ok(Frame::data(this.end_lapsed()))));
        }
        let bytes = if !std::mem::replace(&mut this.started, true) {
            // Sent at once, so that the client and every proxy see that the stream is open.
            let mut bytes = BytesMut::new();
            encode_sse_retry(RETRY_MS, &mut bytes);
            bytes.freeze()
        } else {
            match this.link.poll_many(cx, &mut this.batch, MAX_BATCH) {
                Poll::Ready(0) => return Poll::Ready(None),
                Poll::Ready(_) => this.encode_batch(),
                Poll::Pending => {
                    std::task::ready!(this.keep_alive.as_mut().poll(cx));
                    Bytes::from_static(SSE_KEEP_ALIVE)
                }
            }
        };
        this.keep_alive.as_mut().reset(Instant::now() + this.keep_alive_interval);
        if bytes.is_empty() { Poll::Ready(None) } else { Poll::Ready(Some(Ok(Frame::data(bytes)))) }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.context.metrics.gone(Transport::Sse);
    }
}
