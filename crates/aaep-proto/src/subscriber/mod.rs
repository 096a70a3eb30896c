//! The state machine of a subscriber.
//!
//! It does no I/O. The caller passes in each input with a [`Cx`] (the time and a source of random bytes), then takes
//! effects with [`Subscriber::poll_effect`] until it returns [`SubscriberEffect::Idle`], and calls
//! [`Subscriber::handle_timeout`] no later than the deadline in it. All effects must be taken before the next input.
//!
//! Input from the producer is never trusted: its size is bounded, events are ordered by their numbers, duplicates are
//! dropped and floods are limited. Critical events are never held back.

mod cancellation;
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
pub use cancellation::CancelRequestError;
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
use connection::{ConnectionPhase, SilenceState};
use flood::FloodGuard;
use handshake::HonoredTerms;
use notice::NoticeLimiter;
use prompts::Prompts;
use receive::FollowedSession;

/// Whether the producer implements the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandshakeMode {
    /// The subscriber sends a request, and terms are agreed.
    #[default]
    Full,
    /// The producer sends events without being asked (level 1). Replies carry a random subscription id.
    Absent,
}

/// The configuration of a subscriber.
///
/// ```
/// use aaep_proto::subscriber::SubscriberConfig;
/// let config = SubscriberConfig::new("reader-1", Default::default());
/// assert_eq!(config.request.subscriber_id, "reader-1");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SubscriberConfig {
    /// The request: the subscriber's name and its capabilities.
    pub request: SubscriptionRequest,
    /// Whether the producer implements the handshake.
    pub handshake: HandshakeMode,
    /// The most events per second that are delivered, whatever the producer sends. Critical events always are.
    pub max_events_per_second: u32,
    /// After how many seconds of silence the producer is asked for a sign of life. A notice follows if it sends none.
    pub silence_seconds: u64,
    /// Whether a connection that stays silent after the notice is closed. Only for transports with signs of life.
    pub give_up_silent: bool,
    /// Who answers questions, for the producer's audit records.
    pub decided_by: Option<String>,
    /// Whether to reconnect after a producer said that it ends, since it may be started again. Otherwise the subscriber ends
    /// then.
    pub outlive_producer: bool,
}

impl SubscriberConfig {
    /// Creates the default configuration of a subscriber with this stable name and these capabilities.
    pub fn new(subscriber_id: impl Into<String>, capabilities: crate::message::Capabilities) -> SubscriberConfig {
        SubscriberConfig {
            request: SubscriptionRequest::new(subscriber_id, capabilities),
            handshake: HandshakeMode::Full,
            max_events_per_second: limits::FLOOD_EVENTS_PER_SECOND,
            silence_seconds: limits::SILENCE_SECONDS,
            give_up_silent: false,
            decided_by: None,
            outlive_producer: false,
        }
    }

    /// Sets whether the producer implements the handshake.
    pub fn handshake(mut self, handshake: HandshakeMode) -> SubscriberConfig {
        self.handshake = handshake;
        self
    }
}

/// Where to resume a subscription, if the transport can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// The last event that arrived.
    pub after: Option<EventId>,
}

/// A gap in the events that were received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// Events of a session with these numbers were not received.
    Numbers {
        /// The session.
        session: SessionId,
        /// The first missing number.
        first: u64,
        /// The last missing number.
        last: u64,
    },
    /// There was no connection for a while, and the events of that time were not received.
    Away,
}

/// Why a subscriber ended for good.
///
/// Exhaustive on purpose: a user who hears nothing any more has to be told why.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// This side closed it.
    Closed,
    /// The producer rejected the request, and another attempt would not help.
    Rejected(Box<SubscriptionRejected>),
    /// The transport reports that another attempt would not help.
    Refused(String),
    /// The producer's manifest does not meet the request.
    ManifestMismatch(String),
    /// The producer has ended or shuts down, and said so. The text is its reason, for people.
    ProducerEnded(String),
}

/// What the caller must do.
///
/// Exhaustive on purpose: a caller that ignores an effect loses a message or an event. A new kind of effect must not
/// compile unnoticed.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscriberEffect {
    /// Connect now, and resume at this point if the transport can.
    Connect(Option<ResumePoint>),
    /// Send this message to the producer.
    Send(Box<Message>),
    /// Ask the producer for a sign of life, if the transport can.
    Probe,
    /// Close the connection after everything queued before is sent.
    Disconnect,
    /// Deliver this to the program.
    Event(SubscriberEvent),
    /// Wait until this deadline, or for the next input.
    Idle(Option<Moment>),
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberStats {
    /// Messages that were received.
    pub messages: u64,
    /// Events among them.
    pub events: u64,
    /// Messages that could not be parsed.
    pub malformed: u64,
    /// Events that were received before.
    pub duplicates: u64,
    /// Events that arrived in another order than their numbers.
    pub out_of_order: u64,
    /// Events that were coalesced into others because the producer exceeded the rate.
    pub folded: u64,
    /// Events that were dropped because the producer exceeded the rate.
    pub dropped: u64,
    /// Notices that were suppressed.
    pub notices_suppressed: u64,
}

