//! The driver: it owns the engine of a producer. Everything else sends it commands and link events, through the worker that
//! hosts it. It makes one change at a time and carries out what the engine wants done.

mod cancellations;
mod effects;
mod fairness;
mod handle;
mod inbound;
mod irreversible;
mod memory_limit;
mod recorder;
mod recover;
mod shutdown;

pub(crate) use fairness::YieldBudget;
pub(crate) use handle::{DriverCall, Handle};
pub(crate) use inbound::{OutOfBandReply, is_reply};
pub(crate) use irreversible::{AbandonOnDrop, IrreversibleCall};
pub use memory_limit::QueueBudget;
pub(crate) use recorder::CommitResult;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aaep_proto::confirm::{AuditRecord, Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome};
use aaep_proto::engine::{Cx, Engine, EngineConfig, EngineError, RecoveredState, ResumePolicy, SubscriptionKey};
use aaep_proto::id::{ReplyToken, SessionId, SubscriptionId};
use aaep_proto::time::Moment;
use aaep_runtime::{Clock, SystemEntropy};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::backpressure::Backpressure;
use crate::driver::cancellations::Cancellations;
use crate::driver::irreversible::InvokeCallback;
use crate::driver::memory_limit::MemoryLimit;
use crate::driver::recorder::Recorder;
use crate::driver::shutdown::Shutdown;
use crate::journal::{Journal, MissedEvents};
use crate::stats::Stats;
use crate::transport::{Link, LinkTx};
use crate::worker::{DriverInputs, EndGuard, Worker};

/// Audit records that may wait for their reader.
const MAX_QUEUED_AUDIT_RECORDS: usize = 1024;

/// Who waits for the outcome of a question, or for the start of the call that it permitted.
pub(crate) enum Waiter {
    Confirmation(oneshot::Sender<ConfirmationOutcome>),
    Clarification(oneshot::Sender<ClarificationOutcome>),
    Invocation(InvokeCallback),
}

/// The engine and everything that the driver needs to run it.
pub(crate) struct DriverState {
    engine: Engine,
    clock: Clock,
    entropy: SystemEntropy,
    pub(crate) links: BTreeMap<SubscriptionKey, LinkTx>,
    waiters: BTreeMap<ReplyToken, Waiter>,
    /// Who waits for users that ask an agent to stop.
    cancellations: Cancellations,
    audit: mpsc::Sender<AuditRecord>,
    /// Its own inputs, for links and for the journal.
    inputs: DriverInputs,
    stats: Arc<Stats>,
    backpressure: Backpressure,
    /// Set if there is a journal.
    pub(crate) recorder: Option<Recorder>,
    /// Subscriptions from before a restart that have not resumed yet.
    recovered: BTreeSet<SubscriptionKey>,
    /// Set when the driver is about to end.
    shutdown: Option<Shutdown>,
    /// Items that were pushed to links since the worker last asked.
    pushed: usize,
    pub(crate) memory_limit: MemoryLimit,
    all_keep_up: Arc<Notify>,
    /// Whether a replay waits until every subscription keeps up.
    pub(crate) replay_waits: bool,
    /// Dropped last: whoever waits for the end of the driver may then use its journal.
    _end: EndGuard,
}

/// A journal and the state that was recovered from it.
pub(crate) struct JournalSetup {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) recovered: RecoveredState,
}

/// How to set up the driver.
pub(crate) struct DriverConfig {
    pub(crate) engine: EngineConfig,
    pub(crate) journal: Option<JournalSetup>,
    pub(crate) max_queued_bytes: usize,
    pub(crate) queue_budget: Option<QueueBudget>,
}

/// Starts the driver on a worker. Returns its handle and the audit records.
pub(crate) fn start(config: DriverConfig, stats: Arc<Stats>, worker: &Worker) -> (Handle, mpsc::Receiver<AuditRecord>) {
    let inputs = worker.new_driver();
    let (audit_tx, audit) = mpsc::channel(MAX_QUEUED_AUDIT_RECORDS);
    let (backpressure, all_keep_up) = (Backpressure::new(), Arc::new(Notify::new()));
    let DriverConfig { engine: mut engine_config, journal, max_queued_bytes, queue_budget } = config;
    engine_config.journal = journal.is_some();
    if let Some(budget) = &queue_budget {
        engine_config.frames = budget.meter();
    }
    let mut driver = DriverState {
        engine: Engine::new(engine_config),
        clock: Clock::new(),
        entropy: SystemEntropy::default(),
        links: BTreeMap::new(),
        waiters: BTreeMap::new(),
        cancellations: Cancellations::default(),
        audit: audit_tx,
        inputs: inputs.clone(),
        stats,
        backpressure: backpressure.clone(),
        recorder: None,
        recovered: BTreeSet::new(),
        shutdown: None,
        pushed: 0,
        memory_limit: MemoryLimit::new(max_queued_bytes, queue_budget),
        all_keep_up: all_keep_up.clone(),
        replay_waits: false,
        _end: inputs.end_guard(),
    };
    if let Some(JournalSetup { journal, recovered }) = journal {
        driver.recorder = Some(Recorder::new(journal, inputs.clone()));
        driver.recover(recovered);
    }
    inputs.start(driver);
    (Handle::new(inputs, backpressure, all_keep_up), audit)
}

