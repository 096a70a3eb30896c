//! The rest of a chunked HTTP/1.1 response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::EventStream;

/// Writes the stream in chunks, until it ends or the reader closes the connection.
pub(super) async fn write_chunked(
    mut connection: impl AsyncRead + AsyncWrite + Unpin,
    mut stream: Box<EventStream>,
    write_timeout: Duration,
) -> io::Result<()> {
    loop {
        let next = std::future::poll_fn(|cx| {
            if let Poll::Ready(end) = poll_end(&mut connection, cx) {
                return Poll::Ready(Err(end));
            }
            Pin::new(&mut *stream).poll_frame(cx).map(Ok)
        });
        let Some(Ok(frame)) = next.await? else { break };
        let bytes = frame.into_data().unwrap_or_default();
        let size = Bytes::from(format!("{:x}\r\n", bytes.len()));
        let chunk = size.chain(bytes).chain(&b"\r\n"[..]);
        tokio::time::timeout(write_timeout, write(&mut connection, chunk)).await??;
    }
    tokio::time::timeout(write_timeout, write(&mut connection, &b"0\r\n\r\n"[..])).await??;
    connection.shutdown().await
}

async fn write(connection: &mut (impl AsyncWrite + Unpin), mut bytes: impl Buf) -> io::Result<()> {
    connection.write_all_buf(&mut bytes).await?;
    connection.flush().await
}

/// Ready when the reader has closed the connection. Bytes that it sends are discarded: no request can follow here.
fn poll_end(connection: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<io::Error> {
    let mut ignored = [0; 256];
    loop {
        let mut into = ReadBuf::new(&mut ignored);
        match ready!(Pin::new(&mut *connection).poll_read(cx, &mut into)) {
            Ok(()) if into.filled().is_empty() => return Poll::Ready(io::ErrorKind::UnexpectedEof.into()),
            Ok(()) => {}
            Err(error) => return Poll::Ready(error),
        }
    }
}
