//! All subscriptions, and the groups that they share.

use super::groups::{GroupKey, JoinedGroup, SubscriberGroup, SubscriberGroups};
use super::questions::QuestionKind;
use super::slots::Slots;
use super::subscription::{NewSubscription, Subscription, SubscriptionKey};
use crate::id::{OutputId, SubscriptionId};
use crate::time::Moment;

/// How many subscriptions there are, and how many could answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberCounts {
    /// All subscriptions.
    pub subscriptions: usize,
    /// Those that could answer a confirmation now.
    pub can_confirm: usize,
    /// Those that could answer a clarification now.
    pub can_clarify: usize,
}

/// All subscriptions with their groups.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    slots: Slots,
    groups: SubscriberGroups,
}

impl Subscriptions {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        self.slots.get(key)
    }

    pub(super) fn get_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        self.slots.get_mut(key)
    }

    pub(super) fn find(&self, id: &SubscriptionId) -> Option<SubscriptionKey> {
        self.slots.find(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SubscriptionKey, &Subscription)> {
        self.slots.iter()
    }

    /// Adds a subscription to the group of its terms.
    pub(super) fn add(&mut self, new: NewSubscription, now: Moment) -> (SubscriptionKey, JoinedGroup) {
        let key = self.slots.reserve();
        let joined = self.groups.join(GroupKey::of(&new.terms), key);
        self.slots.insert(key, Subscription::new(new, joined.id, now));
        (key, joined)
    }

    /// Removes a subscription. Also returns whether its group is gone with it.
    pub(super) fn remove(&mut self, key: SubscriptionKey) -> Option<(Subscription, bool)> {
        let subscription = self.slots.remove(key)?;
        let group_gone = self.groups.leave(subscription.group(), key);
        Some((subscription, group_gone))
    }

    /// Returns a subscription with its group.
    pub(super) fn with_group(&mut self, key: SubscriptionKey) -> Option<(&mut Subscription, &mut SubscriberGroup)> {
        let subscription = self.slots.get_mut(key)?;
        let group = self.groups.get_mut(subscription.group())?;
        Some((subscription, group))
    }

    /// Returns the group of a subscription.
    pub(super) fn group_of(&self, key: SubscriptionKey) -> Option<&SubscriberGroup> {
        self.groups.get(self.slots.get(key)?.group())
    }

    /// Returns the groups and the subscriptions apart, to deliver to each member of each group.
    pub(super) fn split(&mut self) -> (&mut SubscriberGroups, &mut Slots) {
        (&mut self.groups, &mut self.slots)
    }

    /// Whether a group wants text cut at words.
    pub(super) fn need_words(&self) -> bool {
        self.groups.need_words()
    }

    /// Whether a subscription could answer a question of this kind now.
    pub(super) fn can_answer(&self, kind: QuestionKind) -> bool {
        self.iter().any(|(_, subscription)| subscription.can_answer(kind))
    }

    /// Returns whether there is no subscription, apart from those that have been disconnected for too long.
    pub(super) fn nobody_is_there(&self) -> bool {
        self.iter().all(|(_, subscription)| subscription.is_expired())
    }

    pub(super) fn counts(&self) -> SubscriberCounts {
        let mut counts = SubscriberCounts::default();
        for (_, subscription) in self.iter() {
            counts.subscriptions += 1;
            counts.can_confirm += usize::from(subscription.can_answer(QuestionKind::Confirmation));
            counts.can_clarify += usize::from(subscription.can_answer(QuestionKind::Clarification));
        }
        counts
    }

    /// Forgets how much of a completed output each subscription had.
    pub(super) fn forget_output(&mut self, output: &OutputId) {
        for subscription in self.slots.iter_mut() {
            subscription.take_known_chars(output);
        }
    }
}
