//! Event streams and WebSockets without the HTTP machinery. Once the head of an HTTP/1.1 answer is out, an event stream is
//! nothing but chunks; what hyper keeps for the next request, 16 KiB of buffers among it, would be the greater part of what
//! an idle subscription costs. So the connection is only lent to hyper, and a stream or a conversation takes it back.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::sse::Stream;
use super::ws::WebSocketSession;

/// Where a handler leaves who is to take its connection over. It comes with each request that allows it.
#[derive(Clone, Default)]
pub(crate) struct Takeover(Arc<Mutex<TakeoverState>>);

/// Who takes a connection over.
pub(crate) enum TakeoverTarget {
    /// An event stream, while hyper waits for more of it.
    Events(Box<Stream>),
    /// A WebSocket, when hyper is done.
    Talk(OnUpgrade, Box<WebSocketSession>),
}

#[derive(Default)]
struct TakeoverState {
    stream: Option<Box<Stream>>,
    talk: Option<(OnUpgrade, Box<WebSocketSession>)>,
    /// Whether hyper was given the first bytes of the stream.
    begun: bool,
    /// Whether all that hyper was given is on its way.
    due: bool,
}

impl Takeover {
    /// No code that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, TakeoverState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a stream; what is returned is the body to answer with.
    pub(super) fn leave(self, stream: Stream) -> impl Body<Data = Bytes, Error = Infallible> {
        *self.lock() = TakeoverState { stream: Some(Box::new(stream)), ..TakeoverState::default() };
        FirstChunkBody(self)
    }

    /// Leaves a conversation.
    pub(super) fn leave_talk(self, upgrade: OnUpgrade, talk: WebSocketSession) {
        self.lock().talk = Some((upgrade, Box::new(talk)));
    }

    /// Who takes over while hyper waits, when it is time.
    pub(crate) fn take_waiting(&self) -> Option<TakeoverTarget> {
        let mut left = self.lock();
        left.due.then(|| left.stream.take())?.map(TakeoverTarget::Events)
    }

    /// Who takes over when hyper is done.
    pub(crate) fn take_done(&self) -> Option<TakeoverTarget> {
        self.lock().talk.take().map(|(upgrade, talk)| TakeoverTarget::Talk(upgrade, talk))
    }
}

/// The first bytes of a stream, which go out with the head.
struct FirstChunkBody(Takeover);

impl Body for FirstChunkBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let left = &mut *self.0.lock();
        match &mut left.stream {
            Some(stream) if !left.begun => {
                let first = ready!(Pin::new(&mut **stream).poll_frame(cx));
                left.begun = true;
                Poll::Ready(first)
            }
            // The rest comes by the other way.
            _ => Poll::Pending,
        }
    }
}

impl Drop for FirstChunkBody {
    /// An answer that is thrown away needs no stream.
    fn drop(&mut self) {
        let unused = self.0.lock().stream.take();
        drop(unused);
    }
}

/// A connection as hyper sees it: it can be taken away.
pub(crate) struct SharedIo<S> {
    owner: IoOwner<S>,
    handover: Takeover,
}

/// The one who lends.
pub(crate) struct IoOwner<S>(Arc<Mutex<Option<S>>>);

pub(crate) fn lend<S>(connection: S, handover: Takeover) -> (IoOwner<S>, SharedIo<S>) {
    let place = Arc::new(Mutex::new(Some(connection)));
    (IoOwner(place.clone()), SharedIo { owner: IoOwner(place), handover })
}

impl<S> IoOwner<S> {
    /// Takes the connection away.
    pub(crate) fn take(self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> IoOwner<S> {
    /// The same, with what hyper has read of it beyond the request.
    pub(crate) async fn take_upgraded(self, upgrade: OnUpgrade) -> Option<(S, Bytes)> {
        let Ok(lent) = downcast::<TokioIo<SharedIo<S>>>(upgrade.await.ok()?) else {
            tracing::error!("a connection was lent as one thing and given back as another");
            return None;
        };
        Some((self.take()?, lent.read_buf))
    }
}

impl<S: Unpin> SharedIo<S> {
    fn poll<T>(&mut self, act: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &mut *self.owner.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(connection) => act(Pin::new(connection)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SharedIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll(|connection| connection.poll_read(cx, into))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SharedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|connection| connection.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(|connection| connection.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes after it has written all that it has. If the beginning of a stream was in it, hyper is done.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll(|connection| connection.poll_flush(cx)))?;
        let mut left = self.handover.lock();
        left.due = left.begun;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|connection| connection.poll_shutdown(cx))
    }
}

/// Sends the stream in chunks, to its end or until the reader leaves.
pub(crate) async fn carry(
    mut connection: impl AsyncRead + AsyncWrite + Unpin,
    mut stream: Box<Stream>,
    write_timeout: Duration,
) -> io::Result<()> {
    loop {
        let next = std::future::poll_fn(|cx| {
            if let Poll::Ready(end) = poll_end(&mut connection, cx) {
                return Poll::Ready(Err(end));
            }
            Pin::new(&mut *stream).poll_frame(cx).map(Ok)
        });
        let Some(Ok(frame)) = next.await? else { break };
        let bytes = frame.into_data().unwrap_or_default();
        let size = Bytes::from(format!("{:x}\r\n", bytes.len()));
        let chunk = size.chain(bytes).chain(&b"\r\n"[..]);
        tokio::time::timeout(write_timeout, write(&mut connection, chunk)).await??;
    }
    tokio::time::timeout(write_timeout, write(&mut connection, &b"0\r\n\r\n"[..])).await??;
    connection.shutdown().await
}

async fn write(connection: &mut (impl AsyncWrite + Unpin), mut bytes: impl Buf) -> io::Result<()> {
    connection.write_all_buf(&mut bytes).await?;
    connection.flush().await
}

/// Whether the reader has left. What it says is not heard: there is nothing to say here.
fn poll_end(connection: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<io::Error> {
    let mut ignored = [0; 256];
    loop {
        let mut into = ReadBuf::new(&mut ignored);
        match ready!(Pin::new(&mut *connection).poll_read(cx, &mut into)) {
            Ok(()) if into.filled().is_empty() => return Poll::Ready(io::ErrorKind::UnexpectedEof.into()),
            Ok(()) => {}
            Err(error) => return Poll::Ready(error),
        }
    }
}
