//! Limits how much speech is passed to the voice ahead of time: a question must not wait behind minutes of it.

use std::collections::VecDeque;

use aaep_proto::time::Moment;

use crate::profile::Profile;
use crate::utterance::{Priority, Turn, Utterance};
use aaep_proto::pace::spoken_words;

/// The most utterances that wait. Above it, the oldest are released early.
const MAX_WAITING_UTTERANCES: usize = 256;

/// Releases utterances to a voice no faster than it can speak them: released utterances that were not spoken yet have at
/// most [`Profile::max_utterance_words`]. Utterances that are [`Turn::First`] are released at once.
///
/// Like the announcer it has no clock. It estimates by the user's pace; a voice that reports what it has spoken corrects
/// the estimate by [`Pacer::speech_finished`].
///
/// ```
/// use aaep_announce::{Pacer, Priority, Profile, Utterance};
/// use aaep_proto::time::Moment;
/// let profile = Profile { pace_wpm: 180, ..Profile::default() };
/// let long = Utterance::new("word ".repeat(50), "en", Priority::Message);
/// let mut pacer = Pacer::new(&profile);
/// assert_eq!(pacer.push(Moment::from_millis(0), vec![long.clone(), long.clone()]).len(), 1);
/// let due = pacer.next_deadline().expect("one waits");
/// assert_eq!(pacer.handle_timeout(due), [long]);
/// ```
#[derive(Clone, Debug)]
pub struct Pacer {
    words_per_minute: u64,
    longest: u64,
    waiting: VecDeque<Utterance>,
    /// When the voice will have spoken each released utterance, by estimate.
    ends: VecDeque<Moment>,
}

impl Pacer {
    /// Creates a pacer for this user.
    pub fn new(profile: &Profile) -> Pacer {
        let (words_per_minute, longest) = (profile.pace_wpm.into(), profile.max_utterance_words());
        Pacer { words_per_minute, longest, waiting: VecDeque::new(), ends: VecDeque::new() }
    }

    /// Replaces the profile.
    pub fn set_profile(&mut self, profile: &Profile) {
        (self.words_per_minute, self.longest) = (profile.pace_wpm.into(), profile.max_utterance_words());
    }

