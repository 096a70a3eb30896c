//! A producer for the public conformance suite (aaep-conformance 1.0.0), for tests only.
//!
//! ```text
//! cargo run -p aaep-test --bin suite-server -- --listen 127.0.0.1:8378
//! ```
//!
//! The suite, and the small subscribers published with it, expect behaviour that the specification does not define.
//! All of it is in this program, so that the endpoints of `aaep-server` stay strict:
//!
//! - Paths: `GET /events`, `POST /messages`, and a WebSocket at `/ws` without a subprotocol. Nothing links a POST to a
//!   stream, so all HTTP requests share one connection; see [`hub`].
//! - `{"kind":"user_input","text":"..."}` starts a session. The English text selects the session; see [`scripts`].
//!   The suite discards the first message that follows, so an acknowledgement of this private protocol is sent first.
//! - A client is subscribed when it connects and may reply. A `subscription.request` replaces that subscription; a
//!   rejected one leaves the connection open.
//! - A reply is accepted whatever subscription it names, because it can only come from this connection.
//!
//! Anyone who reaches these paths can answer questions, so only loopback clients are served. See decision 28.

mod connection;
mod hub;
mod scripts;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
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

use connection::SuiteConnection;
use hub::SuiteHub;

const USAGE: &str = "usage: suite-server [--listen ADDRESS]";

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => "127.0.0.1:8378",
        ["--listen", address] => address,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, USAGE)),
    };
    tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(tracing::Level::WARN).with_ansi(false).init();
    let language = "en".parse().map_err(io::Error::other)?;
    let producer = Producer::builder("aaep-suite-server").name("Suite server").language(language).build();
    let listener = tokio::net::TcpListener::bind(address).await?;
    writeln!(io::stdout(), "Serving at http://{}", listener.local_addr()?)?;
    let service = router(producer).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}

/// Returns the paths that the suite uses.
///
/// # Panics
///
/// Panics outside of a tokio runtime, like [`tokio::spawn`].
fn router(producer: Producer) -> Router {
    let hub = SuiteHub::start(producer.clone());
    let http = Router::new().route("/events", get(events)).route("/messages", post(messages)).with_state(hub);
    let socket = Router::new().route("/ws", get(socket)).with_state(producer);
    http.merge(socket).layer(DefaultBodyLimit::max(limits::MESSAGE_BYTES)).layer(middleware::from_fn(require_loopback))
}

/// Rejects clients on other machines, and pages of other origins, whose scripts run on this machine.
async fn require_loopback(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let is_local = peer.is_none_or(|ip| ip.to_canonical().is_loopback());
    if is_local && has_loopback_headers(request.headers()) {
        next.run(request).await
    } else {
        StatusCode::FORBIDDEN.into_response()
    }
}

/// Returns whether the host and origin headers, if present, name this machine.
fn has_loopback_headers(headers: &HeaderMap) -> bool {
    let named = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let origin = named(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, authority)| authority));
    named(header::HOST).into_iter().chain(origin).all(is_loopback)
}

/// Returns whether an authority, such as `127.0.0.1:8080`, names this machine.
fn is_loopback(authority: &str) -> bool {
    let host = authority.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(authority, |(h, _)| h);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

async fn events(State(hub): State<SuiteHub>) -> Response {
    match hub.attach().await {
        Some(stream) => hub::sse(stream).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Returns the same status for known and unknown messages; only a body that is not a JSON object is an error.
async fn messages(State(hub): State<SuiteHub>, document: Bytes) -> StatusCode {
    match hub.post(document).await {
        Some(Ok(())) => StatusCode::NO_CONTENT,
        Some(Err(connection::NotAnObject)) => StatusCode::BAD_REQUEST,
        None => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn socket(State(producer): State<Producer>, upgrade: WebSocketUpgrade) -> Response {
    let upgrade = upgrade.protocols(["aaep.v1"]).max_message_size(limits::MESSAGE_BYTES);
    upgrade.on_upgrade(move |socket| serve_socket(socket, producer))
}

/// Serves one WebSocket as one connection.
async fn serve_socket(mut socket: WebSocket, producer: Producer) {
    let Some(mut connection) = SuiteConnection::open(producer).await else { return };
    loop {
        tokio::select! {
            received = socket.recv() => {
                let handled = match received {
                    Some(Ok(Message::Text(text))) => connection.handle_message(text.as_bytes()).await,
                    Some(Ok(Message::Binary(bytes))) => connection.handle_message(&bytes).await,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                if handled.is_err() {
                    tracing::debug!("ignored a frame that is not a JSON object");
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
