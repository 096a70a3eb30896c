//! What an agent said before, by the ids it gave: the same again is answered and not said again.

use std::collections::{BTreeMap, VecDeque};

use aaep::CallDigest;

use super::reply::Reply;

/// Events that are remembered.
const REMEMBERED: usize = 8192;

/// Events that are remembered even if memory is short.
const ALWAYS_REMEMBERED: usize = 128;

/// The answers to the newest events.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: BTreeMap<String, (CallDigest, Reply)>,
    order: VecDeque<String>,
}

/// What is known of an id.
pub(super) enum Known {
    /// This very event.
    Same(Reply),
    /// Another event.
    Other,
}

impl Memory {
    /// What is known of an event of this id and content.
    pub(super) fn find(&self, id: &str, content: CallDigest) -> Option<Known> {
        let (known, reply) = self.known.get(id)?;
        Some(if *known == content { Known::Same(reply.clone()) } else { Known::Other })
    }

    /// Remembers an answer. The oldest is forgotten for it, but no question that still waits.
    pub(super) fn keep(&mut self, id: String, content: CallDigest, reply: Reply) {
        if self.known.insert(id.clone(), (content, reply)).is_none() {
            self.order.push_back(id);
        }
        let mut looked_at = 0;
        while self.order.len() > REMEMBERED && looked_at < self.order.len() {
            let Some(oldest) = self.order.pop_front() else { return };
            if self.known.get(&oldest).is_some_and(|(_, reply)| reply.is_pending()) {
                self.order.push_back(oldest);
                looked_at += 1;
            } else {
                self.known.remove(&oldest);
            }
        }
    }

    /// How many answers are remembered.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Forgets the older half, but no question that still waits. Answers whether anything could be forgotten.
    pub(super) fn forget_half(&mut self) -> bool {
        let before = self.known.len();
        if before <= ALWAYS_REMEMBERED {
            return false;
        }
        for id in self.order.drain(..self.order.len() / 2).collect::<Vec<_>>() {
            if self.known.get(&id).is_some_and(|(_, reply)| reply.is_pending()) {
                self.order.push_back(id);
            } else {
                self.known.remove(&id);
            }
        }
        self.known.len() < before
    }

    /// How many questions wait.
    pub(super) fn pending(&self) -> usize {
        self.known.values().filter(|(_, reply)| reply.is_pending()).count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::agents::{AgentResponse, Pending};

    fn published(id: usize) -> Reply {
        Reply::Now(AgentResponse::Published { event_id: id.to_string(), session_id: "sess_1".to_owned() }.into())
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_waits() {
        let mut memory = Memory::default();
        let content = CallDigest::of("", &Value::Null);
        let (_decide, pending) = Pending::new("0");
        memory.keep("0".to_owned(), content, Reply::Later(pending));
        for n in 1..=2 * REMEMBERED {
            memory.keep(n.to_string(), content, published(n));
        }
        assert!(memory.known.len() <= REMEMBERED && memory.order.len() == memory.known.len());
        assert!(matches!(memory.find("0", content), Some(Known::Same(Reply::Later(_)))));
        assert!(memory.find("1", content).is_none());
        assert!(matches!(memory.find(&(2 * REMEMBERED).to_string(), content), Some(Known::Same(Reply::Now(_)))));
        assert_eq!(memory.pending(), 1);
    }

    #[test]
    fn another_event_of_the_same_id_is_told_apart() {
        let mut memory = Memory::default();
        memory.keep("1".to_owned(), CallDigest::of("", &Value::Null), published(1));
        assert!(matches!(memory.find("1", CallDigest::of("", &Value::Bool(true))), Some(Known::Other)));
    }
}
