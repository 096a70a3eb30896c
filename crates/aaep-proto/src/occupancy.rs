//! The approximate memory of a subscription's terms.

use crate::message::Capabilities;
use crate::negotiate::{Terms, merge};

/// Returns about how many bytes the terms of a subscription with these capabilities take.
///
/// ```
/// use aaep_proto::message::Capabilities;
/// use aaep_proto::occupancy::memory_of_terms;
/// let filtered: Capabilities = serde_json::from_str(r#"{"event_filters": {"include": ["haptic:*"]}}"#)?;
/// assert!(memory_of_terms(&filtered) > memory_of_terms(&Capabilities::default()));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn memory_of_terms(capabilities: &Capabilities) -> usize {
    /// Terms keep a text as it was requested, as it was honored, compiled, and in the key of the subscriptions that
    /// share them.
    const COPIES: usize = 4;
    std::mem::size_of::<Terms>() + COPIES * capabilities.memory_bytes()
}

/// Returns about how many bytes the terms of a subscription would take after this change.
pub fn memory_after_change(terms: &Terms, changes: &Capabilities) -> usize {
    memory_of_terms(&merge(terms.requested().clone(), changes))
}
