//! Replies, and the checks that stand between them and a decision (6.3.4, 6.5.5).

use serde::Serialize;

use super::questions::{Asked, Question, ResolutionDetails};
use super::subscriptions::SubscriptionKey;
use super::{Cx, Engine, EngineOutput};
use crate::confirm::Resolution;
use crate::id::{ReplyToken, SubscriptionId};
use crate::message::{ClarificationReply, ConfirmationReply, Decision, Payload};
use crate::time::{Moment, Timestamp};

/// How far a reply's own time may lie before the question's: clocks differ (decision 11).
const SKEW_SECONDS: u64 = 5;

/// Why a reply was ignored. For logs only: its sender is never told (6.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyRejection {
    /// No such question was asked.
    UnknownToken,
    /// The question is settled.
    Settled,
    /// It came too late, by the producer's clock or by its own.
    Late,
    /// Its own time lies before the question.
    Backdated,
    /// It names another subscription than the one it came on.
    WrongSubscription,
    /// The subscription said that it cannot reply.
    NotCapable,
    /// The subscription never received the question.
    NotReceived,
    /// The decision is not among those allowed.
    NotAllowed,
    /// The response is of another kind than was asked for, or the reply is.
    WrongKind,
}

impl Engine {
    /// Whether this question was asked and has not ended.
    pub fn is_open(&self, token: &ReplyToken) -> bool {
        self.questions.get(token).is_some_and(Question::is_open)
    }

    /// All questions that have not ended.
    pub fn open_tokens(&self) -> impl Iterator<Item = &ReplyToken> {
        self.questions.iter().filter(|(_, question)| question.is_open()).map(|(token, _)| token)
    }

    pub(super) fn handle_confirmation_reply(
        &mut self,
        cx: &mut Cx<'_>,
        (from, arrived): (SubscriptionKey, Moment),
        reply: &ConfirmationReply,
    ) {
        match self.check_reply((from, arrived), &reply.reply_token, (&reply.subscription_id, reply.timestamp)) {
            Err(fault) => self.ignore(&reply.subscription_id, fault),
            Ok(question) => {
                let Asked::Confirmation(confirmation) = &question.asked else {
                    return self.ignore(&reply.subscription_id, ReplyRejection::WrongKind);
                };
                // A no counts even where only a yes was listed.
                let listed =
                    matches!(&question.event.payload, Payload::AwaitingConfirmation(c) if c.lists(&reply.decision));
                if reply.decision == Decision::Accept && !listed {
                    return self.ignore(&reply.subscription_id, ReplyRejection::NotAllowed);
                }
                let resolution = match &reply.decision {
                    // Something else than what was asked about is no yes to it (6.3.2).
                    Decision::Accept if reply.modified_action.is_none() => Resolution::Accepted,
                    Decision::Accept | Decision::Reject => Resolution::Rejected,
                    Decision::Other(_) => return self.ignore(&reply.subscription_id, ReplyRejection::NotAllowed),
                };
                let modified = reply.modified_action.clone().filter(|_| confirmation.takes_modified());
                let ending = ResolutionDetails {
                    subscription: Some(from),
                    decided_by: reply.decided_by.clone(),
                    modified,
                    ..ResolutionDetails::by_itself(resolution)
                };
                self.settle(cx, &reply.reply_token, ending);
            }
        }
    }

    pub(super) fn handle_clarification_reply(
        &mut self,
        cx: &mut Cx<'_>,
        (from, arrived): (SubscriptionKey, Moment),
        reply: &ClarificationReply,
    ) {
        match self.check_reply((from, arrived), &reply.reply_token, (&reply.subscription_id, reply.timestamp)) {
            Err(fault) => self.ignore(&reply.subscription_id, fault),
            Ok(question) => {
                let fits = matches!(&question.asked, Asked::Clarification(c) if c.takes(&reply.response));
                if !fits {
                    return self.ignore(&reply.subscription_id, ReplyRejection::WrongKind);
                }
                let ending = ResolutionDetails {
                    subscription: Some(from),
                    decided_by: reply.decided_by.clone(),
                    response: Some(reply.response.clone()),
                    ..ResolutionDetails::by_itself(Resolution::Answered)
                };
                self.settle(cx, &reply.reply_token, ending);
            }
        }
    }

    fn ignore(&mut self, subscription: &SubscriptionId, fault: ReplyRejection) {
        self.out.push_back(EngineOutput::Ignored(subscription.clone(), fault));
    }

    /// The checks of 6.3.4, entitlement (decision 10) and expiry by both clocks (decision 11): the
    /// producer's when the reply arrived, and the subscriber's when it was sent.
    fn check_reply(
        &self,
        (from, arrived): (SubscriptionKey, Moment),
        token: &ReplyToken,
        (subscription_id, at): (&SubscriptionId, Timestamp),
    ) -> Result<&Question, ReplyRejection> {
        let Some(question) = self.questions.get(token) else {
            let known = self.spent.contains(token.as_str());
            return Err(if known { ReplyRejection::Settled } else { ReplyRejection::UnknownToken });
        };
        if question.ending.is_some() {
            return Err(ReplyRejection::Settled);
        }
        if arrived >= question.deadline || question.expires.is_some_and(|end| at >= end) {
            return Err(ReplyRejection::Late);
        }
        if at.plus_seconds(SKEW_SECONDS) < question.asked_wall.min(question.event.envelope.timestamp) {
            return Err(ReplyRejection::Backdated);
        }
        let Some(subscription) = self.subscriptions.get(from).filter(|s| s.id == *subscription_id) else {
            return Err(ReplyRejection::WrongSubscription);
        };
        if !Self::can_answer(subscription, question.is_confirmation()) {
            return Err(ReplyRejection::NotCapable);
        }
        // Everyone who could answer is handed every question, so this cannot happen today; it must not count if it does.
        if !question.received.contains(&from) {
            return Err(ReplyRejection::NotReceived);
        }
        Ok(question)
    }
}
