//! The listener's state machine: what a subscriber does with what a producer says.
//!
//! It knows nothing of transports. The caller hands in what happens, each time with a [`Cx`] (the time and a source
//! of random bytes), then takes outputs with [`Subscriber::poll_output`] until it answers [`SubscriberOutput::Idle`], and calls
//! [`Subscriber::handle_timeout`] no later than the moment named there. One change, then drain.
//!
//! What comes from the producer is never trusted: it is bounded, put in order, freed of what came twice, and paced.
//! Only one thing is never held back: a critical event.

mod connection;
mod event;
mod flood;
mod handshake;
mod notice;
mod order;
mod prompts;
mod receive;
mod replies;

use std::collections::{BTreeMap, VecDeque};

pub use crate::cx::Cx;
pub use connection::DisconnectReason;
pub use event::SubscriberEvent;
pub use handshake::ManifestCheck;
pub use notice::{Notice, NoticeKind};
pub use prompts::{Prompt, PromptEnd, PromptId};
pub use receive::memory_size;
pub use replies::{PromptAnswer, PromptReplyError};

use crate::id::{EventId, SessionId, SubscriptionId};
use crate::limits;
use crate::message::{Message, SubscriptionRejected, SubscriptionRequest};
use crate::sequence::recent::Recent;
use crate::time::Moment;
use connection::{Phase, Silence};
use flood::FloodGuard;
use handshake::HonoredTerms;
use notice::NoticeLimiter;
use prompts::Prompts;
use receive::Followed;

/// Whether the producer knows the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandshakeMode {
    /// A request comes first, and terms are agreed.
    #[default]
    Full,
    /// The producer just sends (level 1). Replies carry a subscription id that is made up.
    Absent,
}

/// How a subscriber is set up.
///
/// ```
/// use aaep_proto::subscriber::SubscriberConfig;
/// let config = SubscriberConfig::new("reader-1", Default::default());
/// assert_eq!(config.request.subscriber_id, "reader-1");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriberConfig {
    /// Who listens, and what it can take.
    pub request: SubscriptionRequest,
    /// Whether the producer knows the handshake.
    pub handshake: HandshakeMode,
    /// Most events per second that are passed on, whatever the producer sends. Critical ones always are.
    pub max_events_per_second: u32,
    /// After how many seconds without a sign of life the producer is asked for one; a notice follows if none comes.
    pub silence_seconds: u64,
    /// Whether a connection that stays silent after the notice is given up. Only for transports with signs of life.
    pub give_up_silent: bool,
    /// Who answers questions, for the producer's records.
    pub decided_by: Option<String>,
}

impl SubscriberConfig {
    /// The defaults for a subscriber with this stable name and these capabilities.
    pub fn new(subscriber_id: impl Into<String>, capabilities: crate::message::Capabilities) -> SubscriberConfig {
        SubscriberConfig {
            request: SubscriptionRequest::new(subscriber_id, capabilities),
            handshake: HandshakeMode::Full,
            max_events_per_second: limits::FLOOD_EVENTS_PER_SECOND,
            silence_seconds: limits::SILENCE_SECONDS,
            give_up_silent: false,
            decided_by: None,
        }
    }
}

/// Where a stream that broke off can be taken up again, if the transport can do that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// The last event that arrived.
    pub after: Option<EventId>,
}

/// Events are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Events of a session with these numbers did not come.
    Numbers {
        /// The session.
        session: SessionId,
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// The connection was away; whatever happened meanwhile did not come.
    Away,
}

