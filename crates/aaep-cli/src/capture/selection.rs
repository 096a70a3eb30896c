//! Which events a capture records.

use std::collections::BTreeSet;

use aaep_proto::filter::EventFilter;
use aaep_proto::message::{Event, EventFilters, Payload};

/// The filters of a capture. A filter that is not given selects every event.
pub(super) struct EventSelection {
    types: Option<EventFilter>,
    sessions: BTreeSet<String>,
    urgencies: BTreeSet<String>,
    questions: bool,
}

impl EventSelection {
    pub(super) fn new(types: &[String], sessions: &[String], urgencies: &[String], questions: bool) -> EventSelection {
        let include: Vec<String> = types.iter().map(|pattern| full_pattern(pattern)).collect();
        let filters = EventFilters { include: Some(include), exclude: None };
        EventSelection {
            types: (!types.is_empty()).then(|| EventFilter::new(Some(&filters))),
            sessions: sessions.iter().cloned().collect(),
            urgencies: urgencies.iter().cloned().collect(),
            questions,
        }
    }

    /// Returns whether the event is selected.
    pub(super) fn contains(&self, event: &Event) -> bool {
        if self.questions && (is_question(event) || is_resolution(event)) {
            return true;
        }
        // Critical events pass every filter of a subscription, but not these filters of the user.
        let matches_type = |types: &EventFilter| match event.core_type() {
            Some(core) => types.passes_core(core),
            None => types.passes(event),
        };
        self.types.as_ref().is_none_or(matches_type)
            && (self.sessions.is_empty() || self.sessions.contains(event.envelope.session_id.as_str()))
            && (self.urgencies.is_empty() || self.urgencies.contains(event.urgency().as_str()))
    }
}

/// Returns the full name of a type pattern: core types may be given without their common prefix.
fn full_pattern(pattern: &str) -> String {
    if pattern.contains(':') || pattern == "*" { pattern.to_owned() } else { format!("aaep:agent.{pattern}") }
}

fn is_question(event: &Event) -> bool {
    matches!(event.payload, Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_))
}

/// Returns whether the event has the outcome of a question, see docs/reference/consent.md.
fn is_resolution(event: &Event) -> bool {
    let consent = event.envelope.extensions.as_ref().and_then(|extensions| extensions.get("consent"));
    consent.is_some_and(|consent| consent.get("outcome").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(kind: &str, session: &str, urgency: &str, extensions: Value) -> Event {
        serde_json::from_value(json!({"@context": "https://aaep-protocol.org/context/v1", "type": kind, "event_id": "evt_1", "session_id": session,
            "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"}, "urgency": urgency,
            "tool": "t", "summary_normal": "T.", "from_state": "a", "to_state": "b", "extensions": extensions,
            "question": "Q?", "reply_token": "rpl_1", "timeout_seconds": 9}))
        .unwrap()
    }

    fn selection(types: &[&str], sessions: &[&str], urgencies: &[&str], questions: bool) -> EventSelection {
        let own = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        EventSelection::new(&own(types), &own(sessions), &own(urgencies), questions)
    }

    #[test]
    fn filters_combine() {
        let tool = event("aaep:agent.tool.invoked", "sess_1", "normal", json!({}));
        let own = event("haptic:pulse", "sess_1", "normal", json!({}));
        assert!(selection(&[], &[], &[], false).contains(&tool) && selection(&[], &[], &[], false).contains(&own));
        assert!(selection(&["tool.*"], &["sess_1"], &["normal"], false).contains(&tool));
        assert!(selection(&["aaep:agent.tool.invoked", "output.*"], &[], &[], false).contains(&tool));
        assert!(!selection(&["tool.*"], &[], &[], false).contains(&own));
        assert!(
            selection(&["haptic:*"], &[], &[], false).contains(&own)
                && selection(&["*"], &[], &[], false).contains(&own)
        );
        assert!(!selection(&["tool.*"], &["sess_2"], &[], false).contains(&tool));
        assert!(!selection(&[], &[], &["critical"], false).contains(&tool));
    }

    #[test]
    fn questions_and_resolutions_pass_the_other_filters_if_included() {
        let asked = event("aaep:agent.awaiting.clarification", "sess_1", "critical", json!({}));
        let ended = event("aaep:agent.state.changed", "sess_1", "normal", json!({"consent": {"outcome": "answered"}}));
        let other = event("aaep:agent.state.changed", "sess_1", "normal", json!({}));
        for (kept, event) in [(true, &asked), (true, &ended), (false, &other)] {
            assert_eq!(selection(&["tool.*"], &[], &[], true).contains(event), kept);
            assert!(!selection(&["tool.*"], &[], &[], false).contains(event));
        }
    }
}
