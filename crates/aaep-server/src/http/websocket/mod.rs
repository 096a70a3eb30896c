//! `/aaep/v1/ws`: the WebSocket binding.

mod socket;

use aaep::transport::{Outbound, ResumePolicy};
use aaep_proto::binding::CloseCode;
use aaep_proto::binding::WEBSOCKET_SUBPROTOCOL;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::HttpProblem;
use super::fast_path::Takeover;
use super::guard::identify;
use crate::admission::connection_slots::RequestGuard;
use crate::admission::message_memory::{MessageMemory, MeteredIo};
use crate::auth::ConnectionInfo;
use crate::close::{Close, unauthenticated};
use crate::connection::{Sink, SubscribeMode, serve_connection};
use crate::context::AppState;
use crate::metrics::Transport;
use crate::peer::Peer;

const UPGRADE_REQUIRED: HttpProblem =
    HttpProblem::new(StatusCode::UPGRADE_REQUIRED, "This endpoint is a WebSocket. Request an upgrade, version 13.");

/// Upgrades the connection. A peer without valid credentials is upgraded too, and then rejected by a message and a close
/// code: a web page cannot see the status of a failed upgrade.
pub(super) async fn upgrade(State(app): State<AppState>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    // axum validates the request and makes the response, but gets no connection: it has a WebSocket type of its own.
    let on_upgrade = parts.extensions.remove::<OnUpgrade>();
    parts.extensions.insert(hyper::upgrade::on(Request::new(())));
    let response = WebSocketUpgrade::from_request_parts(&mut parts, &app).await;
    let (Ok(response), Some(on_upgrade)) = (response, on_upgrade) else {
        return UPGRADE_REQUIRED.into_response();
    };
    let request = parts.extensions.get::<ConnectionInfo>().map(|connection| connection.slot.start_request());
    let session = WebSocketSession { peer: identify(&parts, &app, Transport::WebSocket).ok(), app, _request: request };
    match parts.extensions.remove::<Takeover>() {
        Some(takeover) => takeover.upgrade(on_upgrade, session),
        None => drop(tokio::spawn(async move {
            if let Ok(stream) = on_upgrade.await {
                session.run(TokioIo::new(stream), Bytes::new()).await;
            }
        })),
    }
    // A client that offers no subprotocol is served as well (decision 24).
    response.protocols([WEBSOCKET_SUBPROTOCOL]).on_upgrade(async |_| {})
}

/// A WebSocket connection after its upgrade.
pub(crate) struct WebSocketSession {
    app: AppState,
    /// `None` if the peer has no valid credentials.
    peer: Option<Peer>,
    /// The request counts as in progress until the session ends.
    _request: Option<RequestGuard>,
}

impl WebSocketSession {
    /// Runs the session until the connection ends. `read` are bytes of the peer that were read with the request.
    pub(crate) async fn run(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send, read: Bytes) {
        let context = &self.app.context;
        let principal = self.peer.as_ref().map(Peer::principal).unwrap_or_default();
        let memory = MessageMemory::new(context.admission.subscriber_memory(principal));
        let stream = MeteredIo::new(stream, memory.clone());
        let (source, mut sink) = socket::halves(stream, read, context.limits.message_bytes, memory);
        match self.peer {
            Some(peer) => {
                let mode = SubscribeMode::New(ResumePolicy::Connection);
                serve_connection(context, &peer, mode, source, sink).await;
            }
            None => {
                context.metrics.closed(CloseCode::Unauthenticated);
                let rejected = Outbound::Message(Box::new(unauthenticated().to_message().into()));
                let close = Close::new(CloseCode::Unauthenticated, "authentication failed");
                let reject = async {
                    // The close frame follows whether or not this could be written.
                    let _ = sink.send(&[rejected]).await;
                    sink.close(&close).await;
                };
                let _ = tokio::time::timeout(context.limits.write_timeout(), reject).await;
            }
        }
    }
}
