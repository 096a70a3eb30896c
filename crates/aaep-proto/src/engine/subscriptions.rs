//! Subscriptions: how they begin, change and end.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::delivery::{GroupId, GroupKey, rest_after};
use super::renegotiate::Known;
use super::{CloseInfo, Cx, Engine, EngineError, EngineOutput, JournalEntry, SubscriptionRecord, Timer};
use crate::frame::FrameMeter;
use crate::id::{OutputId, SubscriptionId};
use crate::limits;
use crate::message::{
    AAEP_VERSION, CloseReason, Context, Manifest, Message, SubscriptionAccepted, SubscriptionClose,
    SubscriptionRequest, Verbosity,
};
use crate::negotiate::{self, Agreement, Rejection, Terms};
use crate::shaping::outbox::{Flow, Outbox};
use crate::shaping::text::{BoundarySet, TextChunk};
use crate::time::Moment;

/// Names a subscription inside the engine: a place and how often it was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriptionKey {
    index: u32,
    generation: u32,
}

/// What becomes of a subscription when its connection ends (decision 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePolicy {
    /// It ends with the connection: WebSocket, socket, gRPC, stdio.
    Connection,
    /// It may be resumed: an SSE stream.
    Resumable,
}

/// Who listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberCounts {
    /// How many subscriptions there are.
    pub subscriptions: usize,
    /// How many of them could answer a confirmation now.
    pub can_confirm: usize,
    /// How many of them could answer a clarification now.
    pub can_clarify: usize,
}

/// One subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) id: SubscriptionId,
    /// Who it belongs to, as the transport proved it.
    pub(super) principal: Arc<str>,
    pub(super) terms: Box<Terms>,
    pub(super) shape: GroupId,
    pub(super) outbox: Outbox,
    /// When the outbox wants to be looked at.
    pub(super) armed: Option<Moment>,
    pub(super) binding: ResumePolicy,
    /// Whether it is on record that something waits for it.
    pub(super) held: bool,
    /// Bytes of waiting text that the meter was told of.
    counted_text: usize,
    away: Option<Moment>,
    /// Away for too long: it no longer counts as someone who could answer.
    gone: bool,
    /// Outputs of which it already has more than its shape does, by characters.
    pub(super) known: Known,
}

impl Subscription {
    /// Tells the meter how much text waits.
    pub(super) fn count_text(&mut self, meter: &FrameMeter) {
        let bytes = self.outbox.held_bytes();
        meter.resize(self.counted_text, bytes);
        self.counted_text = bytes;
    }

    /// Where its text may be cut.
    pub(super) fn cutting(&self) -> BoundarySet {
        BoundarySet::of(&self.terms)
    }

    /// What of a piece is new here: nothing means all of it.
    pub(super) fn without_known(&mut self, output: &OutputId, piece: &TextChunk) -> Option<Option<TextChunk>> {
        let known = *self.known.get(output)?;
        let end = piece.position + piece.text.chars().count() as u64;
        if end >= known || piece.complete {
            self.known.remove(output);
        }
        (known > piece.position).then(|| rest_after(piece, known))
    }
}

/// All subscriptions, in places that are used again.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    places: Vec<(u32, Option<Subscription>)>,
    free: Vec<u32>,
    by_id: BTreeMap<SubscriptionId, SubscriptionKey>,
}

impl Subscriptions {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        let (generation, place) = self.places.get(key.index as usize)?;
        if *generation == key.generation { place.as_ref() } else { None }
    }

    pub(super) fn get_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        let (generation, place) = self.places.get_mut(key.index as usize)?;
        if *generation == key.generation { place.as_mut() } else { None }
    }

    pub(super) fn find(&self, id: &SubscriptionId) -> Option<SubscriptionKey> {
        self.by_id.get(id).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SubscriptionKey, &Subscription)> {
        self.by_id.values().filter_map(|key| Some((*key, self.get(*key)?)))
    }

    /// An output is complete: nobody needs to remember how much of it was known.
    pub(super) fn forget_output(&mut self, output: &OutputId) {
        for (_, place) in &mut self.places {
            if let Some(subscription) = place.as_mut().filter(|s| !s.known.is_empty()) {
                subscription.known.remove(output);
            }
        }
    }

    /// The key that the next subscription gets.
    fn reserve(&mut self) -> SubscriptionKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        SubscriptionKey { index, generation: self.places[index as usize].0 }
    }

    fn insert(&mut self, key: SubscriptionKey, subscription: Subscription) {
        self.by_id.insert(subscription.id.clone(), key);
        self.places[key.index as usize].1 = Some(subscription);
    }

    fn remove(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        self.get(key)?;
        let (generation, place) = &mut self.places[key.index as usize];
        *generation = generation.wrapping_add(1);
        let subscription = place.take()?;
        self.by_id.remove(&subscription.id);
        self.free.push(key.index);
        Some(subscription)
    }
}

