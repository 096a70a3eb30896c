//! The one task. It owns the engine; everyone else sends it commands. It does one change at a time, then
//! hands on what came of it, then waits for the next change or the next deadline.

mod fairness;
pub(crate) mod inbound;
mod invalid;
pub(crate) mod irreversible;
mod shedding;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aaep_proto::confirm::{AuditRecord, Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome};
use aaep_proto::engine::{
    CloseInfo, Cx, Engine, EngineConfig, EngineError, EngineOutput, RecoveredState, ResumePolicy, SubscriptionKey,
};
use aaep_proto::id::{ReplyToken, SessionId, SubscriptionId};
use aaep_proto::message::{CloseReason, Message};
use aaep_proto::time::Moment;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use self::fairness::YieldBudget;
use self::irreversible::Announced;
use self::shedding::Shedding;
use crate::backpressure::Backpressure;
use crate::clock::{Clock, DeadlineTimer};
use crate::error::Error;
use crate::journal::{CommitResult, Journal, MissedEvents, Recorder};
use crate::transport::{Link, LinkEvent, LinkTx, Outbound};

use crate::stats::Stats;

/// Commands that may wait. Who comes after waits for a place.
const MAILBOX: usize = 256;

/// Messages of subscribers that are handled before the next command of an agent.
const REPLIES_AT_ONCE: usize = 64;

/// Audit records that may wait for their reader.
pub(crate) const AUDIT: usize = 1024;

/// After the last handle is gone, how long to wait for a subscriber that takes nothing more.
const LINGER_SECONDS: u64 = 30;

/// One change. Its place in the mailbox is free again when it is done.
pub(crate) struct Command {
    act: Box<dyn FnOnce(&mut DriverState) + Send>,
    _place: Option<OwnedSemaphorePermit>,
}

/// How everyone else reaches the task. While one of these exists, the task goes on.
///
/// The queue itself has no bound, its places have. So those who can wait do, those who cannot (what is
/// said when something is dropped) need not, and all of it stays in order.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    places: Arc<Semaphore>,
    pub(crate) news: mpsc::UnboundedSender<LinkEvent>,
    pub(crate) reply_places: Arc<Semaphore>,
    pub(crate) pressure: Backpressure,
}

impl Handle {
    /// Makes a change and waits for its result. If the caller goes away meanwhile, the result is dropped
    /// in the task; a result that must be cleaned up does it in its `Drop`.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut DriverState) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.places.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        let (reply, result) = oneshot::channel();
        self.send(Some(place), move |desk| drop(reply.send(act(desk))))?;
        result.await.map_err(|_| Error::Gone)
    }

    /// Makes a change without waiting, even where nothing can wait. To be used at most once for
    /// anything that was made by [`Handle::call`], which keeps the queue bounded.
    pub(crate) fn tell(&self, act: impl FnOnce(&mut DriverState) + Send + 'static) {
        // Without the task there is nobody left to tell.
        let _ = self.send(None, act);
    }

    /// Waits for the end of the task.
    pub(crate) async fn ended(&self) {
        self.commands.closed().await;
    }

    fn send(
        &self,
        place: Option<OwnedSemaphorePermit>,
        act: impl FnOnce(&mut DriverState) + Send + 'static,
    ) -> Result<(), Error> {
        self.commands.send(Command { act: Box::new(act), _place: place }).map_err(|_| Error::Gone)
    }
}

/// Who waits for the end of a question, or for the announcement of the call that it permitted.
pub(crate) enum Waiter {
    Decision(oneshot::Sender<ConfirmationOutcome>),
    Answer(oneshot::Sender<ClarificationOutcome>),
    Call(Announced),
}

/// What the task works on.
pub(crate) struct DriverState {
    engine: Engine,
    pub(crate) clock: Clock,
    pub(crate) ports: BTreeMap<SubscriptionKey, LinkTx>,
    pub(crate) waiting: BTreeMap<ReplyToken, Waiter>,
    audit: mpsc::Sender<AuditRecord>,
    news: mpsc::UnboundedSender<LinkEvent>,
    pub(crate) stats: Arc<Stats>,
    pressure: Backpressure,
    pub(crate) recorder: Option<Recorder>,
    /// Subscriptions from before the restart that have not come back.
    pub(crate) restored: BTreeSet<SubscriptionKey>,
    /// Set when the end is near.
    leaving: Option<Leaving>,
    turns: YieldBudget,
    pub(crate) shedding: Shedding,
}

