//! `POST /aaep/v1/replies`: what a subscriber says beside its stream.

use aaep::message::Message;
use aaep_keys::Role;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::subscriptions::json;
use super::{App, Problem, body};
use crate::conversation::{narrowed, read};
use crate::hub::Peer;

/// Good or bad, a well-formed reply gets the same 204: its sender learns the outcome from the events, and a forger
/// learns nothing (decision 9). A renegotiation is answered with the new terms.
pub(super) async fn take(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bytes = body::read(&app, &headers, body).await?;
    let message = match read(&bytes) {
        Some(message) if is_from_subscriber(&message) => message,
        _ => {
            app.hub.metrics.malformed();
            return Err(Problem::new(StatusCode::BAD_REQUEST, "Send a valid reply, renegotiation or close."));
        }
    };
    // It may have expired while the body came.
    if !peer.is_current() {
        return Err(Problem::unauthenticated());
    }
    let is_reply = matches!(message, Message::ConfirmationReply(_) | Message::ClarificationReply(_));
    if !peer.may(if is_reply { Role::Reply } else { Role::Subscribe }) {
        return Err(Problem::forbidden());
    }
    let renegotiates = matches!(message, Message::SubscriptionRenegotiate(_));
    let message = narrowed(&peer, message);
    let answer = app.hub.producer.hear(peer.principal(), message).await.map_err(|_| Problem::ended())?;
    Ok(match answer {
        Some(answer @ Message::SubscriptionAccepted(_)) => json(StatusCode::OK, &answer),
        Some(answer @ Message::SubscriptionRejected(_)) => json(StatusCode::UNPROCESSABLE_ENTITY, &answer),
        _ if renegotiates => return Err(Problem::no_subscription()),
        _ => StatusCode::NO_CONTENT.into_response(),
    })
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