impl Engine {
    /// A subscriber asks to be served. The answer is the first thing that goes out for it; a refusal
    /// is handed back, since there is no subscription to send it to.
    pub fn subscribe(
        &mut self,
        cx: &mut Cx<'_>,
        request: &SubscriptionRequest,
        principal: &str,
        binding: ResumePolicy,
    ) -> Result<SubscriptionKey, Rejection> {
        self.observe_time(cx);
        let agreement = negotiate::negotiate(request, &self.config.offer, self.subscriptions.len())?;
        self.settle_all_text(cx);
        let key = self.subscriptions.reserve();
        let id = SubscriptionId::random(cx.entropy);
        let accepted = self.accepted(&id, &agreement);
        let terms = Box::new(agreement.terms);
        let (shape, is_new) = self.shapes.join(GroupKey::of(&terms), key);
        let mut outbox = Outbox::new(Flow::of(&terms), cx.now.moment);
        // Being told where every session stands must not look like being slow.
        outbox.allow_more(2 * self.sessions.len());
        let subscription = Subscription {
            id,
            principal: principal.into(),
            terms,
            shape,
            outbox,
            armed: None,
            binding,
            held: false,
            counted_text: 0,
            away: None,
            gone: false,
            known: BTreeMap::new(),
        };
        self.subscriptions.insert(key, subscription);
        self.note_subscription(key);
        self.out.push_back(EngineOutput::Message(key, Box::new(accepted.into())));
        if is_new {
            self.sessions.values_mut().for_each(|s| s.welcome(shape));
        }
        self.catch_up(cx, key);
        self.hand_over_questions(cx, key);
        Ok(key)
    }

    pub(super) fn note_subscription(&mut self, key: SubscriptionKey) {
        let Some(found) = self.subscriptions.get(key).filter(|s| s.binding == ResumePolicy::Resumable) else { return };
        let (id, principal) = (found.id.clone(), found.principal.to_string());
        let subscriber = SubscriptionRecord { id, principal, requested: found.terms.requested().clone() };
        self.note(|| JournalEntry::Subscribed(Box::new(subscriber)));
    }

    /// A subscription that was there before a restart. It counts as away until it is back.
    pub(super) fn readmit(&mut self, cx: &mut Cx<'_>, (id, principal): (SubscriptionId, &str), terms: Terms) {
        let key = self.subscriptions.reserve();
        let terms = Box::new(terms);
        let (shape, is_new) = self.shapes.join(GroupKey::of(&terms), key);
        let outbox = Outbox::new(Flow::of(&terms), cx.now.moment);
        let subscription = Subscription {
            id,
            principal: principal.into(),
            terms,
            shape,
            outbox,
            armed: None,
            binding: ResumePolicy::Resumable,
            held: false,
            counted_text: 0,
            away: None,
            gone: false,
            known: BTreeMap::new(),
        };
        self.subscriptions.insert(key, subscription);
        if is_new {
            self.sessions.values_mut().for_each(|s| s.welcome(shape));
        }
        self.disconnect(cx, key);
    }

