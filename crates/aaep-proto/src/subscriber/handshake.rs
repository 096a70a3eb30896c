//! Terms: what the producer grants, whether that fits what was asked for, and how it changes (5.4, 5.5, 5.7).

use super::connection::Phase;
use super::{
    Cx, EndReason, Gap, HandshakeMode, Notice, Subscriber, SubscriberConfig, SubscriberEvent, SubscriberOutput,
};
use crate::id::SubscriptionId;
use crate::limits;
use crate::message::{
    AAEP_VERSION, Capabilities, CloseReason, Event, Manifest, Payload, ReasonCode, SubscriptionAccepted,
    SubscriptionClose, SubscriptionRejected, SubscriptionRenegotiate,
};
use crate::negotiate::merge;

/// What came of checking the producer's manifest. The caller does that, since it needs keys; it says so before it
/// hands in the accepted message.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ManifestCheck {
    /// There is no signed manifest.
    #[default]
    Unsigned,
    /// The signature is right and the key is known, or is seen for the first time.
    Verified(Box<Manifest>),
    /// The signature is right, but the key is another than before.
    KeyChanged(Box<Manifest>),
    /// The signature is wrong, or nobody knows the key.
    Failed(String),
}

/// What this subscriber may do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HonoredTerms {
    confirm: bool,
    clarify: bool,
    signed: bool,
    rate: Option<u32>,
}

impl HonoredTerms {
    /// Before anything was agreed. A producer without handshake takes every reply.
    pub(super) fn before(config: &SubscriberConfig) -> HonoredTerms {
        let wanted = &config.request.capabilities.fields;
        let absent = config.handshake == HandshakeMode::Absent;
        HonoredTerms {
            confirm: absent && wanted.supports_confirmation_reply == Some(true),
            clarify: absent && wanted.supports_clarification_reply == Some(true),
            signed: !absent && wanted.accept_signed_manifests_only == Some(true),
            rate: None,
        }
    }

    /// What was asked for and granted; what was granted without being asked for does not count.
    fn agreed(asked: &Capabilities, honored: &Capabilities) -> HonoredTerms {
        let both = |a: Option<bool>, b: Option<bool>| a == Some(true) && b == Some(true);
        let (asked, honored) = (&asked.fields, &honored.fields);
        HonoredTerms {
            confirm: both(asked.supports_confirmation_reply, honored.supports_confirmation_reply),
            clarify: both(asked.supports_clarification_reply, honored.supports_clarification_reply),
            signed: asked.accept_signed_manifests_only == Some(true),
            rate: honored.max_events_per_second.or(asked.max_events_per_second),
        }
    }

    pub(super) fn wants_signed(&self) -> bool {
        self.signed
    }

    /// Whether this question may be answered here.
    pub(super) fn allows(&self, event: &Event) -> bool {
        match &event.payload {
            Payload::AwaitingConfirmation(_) => self.confirm,
            Payload::AwaitingClarification(_) => self.clarify,
            _ => false,
        }
    }
}

/// The names of fields in which the terms are wider than the request (5.4.4).
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
    // Level 1 is what everyone gets, also who cannot be served higher.
    add("supported_conformance_levels", levels.is_some_and(|(a, h)| h.iter().any(|l| *l != 1 && !a.contains(l))));
    let known = a.supported_extensions.as_deref().unwrap_or_default();
    let used = h.supported_extensions.as_deref().unwrap_or_default();
    add("supported_extensions", used.iter().any(|uri| !known.contains(uri)));
    fields
}

impl Subscriber {
    /// Whether the caller must check the producer's manifest before it hands in the accepted message.
    pub fn wants_signed_manifest(&self) -> bool {
        self.config.request.capabilities.fields.accept_signed_manifests_only == Some(true)
    }

    /// What came of checking the manifest. It holds for the next accepted message.
    pub fn manifest_checked(&mut self, cx: &mut Cx<'_>, check: ManifestCheck) {
        self.observe_time(cx);
        match &check {
            ManifestCheck::KeyChanged(manifest) => {
                let notice = Notice::KeyChanged(Notice::words(&manifest.agent_id));
                self.notice(cx, notice);
            }
            ManifestCheck::Failed(why) => {
                let notice = Notice::UnfitManifest(Notice::words(why));
                self.notice(cx, notice);
            }
            _ => {}
        }
        self.manifest = check;
    }

    pub(super) fn accepted(&mut self, cx: &mut Cx<'_>, accepted: SubscriptionAccepted) {
        let asked_now = self.phase == Phase::Requested;
        if !asked_now && self.wish.is_none() {
            return self.notice(cx, Notice::Unexpected("nobody asked for terms"));
        }
        self.answer_by = None;
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
        // A bucket may be emptied at once when it was full: twice the rate is still within the agreement.
        let most = self.terms.rate.map_or(u32::MAX, |rate| rate.saturating_mul(2));
        self.flood.set_rate(most.min(self.config.max_events_per_second), cx.now.moment);
        if asked_now {
            self.begin_subscription(cx, &accepted);
        }
        self.emit(SubscriberEvent::Accepted(Box::new(accepted)));
    }

