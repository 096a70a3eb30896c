//! `POST /aaep/v1/replies`: messages of a subscriber with an event stream.

use aaep::message::{Message, ReasonCode};
use aaep::transport::Rejection;
use aaep_keys::Role;
use aaep_proto::binding::path;
use aaep_proto::inbound::Inbound;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::guard::limit;
use super::subscriptions::json;
use super::{HttpProblem, body};
use crate::admission::rate::RequestPurpose;
use crate::admission::throttle::answers_open_question;
use crate::context::{AppState, PostError};
use crate::peer::Peer;

/// Bytes that are read of a reply whose principal is above its rate, to see whether it answers an open question.
const MAX_BYTES_ABOVE_RATE: usize = 64 * 1024;

/// Bytes that are read from a peer without credentials, to see whether a rejection is due. A renegotiation is far smaller.
const MAX_UNAUTHENTICATED_BYTES: usize = 16 * 1024;

const INVALID: HttpProblem = HttpProblem::new(StatusCode::BAD_REQUEST, "Send a valid reply, renegotiation or close.");

/// Handles a reply, renegotiation or close. Every well-formed reply gets the same 204, accepted or not: its sender learns
/// the outcome from the events, and a forger learns nothing (decision 9). A renegotiation is answered with the new terms
/// or a rejection. A request that an agent stops is answered only if it is refused, with the reason.
pub(super) async fn post(
    State(app): State<AppState>,
    peer: Result<Peer, HttpProblem>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let peer = match peer {
        Ok(peer) => peer,
        Err(problem) => {
            let memory = app.context.admission.subscriber_memory("");
            let limits = body::BodyLimits { max_bytes: MAX_UNAUTHENTICATED_BYTES, memory };
            let read = body::read_within(&app, &headers, body, limits).await;
            return reject_or(problem, read.is_ok_and(|(bytes, _)| requests_terms(&Inbound::read(&bytes))));
        }
    };
    let rate = limit(&app, &peer, RequestPurpose::Reply);
    let max_bytes = if rate.is_ok() { app.context.limits.message_bytes } else { MAX_BYTES_ABOVE_RATE };
    let limits = body::BodyLimits { max_bytes, memory: app.context.admission.subscriber_memory(peer.principal()) };
    let (bytes, _memory) = body::read_within(&app, &headers, body, limits)
        .await
        .map_err(|problem| rate.clone().err().unwrap_or(problem))?;
    let message = Inbound::read(&bytes);
    if let Err(problem) = rate
        && !answers_open_question(&app.context, &peer, &message)
    {
        return reject_or(problem, requests_terms(&message));
    }
    let message = match message {
        Inbound::Message(message) if is_from_subscriber(&message) => message,
        invalid => {
            app.context.metrics.malformed();
            return refuse_invalid(&app, &peer, invalid).await;
        }
    };
    // The credentials may have lapsed while the body was received.
    if !peer.is_current() {
        return Err(HttpProblem::unauthenticated());
    }
    let renegotiates = matches!(message, Message::SubscriptionRenegotiate(_));
    let response = match app.context.post_message(&peer, message).await {
        Ok(response) => response,
        Err(PostError::Forbidden) => return reject_or(HttpProblem::forbidden(), renegotiates),
        Err(PostError::Ended) => return Err(HttpProblem::ended()),
    };
    Ok(match response {
        Some(response @ Message::SubscriptionAccepted(_)) => json(StatusCode::OK, &response),
        Some(response @ Message::SubscriptionRejected(_)) => json(StatusCode::UNPROCESSABLE_ENTITY, &response),
        Some(response @ Message::CancellationRefused(_)) => json(StatusCode::CONFLICT, &response),
        _ if renegotiates => no_subscription(),
        _ => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Answers a message that is not valid here. An invalid renegotiation ends its subscription (5.7).
async fn refuse_invalid(app: &AppState, peer: &Peer, invalid: Inbound) -> Result<Response, HttpProblem> {
    let (named, rejection) = match invalid {
        Inbound::RefusedChange(named, rejection) => (named, rejection),
        Inbound::Request(_) | Inbound::Refused(_) => {
            let message = format!("type: send a subscription.request to {}.", path::SUBSCRIPTIONS);
            (None, Rejection::new(ReasonCode::Unknown, message))
        }
        Inbound::Message(_) | Inbound::Invalid(_) => {
            return Err(INVALID);
        }
    };
    if !peer.may(Role::Subscribe) {
        return Ok(HttpProblem::forbidden().rejected());
    }
    if let Some(id) = named {
        let Some(engine) = app.context.engines.find_subscription(peer, &id).await else { return Ok(no_subscription()) };
        let ended = engine.refuse_renegotiation(peer.principal(), &id, &rejection).await;
        if !ended.map_err(|_| HttpProblem::ended())? {
            return Ok(no_subscription());
        }
    }
    Ok(json(StatusCode::BAD_REQUEST, &rejection.to_message().into()))
}

fn no_subscription() -> Response {
    let message = "subscription_id: there is no such subscription. Subscribe again.";
    json(StatusCode::NOT_FOUND, &Rejection::new(ReasonCode::Unknown, message).to_message().into())
}

/// Returns the problem as a protocol rejection if the request was for terms (5.5), else as an HTTP problem.
fn reject_or(problem: HttpProblem, requests_terms: bool) -> Result<Response, HttpProblem> {
    if requests_terms { Ok(problem.rejected()) } else { Err(problem) }
}

fn requests_terms(message: &Inbound) -> bool {
    matches!(
        message,
        Inbound::Message(Message::SubscriptionRenegotiate(_))
            | Inbound::RefusedChange(..)
            | Inbound::Request(_)
            | Inbound::Refused(_)
    )
}

fn is_from_subscriber(message: &Message) -> bool {
    matches!(
        message,
        Message::ConfirmationReply(_)
            | Message::ClarificationReply(_)
            | Message::CancellationRequest(_)
            | Message::SubscriptionRenegotiate(_)
            | Message::SubscriptionClose(_)
    )
}
