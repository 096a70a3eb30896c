//! What a resumable subscription was sent lately, so that it can go on after the last event it got (8.7).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use aaep_proto::engine::{MISSED_EVENTS, state_summary};
use aaep_proto::frame::Frame;
use aaep_proto::id::{Entropy, EventId, ReplyToken, SessionId};
use aaep_proto::message::{Event, LocalizationHints, Payload};

/// Events kept per subscription.
const EVENTS: usize = 256;

/// Bytes kept per subscription. Subscriptions with the same terms share them.
const BYTES: usize = 512 * 1024;

/// Endings kept beyond that: who missed a session's end would wait for it forever.
const ENDINGS: usize = 64;

/// The last events of one subscription.
#[derive(Debug, Default)]
pub(crate) struct History {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    /// Ends of sessions that are no longer among the frames.
    endings: VecDeque<Arc<Frame>>,
    /// Whether anything was let go.
    forgot: bool,
}

/// What a subscription gets again.
#[derive(Debug, Default)]
pub(crate) struct Rewound {
    /// The events, in order.
    pub(crate) frames: Vec<Arc<Frame>>,
    /// Whether events before these are missing.
    pub(crate) gap: bool,
    /// Whether the subscriber named an event that it was never sent: which of these it has cannot be known.
    unknown: bool,
}

