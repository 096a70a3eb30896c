//! Groups of subscriptions with equal terms: an event is tailored and serialized once per group, not once per
//! subscription.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::coalesced::CoalescedFrames;
use super::slots::Slots;
use super::subscription::SubscriptionKey;
use crate::filter::EventFilter;
use crate::frame::Frame;
use crate::message::{CoreType, Event};
use crate::negotiate::Terms;
use crate::shaping::tailor::TextPreferences;
use crate::shaping::text::BoundarySet;

/// The terms that decide which events a subscription gets and their content, but not their rate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    filter: EventFilter,
    preferences: TextPreferences,
    boundaries: BoundarySet,
}

impl GroupKey {
    pub(super) fn of(terms: &Terms) -> GroupKey {
        GroupKey {
            filter: terms.filter().clone(),
            preferences: TextPreferences::of(terms),
            boundaries: BoundarySet::of(terms),
        }
    }

    pub(super) fn preferences(&self) -> &TextPreferences {
        &self.preferences
    }

    pub(super) fn boundaries(&self) -> BoundarySet {
        self.boundaries
    }

    /// Whether the group gets an event.
    pub(super) fn wants(&self, event: &Event) -> bool {
        self.filter.passes(event) && self.preferences.wants(event)
    }

    /// Whether the group gets output text.
    pub(super) fn wants_text(&self) -> bool {
        self.filter.passes_core(CoreType::OutputStreaming)
    }

    /// Tailors an event to the group. Text that was cut already is not changed. Returns `None` if the group does not
    /// get the event.
    pub(super) fn tailor(&self, event: &Event) -> Option<Arc<Frame>> {
        let is_text = event.core_type() == Some(CoreType::OutputStreaming);
        if !self.filter.passes(event) || !(is_text || self.preferences.wants(event)) {
            return None;
        }
        Some(Arc::new(Frame::new(if is_text { event.clone() } else { self.preferences.tailor(event) })))
    }

    /// Tailors a waiting frame again. Returns `None` if the group does not get it.
    pub(super) fn refit(&self, frame: &Arc<Frame>) -> Option<Arc<Frame>> {
        match frame.original() {
            Some(original) if !self.wants(original) => None,
            Some(original) => {
                Some(Arc::new(Frame::new(self.preferences.tailor(original)).with_original(original.clone())))
            }
            // Text and recorded events are not tailored.
            None => self.filter.passes(frame.event()).then(|| frame.clone()),
        }
    }
}

/// Names a group for as long as it has members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(u64);

/// The subscriptions with one [`GroupKey`].
#[derive(Debug)]
pub(super) struct SubscriberGroup {
    key: Arc<GroupKey>,
    members: Vec<SubscriptionKey>,
    coalesced: CoalescedFrames,
}

impl SubscriberGroup {
    pub(super) fn key(&self) -> &Arc<GroupKey> {
        &self.key
    }

    pub(super) fn members_and_coalesced(&mut self) -> (&[SubscriptionKey], &mut CoalescedFrames) {
        (&self.members, &mut self.coalesced)
    }

    pub(super) fn coalesced_mut(&mut self) -> &mut CoalescedFrames {
        &mut self.coalesced
    }

    /// Passes over an event that the group does not get. A state change that is left out only because of the user's
    /// load must not break the chain of those that follow, and an ended session is forgotten.
    pub(super) fn skip(&self, event: &Event, slots: &mut Slots) {
        let is_state = event.core_type() == Some(CoreType::StateChanged) && self.key.filter.passes(event);
        let ends = event.core_type().is_some_and(CoreType::is_terminal);
        if !is_state && !ends {
            return;
        }
        let frame = Frame::new(event.clone());
        for member in &self.members {
            if let Some(subscription) = slots.get_mut(*member) {
                let outbox = subscription.outbox_mut();
                if ends { outbox.forget(frame.session()) } else { outbox.skip_state(&frame) }
            }
        }
    }
}

/// The group that a subscription joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JoinedGroup {
    pub(super) id: GroupId,
    /// Whether the subscription is its first member.
    pub(super) is_new: bool,
}

/// All groups that have members.
#[derive(Debug, Default)]
pub(super) struct SubscriberGroups {
    by_key: BTreeMap<Arc<GroupKey>, GroupId>,
    by_id: BTreeMap<GroupId, SubscriberGroup>,
    next: u64,
}

impl SubscriberGroups {
    /// Adds a subscription to the group with this key.
    pub(super) fn join(&mut self, key: GroupKey, subscription: SubscriptionKey) -> JoinedGroup {
        if let Some(id) = self.by_key.get(&key) {
            if let Some(group) = self.by_id.get_mut(id) {
                group.members.push(subscription);
            }
            return JoinedGroup { id: *id, is_new: false };
        }
        let id = GroupId(self.next);
        self.next += 1;
        let key = Arc::new(key);
        self.by_key.insert(key.clone(), id);
        let group = SubscriberGroup { key, members: vec![subscription], coalesced: CoalescedFrames::default() };
        self.by_id.insert(id, group);
        JoinedGroup { id, is_new: true }
    }

    /// Removes a subscription from its group. Returns whether the group has no members any more and is gone.
    pub(super) fn leave(&mut self, id: GroupId, subscription: SubscriptionKey) -> bool {
        let Some(group) = self.by_id.get_mut(&id) else { return true };
        group.members.retain(|k| *k != subscription);
        if !group.members.is_empty() {
            return false;
        }
        self.by_key.remove(&group.key);
        self.by_id.remove(&id);
        true
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&SubscriberGroup> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut SubscriberGroup> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = GroupId> {
        self.by_id.keys().copied()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (GroupId, &mut SubscriberGroup)> {
        self.by_id.iter_mut().map(|(id, group)| (*id, group))
    }

    /// Whether a group wants text cut at words.
    pub(super) fn need_words(&self) -> bool {
        self.by_key.keys().any(|key| key.boundaries.needs_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Capabilities;
    use crate::negotiate::{Offer, readmit};

    fn key() -> GroupKey {
        GroupKey::of(&readmit(Capabilities::default(), &Offer::default()).unwrap().terms)
    }

    #[test]
    fn equal_terms_share_a_group_until_the_last_member_leaves() {
        let mut groups = SubscriberGroups::default();
        let (first, second) = (SubscriptionKey::new(0, 0), SubscriptionKey::new(1, 0));
        let joined = groups.join(key(), first);
        assert!(joined.is_new);
        assert_eq!(groups.join(key(), second), JoinedGroup { id: joined.id, is_new: false });
        assert!(!groups.leave(joined.id, first));
        assert!(groups.leave(joined.id, second));
        assert!(groups.get(joined.id).is_none());
        assert_ne!(groups.join(key(), first).id, joined.id);
    }
}
