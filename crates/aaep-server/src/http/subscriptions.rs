//! `POST /aaep/v1/subscriptions`: the handshake of the SSE binding.

use aaep::message::{Message, ReasonCode};
use aaep::transport::{Outbound, Rejection, ResumePolicy};
use aaep_proto::inbound::Inbound;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{HttpProblem, body};
use crate::context::AppState;
use crate::peer::Peer;

/// Answers 201 with the terms and where the events are, or 4xx with the reason.
pub(super) async fn create(
    State(app): State<AppState>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let (bytes, _memory) = body::read(&app, &peer, &headers, body).await?;
    let request = match Inbound::read(&bytes).into_request() {
        Ok(request) => request,
        Err(rejection) => {
            app.context.metrics.malformed();
            return Ok(json(StatusCode::BAD_REQUEST, &rejection.to_message().into()));
        }
    };
    let mut link = match app.context.admit(&peer, *request, ResumePolicy::Resumable).await {
        Ok(link) => link,
        Err(rejection) => return Ok(refuse(&rejection)),
    };
    let Some(Outbound::Message(accepted)) = link.recv().await else { return Err(HttpProblem::ended()) };
    let location = format!("/aaep/v1/events?subscription_id={}", link.id());
    let mut response = json(StatusCode::CREATED, &accepted);
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // The link is let go here; the stream takes its place, and nothing is lost in between.
    Ok(response)
}

/// A message of the handshake as an answer.
pub(super) fn json(status: StatusCode, message: &Message) -> Response {
    let body = serde_json::to_vec(message).unwrap_or_default();
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, kind, body).into_response()
}

/// `subscription.rejected` with the status that fits its reason.
pub(super) fn refuse(rejection: &Rejection) -> Response {
    let status = match rejection.reason_code {
        ReasonCode::RateLimit => StatusCode::TOO_MANY_REQUESTS,
        ReasonCode::AuthenticationRequired => StatusCode::UNAUTHORIZED,
        ReasonCode::AuthorizationDenied => StatusCode::FORBIDDEN,
        ReasonCode::TransportUnavailable => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut response = json(status, &rejection.to_message().into());
    if let Some(seconds) = rejection.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
