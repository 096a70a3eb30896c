//! The events that a resumable subscription was sent lately, so that it can resume after the last event it received (8.7).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use aaep_proto::engine::state_summary_event;
use aaep_proto::frame::Frame;
use aaep_proto::id::{Entropy, ReplyToken, SessionId};
use aaep_proto::message::{Envelope, Event, Payload};

/// Events that are kept per subscription.
const MAX_EVENTS: usize = 256;

/// Bytes that are kept per subscription. Subscriptions with equal terms share them.
const MAX_BYTES: usize = 512 * 1024;

/// Terminal events that are kept beyond that: a subscriber that misses the end of a session would wait for it forever.
const MAX_TERMINAL_EVENTS: usize = 64;

/// The last events of one subscription.
#[derive(Debug, Default)]
pub(crate) struct History {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    /// Terminal events that are no longer among the frames, the newest first.
    terminal_events: VecDeque<Arc<Frame>>,
    /// Whether any event was dropped.
    has_dropped: bool,
}

/// The events that a subscriber gets again when it resumes.
#[derive(Debug, Default)]
pub(crate) struct ResumeReplay {
    /// The events, in order.
    pub(crate) frames: Vec<Arc<Frame>>,
    /// Whether events before these are missing.
    pub(crate) gap: bool,
    /// Whether the subscriber named an event that it was never sent. Then it is not known which of these events it has.
    unknown_position: bool,
}

/// The sessions and questions that a replay has events of.
#[derive(Debug)]
pub(crate) struct Covered {
    pub(crate) sessions: BTreeSet<SessionId>,
    pub(crate) questions: BTreeSet<ReplyToken>,
}

impl History {
    /// Keeps an event that a reader took.
    pub(crate) fn push(&mut self, frame: &Arc<Frame>) {
        self.bytes += frame.json().len();
        self.frames.push_back(frame.clone());
        while (self.frames.len() > MAX_EVENTS || self.bytes > MAX_BYTES) && self.frames.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Drops the oldest events until at most this many bytes are left.
    pub(crate) fn trim(&mut self, bytes: usize) {
        while self.bytes > bytes && self.drop_oldest() {}
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.frames.pop_front() else { return false };
        self.bytes -= oldest.json().len();
        self.has_dropped = true;
        if oldest.is_terminal() {
            self.terminal_events.truncate(MAX_TERMINAL_EVENTS - 1);
            self.terminal_events.push_front(oldest);
        }
        true
    }

    /// Removes and returns the events after `last`; all events if `last` is `None` or not known. An unknown event makes
    /// a gap, whether it was dropped or never sent.
    pub(crate) fn take_after(&mut self, last: Option<&str>) -> ResumeReplay {
        let is_last = |frame: &Arc<Frame>| Some(frame.event().envelope.event_id.as_str()) == last;
        let found = last.and_then(|_| self.frames.iter().rposition(is_last));
        if let Some(at) = found {
            let frames: Vec<_> = self.frames.drain(at + 1..).collect();
            self.bytes -= frames.iter().map(|frame| frame.json().len()).sum::<usize>();
            return ResumeReplay { frames, ..ResumeReplay::default() };
        }
        self.bytes = 0;
        let terminal_events = self.terminal_events.drain(..).rev();
        let frames = terminal_events.chain(self.frames.drain(..)).collect();
        let has_dropped = std::mem::take(&mut self.has_dropped);
        let unknown_position = last.is_some() && !has_dropped;
        ResumeReplay { frames, gap: has_dropped || unknown_position, unknown_position }
    }
}

impl ResumeReplay {
    /// Returns the events with a state summary before the first event of every session whose earlier events are missing,
    /// unless that event starts or ends the session.
    pub(crate) fn with_gap_summaries(self, entropy: &mut dyn Entropy) -> Vec<Arc<Frame>> {
        if self.unknown_position {
            return self.condense(entropy);
        }
        let mut seen = BTreeSet::new();
        let mut frames = Vec::with_capacity(self.frames.len());
        for (at, frame) in self.frames.iter().enumerate() {
            if seen.insert(frame.session().clone()) && !frame.is_terminal() && !is_start(frame) {
                let mut rest = self.frames[at..].iter().filter(|other| other.session() == frame.session());
                let state = rest.find_map(|other| other.from_state()).unwrap_or("working");
                frames.push(Arc::new(Frame::new(summary_before(frame.event(), state, entropy))));
            }
            frames.push(frame.clone());
        }
        frames
    }

    /// Returns a state summary per open session, then the events that must not be missed: terminal events and handoffs.
    /// The engine delivers open questions again.
    fn condense(self, entropy: &mut dyn Entropy) -> Vec<Arc<Frame>> {
        let mut last: BTreeMap<&SessionId, &Arc<Frame>> = BTreeMap::new();
        let mut states: BTreeMap<&SessionId, &str> = BTreeMap::new();
        for frame in &self.frames {
            last.insert(frame.session(), frame);
            if let Payload::StateChanged(change) = &frame.event().payload {
                states.insert(frame.session(), &change.to_state);
            }
        }
        let mut frames = Vec::new();
        for (session, frame) in last {
            if !frame.is_terminal() {
                let state = states.get(session).copied().unwrap_or("working");
                frames.push(Arc::new(Frame::new(summary_before(frame.event(), state, entropy))));
            }
        }
        let is_handoff = |frame: &Frame| matches!(frame.event().payload, Payload::HandoffRequested(_));
        frames.extend(self.frames.iter().filter(|frame| frame.is_terminal() || is_handoff(frame)).cloned());
        frames
    }

