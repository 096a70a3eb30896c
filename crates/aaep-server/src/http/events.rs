//! `GET /aaep/v1/events`: the event stream of a subscription.

use aaep::id::SubscriptionId;
use aaep_keys::Role;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::HttpProblem;
use super::fast_path::Takeover;
use super::sse::EventStream;
use crate::context::AppState;
use crate::peer::Peer;

const NOT_ACCEPTABLE: HttpProblem =
    HttpProblem::new(StatusCode::NOT_ACCEPTABLE, "This endpoint is a text/event-stream. Accept that type.");
const NO_ID: HttpProblem = HttpProblem::new(StatusCode::BAD_REQUEST, "Add the query parameter subscription_id.");

#[derive(Deserialize)]
struct EventsQuery {
    subscription_id: Option<String>,
    last_event_id: Option<String>,
}

/// Opens the stream, or resumes it after `Last-Event-ID`. A web page cannot send that header with a new EventSource, so
/// the query may have `last_event_id` instead.
pub(super) async fn stream(State(app): State<AppState>, peer: Peer, mut parts: Parts) -> Result<Response, HttpProblem> {
    // The router passes HEAD as GET, and that would take the stream from its reader.
    if parts.method != Method::GET {
        return Err(HttpProblem::not_allowed("GET"));
    }
    if !accepts_stream(&parts.headers) {
        return Err(NOT_ACCEPTABLE);
    }
    if !peer.may(Role::Subscribe) {
        return Err(HttpProblem::forbidden());
    }
    let Ok(Query(query)) = Query::<EventsQuery>::try_from_uri(&parts.uri) else { return Err(NO_ID) };
    let id: SubscriptionId = query.subscription_id.and_then(|id| id.parse().ok()).ok_or(NO_ID)?;
    let in_header = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    // Any text counts as an event id: one that was never sent is answered by a summary.
    let last = in_header.or(query.last_event_id.as_deref()).filter(|id| !id.is_empty());
    let subscribed = app.context.resume(&peer, &id, last).await.ok_or_else(HttpProblem::no_subscription)?;
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        // Keeps nginx and similar proxies from buffering the stream.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let stream = EventStream::new(app.context, subscribed);
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
