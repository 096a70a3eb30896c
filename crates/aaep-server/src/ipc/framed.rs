//! Messages on a stream of bytes, in one of two framings: a length of four bytes before each message, or a line for
//! each. The first byte tells which, and the answers come in the same.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aaep::transport::Outbound;
use aaep_proto::message::Message;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::admission::memory_budget::{MemoryReservation, OutOfMemory};
use crate::admission::message_memory::NO_MEMORY;
use crate::close::CloseNotifier;
use crate::close::{Close, TOO_LARGE};
use crate::connection::{Received, Sink, Source};
use crate::context::ServerContext;

/// What is read at once. What subscribers say is small.
const READ_BYTES: usize = 4 * 1024;

/// What is written at once, at least.
const WRITE_BYTES: usize = 64 * 1024;

/// The bytes of a length.
const LENGTH: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Lines,
}

/// Both halves of a conversation over such a stream.
pub(crate) fn halves<R, W>(context: &ServerContext, from: R, to: W) -> (FramedSource<R>, FramedSink<W>) {
    let framing = Arc::new(OnceLock::new());
    let limit = context.limits.message_bytes;
    let sink =
        FramedSink { to, framing: framing.clone(), close_notifier: CloseNotifier::default(), buffer: BytesMut::new() };
    (
        FramedSource {
            from,
            framing,
            limit,
            quiet: context.limits.silence() / 2,
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
            memory: context.admission.subscriber_memory(aaep_keys::Identity::LOCAL),
        },
        sink,
    )
}

/// The half that hears.
pub(crate) struct FramedSource<R> {
    from: R,
    framing: Arc<OnceLock<Framing>>,
    limit: usize,
    /// How long to wait before saying that all is well: the system tells when a local peer is gone, so silence
    /// means nothing.
    quiet: Duration,
    buffer: BytesMut,
    /// How far no end of a line was found.
    searched: usize,
    ended: bool,
    /// For the bytes of a message that is not complete yet.
    memory: MemoryReservation,
}

impl<R: AsyncRead + Unpin + Send> Source for FramedSource<R> {
    async fn next(&mut self) -> Received {
        loop {
            match self.cut() {
                Some(received) => return received,
                None if self.ended => return Received::End,
                None if self.reserve_memory().is_err() => return Received::Violation(NO_MEMORY),
                None => self.buffer.reserve(READ_BYTES),
            }
            match tokio::time::timeout(self.quiet, self.from.read_buf(&mut self.buffer)).await {
                Err(_) => return Received::Alive,
                Ok(Ok(0)) => self.ended = true,
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Received::End,
            }
        }
    }
}

impl<R> FramedSource<R> {
    /// Reserves memory for what is in the buffer.
    fn reserve_memory(&mut self) -> Result<(), OutOfMemory> {
        self.memory.resize_unfinished(self.buffer.len())
    }

    /// The next message of what was read, if it is whole.
    fn cut(&mut self) -> Option<Received> {
        let first = *self.buffer.first()?;
        let framing = match self.framing.get() {
            Some(framing) => *framing,
            None => {
                // A length up to 16 MiB begins with a zero, JSON never does.
                let framing = match first {
                    0 => Framing::Length,
                    b'{' | b' ' | b'\t' | b'\r' | b'\n' => Framing::Lines,
                    _ => return Some(Received::Violation("this is neither a length nor JSON")),
                };
                *self.framing.get_or_init(|| framing)
            }
        };
        match framing {
            Framing::Length => self.cut_length(),
            Framing::Lines => self.cut_line(),
        }
    }

    fn cut_length(&mut self) -> Option<Received> {
        let length = u32::from_be_bytes(*self.buffer.first_chunk::<LENGTH>()?) as usize;
        if length > self.limit {
            return Some(Received::Violation(TOO_LARGE));
        }
        if self.buffer.len() < LENGTH + length {
            return None;
        }
        self.buffer.advance(LENGTH);
        Some(received(self.buffer.split_to(length).freeze()))
    }

    fn cut_line(&mut self) -> Option<Received> {
        let line = match memchr(b'\n', &self.buffer[self.searched..]) {
            Some(at) => {
                let line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                line.slice(..line.len() - 1)
            }
            // A last line may lack its end.
            None if self.ended => self.buffer.split().freeze(),
            None => {
                self.searched = self.buffer.len();
                return (self.searched > self.limit).then_some(Received::Violation(TOO_LARGE));
            }
        };
        if line.len() > self.limit { Some(Received::Violation(TOO_LARGE)) } else { Some(received(line)) }
    }
}

/// An empty message is a sign of life.
fn received(bytes: Bytes) -> Received {
    if bytes.iter().all(u8::is_ascii_whitespace) { Received::Alive } else { Received::Message(bytes) }
}

/// The half that speaks.
pub(crate) struct FramedSink<W> {
    to: W,
    framing: Arc<OnceLock<Framing>>,
    close_notifier: CloseNotifier,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Unpin + Send> FramedSink<W> {
    fn put(&mut self, json: &[u8]) -> io::Result<()> {
        if self.framing.get() == Some(&Framing::Lines) {
            self.buffer.reserve(json.len() + 1);
            self.buffer.put_slice(json);
            self.buffer.put_u8(b'\n');
        } else {
            let length = u32::try_from(json.len()).map_err(io::Error::other)?;
            self.buffer.reserve(LENGTH + json.len());
            self.buffer.put_u32(length);
            self.buffer.put_slice(json);
        }
        Ok(())
    }

    fn put_message(&mut self, message: &Message) -> io::Result<()> {
        self.put(&serde_json::to_vec(message).map_err(io::Error::other)?)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let written = self.to.write_all(&self.buffer).await;
        self.buffer.clear();
        written?;
        self.to.flush().await
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
        // Memory is for those who are sent much.
        self.buffer = BytesMut::new();
        Ok(())
    }

    async fn ping(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self, close: &Close) {
        // What was being written when the peer stopped taking it cannot be followed by anything.
        let whole = self.buffer.is_empty();
        if let Some(message) = self.close_notifier.final_message(close).filter(|_| whole)
            && self.put_message(&message).is_ok()
        {
            // Who has gone need not be told.
            let _ = self.flush().await;
        }
        let _ = self.to.shutdown().await;
    }
}
