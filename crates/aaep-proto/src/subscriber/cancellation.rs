//! Asking the agent of a session to stop (the extension `cancellation`).

use std::fmt;

use super::{Cx, Notice, Subscriber, SubscriberEffect};
use crate::id::SessionId;
use crate::message::{CancellationRefused, CancellationRequest};

/// Why an agent was not asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelRequestError {
    /// There is no connection.
    NotConnected,
    /// The terms do not include it: the producer does not offer it, or this subscriber did not ask for it or may not answer
    /// questions either.
    NotOffered,
}

impl fmt::Display for CancelRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelRequestError::NotConnected => "The agent cannot be reached at the moment.",
            CancelRequestError::NotOffered => "The agent cannot be asked to stop from here.",
        })
    }
}

impl std::error::Error for CancelRequestError {}

impl Subscriber {
    /// Asks the agent of a session to stop. The agent decides: if it stops, the session ends with an event as usual. A
    /// refusal of the producer is reported as [`Notice::CancelRefused`].
    pub fn request_cancel(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        reason: Option<String>,
    ) -> Result<(), CancelRequestError> {
        self.observe_time(cx);
        if !self.is_live() {
            return Err(CancelRequestError::NotConnected);
        }
        if !self.terms.can_cancel() {
            return Err(CancelRequestError::NotOffered);
        }
        let subscription_id = self.subscription.clone().ok_or(CancelRequestError::NotConnected)?;
        let request = CancellationRequest {
            subscription_id,
            session_id: session.clone(),
            timestamp: cx.now.wall,
            requested_by: self.config.decided_by.clone(),
            reason: reason.filter(|text| !text.is_empty()),
            correlation_id: None,
        };
        self.out.push_back(SubscriberEffect::Send(Box::new(request.into())));
        Ok(())
    }

    pub(super) fn cancel_refused(&mut self, cx: &Cx<'_>, refused: &CancellationRefused) {
        self.notice(cx, Notice::CancelRefused(Notice::clip(&refused.reason_message)));
    }
}