impl DriverState {
    /// Changes the engine, with the current time.
    pub(crate) fn with_engine<T>(&mut self, change: impl FnOnce(&mut Engine, &mut Cx<'_>) -> T) -> T {
        let now = self.clock.now();
        change(&mut self.engine, &mut Cx { now, entropy: &mut self.entropy })
    }

    /// Converts a moment of the engine to the time of tokio's clock.
    pub(crate) fn instant(&self, at: Moment) -> Instant {
        self.clock.instant(at)
    }

    /// Returns how many items were pushed to links since the last call.
    pub(crate) fn take_pushed(&mut self) -> usize {
        std::mem::take(&mut self.pushed)
    }

    /// Returns the engine for reading.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Asks for a confirmation. The outcome is sent to the returned channel.
    pub(crate) fn ask_confirmation(
        &mut self,
        session: &SessionId,
        confirmation: Confirmation,
    ) -> Result<(ReplyToken, oneshot::Receiver<ConfirmationOutcome>), EngineError> {
        let token = self.with_engine(|engine, cx| engine.ask(cx, session, confirmation))?;
        let (outcome_tx, outcome) = oneshot::channel();
        self.waiters.insert(token.clone(), Waiter::Confirmation(outcome_tx));
        Ok((token, outcome))
    }

    /// Asks for a clarification. The outcome is sent to the returned channel.
    pub(crate) fn ask_clarification(
        &mut self,
        session: &SessionId,
        clarification: Clarification,
    ) -> Result<(ReplyToken, oneshot::Receiver<ClarificationOutcome>), EngineError> {
        let token = self.with_engine(|engine, cx| engine.clarify(cx, session, clarification))?;
        let (outcome_tx, outcome) = oneshot::channel();
        self.waiters.insert(token.clone(), Waiter::Clarification(outcome_tx));
        Ok((token, outcome))
    }

    /// Makes a new link to an existing subscription, which replaces the previous one, and replays what the subscriber
    /// did not get: after a restart `missed`, else the events after `last`. Returns `None` if there is no such subscription.
    pub(crate) fn resume(
        &mut self,
        id: &SubscriptionId,
        principal: &str,
        last: Option<&str>,
        missed: Option<MissedEvents>,
    ) -> Option<Link> {
        let key = self.engine.find_subscription(id, principal)?;
        let link = self.connect_link(key, ResumePolicy::Resumable);
        if self.recovered.remove(&key) {
            self.replay_missed(key, missed.unwrap_or(MissedEvents { items: Vec::new(), gap: true }));
            self.with_engine(|engine, cx| engine.reconnect(cx, key)).ok()?;
            return link;
        }
        let mut covered = None;
        let (link_tx, entropy) = (self.links.get(&key)?, &mut self.entropy);
        link_tx.replay_after(last, |replay| {
            if !replay.gap {
                return replay.frames;
            }
            covered = Some(replay.covered());
            replay.with_gap_summaries(entropy)
        });
        if let Some(covered) = covered {
            self.with_engine(|engine, cx| engine.send_gap_summary(cx, key, &covered.sessions, &covered.questions));
        }
        self.with_engine(|engine, cx| engine.reconnect(cx, key)).ok()?;
        let full = self.links.get(&key).is_some_and(LinkTx::is_full);
        self.set_blocked(key, full);
        link
    }

    /// Makes a new link to a subscription, which replaces the previous one.
    pub(crate) fn connect_link(&mut self, key: SubscriptionKey, policy: ResumePolicy) -> Option<Link> {
        let id = self.engine.subscription_id(key)?.clone();
        let link_tx = self.links.entry(key).or_insert_with(|| LinkTx::new(policy == ResumePolicy::Resumable));
        Some(link_tx.connect(key, id, self.inputs.clone(), self.backpressure.connect()))
    }

    /// Records whether a link is full, for the engine and for agents that wait for capacity.
    pub(crate) fn set_blocked(&mut self, key: SubscriptionKey, blocked: bool) {
        let Some(link_tx) = self.links.get_mut(&key) else { return };
        link_tx.set_blocked(blocked);
        self.with_engine(|engine, cx| engine.set_blocked(cx, key, blocked));
    }
}
