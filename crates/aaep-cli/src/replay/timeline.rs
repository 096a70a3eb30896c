//! The states of a session over time.

use aaep_proto::message::{CoreType, Event, Payload, state};
use serde::Serialize;

/// Maximum number of spans per session. Further spans are only counted.
const MAX_SPANS: usize = 1000;

/// A state and when it lasted, in milliseconds since the start of the session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StateSpan {
    pub(super) state: String,
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
}

/// Collects the states of one session.
#[derive(Debug, Default)]
pub(super) struct StateTimeline {
    spans: Vec<StateSpan>,
    current: Option<(String, u64)>,
    /// States implied by other events since the last `state.changed`.
    implied: Vec<(&'static str, u64)>,
    left_out: u64,
}

impl StateTimeline {
    /// Observes the next event of the session.
    pub(super) fn observe(&mut self, event: &Event, at: u64) {
        if let Payload::StateChanged(change) = &event.payload {
            self.leave(&change.from_state, at);
            self.enter(&change.to_state, at);
            return;
        }
        if let Some(state) = event.core_type().and_then(implied_state)
            && self.implied.last().is_none_or(|(last, _)| *last != state)
            && self.implied.len() < MAX_SPANS
        {
            self.implied.push((state, at));
        }
    }

    /// Returns the spans up to the last event, and the number of spans that were dropped.
    pub(super) fn finish(mut self, at: u64) -> (Vec<StateSpan>, u64) {
        self.close(at);
        (self.spans, self.left_out)
    }

    /// Leaves a state. It may have been entered without a `state.changed`: by a tool call, a question or an output.
    fn leave(&mut self, from: &str, at: u64) {
        let implied = std::mem::take(&mut self.implied);
        match &self.current {
            None => self.current = Some((from.to_owned(), 0)),
            Some((state, _)) if state == from => return,
            Some(_) => {}
        }
        if let Some(last) = implied.iter().rposition(|(state, _)| *state == from) {
            for (state, since) in &implied[..=last] {
                self.enter(state, *since);
            }
        } else if self.current.as_ref().is_some_and(|(state, _)| state != from) {
            self.enter(from, at);
        }
    }

    fn enter(&mut self, state: &str, at: u64) {
        if self.current.as_ref().is_some_and(|(current, _)| current == state) {
            return;
        }
        self.close(at);
        self.current = Some((state.to_owned(), at));
        self.implied.clear();
    }

    fn close(&mut self, at: u64) {
        let Some((state, from_ms)) = self.current.take() else { return };
        if self.spans.len() < MAX_SPANS {
            self.spans.push(StateSpan { state, from_ms, to_ms: at.max(from_ms) });
        } else {
            self.left_out += 1;
        }
    }
}

/// Returns the state that an event implies.
fn implied_state(core: CoreType) -> Option<&'static str> {
    match core {
        CoreType::ToolInvoked => Some(state::CALLING_TOOL),
        CoreType::AwaitingConfirmation | CoreType::AwaitingClarification => Some(state::AWAITING_INPUT),
        CoreType::OutputStreaming => Some(state::WRITING_OUTPUT),
        CoreType::HandoffRequested => Some(state::HANDING_OFF),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(kind: &str, more: &str) -> Event {
        let text = format!(
            r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.{kind}","event_id":"evt_1","session_id":"sess_1",
            "timestamp":"2026-05-24T14:22:13Z","producer":{{"agent_id":"a"}}{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn change(from: &str, to: &str) -> Event {
        event("state.changed", &format!(r#","from_state":"{from}","to_state":"{to}""#))
    }

    #[test]
    fn spans_are_contiguous() {
        let mut timeline = StateTimeline::default();
        timeline.observe(&change("idle", "thinking"), 100);
        timeline.observe(&event("tool.invoked", r#","tool":"t","summary_normal":"T.""#), 300);
        timeline.observe(&change("calling_tool", "thinking"), 500);
        timeline.observe(&event("tool.invoked", r#","tool":"t","summary_normal":"T.""#), 600);
        timeline.observe(&change("thinking", "deciding"), 700);
        timeline.observe(&change("lost", "found"), 800);
        let (spans, left_out) = timeline.finish(900);
        assert_eq!(left_out, 0);
        assert_eq!(
            serde_json::to_value(spans).unwrap(),
            json!([
                {"state": "idle", "from_ms": 0, "to_ms": 100},
                {"state": "thinking", "from_ms": 100, "to_ms": 300},
                {"state": "calling_tool", "from_ms": 300, "to_ms": 500},
                {"state": "thinking", "from_ms": 500, "to_ms": 700},
                {"state": "deciding", "from_ms": 700, "to_ms": 800},
                {"state": "lost", "from_ms": 800, "to_ms": 800},
                {"state": "found", "from_ms": 800, "to_ms": 900},
            ])
        );
    }

    #[test]
    fn number_of_spans_is_bounded() {
        let mut timeline = StateTimeline::default();
        for step in 0..5000 {
            timeline.observe(&change(&format!("s{step}"), &format!("s{}", step + 1)), step);
        }
        let (spans, left_out) = timeline.finish(5000);
        assert_eq!((spans.len(), left_out), (MAX_SPANS, 4001));
    }
}
