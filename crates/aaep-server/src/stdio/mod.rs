//! The stdio binding: JSON-RPC 2.0, one object per line, for a parent process that started this one.
//!
//! | Method | Kind | From |
//! |---|---|---|
//! | `aaep.subscribe`, `aaep.renegotiate` | request | subscriber |
//! | `aaep.event` | notification | producer |
//! | `aaep.reply` | notification | subscriber |
//! | `aaep.close` | notification | both |
//! | `aaep.ping` | request | both |
//!
//! `params` is the protocol message itself, and so is the `result` of a request for terms.

mod rpc;
mod sink;
mod source;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aaep::transport::ResumePolicy;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::close::Close;
use crate::connection::{SubscribeMode, serve_connection};
use crate::context::ServerContext;
use crate::metrics::Transport;
use crate::peer::Peer;
use rpc::RpcResponseSlot;
use sink::StdioSink;
use source::StdioSource;

/// Responses that may wait for a peer that does not read them.
const MAX_QUEUED_RESPONSES: usize = 64;

/// Serves the peer at the other end of two pipes until either side closes, and returns the reason.
///
/// ```
/// use aaep::Producer;
/// use aaep_server::{ServerContext, stdio};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let context = ServerContext::standalone(Producer::builder("gardener").build());
/// let mut response = Vec::new();
/// let input = &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"aaep.ping\"}\n"[..];
/// let (mut parent, child) = tokio::io::duplex(1024);
/// stdio::serve(&context, input, child).await;
/// tokio::io::AsyncReadExt::read_to_end(&mut parent, &mut response).await.expect("a duplex stream can be read");
/// assert_eq!(response, b"{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":1}\n");
/// # }
/// ```
pub async fn serve(
    context: &ServerContext,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Close {
    let (responses, queued_responses) = mpsc::channel(MAX_QUEUED_RESPONSES);
    let (lines, queued_lines) = mpsc::channel(1);
    let writer = tokio::spawn(write_lines(output, queued_responses, queued_lines));
    let shared = Arc::new(SharedHandshake::default());
    let source = StdioSource::new(context, input, shared.clone(), responses);
    let sink = StdioSink::new(lines, shared);
    let mode = SubscribeMode::New(ResumePolicy::Connection);
    let close = serve_connection(context, &Peer::local(Transport::Stdio), mode, source, sink).await;
    let abort = writer.abort_handle();
    if tokio::time::timeout(context.limits.write_timeout(), writer).await.is_err() {
        abort.abort();
    }
    close
}

/// Writes the lines of both halves in one task, so that the read half never waits for a slow peer.
async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    mut responses: mpsc::Receiver<Vec<u8>>,
    mut lines: mpsc::Receiver<Vec<u8>>,
) {
    loop {
        let line = tokio::select! {
            biased;
            Some(line) = responses.recv() => line,
            Some(line) = lines.recv() => line,
            else => break,
        };
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
    // The peer may have closed its end already.
    let _ = output.shutdown().await;
}

/// The state of requests for terms, shared by both halves.
#[derive(Default)]
struct SharedHandshake(Mutex<HandshakeState>);

#[derive(Default)]
struct HandshakeState {
    /// Whether a valid `aaep.subscribe` came.
    requested: bool,
    /// Responses to requests for terms, in the order in which they are sent.
    pending: VecDeque<RpcResponseSlot>,
}

impl SharedHandshake {
    fn lock(&self) -> MutexGuard<'_, HandshakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