    /// Adds the utterances of one announcement and returns those that go to the voice now. A question drops what is out
    /// of date by then.
    pub fn push(&mut self, now: Moment, said: Vec<Utterance>) -> Vec<Utterance> {
        let mut out = Vec::new();
        for utterance in said {
            if utterance.turn == Turn::First {
                if utterance.interrupts {
                    self.drop_passing();
                }
                self.release(now, utterance, &mut out);
                continue;
            }
            if utterance.priority == Priority::Progress {
                self.waiting.retain(|u| u.priority != Priority::Progress || u.about != utterance.about);
            }
            self.waiting.push_back(utterance);
        }
        while self.waiting.len() > MAX_WAITING_UTTERANCES
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.release(now, oldest, &mut out);
        }
        out.extend(self.handle_timeout(now));
        out
    }

    /// Returns when [`Pacer::handle_timeout`] is due, or `None` if nothing waits.
    pub fn next_deadline(&self) -> Option<Moment> {
        let next = self.waiting.front()?;
        // The longest utterance waits until the voice is free; shorter ones follow while it speaks.
        let room = self.longest.saturating_sub(spoken_words(&next.text));
        let busy_until = self.ends.back().copied().unwrap_or_default();
        Some(Moment::from_micros(busy_until.micros().saturating_sub(self.micros(room))))
    }

    /// Returns the utterances that go to the voice because time has passed.
    pub fn handle_timeout(&mut self, now: Moment) -> Vec<Utterance> {
        let mut out = Vec::new();
        while self.next_deadline().is_some_and(|due| due <= now)
            && let Some(next) = self.waiting.pop_front()
        {
            self.release(now, next, &mut out);
        }
        out
    }

    /// Reports that the voice finished or skipped an utterance, and returns those that go to it now.
    pub fn speech_finished(&mut self, now: Moment) -> Vec<Utterance> {
        if let Some(end) = self.ends.pop_front() {
            self.shift(end, now);
        }
        self.handle_timeout(now)
    }

    /// Drops waiting utterances with this [`Utterance::about`].
    pub fn cancel(&mut self, about: &str) {
        self.waiting.retain(|utterance| utterance.about.as_deref() != Some(about));
    }

    /// Drops waiting utterances that are out of date.
    pub fn drop_passing(&mut self) {
        self.waiting.retain(|utterance| utterance.turn != Turn::Passing);
    }

    /// Returns whether utterances wait.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Drops all waiting utterances, because the user wants silence.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.ends.clear();
    }

    fn release(&mut self, now: Moment, utterance: Utterance, out: &mut Vec<Utterance>) {
        while self.ends.front().is_some_and(|end| *end <= now) {
            self.ends.pop_front();
        }
        let length = self.micros(spoken_words(&utterance.text));
        if utterance.turn == Turn::First {
            // All others follow; one that is cut off is spoken again.
            self.ends.iter_mut().for_each(|end| *end = end.plus_micros(length));
            self.ends.push_front(now.plus_micros(length));
        } else {
            let begin = self.ends.back().copied().unwrap_or(now);
            self.ends.push_back(begin.plus_micros(length));
        }
        out.push(utterance);
    }

    /// Moves the estimates: what was planned to begin at one moment begins at another.
    fn shift(&mut self, planned: Moment, now: Moment) {
        self.ends.iter_mut().for_each(|end| *end = now.plus_micros(end.since(planned)));
    }

    fn micros(&self, words: u64) -> u64 {
        (words * 60_000_000).checked_div(self.words_per_minute).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize, priority: Priority) -> Utterance {
        Utterance::new("word ".repeat(count), "en", priority)
    }

    fn first(utterance: Utterance) -> Utterance {
        Utterance { turn: Turn::First, ..utterance }
    }

    fn pacer() -> Pacer {
        Pacer::new(&Profile { pace_wpm: 180, ..Profile::default() })
    }

    #[test]
    fn released_speech_is_bounded_by_one_long_utterance() {
        let mut pacer = pacer();
        let all = vec![words(20, Priority::Message); 6];
        assert_eq!(pacer.push(Moment::from_millis(0), all).len(), 3, "sixty words take twenty seconds");
        assert_eq!(pacer.handle_timeout(Moment::from_millis(6000)).len(), 0);
        assert_eq!(pacer.handle_timeout(Moment::from_millis(7000)).len(), 1);
        assert_eq!(pacer.handle_timeout(Moment::from_millis(60_000)).len(), 2);
        assert_eq!(pacer.next_deadline(), None);
    }

    #[test]
    fn important_announcement_is_released_at_once_with_its_details() {
        let mut pacer = pacer();
        let now = Moment::from_millis(0);
        pacer.push(now, vec![words(50, Priority::Message); 3]);
        let passing = Utterance { turn: Turn::Passing, ..words(3, Priority::Message) };
        pacer.push(now, vec![passing]);
        assert_eq!(pacer.waiting.len(), 3);
        let headline = Utterance { interrupts: true, ..words(5, Priority::Important) };
        let question = vec![first(headline), first(words(50, Priority::Message))];
        assert_eq!(pacer.push(now, question).len(), 2);
        assert_eq!(pacer.push(now, vec![first(words(9, Priority::Message))]).len(), 1, "what the user asked for");
        assert_eq!(pacer.waiting.len(), 2, "what was out of date is dropped");
    }

    #[test]
    fn reported_speech_releases_the_next_utterance_early() {
        let mut pacer = pacer();
        let now = Moment::from_millis(1000);
        assert_eq!(pacer.push(now, vec![words(60, Priority::Message); 2]).len(), 1);
        assert_eq!(pacer.speech_finished(Moment::from_millis(5000)).len(), 1);
    }

    #[test]
    fn newer_progress_replaces_older_and_cancelled_subjects_are_dropped() {
        let mut pacer = pacer();
        let now = Moment::from_millis(0);
        pacer.push(now, vec![words(60, Priority::Message)]);
        for _ in 0..3 {
            pacer.push(now, vec![words(3, Priority::Progress)]);
        }
        let about = Utterance { about: Some("rpl_1".to_owned()), ..words(3, Priority::Message) };
        pacer.push(now, vec![about]);
        assert_eq!(pacer.waiting.len(), 2);
        pacer.cancel("rpl_1");
        assert_eq!(pacer.waiting.len(), 1);
        pacer.clear();
        assert_eq!(pacer.push(now, vec![words(60, Priority::Message)]).len(), 1);
    }

    #[test]
    fn without_a_pace_everything_is_released_at_once() {
        let mut pacer = Pacer::new(&Profile { pace_wpm: 0, ..Profile::default() });
        assert_eq!(pacer.push(Moment::from_millis(0), vec![words(60, Priority::Message); 9]).len(), 9);
    }
}
