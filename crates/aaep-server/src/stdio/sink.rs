//! The half that speaks: events and a close are told, terms are answers.

use std::io;
use std::sync::Arc;

use aaep::transport::Outbound;
use aaep_proto::message::Message;
use tokio::sync::mpsc;

use super::SharedHandshake;
use super::rpc::RpcError;
use crate::close::Close;
use crate::close::CloseNotifier;
use crate::connection::Sink;

/// What is written at once, at least.
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
            Message::SubscriptionRejected(_) => ticket.fail(RpcError::Rejected, Some(message)),
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

impl Sink for StdioSink {
    async fn send(&mut self, batch: &[Outbound]) -> io::Result<()> {
        let mut lines = Vec::new();
        for item in batch {
            match item {
                Outbound::Event(frame) => notify(&mut lines, "aaep.event", frame.json()),
                Outbound::Message(message) => {
                    self.close_notifier.note(message);
                    match &**message {
                        Message::SubscriptionClose(_) => notify_message(&mut lines, "aaep.close", message)?,
                        _ => lines.extend(self.answer(message).into_iter().flatten()),
                    }
                }
                Outbound::Closed(_) => {}
            }
            if lines.len() >= WRITE_BYTES {
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
        if let Some(message) = self.close_notifier.final_message(close)
            && notify_message(&mut lines, "aaep.close", &message).is_ok()
        {
            // Who has gone need not be told.
            let _ = self.say(lines).await;
        }
    }
}
