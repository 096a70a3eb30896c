//! A simple but slow reference model of pacing and coalescing, compared with the outbox under random input.
//!
//! The model keeps every frame, computes the budget and the order from the whole history each time, and coalesces only when
//! it sends. The outbox coalesces early and keeps running totals. The results must be equal.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Outbox, OutboxTerms, OutgoingFrame, ReleasedFrame};
use crate::frame::{Frame, FrameClass};
use crate::message::Boundary;
use crate::pace::spoken_words;
use crate::shaping::text::BoundarySet;
use crate::time::Moment;

/// One step.
#[derive(Clone, Debug)]
enum Step {
    Push(Kind),
    /// Advances the time by microseconds, with every deadline on the way.
    Pass(u64),
    Block(bool),
}

#[derive(Clone, Debug)]
enum Kind {
    Text(u8, &'static str),
    State(u8),
    Outcome(u8),
    Progress(u8),
    Tool,
    Critical,
}

/// A description of what is sent, to compare both sides.
type Said = (u64, String);

const WORDS: [&str; 5] = ["one ", "two words ", "three of them ", "日本語", "x"];

/// Makes frames with a counter in them; states form a chain.
struct Maker {
    count: u64,
    state: u8,
    position: [u64; 2],
}

impl Maker {
    fn state_to(&mut self, to: u8) -> Value {
        let from = std::mem::replace(&mut self.state, to % 4);
        json!({"from_state": format!("s{from}"), "to_state": format!("s{}", self.state)})
    }

    fn frame(&mut self, kind: &Kind) -> Arc<Frame> {
        self.count += 1;
        let (name, urgency, payload) = match kind {
            Kind::Text(output, text) => {
                let output = usize::from(*output % 2);
                let position = self.position[output];
                self.position[output] += text.chars().count() as u64;
                (
                    "output.streaming",
                    "normal",
                    json!({"chunk": text, "position": position, "complete": false, "output_id": format!("out_{output}")}),
                )
            }
            Kind::State(to) => ("state.changed", "background", self.state_to(*to)),
            Kind::Outcome(to) => {
                let mut change = self.state_to(*to);
                change["extensions"] = json!({"consent": {"reply_token": "rpl_1", "outcome": "rejected"}});
                ("state.changed", "normal", change)
            }
            Kind::Progress(percent) => {
                ("progress.updated", "background", json!({"progress": {"percent": percent % 101}}))
            }
            Kind::Tool => ("tool.invoked", "normal", json!({"tool": "t", "summary_normal": "x"})),
            Kind::Critical => ("handoff.requested", "critical", json!({"reason": "x", "target_kind": "human"})),
        };
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{name}"),
            "event_id": format!("evt_{}", self.count), "session_id": "sess_1", "timestamp": "2026-05-24T14:00:00.000Z",
            "producer": {"agent_id": "a"}, "urgency": urgency});
        event.as_object_mut().unwrap().extend(payload.as_object().unwrap().clone());
        Arc::new(Frame::new(serde_json::from_value(event).unwrap()))
    }
}

fn text_said(position: u64, text: &str) -> String {
    format!("text {position} {text:?}")
}

fn said(release: &ReleasedFrame) -> String {
    let state = |f: &Frame, from: &str| format!("state {from}>{}", f.to_state().unwrap());
    match &release.content {
        OutgoingFrame::Coalesced(run) => text_said(run.position, &run.text),
        OutgoingFrame::State(frame, from) => state(frame, from),
        OutgoingFrame::Frame(frame) => match frame.class() {
            FrameClass::Text => text_said(frame.position().unwrap(), frame.chunk()),
            FrameClass::State | FrameClass::Outcome => state(frame, frame.from_state().unwrap()),
            _ => frame.event().envelope.event_id.to_string(),
        },
    }
}

/// A frame that waits.
struct Waiting {
    arrival: u64,
    /// How many events had been released when it arrived.
    released: u64,
    frame: Arc<Frame>,
}

/// The key of events that coalesce: the kind, and the output of text.
type Group = (u8, u64);

/// Returns the group of a frame. A frame that does not coalesce is alone in its group.
fn group_of(waiting: &Waiting) -> Group {
    match waiting.frame.class() {
        FrameClass::Text => (0, u64::from(waiting.frame.output().unwrap().as_str().ends_with('1'))),
        FrameClass::State => (1, 0),
        FrameClass::Progress => (2, 0),
        _ => (3, waiting.arrival),
    }
}

/// The model.
struct Model {
    rate: Option<u32>,
    pace: Option<u32>,
    now: u64,
    blocked: bool,
    /// All waiting frames, in the order of arrival.
    waiting: Vec<Waiting>,
    arrived: u64,
    released: u64,
    /// How many events had been released when each group started to wait.
    since: BTreeMap<Group, u64>,
    urgent: Vec<String>,
    /// When a token was taken.
    taken: Vec<u64>,
    /// When the last text has been spoken.
    free_at: u64,
    /// The last state that was sent, once a change was dropped.
    believed: Option<String>,
    said: Vec<Said>,
}