    fn begin_subscription(&mut self, cx: &mut Cx<'_>, accepted: &SubscriptionAccepted) {
        let again = self.agent.is_some();
        self.subscription = Some(accepted.subscription_id.clone());
        self.agent = Some(accepted.producer.agent_id.clone());
        self.last_event = None;
        if again {
            self.emit(SubscriberEvent::Gap(Gap::Away));
            self.settle_order(cx, true);
        }
        self.begin_era(cx.now.moment);
        self.go_live(cx);
    }

    /// Whether the producer is one to listen to at all.
    fn check_fit(&mut self, cx: &mut Cx<'_>, accepted: &SubscriptionAccepted) -> Result<(), String> {
        let major = |version: &str| version.split('.').next().and_then(|m| m.parse::<u64>().ok());
        if major(&accepted.aaep_version) != major(AAEP_VERSION) {
            return Err(format!("it speaks version {}.", Notice::words(&accepted.aaep_version)));
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

    /// Ends it for good: this is not the producer that was demanded.
    fn refuse(&mut self, cx: &mut Cx<'_>, subscription: SubscriptionId, why: String) {
        // The producer must not wait for answers that never come.
        self.send_close(subscription, CloseReason::ManifestNotTrusted);
        self.notice(cx, Notice::UnfitManifest(why.clone()));
        self.end(EndReason::ManifestMismatch(why));
    }

    pub(super) fn rejected(&mut self, cx: &mut Cx<'_>, rejected: SubscriptionRejected) {
        let why = Notice::words(&rejected.reason_message);
        if self.phase == Phase::Live {
            // A refused change ends the subscription (5.7). The terms of before are what the next request asks for.
            return match self.wish.take() {
                Some(_) => {
                    self.answer_by = None;
                    self.notice(cx, Notice::RenegotiationRefused(why));
                    self.subscribe_again(cx);
                }
                None => self.notice(cx, Notice::Unexpected("nobody asked for terms")),
            };
        }
        if self.phase != Phase::Requested {
            return;
        }
        self.answer_by = None;
        let passing = matches!(
            rejected.reason_code,
            ReasonCode::RateLimit | ReasonCode::TransportUnavailable | ReasonCode::Unknown | ReasonCode::Other(_)
        );
        if !passing && rejected.retry_after_seconds.is_none() {
            return self.end(EndReason::Rejected(Box::new(rejected)));
        }
        self.notice(cx, Notice::Rejected(why));
        self.out.push_back(SubscriberOutput::Disconnect);
        self.try_later(cx, rejected.retry_after_seconds.unwrap_or(0).into());
    }

    /// Changes what this subscriber can take; what the change does not name stays. It also holds for later requests.
    /// Answers whether something was sent: without a connection or a handshake there is nobody to ask.
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
        self.answer_by = Some(cx.now.moment.plus_seconds(limits::ANSWER_SECONDS));
        let capabilities = changes.clone();
        let change = SubscriptionRenegotiate { subscription_id: id, capabilities, correlation_id: None };
        self.out.push_back(SubscriberOutput::Send(Box::new(change.into())));
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
        let notice = Notice::ClosedByProducer(Notice::words(why));
        self.notice(cx, notice);
        self.subscribe_again(cx);
    }

    /// The producer has ended the subscription: no question can be answered any more, and a new request is due.
    fn subscribe_again(&mut self, cx: &mut Cx<'_>) {
        self.subscription = None;
        let ended = self.prompts.end_if(super::PromptEnd::Closed, |_| true);
        self.tell_ended(ended);
        self.out.push_back(SubscriberOutput::Disconnect);
        self.settle_order(cx, true);
        self.try_later(cx, 0);
    }
}

/// In what a verified manifest does not fit what the producer says.
fn misfit(manifest: &Manifest, accepted: &SubscriptionAccepted) -> Option<String> {
    if manifest.agent_id != accepted.producer.agent_id {
        let (is, says) = (Notice::words(&manifest.agent_id), Notice::words(&accepted.producer.agent_id));
        return Some(format!("it is of {is}, but {says} serves."));
    }
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if !manifest.aaep_versions_supported.iter().any(|v| major(v) == major(&accepted.aaep_version)) {
        return Some(format!("it does not list version {}.", Notice::words(&accepted.aaep_version)));
    }
    let levels = accepted.honored_capabilities.fields.supported_conformance_levels.iter().flatten();
    let claimed = |level: &u32| manifest.conformance_levels_supported.iter().any(|most| most >= level);
    levels.copied().find(|level| !claimed(level)).map(|level| format!("it does not claim level {level}."))
}
