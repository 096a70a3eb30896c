//! The server's end of a WebSocket. tungstenite reads; outgoing events, which are JSON already, get their frame heads here.
//! Sending them through the library, message by message, took a third of the server's time.

use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aaep::transport::Outbound;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::admission::message_memory::MessageMemory;
use crate::close::{Close, Violation};
use crate::connection::{Received, Sink, Source};

/// A read buffer costs memory while a connection is open, and messages of subscribers are small.
const READ_BUFFER_BYTES: usize = 2 * 1024;

/// Bytes queued here, and again in tungstenite, before pings of the peer are no longer answered one by one.
const MAX_QUEUED_BYTES: usize = 16 * 1024;

/// How long to wait for the peer to close its side. Dropping the connection sooner could lose the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The connection and the state of the WebSocket protocol.
struct WebSocketState<S> {
    io: S,
    protocol: WebSocketContext,
    /// Whole frames, of events and of the protocol, in the order in which they are written.
    out: BytesMut,
    /// Memory of the message that is being received.
    memory: MessageMemory,
}

/// Returns the two halves of a WebSocket. One task must hold both.
pub(super) fn halves<S>(
    io: S,
    read: Bytes,
    limit: usize,
    memory: MessageMemory,
) -> (WebSocketSource<S>, WebSocketSink<S>) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_QUEUED_BYTES)
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit));
    // Copied, so that the large buffer it was read into is freed.
    let protocol = WebSocketContext::from_partially_read(read.to_vec(), Role::Server, Some(config));
    let shared = Arc::new(Mutex::new(WebSocketState { io, protocol, out: BytesMut::new(), memory }));
    (WebSocketSource(shared.clone()), WebSocketSink(shared))
}

/// Both halves are polled by one task, so the lock is never contended.
fn lock<S>(shared: &Mutex<WebSocketState<S>>) -> MutexGuard<'_, WebSocketState<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketState<S> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let WebSocketState { io, protocol, out, .. } = self;
        let read = protocol.read(&mut SyncIo { io, out, cx, max_queued: MAX_QUEUED_BYTES });
        // A pong is written at once if possible, else with the next write.
        let _ = self.poll_write_queued(cx);
        match &read {
            Ok(Message::Ping(payload) | Message::Pong(payload)) => self.memory.skip_control_frame(payload.len()),
            Ok(_) => self.memory.finish(),
            Err(_) => {}
        }
        Poll::Ready(match read {
            Ok(Message::Text(text)) => Received::Message(Bytes::from(text)),
            Ok(Message::Binary(_) | Message::Frame(_)) => {
                Received::Violation(Violation::Other("messages are text frames"))
            }
            Ok(Message::Ping(_) | Message::Pong(_)) => Received::Alive,
            Ok(Message::Close(_)) => Received::End,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::OutOfMemory => {
                Received::Violation(Violation::OutOfMemory)
            }
            Err(Error::Capacity(_)) => Received::Violation(Violation::MessageTooLarge),
            Err(Error::Utf8(_)) => Received::Violation(Violation::Other("the message is not UTF-8")),
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Received::End,
            Err(Error::Protocol(_)) => Received::Violation(Violation::Other("the frame is malformed")),
            Err(_) => Received::End,
        })
    }

    /// Queues what the protocol held back, and then a message.
    fn queue(&mut self, cx: &mut Context<'_>, message: Option<Message>) -> Result<(), Error> {
        let WebSocketState { io, protocol, out, .. } = self;
        let mut sync_io = SyncIo { io, out, cx, max_queued: usize::MAX };
        // The first flush makes room for a pong that was held back; the second queues it before a close.
        protocol.flush(&mut sync_io)?;
        protocol.flush(&mut sync_io)?;
        let Some(message) = message else { return Ok(()) };
        protocol.write(&mut sync_io, message)?;
        protocol.flush(&mut sync_io)
    }

    /// Writes all queued frames.
    fn poll_write_queued(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
            // There is room now for what the protocol held back. Fails only if the protocol has ended.
            let _ = self.queue(cx, None);
            if self.out.is_empty() {
                return Pin::new(&mut self.io).poll_flush(cx);
            }
        }
    }
}

/// The connection as tungstenite sees it: an operation that is not ready returns `WouldBlock`.
struct SyncIo<'a, 'b, S> {
    io: &'a mut S,
    out: &'a mut BytesMut,
    cx: &'a mut Context<'b>,
    /// Bytes that may be queued.
    max_queued: usize,
}

