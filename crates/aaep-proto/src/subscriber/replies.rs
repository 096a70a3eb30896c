//! The user's answers: one per open question, as the terms and the question permit.

use serde_json::{Map, Value};

use super::prompts::OpenPrompt;
use super::{Cx, PromptEnd, PromptId, Subscriber, SubscriberEffect, SubscriberEvent};
use crate::confirm::Resolution;
use crate::id::{ReplyToken, SubscriptionId};
use crate::message::{
    AwaitingClarification, AwaitingConfirmation, ClarificationReply, ConfirmationReply, Decision, Message, Payload,
    Response, ResponseKind,
};
use crate::record::Decimal;
use crate::time::Timestamp;

/// An answer of the user.
///
/// ```
/// use aaep_proto::message::Decision;
/// use aaep_proto::subscriber::PromptAnswer;
/// assert_eq!(PromptAnswer::reject(), PromptAnswer::Decision { decision: Decision::Reject, rationale: None, modified_action: None });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAnswer {
    /// The answer to a confirmation.
    Decision {
        /// Accept or reject.
        decision: Decision,
        /// Why.
        rationale: Option<String>,
        /// A different action to accept instead. A producer that does not support it takes it as a rejection.
        modified_action: Option<Map<String, Value>>,
    },
    /// The answer to a clarification.
    Response {
        /// The response.
        response: Response,
        /// How certain the subscriber is that it recognized the answer, from 0 to 1.
        confidence: Option<f64>,
    },
}

impl PromptAnswer {
    /// Creates the answer that accepts the action.
    pub fn accept() -> PromptAnswer {
        PromptAnswer::Decision { decision: Decision::Accept, rationale: None, modified_action: None }
    }

    /// Creates the answer that rejects the action.
    pub fn reject() -> PromptAnswer {
        PromptAnswer::Decision { decision: Decision::Reject, rationale: None, modified_action: None }
    }

    /// Creates the answer to a clarification.
    pub fn response(response: Response) -> PromptAnswer {
        PromptAnswer::Response { response, confidence: None }
    }
}

/// Why an answer was not sent. The question is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptReplyError {
    /// The question is no longer open.
    Gone,
    /// There is no connection. The question may still be open.
    NotConnected,
    /// The terms do not permit this subscriber to answer.
    NotGranted,
    /// The question does not permit this decision.
    NotAllowed,
    /// The question asks for another kind of answer.
    WrongKind,
}

impl std::fmt::Display for PromptReplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PromptReplyError::Gone => "The question is not open any more.",
            PromptReplyError::NotConnected => "The agent cannot be reached at the moment.",
            PromptReplyError::NotGranted => "The agent does not take answers from here.",
            PromptReplyError::NotAllowed => "The question does not take this answer.",
            PromptReplyError::WrongKind => "The question asks for another kind of answer.",
        })
    }
}

impl std::error::Error for PromptReplyError {}

impl Subscriber {
    /// Sends the user's answer to a question.
    pub fn reply(&mut self, cx: &mut Cx<'_>, id: PromptId, answer: PromptAnswer) -> Result<(), PromptReplyError> {
        self.observe_time(cx);
        let ended = self.prompts.expire(cx.now.moment);
        self.emit_ended(ended);
        let open = self.prompts.get(id).ok_or(PromptReplyError::Gone)?;
        if !self.is_live() {
            return Err(PromptReplyError::NotConnected);
        }
        if !self.terms.allows(&open.event) {
            return Err(PromptReplyError::NotGranted);
        }
        check(open, &answer)?;
        let subscription = self.subscription.clone().ok_or(PromptReplyError::NotConnected)?;
        let Some(mut open) = self.prompts.take(id) else { return Err(PromptReplyError::Gone) };
        // The user decided after the question was asked, even if the clock of this machine is behind.
        let at = cx.now.wall.max(open.event.envelope.timestamp);
        open.answered = confirming_resolutions(&answer);
        let message = self.message(&open.token, subscription, at, answer);
        self.out.push_back(SubscriberEffect::Send(Box::new(message)));
        self.emit(SubscriberEvent::PromptEnded(id, PromptEnd::AnsweredHere));
        self.prompts.remember_answered(open);
        Ok(())
    }

