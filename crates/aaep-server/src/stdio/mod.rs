//! The stdio binding: JSON-RPC 2.0, one object for each line, for a parent that started this process.
//!
//! | Method | Kind | From |
//! |---|---|---|
//! | `aaep.subscribe`, `aaep.renegotiate` | request | subscriber |
//! | `aaep.event` | notification | producer |
//! | `aaep.reply` | notification | subscriber |
//! | `aaep.close` | notification | both |
//! | `aaep.ping` | request | both |
//!
//! `params` is the message of the protocol itself, and so is the `result` of a request for terms.

mod rpc;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aaep::Outgoing;
use aaep_proto::id::SubscriptionId;
use aaep_proto::message::Message;
use bytes::{Bytes, BytesMut};
use memchr::memchr;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::conversation::{Received, Sink, Source, converse, read};
use crate::farewell::Farewell;
use crate::hub::{Close, Hub, Peer, TOO_LARGE};
use crate::metrics::Transport;
use rpc::{Entry, Fault, Ticket};

/// Answers that may wait for who does not read them.
const ANSWERS: usize = 64;

/// Requests for terms that may wait for their answer.
const WAITING: usize = 16;

/// What a line may be longer than its message.
const ENVELOPE: usize = 1024;

/// What is written at once, at least.
const WRITE: usize = 64 * 1024;

/// Serves the one who holds the other ends, until one side ends it.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::{Hub, stdio};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let hub = Hub::alone(Producer::builder("gardener").build());
/// let mut answer = Vec::new();
/// let input = &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"aaep.ping\"}\n"[..];
/// let (mut parent, child) = tokio::io::duplex(1024);
/// stdio::serve(&hub, input, child).await;
/// tokio::io::AsyncReadExt::read_to_end(&mut parent, &mut answer).await.expect("memory can be read");
/// assert_eq!(answer, b"{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":1}\n");
/// # }
/// ```
pub async fn serve(
    hub: &Hub,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Close {
    let (answers, asked) = mpsc::channel(ANSWERS);
    let (lines, said) = mpsc::channel(1);
    let writer = tokio::spawn(write(output, asked, said));
    let shared = Arc::new(Shared::default());
    let limit = hub.limits.message_bytes;
    let source = In {
        from: input,
        limit,
        quiet: hub.limits.silence() / 2,
        shared: shared.clone(),
        answers,
        buffer: BytesMut::new(),
        searched: 0,
        messages: VecDeque::new(),
    };
    let sink = Out { lines, shared, farewell: Farewell::default(), pings: 0 };
    let close = converse(hub, &Peer::local(Transport::Stdio), source, sink).await;
    let abort = writer.abort_handle();
    if tokio::time::timeout(hub.limits.write_timeout(), writer).await.is_err() {
        abort.abort();
    }
    close
}

/// Writes what both halves have to say, so that the half that hears never waits for a reader.
async fn write(mut to: impl AsyncWrite + Unpin, mut asked: mpsc::Receiver<Vec<u8>>, mut said: mpsc::Receiver<Vec<u8>>) {
    loop {
        let line = tokio::select! {
            biased;
            Some(line) = asked.recv() => line,
            Some(line) = said.recv() => line,
            else => break,
        };
        if to.write_all(&line).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    // Who has gone need not be told.
    let _ = to.shutdown().await;
}

/// What both halves know.
#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    asked: bool,
    subscription: Option<SubscriptionId>,
    /// Requests for terms, in the order in which they are answered.
    waiting: VecDeque<Ticket>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct In<R> {
    from: R,
    limit: usize,
    /// How long to wait before saying that all is well: a pipe tells when its other end is gone.
    quiet: Duration,
    shared: Arc<Shared>,
    answers: mpsc::Sender<Vec<u8>>,
    buffer: BytesMut,
    searched: usize,
    /// Messages of a batch that were not handed on yet.
    messages: VecDeque<Received>,
}

impl<R: AsyncRead + Unpin + Send> Source for In<R> {
    async fn next(&mut self) -> Received {
        loop {
            if let Some(received) = self.messages.pop_front() {
                return received;
            }
            if let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                self.hear(&line);
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > self.limit + ENVELOPE {
                return Received::Violation(TOO_LARGE);
            }
            self.buffer.reserve(4 * 1024);
            match tokio::time::timeout(self.quiet, self.from.read_buf(&mut self.buffer)).await {
                Err(_) => return Received::Alive,
                Ok(Ok(1..)) => {}
                Ok(_) => return Received::End,
            }
        }
    }
}

impl<R> In<R> {
    fn hear(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return self.messages.push_back(Received::Alive);
        }
        for entry in rpc::read(line) {
            match entry {
                Entry::Answer => self.messages.push_back(Received::Alive),
                Entry::Wrong(ticket, fault) => {
                    tracing::info!(?fault, "a line that is no request was refused");
                    self.answer(ticket.fail(fault, None));
                }
                Entry::Call { params, .. } if params.len() > self.limit => {
                    self.messages.push_back(Received::Violation(TOO_LARGE));
                }
                Entry::Call { method, params, ticket } => self.call(&method, params, ticket),
            }
        }
    }

    fn call(&mut self, method: &str, params: Bytes, ticket: Option<Ticket>) {
        let result = match method {
            "aaep.subscribe" | "aaep.renegotiate" => return self.ask(method, params, ticket),
            "aaep.reply" | "aaep.close" => {
                let fits = match read(&params) {
                    Some(Message::ConfirmationReply(_) | Message::ClarificationReply(_)) => method == "aaep.reply",
                    Some(Message::SubscriptionClose(_)) => method == "aaep.close",
                    _ => false,
                };
                if self.shared.lock().asked {
                    // What does not fit is counted and told as on every transport.
                    let params = if fits { params } else { Bytes::from_static(b"{}") };
                    self.messages.push_back(Received::Message(params));
                }
                if fits { Ok(json!(null)) } else { Err(Fault::InvalidParams) }
            }
            "aaep.ping" => Ok(json!({})),
            _ => Err(Fault::UnknownMethod),
        };
        self.messages.push_back(Received::Alive);
        let Some(ticket) = ticket else { return };
        self.answer(match result {
            Ok(result) => ticket.answer(result),
            Err(fault) => ticket.fail(fault, None),
        });
    }

    /// A request for terms. The producer answers it.
    fn ask(&mut self, method: &str, params: Bytes, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else {
            return tracing::info!("a request for terms without an id cannot be answered; it was ignored");
        };
        let mut state = self.shared.lock();
        let fault = match (method, read(&params)) {
            ("aaep.subscribe", Some(Message::SubscriptionRequest(_))) => {
                state.asked.then_some(Fault::InvalidRequest("There is a subscription already"))
            }
            ("aaep.renegotiate", Some(Message::SubscriptionRenegotiate(change))) => match &state.subscription {
                None => Some(Fault::InvalidRequest("There is no subscription yet")),
                Some(own) => (*own != change.subscription_id).then_some(Fault::InvalidParams),
            },
            _ => Some(Fault::InvalidParams),
        };
        if let Some(fault) = fault {
            drop(state);
            return self.answer(ticket.fail(fault, None));
        }
        state.asked = true;
        if state.waiting.len() >= WAITING {
            return self.messages.push_back(Received::Violation("too many requests wait for an answer"));
        }
        state.waiting.push_back(ticket);
        self.messages.push_back(Received::Message(params));
    }

    fn answer(&mut self, line: Option<Vec<u8>>) {
        let Some(line) = line else { return };
        match self.answers.try_send(line) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.messages.push_back(Received::Violation("too many answers wait to be read"));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => self.messages.push_back(Received::End),
        }
    }
}

