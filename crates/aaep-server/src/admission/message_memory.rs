//! Memory of incomplete messages. It is reserved while their bytes are read, so that peers that start messages and never
//! complete them cannot exhaust the memory.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::admission::memory_budget::{MemoryReservation, OutOfMemory};

/// The head of a WebSocket control frame of a client: two bytes and a mask of four.
const CONTROL_HEADER_BYTES: usize = 6;

/// The memory of the message that a connection is receiving. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct MessageMemory(Arc<Mutex<MessageMemoryState>>);

#[derive(Debug)]
struct MessageMemoryState {
    bytes: usize,
    memory: MemoryReservation,
}

impl MessageMemory {
    pub(crate) fn new(memory: MemoryReservation) -> MessageMemory {
        MessageMemory(Arc::new(Mutex::new(MessageMemoryState { bytes: 0, memory })))
    }

    /// Adds bytes of the message that were read.
    pub(crate) fn add(&self, bytes: usize) -> Result<(), OutOfMemory> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.bytes += bytes;
        let bytes = counted.bytes;
        counted.memory.resize_unfinished(bytes)
    }

    /// Subtracts a ping or pong that was read. It may come in the middle of a message and is not part of it.
    pub(crate) fn skip_control_frame(&self, payload_bytes: usize) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.bytes = counted.bytes.saturating_sub(CONTROL_HEADER_BYTES + payload_bytes);
    }

    /// Releases the memory of a message that is complete.
    pub(crate) fn finish(&self) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.bytes = 0;
        // Shrinking always succeeds.
        let _ = counted.memory.resize(0);
    }
}

/// A connection that reserves memory for incoming bytes. If there is none left, reading fails with
/// [`io::ErrorKind::OutOfMemory`].
#[derive(Debug)]
pub(crate) struct MeteredIo<S> {
    io: S,
    memory: MessageMemory,
}

impl<S> MeteredIo<S> {
    pub(crate) fn new(io: S, memory: MessageMemory) -> MeteredIo<S> {
        MeteredIo { io, memory }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, into))?;
        let read = into.filled().len() - before;
        Poll::Ready(self.memory.add(read).map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::admission::memory_budget::{AccountKind, MemoryAccount, MemoryBudget};

    #[tokio::test]
    async fn incomplete_message_is_refused_when_memory_runs_out() {
        let budget = MemoryBudget::new(1 << 20, 100 * 1024);
        let memory = MessageMemory::new(budget.empty(MemoryAccount::new(AccountKind::Subscribe, "eve")));
        let (near, mut far) = duplex(1 << 20);
        let mut near = MeteredIo::new(near, memory.clone());
        far.write_all(&[b'x'; 80 * 1024]).await.unwrap();
        let mut buffer = vec![0; 40 * 1024];
        near.read_exact(&mut buffer).await.unwrap();
        assert_eq!(budget.used(), 80 * 1024);
        assert_eq!(near.read_exact(&mut buffer).await.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        memory.finish();
        assert_eq!(budget.used(), 0);
    }
}
