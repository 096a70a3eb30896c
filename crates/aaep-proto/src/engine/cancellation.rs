//! Requests of subscribers to cancel a session (the extension `cancellation`). The agent decides what it does about one.

use super::subscription::SubscriptionKey;
use super::{Engine, EngineEffect, EngineError};
use crate::id::SessionId;
use crate::message::{CancellationRefused, CancellationRequest};

/// A user's request to cancel a session, as the agent gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelRequest {
    /// Who asked, if the subscriber said so.
    pub requested_by: Option<String>,
    /// Why, in the user's words.
    pub reason: Option<String>,
}

/// Whether the agent of a session handles requests to cancel it, and whether there was one.
#[derive(Debug, Default)]
pub(super) enum CancelState {
    /// The agent does not handle such requests.
    #[default]
    NotAccepted,
    /// The agent handles them, and there was none.
    Accepted,
    /// There was one. Further ones say nothing new.
    Requested(CancelRequest),
}

impl Engine {
    /// States that the agent of a session handles requests to cancel it; until then they are refused. Returns the request
    /// if there was one already. [`EngineEffect::CancelRequested`] is returned for a later one.
    pub fn accept_cancel_requests(&mut self, session: &SessionId) -> Result<Option<CancelRequest>, EngineError> {
        let state = self.sessions.get_mut(session)?.cancel_state_mut();
        match state {
            CancelState::Requested(request) => Ok(Some(request.clone())),
            CancelState::NotAccepted | CancelState::Accepted => {
                *state = CancelState::Accepted;
                Ok(None)
            }
        }
    }

    /// Handles a request to cancel a session. Only the first one of a session reaches the agent.
    pub(super) fn handle_cancellation(&mut self, from: SubscriptionKey, request: &CancellationRequest) {
        if let Err(why) = self.check_cancellation(from, request) {
            let Some(subscription_id) = self.subscription_id(from).cloned() else { return };
            let refused = CancellationRefused {
                subscription_id,
                session_id: request.session_id.clone(),
                reason_message: why.to_owned(),
                correlation_id: request.correlation_id.clone(),
            };
            return self.out.send(from, refused);
        }
        let Ok(session) = self.sessions.get_mut(&request.session_id) else { return };
        let state = session.cancel_state_mut();
        if matches!(state, CancelState::Accepted) {
            let asked = CancelRequest { requested_by: request.requested_by.clone(), reason: request.reason.clone() };
            *state = CancelState::Requested(asked.clone());
            self.out.push(EngineEffect::CancelRequested(request.session_id.clone(), asked));
        }
    }

    fn check_cancellation(&self, from: SubscriptionKey, request: &CancellationRequest) -> Result<(), &'static str> {
        let sender = self.subscriptions.get(from).filter(|sender| *sender.id() == request.subscription_id);
        match (sender, self.sessions.get(&request.session_id)) {
            (None, _) => Err("subscription_id is not the subscription of this connection."),
            (Some(sender), _) if !sender.terms().can_cancel() => {
                Err("This subscription may not ask an agent to stop. Ask for the capability cancellation.")
            }
            (Some(_), Err(_)) => Err("This session does not exist, or has ended."),
            (Some(_), Ok(session)) if matches!(session.cancel_state(), CancelState::NotAccepted) => {
                Err("This agent cannot be asked to stop.")
            }
            (Some(_), Ok(_)) => Ok(()),
        }
    }
}
