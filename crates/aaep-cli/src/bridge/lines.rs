//! Lines of a peer: read with a bound, and written in batches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aaep_bridge::strict::MAX_LINE_BYTES;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many lines wait between a reader and the driver.
const QUEUED_LINES: usize = 16;

/// How many lines may wait for a peer before nothing more is read for it.
const MAX_BACKLOG: usize = 64;

/// How many lines are written at once.
const BATCH_LINES: usize = 32;

/// Reads lines without their line breaks. The channel closes at the end of the input. Of a line that is too long, only so
/// much is kept that the bridge can tell.
pub(crate) fn read_lines(input: impl AsyncRead + Unpin + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(QUEUED_LINES);
    tokio::spawn(async move {
        let mut input = BufReader::with_capacity(64 * 1024, input);
        while let Ok(Some(line)) = read_line(&mut input).await {
            if sender.send(line).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads one line. Returns `None` at the end of the input.
async fn read_line(input: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let buffer = input.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(if line.is_empty() { None } else { Some(line) });
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = (MAX_LINE_BYTES + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

/// Where lines to a peer wait until they are written.
#[derive(Clone, Debug)]
pub(crate) struct LineSender {
    queue: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl LineSender {
    /// Makes a sender and the queue that its lines wait in.
    pub(crate) fn new() -> (LineSender, LineQueue) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        (LineSender { queue: sender, waiting: waiting.clone() }, LineQueue { queue: receiver, waiting })
    }

    /// Sends a line. After the peer has ended it is dropped, which the end of its own lines reports.
    pub(crate) fn send(&self, line: Vec<u8>) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.queue.send(line);
    }

    /// Whether so few lines wait that more may be read for this peer.
    pub(crate) fn has_capacity(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < MAX_BACKLOG
    }
}

/// Lines that wait for a peer.
pub(crate) struct LineQueue {
    queue: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl LineQueue {
    /// Takes the next line. Returns `None` after the sender was dropped.
    pub(crate) async fn recv(&mut self) -> Option<Vec<u8>> {
        let line = self.queue.recv().await?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(line)
    }

    /// Writes the lines until the sender is dropped or the peer has closed its input.
    pub(crate) fn write_to(mut self, mut output: impl AsyncWrite + Unpin + Send + 'static) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut batch = Vec::with_capacity(BATCH_LINES);
            while self.queue.recv_many(&mut batch, BATCH_LINES).await > 0 {
                let count = batch.len();
                let mut bytes = Vec::with_capacity(batch.iter().map(|line| line.len() + 1).sum());
                for line in batch.drain(..) {
                    bytes.extend_from_slice(&line);
                    bytes.push(b'\n');
                }
                let written = output.write_all(&bytes).await;
                self.waiting.fetch_sub(count, Ordering::Relaxed);
                if written.is_err() || output.flush().await.is_err() {
                    return;
                }
            }
            let _ = output.shutdown().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_read_without_breaks_and_with_a_bound() {
        let mut input = vec![b'x'; MAX_LINE_BYTES + 100];
        input.extend_from_slice(b"\nshort\r\n\nlast");
        let mut lines = read_lines(std::io::Cursor::new(input));
        assert_eq!(lines.recv().await.map(|line| line.len()), Some(MAX_LINE_BYTES + 1), "enough to be refused");
        let mut rest = Vec::new();
        while let Some(line) = lines.recv().await {
            rest.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(rest, ["short\r", "", "last"]);
    }

    #[tokio::test]
    async fn lines_are_written_in_order_with_breaks() {
        let (sender, queue) = LineSender::new();
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let writing = queue.write_to(ours);
        for number in 0..100 {
            sender.send(number.to_string().into_bytes());
        }
        drop(sender);
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut text).await.unwrap();
        writing.await.unwrap();
        assert_eq!(text.lines().count(), 100);
        assert!(text.starts_with("0\n1\n2\n"));
    }
}