/// How the task ends.
struct Leaving {
    /// When at the latest.
    latest: Moment,
    reason: (CloseReason, &'static str),
    /// Whether who takes what it is sent may have longer than that.
    keeps_on: bool,
}

/// Why subscriptions end with the agent.
const ENDED: (CloseReason, &str) = (CloseReason::ProducerEnded, "The agent has ended.");
const SHUT_DOWN: (CloseReason, &str) = (CloseReason::ProducerShutdown, "The producer shuts down.");

/// What is kept, and what was.
pub(crate) type JournalSetup = (Arc<dyn Journal>, RecoveredState);

/// How the task is set up.
pub(crate) struct DriverConfig {
    pub(crate) config: EngineConfig,
    pub(crate) memory: Option<JournalSetup>,
    pub(crate) waiting_limit: usize,
}

/// Starts the task in the current runtime.
pub(crate) fn start(setup: DriverConfig, stats: Arc<Stats>) -> (Handle, mpsc::Receiver<AuditRecord>) {
    let (commands, mailbox) = mpsc::unbounded_channel();
    let (news, heard) = mpsc::unbounded_channel();
    let (audit, log) = mpsc::channel(AUDIT);
    let pressure = Backpressure::new();
    let (keep, kept) = mpsc::unbounded_channel();
    let DriverConfig { mut config, memory, waiting_limit } = setup;
    config.journal = memory.is_some();
    let mut desk = DriverState {
        engine: Engine::new(config),
        clock: Clock::new(),
        ports: BTreeMap::new(),
        waiting: BTreeMap::new(),
        audit,
        news: news.clone(),
        stats,
        pressure: pressure.clone(),
        recorder: None,
        restored: BTreeSet::new(),
        leaving: None,
        turns: YieldBudget::default(),
        shedding: Shedding::new(waiting_limit),
    };
    if let Some((journal, restored)) = memory {
        desk.recorder = Some(Recorder::new(journal, keep));
        desk.restore(restored);
        desk.engine.open_tokens().for_each(|token| desk.stats.asked(token));
    }
    tokio::spawn(drive(desk, mailbox, heard, kept));
    let (places, reply_places) = (Arc::new(Semaphore::new(MAILBOX)), Arc::new(Semaphore::new(inbound::WAITING)));
    (Handle { commands, places, news, reply_places, pressure }, log)
}

async fn drive(
    mut desk: DriverState,
    mut mailbox: mpsc::UnboundedReceiver<Command>,
    mut heard: mpsc::UnboundedReceiver<LinkEvent>,
    mut kept: mpsc::UnboundedReceiver<CommitResult>,
) {
    let mut alarm = DeadlineTimer::new();
    let mut closed = false;
    loop {
        // Whatever agents want next, the users' answers go first.
        desk.hear_all(&mut heard, REPLIES_AT_ONCE);
        let due = desk.drain();
        desk.turns.give().await;
        if desk.is_done() {
            return desk.close_all().await;
        }
        let now = desk.clock.now().moment;
        let latest = desk.leaving.as_ref().map(|leaving| leaving.latest).filter(|at| *at > now);
        alarm.set(&desk.clock, [due, latest].into_iter().flatten().min());
        tokio::select! {
            command = mailbox.recv(), if !closed => match command {
                Some(command) => (command.act)(&mut desk),
                None => {
                    closed = true;
                    desk.linger();
                }
            },
            Some(news) = heard.recv() => desk.hear(news),
            Some(kept) = kept.recv() => desk.hear_kept(kept),
            () = alarm.ring() => {
                // A question does not time out while its answer waits here.
                let waiting = heard.len();
                desk.hear_all(&mut heard, waiting);
                desk.act(|engine, cx| engine.handle_timeout(cx));
            }
        }
    }
}

impl DriverState {
    /// Changes the engine, now.
    pub(crate) fn act<T>(&mut self, act: impl FnOnce(&mut Engine, &mut Cx<'_>) -> T) -> T {
        let now = self.clock.now();
        act(&mut self.engine, &mut Cx { now, entropy: &mut self.clock })
    }

    /// What the engine knows.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Asks for consent; the outcome comes by the channel.
    pub(crate) fn ask(
        &mut self,
        session: &SessionId,
        ask: Confirmation,
    ) -> Result<(ReplyToken, oneshot::Receiver<ConfirmationOutcome>), EngineError> {
        let token = self.act(|engine, cx| engine.ask(cx, session, ask))?;
        let (decided, outcome) = oneshot::channel();
        self.waiting.insert(token.clone(), Waiter::Decision(decided));
        Ok((token, outcome))
    }

    /// Asks for an answer; it comes by the channel.
    pub(crate) fn clarify(
        &mut self,
        session: &SessionId,
        ask: Clarification,
    ) -> Result<(ReplyToken, oneshot::Receiver<ClarificationOutcome>), EngineError> {
        let token = self.act(|engine, cx| engine.clarify(cx, session, ask))?;
        let (answered, answer) = oneshot::channel();
        self.waiting.insert(token.clone(), Waiter::Answer(answered));
        Ok((token, answer))
    }

    /// A new link to a subscription that is there already. It takes the place of the last one.
    /// It goes on after this event, or tells of what is missing.
    /// Who comes back after a restart gets what it missed before it.
    pub(crate) fn resume(
        &mut self,
        (id, principal): (&SubscriptionId, &str),
        last: Option<&str>,
        before: Option<MissedEvents>,
    ) -> Option<Link> {
        let key = self.engine.find_subscription(id, principal)?;
        let link = self.link(key, ResumePolicy::Resumable);
        if self.restored.remove(&key) {
            self.bring_back(key, before.unwrap_or(MissedEvents { past: Vec::new(), gap: true }));
            self.act(|engine, cx| engine.reconnect(cx, key)).ok()?;
            return link;
        }
        let mut missed = None;
        let (port, entropy) = (self.ports.get(&key)?, &mut self.clock);
        port.rewind(last, |rewound| {
            if !rewound.gap {
                return rewound.frames;
            }
            missed = Some(rewound.known());
            rewound.sum_up(entropy)
        });
        if let Some((sessions, questions)) = missed {
            self.act(|engine, cx| engine.send_gap_summary(cx, key, &sessions, &questions));
        }
        self.act(|engine, cx| engine.reconnect(cx, key)).ok()?;
        let full = self.ports.get(&key).is_some_and(LinkTx::is_full);
        self.set_blocked(key, full);
        link
    }

    pub(crate) fn link(&mut self, key: SubscriptionKey, binding: ResumePolicy) -> Option<Link> {
        let id = self.engine.subscription_id(key)?.clone();
        let news = self.news.clone();
        let port = self.ports.entry(key).or_insert_with(|| LinkTx::new(binding == ResumePolicy::Resumable));
        port.connect(self.pressure.connect());
        Some(port.link(key, id, news))
    }

    /// Ends all sessions, then, when all has been said or time is up, all subscriptions.
    pub(crate) fn shut_down(&mut self, grace: Duration, summary: &str) {
        self.act(|engine, cx| engine.cancel_all(cx, summary));
        let until = self.clock.now().moment.plus_micros(u64::try_from(grace.as_micros()).unwrap_or(u64::MAX));
        self.leaving.get_or_insert(Leaving { latest: until, reason: SHUT_DOWN, keeps_on: false });
    }

    /// Hands on everything that the last change brought about; answers when the next one is due.
    fn drain(&mut self) -> Option<Moment> {
        let mut due = self.drain_but(|_, message| Some(message));
        if self.shed() {
            due = self.drain_but(|_, message| Some(message));
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
        due
    }

    /// The same, without recording it yet.
    pub(crate) fn take_outputs(&mut self) {
        self.drain_but(|_, message| Some(message));
    }

    /// The same, but messages go through this hand first, which may keep them.
    pub(crate) fn drain_but(
        &mut self,
        mut hand: impl FnMut(SubscriptionKey, Box<Message>) -> Option<Box<Message>>,
    ) -> Option<Moment> {
        loop {
            match self.engine.poll_output() {
                EngineOutput::Event(key, frame) => {
                    if let Some(recorder) = &mut self.recorder
                        && self.ports.get(&key).is_some_and(LinkTx::is_resumable)
                    {
                        recorder.sent(&frame);
                    }
                    self.stats.note_question(&self.engine, &frame);
                    self.push(key, Outbound::Event(frame));
                }
                EngineOutput::Message(key, message) => {
                    if let Some(message) = hand(key, message) {
                        self.push(key, Outbound::Message(message));
                    }
                }
                EngineOutput::Closed(key, closing) => {
                    self.push(key, Outbound::Closed(closing));
                    self.ports.remove(&key);
                    self.restored.remove(&key);
                }
                EngineOutput::Decided(token, outcome) => {
                    if let Some(Waiter::Decision(waiter)) = self.waiting.remove(&token) {
                        // Nobody waits for what was withdrawn.
                        let _ = waiter.send(outcome);
                    }
                }
                EngineOutput::Answered(token, answer) => {
                    if let Some(Waiter::Answer(waiter)) = self.waiting.remove(&token) {
                        let _ = waiter.send(answer);
                    }
                }
                EngineOutput::Invoked(token, result) => self.hear_announced(&token, result),
                EngineOutput::Audit(record) => {
                    self.stats.decided(record.resolution);
                    self.stats.settled(&record.reply_token);
                    self.keep(*record);
                }
                EngineOutput::Journal(entry) => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.note(*entry);
                    }
                }
                EngineOutput::Ignored(subscription, fault) => {
                    self.stats.ignored(fault);
                    tracing::info!(%subscription, ?fault, "a reply was ignored");
                }
                EngineOutput::Idle(due) => return due,
            }
        }
    }

