//! A connection over a named pipe.

use std::io;
use std::os::windows::io::{AsRawHandle, RawHandle};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer};

use super::{check_path, security};

/// The system's word for a pipe whose instances are all connected.
const PIPE_BUSY: i32 = 231;

/// How long to wait before connecting again to a pipe whose instances are all connected.
const BUSY_RETRY: Duration = Duration::from_millis(20);

/// A connection to another process on this machine.
#[derive(Debug)]
pub struct LocalStream(End);

#[derive(Debug)]
enum End {
    Server(NamedPipeServer),
    Client(NamedPipeClient),
}

impl LocalStream {
    pub(super) fn from_server(pipe: NamedPipeServer) -> LocalStream {
        LocalStream(End::Server(pipe))
    }

    /// Connects to the listener of this name. Waits while all instances of the pipe are connected.
    pub async fn connect(path: &Path) -> io::Result<LocalStream> {
        check_path(path)?;
        loop {
            // The listener may learn who we are and cannot act in our name: the default of these options.
            match ClientOptions::new().open(path) {
                Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => tokio::time::sleep(BUSY_RETRY).await,
                opened => return Ok(LocalStream(End::Client(opened?))),
            }
        }
    }

    /// Returns whether the peer runs as the user of this process and, for a client, whether this user owns the pipe.
    pub fn peer_is_own_user(&self) -> io::Result<bool> {
        let own = security::own_user()?;
        let peer = match &self.0 {
            End::Client(pipe) => {
                if security::owner(pipe)? != own {
                    return Ok(false);
                }
                security::server_process(pipe)?
            }
            End::Server(pipe) => security::client_process(pipe)?,
        };
        match peer {
            Some(process) => Ok(security::user_of_process(process)? == own),
            // Wine does not know it. The access control list, which the system has applied, admits this user only.
            None => Ok(true),
        }
    }

    /// Splits the connection, so that it can be read and written at the same time. It is closed when both halves are
    /// dropped.
    pub fn into_split(self) -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
        tokio::io::split(self)
    }
}

impl AsRawHandle for LocalStream {
    fn as_raw_handle(&self) -> RawHandle {
        match &self.0 {
            End::Server(pipe) => pipe.as_raw_handle(),
            End::Client(pipe) => pipe.as_raw_handle(),
        }
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            End::Server(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            End::Client(pipe) => Pin::new(pipe).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            End::Server(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            End::Client(pipe) => Pin::new(pipe).poll_write(cx, bytes),
        }
    }

    /// Does nothing: the system delivers what was written, also after this end was closed.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: a pipe has no closed half.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
