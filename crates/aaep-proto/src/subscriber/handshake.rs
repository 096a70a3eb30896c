//! The handshake: the terms that a producer honors, whether they fit the request, and renegotiation (5.4, 5.5, 5.7).

use super::connection::ConnectionPhase;
use super::{
    Cx, EndReason, Gap, HandshakeMode, Notice, Subscriber, SubscriberConfig, SubscriberEffect, SubscriberEvent,
};
use crate::id::SubscriptionId;
use crate::limits;
use crate::message::{
    AAEP_VERSION, Capabilities, CloseReason, Event, Manifest, Payload, ReasonCode, SubscriptionAccepted,
    SubscriptionClose, SubscriptionRejected, SubscriptionRenegotiate,
};
use crate::negotiate::{CANCELLATION_PREFIX, merge};

/// The result of checking the producer's manifest. The caller checks it, since that needs keys, before it passes in the
/// `subscription.accepted`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ManifestCheck {
    /// There is no signed manifest.
    #[default]
    Unsigned,
    /// The signature is valid and the key is known, or is seen for the first time.
    Verified(Box<Manifest>),
    /// The signature is valid, but the key differs from the one before.
    KeyChanged(Box<Manifest>),
    /// The signature is not valid, or the key is unknown.
    Failed(String),
}

/// The part of the honored terms that a subscriber acts on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HonoredTerms {
    confirm: bool,
    clarify: bool,
    signed: bool,
    rate: Option<u32>,
    cancel: bool,
}

impl HonoredTerms {
    /// Returns the terms before an agreement. A producer without handshake takes every reply.
    pub(super) fn before(config: &SubscriberConfig) -> HonoredTerms {
        let wanted = &config.request.capabilities.fields;
        let absent = config.handshake == HandshakeMode::Absent;
        HonoredTerms {
            confirm: absent && wanted.supports_confirmation_reply == Some(true),
            clarify: absent && wanted.supports_clarification_reply == Some(true),
            signed: !absent && wanted.accept_signed_manifests_only == Some(true),
            rate: None,
            cancel: false,
        }
    }

    /// Returns the terms that were both requested and honored. Unrequested ones do not count.
    fn agreed(asked: &Capabilities, honored: &Capabilities) -> HonoredTerms {
        let both = |a: Option<bool>, b: Option<bool>| a == Some(true) && b == Some(true);
        let cancel = [asked, honored].iter().all(|it| it.extensions.contains_key(CANCELLATION_PREFIX));
        let (asked, honored) = (&asked.fields, &honored.fields);
        HonoredTerms {
            confirm: both(asked.supports_confirmation_reply, honored.supports_confirmation_reply),
            clarify: both(asked.supports_clarification_reply, honored.supports_clarification_reply),
            signed: asked.accept_signed_manifests_only == Some(true),
            rate: honored.max_events_per_second.or(asked.max_events_per_second),
            cancel,
        }
    }

    /// Returns which questions this subscriber can never answer, or `None` if it can answer all.
    fn unanswerable(&self) -> Option<&'static str> {
        match (self.confirm, self.clarify) {
            (true, true) => None,
            (false, true) => Some("confirmations"),
            (true, false) => Some("clarifications"),
            (false, false) => Some("questions"),
        }
    }

    /// Returns whether this subscriber may ask agents to stop.
    pub(super) fn can_cancel(&self) -> bool {
        self.cancel
    }

    pub(super) fn wants_signed(&self) -> bool {
        self.signed
    }

    /// Returns whether this subscriber may answer the question of an event.
    pub(super) fn allows(&self, event: &Event) -> bool {
        match &event.payload {
            Payload::AwaitingConfirmation(_) => self.confirm,
            Payload::AwaitingClarification(_) => self.clarify,
            _ => false,
        }
    }
}

/// Returns the names of fields in which the terms are wider than the request (5.4.4).
fn wider(asked: &Capabilities, honored: &Capabilities) -> Vec<&'static str> {
    let (a, h) = (&asked.fields, &honored.fields);
    let mut fields = Vec::new();
    let mut add = |name, is_wider: bool| {
        if is_wider {
            fields.push(name);
        }
    };
    let more = |a: Option<u32>, h: Option<u32>| a.is_some_and(|asked| h.is_some_and(|honored| honored > asked));
    add("max_events_per_second", more(a.max_events_per_second, h.max_events_per_second));
    let granted = |a: Option<bool>, h: Option<bool>| h == Some(true) && a != Some(true);
    add("supports_confirmation_reply", granted(a.supports_confirmation_reply, h.supports_confirmation_reply));
    add("supports_clarification_reply", granted(a.supports_clarification_reply, h.supports_clarification_reply));
    let languages = a.languages.as_ref().zip(h.languages.as_ref());
    add("languages", languages.is_some_and(|(a, h)| h.iter().any(|tag| !a.contains(tag))));
    let boundaries = a.coalesce_boundaries.as_ref().zip(h.coalesce_boundaries.as_ref());
    add("coalesce_boundaries", boundaries.is_some_and(|(a, h)| h.iter().any(|b| !a.contains(b))));
    let levels = a.supported_conformance_levels.as_ref().zip(h.supported_conformance_levels.as_ref());
    // Every subscriber gets level 1, even if it requested only higher ones.
    add("supported_conformance_levels", levels.is_some_and(|(a, h)| h.iter().any(|l| *l != 1 && !a.contains(l))));
    let known = a.supported_extensions.as_deref().unwrap_or_default();
    let used = h.supported_extensions.as_deref().unwrap_or_default();
    add("supported_extensions", used.iter().any(|uri| !known.contains(uri)));
    fields
}

