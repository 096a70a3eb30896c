//! Messages on a byte stream, framed by a length prefix or by lines. The first byte decides which, and both directions use
//! the same framing.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aaep::transport::Outbound;
use aaep_keys::Identity;
use aaep_proto::binding::{MessageDecoder, MessageFraming};
use aaep_proto::message::Message;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::admission::memory_budget::{MemoryReservation, OutOfMemory};
use crate::close::{Close, CloseNotifier, Violation};
use crate::connection::{Received, Sink, Source};
use crate::context::ServerContext;

/// Bytes requested per read. Messages of subscribers are small.
const READ_BYTES: usize = 4 * 1024;

/// Buffered bytes that trigger a write.
const WRITE_BYTES: usize = 64 * 1024;

/// Returns both halves of a connection over a byte stream.
pub(crate) fn halves<R, W>(context: &ServerContext, reader: R, writer: W) -> (FramedSource<R>, FramedSink<W>) {
    let framing = Arc::new(OnceLock::new());
    let source = FramedSource {
        reader,
        framing: framing.clone(),
        decoder: MessageDecoder::new(context.limits.message_bytes),
        alive_interval: context.limits.silence() / 2,
        buffer: BytesMut::new(),
        ended: false,
        memory: context.admission.subscriber_memory(Identity::LOCAL),
    };
    let sink = FramedSink { writer, framing, close_notifier: CloseNotifier::default(), buffer: BytesMut::new() };
    (source, sink)
}

/// The read half.
pub(crate) struct FramedSource<R> {
    reader: R,
    /// Set by the first byte.
    framing: Arc<OnceLock<MessageFraming>>,
    decoder: MessageDecoder,
    /// How often to report a quiet peer as alive: the system reports a local peer that is gone, so silence means nothing.
    alive_interval: Duration,
    buffer: BytesMut,
    ended: bool,
    /// For the bytes of an incomplete message.
    memory: MemoryReservation,
}

impl<R: AsyncRead + Unpin + Send> Source for FramedSource<R> {
    async fn next(&mut self) -> Received {
        loop {
            match self.decode() {
                Some(received) => return received,
                None if self.ended => return Received::End,
                None if self.reserve_memory().is_err() => return Received::Violation(Violation::OutOfMemory),
                None => self.buffer.reserve(READ_BYTES),
            }
            match tokio::time::timeout(self.alive_interval, self.reader.read_buf(&mut self.buffer)).await {
                Err(_) => return Received::Alive,
                Ok(Ok(0)) => self.ended = true,
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Received::End,
            }
        }
    }
}

impl<R> FramedSource<R> {
    /// Reserves memory for the buffered bytes.
    fn reserve_memory(&mut self) -> Result<(), OutOfMemory> {
        self.memory.resize_unfinished(self.buffer.len())
    }

    /// Returns the next buffered message, or `None` if it is incomplete.
    fn decode(&mut self) -> Option<Received> {
        let first = *self.buffer.first()?;
        let framing = match self.framing.get() {
            Some(framing) => *framing,
            None => match MessageFraming::detect(first) {
                Some(framing) => *self.framing.get_or_init(|| framing),
                None => return Some(Received::Violation(Violation::Other("this is neither a length nor JSON"))),
            },
        };
        match self.decoder.decode(framing, &mut self.buffer, self.ended) {
            Ok(message) => message.map(received),
            Err(_) => Some(Received::Violation(Violation::MessageTooLarge)),
        }
    }
}

/// An empty message is a sign of life.
fn received(bytes: Bytes) -> Received {
    if bytes.iter().all(u8::is_ascii_whitespace) { Received::Alive } else { Received::Message(bytes) }
}

/// The write half.
pub(crate) struct FramedSink<W> {
    writer: W,
    framing: Arc<OnceLock<MessageFraming>>,
    close_notifier: CloseNotifier,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Unpin + Send> FramedSink<W> {
    fn put(&mut self, json: &[u8]) -> io::Result<()> {
        // A peer that has sent nothing yet gets length prefixes.
        let framing = self.framing.get().copied().unwrap_or(MessageFraming::LengthPrefix);
        framing.encode(json, &mut self.buffer).map_err(io::Error::other)
    }

    fn put_message(&mut self, message: &Message) -> io::Result<()> {
        self.put(&serde_json::to_vec(message).map_err(io::Error::other)?)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let written = self.writer.write_all(&self.buffer).await;
        self.buffer.clear();
        written?;
        self.writer.flush().await
    }
}

impl<W: AsyncWrite + Unpin + Send> Sink for FramedSink<W> {
    async fn send(&mut self, batch: &[Outbound]) -> io::Result<()> {
        for item in batch {
            match item {
                Outbound::Event(frame) => self.put(frame.json())?,
                Outbound::Message(message) => {
                    self.close_notifier.note(message);
                    self.put_message(message)?;
                }
                Outbound::Closed(_) => {}
            }
            if self.buffer.len() >= WRITE_BYTES {
                self.flush().await?;
            }
        }
        self.flush().await?;
        // An idle connection keeps no buffer.
        self.buffer = BytesMut::new();
        Ok(())
    }

    async fn ping(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self, close: &Close) {
        // After a write that was abandoned halfway, nothing more can be framed.
        let complete = self.buffer.is_empty();
        if complete
            && let Some(message) = self.close_notifier.final_message(close)
            && self.put_message(&message).is_ok()
        {
            // The connection is shut down next, whether or not the peer received this.
            let _ = self.flush().await;
        }
        let _ = self.writer.shutdown().await;
    }
}
