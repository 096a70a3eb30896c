//! The two tasks of a connection that carries one message after the other.

use std::future::Future;
use std::io;
use std::time::Duration;

use aaep_proto::message::Message;
use aaep_proto::subscriber::DisconnectReason;
use tokio::sync::mpsc;

use super::{TransportCommand, TransportEvent};

/// The reading half of a connection.
pub(super) trait MessageReader: Send + 'static {
    /// Reads the next message or sign of life, or returns why the connection has ended.
    fn next(&mut self) -> impl Future<Output = Result<TransportEvent, DisconnectReason>> + Send;
}

/// The writing half of a connection.
pub(super) trait MessageWriter: Send + 'static {
    /// Sends a message.
    fn send(&mut self, message: &Message) -> impl Future<Output = io::Result<()>> + Send;

    /// Asks the peer for a sign of life, if the transport has a way to do that.
    fn probe(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Closes the connection.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Reads until the connection ends.
pub(super) async fn read_loop(mut reader: impl MessageReader, events: mpsc::Sender<TransportEvent>) {
    loop {
        let (event, is_last) = match reader.next().await {
            Ok(event) => (event, false),
            Err(reason) => (TransportEvent::Disconnected(reason), true),
        };
        if events.send(event).await.is_err() || is_last {
            return;
        }
    }
}

/// Writes until the driver drops its end of the queue, then closes the connection. A peer that does not accept a message
/// within the timeout counts as gone.
pub(super) async fn write_loop(
    mut writer: impl MessageWriter,
    mut commands: mpsc::Receiver<TransportCommand>,
    events: mpsc::Sender<TransportEvent>,
    timeout: Duration,
) {
    while let Some(command) = commands.recv().await {
        let sending = async {
            match &command {
                TransportCommand::Send(message) => writer.send(message).await,
                TransportCommand::Probe => writer.probe().await,
            }
        };
        let why = match tokio::time::timeout(timeout, sending).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the producer does not accept messages any more".to_owned(),
        };
        // Both halves may report the loss; the driver handles the first report.
        let _ = events.send(TransportEvent::Disconnected(DisconnectReason::Broken(why))).await;
        return;
    }
    let _ = tokio::time::timeout(timeout, writer.close()).await;
}