    /// A message from the holder of a subscription. What it may say about which subscription is judged
    /// by who sent it, never by the id alone (T1, T8).
    pub fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        from: SubscriptionKey,
        message: &Message,
    ) -> Result<(), EngineError> {
        let arrived = cx.now.moment;
        self.handle_arrived(cx, from, message, arrived)
    }

    /// Handles a message that waited since it arrived. A reply is judged by that moment, so that a caller which is late
    /// turns no answer into a timeout. The caller handles everything that has arrived before it calls
    /// [`Engine::handle_timeout`].
    pub fn handle_arrived(
        &mut self,
        cx: &mut Cx<'_>,
        from: SubscriptionKey,
        message: &Message,
        arrived: Moment,
    ) -> Result<(), EngineError> {
        self.observe_time(cx);
        let arrived = arrived.min(cx.now.moment);
        let sender = self.subscriptions.get(from).ok_or(EngineError::UnknownSubscription)?;
        let own = |id: &SubscriptionId| *id == sender.id;
        match message {
            Message::SubscriptionRenegotiate(change) if own(&change.subscription_id) => {
                self.renegotiate(cx, from, change)
            }
            Message::SubscriptionRenegotiate(change) => self.refuse_other(from, &change.subscription_id),
            Message::SubscriptionRequest(_) => self.refuse_second_request(from)?,
            Message::SubscriptionClose(close) if own(&close.subscription_id) => {
                let message = close.reason_message.clone().unwrap_or_else(|| "The subscriber closed it.".to_owned());
                self.end(cx, from, CloseInfo { reason: CloseReason::SubscriberClosed, message });
            }
            Message::ConfirmationReply(reply) => self.handle_confirmation_reply(cx, (from, arrived), reply),
            Message::ClarificationReply(reply) => self.handle_clarification_reply(cx, (from, arrived), reply),
            _ => {}
        }
        Ok(())
    }

    /// The subscription that an id names, if it belongs to this principal.
    pub fn find_subscription(&self, id: &SubscriptionId, principal: &str) -> Option<SubscriptionKey> {
        let key = self.subscriptions.find(id)?;
        (self.subscriptions.get(key)?.principal.as_ref() == principal).then_some(key)
    }

    /// The id of a subscription.
    pub fn subscription_id(&self, key: SubscriptionKey) -> Option<&SubscriptionId> {
        self.subscriptions.get(key).map(|s| &s.id)
    }

    /// The terms of a subscription.
    pub fn terms(&self, key: SubscriptionKey) -> Option<&Terms> {
        self.subscriptions.get(key).map(|s| &*s.terms)
    }

    /// How many events wait for a subscription.
    pub fn waiting(&self, key: SubscriptionKey) -> usize {
        self.subscriptions.get(key).map_or(0, |s| s.outbox.waiting())
    }

    /// About how many bytes of events and text wait for a subscription. This looks at each of them.
    pub fn held_memory_bytes(&self, key: SubscriptionKey) -> usize {
        self.subscriptions.get(key).map_or(0, |s| s.outbox.memory_bytes())
    }

    /// Rejects a change of terms that the caller has no room for, and ends the subscription (5.7).
    pub fn reject_renegotiation(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, rejection: &Rejection) {
        self.observe_time(cx);
        if self.subscriptions.get(key).is_some() {
            self.out.push_back(EngineOutput::Message(key, Box::new(rejection.to_message().into())));
            let message = rejection.message.clone();
            self.end(cx, key, CloseInfo { reason: CloseReason::RenegotiationRefused, message });
        }
    }

    /// Whether everyone who listens takes what comes: no link is full, nobody is away for a moment, no outbox fills up.
    pub fn all_keep_up(&self) -> bool {
        let behind = |s: &Subscription| s.outbox.is_blocked() || s.outbox.waiting() > limits::HELD_EVENTS / 2;
        !self.subscriptions.iter().any(|(_, s)| !s.gone && behind(s))
    }

    /// The connection of a subscription has ended.
    pub fn disconnect(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        self.observe_time(cx);
        let away_micros = self.config.resume_window_secs.saturating_mul(1_000_000);
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        match subscription.binding {
            ResumePolicy::Connection => {
                let message = "The connection ended.".to_owned();
                self.end(cx, key, CloseInfo { reason: CloseReason::ConnectionLost, message });
            }
            ResumePolicy::Resumable if subscription.away.is_some() => {}
            ResumePolicy::Resumable => {
                let until = cx.now.moment.plus_micros(away_micros);
                subscription.away = Some(until);
                subscription.outbox.set_blocked(true);
                self.timers.insert((until, Timer::Away(key)));
            }
        }
    }

    /// A stream that was away is back.
    pub fn reconnect(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) -> Result<(), EngineError> {
        self.observe_time(cx);
        let subscription = self.subscriptions.get_mut(key).ok_or(EngineError::UnknownSubscription)?;
        if let Some(until) = subscription.away.take() {
            self.timers.remove(&(until, Timer::Away(key)));
        }
        subscription.gone = false;
        subscription.outbox.set_blocked(false);
        self.pump(cx, key);
        self.hand_over_questions(cx, key);
        Ok(())
    }

    /// The link of a subscription takes nothing at the moment, or does again.
    pub fn set_blocked(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, blocked: bool) {
        self.observe_time(cx);
        if let Some(subscription) = self.subscriptions.get_mut(key) {
            subscription.outbox.set_blocked(blocked || subscription.away.is_some());
            self.pump(cx, key);
        }
    }

    /// The producer ends a subscription.
    pub fn close_subscription(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, closing: CloseInfo) {
        self.observe_time(cx);
        if let Some(subscription) = self.subscriptions.get(key) {
            let close = SubscriptionClose {
                subscription_id: subscription.id.clone(),
                reason_code: Some(closing.reason.clone()),
                reason_message: Some(closing.message.clone()),
                correlation_id: None,
            };
            self.out.push_back(EngineOutput::Message(key, Box::new(close.into())));
            self.end(cx, key, closing);
        }
    }

    /// Who listens, and whether anyone could answer.
    pub fn subscriber_counts(&self) -> SubscriberCounts {
        let mut presence = SubscriberCounts::default();
        for (_, subscription) in self.subscriptions.iter() {
            presence.subscriptions += 1;
            presence.can_confirm += usize::from(subscription.terms.can_confirm() && !subscription.gone);
            presence.can_clarify += usize::from(subscription.terms.can_clarify() && !subscription.gone);
        }
        presence
    }

    /// What this producer offers over these transports, for anyone to read before subscribing (5.10).
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

    pub(super) fn close_overfull(&mut self, cx: &mut Cx<'_>, keys: Vec<SubscriptionKey>) {
        for key in keys {
            let message = "Too much is waiting: the subscriber does not keep up.".to_owned();
            self.close_subscription(cx, key, CloseInfo { reason: CloseReason::TooSlow, message });
        }
    }

    /// A stream has been away for too long: first it no longer counts as someone who could answer, and after a longer
    /// while it is given up, since places and memory are for those who listen.
    pub(super) fn count_as_gone(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        if subscription.away.is_none_or(|until| until > cx.now.moment) {
            return;
        }
        if subscription.gone {
            let message = "The stream did not come back.".to_owned();
            return self.end(cx, key, CloseInfo { reason: CloseReason::AwayTooLong, message });
        }
        subscription.gone = true;
        let until = cx.now.moment.plus_seconds(limits::FORGET_SECONDS);
        subscription.away = Some(until);
        self.timers.insert((until, Timer::Away(key)));
        self.default_what_nobody_can_answer(cx);
    }

    /// Whether anyone is subscribed who has not been away for too long.
    pub(super) fn has_no_subscribers(&self) -> bool {
        self.subscriptions.iter().all(|(_, s)| s.gone)
    }

    /// Whether a subscription could answer now.
    pub(super) fn can_answer(subscription: &Subscription, confirmation: bool) -> bool {
        let terms = &subscription.terms;
        !subscription.gone && if confirmation { terms.can_confirm() } else { terms.can_clarify() }
    }

    pub(super) fn accepted(&self, id: &SubscriptionId, agreement: &Agreement) -> SubscriptionAccepted {
        let signed = agreement.terms.honored().fields.accept_signed_manifests_only == Some(true);
        SubscriptionAccepted {
            subscription_id: id.clone(),
            aaep_version: agreement.version.clone(),
            producer: self.config.producer.clone(),
            honored_capabilities: agreement.terms.honored().clone(),
            manifest_uri: self.config.manifest_uri.clone(),
            signed_manifest: self.config.signed_manifest.clone().filter(|_| signed),
            negotiation_notes: agreement.notes.clone(),
        }
    }

    /// Ends a subscription in the one place where that happens.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, closing: CloseInfo) {
        let Some(subscription) = self.subscriptions.remove(key) else { return };
        self.config.frames.resize(subscription.counted_text, 0);
        if self.shapes.leave(subscription.shape, key) {
            self.sessions.values_mut().for_each(|s| s.farewell(subscription.shape));
        }
        if let Some(at) = subscription.armed {
            self.timers.remove(&(at, Timer::Outbox(key)));
        }
        if let Some(at) = subscription.away {
            self.timers.remove(&(at, Timer::Away(key)));
        }
        if subscription.binding == ResumePolicy::Resumable {
            self.note(|| JournalEntry::Unsubscribed(subscription.id));
        }
        self.out.push_back(EngineOutput::Closed(key, closing));
        self.default_what_nobody_can_answer(cx);
    }
}