impl History {
    /// Keeps an event that was handed to the reader.
    pub(crate) fn push(&mut self, frame: &Arc<Frame>) {
        self.bytes += frame.json().len();
        self.frames.push_back(frame.clone());
        while (self.frames.len() > EVENTS || self.bytes > BYTES) && self.frames.len() > 1 {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest events until those that are left have at most so many bytes.
    pub(crate) fn trim(&mut self, bytes: usize) {
        while self.bytes > bytes && self.forget_oldest() {}
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.frames.pop_front() else { return false };
        self.bytes -= oldest.json().len();
        self.forgot = true;
        if oldest.is_terminal() {
            self.endings.truncate(ENDINGS - 1);
            self.endings.push_front(oldest);
        }
        true
    }

    /// Everything after this event; without one, everything that there is. An event that is not known is missing,
    /// whether it aged out or was never sent.
    pub(crate) fn rewind(&mut self, last: Option<&str>) -> Rewound {
        let is_last = |f: &Arc<Frame>| Some(f.event().envelope.event_id.as_str()) == last;
        let found = last.and_then(|_| self.frames.iter().rposition(is_last));
        if let Some(at) = found {
            let frames: Vec<_> = self.frames.drain(at + 1..).collect();
            self.bytes -= frames.iter().map(|f| f.json().len()).sum::<usize>();
            return Rewound { frames, ..Rewound::default() };
        }
        self.bytes = 0;
        let endings = self.endings.drain(..).rev();
        let frames = endings.chain(self.frames.drain(..)).collect();
        let aged_out = std::mem::take(&mut self.forgot);
        let unknown = last.is_some() && !aged_out;
        Rewound { frames, gap: aged_out || unknown, unknown }
    }
}

impl Rewound {
    /// Puts a summary before the first event of every session whose earlier events are missing, unless that
    /// event tells of the beginning or the end by itself.
    pub(crate) fn sum_up(self, entropy: &mut dyn Entropy) -> Vec<Arc<Frame>> {
        if self.unknown {
            return self.condense(entropy);
        }
        let mut seen = BTreeSet::new();
        let mut frames = Vec::with_capacity(self.frames.len());
        for (at, frame) in self.frames.iter().enumerate() {
            if seen.insert(frame.session().clone()) && !frame.is_terminal() && !begins(frame) {
                let state = self.frames[at..].iter().filter(|f| f.session() == frame.session());
                let state = state.filter_map(|f| f.from_state()).next().unwrap_or("working");
                frames.push(Arc::new(Frame::new(summary(frame.event(), state, entropy))));
            }
            frames.push(frame.clone());
        }
        frames
    }

    /// Where every session stands after these events, then what must not be missed: endings and handoffs. Questions that
    /// are still open are asked again by the engine.
    fn condense(self, entropy: &mut dyn Entropy) -> Vec<Arc<Frame>> {
        let mut last: BTreeMap<&SessionId, &Arc<Frame>> = BTreeMap::new();
        let mut states: BTreeMap<&SessionId, &str> = BTreeMap::new();
        for frame in &self.frames {
            last.insert(frame.session(), frame);
            if let Payload::StateChanged(change) = &frame.event().payload {
                states.insert(frame.session(), &change.to_state);
            }
        }
        let open = last.iter().filter(|(_, frame)| !frame.is_terminal());
        let summaries = open.map(|(session, frame)| {
            let state = states.get(session).copied().unwrap_or("working");
            Arc::new(Frame::new(summary(frame.event(), state, entropy)))
        });
        let summaries: Vec<_> = summaries.collect();
        let is_handoff = |frame: &Frame| matches!(frame.event().payload, Payload::HandoffRequested(_));
        let kept = self.frames.iter().filter(|frame| frame.is_terminal() || is_handoff(frame)).cloned();
        summaries.into_iter().chain(kept).collect()
    }

    /// The sessions and the open questions that the subscriber gets events of.
    pub(crate) fn known(&self) -> (BTreeSet<SessionId>, BTreeSet<ReplyToken>) {
        let sessions = self.frames.iter().map(|f| f.session().clone()).collect();
        if self.unknown {
            return (sessions, BTreeSet::new());
        }
        let tokens = self.frames.iter().filter_map(|f| match &f.event().payload {
            Payload::AwaitingConfirmation(asked) => Some(asked.reply_token.clone()),
            Payload::AwaitingClarification(asked) => Some(asked.reply_token.clone()),
            _ => None,
        });
        (sessions, tokens.collect())
    }
}

fn begins(frame: &Frame) -> bool {
    matches!(frame.event().payload, Payload::SessionStarted(_))
}

/// A state change just before this event.
fn summary(before: &Event, state: &str, entropy: &mut dyn Entropy) -> Event {
    let mut envelope = before.envelope.clone();
    envelope.event_id = EventId::random(entropy);
    envelope.urgency = None;
    envelope.extensions = None;
    envelope.localization_hints = "en".parse().ok().map(LocalizationHints::in_language);
    Event { envelope, payload: state_summary(state, state, MISSED_EVENTS).into(), extra: serde_json::Map::new() }
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
    fn it_goes_on_after_the_last_event() {
        let mut history = History::default();
        (1..=5).for_each(|n| history.push(&state(n, "sess_1")));
        let rewound = history.rewind(Some("evt_3"));
        assert_eq!((ids(&rewound.frames), rewound.gap), (vec!["evt_4", "evt_5"], false));
        // What is handed out again is kept again.
        rewound.frames.iter().for_each(|f| history.push(f));
        assert_eq!(ids(&history.rewind(Some("evt_4")).frames), ["evt_5"]);
    }

    #[test]
    fn without_a_place_everything_comes_again() {
        let mut history = History::default();
        (1..=3).for_each(|n| history.push(&state(n, "sess_1")));
        let rewound = history.rewind(None);
        assert_eq!((ids(&rewound.frames), rewound.gap), (vec!["evt_1", "evt_2", "evt_3"], false));
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
            let rewound = history.rewind(Some(unknown));
            assert!(rewound.gap, "{unknown}");
            let (sessions, questions) = rewound.known();
            assert_eq!((sessions.len(), questions.len()), (2, 0), "open questions are asked again");
            let frames = rewound.sum_up(&mut Counter(0));
            assert_eq!(frames.len(), 2);
            let Payload::StateChanged(told) = &frames[0].event().payload else { panic!("no summary") };
            assert_eq!((told.to_state.as_str(), frames[0].session().as_str()), ("two", "sess_2"));
            assert_eq!(ids(&frames[1..]), ["evt_3"], "the ending");
        }
    }

    #[test]
    fn what_aged_out_is_told_as_a_gap_and_no_ending_is_missed() {
        let mut history = History::default();
        let end = json!({"type": "aaep:agent.session.completed", "summary_normal": "Done."});
        history.push(&state(1, "sess_1"));
        history.push(&frame(2, "sess_1", end));
        (3..3 + EVENTS).for_each(|n| history.push(&state(n, "sess_2")));
        let rewound = history.rewind(Some("evt_1"));
        assert!(rewound.gap);
        let (sessions, questions) = rewound.known();
        assert_eq!((sessions.len(), questions.len()), (2, 0));
        let frames = rewound.sum_up(&mut Counter(0));
        assert_eq!(frames.len(), 1 + 1 + EVENTS, "the ending, a summary, the events");
        assert_eq!(ids(&frames[..1]), ["evt_2"]);
        let Payload::StateChanged(told) = &frames[1].event().payload else { panic!("no summary") };
        assert_eq!(told.to_state, "one", "the state where the stream picks up");
        assert_eq!(ids(&frames[2..3]), ["evt_3"]);
        assert!(aaep_proto::validate(frames[1].json()).is_valid());
    }
}
