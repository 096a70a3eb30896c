//! Storage for subscriptions in slots that are used again, so that an old key never finds a new subscription.

use std::collections::BTreeMap;

use super::subscription::{Subscription, SubscriptionKey};
use crate::id::SubscriptionId;

#[derive(Debug, Default)]
struct Slot {
    /// How often the slot was used before.
    generation: u32,
    subscription: Option<Subscription>,
}

/// All subscriptions, by key and by id.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_id: BTreeMap<SubscriptionId, SubscriptionKey>,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        let slot = self.slots.get(key.index())?;
        if slot.generation == key.generation() { slot.subscription.as_ref() } else { None }
    }

    pub(super) fn get_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation == key.generation() { slot.subscription.as_mut() } else { None }
    }

    pub(super) fn find(&self, id: &SubscriptionId) -> Option<SubscriptionKey> {
        self.by_id.get(id).copied()
    }

    /// Returns all subscriptions in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SubscriptionKey, &Subscription)> {
        self.by_id.values().filter_map(|key| Some((*key, self.get(*key)?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        self.slots.iter_mut().filter_map(|slot| slot.subscription.as_mut())
    }

    /// Reserves a slot. [`Slots::insert`] must follow.
    pub(super) fn reserve(&mut self) -> SubscriptionKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        SubscriptionKey::new(index, self.slots[index as usize].generation)
    }

    pub(super) fn insert(&mut self, key: SubscriptionKey, subscription: Subscription) {
        self.by_id.insert(subscription.id().clone(), key);
        self.slots[key.index()].subscription = Some(subscription);
    }

    pub(super) fn remove(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        self.get(key)?;
        let slot = &mut self.slots[key.index()];
        slot.generation = slot.generation.wrapping_add(1);
        let subscription = slot.subscription.take()?;
        self.by_id.remove(subscription.id());
        self.free.push(key.index() as u32);
        Some(subscription)
    }
}
