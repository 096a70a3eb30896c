//! In which states a session was, and when.

use aaep_proto::message::{CoreType, Event, Payload};
use serde::Serialize;

/// Spans of one session that are kept; beyond, only their number is.
const MOST: usize = 1000;

/// A state and its time, in milliseconds since the session began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Span {
    pub(super) state: String,
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
}

/// The states of one session, one after the other.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    spans: Vec<Span>,
    current: Option<(String, u64)>,
    /// States that other events than state changes imply, since the last state change.
    implied: Vec<(&'static str, u64)>,
    left_out: u64,
}

impl Timeline {
    /// Looks at the next event of the session.
    pub(super) fn observe(&mut self, event: &Event, at: u64) {
        if let Payload::StateChanged(change) = &event.payload {
            self.leave(&change.from_state, at);
            self.enter(&change.to_state, at);
            return;
        }
        if let Some(state) = event.core_type().and_then(implied_state)
            && self.implied.last().is_none_or(|(last, _)| *last != state)
            && self.implied.len() < MOST
        {
            self.implied.push((state, at));
        }
    }

    /// All of them, up to the last event, and how many more there were.
    pub(super) fn finish(mut self, at: u64) -> (Vec<Span>, u64) {
        self.close(at);
        (self.spans, self.left_out)
    }

    /// The state that is left may have been entered without saying so: by a tool, a question, an output.
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
        if self.spans.len() < MOST {
            self.spans.push(Span { state, from_ms, to_ms: at.max(from_ms) });
        } else {
            self.left_out += 1;
        }
    }
}

/// The state that an event is said in.
fn implied_state(core: CoreType) -> Option<&'static str> {
    match core {
        CoreType::ToolInvoked => Some("calling_tool"),
        CoreType::AwaitingConfirmation | CoreType::AwaitingClarification => Some("awaiting_input"),
        CoreType::OutputStreaming => Some("writing_output"),
        CoreType::HandoffRequested => Some("handing_off"),
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
    fn states_follow_each_other_without_holes() {
        let mut timeline = Timeline::default();
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
    fn it_is_bounded() {
        let mut timeline = Timeline::default();
        for step in 0..5000 {
            timeline.observe(&change(&format!("s{step}"), &format!("s{}", step + 1)), step);
        }
        let (spans, left_out) = timeline.finish(5000);
        assert_eq!((spans.len(), left_out), (MOST, 4001));
    }
}
