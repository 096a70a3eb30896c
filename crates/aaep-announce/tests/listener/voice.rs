//! A voice that speaks at a pace, with the priorities of a speech server, and writes down what was heard.

use std::collections::VecDeque;

use aaep_announce::{Priority, Utterance};

/// What became of an utterance.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// When it was over.
    pub(crate) at: u64,
    pub(crate) utterance: Utterance,
    /// Said from beginning to end.
    pub(crate) whole: bool,
}

pub(crate) struct Voice {
    pace_wpm: u64,
    /// The utterance that is being said, and when it will have been.
    current: Option<(u64, Utterance)>,
    waiting: VecDeque<Utterance>,
    pub(crate) heard: Vec<Heard>,
    /// Everything that was handed over, in order.
    pub(crate) given: Vec<Utterance>,
    /// How many words waited behind each critical headline that came before it.
    pub(crate) backlogs: Vec<u64>,
}

pub(crate) fn words(utterance: &Utterance) -> u64 {
    utterance.text.split_whitespace().count() as u64
}

impl Voice {
    pub(crate) fn new(pace_wpm: u64) -> Voice {
        let (waiting, heard, given, backlogs) = (VecDeque::new(), Vec::new(), Vec::new(), Vec::new());
        Voice { pace_wpm, current: None, waiting, heard, given, backlogs }
    }

    pub(crate) fn take(&mut self, now: u64, utterance: Utterance) {
        self.advance(now);
        self.given.push(utterance.clone());
        match utterance.priority {
            Priority::Notification if self.current.is_some() => return,
            Priority::Progress => self.waiting.retain(|u| u.priority != Priority::Progress),
            Priority::Important => {
                if utterance.interrupts
                    && let Some((_, cut)) = self.current.take()
                {
                    self.heard.push(Heard { at: now, utterance: cut, whole: false });
                }
                self.backlogs.push(self.waiting.iter().map(words).sum());
                self.waiting.push_front(utterance);
                return self.begin(now);
            }
            _ => {}
        }
        self.waiting.push_back(utterance);
        self.begin(now);
    }

    fn begin(&mut self, now: u64) {
        if self.current.is_none() {
            let next = self.waiting.pop_front();
            self.current = next.map(|u| (now + words(&u) * 60_000 / self.pace_wpm, u));
        }
    }

    /// Speaks until this time.
    pub(crate) fn advance(&mut self, now: u64) {
        while let Some((end, _)) = self.current.as_ref().filter(|(end, _)| *end <= now) {
            let end = *end;
            if let Some((_, utterance)) = self.current.take() {
                self.heard.push(Heard { at: end, utterance, whole: true });
            }
            self.begin(end);
        }
    }
}
