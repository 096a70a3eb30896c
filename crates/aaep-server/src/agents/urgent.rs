//! Events that must not wait: questions, other critical events, and the ends of sessions.
//!
//! Text of an agent waits while no subscriber keeps up. It stops waiting as soon as the agent sends an urgent event after
//! it: so the order is kept, and the urgent event is not delayed.

use std::borrow::Cow;
use std::sync::Arc;

use aaep::message::CoreType;
use serde::Deserialize;
use tokio::sync::watch;

use super::raw_event::{ParsedLine, core_type};

/// Returns whether all events of this type are urgent.
pub(super) fn is_urgent_type(core: Option<CoreType>) -> bool {
    core.is_some_and(|core| core.must_be_critical() || core.is_terminal())
}

/// Returns whether an event of this type and this `urgency` is urgent.
pub(super) fn is_urgent(core: Option<CoreType>, urgency: Option<&str>) -> bool {
    urgency == Some("critical") || is_urgent_type(core)
}

/// The fields that make an event urgent.
#[derive(Deserialize)]
struct UrgencyFields<'l> {
    #[serde(borrow, rename = "type")]
    type_name: Cow<'l, str>,
    #[serde(borrow)]
    urgency: Option<Cow<'l, str>>,
}

/// Returns whether a line of a batch is an urgent event, without building the event: a batch may have many lines, which
/// are parsed one by one when their turn comes. Returns false for invalid JSON, which will be refused.
pub(super) fn is_urgent_line(line: &[u8]) -> bool {
    let Ok(fields) = serde_json::from_slice::<UrgencyFields<'_>>(line) else { return false };
    is_urgent(core_type(&fields.type_name), fields.urgency.as_deref())
}

/// Counts the urgent events of one agent that have been received and not handled.
#[derive(Clone, Debug, Default)]
pub(super) struct UrgentCounter(Arc<watch::Sender<usize>>);

impl UrgentCounter {
    /// Counts one event until the guard is dropped.
    pub(super) fn guard(&self) -> UrgentGuard {
        self.0.send_modify(|count| *count += 1);
        UrgentGuard(self.clone())
    }

    /// Counts this event until the guard is dropped, if it is urgent.
    pub(super) fn guard_if_urgent(&self, event: &ParsedLine) -> Option<UrgentGuard> {
        let is_urgent = event.as_ref().is_ok_and(|event| event.is_urgent());
        is_urgent.then(|| self.guard())
    }

    /// Waits until there is an urgent event.
    pub(super) async fn wait(&self) {
        // `self` holds the sender, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|count| *count > 0).await;
    }
}

/// Counts an urgent event as not handled until it is dropped.
#[derive(Debug)]
pub(super) struct UrgentGuard(UrgentCounter);

impl Drop for UrgentGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::raw_event::RawEvent;

    #[test]
    fn questions_critical_events_and_ends_of_sessions_are_urgent() {
        let is_urgent_event = |line: &str| RawEvent::parse(line.as_bytes()).is_ok_and(|event| event.is_urgent());
        for line in [
            r#"{"type": "awaiting.confirmation", "action": "Pay."}"#,
            r#"{"action": "Pay.", "type": "aaep:agent.awaiting.clarification"}"#,
            r#"{"type": "agent.session.errored"}"#,
            r#"{"type": "handoff.requested"}"#,
            r#"{"type": "session.completed"}"#,
            r#"{"type": "state.changed", "urgency": "critical"}"#,
            r#"{"type": "state.changed", "urgency": "critic\u0061l"}"#,
        ] {
            assert!(is_urgent_line(line.as_bytes()) && is_urgent_event(line), "{line}");
        }
        for line in [
            r#"{"type": "output.streaming", "chunk": "critical awaiting.confirmation"}"#,
            r#"{"type": "progress.updated", "urgency": "normal"}"#,
            r#"{"type": "state.changed", "urgency": null}"#,
            r#"{"type": 7}"#,
            r#"{"urgency": "normal"}"#,
            "[]",
            "",
        ] {
            assert!(!is_urgent_line(line.as_bytes()) && !is_urgent_event(line), "{line}");
        }
    }
}