struct Out {
    lines: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
    farewell: Farewell,
    pings: u64,
}

impl Out {
    async fn say(&mut self, line: Vec<u8>) -> io::Result<()> {
        self.lines.send(line).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// The answer to the request for terms that has waited longest.
    fn answer(&mut self, message: &Message) -> Option<Vec<u8>> {
        let mut state = self.shared.lock();
        if let Message::SubscriptionAccepted(accepted) = message {
            state.subscription = Some(accepted.subscription_id.clone());
        }
        let ticket = state.waiting.pop_front()?;
        match message {
            Message::SubscriptionRejected(_) => ticket.fail(Fault::Rejected, Some(message)),
            _ => ticket.answer(message),
        }
    }
}

fn notify(lines: &mut Vec<u8>, method: &str, params: &[u8]) {
    for part in [br#"{"jsonrpc":"2.0","method":""#, method.as_bytes(), br#"","params":"#, params, b"}\n"] {
        lines.extend_from_slice(part);
    }
}

fn notify_message(lines: &mut Vec<u8>, method: &str, message: &Message) -> io::Result<()> {
    notify(lines, method, &serde_json::to_vec(message).map_err(io::Error::other)?);
    Ok(())
}

impl Sink for Out {
    async fn send(&mut self, batch: &[Outgoing]) -> io::Result<()> {
        let mut lines = Vec::new();
        for item in batch {
            match item {
                Outgoing::Event(frame) => notify(&mut lines, "aaep.event", frame.json()),
                Outgoing::Message(message) => {
                    self.farewell.note(message);
                    match &**message {
                        Message::SubscriptionClose(_) => notify_message(&mut lines, "aaep.close", message)?,
                        _ => lines.extend(self.answer(message).into_iter().flatten()),
                    }
                }
                Outgoing::Closed(_) => {}
            }
            if lines.len() >= WRITE {
                self.say(std::mem::take(&mut lines)).await?;
            }
        }
        if lines.is_empty() { Ok(()) } else { self.say(lines).await }
    }

    async fn ping(&mut self) -> io::Result<()> {
        self.pings += 1;
        self.say(
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"aaep.ping\",\"id\":\"ping_{}\"}}\n", self.pings).into_bytes(),
        )
        .await
    }

    async fn close(&mut self, close: &Close) {
        let mut lines = Vec::new();
        if let Some(message) = self.farewell.last(close)
            && notify_message(&mut lines, "aaep.close", &message).is_ok()
        {
            // Who has gone need not be told.
            let _ = self.say(lines).await;
        }
    }
}
