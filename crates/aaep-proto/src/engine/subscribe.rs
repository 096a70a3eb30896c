//! Subscriptions: how they are opened, resumed, closed, and what they send.

use super::replies::ReplyArrival;
use super::subscription::{NewSubscription, ResumePolicy, SubscriptionKey};
use super::subscriptions::SubscriberCounts;
use super::timers::Timer;
use super::{CloseInfo, Cx, Engine, EngineEffect, EngineError, JournalEntry};
use crate::id::SubscriptionId;
use crate::limits;
use crate::message::{
    AAEP_VERSION, CloseReason, Context, Manifest, Message, SubscriptionAccepted, SubscriptionClose,
    SubscriptionRequest, Verbosity,
};
use crate::negotiate::{self, Agreement, Rejection, Terms};
use crate::time::Moment;

impl Engine {
    /// Opens a subscription. `subscription.accepted` is the first message that is sent to it. A rejection is returned,
    /// since there is no subscription to send it to.
    pub fn subscribe(
        &mut self,
        cx: &mut Cx<'_>,
        request: &SubscriptionRequest,
        principal: &str,
        policy: ResumePolicy,
    ) -> Result<SubscriptionKey, Rejection> {
        self.observe_time(cx);
        let agreement = negotiate::negotiate(request, &self.config.offer, self.subscriptions.len())?;
        self.deliver_all_complete_text(cx);
        let id = SubscriptionId::random(cx.entropy);
        let accepted = self.accepted(&id, &agreement);
        let key = self
            .add_subscription(cx, NewSubscription { id, principal: principal.into(), terms: agreement.terms, policy });
        if let Some(subscription) = self.subscriptions.get_mut(key) {
            // The summaries of all sessions must not make it look slow.
            subscription.outbox_mut().allow_more(2 * self.sessions.len());
        }
        self.record_subscription(key);
        self.out.send(key, accepted);
        self.catch_up(cx, key);
        self.deliver_open_questions(cx, key);
        Ok(key)
    }

    /// Adds a subscription from before the restart. It is away until it resumes.
    pub(super) fn readmit(&mut self, cx: &mut Cx<'_>, id: SubscriptionId, principal: &str, terms: Terms) {
        let policy = ResumePolicy::Resumable;
        let key = self.add_subscription(cx, NewSubscription { id, principal: principal.into(), terms, policy });
        self.disconnect(cx, key);
    }

    fn add_subscription(&mut self, cx: &Cx<'_>, new: NewSubscription) -> SubscriptionKey {
        let (key, group) = self.subscriptions.add(new, cx.now.moment);
        if group.is_new {
            self.sessions.add_group(group.id);
        }
        key
    }

    /// Records a subscription with its terms, if it may be resumed after a restart.
    pub(super) fn record_subscription(&mut self, key: SubscriptionKey) {
        if let Some(subscription) = self.subscriptions.get(key)
            && subscription.is_resumable()
        {
            self.out.record(|| JournalEntry::Subscribed(Box::new(subscription.to_record())));
        }
    }

