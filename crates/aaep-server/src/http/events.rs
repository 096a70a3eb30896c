//! `GET /aaep/v1/events`: the stream of a subscription.

use aaep::id::SubscriptionId;
use aaep_keys::Role;
use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::HttpProblem;
use super::fast_path::Takeover;
use super::sse::EventStream;
use crate::context::AppState;
use crate::peer::Peer;

const NOT_ACCEPTABLE: HttpProblem = HttpProblem::new(StatusCode::NOT_ACCEPTABLE, "This is a text/event-stream.");
const NO_ID: HttpProblem = HttpProblem::new(StatusCode::BAD_REQUEST, "Name the stream by subscription_id.");

/// Opens the stream, or goes on after `Last-Event-ID`. A page that opens a new EventSource cannot send that header, so
/// the address may name the event too.
pub(super) async fn stream(State(app): State<AppState>, peer: Peer, mut parts: Parts) -> Result<Response, HttpProblem> {
    // The router hands on HEAD as if it were GET, and that would take the stream from its reader.
    if parts.method != Method::GET {
        return Err(HttpProblem::not_allowed("GET"));
    }
    if !accepts_stream(&parts.headers) {
        return Err(NOT_ACCEPTABLE);
    }
    if !peer.may(Role::Subscribe) {
        return Err(HttpProblem::forbidden());
    }
    let query = |name: &str| {
        let pairs = parts.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    };
    let id: SubscriptionId = query("subscription_id").and_then(|id| id.parse().ok()).ok_or(NO_ID)?;
    let in_header = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    // Any text counts as an event: one that was never sent is answered by a summary.
    let last = in_header.or_else(|| query("last_event_id")).filter(|id| !id.is_empty());
    let link = app.context.producer.resume(&id, peer.principal(), last).await;
    let link = link.ok_or_else(HttpProblem::no_subscription)?;
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        // Proxies of the nginx kind collect answers unless they are told not to.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let stream = EventStream::new(app.context, link, peer);
    let body = match parts.extensions.remove::<Takeover>() {
        Some(takeover) => Body::new(takeover.stream_body(stream)),
        None => Body::new(stream),
    };
    Ok((kind, body).into_response())
}

fn accepts_stream(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(header::ACCEPT).iter().filter_map(|kind| kind.to_str().ok()).peekable();
    if kinds.peek().is_none() {
        return true;
    }
    let fits =
        |kind: &str| ["text/event-stream", "text/*", "*/*"].contains(&kind.split(';').next().unwrap_or("").trim());
    kinds.any(|list| list.split(',').any(fits))
}