impl<S: AsyncRead + Unpin> Read for SyncIo<'_, '_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        match Pin::new(&mut *self.io).poll_read(self.cx, &mut into) {
            Poll::Ready(result) => result.map(|()| into.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Accepts whole frames only, so that frames never interleave.
impl<S> Write for SyncIo<'_, '_, S> {
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        if self.out.len() >= self.max_queued {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.out.extend_from_slice(frame);
        Ok(frame.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The read half.
pub(super) struct WebSocketSource<S>(Arc<Mutex<WebSocketState<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Source for WebSocketSource<S> {
    fn next(&mut self) -> impl Future<Output = Received> + Send {
        poll_fn(|cx| lock(&self.0).poll_next(cx))
    }
}

/// The write half.
pub(super) struct WebSocketSink<S>(Arc<Mutex<WebSocketState<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> WebSocketSink<S> {
    async fn send_message(&mut self, message: Message) -> io::Result<()> {
        let mut message = Some(message);
        poll_fn(|cx| {
            let mut socket = lock(&self.0);
            if let Some(message) = message.take() {
                // Fails only if the protocol has ended.
                let _ = socket.queue(cx, Some(message));
            }
            socket.poll_write_queued(cx)
        })
        .await
    }

    /// Closes this side, and waits until the peer has closed its own.
    async fn shut_down(&mut self) -> io::Result<()> {
        poll_fn(|cx| Pin::new(&mut lock(&self.0).io).poll_shutdown(cx)).await?;
        let mut ignored = [0; 256];
        loop {
            let mut into = ReadBuf::new(&mut ignored);
            poll_fn(|cx| Pin::new(&mut lock(&self.0).io).poll_read(cx, &mut into)).await?;
            if into.filled().is_empty() {
                return Ok(());
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Sink for WebSocketSink<S> {
    async fn send(&mut self, batch: &[Outbound]) -> io::Result<()> {
        {
            let out = &mut lock(&self.0).out;
            out.reserve(batch.iter().map(frame_size).sum());
            for item in batch {
                match item {
                    Outbound::Event(frame) => put_text(out, frame.json())?,
                    Outbound::Message(message) => put_text(out, &serde_json::to_vec(&**message)?)?,
                    Outbound::Closed(_) => {}
                }
            }
        }
        poll_fn(|cx| lock(&self.0).poll_write_queued(cx)).await
    }

    async fn ping(&mut self) -> io::Result<()> {
        self.send_message(Message::Ping(Bytes::new())).await
    }

    async fn close(&mut self, close: &Close) {
        // A close frame has at most 123 bytes of reason.
        let mut reason = close.reason.clone();
        while reason.len() > 123 {
            reason.pop();
        }
        let frame = CloseFrame { code: close.code.as_u16().into(), reason: reason.into() };
        // Fails if the peer has closed the connection.
        if self.send_message(Message::Close(Some(frame))).await.is_ok() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.shut_down()).await;
        }
    }
}

/// Returns the approximate frame size of an item.
fn frame_size(item: &Outbound) -> usize {
    match item {
        Outbound::Event(frame) => frame.json().len() + 10,
        Outbound::Message(_) | Outbound::Closed(_) => 0,
    }
}

fn put_text(out: &mut BytesMut, json: &[u8]) -> io::Result<()> {
    let head = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
    head.format(json.len() as u64, &mut (&mut *out).writer()).map_err(io::Error::other)?;
    out.put_slice(json);
    Ok(())
}

#[cfg(test)]
mod tests {
    use aaep_proto::message::Message as Said;
    use futures_util::{SinkExt, StreamExt};
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio_tungstenite::WebSocketStream;

    use super::*;
    use crate::admission::memory_budget::{AccountKind, MemoryAccount, MemoryBudget};
    use aaep_proto::binding::CloseCode;

    const LIMIT: usize = 100_000;

    fn unlimited() -> MessageMemory {
        let budget = MemoryBudget::new(usize::MAX, usize::MAX);
        MessageMemory::new(budget.empty(MemoryAccount::new(AccountKind::Subscribe, "local")))
    }

    /// Returns a client and the halves of its server. The connection buffers `capacity` bytes.
    async fn pair(
        capacity: usize,
    ) -> (WebSocketStream<DuplexStream>, WebSocketSource<DuplexStream>, WebSocketSink<DuplexStream>) {
        let (near, far) = duplex(capacity);
        let (source, sink) = halves(near, Bytes::new(), LIMIT, unlimited());
        (WebSocketStream::from_raw_socket(far, Role::Client, None).await, source, sink)
    }

    /// Returns a message of about this length.
    fn message(length: usize) -> Outbound {
        let why = "x".repeat(length);
        let json = format!(r#"{{"type":"subscription.close","subscription_id":"sub_1","correlation_id":"{why}"}}"#);
        Outbound::Message(Box::new(Said::parse(json.as_bytes()).unwrap()))
    }

    /// Returns a text frame of a client, with a mask of zeros.
    fn masked(text: &str) -> Vec<u8> {
        let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        frame
    }

    fn said(message: Outbound) -> Said {
        let Outbound::Message(message) = message else { panic!("no message") };
        *message
    }

    async fn text(peer: &mut WebSocketStream<DuplexStream>) -> String {
        peer.next().await.unwrap().unwrap().into_text().unwrap().to_string()
    }

    /// The lengths cover all three forms of a frame head.
    #[tokio::test]
    async fn frames_of_every_length_are_received() {
        for length in [1, 60_000, 70_000] {
            let (mut peer, _source, mut sink) = pair(256).await;
            let batch = [message(length), message(length)];
            let reading = async { [text(&mut peer).await, text(&mut peer).await] };
            let (sent, came) = tokio::join!(sink.send(&batch), reading);
            sent.unwrap();
            assert_eq!(came, batch.map(|message| serde_json::to_string(&said(message)).unwrap()));
        }
    }

    /// The connection buffers less than the message, and the pings arrive while it is written.
    #[tokio::test]
    async fn pong_never_interleaves_with_another_frame() {
        let (peer, mut source, mut sink) = pair(64).await;
        let (mut speaking, mut reading) = peer.split();
        let pings = async {
            for _ in 0..50 {
                speaking.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
            }
        };
        let read = async {
            let (mut pongs, mut texts) = (0, 0);
            while texts < 2 || pongs == 0 {
                match reading.next().await.unwrap().unwrap() {
                    Message::Text(text) => texts += usize::from(text.len() > 50_000),
                    Message::Pong(payload) => {
                        assert_eq!(payload, &b"there?"[..]);
                        pongs += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        };
        let speak = async {
            sink.send(&[message(50_000)]).await.unwrap();
            sink.send(&[message(50_000)]).await.unwrap();
        };
        let hear = async {
            loop {
                assert!(matches!(source.next().await, Received::Alive));
            }
        };
        tokio::select! {
            _ = async { tokio::join!(pings, read, speak) } => {}
            () = hear => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn peer_that_pings_and_never_reads_uses_no_memory() {
        let (mut peer, mut source, mut sink) = pair(64).await;
        // Each ping is written only when the server reads, and the pongs go into a connection that is full.
        for _ in 0..5_000 {
            let ping = peer.send(Message::Ping(Bytes::from_static(&[7; 120])));
            let (sent, heard) = tokio::join!(ping, source.next());
            sent.unwrap();
            assert!(matches!(heard, Received::Alive));
        }
        let close = Close::new(CloseCode::Violation, "enough");
        let pongs = async {
            let mut pongs = 0;
            while let Some(Ok(Message::Pong(_))) = peer.next().await {
                pongs += 1;
            }
            pongs
        };
        let ((), pongs) = tokio::join!(sink.close(&close), pongs);
        assert!(pongs < 2 * MAX_QUEUED_BYTES / 120 + 10, "{pongs} pongs were kept");
    }

    #[tokio::test]
    async fn lost_connection_is_an_end_not_a_violation() {
        let (peer, mut source, _sink) = pair(64).await;
        drop(peer);
        assert!(matches!(source.next().await, Received::End));
    }

    #[tokio::test]
    async fn bytes_read_with_the_request_are_received() {
        let (near, mut far) = duplex(1024);
        let bytes = [masked("early"), masked("la")].concat();
        let (mut source, _sink) = halves(near, Bytes::from(bytes[..15].to_vec()), LIMIT, unlimited());
        far.write_all(&bytes[15..]).await.unwrap();
        assert!(matches!(source.next().await, Received::Message(text) if text == "early"));
        assert!(matches!(source.next().await, Received::Message(text) if text == "la"));
    }

    #[tokio::test]
    async fn violations_have_their_reason() {
        let cases: [(&[u8], &str); 5] = [
            (&[0x82, 0x81, 0, 0, 0, 0, b'x'], "messages are text frames"),
            (&[0x81, 0x81, 0, 0, 0, 0, 0xFF], "the message is not UTF-8"),
            (&[0x81, 0x01, b'x'], "the frame is malformed"),
            (&[0xC1, 0x81, 0, 0, 0, 0, b'x'], "the frame is malformed"),
            (&[0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0x86, 0xA1, 0, 0, 0, 0], Violation::MessageTooLarge.as_str()),
        ];
        for (bytes, expected) in cases {
            let (near, _far) = duplex(1024);
            let (mut source, _sink) = halves(near, Bytes::copy_from_slice(bytes), LIMIT, unlimited());
            let heard = source.next().await;
            assert!(matches!(heard, Received::Violation(what) if what.as_str() == expected), "{heard:?} for {bytes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn close_frame_has_the_reason() {
        let (mut peer, _source, mut sink) = pair(1024).await;
        let close = Close::new(CloseCode::Violation, "ä".repeat(100));
        let (_, heard) = tokio::join!(sink.close(&close), peer.next());
        let Some(Ok(Message::Close(Some(frame)))) = heard else { panic!("{heard:?}") };
        assert_eq!((u16::from(frame.code), frame.reason.as_str()), (4004, &*"ä".repeat(61)), "whole characters only");
    }
}
