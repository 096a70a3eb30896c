//! Events that must not wait: questions, other critical events, and the ends of sessions. An agent's text that is held
//! back because no subscriber keeps up goes on as soon as the agent sends one of these after it, so that the order stays
//! and the urgent event is not delayed.

use std::borrow::Cow;
use std::sync::Arc;

use aaep::message::CoreType;
use serde::Deserialize;
use tokio::sync::watch;

use super::raw_event::core_type;

/// Whether events of this type are urgent whatever they say.
pub(super) fn is_urgent_type(core: Option<CoreType>) -> bool {
    core.is_some_and(|core| core.must_be_critical() || core.is_terminal())
}

/// The fields that make an event urgent.
#[derive(Deserialize)]
struct Head<'l> {
    #[serde(borrow, rename = "type")]
    type_name: Cow<'l, str>,
    #[serde(borrow)]
    urgency: Option<Cow<'l, str>>,
}

/// Whether this JSON object is an urgent event. What cannot be read is not: it will be refused.
pub(super) fn is_urgent(line: &[u8]) -> bool {
    let Ok(head) = serde_json::from_slice::<Head<'_>>(line) else { return false };
    head.urgency.is_some_and(|urgency| urgency == "critical") || is_urgent_type(core_type(&head.type_name))
}

/// Counts the urgent events of one agent that have been received and not been handled.
#[derive(Clone, Debug, Default)]
pub(super) struct Urgent(Arc<watch::Sender<usize>>);

impl Urgent {
    /// Counts one until the result is dropped.
    pub(super) fn mark(&self) -> UrgentMark {
        self.0.send_modify(|count| *count += 1);
        UrgentMark(self.clone())
    }

    /// Counts this line, if it is an urgent event.
    pub(super) fn mark_if_urgent(&self, line: &[u8]) -> Option<UrgentMark> {
        is_urgent(line).then(|| self.mark())
    }

    /// Waits until there is one.
    pub(super) async fn any(&self) {
        // This holds the sender, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|count| *count > 0).await;
    }
}

/// An urgent event that has not been handled.
#[derive(Debug)]
pub(super) struct UrgentMark(Urgent);

impl Drop for UrgentMark {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_critical_events_and_ends_are_urgent() {
        for line in [
            r#"{"type": "awaiting.confirmation", "action": "Pay."}"#,
            r#"{"action": "Pay.", "type": "aaep:agent.awaiting.clarification"}"#,
            r#"{"type": "agent.session.errored"}"#,
            r#"{"type": "handoff.requested"}"#,
            r#"{"type": "session.completed"}"#,
            r#"{"type": "state.changed", "urgency": "critical"}"#,
            r#"{"type": "state.changed", "urgency": "critic\u0061l"}"#,
        ] {
            assert!(is_urgent(line.as_bytes()), "{line}");
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
            assert!(!is_urgent(line.as_bytes()), "{line}");
        }
    }
}
