//! The server's end of a WebSocket. What comes in is read by tungstenite; what goes out, events that are JSON already, only
//! gets its frame heads here. Message by message through the library it took a third of the server's time.

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

use crate::admission::message_memory::{MessageMemory, NO_MEMORY};
use crate::close::{Close, TOO_LARGE};
use crate::connection::{Received, Sink, Source};

/// A read buffer costs memory for as long as a connection is open, and what subscribers say is small.
const READ_BUFFER_BYTES: usize = 2 * 1024;

/// What may wait, here and again in tungstenite, before a peer's pings are no longer answered one by one.
const MAX_QUEUED_BYTES: usize = 16 * 1024;

/// How long a peer that was told the end has to end its side. To cut it off sooner could take from it what it was told.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The bytes of a connection, and what the protocol knows of it.
struct WebSocketState<S> {
    io: S,
    protocol: WebSocketContext,
    /// Whole frames, those of events and those of the protocol, in the order in which they are written.
    out: BytesMut,
    /// Counts the bytes of the message that is being received.
    unfinished: MessageMemory,
}

/// The two halves of a socket. One task must hold both.
pub(super) fn halves<S>(
    io: S,
    read: Bytes,
    limit: usize,
    unfinished: MessageMemory,
) -> (WebSocketSource<S>, WebSocketSink<S>) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_QUEUED_BYTES)
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit));
    // A copy: it must not keep the large buffer that it was read into.
    let protocol = WebSocketContext::from_partially_read(read.to_vec(), Role::Server, Some(config));
    let shared = Arc::new(Mutex::new(WebSocketState { io, protocol, out: BytesMut::new(), unfinished }));
    (WebSocketSource(shared.clone()), WebSocketSink(shared))
}

/// Both halves are polled by one task, so that nobody ever waits for the lock.
fn lock<S>(shared: &Mutex<WebSocketState<S>>) -> MutexGuard<'_, WebSocketState<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketState<S> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let WebSocketState { io, protocol, out, .. } = self;
        let read = protocol.read(&mut SyncIo { io, out, cx, room: MAX_QUEUED_BYTES });
        // A pong goes at once if it can, else with what goes next.
        let _ = self.poll_out(cx);
        match &read {
            Ok(Message::Ping(payload) | Message::Pong(payload)) => self.unfinished.skip_control_frame(payload.len()),
            Ok(_) => self.unfinished.finish(),
            Err(_) => {}
        }
        Poll::Ready(match read {
            Ok(Message::Text(text)) => Received::Message(Bytes::from(text)),
            Ok(Message::Binary(_) | Message::Frame(_)) => Received::Violation("messages are text frames"),
            Ok(Message::Ping(_) | Message::Pong(_)) => Received::Alive,
            Ok(Message::Close(_)) => Received::End,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::OutOfMemory => Received::Violation(NO_MEMORY),
            Err(Error::Capacity(_)) => Received::Violation(TOO_LARGE),
            Err(Error::Utf8(_)) => Received::Violation("the message is not UTF-8"),
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Received::End,
            Err(Error::Protocol(_)) => Received::Violation("the frame is malformed"),
            Err(_) => Received::End,
        })
    }

    /// Puts this, after what the protocol held back, behind all that waits.
    fn put(&mut self, cx: &mut Context<'_>, message: Option<Message>) -> Result<(), Error> {
        let WebSocketState { io, protocol, out, .. } = self;
        let mut wire = SyncIo { io, out, cx, room: usize::MAX };
        // The first time makes room for a pong that had none, so that it goes the second time and not after a close.
        protocol.flush(&mut wire)?;
        protocol.flush(&mut wire)?;
        let Some(message) = message else { return Ok(()) };
        protocol.write(&mut wire, message)?;
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
            let _ = self.put(cx, None);
            if self.out.is_empty() {
                return Pin::new(&mut self.io).poll_flush(cx);
            }
        }
    }
}