impl Model {
    /// Tokens in millionths, from the whole history.
    fn tokens(&self) -> i64 {
        let Some(rate) = self.rate.map(i64::from) else { return i64::MAX };
        let full = rate * 1_000_000;
        let (mut level, mut last) = (full, 0);
        let gain = |micros: u64| i64::try_from(micros).unwrap() * rate;
        for at in &self.taken {
            level = full.min(level + gain(at - last)) - 1_000_000;
            last = *at;
        }
        full.min(level + gain(self.now - last))
    }

    fn push(&mut self, frame: Arc<Frame>) {
        if frame.class() == FrameClass::Critical {
            // Outcomes come first. A state before an outcome was dropped when that came.
            while let Some(index) = self.waiting.iter().position(|w| w.frame.class() == FrameClass::Outcome) {
                let outcome = self.waiting.remove(index).frame;
                let word = self.state_word(&outcome, &outcome);
                if self.rate.is_some() {
                    self.taken.push(self.now);
                }
                self.believe(&outcome);
                self.say_now(word);
            }
            self.drop_states();
            self.waiting.retain(|w| w.frame.class() != FrameClass::Progress);
            let word = frame.event().envelope.event_id.to_string();
            self.say_now(word);
            return;
        }
        if frame.class() == FrameClass::Outcome {
            self.drop_states();
        }
        let waiting = Waiting { arrival: self.arrived, released: self.released, frame };
        self.arrived += 1;
        let group = group_of(&waiting);
        if !self.waiting.iter().any(|w| group_of(w) == group) {
            self.since.insert(group, self.released);
        }
        self.waiting.push(waiting);
        self.send_what_may_go();
    }

    /// Drops waiting states. The next one starts from the last that was sent.
    fn drop_states(&mut self) {
        if self.waiting.iter().any(|w| w.frame.class() == FrameClass::State) {
            let is_change = |w: &&Waiting| matches!(w.frame.class(), FrameClass::State | FrameClass::Outcome);
            let first = self.waiting.iter().find(is_change).unwrap();
            self.believed.get_or_insert(first.frame.from_state().unwrap().to_owned());
        }
        self.waiting.retain(|w| w.frame.class() != FrameClass::State);
    }

    fn state_word(&self, first: &Frame, last: &Frame) -> String {
        let from = self.believed.as_deref().or(first.from_state()).unwrap();
        format!("state {from}>{}", last.to_state().unwrap())
    }

    fn believe(&mut self, sent: &Frame) {
        if let (Some(believed), Some(to)) = (&mut self.believed, sent.to_state()) {
            *believed = to.to_owned();
        }
    }

    fn say_now(&mut self, word: String) {
        if self.blocked {
            self.urgent.push(word);
        } else {
            self.said.push((self.now, word));
        }
    }

    fn send_what_may_go(&mut self) {
        if self.blocked {
            return;
        }
        let now = self.now;
        self.said.extend(self.urgent.drain(..).map(|word| (now, word)));
        while let Some((used, word, words)) = self.next() {
            let is_text = words.is_some();
            if self.tokens() < 1_000_000 || (is_text && self.now < self.free_at) {
                return;
            }
            if self.leads_nowhere(&used) {
                used.into_iter().rev().for_each(|index| drop(self.waiting.remove(index)));
                continue;
            }
            if let Some(words) = words
                && let Some(pace) = self.pace
            {
                self.free_at = self.free_at.max(self.now) + words * 60_000_000 / u64::from(pace);
            }
            if self.rate.is_some() {
                self.taken.push(self.now);
            }
            let last = &self.waiting[*used.last().unwrap()];
            let (group, frame) = (group_of(last), last.frame.clone());
            self.believe(&frame);
            for index in used.into_iter().rev() {
                self.waiting.remove(index);
            }
            self.released += 1;
            // The rest of a group starts to wait now.
            self.since.insert(group, self.released);
            self.said.push((self.now, word));
        }
    }

    /// Returns whether these state changes lead back to the first state and have no text.
    fn leads_nowhere(&self, used: &[usize]) -> bool {
        let frame = |i: usize| &self.waiting[used[i]].frame;
        let last = frame(used.len() - 1);
        let from = self.believed.as_deref().or(frame(0).from_state());
        frame(0).from_state() != last.from_state() && last.to_state() == from
    }

    /// Returns the place of a group: that of its newest part when another event was first released before it.
    fn place(&self, group: &Group) -> u64 {
        let of_group = self.waiting.iter().filter(|w| group_of(w) == *group);
        of_group.filter(|w| w.released <= self.since[group]).map(|w| w.arrival).max().unwrap()
    }

