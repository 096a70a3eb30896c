//! A set that keeps only its newest members, in a fixed amount of memory.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use serde::Serialize;

/// Keeps the fingerprints of up to a fixed number of names and drops the oldest.
///
/// Two names share a 64-bit fingerprint about once in 10^14 pairs at the sizes used here, and only the author of both
/// names could profit from it.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    capacity: usize,
    order: VecDeque<u64>,
    /// The content fingerprint of each member.
    members: BTreeMap<u64, u64>,
}

impl Recent {
    pub(crate) fn new(capacity: usize) -> Recent {
        Recent { capacity, order: VecDeque::new(), members: BTreeMap::new() }
    }

    /// Adds a name. Returns whether it is new.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        self.remember(name, 0).is_none()
    }

    /// Adds a name with the fingerprint of its content. If the name is known already, returns the stored fingerprint
    /// and changes nothing.
    pub(crate) fn remember(&mut self, name: &str, content: u64) -> Option<u64> {
        let fingerprint = fingerprint(name);
        if let Some(known) = self.members.get(&fingerprint) {
            return Some(*known);
        }
        self.members.insert(fingerprint, content);
        self.order.push_back(fingerprint);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
        None
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.members.contains_key(&fingerprint(name))
    }
}

/// Returns the fingerprint of a name, which does not depend on the machine or the run.
pub(crate) fn fingerprint(name: &str) -> u64 {
    let mut hash = Fnv::default();
    hash.add(name.as_bytes());
    hash.finish()
}

/// Returns the fingerprint of a value, independent of its original formatting.
pub(crate) fn fingerprint_of(value: &impl Serialize) -> u64 {
    let mut hash = Fnv::default();
    // The writer never fails, and values that were parsed from JSON can be serialized.
    let _ = serde_json::to_writer(&mut hash, value);
    hash.finish()
}

/// FNV-1a with a final mix.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    }

    fn finish(self) -> u64 {
        let mut hash = self.0;
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^ (hash >> 33)
    }
}

impl io::Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_member_is_dropped_first() {
        let mut recent = Recent::new(2);
        assert!(recent.insert("a") && recent.insert("b"));
        assert!(!recent.insert("a"));
        assert!(recent.insert("c"));
        assert!(!recent.contains("a"));
        assert!(recent.contains("b") && recent.contains("c"));
    }
}
