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
mod sink;
mod source;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep::transport::ResumePolicy;
use aaep_proto::id::SubscriptionId;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::close::Close;
use crate::connection::{SubscribeMode, serve_connection};
use crate::context::ServerContext;
use crate::metrics::Transport;
use crate::peer::Peer;
use rpc::PendingResponse;
use sink::StdioSink;
use source::StdioSource;

/// Answers that may wait for who does not read them.
const MAX_QUEUED_RESPONSES: usize = 64;

/// Serves the one who holds the other ends, until one side ends it.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::{ServerContext, stdio};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let context = ServerContext::standalone(Producer::builder("gardener").build());
/// let mut answer = Vec::new();
/// let input = &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"aaep.ping\"}\n"[..];
/// let (mut parent, child) = tokio::io::duplex(1024);
/// stdio::serve(&context, input, child).await;
/// tokio::io::AsyncReadExt::read_to_end(&mut parent, &mut answer).await.expect("memory can be read");
/// assert_eq!(answer, b"{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":1}\n");
/// # }
/// ```
pub async fn serve(
    context: &ServerContext,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Close {
    let (answers, asked) = mpsc::channel(MAX_QUEUED_RESPONSES);
    let (lines, said) = mpsc::channel(1);
    let writer = tokio::spawn(write(output, asked, said));
    let shared = Arc::new(SharedHandshake::default());
    let source = StdioSource::new(context, input, shared.clone(), answers);
    let sink = StdioSink::new(lines, shared);
    let mode = SubscribeMode::New(ResumePolicy::Connection);
    let close = serve_connection(context, &Peer::local(Transport::Stdio), mode, source, sink).await;
    let abort = writer.abort_handle();
    if tokio::time::timeout(context.limits.write_timeout(), writer).await.is_err() {
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
struct SharedHandshake(Mutex<HandshakeState>);

#[derive(Default)]
struct HandshakeState {
    asked: bool,
    subscription: Option<SubscriptionId>,
    /// Requests for terms, in the order in which they are answered.
    waiting: VecDeque<PendingResponse>,
}

impl SharedHandshake {
    fn lock(&self) -> MutexGuard<'_, HandshakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
