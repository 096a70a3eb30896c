//! The producer's state machine: sessions, subscriptions, open questions.
//!
//! It does nothing by itself. The caller hands in what happens, each time with a [`Cx`] (the time and a
//! source of random bytes), then takes outputs with [`Engine::poll_output`] until it answers
//! [`EngineOutput::Idle`], and calls [`Engine::handle_timeout`] no later than the moment named there. One
//! change, then drain.

mod answers;
mod clean;
mod delivery;
mod journal;
mod notice;
mod origins;
mod output;
mod outputs;
mod publish;
mod questions;
mod renegotiate;
mod replay;
mod replies;
mod restore;
mod session;
mod sessions;
mod subscriptions;
mod tools;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use journal::{
    AskedQuestion, JournalAck, JournalEntry, OutputFormat, ResolvedQuestion, SessionSnapshot, SubscriptionRecord,
};
pub use origins::QuestionStatus;
pub use replies::ReplyRejection;
pub use restore::{PendingWork, RecoveredState, ReplayItem};
pub use sessions::{MISSED, SessionOptions, state_summary};
pub use subscriptions::{ResumePolicy, SubscriberCounts, SubscriptionKey};
pub use tools::AnnounceError;

use crate::confirm::{
    AuditRecord, ClarificationOutcome, ConfirmationOutcome, PermitError, UnanswerableError, UnsafeDefaultError,
};
use crate::frame::{Frame, FrameMeter};
use crate::id::{Entropy, OutputId, ReplyToken, SessionId, SubscriptionId, ToolCallId};
use crate::limits;
use crate::message::{CloseReason, Message, Producer};
use crate::negotiate::Offer;
use crate::rule::Problem;
use crate::sequence::recent::Recent;
use crate::time::{Moment, Now};

use delivery::SubscriberGroups;
use origins::Origins;
use questions::Question;
use restore::OrphanedSession;
use session::SessionState;
use subscriptions::Subscriptions;
use tools::PendingCall;

/// What comes with every input: one reading of the clocks, and random bytes.
pub struct Cx<'a> {
    /// The time.
    pub now: Now,
    /// Where identifiers come from.
    pub entropy: &'a mut dyn Entropy,
}

/// What the producer does when a question is asked and nobody is subscribed at all (decision 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoSubscriberPolicy {
    /// Waits for the timeout: assistive technology that connects meanwhile is handed the question.
    #[default]
    Wait,
    /// Applies the default at once.
    ApplyDefault,
}

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Who produces.
    pub producer: Producer,
    /// What subscriptions can get.
    pub offer: Offer,
    /// What happens to a question that nobody is there to hear.
    pub no_subscriber_policy: NoSubscriberPolicy,
    /// How long a resumable stream may be away before it counts as gone.
    pub resume_window_secs: u64,
    /// Where the manifest is published.
    pub manifest_uri: Option<String>,
    /// The manifest, signed, for those who demand it. Offered only if the offer says so.
    pub signed_manifest: Option<String>,
    /// Whether what must survive a restart is told as [`EngineOutput::Journal`]. Then questions and decisions wait for
    /// [`Engine::recorded`].
    pub journal: bool,
    /// Counts the bytes of all events that wait for a subscription.
    pub frames: FrameMeter,
}

impl EngineConfig {
    /// The defaults for this producer.
    pub fn new(producer: Producer) -> EngineConfig {
        EngineConfig {
            producer,
            offer: Offer::default(),
            no_subscriber_policy: NoSubscriberPolicy::Wait,
            resume_window_secs: limits::RESUME_WINDOW_SECS,
            manifest_uri: None,
            signed_manifest: None,
            journal: false,
            frames: FrameMeter::default(),
        }
    }
}

/// What has happened so far, in numbers that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Sessions that began.
    pub sessions: u64,
    /// Events that agents said; text counts by the piece that was cut.
    pub published: u64,
    /// Events handed to subscriptions' outboxes.
    pub accepted: u64,
    /// Events that left them. The rest was folded into others or still waits.
    pub delivered: u64,
}

