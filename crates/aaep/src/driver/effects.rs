//! Carries out the effects of the engine: events and messages go to links, outcomes to the tasks that wait for them, records
//! to the journal and the audit log.

use aaep_proto::confirm::AuditRecord;
use aaep_proto::engine::{EngineEffect, SubscriptionKey};
use aaep_proto::id::ReplyToken;
use aaep_proto::message::Message;
use aaep_proto::time::Moment;
use tokio::sync::mpsc;

use crate::driver::{DriverState, Waiter};
use crate::transport::{LinkTx, Outbound};

impl DriverState {
    /// Carries out all effects of the last changes and hands their records to the journal. Returns the engine's next
    /// deadline.
    pub(crate) fn flush(&mut self) -> Option<Moment> {
        let mut deadline = self.drain_effects();
        if self.shed_slow_subscriptions() {
            deadline = self.drain_effects();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
        if self.replay_waits && self.engine.all_keep_up() {
            self.replay_waits = false;
            self.all_keep_up.notify_waiters();
        }
        deadline
    }

    /// Carries out all effects of the engine, but collects records for the journal only. Returns the engine's next
    /// deadline.
    pub(crate) fn drain_effects(&mut self) -> Option<Moment> {
        self.drain_effects_with(|_, message| Some(message))
    }

    /// Carries out all effects of the engine as [`DriverState::drain_effects`] does. Messages of the handshake are passed
    /// to `intercept` first; what it returns is sent to the link.
    pub(crate) fn drain_effects_with(
        &mut self,
        mut intercept: impl FnMut(SubscriptionKey, Box<Message>) -> Option<Box<Message>>,
    ) -> Option<Moment> {
        loop {
            match self.engine.poll_effect() {
                EngineEffect::Event(key, frame) => {
                    if let Some(recorder) = &mut self.recorder
                        && self.links.get(&key).is_some_and(LinkTx::is_resumable)
                    {
                        recorder.push_sent(&frame);
                    }
                    self.stats.note_question(&self.engine, &frame);
                    self.push(key, Outbound::Event(frame));
                }
                EngineEffect::Message(key, message) => {
                    if let Some(message) = intercept(key, message) {
                        self.push(key, Outbound::Message(message));
                    }
                }
                EngineEffect::Closed(key, info) => {
                    self.push(key, Outbound::Closed(info));
                    self.links.remove(&key);
                    self.recovered.remove(&key);
                }
                EngineEffect::Decided(token, outcome) => {
                    if let Some(Waiter::Confirmation(waiter)) = self.waiters.remove(&token) {
                        // An error means that the agent stopped waiting.
                        let _ = waiter.send(outcome);
                    }
                }
                EngineEffect::Answered(token, outcome) => {
                    if let Some(Waiter::Clarification(waiter)) = self.waiters.remove(&token) {
                        let _ = waiter.send(outcome);
                    }
                }
                EngineEffect::Invoked(token, result) => self.handle_invoked(&token, result),
                EngineEffect::Audit(record) => self.handle_audit_record(*record),
                EngineEffect::Journal(entry) => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.push(*entry);
                    }
                }
                EngineEffect::CancelRequested(session, request) => self.cancellations.notify(&session, request),
                EngineEffect::Ignored(subscription, rejection) => {
                    self.stats.count_ignored(rejection);
                    tracing::info!(%subscription, ?rejection, "reply ignored");
                }
                EngineEffect::Idle(deadline) => return deadline,
            }
        }
    }

    fn push(&mut self, key: SubscriptionKey, item: Outbound) {
        let Some(link_tx) = self.links.get(&key) else { return };
        let full = link_tx.push(item);
        self.pushed += 1;
        if full && !link_tx.is_blocked() {
            self.set_blocked(key, true);
        }
        self.extend_drain();
    }

    /// Returns the last decisions, the newest first.
    pub(crate) fn recent_decisions(&self) -> Vec<AuditRecord> {
        self.stats.recent_decisions()
    }

    fn handle_audit_record(&mut self, record: AuditRecord) {
        self.stats.count_resolved(record.resolution);
        self.stats.note_decision(&record);
        self.stats.remove_open(&record.reply_token);
        if let Err(mpsc::error::TrySendError::Full(record)) = self.audit.try_send(record) {
            let (token, resolution): (&ReplyToken, _) = (&record.reply_token, record.resolution.as_str());
            tracing::warn!(%token, resolution, "audit record lost: read the audit log of the producer faster");
        }
    }
}