impl Subscriber {
    /// Returns whether the caller must check the producer's manifest before it passes in the `subscription.accepted`.
    pub fn wants_signed_manifest(&self) -> bool {
        self.config.request.capabilities.fields.accept_signed_manifests_only == Some(true)
    }

    /// Handles the result of checking the manifest. It applies to the next `subscription.accepted`.
    pub fn manifest_checked(&mut self, cx: &mut Cx<'_>, check: ManifestCheck) {
        self.observe_time(cx);
        match &check {
            ManifestCheck::KeyChanged(manifest) => {
                let notice = Notice::KeyChanged(Notice::clip(&manifest.agent_id));
                self.notice(cx, notice);
            }
            ManifestCheck::Failed(why) => {
                let notice = Notice::UnfitManifest(Notice::clip(why));
                self.notice(cx, notice);
            }
            _ => {}
        }
        self.manifest = check;
    }

    pub(super) fn accepted(&mut self, cx: &mut Cx<'_>, accepted: SubscriptionAccepted) {
        let asked_now = self.phase == ConnectionPhase::Requested;
        if !asked_now && self.wish.is_none() {
            return self.notice(cx, Notice::Unexpected("nobody asked for terms"));
        }
        self.response_deadline = None;
        if let Err(why) = self.check_fit(cx, &accepted) {
            return self.refuse(cx, accepted.subscription_id, why);
        }
        if let Some(wish) = self.wish.take() {
            self.config.request.capabilities = wish;
        }
        let asked = &self.config.request.capabilities;
        let fields = wider(asked, &accepted.honored_capabilities);
        self.terms = HonoredTerms::agreed(asked, &accepted.honored_capabilities);
        if !fields.is_empty() {
            self.notice(cx, Notice::UnfitTerms(fields.join(", ")));
        }
        // A producer may send a full token bucket at once, so twice the rate is still within the terms.
        let most = self.terms.rate.map_or(u32::MAX, |rate| rate.saturating_mul(2));
        self.flood.set_rate(most.min(self.config.max_events_per_second), cx.now.moment);
        if asked_now {
            self.begin_subscription(cx, &accepted);
        }
        self.emit(SubscriberEvent::Accepted(Box::new(accepted)));
        if let Some(kind) = self.terms.unanswerable() {
            self.notice(cx, Notice::CannotAnswer(kind));
        }
    }

    fn begin_subscription(&mut self, cx: &mut Cx<'_>, accepted: &SubscriptionAccepted) {
        let again = std::mem::replace(&mut self.has_subscribed, true);
        self.subscription = Some(accepted.subscription_id.clone());
        self.last_event = None;
        if again {
            self.emit(SubscriberEvent::Gap(Gap::Away));
            self.flush_order(cx, true);
        }
        self.begin_subscription_era(cx.now.moment);
        self.go_live(cx);
    }

    /// Checks that the version and the manifest of the producer fit the request.
    fn check_fit(&mut self, cx: &mut Cx<'_>, accepted: &SubscriptionAccepted) -> Result<(), String> {
        let major = |version: &str| version.split('.').next().and_then(|m| m.parse::<u64>().ok());
        if major(&accepted.aaep_version) != major(AAEP_VERSION) {
            return Err(format!("it speaks version {}.", Notice::clip(&accepted.aaep_version)));
        }
        let demanded = self.wants_signed_manifest();
        match &self.manifest {
            ManifestCheck::Verified(manifest) | ManifestCheck::KeyChanged(manifest) => {
                let fault = misfit(manifest, accepted);
                let changed = matches!(self.manifest, ManifestCheck::KeyChanged(_));
                match fault {
                    Some(why) if demanded => return Err(why),
                    Some(why) => self.notice(cx, Notice::UnfitManifest(why)),
                    None if demanded && changed => return Err("it signs with another key than before.".to_owned()),
                    None => {}
                }
            }
            ManifestCheck::Unsigned if demanded => return Err("it has no signed manifest.".to_owned()),
            ManifestCheck::Failed(_) if demanded => return Err("its signed manifest cannot be trusted.".to_owned()),
            _ => {}
        }
        Ok(())
    }

    /// Ends for good, because the producer does not meet the request.
    fn refuse(&mut self, cx: &mut Cx<'_>, subscription: SubscriptionId, why: String) {
        // The producer must not wait for replies that never come.
        self.send_close(subscription, CloseReason::ManifestNotTrusted);
        self.notice(cx, Notice::UnfitManifest(why.clone()));
        self.end(EndReason::ManifestMismatch(why));
    }

