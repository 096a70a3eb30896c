//! Everything that comes over HTTP is one connection: nothing ties a POST to a stream.
//!
//! One task owns it. It begins with the first POST or stream and ends with the last stream, so that the next run of
//! the suite finds nothing of the last one. Until a stream is there, everything waits: the suite's first POST comes
//! before its stream does. Several streams all get the same.

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

use super::connection::{Connection, NotAnObject};

/// Messages that may wait for one stream. One that takes nothing more is closed.
const WAITING: usize = 1024;

/// Streams at once.
const STREAMS: usize = 32;

/// Commands that may wait. Who comes after waits for a place.
const COMMANDS: usize = 16;

/// How long a connection without a stream is kept.
const ALONE: Duration = Duration::from_secs(60);

/// How long a POST waits for streams to look at their sockets.
const PROBE: Duration = Duration::from_secs(1);

/// The client gives up after 30 seconds of silence.
const COMMENT_EVERY: Duration = Duration::from_secs(10);

enum Command {
    Post(Bytes, oneshot::Sender<Result<(), NotAnObject>>),
    Attach(oneshot::Sender<Attached>),
}

/// How handlers reach the task. It ends with the last of these.
#[derive(Clone)]
pub(super) struct Hub {
    commands: mpsc::Sender<Command>,
}

impl Hub {
    pub(super) fn start(producer: Producer) -> Hub {
        let (commands, mailbox) = mpsc::channel(COMMANDS);
        let board = Board { producer, connection: None, streams: Vec::new(), left: Arc::default(), alone: None };
        tokio::spawn(board.run(mailbox));
        Hub { commands }
    }

    /// Hands a message over. Nothing, if the producer cannot serve.
    pub(super) async fn post(&self, document: Bytes) -> Option<Result<(), NotAnObject>> {
        let (done, result) = oneshot::channel();
        self.commands.send(Command::Post(document, done)).await.ok()?;
        result.await.ok()
    }

    /// Opens a stream. Nothing, if the producer cannot serve.
    pub(super) async fn attach(&self) -> Option<Attached> {
        let (done, stream) = oneshot::channel();
        self.commands.send(Command::Attach(done)).await.ok()?;
        stream.await.ok()
    }
}

/// What the task works on.
struct Board {
    producer: Producer,
    connection: Option<Connection>,
    streams: Vec<mpsc::Sender<Item>>,
    /// A stream has left.
    left: Arc<Notify>,
    /// When a connection without a stream is given up.
    alone: Option<Instant>,
}

impl Board {
    async fn run(mut self, mut mailbox: mpsc::Receiver<Command>) {
        loop {
            let listened_to = !self.streams.is_empty();
            tokio::select! {
                biased;
                () = self.left.notified() => self.sweep(),
                command = mailbox.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => return,
                },
                text = next(&mut self.connection), if listened_to => self.send(text),
                () = at(self.alone) => self.end(),
            }
        }
    }

    async fn obey(&mut self, command: Command) {
        if matches!(command, Command::Post(..)) {
            self.probe().await;
        }
        self.sweep();
        if self.connection.is_none() {
            self.connection = Connection::open(self.producer.clone()).await;
        }
        let Some(connection) = &mut self.connection else { return };
        match command {
            // Who asked may have gone away meanwhile; what was asked for is done all the same.
            Command::Post(document, done) => drop(done.send(connection.hear(&document).await)),
            Command::Attach(done) => {
                let (sender, items) = mpsc::channel(WAITING);
                let attached = Attached { items, probed: None, _leaving: Leaving(self.left.clone()) };
                if self.streams.len() < STREAMS && done.send(attached).is_ok() {
                    self.streams.push(sender);
                }
            }
        }
        self.alone = self.streams.is_empty().then(|| Instant::now() + ALONE);
    }

    fn send(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.end() };
        self.streams.retain(|stream| stream.try_send(Item::Text(text.clone())).is_ok());
        if self.streams.is_empty() {
            self.end();
        }
    }

    /// Makes every stream look at its socket. The first POST of a run may come while the end of the last run's stream
    /// is known to the machine but not yet here, and what it starts must not go there.
    async fn probe(&self) {
        let mut probes = Vec::new();
        for stream in &self.streams {
            let (taken, probe) = oneshot::channel();
            if stream.try_send(Item::Probe(taken)).is_ok() {
                probes.push(probe);
            }
        }
        // One that has left or takes nothing answers by its end, or not at all.
        let _ = tokio::time::timeout(PROBE, futures_util::future::join_all(probes)).await;
    }

    /// Forgets streams that have left; with the last one the connection ends.
    fn sweep(&mut self) {
        let before = self.streams.len();
        self.streams.retain(|stream| !stream.is_closed());
        if before > 0 && self.streams.is_empty() {
            self.end();
        }
    }

    fn end(&mut self) {
        self.connection = None;
        self.streams.clear();
        self.alone = None;
    }
}

async fn next(connection: &mut Option<Connection>) -> Option<String> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What goes to a stream.
enum Item {
    Text(String),
    /// Someone waits to hear that the stream is polled once more.
    Probe(oneshot::Sender<()>),
}

/// A stream of messages. The items go first when it is dropped, so that the task finds them closed.
pub(super) struct Attached {
    items: mpsc::Receiver<Item>,
    probed: Option<oneshot::Sender<()>>,
    _leaving: Leaving,
}

struct Leaving(Arc<Notify>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Stream for Attached {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(probe) = self.probed.take() {
            // Nobody waits for long.
            let _ = probe.send(());
        }
        match ready!(self.items.poll_recv(cx)) {
            Some(Item::Text(text)) => Poll::Ready(Some(Ok(Event::default().data(one_line(&text))))),
            Some(Item::Probe(probe)) => {
                // The server polls its socket before it polls this, each time anew. If the client has left, there is
                // no next time.
                self.probed = Some(probe);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }
}

/// Unnamed events of one line each, and comments when there is nothing to say.
pub(super) fn sse(stream: Attached) -> Sse<KeepAliveStream<Attached>> {
    Sse::new(stream).keep_alive(KeepAlive::new().interval(COMMENT_EVERY))
}

/// JSON without the characters that the client takes for ends of lines. JSON itself escapes all others of them.
pub(super) fn one_line(json: &str) -> String {
    json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").replace('\u{85}', "\\u0085")
}
