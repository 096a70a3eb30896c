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

mod hear;
mod rpc;
mod speak;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep_proto::id::SubscriptionId;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::connection::converse;
use crate::context::{Close, Peer, ServerContext};
use crate::metrics::Transport;
use hear::In;
use rpc::Ticket;
use speak::Out;

/// Answers that may wait for who does not read them.
const ANSWERS: usize = 64;

/// Serves the one who holds the other ends, until one side ends it.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::{ServerContext, stdio};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let hub = ServerContext::alone(Producer::builder("gardener").build());
/// let mut answer = Vec::new();
/// let input = &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"aaep.ping\"}\n"[..];
/// let (mut parent, child) = tokio::io::duplex(1024);
/// stdio::serve(&hub, input, child).await;
/// tokio::io::AsyncReadExt::read_to_end(&mut parent, &mut answer).await.expect("memory can be read");
/// assert_eq!(answer, b"{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":1}\n");
/// # }
/// ```
pub async fn serve(
    hub: &ServerContext,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Close {
    let (answers, asked) = mpsc::channel(ANSWERS);
    let (lines, said) = mpsc::channel(1);
    let writer = tokio::spawn(write(output, asked, said));
    let shared = Arc::new(Shared::default());
    let source = In::new(hub, input, shared.clone(), answers);
    let sink = Out::new(lines, shared);
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
