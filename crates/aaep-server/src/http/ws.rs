//! `/aaep/v1/ws`: the WebSocket binding.

use std::io;

use aaep::Outgoing;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};

use super::guard::identify;
use super::{App, Problem};
use crate::conversation::{Received, Sink, Source, converse};
use crate::hub::{Close, TOO_LARGE};
use crate::metrics::Transport;

/// The name of the subprotocol. Who offers none is served as well (decision 24).
const SUBPROTOCOL: &str = "aaep.v1";

/// A read buffer costs memory for as long as a connection is open, and what subscribers say is small.
const READ_BUFFER: usize = 2 * 1024;

/// What waits in the write buffer before it is written without being told to.
const WRITE_BUFFER: usize = 64 * 1024;

/// Takes the connection over. Who is not known is told so by a close code: a page cannot see the status of a refusal.
pub(super) async fn upgrade(State(app): State<App>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &app).await {
        Ok(upgrade) => upgrade,
        Err(_) => {
            let detail = "This is a WebSocket. Ask for an upgrade, version 13.";
            return Problem::new(StatusCode::UPGRADE_REQUIRED, detail).into_response();
        }
    };
    let peer = identify(&parts, &app, Transport::WebSocket);
    let limit = app.hub.limits.message_bytes;
    upgrade
        .protocols([SUBPROTOCOL])
        .max_message_size(limit)
        .max_frame_size(limit)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(usize::MAX)
        .on_upgrade(async move |socket| {
            let (sink, source) = socket.split();
            let mut sink = Out(sink);
            match peer {
                Ok(peer) => drop(converse(&app.hub, &peer, In(source), sink).await),
                Err(_) => {
                    app.hub.metrics.closed(Close::UNAUTHENTICATED);
                    sink.close(&Close::new(Close::UNAUTHENTICATED, "authentication failed")).await;
                }
            }
        })
}

struct In(SplitStream<WebSocket>);

impl Source for In {
    async fn next(&mut self) -> Received {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => Received::Message(Bytes::from(text)),
            Some(Ok(Message::Binary(_))) => Received::Violation("messages are text frames"),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Received::Alive,
            Some(Ok(Message::Close(_))) | None => Received::End,
            Some(Err(error)) => fault(&*error.into_inner()),
        }
    }
}

/// What the peer sent wrong, if it did.
fn fault(error: &(dyn std::error::Error + 'static)) -> Received {
    use tokio_tungstenite::tungstenite::Error;
    match error.downcast_ref::<Error>() {
        Some(Error::Capacity(_)) => Received::Violation(TOO_LARGE),
        Some(Error::Utf8(_)) => Received::Violation("the message is not UTF-8"),
        Some(Error::Protocol(_)) => Received::Violation("the frame is malformed"),
        _ => Received::End,
    }
}

struct Out(SplitSink<WebSocket, Message>);

impl Sink for Out {
    async fn send(&mut self, batch: &[Outgoing]) -> io::Result<()> {
        for item in batch {
            let text: Utf8Bytes = match item {
                Outgoing::Event(frame) => frame.json().clone().try_into().map_err(io::Error::other)?,
                Outgoing::Message(message) => serde_json::to_string(&**message).map_err(io::Error::other)?.into(),
                Outgoing::Closed(_) => continue,
            };
            self.0.feed(Message::Text(text)).await.map_err(io::Error::other)?;
        }
        self.0.flush().await.map_err(io::Error::other)
    }

    async fn ping(&mut self) -> io::Result<()> {
        self.0.send(Message::Ping(Bytes::new())).await.map_err(io::Error::other)
    }

    async fn close(&mut self, close: &Close) {
        // A close frame holds 123 bytes of reason.
        let mut reason = close.reason.clone();
        while reason.len() > 123 {
            reason.pop();
        }
        let frame = CloseFrame { code: close.code, reason: reason.into() };
        // Who has gone need not be told.
        let _ = self.0.send(Message::Close(Some(frame))).await;
        let _ = self.0.close().await;
    }
}
