//! `POST /aaep/v1/replies`: what a subscriber says beside its stream.

use aaep::message::Message;
use aaep_keys::Role;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::guard::limit;
use super::subscriptions::json;
use super::{App, Problem, body};
use crate::conversation::{narrowed, read};
use crate::hub::Peer;
use crate::rate::Purpose;
use crate::throttle::answers_open_question;

/// Most bytes of a reply that are read to see whether it answers an open question, when its principal is above its rate.
const ABOVE_RATE_BYTES: usize = 64 * 1024;

/// Good or bad, a well-formed reply gets the same 204: its sender learns the outcome from the events, and a forger
/// learns nothing (decision 9). A renegotiation is answered with the new terms.
pub(super) async fn take(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let within = limit(&app, &peer, Purpose::Reply);
    let most = if within.is_ok() { app.hub.limits.message_bytes } else { ABOVE_RATE_BYTES };
    let bytes = body::read_within(&app, &headers, body, most)
        .await
        .map_err(|problem| within.clone().err().unwrap_or(problem))?;
    if within.is_err() && !answers_open_question(&app.hub, &peer, &bytes) {
        within?;
    }
    let message = match read(&bytes) {
        Some(message) if is_from_subscriber(&message) => message,
        _ => {
            app.hub.metrics.malformed();
            return Err(Problem::new(StatusCode::BAD_REQUEST, "Send a valid reply, renegotiation or close."));
        }
    };
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
