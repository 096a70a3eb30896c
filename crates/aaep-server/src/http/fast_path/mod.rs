//! Event streams and WebSockets without hyper's per-connection state.
//!
//! Once the head of an HTTP/1.1 response is written, an event stream is nothing but chunks, and a WebSocket is nothing
//! but frames. What hyper keeps for a next request, 16 KiB of buffers among it, would be most of the memory of an idle
//! subscription, and its body machinery most of the time of a delivery. So hyper is given a [`SharedIo`], and the
//! listener takes the connection back from it.
//!
//! Without a [`Takeover`] in the extensions of a request the handlers use hyper's own body and upgrade: for HTTP/2, where
//! many streams share a connection, and for listeners with [`FastPath::disabled`].
//!
//! # Assumptions about hyper
//!
//! A new version of hyper must be checked against these. The test `fast_path.rs` of `aaep-test` compares both paths.
//!
//! 1. hyper calls `poll_flush` on the connection after it has written everything it has buffered, and not before. When
//!    `poll_flush` returns ready and the first chunk of the body was polled before, the response head and the first chunk
//!    are with the kernel, and hyper waits for the next chunk. It has nothing else buffered: HTTP/1.1 responses are
//!    sequential, and the body never ends.
//! 2. hyper encodes a body of unknown length as `Transfer-Encoding: chunked`, one chunk for each frame of the body. The
//!    connection continues with chunks of the same form.
//! 3. Dropping hyper's connection future at that point drops the response body and writes nothing.
//! 4. Bytes that hyper has read beyond the request of an event stream may be lost: a client must not pipeline after it.
//! 5. For a WebSocket, the connection future completes after the `101` response is flushed, and `OnUpgrade` then resolves
//!    to an `Upgraded` whose inner type is the `TokioIo<SharedIo<S>>` that hyper was given: the downcast returns the bytes
//!    that hyper read beyond the request.

mod chunked;
mod shared_io;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::upgrade::OnUpgrade;
use tokio::io::{AsyncRead, AsyncWrite};

use super::sse::EventStream;
use super::websocket::WebSocketSession;
use shared_io::IoOwner;
pub(super) use shared_io::SharedIo;

/// The listener's handle of a connection that is shared with hyper.
pub(super) struct FastPath<S> {
    owner: IoOwner<S>,
    takeover: Takeover,
    enabled: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> FastPath<S> {
    /// Shares a connection. The second value is for hyper.
    pub(super) fn new(connection: S) -> (FastPath<S>, SharedIo<S>) {
        let takeover = Takeover::default();
        let (owner, shared) = shared_io::share(connection, takeover.clone());
        (FastPath { owner, takeover, enabled: true }, shared)
    }

    /// Leaves event streams and WebSockets to hyper.
    pub(super) fn disabled(mut self) -> FastPath<S> {
        self.enabled = false;
        self
    }

    /// Returns what to add to the extensions of an HTTP/1.1 request.
    pub(super) fn takeover(&self) -> Option<Takeover> {
        self.enabled.then(|| self.takeover.clone())
    }

    /// Returns what continues the connection, if a handler left it and hyper's part is written. Call this whenever hyper's
    /// connection future is pending.
    pub(super) fn due(&self) -> Option<TakeoverTarget> {
        let mut state = self.takeover.lock();
        if !state.flushed {
            return None;
        }
        state.stream.take().map(TakeoverTarget::Events)
    }

    /// Returns what continues the connection after hyper's connection future has completed.
    pub(super) fn upgraded(&self) -> Option<TakeoverTarget> {
        let upgrade = self.takeover.lock().websocket.take();
        upgrade.map(TakeoverTarget::WebSocket)
    }

    /// Continues the connection until it ends. Hyper's connection future must have been dropped.
    pub(super) async fn run(self, target: TakeoverTarget, write_timeout: Duration) -> io::Result<()> {
        match target {
            TakeoverTarget::Events(events) => match self.owner.take() {
                Some(connection) => chunked::write_chunked(connection, events, write_timeout).await,
                None => Ok(()),
            },
            TakeoverTarget::WebSocket(WebSocketUpgrade { on_upgrade, session }) => {
                if let Some((connection, read)) = self.owner.take_upgraded(on_upgrade).await {
                    Box::pin(session.run(connection, read)).await;
                }
                Ok(())
            }
        }
    }
}

/// What continues a connection after hyper.
pub(super) enum TakeoverTarget {
    /// An event stream, while hyper waits for its next chunk.
    Events(Box<EventStream>),
    /// A WebSocket, after hyper has completed.
    WebSocket(WebSocketUpgrade),
}

/// A WebSocket whose upgrade response is being written.
pub(super) struct WebSocketUpgrade {
    on_upgrade: OnUpgrade,
    session: Box<WebSocketSession>,
}

/// A handler's end of the fast path, in the extensions of its request.
#[derive(Clone, Default)]
pub(super) struct Takeover(Arc<Mutex<TakeoverState>>);

#[derive(Default)]
struct TakeoverState {
    stream: Option<Box<EventStream>>,
    websocket: Option<WebSocketUpgrade>,
    /// Whether hyper has polled the first chunk of the stream.
    started: bool,
    /// Whether hyper has flushed after that.
    flushed: bool,
}

impl Takeover {
    /// Lets a stream take over the connection, and returns the body of its response.
    pub(super) fn stream_body(self, stream: EventStream) -> impl Body<Data = Bytes, Error = Infallible> {
        *self.lock() = TakeoverState { stream: Some(Box::new(stream)), ..TakeoverState::default() };
        FirstChunkBody(self)
    }

    /// Lets a WebSocket take over the connection when the upgrade is complete.
    pub(super) fn upgrade(self, on_upgrade: OnUpgrade, session: WebSocketSession) {
        self.lock().websocket = Some(WebSocketUpgrade { on_upgrade, session: Box::new(session) });
    }

    /// Called when hyper has flushed the connection.
    fn flushed(&self) {
        let mut state = self.lock();
        state.flushed = state.started;
    }

    /// No code that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, TakeoverState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first chunk of a stream, which hyper writes with the response head. The rest is written without hyper.
struct FirstChunkBody(Takeover);

impl Body for FirstChunkBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let state = &mut *self.0.lock();
        match &mut state.stream {
            Some(stream) if !state.started => {
                let first = ready!(Pin::new(&mut **stream).poll_frame(cx));
                state.started = true;
                Poll::Ready(first)
            }
            _ => Poll::Pending,
        }
    }
}

impl Drop for FirstChunkBody {
    /// Drops the stream of a response that hyper discards.
    fn drop(&mut self) {
        // Dropped after the lock is released: the stream's own drop is foreign code.
        let unused = self.0.lock().stream.take();
        drop(unused);
    }
}
