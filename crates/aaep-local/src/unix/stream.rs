//! A connection over a Unix socket.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::own_user;

/// A connection to another process on this machine.
#[derive(Debug)]
pub struct LocalStream(pub(super) UnixStream);

impl LocalStream {
    /// Connects to the listener at this path.
    pub async fn connect(path: &Path) -> io::Result<LocalStream> {
        Ok(LocalStream(UnixStream::connect(path).await?))
    }

    /// Returns whether the peer runs as the user of this process.
    pub fn peer_is_own_user(&self) -> io::Result<bool> {
        Ok(self.0.peer_cred()?.uid() == own_user())
    }

    /// Splits the connection, so that it can be read and written at the same time.
    pub fn into_split(self) -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
        self.0.into_split()
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