/// What the caller has to do.
#[derive(Debug, PartialEq)]
pub enum EngineOutput {
    /// Send an event to a subscription.
    Event(SubscriptionKey, Arc<Frame>),
    /// Send a message to a subscription.
    Message(SubscriptionKey, Box<Message>),
    /// The subscription has ended; nothing more comes for it.
    Closed(SubscriptionKey, CloseInfo),
    /// A confirmation is decided.
    Decided(ReplyToken, ConfirmationOutcome),
    /// A clarification is answered, or not.
    Answered(ReplyToken, ClarificationOutcome),
    /// The irreversible call that this permit was used for is announced and may run, or it must not run.
    Invoked(ReplyToken, Result<ToolCallId, AnnounceError>),
    /// Keep this record.
    Audit(Box<AuditRecord>),
    /// Keep this over a restart.
    Journal(Box<JournalEntry>),
    /// A reply was ignored; to be logged, never to be told to its sender.
    Ignored(SubscriptionId, ReplyRejection),
    /// Nothing more to do until then, or until the next input.
    Idle(Option<Moment>),
}

/// Why a subscription ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseInfo {
    /// For programs.
    pub reason: CloseReason,
    /// For people.
    pub message: String,
}

/// The caller asked for something that must not be done. Nothing was sent and nothing has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineError {
    /// There is no such session, or it has ended.
    UnknownSession,
    /// There is no such subscription.
    UnknownSubscription,
    /// There is no such output, or it is complete.
    UnknownOutput,
    /// There is no such question, or it is settled.
    UnknownQuestion,
    /// The event breaks rules by itself.
    Invalid(Vec<Problem>),
    /// The event breaks the order of its session.
    OutOfOrder(Vec<Problem>),
    /// There is a method of its own for this.
    WrongMethod(&'static str),
    /// An irreversible tool needs a permit.
    NeedsPermit,
    /// The permit is for something else, was used before, or has expired.
    WrongPermit(PermitError),
    /// The question's default would let silence do harm.
    UnsafeDefault(UnsafeDefaultError),
    /// The question has no valid answer.
    Unanswerable(UnanswerableError),
    /// Too many sessions or questions at once.
    TooMany(&'static str),
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let problems = |f: &mut std::fmt::Formatter<'_>, what: &str, list: &[Problem]| {
            let first = list.first().map_or("", |p| p.message.as_str());
            write!(f, "the event {what}: {first}")
        };
        match self {
            EngineError::UnknownSession => f.write_str("there is no such session, or it has ended"),
            EngineError::UnknownSubscription => f.write_str("there is no such subscription"),
            EngineError::UnknownOutput => f.write_str("there is no such output, or it is complete"),
            EngineError::UnknownQuestion => f.write_str("there is no such question, or it is settled"),
            EngineError::Invalid(list) => problems(f, "is not valid", list),
            EngineError::OutOfOrder(list) => problems(f, "is out of order", list),
            EngineError::WrongMethod(method) => write!(f, "there is another way to do this: {method}"),
            EngineError::NeedsPermit => {
                f.write_str("an irreversible tool runs only with a permit; ask for confirmation first")
            }
            EngineError::WrongPermit(e) => e.fmt(f),
            EngineError::UnsafeDefault(e) => e.fmt(f),
            EngineError::Unanswerable(e) => e.fmt(f),
            EngineError::TooMany(what) => write!(f, "too many {what} at once"),
        }
    }
}

impl std::error::Error for EngineError {}

/// What a deadline is for. One table holds them all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Something waits in an outbox.
    Outbox(SubscriptionKey),
    /// A resumable stream has been away for too long.
    Away(SubscriptionKey),
    /// Time to say how much time is left for an answer.
    Countdown(ReplyToken),
    /// Time for an answer is over.
    Timeout(ReplyToken),
    /// The agent of a session did not come back after a restart.
    Orphan(SessionId),
    /// Text of an output was held back for long enough.
    HeldText(SessionId, OutputId),
    /// Nothing was written to an output for a while.
    Pause(SessionId, OutputId),
}

