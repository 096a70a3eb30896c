//! A private contract with a test tool, **not** the protocol.
//!
//! The public conformance suite, and the small subscribers published with it, expect things of a producer that no
//! specification says. They are all here, and nowhere else, so that the real endpoints can stay strict:
//!
//! - Paths of their own: `GET /events`, `POST /messages`, and a WebSocket at `/ws` without a subprotocol. Nothing ties
//!   a POST to a stream, so everything over HTTP is one connection; see [`hub`].
//! - `{"kind":"user_input","text":"..."}` starts a session. What happens in it is chosen by the English text; see
//!   [`scripts`]. The suite throws away the first message that follows, so a private acknowledgement goes first.
//! - Who connects is subscribed without asking and can answer questions. A `subscription.request` takes the place of
//!   that subscription, and a refused one leaves the connection open.
//! - Replies count whatever subscription they name, or none, since they can only come from this connection.
//!
//! Anyone who reaches these paths can answer questions, so only this machine may reach them.

mod connection;
mod hub;
mod scripts;

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use aaep::Producer;
use aaep_proto::limits;
use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use connection::Connection;
use hub::Hub;

/// The paths of the suite, to be nested where the suite is told to look. The producer should have nothing else to
/// say while the suite runs.
///
/// # Panics
///
/// Outside of a tokio runtime, like [`tokio::spawn`].
pub(crate) fn router(producer: Producer) -> Router {
    let hub = Hub::start(producer.clone());
    let http = Router::new().route("/events", get(events)).route("/messages", post(messages)).with_state(hub);
    let socket = Router::new().route("/ws", get(socket)).with_state(producer);
    http.merge(socket).layer(DefaultBodyLimit::max(limits::MESSAGE_BYTES)).layer(middleware::from_fn(only_this_machine))
}

/// Turns away who is elsewhere, and pages of other origins, whose scripts run on this machine.
async fn only_this_machine(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let local = peer.is_none_or(|ip| ip.to_canonical().is_loopback());
    if local && is_from_here(request.headers()) {
        next.run(request).await
    } else {
        StatusCode::FORBIDDEN.into_response()
    }
}

/// Whether host and origin, if there are any, name this machine.
fn is_from_here(headers: &HeaderMap) -> bool {
    let named = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let origin = named(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, authority)| authority));
    named(header::HOST).into_iter().chain(origin).all(is_loopback)
}

/// Whether an authority, such as `127.0.0.1:8080`, is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = authority.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(authority, |(h, _)| h);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

async fn events(State(hub): State<Hub>) -> Response {
    match hub.attach().await {
        Some(stream) => hub::sse(stream).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// What was understood and what was not gets the same answer; only what is no JSON object is told apart.
async fn messages(State(hub): State<Hub>, document: Bytes) -> StatusCode {
    match hub.post(document).await {
        Some(Ok(())) => StatusCode::NO_CONTENT,
        Some(Err(connection::NotAnObject)) => StatusCode::BAD_REQUEST,
        None => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn socket(State(producer): State<Producer>, upgrade: WebSocketUpgrade) -> Response {
    let upgrade = upgrade.protocols(["aaep.v1"]).max_message_size(limits::MESSAGE_BYTES);
    upgrade.on_upgrade(move |socket| converse(socket, producer))
}

/// One WebSocket is one connection.
async fn converse(mut socket: WebSocket, producer: Producer) {
    // Without a place for it, the socket closes.
    let Some(mut connection) = Connection::open(producer).await else { return };
    loop {
        tokio::select! {
            received = socket.recv() => {
                let heard = match received {
                    Some(Ok(Message::Text(text))) => connection.hear(text.as_bytes()).await,
                    Some(Ok(Message::Binary(bytes))) => connection.hear(&bytes).await,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                if heard.is_err() {
                    tracing::debug!("a frame that is no JSON object was ignored");
                }
            }
            text = connection.next() => {
                let Some(text) = text else { return };
                if socket.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
        }
    }
}
