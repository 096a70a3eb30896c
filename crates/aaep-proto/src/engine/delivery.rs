//! Delivery: from one event to the outboxes of all subscriptions that get it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::coalesced::CoalescedFrames;
use super::queue::EffectQueue;
use super::sessions::Sessions;
use super::subscription::{Subscription, SubscriptionKey};
use super::subscriptions::Subscriptions;
use super::timers::{Timer, Timers};
use super::{CloseInfo, Cx, Engine, EngineEffect, EngineStats, JournalEntry};
use crate::frame::{Frame, FrameMeter};
use crate::message::{CloseReason, Event};
use crate::shaping::tailor::TextPreferences;

/// The parts of the engine that a delivery changes, beside the subscriptions themselves.
pub(super) struct Delivery<'e> {
    meter: &'e FrameMeter,
    pub(super) stats: &'e mut EngineStats,
    out: &'e mut EffectQueue,
    pub(super) timers: &'e mut Timers,
}

impl Delivery<'_> {
    /// Puts a frame into the outbox of a subscription, and sends what the outbox releases. Returns whether the outbox
    /// holds more than it may, so that the subscription has to be closed.
    #[must_use]
    pub(super) fn push(
        &mut self,
        cx: &mut Cx<'_>,
        key: SubscriptionKey,
        to: &mut Subscription,
        coalesced: &mut CoalescedFrames,
        frame: &Arc<Frame>,
    ) -> bool {
        frame.count_with(self.meter);
        self.stats.queued += 1;
        let now = cx.now.moment;
        let had_waiting = to.outbox().waiting() > 0;
        let before = self.stats.delivered;
        let (out, stats) = (&mut *self.out, &mut *self.stats);
        to.outbox_mut().push(frame, now, &mut |release| {
            stats.delivered += 1;
            out.push(EngineEffect::Event(key, coalesced.frame_of(cx, release)));
        });
        to.count(1, self.stats.delivered - before);
        // Without anything that waits, no timer is set: the usual case need not look for one.
        if had_waiting || to.outbox().waiting() > 0 {
            self.timers.set_or_stop(Timer::Outbox(key), to.outbox().ready_at(now));
        }
        self.update_waiting(to);
        to.outbox().is_overfull()
    }

    /// Sends what the outbox of a subscription releases by now.
    fn release(
        &mut self,
        cx: &mut Cx<'_>,
        key: SubscriptionKey,
        to: &mut Subscription,
        coalesced: &mut CoalescedFrames,
    ) {
        let now = cx.now.moment;
        let before = self.stats.delivered;
        let (out, stats) = (&mut *self.out, &mut *self.stats);
        to.outbox_mut().pump(now, &mut |release| {
            stats.delivered += 1;
            out.push(EngineEffect::Event(key, coalesced.frame_of(cx, release)));
        });
        to.count(0, self.stats.delivered - before);
        self.timers.set_or_stop(Timer::Outbox(key), to.outbox().ready_at(now));
        self.update_waiting(to);
    }

    /// Records whether something waits: a subscription that resumes after a restart must not take itself for complete
    /// if something waited for it.
    fn update_waiting(&mut self, to: &mut Subscription) {
        to.meter_text(self.meter);
        if self.out.has_journal()
            && let Some(waiting) = to.waiting_to_record()
        {
            self.out.record(|| JournalEntry::Held(to.id().clone(), waiting));
        }
    }
}

impl Engine {
    /// Borrows the parts that a delivery needs.
    pub(super) fn delivery(&mut self) -> (&mut Sessions, &mut Subscriptions, Delivery<'_>) {
        let delivery = Delivery {
            meter: &self.config.frames,
            stats: &mut self.stats,
            out: &mut self.out,
            timers: &mut self.timers,
        };
        (&mut self.sessions, &mut self.subscriptions, delivery)
    }

    /// Delivers an event to every subscription whose terms let it pass.
    pub(super) fn deliver_to_all(&mut self, cx: &mut Cx<'_>, event: &Event) {
        self.deliver_to_some(cx, event, |_| true);
    }