    fn push(&mut self, key: SubscriptionKey, item: Outbound) {
        let Some(port) = self.ports.get(&key) else { return };
        let full = port.push(item);
        self.turns.count();
        if full && !port.blocked {
            self.set_blocked(key, true);
        }
        if self.leaving.as_ref().is_some_and(|leaving| leaving.keeps_on) {
            self.leaving = None;
            self.linger();
        }
    }

    pub(crate) fn set_blocked(&mut self, key: SubscriptionKey, blocked: bool) {
        let Some(port) = self.ports.get_mut(&key) else { return };
        if blocked {
            port.block();
        } else {
            port.unblock();
        }
        self.act(|engine, cx| engine.set_blocked(cx, key, blocked));
    }

    fn keep(&mut self, record: AuditRecord) {
        if let Err(mpsc::error::TrySendError::Full(record)) = self.audit.try_send(record) {
            let (token, resolution) = (&record.reply_token, record.resolution.as_str());
            tracing::warn!(%token, resolution, "the audit log is not read: a record was lost");
        }
    }

    /// Nobody can say anything new. What waits for subscribers who still listen may yet go.
    fn linger(&mut self) {
        let latest = self.clock.now().moment.plus_seconds(LINGER_SECONDS);
        self.leaving.get_or_insert(Leaving { latest, reason: ENDED, keeps_on: true });
    }

    fn is_done(&self) -> bool {
        let Some(leaving) = &self.leaving else { return false };
        let waits = |(key, port): &(&SubscriptionKey, &LinkTx)| port.reader.is_some() && self.engine.waiting(**key) > 0;
        // Who reads gets everything, however slowly it was asked for; who does not read is not waited for long.
        let late = self.clock.now().moment >= leaving.latest;
        !self.ports.iter().filter(waits).any(|(_, port)| !late || (leaving.keeps_on && !port.blocked))
    }

    async fn close_all(&mut self) {
        let (reason, message) = self.leaving.as_ref().map_or(ENDED, |leaving| leaving.reason.clone());
        for key in self.ports.keys().copied().collect::<Vec<_>>() {
            let closing = CloseInfo { reason: reason.clone(), message: message.to_owned() };
            self.act(|engine, cx| engine.close_subscription(cx, key, closing));
        }
        let kept = self.until_kept();
        self.drain();
        if let Some(kept) = kept {
            // Whether it is kept or not, this is the end.
            let _ = kept.await;
        }
    }
}
