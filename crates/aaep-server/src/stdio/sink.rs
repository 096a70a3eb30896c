//! The write half: events and closes are notifications, terms are responses.

use std::io;
use std::sync::Arc;

use aaep::transport::Outbound;
use aaep_proto::binding::RpcMethod;
use aaep_proto::message::Message;
use tokio::sync::mpsc;

use super::SharedHandshake;
use super::rpc::RpcError;
use crate::close::{Close, CloseNotifier};
use crate::connection::Sink;

/// Buffered bytes that trigger a write.
const WRITE_BYTES: usize = 64 * 1024;

/// Writes lines.
pub(super) struct StdioSink {
    lines: mpsc::Sender<Vec<u8>>,
    shared: Arc<SharedHandshake>,
    close_notifier: CloseNotifier,
    pings: u64,
}

impl StdioSink {
    pub(super) fn new(lines: mpsc::Sender<Vec<u8>>, shared: Arc<SharedHandshake>) -> StdioSink {
        StdioSink { lines, shared, close_notifier: CloseNotifier::default(), pings: 0 }
    }

    async fn write(&mut self, lines: Vec<u8>) -> io::Result<()> {
        self.lines.send(lines).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Returns the response to the oldest pending request for terms.
    fn respond(&mut self, message: &Message) -> Option<Vec<u8>> {
        let response = self.shared.lock().pending.pop_front()?;
        match message {
            Message::SubscriptionRejected(_) => response.fail(RpcError::Rejected, Some(message)),
            _ => response.succeed(message),
        }
    }
}

fn put_notification(lines: &mut Vec<u8>, method: RpcMethod, params: &[u8]) {
    for part in [br#"{"jsonrpc":"2.0","method":""#, method.as_str().as_bytes(), br#"","params":"#, params, b"}\n"] {
        lines.extend_from_slice(part);
    }
}

fn put_close(lines: &mut Vec<u8>, message: &Message) -> io::Result<()> {
    put_notification(lines, RpcMethod::Close, &serde_json::to_vec(message).map_err(io::Error::other)?);
    Ok(())
}

impl Sink for StdioSink {
    async fn send(&mut self, batch: &[Outbound]) -> io::Result<()> {
        let mut lines = Vec::new();
        for item in batch {
            match item {
                Outbound::Event(frame) => put_notification(&mut lines, RpcMethod::Event, frame.json()),
                Outbound::Message(message) => {
                    self.close_notifier.note(message);
                    match &**message {
                        Message::SubscriptionClose(_) => put_close(&mut lines, message)?,
                        Message::CancellationRefused(_) => {
                            let json = serde_json::to_vec(message).map_err(io::Error::other)?;
                            put_notification(&mut lines, RpcMethod::Reply, &json);
                        }
                        _ => lines.extend(self.respond(message).into_iter().flatten()),
                    }
                }
                Outbound::Closed(_) => {}
            }
            if lines.len() >= WRITE_BYTES {
                self.write(std::mem::take(&mut lines)).await?;
            }
        }
        if lines.is_empty() { Ok(()) } else { self.write(lines).await }
    }

    async fn ping(&mut self) -> io::Result<()> {
        self.pings += 1;
        let (method, number) = (RpcMethod::Ping, self.pings);
        let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"id\":\"ping_{number}\"}}\n");
        self.write(line.into_bytes()).await
    }

    async fn close(&mut self, close: &Close) {
        let mut lines = Vec::new();
        if let Some(message) = self.close_notifier.final_message(close)
            && put_close(&mut lines, &message).is_ok()
        {
            // The connection ends next, whether or not the peer received this.
            let _ = self.write(lines).await;
        }
    }
}