/// The state machine. See the module for how it is driven.
///
/// ```
/// use aaep_proto::engine::{EngineConfig, Cx, Engine, EngineOutput, SessionOptions};
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
/// assert_eq!(engine.poll_output(), EngineOutput::Idle(None));
/// # Ok::<(), aaep_proto::engine::EngineError>(())
/// ```
pub struct Engine {
    config: EngineConfig,
    sessions: BTreeMap<SessionId, SessionState>,
    ended: Recent,
    subscriptions: Subscriptions,
    shapes: SubscriberGroups,
    questions: BTreeMap<ReplyToken, Question>,
    spent: Recent,
    /// Questions whose permit was used.
    used: Recent,
    /// Irreversible calls that wait until the use of their permit is on record.
    held_calls: BTreeMap<ReplyToken, PendingCall>,
    origins: Origins,
    /// Sessions whose agents have not come back after a restart.
    orphans: BTreeMap<SessionId, OrphanedSession>,
    /// In which state sessions were at the restart.
    stood: BTreeMap<SessionId, (crate::message::Envelope, String)>,
    /// Whether what must be kept can be.
    recording: bool,
    timers: BTreeSet<(Moment, Timer)>,
    out: VecDeque<EngineOutput>,
    /// The latest moment that was seen: a clock that goes back is not followed.
    latest: Moment,
    counts: EngineStats,
}

impl Engine {
    /// An engine with nothing in it.
    pub fn new(config: EngineConfig) -> Engine {
        Engine {
            config,
            sessions: BTreeMap::new(),
            ended: Recent::new(limits::ENDED_SESSIONS),
            subscriptions: Subscriptions::default(),
            shapes: SubscriberGroups::default(),
            questions: BTreeMap::new(),
            spent: Recent::new(limits::REPLY_TOKENS),
            used: Recent::new(limits::REPLY_TOKENS),
            held_calls: BTreeMap::new(),
            origins: Origins::default(),
            orphans: BTreeMap::new(),
            stood: BTreeMap::new(),
            recording: true,
            timers: BTreeSet::new(),
            out: VecDeque::new(),
            latest: Moment::default(),
            counts: EngineStats::default(),
        }
    }

    /// What has happened so far.
    pub fn stats(&self) -> EngineStats {
        self.counts
    }

    /// How many sessions go on.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// From now on the manifest is published there: the address may be known only after the start.
    pub fn set_manifest_uri(&mut self, uri: Option<String>) {
        self.config.manifest_uri = uri;
    }

    /// From now on this is the signed manifest: keys rotate while the producer runs. Without one, those who demand it
    /// are refused.
    pub fn set_signed_manifest(&mut self, jws: Option<String>) {
        self.config.offer.signed_manifest = jws.is_some();
        self.config.signed_manifest = jws;
    }

    /// What was set up.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The next thing to do. [`EngineOutput::Idle`] is the last.
    pub fn poll_output(&mut self) -> EngineOutput {
        let output = self.out.pop_front().unwrap_or_else(|| EngineOutput::Idle(self.next_deadline()));
        // What was folded was not seen by the meter before.
        if let EngineOutput::Event(_, frame) = &output {
            frame.count_with(&self.config.frames);
        }
        output
    }

    /// When [`Engine::handle_timeout`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what is due by now.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        while let Some((at, _)) = self.timers.first()
            && *at <= cx.now.moment
            && let Some((_, timer)) = self.timers.pop_first()
        {
            match timer {
                Timer::Outbox(key) => self.pump(cx, key),
                Timer::Away(key) => self.count_as_gone(cx, key),
                Timer::Countdown(token) => self.count_down(cx, &token),
                Timer::Timeout(token) => self.time_out(cx, &token),
                Timer::Orphan(session) => self.end_orphan(cx, &session),
                Timer::HeldText(session, output) => self.holding_ended(cx, &session, &output),
                Timer::Pause(session, output) => self.handle_pause(cx, &session, &output),
            }
        }
    }

    /// Deadlines count by a clock that never goes back; if the caller's does, it stands still here.
    fn observe_time(&mut self, cx: &mut Cx<'_>) {
        self.latest = self.latest.max(cx.now.moment);
        cx.now.moment = self.latest;
    }
}
