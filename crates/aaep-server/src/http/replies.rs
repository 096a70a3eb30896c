//! `POST /aaep/v1/replies`: what a subscriber says beside its stream.

use aaep::message::{Message, ReasonCode};
use aaep::transport::Rejection;
use aaep_keys::Role;
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
use crate::context::AppState;
use crate::peer::Peer;

/// Most bytes of a reply that are read to see whether it answers an open question, when its principal is above its rate.
const ABOVE_RATE_BYTES: usize = 64 * 1024;

/// What is read from someone who may not reply, to see whether an answer is due: a renegotiation is far smaller.
const UNKNOWN_SENDER_BYTES: usize = 16 * 1024;

/// Good or bad, a well-formed reply gets the same 204: its sender learns the outcome from the events, and a forger
/// learns nothing (decision 9). A renegotiation is answered with the new terms, or by a rejection.
pub(super) async fn post(
    State(app): State<AppState>,
    peer: Result<Peer, HttpProblem>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let peer = match peer {
        Ok(peer) => peer,
        Err(problem) => {
            let room =
                body::BodyLimits { limit: UNKNOWN_SENDER_BYTES, memory: app.context.admission.subscriber_memory("") };
            let read = body::read_within(&app, &headers, body, room).await;
            let asks = read.is_ok_and(|(bytes, _)| asks_for_terms(&Inbound::read(&bytes)));
            return if asks { Ok(problem.rejected()) } else { Err(problem) };
        }
    };
    let within = limit(&app, &peer, RequestPurpose::Reply);
    let limit = if within.is_ok() { app.context.limits.message_bytes } else { ABOVE_RATE_BYTES };
    let room = body::BodyLimits { limit, memory: app.context.admission.subscriber_memory(peer.principal()) };
    let (bytes, _memory) = body::read_within(&app, &headers, body, room)
        .await
        .map_err(|problem| within.clone().err().unwrap_or(problem))?;
    if let Err(problem) = within
        && !answers_open_question(&app.context, &peer, &bytes)
    {
        return if asks_for_terms(&Inbound::read(&bytes)) { Ok(problem.rejected()) } else { Err(problem) };
    }
    let message = match Inbound::read(&bytes) {
        Inbound::Message(message) if is_from_subscriber(&message) => message,
        invalid => {
            app.context.metrics.malformed();
            return refuse_invalid(&app, &peer, invalid).await;
        }
    };
    // It may have expired while the body came.
    if !peer.is_current() {
        return Err(HttpProblem::unauthenticated());
    }
    let is_reply = matches!(message, Message::ConfirmationReply(_) | Message::ClarificationReply(_));
    let renegotiates = matches!(message, Message::SubscriptionRenegotiate(_));
    if !peer.may(if is_reply { Role::Reply } else { Role::Subscribe }) {
        return if renegotiates { Ok(HttpProblem::forbidden().rejected()) } else { Err(HttpProblem::forbidden()) };
    }
    let message = peer.narrow_message(message);
    let answer =
        app.context.producer.handle_message(peer.principal(), message).await.map_err(|_| HttpProblem::ended())?;
    Ok(match answer {
        Some(answer @ Message::SubscriptionAccepted(_)) => json(StatusCode::OK, &answer),
        Some(answer @ Message::SubscriptionRejected(_)) => json(StatusCode::UNPROCESSABLE_ENTITY, &answer),
        _ if renegotiates => no_subscription(),
        _ => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Answers what is not valid here. An invalid renegotiation ends its subscription (5.7).
async fn refuse_invalid(app: &AppState, peer: &Peer, invalid: Inbound) -> Result<Response, HttpProblem> {
    let (named, rejection) = match invalid {
        Inbound::RefusedChange(named, rejection) => (named, rejection),
        Inbound::Request(_) | Inbound::Refused(_) => {
            let message = format!("type: send a subscription.request to {}.", super::SUBSCRIPTIONS);
            (None, Rejection::new(ReasonCode::Unknown, message))
        }
        Inbound::Message(_) | Inbound::Invalid(_) => {
            return Err(HttpProblem::new(StatusCode::BAD_REQUEST, "Send a valid reply, renegotiation or close."));
        }
    };
    if !peer.may(Role::Subscribe) {
        return Ok(HttpProblem::forbidden().rejected());
    }
    if let Some(id) = named {
        let ended = app.context.producer.refuse_renegotiation(peer.principal(), &id, &rejection).await;
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

fn asks_for_terms(message: &Inbound) -> bool {
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
            | Message::SubscriptionRenegotiate(_)
            | Message::SubscriptionClose(_)
    )
}