    /// Handles a message of a subscription, as of now. What it may change is decided by who sent it, never by an id in
    /// the message alone (T1, T8).
    pub fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        from: SubscriptionKey,
        message: &Message,
    ) -> Result<(), EngineError> {
        let arrived = cx.now.moment;
        self.handle_arrived(cx, from, message, arrived)
    }

    /// Handles a message that has waited since it arrived. A reply counts as of that moment, so that a caller which is
    /// late turns no reply into a timeout. The caller handles all messages that have arrived before it calls
    /// [`Engine::handle_timeout`].
    pub fn handle_arrived(
        &mut self,
        cx: &mut Cx<'_>,
        from: SubscriptionKey,
        message: &Message,
        arrived: Moment,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        let arrival = ReplyArrival { subscription: from, arrived: arrived.min(cx.now.moment) };
        let sender = self.subscriptions.get(from).ok_or(EngineError::UnknownSubscription)?;
        let is_own = |id: &SubscriptionId| id == sender.id();
        match message {
            Message::SubscriptionRenegotiate(change) if is_own(&change.subscription_id) => {
                self.renegotiate(cx, from, change);
            }
            Message::SubscriptionRenegotiate(change) => self.reject_foreign(from, &change.subscription_id),
            Message::SubscriptionRequest(_) => self.reject_second_request(from)?,
            Message::SubscriptionClose(close) if is_own(&close.subscription_id) => {
                let message = close.reason_message.clone().unwrap_or_else(|| "The subscriber closed it.".to_owned());
                self.end_subscription(cx, from, CloseInfo { reason: CloseReason::SubscriberClosed, message });
            }
            Message::ConfirmationReply(reply) => self.handle_confirmation_reply(cx, arrival, reply),
            Message::ClarificationReply(reply) => self.handle_clarification_reply(cx, arrival, reply),
            Message::CancellationRequest(request) => self.handle_cancellation(from, request),
            _ => {}
        }
        Ok(())
    }

    /// Returns the subscription with this id, if it belongs to this principal.
    pub fn find_subscription(&self, id: &SubscriptionId, principal: &str) -> Option<SubscriptionKey> {
        let key = self.subscriptions.find(id)?;
        (self.subscriptions.get(key)?.principal() == principal).then_some(key)
    }

    /// Returns the id of a subscription.
    pub fn subscription_id(&self, key: SubscriptionKey) -> Option<&SubscriptionId> {
        self.subscriptions.get(key).map(|subscription| subscription.id())
    }

    /// Returns the terms of a subscription.
    pub fn terms(&self, key: SubscriptionKey) -> Option<&Terms> {
        self.subscriptions.get(key).map(|subscription| subscription.terms())
    }

    /// Returns how many events wait for a subscription.
    pub fn waiting(&self, key: SubscriptionKey) -> usize {
        self.subscriptions.get(key).map_or(0, |subscription| subscription.outbox().waiting())
    }

    /// Returns about how many bytes of events and text wait for a subscription. This looks at each of them.
    pub fn held_memory_bytes(&self, key: SubscriptionKey) -> usize {
        self.subscriptions.get(key).map_or(0, |subscription| subscription.outbox().memory_bytes())
    }

    /// Whether every subscription keeps up: none that is expected to resume is disconnected, no connection is full and no
    /// outbox is filling.
    pub fn all_keep_up(&self) -> bool {
        self.subscriptions.iter().filter(|(_, subscription)| !subscription.is_expired()).all(|(_, subscription)| {
            let outbox = subscription.outbox();
            !outbox.is_blocked() && outbox.waiting() <= limits::OUTBOX_EVENTS / 2
        })
    }

    /// Handles the end of a subscription's connection.
    pub fn disconnect(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        self.observe_time(cx);
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        if !subscription.is_resumable() {
            let message = "The connection ended.".to_owned();
            return self.end_subscription(cx, key, CloseInfo { reason: CloseReason::ConnectionLost, message });
        }
        if subscription.set_away() {
            let window_micros = self.config.resume_window_secs.saturating_mul(1_000_000);
            self.timers.set(Timer::Away(key), cx.now.moment.plus_micros(window_micros));
        }
    }

    /// Handles that a subscription was resumed.
    pub fn reconnect(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) -> Result<(), EngineError> {
        self.observe_time(cx);
        let subscription = self.subscriptions.get_mut(key).ok_or(EngineError::UnknownSubscription)?;
        subscription.set_connected();
        self.timers.stop(Timer::Away(key));
        self.release_waiting(cx, key);
        self.deliver_open_questions(cx, key);
        Ok(())
    }

    /// Handles that a subscription has been away for too long. After the resume window it does not count as able to
    /// answer; after a longer time it is closed, since its place and its memory are needed.
    pub(super) fn handle_away(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        if subscription.is_expired() {
            let message = "The stream did not come back.".to_owned();
            return self.end_subscription(cx, key, CloseInfo { reason: CloseReason::AwayTooLong, message });
        }
        subscription.set_expired();
        self.timers.set(Timer::Away(key), cx.now.moment.plus_seconds(limits::EXPIRED_SUBSCRIPTION_SECONDS));
        self.resolve_unanswerable(cx);
    }

    /// Sets whether the connection of a subscription accepts nothing at the moment.
    pub fn set_blocked(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, blocked: bool) {
        self.observe_time(cx);
        if let Some(subscription) = self.subscriptions.get_mut(key) {
            subscription.set_blocked(blocked);
            self.release_waiting(cx, key);
        }
    }

    /// Closes a subscription from the producer's side.
    pub fn close_subscription(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, info: CloseInfo) {
        self.observe_time(cx);
        if let Some(subscription) = self.subscriptions.get(key) {
            let close = SubscriptionClose {
                subscription_id: subscription.id().clone(),
                reason_code: Some(info.reason.clone()),
                reason_message: Some(info.message.clone()),
                correlation_id: None,
            };
            self.out.send(key, close);
            self.end_subscription(cx, key, info);
        }
    }

    /// Returns how many subscriptions there are, and how many could answer.
    pub fn subscriber_counts(&self) -> SubscriberCounts {
        self.subscriptions.counts()
    }

    /// Returns the manifest of this producer for these transports, which anyone may read before subscribing (5.10).
    pub fn manifest(&self, transports: impl IntoIterator<Item = String>) -> Manifest {
        let (producer, offer) = (&self.config.producer, &self.config.offer);
        Manifest {
            context: Context::core(),
            agent_id: producer.agent_id.clone(),
            agent_version: producer.agent_version.clone(),
            agent_name: producer.agent_name.clone(),
            aaep_versions_supported: vec![AAEP_VERSION.to_owned()],
            conformance_levels_supported: offer.levels.clone(),
            transports_supported: transports.into_iter().collect(),
            languages_supported: Some(offer.languages.clone()).filter(|languages| !languages.is_empty()),
            event_types_emitted: Some(vec!["aaep:agent.*".to_owned()]),
            extensions_supported: Some(offer.extensions.iter().map(|(_, uri)| uri.clone()).collect()),
            default_verbosity: Some(Verbosity::Normal),
            max_concurrent_subscriptions: u64::try_from(offer.max_subscriptions).ok(),
            contact: None,
        }
    }

    /// Makes the message that accepts a subscription or its new terms.
    pub(super) fn accepted(&self, id: &SubscriptionId, agreement: &Agreement) -> SubscriptionAccepted {
        let wants_signed = agreement.terms.honored().fields.accept_signed_manifests_only == Some(true);
        SubscriptionAccepted {
            subscription_id: id.clone(),
            aaep_version: agreement.version.clone(),
            producer: self.config.producer.clone(),
            honored_capabilities: agreement.terms.honored().clone(),
            manifest_uri: self.config.manifest_uri.clone(),
            signed_manifest: if wants_signed { self.config.signed_manifest.clone() } else { None },
            negotiation_notes: agreement.notes.clone(),
        }
    }

    /// Removes a subscription: the one place where that happens.
    pub(super) fn end_subscription(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, info: CloseInfo) {
        let Some((mut subscription, group_gone)) = self.subscriptions.remove(key) else { return };
        subscription.release_metered(&self.config.frames);
        if group_gone {
            self.sessions.remove_group(subscription.group());
        }
        self.timers.stop(Timer::Outbox(key));
        self.timers.stop(Timer::Away(key));
        if subscription.is_resumable() {
            self.out.record(|| JournalEntry::Unsubscribed(subscription.id().clone()));
        }
        self.out.push(EngineEffect::Closed(key, info));
        self.resolve_unanswerable(cx);
    }
}
