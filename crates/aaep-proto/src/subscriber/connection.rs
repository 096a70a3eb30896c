//! The connection: when to make it, when to try again, whether it is alive, and how it ends.

use super::{
    Cx, EndReason, Gap, HandshakeMode, Notice, PromptEnd, ResumePoint, Subscriber, SubscriberEvent, SubscriberOutput,
};
use crate::id::SubscriptionId;
use crate::limits;
use crate::message::{CloseReason, SubscriptionClose};
use crate::time::Moment;

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing was done yet.
    New,
    /// The next try comes later.
    Waiting,
    /// The caller was told to connect.
    Connecting,
    /// The request is out.
    Requested,
    /// The producer serves.
    Live,
    /// It is over.
    Ended,
}

/// How much was made of a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Silence {
    /// There is none.
    #[default]
    None,
    /// The producer was asked for a sign of life.
    Asked,
    /// The user was told.
    Told,
}

/// How a connection ended, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// It broke off or could not be made; another try may help.
    Broken(String),
    /// Another try would not help: the credentials are wrong, or there is no such producer.
    Refused(String),
}

impl Subscriber {
    /// Begins: the first output is to connect.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        if self.phase == Phase::New {
            self.phase = Phase::Connecting;
            self.out.push_back(SubscriberOutput::Connect(None));
        }
    }

    /// What the caller found out about the producer and the way to it, to be told before [`Subscriber::connected`]:
    /// whether it knows the handshake, and whether silence means that the connection is dead.
    pub fn set_transport(&mut self, handshake: HandshakeMode, gives_signs_of_life: bool) {
        self.config.give_up_silent = gives_signs_of_life;
        if self.config.handshake != handshake {
            self.config.handshake = handshake;
            self.subscription = None;
            self.terms = super::handshake::HonoredTerms::before(&self.config);
        }
    }

    /// The connection is made. `resumed` says that the stream goes on where it broke off.
    pub fn connected(&mut self, cx: &mut Cx<'_>, resumed: bool) {
        self.observe_time(cx);
        if self.phase != Phase::Connecting {
            return;
        }
        if self.config.handshake == HandshakeMode::Absent {
            let first = self.subscription.is_none();
            self.subscription.get_or_insert_with(|| SubscriptionId::random(cx.entropy));
            if !first && !resumed {
                self.emit(SubscriberEvent::Gap(Gap::Away));
            }
            return self.go_live(cx);
        }
        if resumed && self.subscription.is_some() {
            return self.go_live(cx);
        }
        self.phase = Phase::Requested;
        self.answer_by = Some(cx.now.moment.plus_seconds(limits::ANSWER_SECONDS));
        self.out.push_back(SubscriberOutput::Send(Box::new(self.config.request.clone().into())));
    }

    /// The connection ended, or could not be made.
    pub fn disconnected(&mut self, cx: &mut Cx<'_>, loss: DisconnectReason) {
        self.observe_time(cx);
        if !matches!(self.phase, Phase::Connecting | Phase::Requested | Phase::Live) {
            return;
        }
        match loss {
            DisconnectReason::Refused(why) => self.end(EndReason::Refused(Notice::words(&why))),
            DisconnectReason::Broken(why) => {
                let notice = Notice::Disconnected(Notice::words(&why));
                self.notice(cx, notice);
                self.settle_order(cx, false);
                self.try_later(cx, 0);
            }
        }
    }

    /// A sign of life: anything that came over the connection.
    pub fn handle_activity(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        if self.phase != Phase::Live {
            return;
        }
        self.silent_at = Some(cx.now.moment.plus_seconds(self.config.silence_seconds));
        if std::mem::take(&mut self.silence) == Silence::Told {
            self.notice(cx, Notice::Alive);
        }
    }

    /// Ends the subscription for good, and says so to the producer.
    pub fn close(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        self.observe_time(cx);
        if self.is_ended() {
            return;
        }
        let live = self.phase == Phase::Live && self.config.handshake == HandshakeMode::Full;
        if let Some(id) = self.subscription.clone().filter(|_| live) {
            self.send_close(id, reason);
        }
        self.settle_order(cx, true);
        self.end(EndReason::Closed);
    }

    pub(super) fn send_close(&mut self, subscription_id: SubscriptionId, reason: CloseReason) {
        let reason_code = (!reason.as_str().is_empty()).then_some(reason);
        let close = SubscriptionClose { subscription_id, reason_code, reason_message: None, correlation_id: None };
        self.out.push_back(SubscriberOutput::Send(Box::new(close.into())));
    }

    /// Everything ends; the connection too.
    pub(super) fn end(&mut self, ended: EndReason) {
        let prompts = self.prompts.end_if(PromptEnd::Closed, |_| true);
        self.tell_ended(prompts);
        self.out.push_back(SubscriberOutput::Disconnect);
        self.phase = Phase::Ended;
        self.emit(SubscriberEvent::Ended(ended));
    }

    pub(super) fn go_live(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::Live;
        self.live_since = Some(cx.now.moment);
        self.silence = Silence::None;
        self.silent_at = Some(cx.now.moment.plus_seconds(self.config.silence_seconds));
    }

    /// Sets the time of the next try: each wait is twice the last, and partly by chance, so that many who lost the same
    /// producer do not come back all at once.
    pub(super) fn try_later(&mut self, cx: &mut Cx<'_>, at_least_seconds: u64) {
        let good = |since: Moment| cx.now.moment.since(since) >= limits::GOOD_CONNECTION_SECONDS * 1_000_000;
        if self.live_since.take().is_some_and(good) {
            self.attempt = 0;
        }
        let most = limits::BACKOFF_FIRST_MILLIS.saturating_mul(1 << self.attempt.min(16));
        let most = most.min(limits::BACKOFF_MOST_MILLIS);
        let mut bytes = [0; 4];
        cx.entropy.fill(&mut bytes);
        let chance = u64::from(u32::from_le_bytes(bytes));
        let millis = most / 2 + (most / 2 * chance) / u64::from(u32::MAX);
        self.attempt = self.attempt.saturating_add(1);
        let at = cx.now.moment.plus_seconds(at_least_seconds).plus_millis(millis);
        self.phase = Phase::Waiting;
        self.wish = None;
        self.answer_by = None;
        self.silent_at = None;
        self.connect_at = Some(at);
        self.emit(SubscriberEvent::Retrying(at));
    }

    /// What is due of the connection.
    pub(super) fn connection_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.moment;
        let due = |at: &mut Option<Moment>| at.take_if(|at| *at <= now).is_some();
        if due(&mut self.connect_at) {
            self.phase = Phase::Connecting;
            let after = self.last_event.clone();
            // A made-up id names nothing that could be resumed.
            let known = self.subscription.clone().filter(|_| self.config.handshake == HandshakeMode::Full);
            let resume = known.map(|subscription_id| ResumePoint { subscription_id, after });
            self.out.push_back(SubscriberOutput::Connect(resume));
        }
        if due(&mut self.answer_by) {
            self.notice(cx, Notice::NoAnswer);
            self.wish = None;
            if self.phase == Phase::Requested {
                self.out.push_back(SubscriberOutput::Disconnect);
                self.try_later(cx, 0);
            }
        }
        if due(&mut self.silent_at) {
            self.silent(cx);
        }
    }

    /// The connection said nothing for too long. First it is asked, since a producer that has nothing to say is no news;
    /// if it does not answer, the user is told; if it can be trusted to answer, it is given up in the end.
    fn silent(&mut self, cx: &mut Cx<'_>) {
        let seconds = self.config.silence_seconds.max(1);
        let wait = match self.silence {
            Silence::None => {
                self.silence = Silence::Asked;
                self.out.push_back(SubscriberOutput::Probe);
                limits::PROBE_SECONDS
            }
            Silence::Asked => {
                self.silence = Silence::Told;
                self.notice(cx, Notice::Stalled(seconds + limits::PROBE_SECONDS));
                seconds
            }
            Silence::Told if self.config.give_up_silent => {
                self.notice(cx, Notice::Disconnected("it gives no sign of life.".to_owned()));
                self.out.push_back(SubscriberOutput::Disconnect);
                self.settle_order(cx, false);
                return self.try_later(cx, 0);
            }
            Silence::Told => {
                self.out.push_back(SubscriberOutput::Probe);
                seconds
            }
        };
        self.silent_at = Some(cx.now.moment.plus_seconds(wait));
    }
}
