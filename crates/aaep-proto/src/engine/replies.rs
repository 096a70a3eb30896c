//! Replies, and the checks that stand between them and a decision (6.3.4, 6.5.5).

use serde::Serialize;

use super::questions::{Asked, Ending, Question};
use super::subscriptions::SubscriptionKey;
use super::{Cx, Engine, Output};
use crate::confirm::Verdict;
use crate::id::{ReplyToken, SubscriptionId};
use crate::message::{ClarificationReply, ConfirmationReply, Decision, Payload};
use crate::time::{Moment, Timestamp};

/// How far a reply's own time may lie before the question's: clocks differ (decision 11).
const SKEW_SECONDS: u64 = 5;

/// Why a reply was ignored. For logs only: its sender is never told (6.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyFault {
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
                    return self.ignore(&reply.subscription_id, ReplyFault::WrongKind);
                };
                // A no counts even where only a yes was listed.
                let listed =
                    matches!(&question.event.payload, Payload::AwaitingConfirmation(c) if c.lists(&reply.decision));
                if reply.decision == Decision::Accept && !listed {
                    return self.ignore(&reply.subscription_id, ReplyFault::NotAllowed);
                }
                let verdict = match &reply.decision {
                    // Something else than what was asked about is no yes to it (6.3.2).
                    Decision::Accept if reply.modified_action.is_none() => Verdict::Accepted,
                    Decision::Accept | Decision::Reject => Verdict::Rejected,
                    Decision::Other(_) => return self.ignore(&reply.subscription_id, ReplyFault::NotAllowed),
                };
                let modified = reply.modified_action.clone().filter(|_| confirmation.takes_modified());
                let ending = Ending {
                    subscription: Some(from),
                    decided_by: reply.decided_by.clone(),
                    modified,
                    ..Ending::by_itself(verdict)
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
                    return self.ignore(&reply.subscription_id, ReplyFault::WrongKind);
                }
                let ending = Ending {
                    subscription: Some(from),
                    decided_by: reply.decided_by.clone(),
                    response: Some(reply.response.clone()),
                    ..Ending::by_itself(Verdict::Answered)
                };
                self.settle(cx, &reply.reply_token, ending);
            }
        }
    }

    fn ignore(&mut self, subscription: &SubscriptionId, fault: ReplyFault) {
        self.out.push_back(Output::Ignored(subscription.clone(), fault));
    }

    /// The checks of 6.3.4, entitlement (decision 10) and expiry by both clocks (decision 11): the
    /// producer's when the reply arrived, and the subscriber's when it was sent.
    fn check_reply(
        &self,
        (from, arrived): (SubscriptionKey, Moment),
        token: &ReplyToken,
        (subscription_id, at): (&SubscriptionId, Timestamp),
    ) -> Result<&Question, ReplyFault> {
        let Some(question) = self.questions.get(token) else {
            let known = self.spent.contains(token.as_str());
            return Err(if known { ReplyFault::Settled } else { ReplyFault::UnknownToken });
        };
        if question.ending.is_some() {
            return Err(ReplyFault::Settled);
        }
        if arrived >= question.deadline || question.expires.is_some_and(|end| at >= end) {
            return Err(ReplyFault::Late);
        }
        if at.plus_seconds(SKEW_SECONDS) < question.asked_wall.min(question.event.envelope.timestamp) {
            return Err(ReplyFault::Backdated);
        }
        let Some(subscription) = self.subscriptions.get(from).filter(|s| s.id == *subscription_id) else {
            return Err(ReplyFault::WrongSubscription);
        };
        if !Self::can_answer(subscription, question.is_confirmation()) {
            return Err(ReplyFault::NotCapable);
        }
        // Everyone who could answer is handed every question, so this cannot happen today; it must not count if it does.
        if !question.received.contains(&from) {
            return Err(ReplyFault::NotReceived);
        }
        Ok(question)
    }
}