    /// Returns the sessions and the questions that the subscriber gets events of.
    pub(crate) fn covered(&self) -> Covered {
        let sessions = self.frames.iter().map(|frame| frame.session().clone()).collect();
        if self.unknown_position {
            return Covered { sessions, questions: BTreeSet::new() };
        }
        let questions = self.frames.iter().filter_map(|frame| match &frame.event().payload {
            Payload::AwaitingConfirmation(asked) => Some(asked.reply_token.clone()),
            Payload::AwaitingClarification(asked) => Some(asked.reply_token.clone()),
            _ => None,
        });
        Covered { sessions, questions: questions.collect() }
    }
}

fn is_start(frame: &Frame) -> bool {
    matches!(frame.event().payload, Payload::SessionStarted(_))
}

/// Makes a state change that goes just before this event and says that events are missing.
fn summary_before(event: &Event, state: &str, entropy: &mut dyn Entropy) -> Event {
    let envelope = Envelope { urgency: None, extensions: None, ..event.envelope.clone() };
    state_summary_event(envelope, state, entropy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Counter(u8);

    impl Entropy for Counter {
        fn fill(&mut self, bytes: &mut [u8]) {
            self.0 += 1;
            bytes.fill(self.0);
        }
    }

    fn frame(number: usize, session: &str, payload: serde_json::Value) -> Arc<Frame> {
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "event_id": format!("evt_{number}"),
            "session_id": session, "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"}});
        event.as_object_mut().unwrap().extend(payload.as_object().unwrap().clone());
        Arc::new(Frame::new(serde_json::from_value(event).unwrap()))
    }

    fn state(number: usize, session: &str) -> Arc<Frame> {
        let payload = json!({"type": "aaep:agent.state.changed", "from_state": "one", "to_state": "two"});
        frame(number, session, payload)
    }

    fn ids(frames: &[Arc<Frame>]) -> Vec<&str> {
        frames.iter().map(|f| f.event().envelope.event_id.as_str()).collect()
    }

    #[test]
    fn a_replay_starts_after_the_last_event() {
        let mut history = History::default();
        (1..=5).for_each(|n| history.push(&state(n, "sess_1")));
        let replay = history.take_after(Some("evt_3"));
        assert_eq!((ids(&replay.frames), replay.gap), (vec!["evt_4", "evt_5"], false));
        // Events that are read again are kept again.
        replay.frames.iter().for_each(|f| history.push(f));
        assert_eq!(ids(&history.take_after(Some("evt_4")).frames), ["evt_5"]);
    }

    #[test]
    fn without_a_last_event_everything_is_replayed() {
        let mut history = History::default();
        (1..=3).for_each(|n| history.push(&state(n, "sess_1")));
        let replay = history.take_after(None);
        assert_eq!((ids(&replay.frames), replay.gap), (vec!["evt_1", "evt_2", "evt_3"], false));
    }

    #[test]
    fn an_event_that_was_never_sent_counts_as_missing_and_nothing_is_replayed() {
        for unknown in ["evt_99", "not an id", ""] {
            let mut history = History::default();
            let end = json!({"type": "aaep:agent.session.completed", "summary_normal": "Done."});
            let question = json!({"type": "aaep:agent.awaiting.clarification", "urgency": "critical", "reply_token": "rpl_1",
                "question": "Where to?", "accepted_response_kinds": ["freetext"], "timeout_seconds": 60,
                "default_response": "home"});
            history.push(&state(1, "sess_1"));
            history.push(&state(2, "sess_2"));
            history.push(&frame(3, "sess_1", end));
            history.push(&frame(4, "sess_2", question));
            let replay = history.take_after(Some(unknown));
            assert!(replay.gap, "{unknown}");
            let covered = replay.covered();
            assert_eq!(
                (covered.sessions.len(), covered.questions.len()),
                (2, 0),
                "the engine delivers open questions again"
            );
            let frames = replay.with_gap_summaries(&mut Counter(0));
            assert_eq!(frames.len(), 2);
            let Payload::StateChanged(summary) = &frames[0].event().payload else { panic!("no summary") };
            assert_eq!((summary.to_state.as_str(), frames[0].session().as_str()), ("two", "sess_2"));
            assert_eq!(ids(&frames[1..]), ["evt_3"], "the terminal event");
        }
    }

    #[test]
    fn dropped_events_make_a_gap_but_no_terminal_event_is_missed() {
        let mut history = History::default();
        let end = json!({"type": "aaep:agent.session.completed", "summary_normal": "Done."});
        history.push(&state(1, "sess_1"));
        history.push(&frame(2, "sess_1", end));
        (3..3 + MAX_EVENTS).for_each(|n| history.push(&state(n, "sess_2")));
        let replay = history.take_after(Some("evt_1"));
        assert!(replay.gap);
        let covered = replay.covered();
        assert_eq!((covered.sessions.len(), covered.questions.len()), (2, 0));
        let frames = replay.with_gap_summaries(&mut Counter(0));
        assert_eq!(frames.len(), 1 + 1 + MAX_EVENTS, "the terminal event, a summary, the events");
        assert_eq!(ids(&frames[..1]), ["evt_2"]);
        let Payload::StateChanged(summary) = &frames[1].event().payload else { panic!("no summary") };
        assert_eq!(summary.to_state, "one", "the state before the first replayed event");
        assert_eq!(ids(&frames[2..3]), ["evt_3"]);
        assert!(aaep_proto::validate(frames[1].json()).is_valid());
    }
}