    /// Delivers an event to those of the subscriptions for which the predicate holds.
    pub(super) fn deliver_to_some(
        &mut self,
        cx: &mut Cx<'_>,
        event: &Event,
        wanted: impl FnMut(SubscriptionKey) -> bool,
    ) {
        // One copy of the event serves all frames that are made from it.
        let mut original = None;
        self.fan_out(cx, event, wanted, |preferences| {
            let original = original.get_or_insert_with(|| Arc::new(event.clone()));
            Arc::new(Frame::new(preferences.tailor(event)).with_original(original.clone()))
        });
    }

    /// Delivers a recorded event to every subscription whose filter lets it pass, as it is: not tailored.
    pub(super) fn deliver_verbatim(&mut self, cx: &mut Cx<'_>, event: &Event) {
        let frame = Arc::new(Frame::new(event.clone()));
        self.fan_out(cx, event, |_| true, |_| frame.clone());
    }

    /// Delivers an event as the frames that `make_frame` makes, one for all groups with equal text preferences.
    fn fan_out(
        &mut self,
        cx: &mut Cx<'_>,
        event: &Event,
        mut wanted: impl FnMut(SubscriptionKey) -> bool,
        mut make_frame: impl FnMut(&TextPreferences) -> Arc<Frame>,
    ) {
        // A complete sentence is emitted before the event that follows it (decision 76).
        let mut overfull = self.push_complete_text(cx, &event.envelope.session_id, None);
        let (_, subscriptions, mut delivery) = self.delivery();
        let (groups, slots) = subscriptions.split();
        let mut frames: BTreeMap<TextPreferences, Arc<Frame>> = BTreeMap::new();
        for (_, group) in groups.iter_mut() {
            if !group.key().wants(event) {
                group.skip(event, slots);
                continue;
            }
            let preferences = group.key().preferences();
            let frame = match frames.get(preferences) {
                Some(frame) => frame.clone(),
                None => frames.entry(preferences.clone()).or_insert(make_frame(preferences)).clone(),
            };
            let (members, coalesced) = group.members_and_coalesced();
            for member in members {
                let Some(subscription) = slots.get_mut(*member) else { continue };
                if wanted(*member) && delivery.push(cx, *member, subscription, coalesced, &frame) {
                    overfull.push(*member);
                }
            }
        }
        self.close_overfull(cx, overfull);
    }

    /// Delivers an event to one subscription, if its terms let it pass.
    pub(super) fn deliver_to_one(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, event: &Event) {
        let mut overfull = self.push_complete_text(cx, &event.envelope.session_id, None);
        let (_, subscriptions, mut delivery) = self.delivery();
        if let Some((subscription, group)) = subscriptions.with_group(key)
            && group.key().wants(event)
        {
            let tailored = group.key().preferences().tailor(event);
            let frame = Arc::new(Frame::new(tailored).with_original(Arc::new(event.clone())));
            if delivery.push(cx, key, subscription, group.coalesced_mut(), &frame) {
                overfull.push(key);
            }
        }
        self.close_overfull(cx, overfull);
    }

    /// Delivers a frame of text to one subscription.
    pub(super) fn deliver_frame_to_one(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, frame: &Arc<Frame>) {
        let (_, subscriptions, mut delivery) = self.delivery();
        let Some((subscription, group)) = subscriptions.with_group(key) else { return };
        if delivery.push(cx, key, subscription, group.coalesced_mut(), frame) {
            self.close_overfull(cx, vec![key]);
        }
    }

    /// Sends what the outbox of a subscription releases by now.
    pub(super) fn release_waiting(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        let (_, subscriptions, mut delivery) = self.delivery();
        if let Some((subscription, group)) = subscriptions.with_group(key) {
            delivery.release(cx, key, subscription, group.coalesced_mut());
        }
    }

    /// Makes the frame that a subscription gets of an event. Returns `None` if its terms do not let the event pass.
    pub(super) fn frame_for(&self, key: SubscriptionKey, event: &Event) -> Option<Arc<Frame>> {
        self.subscriptions.group_of(key)?.key().tailor(event)
    }

    /// Closes subscriptions that cannot keep up: nothing that waits for them may be dropped.
    pub(super) fn close_overfull(&mut self, cx: &mut Cx<'_>, keys: Vec<SubscriptionKey>) {
        for key in keys {
            let message = "Too much is waiting: the subscriber does not keep up.".to_owned();
            self.close_subscription(cx, key, CloseInfo { reason: CloseReason::TooSlow, message });
        }
    }
}