    pub(super) fn rejected(&mut self, cx: &mut Cx<'_>, rejected: SubscriptionRejected) {
        let why = Notice::clip(&rejected.reason_message);
        if self.phase == ConnectionPhase::Live {
            // A rejected change ends the subscription (5.7). The next request asks for the terms from before it.
            return match self.wish.take() {
                Some(_) => {
                    self.response_deadline = None;
                    self.notice(cx, Notice::RenegotiationRefused(why));
                    self.subscribe_again(cx);
                }
                None => self.notice(cx, Notice::Unexpected("nobody asked for terms")),
            };
        }
        if self.phase != ConnectionPhase::Requested {
            return;
        }
        self.response_deadline = None;
        let passing = matches!(
            rejected.reason_code,
            ReasonCode::RateLimit | ReasonCode::TransportUnavailable | ReasonCode::Unknown | ReasonCode::Other(_)
        );
        if !passing && rejected.retry_after_seconds.is_none() {
            return self.end(EndReason::Rejected(Box::new(rejected)));
        }
        self.notice(cx, Notice::Rejected(why));
        self.out.push_back(SubscriberEffect::Disconnect);
        self.schedule_reconnect(cx, rejected.retry_after_seconds.unwrap_or(0).into());
    }

    /// Changes the capabilities of this subscriber; those that `changes` does not name stay. Later requests use them too.
    /// Returns whether a renegotiation was sent: without a connection or a handshake, none is.
    pub fn renegotiate(&mut self, cx: &mut Cx<'_>, changes: &Capabilities) -> bool {
        self.observe_time(cx);
        let base = self.wish.clone().unwrap_or_else(|| self.config.request.capabilities.clone());
        let wish = merge(base, changes);
        let (true, HandshakeMode::Full, Some(id)) = (self.is_live(), self.config.handshake, self.subscription.clone())
        else {
            self.config.request.capabilities = wish;
            if self.config.handshake == HandshakeMode::Absent {
                self.terms = HonoredTerms::before(&self.config);
            }
            return false;
        };
        self.wish = Some(wish);
        self.response_deadline = Some(cx.now.moment.plus_seconds(limits::RESPONSE_SECONDS));
        let capabilities = changes.clone();
        let change = SubscriptionRenegotiate { subscription_id: id, capabilities, correlation_id: None };
        self.out.push_back(SubscriberEffect::Send(Box::new(change.into())));
        true
    }

    pub(super) fn closed_by_producer(&mut self, cx: &mut Cx<'_>, close: &SubscriptionClose) {
        if self.subscription.as_ref() != Some(&close.subscription_id) {
            return self.notice(cx, Notice::Unexpected("it closes another subscription"));
        }
        let why = close
            .reason_message
            .as_deref()
            .or(close.reason_code.as_ref().map(CloseReason::as_str))
            .unwrap_or("no reason was given.");
        let why = Notice::clip(why);
        let has_ended = matches!(close.reason_code, Some(CloseReason::ProducerEnded | CloseReason::ProducerShutdown));
        if has_ended && !self.config.outlive_producer {
            self.flush_order(cx, true);
            return self.end(EndReason::ProducerEnded(why));
        }
        if has_ended {
            // Everything was received: the next subscription misses nothing of this one.
            self.has_subscribed = false;
        }
        self.notice(cx, Notice::ClosedByProducer(why));
        self.subscribe_again(cx);
    }

    /// Starts over after the producer ended the subscription: all prompts end, and a new request follows.
    fn subscribe_again(&mut self, cx: &mut Cx<'_>) {
        self.subscription = None;
        let ended = self.prompts.end_if(super::PromptEnd::Closed, |_| true);
        self.emit_ended(ended);
        self.out.push_back(SubscriberEffect::Disconnect);
        self.flush_order(cx, true);
        self.schedule_reconnect(cx, 0);
    }
}

/// Returns how a verified manifest contradicts the `subscription.accepted`, or `None` if it does not.
fn misfit(manifest: &Manifest, accepted: &SubscriptionAccepted) -> Option<String> {
    if manifest.agent_id != accepted.producer.agent_id {
        let (is, says) = (Notice::clip(&manifest.agent_id), Notice::clip(&accepted.producer.agent_id));
        return Some(format!("it is of {is}, but {says} serves."));
    }
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if !manifest.aaep_versions_supported.iter().any(|v| major(v) == major(&accepted.aaep_version)) {
        return Some(format!("it does not list version {}.", Notice::clip(&accepted.aaep_version)));
    }
    let levels = accepted.honored_capabilities.fields.supported_conformance_levels.iter().flatten();
    let claimed = |level: &u32| manifest.conformance_levels_supported.iter().any(|most| most >= level);
    levels.copied().find(|level| !claimed(level)).map(|level| format!("it does not claim level {level}."))
}
