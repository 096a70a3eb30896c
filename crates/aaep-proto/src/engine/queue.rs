//! What the engine asks its caller to do, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{CancelRequest, InvokeError, JournalEntry, ReplyRejection, SubscriptionKey};
use crate::confirm::{AuditRecord, ClarificationOutcome, ConfirmationOutcome};
use crate::frame::Frame;
use crate::id::{ReplyToken, SessionId, SubscriptionId, ToolCallId};
use crate::message::{CloseReason, Message};
use crate::time::Moment;

/// What the caller of an engine has to do next.
///
/// Exhaustive on purpose: a caller that ignores an effect loses an event, a decision or a record. A new kind of effect
/// must not compile unnoticed.
#[derive(Debug, PartialEq)]
pub enum EngineEffect {
    /// Send an event to a subscription.
    Event(SubscriptionKey, Arc<Frame>),
    /// Send a message to a subscription.
    Message(SubscriptionKey, Box<Message>),
    /// Release a subscription: it has ended, and nothing more is sent to it.
    Closed(SubscriptionKey, CloseInfo),
    /// Give the agent the outcome of a confirmation.
    Decided(ReplyToken, ConfirmationOutcome),
    /// Give the agent the outcome of a clarification.
    Answered(ReplyToken, ClarificationOutcome),
    /// Run the irreversible call that a permit was used for: its `tool.invoked` was emitted. On an error, do not run it.
    Invoked(ReplyToken, Result<ToolCallId, InvokeError>),
    /// Tell the agent of a session that a user asks it to stop.
    CancelRequested(SessionId, CancelRequest),
    /// Add a record to the audit trail.
    Audit(Box<AuditRecord>),
    /// Write an entry to the journal.
    Journal(Box<JournalEntry>),
    /// Log that a reply was ignored. Its sender gets no response.
    Ignored(SubscriptionId, ReplyRejection),
    /// Wait for the next input, and at most until this moment.
    Idle(Option<Moment>),
}

/// Why a subscription ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseInfo {
    /// The reason for programs.
    pub reason: CloseReason,
    /// The reason for people.
    pub message: String,
}

/// The effects that the caller has not taken yet.
#[derive(Debug)]
pub(super) struct EffectQueue {
    queue: VecDeque<EngineEffect>,
    journal: bool,
    journal_healthy: bool,
}

impl EffectQueue {
    /// Creates an empty queue. Journal entries are added only if `journal` is set.
    pub(super) fn new(journal: bool) -> EffectQueue {
        EffectQueue { queue: VecDeque::new(), journal, journal_healthy: true }
    }

    pub(super) fn push(&mut self, effect: EngineEffect) {
        self.queue.push_back(effect);
    }

    pub(super) fn pop(&mut self) -> Option<EngineEffect> {
        self.queue.pop_front()
    }

    /// Adds a message to a subscription.
    pub(super) fn send(&mut self, to: SubscriptionKey, message: impl Into<Message>) {
        self.push(EngineEffect::Message(to, Box::new(message.into())));
    }

    /// Adds a journal entry, if there is a journal.
    pub(super) fn record(&mut self, entry: impl FnOnce() -> JournalEntry) {
        if self.journal {
            self.push(EngineEffect::Journal(Box::new(entry())));
        }
    }

    /// Whether there is a journal: questions, decisions and irreversible calls then wait for their records.
    pub(super) fn has_journal(&self) -> bool {
        self.journal
    }

    /// Whether the journal can be written at the moment.
    pub(super) fn is_journal_healthy(&self) -> bool {
        self.journal_healthy
    }

    pub(super) fn set_journal_healthy(&mut self, healthy: bool) {
        self.journal_healthy = healthy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_entries_are_made_only_for_a_journal() {
        let mut queue = EffectQueue::new(false);
        queue.record(|| unreachable!("there is no journal"));
        assert_eq!(queue.pop(), None);
        let mut queue = EffectQueue::new(true);
        queue.record(|| JournalEntry::Unsubscribed("sub_1".parse().unwrap()));
        assert!(matches!(queue.pop(), Some(EngineEffect::Journal(_))));
    }
}
