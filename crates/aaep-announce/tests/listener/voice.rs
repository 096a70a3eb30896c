//! A simulated voice that speaks at a pace, with the priorities of a speech server, and records what was spoken.

use std::collections::VecDeque;

use aaep_announce::{Priority, Turn, Utterance};

/// An utterance that was spoken, or cut off.
#[derive(Clone, Debug)]
pub(crate) struct SpokenUtterance {
    /// When it ended.
    pub(crate) at: u64,
    pub(crate) utterance: Utterance,
    /// Whether it was spoken to its end.
    pub(crate) whole: bool,
}

pub(crate) struct SimulatedVoice {
    pace_wpm: u64,
    /// The current utterance, and when it ends.
    current: Option<(u64, Utterance)>,
    waiting: VecDeque<Utterance>,
    pub(crate) heard: Vec<SpokenUtterance>,
    /// All utterances that the voice received, in order.
    pub(crate) given: Vec<Utterance>,
    /// How many words of other speech waited when each question or failure came.
    pub(crate) backlogs: Vec<u64>,
}

pub(crate) fn words(utterance: &Utterance) -> u64 {
    utterance.text.split_whitespace().count() as u64
}

impl SimulatedVoice {
    pub(crate) fn new(pace_wpm: u64) -> SimulatedVoice {
        let (waiting, heard, given, backlogs) = (VecDeque::new(), Vec::new(), Vec::new(), Vec::new());
        SimulatedVoice { pace_wpm, current: None, waiting, heard, given, backlogs }
    }

    pub(crate) fn speak(&mut self, now: u64, utterance: Utterance) {
        self.advance(now);
        self.given.push(utterance.clone());
        match utterance.priority {
            Priority::Notification if self.current.is_some() => return,
            Priority::Progress => self.waiting.retain(|u| u.priority != Priority::Progress),
            _ => {}
        }
        if utterance.turn == Turn::First {
            self.speak_first(now, utterance);
        } else {
            self.waiting.push_back(utterance);
        }
        self.begin(now);
    }

    fn speak_first(&mut self, now: u64, utterance: Utterance) {
        if utterance.interrupts {
            self.waiting.retain(|waiting| waiting.turn != Turn::Passing);
            let others = self.waiting.iter().filter(|waiting| waiting.turn != Turn::First);
            self.backlogs.push(others.map(words).sum());
            if let Some((_, cut)) = self.current.take_if(|(_, current)| current.turn != Turn::First) {
                if cut.turn == Turn::Normal {
                    self.waiting.push_front(cut.clone());
                }
                self.heard.push(SpokenUtterance { at: now, utterance: cut, whole: false });
            }
        }
        let place = self.waiting.iter().position(|waiting| waiting.turn != Turn::First);
        self.waiting.insert(place.unwrap_or(self.waiting.len()), utterance);
    }

    fn begin(&mut self, now: u64) {
        if self.current.is_none() {
            let next = self.waiting.pop_front();
            self.current = next.map(|u| (now + words(&u) * 60_000 / self.pace_wpm, u));
        }
    }

    /// Speaks until this moment.
    pub(crate) fn advance(&mut self, now: u64) {
        while let Some((end, _)) = self.current.as_ref().filter(|(end, _)| *end <= now) {
            let end = *end;
            if let Some((_, utterance)) = self.current.take() {
                self.heard.push(SpokenUtterance { at: end, utterance, whole: true });
            }
            self.begin(end);
        }
    }
}