/// The state machine of a subscriber. The module documentation describes how to drive it.
///
/// ```
/// use aaep_proto::cx::Cx;
/// use aaep_proto::id::Entropy;
/// use aaep_proto::message::Message;
/// use aaep_proto::subscriber::{SubscriberConfig, SubscriberEffect, Subscriber};
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
/// assert_eq!(subscriber.poll_effect(), SubscriberEffect::Connect(None));
/// subscriber.connected(cx, false);
/// let SubscriberEffect::Send(first) = subscriber.poll_effect() else { unreachable!() };
/// assert!(matches!(*first, Message::SubscriptionRequest(_)));
/// ```
pub struct Subscriber {
    config: SubscriberConfig,
    phase: ConnectionPhase,
    /// Connection attempts since the last good connection.
    attempt: u32,
    live_since: Option<Moment>,
    connect_at: Option<Moment>,
    response_deadline: Option<Moment>,
    silent_at: Option<Moment>,
    silence: SilenceState,
    subscription: Option<SubscriptionId>,
    terms: HonoredTerms,
    /// The capabilities that are being renegotiated.
    wish: Option<crate::message::Capabilities>,
    manifest: ManifestCheck,
    last_event: Option<EventId>,
    event_ids: Recent,
    sessions: BTreeMap<receive::SessionKey, FollowedSession>,
    /// Counts events, to find the session that was idle longest.
    clock: u64,
    /// Whether a subscription was accepted before, so that events between it and the next one may be missing.
    has_subscribed: bool,
    prompts: Prompts,
    flood: FloodGuard,
    notice_limiter: NoticeLimiter,
    counts: SubscriberStats,
    out: VecDeque<SubscriberEffect>,
    latest: Moment,
}

impl Subscriber {
    /// Creates a subscriber that has not started.
    pub fn new(config: SubscriberConfig) -> Subscriber {
        let terms = HonoredTerms::before(&config);
        Subscriber {
            flood: FloodGuard::new(config.max_events_per_second),
            config,
            phase: ConnectionPhase::New,
            attempt: 0,
            live_since: None,
            connect_at: None,
            response_deadline: None,
            silent_at: None,
            silence: SilenceState::None,
            subscription: None,
            terms,
            wish: None,
            manifest: ManifestCheck::Unsigned,
            last_event: None,
            event_ids: Recent::new(limits::RECEIVED_EVENT_IDS),
            sessions: BTreeMap::new(),
            clock: 0,
            has_subscribed: false,
            prompts: Prompts::default(),
            notice_limiter: NoticeLimiter::default(),
            counts: SubscriberStats::default(),
            out: VecDeque::new(),
            latest: Moment::default(),
        }
    }

    /// Returns counters since the start.
    pub fn stats(&self) -> SubscriberStats {
        self.counts
    }

    /// Returns whether the subscription is accepted and connected.
    pub fn is_live(&self) -> bool {
        self.phase == ConnectionPhase::Live
    }

    /// Returns whether the request waits for a response.
    pub fn is_requesting(&self) -> bool {
        self.phase == ConnectionPhase::Requested
    }

    /// Returns whether it has ended for good.
    pub fn is_ended(&self) -> bool {
        self.phase == ConnectionPhase::Ended
    }

    /// Returns how many questions wait for an answer.
    pub fn open_prompts(&self) -> usize {
        self.prompts.len()
    }

    /// Takes the next effect. [`SubscriberEffect::Idle`] is the last.
    pub fn poll_effect(&mut self) -> SubscriberEffect {
        self.out.pop_front().unwrap_or_else(|| SubscriberEffect::Idle(self.next_deadline()))
    }

    /// Returns when [`Subscriber::handle_timeout`] is due, or `None` if only an input changes anything.
    pub fn next_deadline(&self) -> Option<Moment> {
        if self.is_ended() {
            return None;
        }
        let single = [self.connect_at, self.response_deadline, self.silent_at, self.prompts.reask_by];
        let early = self.sessions.values().filter_map(|s| s.order.due()).min();
        let rest = [early, self.prompts.next_deadline(), self.flood.due(self.latest)];
        single.into_iter().chain(rest).flatten().min()
    }

    /// Handles every deadline that has passed.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        if self.is_ended() {
            return;
        }
        let now = cx.now.moment;
        self.connection_timeout(cx);
        self.skip_missing(cx);
        let ended = self.prompts.expire(now);
        self.emit_ended(ended);
        self.release_held(cx);
    }

    /// Keeps time monotonic: a clock of the caller that goes back stands still here.
    fn observe_time(&mut self, cx: &mut Cx<'_>) {
        self.latest = self.latest.max(cx.now.moment);
        cx.now.moment = self.latest;
    }

    fn emit(&mut self, event: SubscriberEvent) {
        self.out.push_back(SubscriberEffect::Event(event));
    }

    fn notice(&mut self, cx: &Cx<'_>, notice: Notice) {
        if self.notice_limiter.passes(&notice, cx.now.moment) {
            self.emit(SubscriberEvent::Notice(notice));
        } else {
            self.counts.notices_suppressed += 1;
        }
    }

    fn emit_ended(&mut self, ended: Vec<(PromptId, PromptEnd)>) {
        self.out
            .extend(ended.into_iter().map(|(id, end)| SubscriberEffect::Event(SubscriberEvent::PromptEnded(id, end))));
    }
}