/// Why listening is over for good.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// It was closed here.
    Closed,
    /// The producer does not serve, and asking again would not help.
    Rejected(Box<SubscriptionRejected>),
    /// The transport says that trying again would not help.
    Refused(String),
    /// What the producer presents is not what was demanded.
    ManifestMismatch(String),
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscriberOutput {
    /// Connect now; take the stream up where it broke off if that is possible.
    Connect(Option<ResumePoint>),
    /// Send this to the producer.
    Send(Box<Message>),
    /// Ask for a sign of life, if the transport can.
    Probe,
    /// End the connection after everything before it is sent.
    Disconnect,
    /// Report this to the program.
    Event(SubscriberEvent),
    /// Nothing more to do until then, or until the next input.
    Idle(Option<Moment>),
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberStats {
    /// Messages that arrived.
    pub messages: u64,
    /// Events among them.
    pub events: u64,
    /// What could not be read.
    pub malformed: u64,
    /// Events that had come before.
    pub duplicates: u64,
    /// Events that came in another order than they were numbered.
    pub out_of_order: u64,
    /// Events that another one took the place of while the producer was too fast.
    pub folded: u64,
    /// Events that were dropped because the producer was too fast.
    pub dropped: u64,
    /// Notices that were counted only.
    pub notices_suppressed: u64,
}

/// The state machine. See the module for how it is driven.
///
/// ```
/// use aaep_proto::cx::Cx;
/// use aaep_proto::id::Entropy;
/// use aaep_proto::message::Message;
/// use aaep_proto::subscriber::{SubscriberConfig, SubscriberOutput, Subscriber};
/// use aaep_proto::time::{Moment, Now, Timestamp};
///
/// struct Zeros;
/// impl Entropy for Zeros {
///     fn fill(&mut self, bytes: &mut [u8]) { bytes.fill(0) }
/// }
/// let now = Now { moment: Moment::default(), wall: Timestamp::from_millis(0) };
/// let cx = &mut Cx { now, entropy: &mut Zeros };
/// let mut subscriber = Subscriber::new(SubscriberConfig::new("reader-1", Default::default()));
/// subscriber.start(cx);
/// assert_eq!(subscriber.poll_output(), SubscriberOutput::Connect(None));
/// subscriber.connected(cx, false);
/// let SubscriberOutput::Send(first) = subscriber.poll_output() else { unreachable!() };
/// assert!(matches!(*first, Message::SubscriptionRequest(_)));
/// ```
pub struct Subscriber {
    config: SubscriberConfig,
    phase: Phase,
    /// How often a connection was tried without a good one.
    attempt: u32,
    live_since: Option<Moment>,
    connect_at: Option<Moment>,
    answer_by: Option<Moment>,
    silent_at: Option<Moment>,
    silence: Silence,
    subscription: Option<SubscriptionId>,
    terms: HonoredTerms,
    /// The wish that is being negotiated, if it is not the one the terms came from.
    wish: Option<crate::message::Capabilities>,
    manifest: ManifestCheck,
    last_event: Option<EventId>,
    event_ids: Recent,
    sessions: BTreeMap<receive::SessionKey, Followed>,
    /// Counts events, to find the session that was silent longest.
    clock: u64,
    /// Whom the terms are with; another name in an event is worth a notice.
    agent: Option<String>,
    prompts: Prompts,
    flood: FloodGuard,
    desk: NoticeLimiter,
    counts: SubscriberStats,
    out: VecDeque<SubscriberOutput>,
    latest: Moment,
}

impl Subscriber {
    /// A subscriber that has not begun.
    pub fn new(config: SubscriberConfig) -> Subscriber {
        let terms = HonoredTerms::before(&config);
        Subscriber {
            flood: FloodGuard::new(config.max_events_per_second),
            config,
            phase: Phase::New,
            attempt: 0,
            live_since: None,
            connect_at: None,
            answer_by: None,
            silent_at: None,
            silence: Silence::None,
            subscription: None,
            terms,
            wish: None,
            manifest: ManifestCheck::Unsigned,
            last_event: None,
            event_ids: Recent::new(limits::HEARD_EVENT_IDS),
            sessions: BTreeMap::new(),
            clock: 0,
            agent: None,
            prompts: Prompts::default(),
            desk: NoticeLimiter::default(),
            counts: SubscriberStats::default(),
            out: VecDeque::new(),
            latest: Moment::default(),
        }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> SubscriberStats {
        self.counts
    }

    /// Whether the producer serves.
    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Whether the request is out and not answered.
    pub fn is_requesting(&self) -> bool {
        self.phase == Phase::Requested
    }

    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Questions that wait for an answer.
    pub fn open_prompts(&self) -> usize {
        self.prompts.len()
    }

    /// The next thing to do. [`SubscriberOutput::Idle`] is the last.
    pub fn poll_output(&mut self) -> SubscriberOutput {
        self.out.pop_front().unwrap_or_else(|| SubscriberOutput::Idle(self.next_deadline()))
    }

    /// When [`Subscriber::handle_timeout`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        if self.is_ended() {
            return None;
        }
        let single = [self.connect_at, self.answer_by, self.silent_at, self.prompts.reask_by];
        let early = self.sessions.values().filter_map(|s| s.order.due()).min();
        let rest = [early, self.prompts.next_deadline(), self.flood.due(self.latest)];
        single.into_iter().chain(rest).flatten().min()
    }

    /// Does what is due by now.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        if self.is_ended() {
            return;
        }
        let now = cx.now.moment;
        self.connection_timeout(cx);
        self.give_up_missing(cx);
        let ended = self.prompts.expire(now);
        self.tell_ended(ended);
        self.release_held(cx);
    }

    /// Deadlines count by a clock that never goes back; if the caller's does, it stands still here.
    fn observe_time(&mut self, cx: &mut Cx<'_>) {
        self.latest = self.latest.max(cx.now.moment);
        cx.now.moment = self.latest;
    }

    fn emit(&mut self, event: SubscriberEvent) {
        self.out.push_back(SubscriberOutput::Event(event));
    }

    fn notice(&mut self, cx: &Cx<'_>, notice: Notice) {
        if self.desk.passes(&notice, cx.now.moment) {
            self.emit(SubscriberEvent::Notice(notice));
        } else {
            self.counts.notices_suppressed += 1;
        }
    }

    fn tell_ended(&mut self, ended: Vec<(PromptId, PromptEnd)>) {
        self.out
            .extend(ended.into_iter().map(|(id, end)| SubscriberOutput::Event(SubscriberEvent::PromptEnded(id, end))));
    }
}
