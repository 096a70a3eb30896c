//! Which events are written down.

use std::collections::BTreeSet;

use aaep_proto::message::{Event, EventFilters, Payload};
use aaep_proto::shaping::filter::Filter;

/// Which events are written down. What is not given lets everything through.
pub(super) struct Choice {
    types: Option<Filter>,
    sessions: BTreeSet<String>,
    urgencies: BTreeSet<String>,
    questions: bool,
}

impl Choice {
    pub(super) fn new(types: &[String], sessions: &[String], urgencies: &[String], questions: bool) -> Choice {
        let include: Vec<String> = types.iter().map(|pattern| whole(pattern)).collect();
        let filters = EventFilters { include: Some(include), exclude: None };
        Choice {
            types: (!types.is_empty()).then(|| Filter::new(Some(&filters))),
            sessions: sessions.iter().cloned().collect(),
            urgencies: urgencies.iter().cloned().collect(),
            questions,
        }
    }

    /// Whether it takes an event.
    pub(super) fn takes(&self, event: &Event) -> bool {
        if self.questions && (asks(event) || tells_end(event)) {
            return true;
        }
        // The protocol lets critical events pass every filter; the user's own wish here is plain.
        let fits = |types: &Filter| match event.core_type() {
            Some(core) => types.passes_core(core),
            None => types.passes(event),
        };
        self.types.as_ref().is_none_or(fits)
            && (self.sessions.is_empty() || self.sessions.contains(event.envelope.session_id.as_str()))
            && (self.urgencies.is_empty() || self.urgencies.contains(event.urgency().as_str()))
    }
}

/// Core types may be given without what they all begin with.
fn whole(pattern: &str) -> String {
    if pattern.contains(':') || pattern == "*" { pattern.to_owned() } else { format!("aaep:agent.{pattern}") }
}

fn asks(event: &Event) -> bool {
    matches!(event.payload, Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_))
}

/// Whether it says how a question ended: docs/reference/consent.md.
fn tells_end(event: &Event) -> bool {
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

    fn choice(types: &[&str], sessions: &[&str], urgencies: &[&str], questions: bool) -> Choice {
        let own = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Choice::new(&own(types), &own(sessions), &own(urgencies), questions)
    }

    #[test]
    fn filters_combine() {
        let tool = event("aaep:agent.tool.invoked", "sess_1", "normal", json!({}));
        let own = event("haptic:pulse", "sess_1", "normal", json!({}));
        assert!(choice(&[], &[], &[], false).takes(&tool) && choice(&[], &[], &[], false).takes(&own));
        assert!(choice(&["tool.*"], &["sess_1"], &["normal"], false).takes(&tool));
        assert!(choice(&["aaep:agent.tool.invoked", "output.*"], &[], &[], false).takes(&tool));
        assert!(!choice(&["tool.*"], &[], &[], false).takes(&own));
        assert!(choice(&["haptic:*"], &[], &[], false).takes(&own) && choice(&["*"], &[], &[], false).takes(&own));
        assert!(!choice(&["tool.*"], &["sess_2"], &[], false).takes(&tool));
        assert!(!choice(&[], &[], &["critical"], false).takes(&tool));
    }

    #[test]
    fn questions_and_their_ends_can_be_kept_beside_everything() {
        let asked = event("aaep:agent.awaiting.clarification", "sess_1", "critical", json!({}));
        let ended = event("aaep:agent.state.changed", "sess_1", "normal", json!({"consent": {"outcome": "answered"}}));
        let other = event("aaep:agent.state.changed", "sess_1", "normal", json!({}));
        for (kept, event) in [(true, &asked), (true, &ended), (false, &other)] {
            assert_eq!(choice(&["tool.*"], &[], &[], true).takes(event), kept);
            assert!(!choice(&["tool.*"], &[], &[], false).takes(event));
        }
    }
}
