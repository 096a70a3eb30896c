//! The user's answers: once per question, only to what is open, only as the terms and the question allow.

use serde_json::{Map, Value};

use super::prompts::OpenPrompt;
use super::{Cx, PromptEnd, PromptId, Subscriber, SubscriberEvent, SubscriberOutput};
use crate::confirm::Resolution;
use crate::id::{ReplyToken, SubscriptionId};
use crate::message::{
    AwaitingClarification, AwaitingConfirmation, ClarificationReply, ConfirmationReply, Decision, Message, Payload,
    Response, ResponseKind,
};
use crate::record::Decimal;
use crate::time::Timestamp;

/// What the user answers.
///
/// ```
/// use aaep_proto::message::Decision;
/// use aaep_proto::subscriber::PromptAnswer;
/// assert_eq!(PromptAnswer::reject(), PromptAnswer::Decision { decision: Decision::Reject, rationale: None, modified_action: None });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAnswer {
    /// To a question about an action.
    Decision {
        /// Accept or reject.
        decision: Decision,
        /// Why.
        rationale: Option<String>,
        /// Accept, but otherwise. A producer that cannot do that takes it as reject.
        modified_action: Option<Map<String, Value>>,
    },
    /// To a question about what the user wants.
    Response {
        /// The answer.
        response: Response,
        /// How sure the subscriber is of what it understood, from 0 to 1.
        confidence: Option<f64>,
    },
}

impl PromptAnswer {
    /// Yes, do it.
    pub fn accept() -> PromptAnswer {
        PromptAnswer::Decision { decision: Decision::Accept, rationale: None, modified_action: None }
    }

    /// No, do not.
    pub fn reject() -> PromptAnswer {
        PromptAnswer::Decision { decision: Decision::Reject, rationale: None, modified_action: None }
    }

    /// The answer to a clarification.
    pub fn response(response: Response) -> PromptAnswer {
        PromptAnswer::Response { response, confidence: None }
    }
}

/// Why an answer was not sent. The question stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptReplyError {
    /// The question is not open any more.
    Gone,
    /// There is no connection at the moment. The question may still be open.
    NotConnected,
    /// The terms do not let this subscriber answer.
    NotGranted,
    /// The question does not take this decision.
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
    /// The user answers a question.
    pub fn reply(&mut self, cx: &mut Cx<'_>, id: PromptId, answer: PromptAnswer) -> Result<(), PromptReplyError> {
        self.observe_time(cx);
        let ended = self.prompts.expire(cx.now.moment);
        self.tell_ended(ended);
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
        // The user decided after the question was put; a clock that is behind must not say otherwise.
        let at = cx.now.wall.max(open.event.envelope.timestamp);
        open.answered = agreeing(&answer);
        let message = self.message(&open.token, subscription, at, answer);
        self.out.push_back(SubscriberOutput::Send(Box::new(message)));
        self.emit(SubscriberEvent::PromptEnded(id, PromptEnd::AnsweredHere));
        self.prompts.keep_answered(open);
        Ok(())
    }

    /// The transport could not deliver a reply: the question is put again, if there is time.
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

/// Whether the question takes this answer.
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
    // Saying no must always be possible, whatever a producer lists.
    match decision {
        Decision::Reject => Ok(()),
        Decision::Accept if asked.lists(decision) => Ok(()),
        _ => Err(PromptReplyError::NotAllowed),
    }
}

/// Whether the response is of a kind that was asked for (6.5.5).
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
        // A kind of a later version: the producer knows what it takes.
        (ResponseKind::Other(_), _) => true,
        _ => false,
    })
}

/// The verdicts that say that this answer counted.
fn agreeing(answer: &PromptAnswer) -> &'static [Resolution] {
    match answer {
        PromptAnswer::Decision { decision: Decision::Accept, modified_action: None, .. } => &[Resolution::Accepted],
        PromptAnswer::Decision { .. } => &[Resolution::Rejected],
        PromptAnswer::Response { .. } => &[Resolution::Answered],
    }
}
