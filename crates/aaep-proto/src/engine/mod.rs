//! The producer's state machine: sessions, subscriptions, open questions.
//!
//! The engine does no I/O. Its caller calls a method for each input, with a [`Cx`] (the time and random bytes), then takes
//! effects with [`Engine::poll_effect`] until it gets [`EngineEffect::Idle`], and calls [`Engine::handle_timeout`] no
//! later than at the moment given there. All effects are taken before the caller waits again.
//!
//! The state is in parts that own their fields: `Sessions`, `Subscriptions` (with the groups of equal terms), `Questions`,
//! `Permits`, `Recovery`, `Timers` and the `EffectQueue`. The other files are the operations of the engine on these parts.

// State.
mod coalesced;
mod groups;
mod output_state;
mod permits;
mod questions;
mod queue;
mod recovery;
mod session_state;
mod sessions;
mod slots;
mod subscription;
mod subscriptions;
mod timers;

// Operations.
mod ask;
mod cancellation;
mod clean;
mod delivery;
mod journal;
mod lifecycle;
mod missed;
mod pauses;
mod publish;
mod question_texts;
mod rejections;
mod renegotiate;
mod replay;
mod replies;
mod resolve;
mod restore;
mod snapshot;
mod subscribe;
mod text_delivery;
mod tool_calls;
mod write;

mod config;
mod error;

pub use crate::cx::Cx;
use crate::time::Moment;

pub use cancellation::CancelRequest;
pub use config::{EngineConfig, NoSubscriberPolicy};
pub use error::EngineError;
pub use journal::{
    AskedCall, AskedQuestion, JournalAck, JournalEntry, OutputFormat, ResolvedQuestion, SessionSnapshot,
    SubscriptionRecord,
};
pub use lifecycle::{SessionOptions, state_summary_event};
pub use missed::ReplayItem;
pub use queue::{CloseInfo, EngineEffect};
pub use recovery::{FoundQuestion, QuestionStatus};
pub use replies::ReplyRejection;
pub use restore::{Orphan, PendingPermit, PendingWork, RecoveredResolution, RecoveredState};
pub use snapshot::{QuestionSnapshot, SubscriptionSnapshot};
pub use subscription::{ResumePolicy, SubscriptionKey};
pub use subscriptions::SubscriberCounts;
pub use tool_calls::InvokeError;

use permits::Permits;
use questions::Questions;
use queue::EffectQueue;
use recovery::Recovery;
use sessions::Sessions;
use subscriptions::Subscriptions;
use timers::{Timer, Timers};

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Sessions that were started.
    pub sessions: u64,
    /// Events that agents emitted; of text, every chunk that was cut.
    pub published: u64,
    /// Events that were put into outboxes.
    pub queued: u64,
    /// Events that outboxes released. The others were coalesced or still wait.
    pub delivered: u64,
}

/// The state machine of a producer. The module describes how it is driven.
///
/// ```
/// use aaep_proto::engine::{EngineConfig, Cx, Engine, EngineEffect, SessionOptions};
/// use aaep_proto::id::Entropy;
/// use aaep_proto::message::Producer;
/// use aaep_proto::time::{Moment, Now, Timestamp};
///
/// struct Counter(u8);
/// impl Entropy for Counter {
///     fn fill(&mut self, bytes: &mut [u8]) { self.0 += 1; bytes.fill(self.0); }
/// }
/// let mut entropy = Counter(0);
/// let now = Now { moment: Moment::default(), wall: Timestamp::from_millis(0) };
/// let mut engine = Engine::new(EngineConfig::new(Producer::new("gardener")));
/// let cx = &mut Cx { now, entropy: &mut entropy };
/// let session = engine.start_session(cx, SessionOptions::new("Planning your garden."))?;
/// engine.complete_session(cx, &session, "The plan is ready.")?;
/// assert_eq!(engine.poll_effect(), EngineEffect::Idle(None));
/// # Ok::<(), aaep_proto::engine::EngineError>(())
/// ```
pub struct Engine {
    config: EngineConfig,
    sessions: Sessions,
    subscriptions: Subscriptions,
    questions: Questions,
    permits: Permits,
    recovery: Recovery,
    timers: Timers,
    out: EffectQueue,
    stats: EngineStats,
    /// The latest moment that was seen.
    latest: Moment,
}

impl Engine {
    /// Makes an engine without sessions and subscriptions.
    pub fn new(config: EngineConfig) -> Engine {
        Engine {
            out: EffectQueue::new(config.journal),
            config,
            sessions: Sessions::default(),
            subscriptions: Subscriptions::default(),
            questions: Questions::new(),
            permits: Permits::new(),
            recovery: Recovery::default(),
            timers: Timers::default(),
            stats: EngineStats::default(),
            latest: Moment::default(),
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> EngineStats {
        self.stats
    }

    /// Returns how many sessions are open.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sets where the manifest is published. The address may be known only after the start.
    pub fn set_manifest_uri(&mut self, uri: Option<String>) {
        self.config.manifest_uri = uri;
    }

    /// Sets the signed manifest, as keys rotate while the producer runs. Without one, subscribers that demand it are
    /// rejected.
    pub fn set_signed_manifest(&mut self, jws: Option<String>) {
        self.config.offer.signed_manifest = jws.is_some();
        self.config.signed_manifest = jws;
    }

    /// Returns the configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Takes the next effect. After [`EngineEffect::Idle`] there is none until the next input.
    pub fn poll_effect(&mut self) -> EngineEffect {
        let effect = self.out.pop().unwrap_or_else(|| EngineEffect::Idle(self.next_deadline()));
        // Coalesced frames were not metered before.
        if let EngineEffect::Event(_, frame) = &effect {
            frame.count_with(&self.config.frames);
        }
        effect
    }

    /// Returns when [`Engine::handle_timeout`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.timers.next_deadline()
    }

    /// Handles all timers that are due by now.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        while let Some(timer) = self.timers.pop_due(cx.now.moment) {
            match timer {
                Timer::Outbox(key) => self.release_waiting(cx, key),
                Timer::Away(key) => self.handle_away(cx, key),
                Timer::Countdown(token) => self.count_down(cx, &token),
                Timer::Timeout(token) => self.time_out(cx, &token),
                Timer::Orphan(session) => self.end_orphan(cx, &session),
                Timer::HeldText(session, output) => self.release_held(cx, &session, &output),
                Timer::Pause(session, output) => self.handle_pause(cx, &session, &output),
            }
        }
    }

    /// Makes the time of an input monotonic: if the caller's clock goes back, it stands still here.
    fn observe_time(&mut self, cx: &mut Cx<'_>) {
        self.latest = self.latest.max(cx.now.moment);
        cx.now.moment = self.latest;
    }
}
