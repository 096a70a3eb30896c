//! Rate limit of HTTP/2 control frames: pings, settings, resets. They cost the peer nothing, and hyper answers every one of
//! them, so they are counted as they are read. HTTP/1 connections are not affected.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::admission::rate::{ControlFrameAction, ControlFrameRate};
use crate::close::Violation;

/// The first bytes of every HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame head.
const FRAME_HEAD_BYTES: usize = 9;

/// A larger write carries more than responses to control frames. Clients that measure the connection send a ping for data
/// they receive, so each such write allows one more frame.
const MAX_CONTROL_WRITE_BYTES: usize = 64;

const DATA: u8 = 0;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The position of the next byte in the stream of frames.
#[derive(Debug)]
enum FramePosition {
    /// In the preface, after this many bytes.
    Preface(usize),
    /// In a frame head, after this many bytes.
    Head([u8; FRAME_HEAD_BYTES], usize),
    /// In a frame payload, with this many bytes left.
    Payload(usize),
    /// The connection is not HTTP/2.
    Other,
}

impl FramePosition {
    /// Advances over bytes and returns the number of control frame heads completed in them.
    fn advance(&mut self, mut bytes: &[u8]) -> usize {
        let mut count = 0;
        while !bytes.is_empty() {
            let taken = match self {
                FramePosition::Other => return count,
                FramePosition::Preface(have) => {
                    let part = bytes.len().min(PREFACE.len() - *have);
                    if bytes[..part] != PREFACE[*have..*have + part] {
                        *self = FramePosition::Other;
                        return count;
                    }
                    *have += part;
                    if *have == PREFACE.len() {
                        *self = FramePosition::Head([0; FRAME_HEAD_BYTES], 0);
                    }
                    part
                }
                FramePosition::Head(head, have) => {
                    let part = bytes.len().min(FRAME_HEAD_BYTES - *have);
                    head[*have..*have + part].copy_from_slice(&bytes[..part]);
                    *have += part;
                    if *have == FRAME_HEAD_BYTES {
                        count += usize::from(is_control(head));
                        *self = FramePosition::after(head);
                    }
                    part
                }
                FramePosition::Payload(left) => {
                    let part = bytes.len().min(*left);
                    *left -= part;
                    if *left == 0 {
                        *self = FramePosition::Head([0; FRAME_HEAD_BYTES], 0);
                    }
                    part
                }
            };
            bytes = &bytes[taken..];
        }
        count
    }

    fn after(head: &[u8; FRAME_HEAD_BYTES]) -> FramePosition {
        match length(head) {
            0 => FramePosition::Head([0; FRAME_HEAD_BYTES], 0),
            length => FramePosition::Payload(length),
        }
    }
}

fn length(head: &[u8; FRAME_HEAD_BYTES]) -> usize {
    u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize
}

/// Returns whether a frame carries no data.
fn is_control(head: &[u8; FRAME_HEAD_BYTES]) -> bool {
    let (kind, flags) = (head[3], head[4]);
    match kind {
        PRIORITY | RST_STREAM | SETTINGS | PING => true,
        DATA => length(head) == 0 && flags & END_STREAM == 0,
        CONTINUATION => length(head) == 0 && flags & END_HEADERS == 0,
        _ => false,
    }
}

/// A connection that keeps control frames within their rate: above it, reads pause, and if the peer goes on, reading
/// fails.
pub(crate) struct Http2FrameLimit<S> {
    io: S,
    position: FramePosition,
    frames: ControlFrameRate,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> Http2FrameLimit<S> {
    pub(crate) fn new(io: S) -> Http2FrameLimit<S> {
        Http2FrameLimit { io, position: FramePosition::Preface(0), frames: ControlFrameRate::new(), pause: None }
    }

    fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut pause = std::time::Duration::ZERO;
        for _ in 0..self.position.advance(bytes) {
            match self.frames.count() {
                ControlFrameAction::Pass => {}
                ControlFrameAction::Pause(more) => pause += more,
                ControlFrameAction::Excessive => {
                    return Err(io::Error::other(Violation::TooManyControlFrames.as_str()));
                }
            }
        }
        if !pause.is_zero() {
            self.pause = Some(Box::pin(tokio::time::sleep(pause)));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Http2FrameLimit<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, into))?;
        if matches!(self.position, FramePosition::Other) {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(self.count(&into.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> Http2FrameLimit<S> {
    fn wrote(&mut self, bytes: usize) {
        if bytes > MAX_CONTROL_WRITE_BYTES {
            self.frames.allow_one();
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Http2FrameLimit<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, parts))?;
        self.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        [&head[..], payload].concat()
    }

    #[test]
    fn control_frames_are_counted_in_reads_of_any_size() {
        let headers = frame(1, END_HEADERS, &[7; 300]);
        let bytes = [
            PREFACE,
            &frame(SETTINGS, 0, &[]),
            &headers,
            &frame(PING, 0, &[1; 8]),
            &frame(DATA, 0, &[]),
            &frame(DATA, END_STREAM, &[]),
            &frame(DATA, 0, b"bytes that look like \x00\x00\x08\x06\x00"),
            &frame(RST_STREAM, 0, &[0; 4]),
        ]
        .concat();
        for size in [1, 2, 7, 9, 64, bytes.len()] {
            let mut position = FramePosition::Preface(0);
            let count: usize = bytes.chunks(size).map(|chunk| position.advance(chunk)).sum();
            assert_eq!(count, 4, "in pieces of {size}");
            assert!(matches!(position, FramePosition::Head(_, 0)), "{position:?}");
        }
    }

    #[test]
    fn other_protocols_are_not_counted() {
        let mut position = FramePosition::Preface(0);
        assert_eq!(position.advance(b"GET / HTTP/1.1\r\n\r\n"), 0);
        assert_eq!(position.advance(&[&b"PRI"[..], &frame(PING, 0, &[1; 8])].concat()), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_is_slowed_down_and_then_an_error() {
        let (near, mut far) = duplex(64);
        let mut limited = Http2FrameLimit::new(near);
        let start = Instant::now();
        let flood = async {
            far.write_all(PREFACE).await.unwrap();
            while far.write_all(&frame(PING, 0, &[1; 8])).await.is_ok() {}
        };
        let read = async {
            let mut buffer = [0; 64];
            loop {
                if let Err(error) = limited.read(&mut buffer).await {
                    return error.to_string();
                }
            }
        };
        let error = tokio::select! {
            error = read => error,
            () = flood => String::new(),
        };
        assert_eq!(error, Violation::TooManyControlFrames.as_str());
        assert!(start.elapsed().as_secs() >= 9, "{:?}", start.elapsed());
    }
}
