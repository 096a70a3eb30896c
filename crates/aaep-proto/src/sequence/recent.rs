//! A set that remembers the newest members only, in a fixed amount of memory.

use std::collections::{BTreeSet, VecDeque};

/// Remembers up to a fixed number of names by fingerprint and forgets the oldest.
///
/// Two names share a 64-bit fingerprint about once in 10^14 pairs at the sizes used here, and
/// only who wrote both names would gain from it.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    capacity: usize,
    order: VecDeque<u64>,
    members: BTreeSet<u64>,
}

impl Recent {
    pub(crate) fn new(capacity: usize) -> Recent {
        Recent { capacity, order: VecDeque::new(), members: BTreeSet::new() }
    }

    /// Remembers a name; answers whether it is new.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        let fingerprint = fingerprint(name);
        if !self.members.insert(fingerprint) {
            return false;
        }
        self.order.push_back(fingerprint);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
        true
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.members.contains(&fingerprint(name))
    }
}

/// FNV-1a with a final mix: the same on every machine and in every run.
fn fingerprint(name: &str) -> u64 {
    let mut hash =
        name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut recent = Recent::new(2);
        assert!(recent.insert("a") && recent.insert("b"));
        assert!(!recent.insert("a"));
        assert!(recent.insert("c"));
        assert!(!recent.contains("a"));
        assert!(recent.contains("b") && recent.contains("c"));
    }
}
