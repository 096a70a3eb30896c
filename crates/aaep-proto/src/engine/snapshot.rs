//! What an operator sees of an engine: its subscriptions and its open questions.

use super::Engine;
use super::subscription::SubscriptionKey;
use crate::id::{SessionId, SubscriptionId};
use crate::message::{Capabilities, Payload};
use crate::time::Timestamp;

/// A subscription, as an operator sees it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SubscriptionSnapshot {
    /// Its name inside the engine.
    pub key: SubscriptionKey,
    /// Its id.
    pub id: SubscriptionId,
    /// Whom it belongs to, as the transport proved it.
    pub principal: String,
    /// What is honored.
    pub honored: Capabilities,
    /// Events that were put into its outbox.
    pub accepted: u64,
    /// Events that its outbox released.
    pub delivered: u64,
    /// Events that wait in its outbox.
    pub held: usize,
}

impl SubscriptionSnapshot {
    /// Returns how many events were joined with others instead of being delivered by themselves.
    pub fn coalesced(&self) -> u64 {
        self.accepted.saturating_sub(self.delivered + self.held as u64)
    }
}

/// A question that is not resolved, as an operator sees it. Without its reply token, which permits an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuestionSnapshot {
    /// The session that asks.
    pub session_id: SessionId,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// The action or the question.
    pub shown: String,
}

impl Engine {
    /// Returns all subscriptions.
    pub fn subscription_snapshots(&self) -> Vec<SubscriptionSnapshot> {
        let snapshot = |(key, subscription): (SubscriptionKey, &super::subscription::Subscription)| {
            let (accepted, delivered) = subscription.counts();
            SubscriptionSnapshot {
                key,
                id: subscription.id().clone(),
                principal: subscription.principal().to_owned(),
                honored: subscription.terms().honored().clone(),
                accepted,
                delivered,
                held: subscription.outbox().waiting(),
            }
        };
        self.subscriptions.iter().map(snapshot).collect()
    }

    /// Returns the questions that are not resolved.
    pub fn question_snapshots(&self) -> Vec<QuestionSnapshot> {
        let questions = self.questions.iter().map(|(_, question)| QuestionSnapshot {
            session_id: question.session().clone(),
            asked_at: question.asked_at(),
            shown: match &question.event().payload {
                Payload::AwaitingConfirmation(asked) => asked.action.clone(),
                Payload::AwaitingClarification(asked) => asked.question.clone(),
                _ => String::new(),
            },
        });
        questions.collect()
    }
}
