//! Replies to questions (6.3.4, 6.5.5). [`Engine::check_reply`] checks the sender and the time of a reply; its content is
//! checked by the kind of question.

use serde::Serialize;

use super::questions::{Question, QuestionContent, ResolutionDetails};
use super::subscription::SubscriptionKey;
use super::{Cx, Engine, EngineEffect};
use crate::confirm::Resolution;
use crate::id::{ReplyToken, SubscriptionId};
use crate::limits;
use crate::message::{ClarificationReply, ConfirmationReply, Decision, Payload};
use crate::time::{Moment, Timestamp};

/// Why a reply was ignored. For logs only: its sender gets no response (6.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyRejection {
    /// There is no question with this token.
    UnknownToken,
    /// The question is resolved.
    Settled,
    /// It is too late, by the clock of the producer or by its own timestamp.
    Late,
    /// Its timestamp is before the question.
    Backdated,
    /// It names another subscription than the one that sent it.
    WrongSubscription,
    /// The terms of the subscription do not include replies of this kind.
    NotCapable,
    /// The subscription did not receive the question.
    NotReceived,
    /// The decision is not among those allowed.
    NotAllowed,
    /// The reply or its response is of another kind than was asked for.
    WrongKind,
}

/// Where a reply came from and when.
#[derive(Clone, Copy)]
pub(super) struct ReplyArrival {
    pub(super) subscription: SubscriptionKey,
    pub(super) arrived: Moment,
}

impl Engine {
    /// Whether a question is open: it was asked and is not resolved.
    pub fn is_open(&self, token: &ReplyToken) -> bool {
        self.questions.get(token).is_some_and(Question::is_open)
    }

    /// Returns the tokens of all open questions.
    pub fn open_tokens(&self) -> impl Iterator<Item = &ReplyToken> {
        self.questions.iter().filter(|(_, question)| question.is_open()).map(|(token, _)| token)
    }

    pub(super) fn handle_confirmation_reply(
        &mut self,
        cx: &mut Cx<'_>,
        arrival: ReplyArrival,
        reply: &ConfirmationReply,
    ) {
        let checked = self
            .check_reply(arrival, &reply.reply_token, &reply.subscription_id, reply.timestamp)
            .and_then(|question| resolution_by(question, arrival.subscription, reply));
        match checked {
            Ok(details) => self.resolve(cx, &reply.reply_token, details),
            Err(rejection) => self.ignore_reply(&reply.subscription_id, rejection),
        }
    }

    pub(super) fn handle_clarification_reply(
        &mut self,
        cx: &mut Cx<'_>,
        arrival: ReplyArrival,
        reply: &ClarificationReply,
    ) {
        let checked = self.check_reply(arrival, &reply.reply_token, &reply.subscription_id, reply.timestamp).and_then(
            |question| match question.content() {
                QuestionContent::Clarification(asked) if asked.takes(&reply.response) => Ok(()),
                _ => Err(ReplyRejection::WrongKind),
            },
        );
        match checked {
            Ok(()) => {
                let details = ResolutionDetails {
                    subscription: Some(arrival.subscription),
                    decided_by: reply.decided_by.clone(),
                    response: Some(reply.response.clone()),
                    ..ResolutionDetails::automatic(Resolution::Answered)
                };
                self.resolve(cx, &reply.reply_token, details);
            }
            Err(rejection) => self.ignore_reply(&reply.subscription_id, rejection),
        }
    }

    fn ignore_reply(&mut self, subscription: &SubscriptionId, rejection: ReplyRejection) {
        self.out.push(EngineEffect::Ignored(subscription.clone(), rejection));
    }

    /// Makes the checks of 6.3.4, of entitlement (decision 10) and of expiry by both clocks (decision 11): the
    /// producer's when the reply arrived, and the subscriber's when it was sent.
    fn check_reply(
        &self,
        arrival: ReplyArrival,
        token: &ReplyToken,
        subscription_id: &SubscriptionId,
        sent_at: Timestamp,
    ) -> Result<&Question, ReplyRejection> {
        let Some(question) = self.questions.get(token) else {
            let resolved = self.questions.was_resolved(token);
            return Err(if resolved { ReplyRejection::Settled } else { ReplyRejection::UnknownToken });
        };
        if question.is_resolving() {
            return Err(ReplyRejection::Settled);
        }
        if arrival.arrived >= question.deadline() || question.expires().is_some_and(|end| sent_at >= end) {
            return Err(ReplyRejection::Late);
        }
        if sent_at.plus_seconds(limits::CLOCK_SKEW_SECONDS) < question.earliest_reply() {
            return Err(ReplyRejection::Backdated);
        }
        let Some(sender) = self.subscriptions.get(arrival.subscription).filter(|s| s.id() == subscription_id) else {
            return Err(ReplyRejection::WrongSubscription);
        };
        if !sender.can_answer(question.kind()) {
            return Err(ReplyRejection::NotCapable);
        }
        // Every subscription that could answer gets every question, so this cannot happen today.
        if !question.was_received_by(arrival.subscription) {
            return Err(ReplyRejection::NotReceived);
        }
        Ok(question)
    }
}

/// Returns how a reply resolves a confirmation.
fn resolution_by(
    question: &Question,
    sender: SubscriptionKey,
    reply: &ConfirmationReply,
) -> Result<ResolutionDetails, ReplyRejection> {
    let QuestionContent::Confirmation(asked) = question.content() else { return Err(ReplyRejection::WrongKind) };
    // A no counts even where only a yes was listed.
    let listed = matches!(&question.event().payload, Payload::AwaitingConfirmation(c) if c.lists(&reply.decision));
    if reply.decision == Decision::Accept && !listed {
        return Err(ReplyRejection::NotAllowed);
    }
    let resolution = match &reply.decision {
        // A modified action is not the action that was asked about (6.3.2).
        Decision::Accept if reply.modified_action.is_none() => Resolution::Accepted,
        Decision::Accept | Decision::Reject => Resolution::Rejected,
        Decision::Other(_) => return Err(ReplyRejection::NotAllowed),
    };
    Ok(ResolutionDetails {
        subscription: Some(sender),
        decided_by: reply.decided_by.clone(),
        modified_action: if asked.takes_modified() { reply.modified_action.clone() } else { None },
        ..ResolutionDetails::automatic(resolution)
    })
}
