//! `/aaep/v1/ws`: the WebSocket binding.

use aaep::transport::Outbound;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::guard::identify;
use super::socket::halves;
use super::takeover::Takeover;
use super::{App, Problem};
use crate::auth::Connection;
use crate::connection::{Sink, converse};
use crate::context::{Close, Peer, unauthenticated};
use crate::metered::{Metered, Unfinished};
use crate::metrics::Transport;
use crate::places::Requesting;

/// The name of the subprotocol. Who offers none is served as well (decision 24).
const SUBPROTOCOL: &str = "aaep.v1";

/// Takes the connection over. Who is not known is told so by a message and a
/// close code: a page cannot see the status of a refusal.
pub(super) async fn upgrade(State(app): State<App>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    // axum checks the request and answers it, but gets no connection: the halves are our own.
    let ours = parts.extensions.remove::<OnUpgrade>();
    parts.extensions.insert(hyper::upgrade::on(Request::new(())));
    let answer = WebSocketUpgrade::from_request_parts(&mut parts, &app).await;
    let (Ok(answer), Some(upgrade)) = (answer, ours) else {
        let detail = "This is a WebSocket. Ask for an upgrade, version 13.";
        return Problem::new(StatusCode::UPGRADE_REQUIRED, detail).into_response();
    };
    let request = parts.extensions.get::<Connection>().map(|connection| connection.place.request());
    let talk = WebSocketSession { peer: identify(&parts, &app, Transport::WebSocket).ok(), app, _request: request };
    match parts.extensions.remove::<Takeover>() {
        Some(handover) => handover.leave_talk(upgrade, talk),
        // One of several streams of its connection.
        None => drop(tokio::spawn(async move {
            if let Ok(stream) = upgrade.await {
                talk.hold(TokioIo::new(stream), Bytes::new()).await;
            }
        })),
    }
    answer.protocols([SUBPROTOCOL]).on_upgrade(async |_| {})
}

/// A conversation that begins when the answer is out.
pub(crate) struct WebSocketSession {
    app: App,
    /// None if it is nobody whom we know.
    peer: Option<Peer>,
    /// The request is in progress until the conversation ends.
    _request: Option<Requesting>,
}

impl WebSocketSession {
    /// Holds it to its end. Of what the peer says, something may have been read already.
    pub(crate) async fn hold(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send, read: Bytes) {
        let hub = &self.app.hub;
        let principal = self.peer.as_ref().map(Peer::principal).unwrap_or_default();
        let unfinished = Unfinished::new(hub.admission.subscriber_memory(principal));
        let stream = Metered::new(stream, unfinished.clone());
        let (source, mut sink) = halves(stream, read, hub.limits.message_bytes, unfinished);
        match self.peer {
            Some(peer) => drop(converse(hub, &peer, source, sink).await),
            None => {
                hub.metrics.closed(Close::UNAUTHENTICATED);
                let rejected = Outbound::Message(Box::new(unauthenticated().to_message().into()));
                let close = Close::new(Close::UNAUTHENTICATED, "authentication failed");
                let telling = async {
                    // A peer that takes nothing is closed all the same.
                    let _ = sink.send(&[rejected]).await;
                    sink.close(&close).await;
                };
                let _ = tokio::time::timeout(hub.limits.write_timeout(), telling).await;
            }
        }
    }
}
