//! `POST /aaep/v1/subscriptions`: the handshake of the SSE binding.

use aaep::message::{Message, ReasonCode};
use aaep::transport::{Outbound, Rejection, ResumePolicy};
use aaep_proto::binding::path;
use aaep_proto::inbound::Inbound;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{HttpProblem, body};
use crate::context::AppState;
use crate::peer::Peer;

/// Opens a subscription: 201 with its terms and the location of its stream, or 4xx with the rejection.
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
    let mut subscribed = match app.context.admit(&peer, *request, ResumePolicy::Resumable).await {
        Ok(subscribed) => subscribed,
        Err(rejection) => return Ok(refuse(&rejection)),
    };
    let link = &mut subscribed.link;
    let Some(Outbound::Message(accepted)) = link.recv().await else { return Err(HttpProblem::ended()) };
    let location = path::events_of(link.id().as_str());
    let mut response = json(StatusCode::CREATED, &accepted);
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // The link is dropped here. The stream resumes the subscription, and nothing is lost in between.
    Ok(response)
}

/// Returns a protocol message as a response.
pub(super) fn json(status: StatusCode, message: &Message) -> Response {
    let body = serde_json::to_vec(message).unwrap_or_default();
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, kind, body).into_response()
}

/// Returns a rejection as a response with the status of its reason.
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