    /// Handles a reply that the transport could not send: the question is opened again, if there is time.
    pub fn handle_send_failure(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        self.observe_time(cx);
        if let Some(open) = self.prompts.take_answered(token)
            && open.deadline > cx.now.moment
            && !self.is_ended()
        {
            self.show(open);
        }
    }

    fn message(
        &self,
        token: &ReplyToken,
        subscription_id: SubscriptionId,
        timestamp: Timestamp,
        answer: PromptAnswer,
    ) -> Message {
        let reply_token = token.clone();
        let decided_by = self.config.decided_by.clone();
        match answer {
            PromptAnswer::Decision { decision, rationale, modified_action } => ConfirmationReply {
                reply_token,
                decision,
                subscription_id,
                timestamp,
                decided_by,
                decision_rationale: rationale.filter(|text| !text.is_empty()),
                modified_action,
                correlation_id: None,
            }
            .into(),
            PromptAnswer::Response { response, confidence } => ClarificationReply {
                reply_token,
                response,
                subscription_id,
                timestamp,
                decided_by,
                confidence: confidence.filter(|c| c.is_finite()).map(|c| Decimal(c.clamp(0.0, 1.0))),
                correlation_id: None,
            }
            .into(),
        }
    }
}

/// Checks that the question permits this answer.
fn check(open: &OpenPrompt, answer: &PromptAnswer) -> Result<(), PromptReplyError> {
    match (&open.event.payload, answer) {
        (Payload::AwaitingConfirmation(asked), PromptAnswer::Decision { decision, .. }) => {
            check_decision(asked, decision)
        }
        (Payload::AwaitingClarification(asked), PromptAnswer::Response { response, .. }) if takes(asked, response) => {
            Ok(())
        }
        _ => Err(PromptReplyError::WrongKind),
    }
}

fn check_decision(asked: &AwaitingConfirmation, decision: &Decision) -> Result<(), PromptReplyError> {
    // A rejection must always be possible, whatever the producer lists.
    match decision {
        Decision::Reject => Ok(()),
        Decision::Accept if asked.lists(decision) => Ok(()),
        _ => Err(PromptReplyError::NotAllowed),
    }
}

/// Returns whether the response is of an accepted kind (6.5.5).
fn takes(asked: &AwaitingClarification, response: &Response) -> bool {
    let is_choice = |text: &str| asked.choices.iter().flatten().any(|choice| choice.value == text);
    let Some(kinds) = &asked.accepted_response_kinds else {
        return match response {
            Response::Text(text) => asked.choices.is_none() || is_choice(text),
            _ => asked.choices.is_none(),
        };
    };
    kinds.iter().any(|kind| match (kind, response) {
        (ResponseKind::Freetext, Response::Text(_)) => true,
        (ResponseKind::MultipleChoice, Response::Text(text)) => is_choice(text),
        (ResponseKind::YesNo, Response::Boolean(_)) => true,
        (ResponseKind::Numeric, Response::Number(number)) => number.is_finite(),
        // A kind of a later version, which the producer checks.
        (ResponseKind::Other(_), _) => true,
        _ => false,
    })
}

/// Returns the resolutions that confirm this answer.
fn confirming_resolutions(answer: &PromptAnswer) -> &'static [Resolution] {
    match answer {
        PromptAnswer::Decision { decision: Decision::Accept, modified_action: None, .. } => &[Resolution::Accepted],
        PromptAnswer::Decision { .. } => &[Resolution::Rejected],
        PromptAnswer::Response { .. } => &[Resolution::Answered],
    }
}
