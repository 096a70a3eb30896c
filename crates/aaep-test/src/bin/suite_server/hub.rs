//! The one connection that all HTTP requests share, because nothing links a POST to a stream.
//!
//! One task owns it. The connection begins with the first POST or stream and ends with the last stream, so that the
//! next run of the suite finds nothing of the last one. Messages are queued until a stream is open: the first POST of
//! the suite arrives before its stream. All streams receive the same messages.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aaep::Producer;
use axum::body::Bytes;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures_util::Stream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::connection::{NotAnObject, SuiteConnection};

/// Maximum number of messages queued for one stream. A stream with a full queue is closed.
const MAX_QUEUED_MESSAGES: usize = 1024;

/// Maximum number of concurrent streams.
const MAX_STREAMS: usize = 32;

/// Maximum number of queued commands. Further senders wait.
const MAX_COMMANDS: usize = 16;

/// How long a connection without a stream is kept.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a POST waits for streams to poll their sockets.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval between keep-alive comments. The client disconnects after 30 seconds without data.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

enum HubCommand {
    Post(Bytes, oneshot::Sender<Result<(), NotAnObject>>),
    Attach(oneshot::Sender<SuiteStream>),
}

/// A handle to the task. The task ends when the last handle is dropped.
#[derive(Clone)]
pub(super) struct SuiteHub {
    commands: mpsc::Sender<HubCommand>,
}

impl SuiteHub {
    pub(super) fn start(producer: Producer) -> SuiteHub {
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let state =
            HubState { producer, connection: None, streams: Vec::new(), stream_closed: Arc::default(), deadline: None };
        tokio::spawn(state.run(receiver));
        SuiteHub { commands }
    }

    /// Handles a message. Returns `None` if the producer cannot serve.
    pub(super) async fn post(&self, document: Bytes) -> Option<Result<(), NotAnObject>> {
        let (done, result) = oneshot::channel();
        self.commands.send(HubCommand::Post(document, done)).await.ok()?;
        result.await.ok()
    }

    /// Opens a stream. Returns `None` if the producer cannot serve.
    pub(super) async fn attach(&self) -> Option<SuiteStream> {
        let (done, stream) = oneshot::channel();
        self.commands.send(HubCommand::Attach(done)).await.ok()?;
        stream.await.ok()
    }
}

/// The state of the task.
struct HubState {
    producer: Producer,
    connection: Option<SuiteConnection>,
    streams: Vec<mpsc::Sender<StreamItem>>,
    /// Notified when a stream is dropped.
    stream_closed: Arc<Notify>,
    /// When a connection without a stream is closed.
    deadline: Option<Instant>,
}

impl HubState {
    async fn run(mut self, mut commands: mpsc::Receiver<HubCommand>) {
        loop {
            let has_streams = !self.streams.is_empty();
            tokio::select! {
                biased;
                () = self.stream_closed.notified() => self.remove_closed_streams(),
                command = commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return,
                },
                text = next(&mut self.connection), if has_streams => self.send(text),
                () = sleep_until(self.deadline) => self.end(),
            }
        }
    }

    async fn handle_command(&mut self, command: HubCommand) {
        if matches!(command, HubCommand::Post(..)) {
            self.probe().await;
        }
        self.remove_closed_streams();
        if self.connection.is_none() {
            self.connection = SuiteConnection::open(self.producer.clone()).await;
        }
        let Some(connection) = &mut self.connection else { return };
        match command {
            HubCommand::Post(document, done) => {
                // The caller may have disconnected; the message is still handled.
                let _ = done.send(connection.handle_message(&document).await);
            }
            HubCommand::Attach(done) => {
                let (sender, items) = mpsc::channel(MAX_QUEUED_MESSAGES);
                let attached = SuiteStream { items, probed: None, _on_close: NotifyOnDrop(self.stream_closed.clone()) };
                if self.streams.len() < MAX_STREAMS && done.send(attached).is_ok() {
                    self.streams.push(sender);
                }
            }
        }
        self.deadline = self.streams.is_empty().then(|| Instant::now() + STREAM_TIMEOUT);
    }

    fn send(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.end() };
        self.streams.retain(|stream| stream.try_send(StreamItem::Text(text.clone())).is_ok());
        if self.streams.is_empty() {
            self.end();
        }
    }

    /// Makes every stream poll its socket. The first POST of a run may arrive when the kernel knows that the stream of
    /// the last run is closed but this process does not, and its session must not be sent there.
    async fn probe(&self) {
        let mut probes = Vec::new();
        for stream in &self.streams {
            let (taken, probe) = oneshot::channel();
            if stream.try_send(StreamItem::Probe(taken)).is_ok() {
                probes.push(probe);
            }
        }
        // A closed stream drops its probe; a stream that is not read does not answer.
        let _ = tokio::time::timeout(PROBE_TIMEOUT, futures_util::future::join_all(probes)).await;
    }

    /// Removes closed streams. The connection ends with the last one.
    fn remove_closed_streams(&mut self) {
        let before = self.streams.len();
        self.streams.retain(|stream| !stream.is_closed());
        if before > 0 && self.streams.is_empty() {
            self.end();
        }
    }

    fn end(&mut self) {
        self.connection = None;
        self.streams.clear();
        self.deadline = None;
    }
}

async fn next(connection: &mut Option<SuiteConnection>) -> Option<String> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// An item of a stream.
enum StreamItem {
    Text(String),
    /// Answered when the stream is polled once more.
    Probe(oneshot::Sender<()>),
}

/// A stream of messages. `items` is declared first, so that it is closed before the task is notified.
pub(super) struct SuiteStream {
    items: mpsc::Receiver<StreamItem>,
    probed: Option<oneshot::Sender<()>>,
    _on_close: NotifyOnDrop,
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Stream for SuiteStream {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(probe) = self.probed.take() {
            // The receiver may have timed out.
            let _ = probe.send(());
        }
        match ready!(self.items.poll_recv(cx)) {
            Some(StreamItem::Text(text)) => Poll::Ready(Some(Ok(Event::default().data(one_line(&text))))),
            Some(StreamItem::Probe(probe)) => {
                // The HTTP server polls its socket before it polls this body. If the client has disconnected, this
                // is not polled again.
                self.probed = Some(probe);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }
}

/// Returns a response of unnamed one-line events, with comments to keep the connection alive.
pub(super) fn sse(stream: SuiteStream) -> Sse<KeepAliveStream<SuiteStream>> {
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
}

/// Escapes the characters that the client takes for line ends and that JSON does not escape by itself.
pub(super) fn one_line(json: &str) -> String {
    json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").replace('\u{85}', "\\u0085")
}