    /// Returns the next event: the waiting frames that it contains, its description, and for text the number of words.
    fn next(&self) -> Option<(Vec<usize>, String, Option<u64>)> {
        let group = self.waiting.iter().map(group_of).min_by_key(|group| self.place(group))?;
        let mut used: Vec<usize> = (0..self.waiting.len()).filter(|i| group_of(&self.waiting[*i]) == group).collect();
        let first = self.waiting[used[0]].frame.clone();
        let last = self.waiting[*used.last().unwrap()].frame.clone();
        match first.class() {
            FrameClass::Text => {
                // With a pace, at most twenty seconds of speech are coalesced.
                let most = self.pace.map_or(u64::MAX, |pace| u64::from(pace) / 3);
                let (mut text, mut words, mut count) = (String::new(), 0, 0);
                for index in &used {
                    let chunk = self.waiting[*index].frame.chunk();
                    words += spoken_words(chunk);
                    if count > 0 && words > most {
                        break;
                    }
                    text.push_str(chunk);
                    count += 1;
                }
                used.truncate(count);
                let words = spoken_words(&text);
                Some((used, text_said(first.position().unwrap(), &text), Some(words)))
            }
            FrameClass::State | FrameClass::Outcome => Some((used, self.state_word(&first, &last), None)),
            _ => Some((used, last.event().envelope.event_id.to_string(), None)),
        }
    }
}

/// Runs the outbox.
fn real(rate: Option<u32>, pace: Option<u32>, steps: &[Step]) -> Vec<Said> {
    let flow = OutboxTerms { rate, pace_wpm: pace, boundaries: BoundarySet::at(&[Boundary::None]) };
    let mut outbox = Outbox::new(flow, Moment::default());
    let mut maker = Maker { count: 0, state: 0, position: [0, 0] };
    let (mut now, mut all) = (0u64, Vec::new());
    for step in steps {
        let mut out = |release: ReleasedFrame| all.push((now, said(&release)));
        match step {
            Step::Push(kind) => outbox.push(&maker.frame(kind), Moment::from_micros(now), &mut out),
            Step::Block(blocked) => {
                outbox.set_blocked(*blocked);
                outbox.pump(Moment::from_micros(now), &mut out);
            }
            Step::Pass(micros) => {
                let end = now + micros;
                while let Some(at) =
                    outbox.ready_at(Moment::from_micros(now)).map(Moment::micros).filter(|at| *at <= end)
                {
                    now = now.max(at);
                    outbox.pump(Moment::from_micros(now), &mut |release| all.push((now, said(&release))));
                }
                now = end;
            }
        }
    }
    all
}

/// Runs the model, in steps of a tenth of a millisecond.
fn plain(rate: Option<u32>, pace: Option<u32>, steps: &[Step]) -> Vec<Said> {
    let mut model = Model {
        rate,
        pace,
        now: 0,
        blocked: false,
        waiting: Vec::new(),
        arrived: 0,
        released: 0,
        since: BTreeMap::new(),
        urgent: Vec::new(),
        taken: Vec::new(),
        free_at: 0,
        believed: None,
        said: Vec::new(),
    };
    let mut maker = Maker { count: 0, state: 0, position: [0, 0] };
    for step in steps {
        match step {
            Step::Push(kind) => model.push(maker.frame(kind)),
            Step::Block(blocked) => {
                model.blocked = *blocked;
                model.send_what_may_go();
            }
            Step::Pass(micros) => {
                let end = model.now + micros;
                while model.now < end {
                    model.now = end.min(model.now + 100);
                    if !model.waiting.is_empty() {
                        model.send_what_may_go();
                    }
                }
            }
        }
    }
    model.said
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        4 => (0u8..2, proptest::sample::select(WORDS.to_vec())).prop_map(|(o, w)| Kind::Text(o, w)),
        3 => (0u8..4).prop_map(Kind::State),
        2 => (0u8..4).prop_map(Kind::Outcome),
        2 => any::<u8>().prop_map(Kind::Progress),
        2 => Just(Kind::Tool),
        1 => Just(Kind::Critical),
    ];
    prop_oneof![
        6 => kind.prop_map(Step::Push),
        // Whole tenths of a millisecond, so that the steps of the model include these moments.
        3 => (0u64..6000).prop_map(|tenths| Step::Pass(tenths * 100)),
        1 => any::<bool>().prop_map(Step::Block),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_outbox_says_what_the_plain_model_says(
        // Rates and paces whose periods are whole tenths of a millisecond.
        rate in proptest::option::of(proptest::sample::select(vec![1u32, 2, 4, 5, 10, 20])),
        pace in proptest::option::of(proptest::sample::select(vec![60u32, 120, 300, 600])),
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        prop_assert_eq!(real(rate, pace, &steps), plain(rate, pace, &steps));
    }
}
