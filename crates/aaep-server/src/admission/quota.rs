//! A quota: a limited number of slots of one kind (subscriptions, agents, sessions, questions), shared among principals.
//!
//! Two rules keep one principal from starving others. A principal holds at most its own limit. And the slots that
//! principals hold beyond their first one may not use up a reserve: while fewer principals hold a slot than the reserve
//! has, a principal that holds none always gets one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many slots there are, and how they are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaLimits {
    /// Slots in total.
    pub(crate) capacity: usize,
    /// Slots of one principal.
    pub(crate) per_principal: usize,
    /// Slots reserved for the first slot of each principal.
    pub(crate) reserve: usize,
}

impl QuotaLimits {
    /// Any principal may hold every slot: for a server whose peers are all one principal.
    pub(crate) fn shared(capacity: usize) -> QuotaLimits {
        QuotaLimits { capacity, per_principal: capacity, reserve: 0 }
    }

    /// One principal may hold `per_principal` slots, and a quarter of all slots is reserved.
    pub(crate) fn per_principal(capacity: usize, per_principal: usize) -> QuotaLimits {
        QuotaLimits { capacity, per_principal, reserve: capacity / 4 }
    }
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaExhausted {
    /// The principal has reached its limit.
    Principal,
    /// All slots are in use, or the rest is reserved for principals that hold none.
    Total,
}

/// The accounting, without locks or ownership.
#[derive(Debug)]
struct QuotaUsage {
    limits: QuotaLimits,
    /// Slots in use.
    used: usize,
    /// Slots by principal; no entry is zero.
    held: BTreeMap<String, usize>,
}

impl QuotaUsage {
    fn new(limits: QuotaLimits) -> QuotaUsage {
        QuotaUsage { limits, used: 0, held: BTreeMap::new() }
    }

    fn acquire(&mut self, principal: &str) -> Result<(), QuotaExhausted> {
        let held = self.held.get(principal).copied().unwrap_or(0);
        if held >= self.limits.per_principal {
            return Err(QuotaExhausted::Principal);
        }
        // All slots but the first one of each principal.
        let additional = self.used - self.held.len();
        let may_be_additional = self.limits.capacity.saturating_sub(self.limits.reserve);
        if self.used >= self.limits.capacity || (held > 0 && additional >= may_be_additional) {
            return Err(QuotaExhausted::Total);
        }
        self.used += 1;
        match self.held.get_mut(principal) {
            Some(held) => *held += 1,
            None => drop(self.held.insert(principal.to_owned(), 1)),
        }
        Ok(())
    }

    fn release(&mut self, principal: &str) {
        let Some(held) = self.held.get_mut(principal) else { return };
        *held -= 1;
        self.used -= 1;
        if *held == 0 {
            self.held.remove(principal);
        }
    }
}

/// Slots of one kind. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    shares: Arc<Mutex<QuotaUsage>>,
    /// What the slots are for, in the plural, for error messages.
    what: &'static str,
    /// The setting that limits one principal.
    setting: &'static str,
}

impl Quota {
    pub(crate) fn new(what: &'static str, setting: &'static str, limits: QuotaLimits) -> Quota {
        Quota { shares: Arc::new(Mutex::new(QuotaUsage::new(limits))), what, setting }
    }

    /// Acquires a slot for a principal, until it is dropped.
    pub(crate) fn acquire(&self, principal: &str) -> Result<QuotaSlot, QuotaError> {
        let mut shares = self.lock();
        let (what, setting, limits) = (self.what, self.setting, shares.limits);
        shares.acquire(principal).map_err(|reason| QuotaError { reason, what, setting, limits })?;
        Ok(QuotaSlot { quota: self.clone(), principal: principal.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, QuotaUsage> {
        // No code that can panic runs under this lock.
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One slot of a principal. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct QuotaSlot {
    quota: Quota,
    principal: String,
}

impl Drop for QuotaSlot {
    fn drop(&mut self) {
        self.quota.lock().release(&self.principal);
    }
}

/// Why there is no slot, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaError {
    pub(crate) reason: QuotaExhausted,
    what: &'static str,
    setting: &'static str,
    limits: QuotaLimits,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuotaError { reason, what, setting, limits } = self;
        match reason {
            QuotaExhausted::Principal => {
                let most = limits.per_principal;
                write!(f, "These credentials have {most} {what} open, the limit {setting}. End some first.")
            }
            QuotaExhausted::Total => write!(f, "All {} {what} are taken. Try again later.", limits.capacity),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quota(limits: QuotaLimits) -> Quota {
        Quota::new("sessions", "limits.sessions_per_principal", limits)
    }

    #[test]
    fn principal_cannot_exceed_its_limit() {
        let quota = quota(QuotaLimits::per_principal(100, 10));
        let slots: Vec<QuotaSlot> = (0..10).map(|_| quota.acquire("eve").unwrap()).collect();
        let error = quota.acquire("eve").unwrap_err();
        assert_eq!(error.reason, QuotaExhausted::Principal);
        let text = error.to_string();
        assert!(text.contains("10 sessions") && text.contains("limits.sessions_per_principal"), "{text}");
        assert!(quota.acquire("ada").is_ok());
        drop(slots);
        assert!(quota.acquire("eve").is_ok());
    }

    #[test]
    fn reserve_is_kept_for_principals_without_a_slot() {
        let quota = quota(QuotaLimits::per_principal(8, 8));
        let mut slots: Vec<QuotaSlot> = Vec::new();
        while let Ok(slot) = quota.acquire("eve") {
            slots.push(slot);
        }
        assert_eq!(slots.len(), 7, "one first slot and six others");
        assert_eq!(quota.acquire("eve").unwrap_err().reason, QuotaExhausted::Total);
        slots.push(quota.acquire("ada").unwrap());
        assert_eq!(quota.acquire("bob").unwrap_err().to_string(), "All 8 sessions are taken. Try again later.");
    }

    #[test]
    fn shared_quota_gives_every_slot_to_any_principal() {
        let quota = quota(QuotaLimits::shared(3));
        let slots: Vec<QuotaSlot> = (0..3).map(|_| quota.acquire("local").unwrap()).collect();
        assert!(quota.acquire("local").is_err());
        drop(slots);
        assert!(quota.lock().held.is_empty() && quota.lock().used == 0);
    }

    proptest! {
        /// After any sequence of acquisitions and releases: while fewer principals hold a slot than the reserve has, a
        /// principal that holds none gets one.
        #[test]
        fn principal_without_a_slot_gets_one(
            steps in prop::collection::vec((any::<bool>(), 0usize..6), 0..400),
            capacity in 24usize..40,
            per_principal in 1usize..40,
        ) {
            let mut shares = QuotaUsage::new(QuotaLimits::per_principal(capacity, per_principal));
            let names = ["a", "b", "c", "d", "e", "f"];
            for (acquire, who) in steps {
                let name = names[who];
                if acquire {
                    let had_none = !shares.held.contains_key(name);
                    let fits = shares.held.len() < shares.limits.reserve;
                    let got = shares.acquire(name).is_ok();
                    prop_assert!(got || !(had_none && fits), "{shares:?}");
                } else {
                    shares.release(name);
                }
                prop_assert_eq!(shares.used, shares.held.values().sum::<usize>());
                prop_assert!(shares.used <= capacity);
                prop_assert!(shares.held.values().all(|held| *held <= per_principal));
            }
        }
    }
}
