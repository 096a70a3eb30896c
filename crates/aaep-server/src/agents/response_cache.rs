//! The responses to recent events of an agent by `event_id`, so that an event that is sent again is not emitted again.

use std::collections::{BTreeMap, VecDeque};

use aaep::CallDigest;

use super::pending::ResponseState;

/// Most events that are remembered.
const MAX_ENTRIES: usize = 8192;

/// Events that are remembered even if memory is short.
const MIN_ENTRIES: usize = 128;

/// The responses to the most recent events of one agent.
#[derive(Debug, Default)]
pub(super) struct ResponseCache {
    entries: BTreeMap<String, CachedResponse>,
    /// The keys of `entries`, oldest first.
    order: VecDeque<String>,
}

#[derive(Debug)]
struct CachedResponse {
    /// The digest of the event's content.
    digest: CallDigest,
    response: ResponseState,
}

/// An event whose `event_id` was used before.
pub(super) enum DuplicateEvent {
    /// The same event; this was its response.
    Repeated(ResponseState),
    /// The earlier event had other content.
    Conflicting,
}

impl ResponseCache {
    /// Looks up an event. Returns `None` if its `event_id` is new.
    pub(super) fn find(&self, event_id: &str, digest: CallDigest) -> Option<DuplicateEvent> {
        let cached = self.entries.get(event_id)?;
        Some(if cached.digest == digest {
            DuplicateEvent::Repeated(cached.response.clone())
        } else {
            DuplicateEvent::Conflicting
        })
    }

    /// Adds a response. If the cache is full, evicts the oldest one whose question is not pending.
    pub(super) fn insert(&mut self, event_id: String, digest: CallDigest, response: ResponseState) {
        if self.entries.insert(event_id.clone(), CachedResponse { digest, response }).is_none() {
            self.order.push_back(event_id);
        }
        let mut skipped = 0;
        while self.order.len() > MAX_ENTRIES && skipped < self.order.len() {
            let Some(oldest) = self.order.pop_front() else { return };
            if self.is_pending(&oldest) {
                self.order.push_back(oldest);
                skipped += 1;
            } else {
                self.entries.remove(&oldest);
            }
        }
    }

    /// Returns the number of cached responses.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Evicts the older half, except for pending questions. Returns whether anything was evicted.
    pub(super) fn evict_half(&mut self) -> bool {
        let before = self.entries.len();
        if before <= MIN_ENTRIES {
            return false;
        }
        for event_id in self.order.drain(..self.order.len() / 2).collect::<Vec<_>>() {
            if self.is_pending(&event_id) {
                self.order.push_back(event_id);
            } else {
                self.entries.remove(&event_id);
            }
        }
        self.entries.len() < before
    }

    /// Returns the number of questions that are not resolved.
    pub(super) fn pending_questions(&self) -> usize {
        self.entries.values().filter(|cached| cached.response.is_pending()).count()
    }

    fn is_pending(&self, event_id: &str) -> bool {
        self.entries.get(event_id).is_some_and(|cached| cached.response.is_pending())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::agents::{AgentResponse, PendingResponse};

    fn published(id: usize) -> ResponseState {
        AgentResponse::Published { event_id: id.to_string(), session_id: "sess_1".to_owned() }.into()
    }

    #[test]
    fn cache_is_bounded_and_keeps_pending_questions() {
        let mut cache = ResponseCache::default();
        let digest = CallDigest::of("", &Value::Null);
        let (_sender, pending) = PendingResponse::new("0");
        cache.insert("0".to_owned(), digest, ResponseState::Pending(pending));
        for n in 1..=2 * MAX_ENTRIES {
            cache.insert(n.to_string(), digest, published(n));
        }
        assert!(cache.entries.len() <= MAX_ENTRIES && cache.order.len() == cache.entries.len());
        assert!(matches!(cache.find("0", digest), Some(DuplicateEvent::Repeated(ResponseState::Pending(_)))));
        assert!(cache.find("1", digest).is_none());
        let newest = cache.find(&(2 * MAX_ENTRIES).to_string(), digest);
        assert!(matches!(newest, Some(DuplicateEvent::Repeated(ResponseState::Ready(_)))));
        assert_eq!(cache.pending_questions(), 1);
    }

    #[test]
    fn other_content_with_the_same_id_is_a_conflict() {
        let mut cache = ResponseCache::default();
        cache.insert("1".to_owned(), CallDigest::of("", &Value::Null), published(1));
        let found = cache.find("1", CallDigest::of("", &Value::Bool(true)));
        assert!(matches!(found, Some(DuplicateEvent::Conflicting)));
    }
}
