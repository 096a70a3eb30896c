//! A connection that can be taken back from hyper.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Takeover;

/// The connection as hyper sees it. After it was taken back, every operation fails with `NotConnected`.
pub(in crate::http) struct SharedIo<S> {
    connection: Arc<Mutex<Option<S>>>,
    takeover: Takeover,
}

/// The right to take the connection back.
pub(super) struct IoOwner<S>(Arc<Mutex<Option<S>>>);

/// Shares a connection. `takeover` is notified of each flush.
pub(super) fn share<S>(connection: S, takeover: Takeover) -> (IoOwner<S>, SharedIo<S>) {
    let connection = Arc::new(Mutex::new(Some(connection)));
    (IoOwner(connection.clone()), SharedIo { connection, takeover })
}

impl<S> IoOwner<S> {
    /// Takes the connection.
    pub(super) fn take(self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> IoOwner<S> {
    /// Takes the connection after an upgrade, with the bytes that hyper has read beyond the request.
    pub(super) async fn take_upgraded(self, upgrade: OnUpgrade) -> Option<(S, Bytes)> {
        let Ok(parts) = downcast::<TokioIo<SharedIo<S>>>(upgrade.await.ok()?) else {
            tracing::error!("hyper returned an upgraded connection of another type; closing it");
            return None;
        };
        Some((self.take()?, parts.read_buf))
    }
}

impl<S: Unpin> SharedIo<S> {
    fn poll<T>(&mut self, act: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &mut *self.connection.lock().unwrap_or_else(PoisonError::into_inner) {
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll(|connection| connection.poll_flush(cx)))?;
        self.takeover.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|connection| connection.poll_shutdown(cx))
    }
}
