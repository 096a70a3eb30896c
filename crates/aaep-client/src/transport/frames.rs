//! A connection that carries messages one after the other: how its two halves are kept going.

use std::future::Future;
use std::io;
use std::time::Duration;

use aaep_proto::message::Message;
use aaep_proto::subscriber::DisconnectReason;
use tokio::sync::mpsc;

use super::{Incoming, Outgoing};

/// The half that hears.
pub(super) trait Source: Send + 'static {
    /// The next thing, or why there is none any more.
    fn next(&mut self) -> impl Future<Output = Result<Incoming, DisconnectReason>> + Send;
}

/// The half that speaks.
pub(super) trait Sink: Send + 'static {
    /// Sends a message.
    fn send(&mut self, message: &Message) -> impl Future<Output = io::Result<()>> + Send;

    /// Asks for a sign of life, if the transport can.
    fn probe(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Says goodbye.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Hears until the end.
pub(super) async fn hear(mut source: impl Source, heard: mpsc::Sender<Incoming>) {
    loop {
        let (incoming, last) = match source.next().await {
            Ok(incoming) => (incoming, false),
            Err(loss) => (Incoming::Lost(loss), true),
        };
        if heard.send(incoming).await.is_err() || last {
            return;
        }
    }
}

/// Speaks until nobody has anything to say. A peer that takes nothing counts as gone.
pub(super) async fn speak(
    mut sink: impl Sink,
    mut said: mpsc::Receiver<Outgoing>,
    heard: mpsc::Sender<Incoming>,
    timeout: Duration,
) {
    while let Some(outgoing) = said.recv().await {
        let sending = async {
            match &outgoing {
                Outgoing::Message(message) => sink.send(message).await,
                Outgoing::Probe => sink.probe().await,
            }
        };
        let why = match tokio::time::timeout(timeout, sending).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it takes nothing any more".to_owned(),
        };
        // The task hears of it from one half or the other; the queue may be full of what came in.
        let _ = heard.send(Incoming::Lost(DisconnectReason::Broken(why))).await;
        return;
    }
    let _ = tokio::time::timeout(timeout, sink.close()).await;
}