/// A connection as tungstenite sees it: what cannot be done at once would block.
struct SyncIo<'a, 'b, S> {
    io: &'a mut S,
    out: &'a mut BytesMut,
    cx: &'a mut Context<'b>,
    /// How much may wait.
    room: usize,
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

/// Frames are taken whole, so that none ever comes to stand within another.
impl<S> Write for SyncIo<'_, '_, S> {
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        if self.out.len() >= self.room {
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
pub(super) struct WebSocketSource<S>(Arc<Mutex<WebSocketState<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Source for WebSocketSource<S> {
    fn next(&mut self) -> impl Future<Output = Received> + Send {
        poll_fn(|cx| lock(&self.0).poll_next(cx))
    }
}

/// The half that speaks.
pub(super) struct WebSocketSink<S>(Arc<Mutex<WebSocketState<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> WebSocketSink<S> {
    async fn say(&mut self, message: Message) -> io::Result<()> {
        let mut message = Some(message);
        poll_fn(|cx| {
            let mut socket = lock(&self.0);
            if let Some(message) = message.take() {
                // If the protocol has ended it need not go.
                let _ = socket.put(cx, Some(message));
            }
            socket.poll_out(cx)
        })
        .await
    }

    /// Ends this side, and waits until the peer has ended its own.
    async fn linger(&mut self) -> io::Result<()> {
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
            out.reserve(batch.iter().map(size).sum());
            for item in batch {
                match item {
                    Outbound::Event(frame) => put_text(out, frame.json())?,
                    Outbound::Message(message) => put_text(out, &serde_json::to_vec(&**message)?)?,
                    Outbound::Closed(_) => {}
                }
            }
        }
        poll_fn(|cx| lock(&self.0).poll_out(cx)).await
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
        let frame = CloseFrame { code: close.code.as_u16().into(), reason: reason.into() };
        // Who has gone need not be told.
        if self.say(Message::Close(Some(frame))).await.is_ok() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.linger()).await;
        }
    }
}

/// About what an item takes.
fn size(item: &Outbound) -> usize {
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

    /// A peer, and the halves that it speaks with. The wire takes so many bytes before someone must read.
    async fn pair(
        wire: usize,
    ) -> (WebSocketStream<DuplexStream>, WebSocketSource<DuplexStream>, WebSocketSink<DuplexStream>) {
        let (near, far) = duplex(wire);
        let (source, sink) = halves(near, Bytes::new(), LIMIT, unlimited());
        (WebSocketStream::from_raw_socket(far, Role::Client, None).await, source, sink)
    }

    /// A message of about this length.
    fn message(length: usize) -> Outbound {
        let why = "x".repeat(length);
        let json = format!(r#"{{"type":"subscription.close","subscription_id":"sub_1","correlation_id":"{why}"}}"#);
        Outbound::Message(Box::new(Said::parse(json.as_bytes()).unwrap()))
    }

    /// A text frame as a client sends it, with a mask of zeros.
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

    /// The lengths are of all three forms that a frame's head has.
    #[tokio::test]
    async fn frames_of_every_length_arrive_whole() {
        for length in [1, 60_000, 70_000] {
            let (mut peer, _source, mut sink) = pair(256).await;
            let batch = [message(length), message(length)];
            let reading = async { [text(&mut peer).await, text(&mut peer).await] };
            let (sent, came) = tokio::join!(sink.send(&batch), reading);
            sent.unwrap();
            assert_eq!(came, batch.map(|message| serde_json::to_string(&said(message)).unwrap()));
        }
    }

    /// The wire holds less than the message, and the pings come while it is under way.
    #[tokio::test]
    async fn a_pong_never_stands_within_another_frame() {
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
    async fn one_who_pings_and_never_reads_takes_no_memory() {
        let (mut peer, mut source, mut sink) = pair(64).await;
        // What is written is taken only as fast as the other side hears it, and it answers into a wire that is full.
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
    async fn one_who_goes_without_a_word_has_broken_no_rule() {
        let (peer, mut source, _sink) = pair(64).await;
        drop(peer);
        assert!(matches!(source.next().await, Received::End));
    }

    #[tokio::test]
    async fn what_came_with_the_request_is_heard() {
        let (near, mut far) = duplex(1024);
        let bytes = [masked("early"), masked("la")].concat();
        let (mut source, _sink) = halves(near, Bytes::from(bytes[..15].to_vec()), LIMIT, unlimited());
        far.write_all(&bytes[15..]).await.unwrap();
        assert!(matches!(source.next().await, Received::Message(text) if text == "early"));
        assert!(matches!(source.next().await, Received::Message(text) if text == "la"));
    }

    #[tokio::test]
    async fn what_breaks_the_rules_is_named() {
        let cases: [(&[u8], &str); 5] = [
            (&[0x82, 0x81, 0, 0, 0, 0, b'x'], "messages are text frames"),
            (&[0x81, 0x81, 0, 0, 0, 0, 0xFF], "the message is not UTF-8"),
            (&[0x81, 0x01, b'x'], "the frame is malformed"),
            (&[0xC1, 0x81, 0, 0, 0, 0, b'x'], "the frame is malformed"),
            (&[0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0x86, 0xA1, 0, 0, 0, 0], TOO_LARGE),
        ];
        for (bytes, expected) in cases {
            let (near, _far) = duplex(1024);
            let (mut source, _sink) = halves(near, Bytes::copy_from_slice(bytes), LIMIT, unlimited());
            let heard = source.next().await;
            assert!(matches!(heard, Received::Violation(what) if what == expected), "{heard:?} for {bytes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_is_told_with_its_reason() {
        let (mut peer, _source, mut sink) = pair(1024).await;
        let close = Close::new(CloseCode::Violation, "ä".repeat(100));
        let (_, heard) = tokio::join!(sink.close(&close), peer.next());
        let Some(Ok(Message::Close(Some(frame)))) = heard else { panic!("{heard:?}") };
        assert_eq!((u16::from(frame.code), frame.reason.as_str()), (4004, &*"ä".repeat(61)), "whole letters only");
    }
}
