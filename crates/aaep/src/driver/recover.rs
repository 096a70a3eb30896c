//! The driver's part in a restart: it rebuilds the engine's state, replays what subscribers missed and finds questions.

use std::sync::Arc;

use aaep_proto::confirm::{ClarificationOutcome, ConfirmationOutcome};
use aaep_proto::engine::{FoundQuestion, QuestionStatus, RecoveredState, SubscriptionKey};
use aaep_proto::id::{ReplyToken, SubscriptionId};
use tokio::sync::oneshot;

use crate::driver::recorder::CommitResult;
use crate::driver::{DriverState, Waiter};
use crate::journal::{Journal, MissedEvents};
use crate::recovery::{PendingQuestion, RecoveredQuestion};
use crate::transport::LinkTx;

impl DriverState {
    /// Rebuilds the engine's state.
    pub(crate) fn recover(&mut self, recovered: RecoveredState) {
        let subscribers: Vec<_> = recovered.subscriptions.iter().map(|s| (s.id.clone(), s.principal.clone())).collect();
        self.with_engine(|engine, cx| engine.restore(cx, recovered));
        for (id, principal) in subscribers {
            if let Some(key) = self.engine().find_subscription(&id, &principal) {
                self.links.insert(key, LinkTx::new(true));
                self.recovered.insert(key);
            }
        }
        self.engine.open_tokens().for_each(|token| self.stats.insert_open(token));
    }

    /// Returns the journal if the subscription was recovered and has not resumed yet: then the journal knows what it
    /// missed.
    pub(crate) fn journal_for(&self, id: &SubscriptionId, principal: &str) -> Option<Arc<dyn Journal>> {
        let key = self.engine().find_subscription(id, principal)?;
        let recorder = self.recorder.as_ref()?;
        self.recovered.contains(&key).then(|| recorder.journal.clone())
    }

    /// Sends a resuming subscription what it missed before the restart. If not all of that is known, it also gets the
    /// state of every session at the restart.
    pub(crate) fn replay_missed(&mut self, key: SubscriptionKey, missed: MissedEvents) {
        let frames = self.with_engine(|engine, cx| {
            let mut frames = engine.replay_frames(cx, key, missed.items);
            if missed.gap {
                frames.extend(engine.states_at_restart(cx, key));
            }
            frames
        });
        if let Some(link_tx) = self.links.get(&key) {
            link_tx.push_front(frames);
        }
    }

    /// Returns a channel that resolves when everything up to now is recorded, or could not be. Returns `None` if there is no
    /// journal.
    pub(crate) fn commit_ticket(&mut self) -> Option<oneshot::Receiver<bool>> {
        self.drain_effects();
        self.recorder.as_mut().map(|recorder| recorder.ticket())
    }

    /// Returns a channel that resolves when the last change is recorded, or could not be. Returns `None` if there is no
    /// journal, or the change need not be recorded before it counts.
    pub(crate) fn durable_commit_ticket(&mut self) -> Option<oneshot::Receiver<bool>> {
        let recorder = self.recorder.as_mut()?;
        recorder.has_durable_entry().then(|| recorder.ticket())
    }

    /// Handles the journal's report about entries that were recorded.
    pub(crate) fn handle_commit(&mut self, CommitResult { acks, committed }: CommitResult) {
        if self.recorder.as_mut().is_some_and(|recorder| recorder.set_healthy(committed)) {
            if committed {
                tracing::info!("journal writes succeed again");
            } else {
                tracing::error!("journal write failed; questions are rejected until storage recovers");
            }
        }
        self.with_engine(|engine, cx| {
            engine.set_journal_healthy(committed);
            acks.iter().for_each(|ack| engine.handle_journal_ack(cx, ack, committed));
        });
    }

    /// Finds the question with this origin, and its session. If it is open, its outcome goes to the returned question from
    /// now on.
    pub(crate) fn find_question(&mut self, origin: &str) -> Option<FoundQuestion<RecoveredQuestion>> {
        let FoundQuestion { session, status } = self.engine().find_question(origin)?;
        let status = match status {
            QuestionStatus::Decided(outcome) => RecoveredQuestion::Decided(outcome),
            QuestionStatus::Answered(outcome) => RecoveredQuestion::Answered(outcome),
            QuestionStatus::Pending(token) if self.engine().is_confirmation(&token) => {
                RecoveredQuestion::Confirmation(self.wait_for_confirmation(token))
            }
            QuestionStatus::Pending(token) => RecoveredQuestion::Clarification(self.wait_for_clarification(token)),
        };
        Some(FoundQuestion { session, status })
    }

    fn wait_for_confirmation(&mut self, token: ReplyToken) -> PendingQuestion<ConfirmationOutcome> {
        let (outcome_tx, outcome) = oneshot::channel();
        self.waiters.insert(token.clone(), Waiter::Confirmation(outcome_tx));
        PendingQuestion::new(token, outcome)
    }

    fn wait_for_clarification(&mut self, token: ReplyToken) -> PendingQuestion<ClarificationOutcome> {
        let (outcome_tx, outcome) = oneshot::channel();
        self.waiters.insert(token.clone(), Waiter::Clarification(outcome_tx));
        PendingQuestion::new(token, outcome)
    }
}
