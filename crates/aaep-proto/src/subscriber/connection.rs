//! The connection: when to connect and to reconnect, whether the producer is alive, and how it ends.

use super::{
    Cx, EndReason, Gap, HandshakeMode, Notice, PromptEnd, ResumePoint, Subscriber, SubscriberEffect, SubscriberEvent,
};
use crate::id::SubscriptionId;
use crate::limits;
use crate::message::{CloseReason, SubscriptionClose};
use crate::time::Moment;

/// The phase of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Not started.
    New,
    /// Waiting to reconnect.
    Waiting,
    /// The caller was asked to connect.
    Connecting,
    /// The request was sent.
    Requested,
    /// The subscription is accepted.
    Live,
    /// Ended for good.
    Ended,
}

/// What was done about a silent producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SilenceState {
    /// The producer is not silent.
    #[default]
    None,
    /// The producer was probed.
    Probed,
    /// The user was notified.
    Notified,
}

/// Why a connection ended or could not be established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// It was lost or could not be established; another attempt may help.
    Broken(String),
    /// Another attempt would not help: the credentials are not valid, or there is no such producer.
    Refused(String),
}

impl Subscriber {
    /// Starts: the first effect asks the caller to connect.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        if self.phase == ConnectionPhase::New {
            self.phase = ConnectionPhase::Connecting;
            self.out.push_back(SubscriberEffect::Connect(None));
        }
    }

    /// Sets what the caller knows of the transport: whether the producer implements the handshake, and whether silence
    /// means that the connection is dead. Call it before [`Subscriber::connected`].
    pub fn set_transport(&mut self, handshake: HandshakeMode, gives_signs_of_life: bool) {
        self.config.give_up_silent = gives_signs_of_life;
        if self.config.handshake != handshake {
            self.config.handshake = handshake;
            self.subscription = None;
            self.terms = super::handshake::HonoredTerms::before(&self.config);
        }
    }

    /// Handles a new connection. `resumed` states that the subscription continues at the resume point.
    pub fn connected(&mut self, cx: &mut Cx<'_>, resumed: bool) {
        self.observe_time(cx);
        if self.phase != ConnectionPhase::Connecting {
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
        self.phase = ConnectionPhase::Requested;
        self.response_deadline = Some(cx.now.moment.plus_seconds(limits::RESPONSE_SECONDS));
        self.out.push_back(SubscriberEffect::Send(Box::new(self.config.request.clone().into())));
    }

    /// Handles the end of a connection, or a failed attempt to connect.
    pub fn disconnected(&mut self, cx: &mut Cx<'_>, loss: DisconnectReason) {
        self.observe_time(cx);
        if !matches!(self.phase, ConnectionPhase::Connecting | ConnectionPhase::Requested | ConnectionPhase::Live) {
            return;
        }
        match loss {
            DisconnectReason::Refused(why) => self.end(EndReason::Refused(Notice::clip(&why))),
            DisconnectReason::Broken(why) => {
                let notice = Notice::Disconnected(Notice::clip(&why));
                self.notice(cx, notice);
                self.flush_order(cx, false);
                self.schedule_reconnect(cx, 0);
            }
        }
    }

    /// Handles a sign of life: anything that was received over the connection.
    pub fn handle_activity(&mut self, cx: &mut Cx<'_>) {
        self.observe_time(cx);
        if self.phase != ConnectionPhase::Live {
            return;
        }
        self.silent_at = Some(cx.now.moment.plus_seconds(self.config.silence_seconds));
        if std::mem::take(&mut self.silence) == SilenceState::Notified {
            self.notice(cx, Notice::Alive);
        }
    }

    /// Closes the subscription for good, and notifies the producer.
    pub fn close(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        self.observe_time(cx);
        if self.is_ended() {
            return;
        }
        let live = self.phase == ConnectionPhase::Live && self.config.handshake == HandshakeMode::Full;
        if let Some(id) = self.subscription.clone().filter(|_| live) {
            self.send_close(id, reason);
        }
        self.flush_order(cx, true);
        self.end(EndReason::Closed);
    }

    pub(super) fn send_close(&mut self, subscription_id: SubscriptionId, reason: CloseReason) {
        let reason_code = (!reason.as_str().is_empty()).then_some(reason);
        let close = SubscriptionClose { subscription_id, reason_code, reason_message: None, correlation_id: None };
        self.out.push_back(SubscriberEffect::Send(Box::new(close.into())));
    }

    /// Ends all prompts and the connection.
    pub(super) fn end(&mut self, ended: EndReason) {
        let prompts = self.prompts.end_if(PromptEnd::Closed, |_| true);
        self.emit_ended(prompts);
        self.out.push_back(SubscriberEffect::Disconnect);
        self.phase = ConnectionPhase::Ended;
        self.emit(SubscriberEvent::Ended(ended));
    }

    pub(super) fn go_live(&mut self, cx: &mut Cx<'_>) {
        self.phase = ConnectionPhase::Live;
        self.live_since = Some(cx.now.moment);
        self.silence = SilenceState::None;
        self.silent_at = Some(cx.now.moment.plus_seconds(self.config.silence_seconds));
    }

    /// Schedules the next attempt to connect. The delay doubles each time and has jitter, so that the subscribers of one
    /// producer do not reconnect all at once.
    pub(super) fn schedule_reconnect(&mut self, cx: &mut Cx<'_>, at_least_seconds: u64) {
        let good = |since: Moment| cx.now.moment.since(since) >= limits::GOOD_CONNECTION_SECONDS * 1_000_000;
        if self.live_since.take().is_some_and(good) {
            self.attempt = 0;
        }
        let most = limits::BACKOFF_FIRST_MILLIS.saturating_mul(1 << self.attempt.min(16));
        let most = most.min(limits::BACKOFF_MAX_MILLIS);
        let mut bytes = [0; 4];
        cx.entropy.fill(&mut bytes);
        let chance = u64::from(u32::from_le_bytes(bytes));
        let millis = most / 2 + (most / 2 * chance) / u64::from(u32::MAX);
        self.attempt = self.attempt.saturating_add(1);
        let at = cx.now.moment.plus_seconds(at_least_seconds).plus_millis(millis);
        self.phase = ConnectionPhase::Waiting;
        self.wish = None;
        self.response_deadline = None;
        self.silent_at = None;
        self.connect_at = Some(at);
        self.emit(SubscriberEvent::Retrying(at));
    }

    /// Handles the deadlines of the connection.
    pub(super) fn connection_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.moment;
        let due = |at: &mut Option<Moment>| at.take_if(|at| *at <= now).is_some();
        if due(&mut self.connect_at) {
            self.phase = ConnectionPhase::Connecting;
            let after = self.last_event.clone();
            // A random id names no subscription that could be resumed.
            let known = self.subscription.clone().filter(|_| self.config.handshake == HandshakeMode::Full);
            let resume = known.map(|subscription_id| ResumePoint { subscription_id, after });
            self.out.push_back(SubscriberEffect::Connect(resume));
        }
        if due(&mut self.response_deadline) {
            self.notice(cx, Notice::NoResponse);
            self.wish = None;
            if self.phase == ConnectionPhase::Requested {
                self.out.push_back(SubscriberEffect::Disconnect);
                self.schedule_reconnect(cx, 0);
            }
        }
        if due(&mut self.silent_at) {
            self.silent(cx);
        }
    }

    /// Handles a silent producer in steps: it is probed, since an idle producer is nothing unusual; if it does not
    /// respond, the user is notified; if the transport has signs of life, the connection is closed in the end.
    fn silent(&mut self, cx: &mut Cx<'_>) {
        let seconds = self.config.silence_seconds.max(1);
        let wait = match self.silence {
            SilenceState::None => {
                self.silence = SilenceState::Probed;
                self.out.push_back(SubscriberEffect::Probe);
                limits::PROBE_SECONDS
            }
            SilenceState::Probed => {
                self.silence = SilenceState::Notified;
                self.notice(cx, Notice::Stalled(seconds + limits::PROBE_SECONDS));
                seconds
            }
            SilenceState::Notified if self.config.give_up_silent => {
                self.notice(cx, Notice::Disconnected("it gives no sign of life.".to_owned()));
                self.out.push_back(SubscriberEffect::Disconnect);
                self.flush_order(cx, false);
                return self.schedule_reconnect(cx, 0);
            }
            SilenceState::Notified => {
                self.out.push_back(SubscriberEffect::Probe);
                seconds
            }
        };
        self.silent_at = Some(cx.now.moment.plus_seconds(wait));
    }
}
