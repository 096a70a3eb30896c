//! The server's end of a WebSocket. What comes in is read by tungstenite; what goes out, events that are JSON already, is
//! only given its frame heads here and written in one go, which the way of a message through the library would not allow.

use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aaep::Outgoing;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::conversation::{Received, Sink, Source};
use crate::hub::{Close, TOO_LARGE};

/// A read buffer costs memory for as long as a connection is open, and what subscribers say is small.
const READ_BUFFER: usize = 2 * 1024;

/// What may wait to be written before a peer's pings are no longer answered one by one.
const FULL: usize = 16 * 1024;

/// How long a peer that was told the end has to end its side. To cut it off sooner could take from it what it was told.
const LINGER: Duration = Duration::from_secs(1);

/// The bytes of a connection, and what the protocol knows of it.
struct Socket<S> {
    io: S,
    protocol: WebSocketContext,
    /// Whole frames, those of events and those of the protocol, in the order in which they are written.
    out: BytesMut,
}

/// The two halves of a socket. One task must hold both.
pub(super) fn halves<S>(io: S, read: Bytes, limit: usize) -> (In<S>, Out<S>) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit));
    // A copy: it must not keep the large buffer that it was read into.
    let protocol = WebSocketContext::from_partially_read(read.to_vec(), Role::Server, Some(config));
    let shared = Shared(Arc::new(Mutex::new(Socket { io, protocol, out: BytesMut::new() })));
    (In(shared.clone()), Out(shared))
}

/// Both halves are polled by one task, so that nobody ever waits for the lock.
struct Shared<S>(Arc<Mutex<Socket<S>>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<S> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, Socket<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let Socket { io, protocol, out } = self;
        let read = protocol.read(&mut Wire { io, out, cx });
        // A pong goes at once if it can, else with what goes next.
        let _ = self.poll_out(cx);
        Poll::Ready(match read {
            Ok(Message::Text(text)) => Received::Message(Bytes::from(text)),
            Ok(Message::Binary(_) | Message::Frame(_)) => Received::Violation("messages are text frames"),
            Ok(Message::Ping(_) | Message::Pong(_)) => Received::Alive,
            Ok(Message::Close(_)) => Received::End,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(Error::Capacity(_)) => Received::Violation(TOO_LARGE),
            Err(Error::Utf8(_)) => Received::Violation("the message is not UTF-8"),
            Err(Error::Protocol(_)) => Received::Violation("the frame is malformed"),
            Err(_) => Received::End,
        })
    }

    /// Gives the protocol its turn to speak.
    fn say(&mut self, cx: &mut Context<'_>, message: Option<Message>) -> Result<(), Error> {
        let Socket { io, protocol, out } = self;
        let mut wire = Wire { io, out, cx };
        if let Some(message) = message {
            protocol.write(&mut wire, message)?;
        }
        protocol.flush(&mut wire)
    }

    /// Writes all that waits.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.out.has_remaining() {
                let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.out))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.out.advance(written);
            }
            // An idle connection keeps no buffer.
            self.out = BytesMut::new();
            // What the protocol had to hold back has room now. If it has ended there is nothing.
            let _ = self.say(cx, None);
            if self.out.is_empty() {
                return Pin::new(&mut self.io).poll_flush(cx);
            }
        }
    }
}

/// A connection as tungstenite sees it: what cannot be done at once would block.
struct Wire<'a, 'b, S> {
    io: &'a mut S,
    out: &'a mut BytesMut,
    cx: &'a mut Context<'b>,
}

impl<S: AsyncRead + Unpin> Read for Wire<'_, '_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        match Pin::new(&mut *self.io).poll_read(self.cx, &mut into) {
            Poll::Ready(result) => result.map(|()| into.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Frames are taken whole, so that none ever comes to stand within another.
impl<S> Write for Wire<'_, '_, S> {
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        if self.out.len() >= FULL {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.out.extend_from_slice(frame);
        Ok(frame.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The half that hears.
pub(super) struct In<S>(Shared<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Source for In<S> {
    fn next(&mut self) -> impl Future<Output = Received> + Send {
        poll_fn(|cx| self.0.lock().poll_next(cx))
    }
}

/// The half that speaks.
pub(super) struct Out<S>(Shared<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Out<S> {
    async fn say(&mut self, message: Message) -> io::Result<()> {
        let mut message = Some(message);
        poll_fn(|cx| {
            let mut socket = self.0.lock();
            if let Some(message) = message.take() {
                // If it is held back it goes later; if the protocol has ended it need not go.
                let _ = socket.say(cx, Some(message));
            }
            socket.poll_out(cx)
        })
        .await
    }

    /// Waits until the peer has ended its side.
    async fn linger(&mut self) {
        let mut ignored = [0; 256];
        poll_fn(|cx| {
            let io = &mut self.0.lock().io;
            let _ = ready!(Pin::new(&mut *io).poll_shutdown(cx));
            loop {
                let mut into = ReadBuf::new(&mut ignored);
                match ready!(Pin::new(&mut *io).poll_read(cx, &mut into)) {
                    Ok(()) if !into.filled().is_empty() => {}
                    _ => return Poll::Ready(()),
                }
            }
        })
        .await;
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Sink for Out<S> {
    async fn send(&mut self, batch: &[Outgoing]) -> io::Result<()> {
        {
            let out = &mut self.0.lock().out;
            out.reserve(batch.iter().map(size).sum());
            for item in batch {
                match item {
                    Outgoing::Event(frame) => put_text(out, frame.json())?,
                    Outgoing::Message(message) => put_text(out, &serde_json::to_vec(&**message)?)?,
                    Outgoing::Closed(_) => {}
                }
            }
        }
        poll_fn(|cx| self.0.lock().poll_out(cx)).await
    }

    async fn ping(&mut self) -> io::Result<()> {
        self.say(Message::Ping(Bytes::new())).await
    }

    async fn close(&mut self, close: &Close) {
        // A close frame holds 123 bytes of reason.
        let mut reason = close.reason.clone();
        while reason.len() > 123 {
            reason.pop();
        }
        let frame = CloseFrame { code: close.code.into(), reason: reason.into() };
        // Who has gone need not be told.
        if self.say(Message::Close(Some(frame))).await.is_ok() {
            let _ = tokio::time::timeout(LINGER, self.linger()).await;
        }
    }
}

/// About what an item takes.
fn size(item: &Outgoing) -> usize {
    match item {
        Outgoing::Event(frame) => frame.json().len() + 10,
        Outgoing::Message(_) | Outgoing::Closed(_) => 0,
    }
}

fn put_text(out: &mut BytesMut, json: &[u8]) -> io::Result<()> {
    let head = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
    head.format(json.len() as u64, &mut (&mut *out).writer()).map_err(io::Error::other)?;
    out.put_slice(json);
    Ok(())
}
