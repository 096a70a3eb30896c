//! Which question an answer is for: the one that the user had in mind, or none.
//!
//! An answer that goes to another question than the one that was heard can move money or delete files. So an answer
//! without a number counts only for the question that was put last, if it is still open, if no other waits, and if it
//! was not put so short a time before Enter that the user cannot have meant it. In every other case nothing is sent.

use std::collections::BTreeMap;

use aaep_proto::time::Moment;

/// A question that was put less than this before Enter was not heard yet.
const GRACE_MILLIS: u64 = 700;
/// The same for a question that came soon after the one in mind was taken away: the user may still answer that.
const DISPLACED_MILLIS: u64 = 3000;
/// How soon is soon.
const SOON_MILLIS: u64 = 10_000;

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes to this question.
    To(u32),
    /// No question waits.
    NothingWaits,
    /// The question in mind is over.
    Over(u32),
    /// There never was a question with this number.
    Unknown(u32),
    /// This question came only just: it has to be put again.
    TooNew(u32),
    /// This one waits, but it was not the one in mind: it has to be put first.
    PutFirst(u32),
    /// More than one waits: the user has to say which.
    Which,
}

/// The question that the user has in mind.
#[derive(Clone, Copy, Debug)]
struct Mind {
    number: u32,
    since: Moment,
    /// The user asked for it, so they know which one it is.
    chosen: bool,
    grace_millis: u64,
}

/// Follows what was put to the user and what is over.
#[derive(Debug, Default)]
pub(crate) struct AnswerRouter {
    /// Open questions, and since when each could be known.
    open: BTreeMap<u32, Moment>,
    highest: u32,
    mind: Option<Mind>,
    /// When the question in mind was taken away, if nobody asked for that.
    taken_away: Option<Moment>,
}

impl AnswerRouter {
    /// A question was announced.
    pub(crate) fn asked(&mut self, now: Moment, number: u32) {
        let displaced = self.taken_away.is_some_and(|at| now.since(at) < SOON_MILLIS * 1000);
        let grace_millis = if displaced { DISPLACED_MILLIS } else { GRACE_MILLIS };
        self.open.insert(number, now);
        self.highest = self.highest.max(number);
        self.mind = Some(Mind { number, since: now, chosen: false, grace_millis });
    }

    /// A question was put again because the user wanted it.
    pub(crate) fn put(&mut self, now: Moment, number: u32) {
        if self.open.contains_key(&number) {
            self.mind = Some(Mind { number, since: now, chosen: true, grace_millis: GRACE_MILLIS });
        }
    }

    /// The user's own answer to a question is on its way.
    pub(crate) fn answered(&mut self, number: u32) {
        self.open.remove(&number);
        if self.mind.is_some_and(|mind| mind.number == number) {
            self.mind = None;
        }
    }

    /// A question is over, and not by an answer from here.
    pub(crate) fn ended(&mut self, now: Moment, number: u32) {
        if self.open.remove(&number).is_some() && self.mind.is_some_and(|mind| mind.number == number) {
            self.taken_away = Some(now);
        }
    }

    /// Whether a question waits, and no answer to it is on its way.
    pub(crate) fn is_open(&self, number: u32) -> bool {
        self.open.contains_key(&number)
    }

    /// Since when a question could be known.
    pub(crate) fn since(&self, number: u32) -> Option<Moment> {
        self.open.get(&number).copied()
    }

    /// Where an answer goes that was entered at this moment.
    pub(crate) fn answer(&mut self, entered: Moment, named: Option<u32>) -> Verdict {
        match named {
            Some(number) => self.named(entered, number),
            None => self.meant(entered),
        }
    }

    fn named(&mut self, entered: Moment, number: u32) -> Verdict {
        match self.open.get(&number) {
            None if number == 0 || number > self.highest => Verdict::Unknown(number),
            None => Verdict::Over(number),
            // Its number was a guess.
            Some(since) if entered.since(*since) < GRACE_MILLIS * 1000 => {
                self.put(entered, number);
                Verdict::TooNew(number)
            }
            Some(_) => Verdict::To(number),
        }
    }

    fn meant(&mut self, entered: Moment) -> Verdict {
        let Some(mind) = self.mind else {
            let mut open = self.open.keys();
            return match (open.next(), open.next()) {
                (None, _) => Verdict::NothingWaits,
                (Some(only), None) => Verdict::PutFirst(*only),
                _ => Verdict::Which,
            };
        };
        if !self.open.contains_key(&mind.number) {
            self.mind = None;
            return Verdict::Over(mind.number);
        }
        if self.open.len() > 1 && !mind.chosen {
            return Verdict::Which;
        }
        if entered.since(mind.since) < mind.grace_millis * 1000 {
            self.put(entered, mind.number);
            return Verdict::TooNew(mind.number);
        }
        Verdict::To(mind.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn the_question_that_was_put_gets_the_answer() {
        let mut guard = AnswerRouter::default();
        assert_eq!(guard.answer(at(0), None), Verdict::NothingWaits);
        guard.asked(at(1000), 1);
        assert_eq!(guard.answer(at(5000), None), Verdict::To(1));
        guard.answered(1);
        assert_eq!(guard.answer(at(5001), None), Verdict::NothingWaits, "a second Enter answers nothing");
    }

    #[test]
    fn a_question_that_came_just_before_enter_is_put_again() {
        let mut guard = AnswerRouter::default();
        guard.asked(at(1000), 1);
        assert_eq!(guard.answer(at(1699), None), Verdict::TooNew(1));
        // Lines that were typed ahead do not count either.
        assert_eq!(guard.answer(at(1700), None), Verdict::TooNew(1));
        assert_eq!(guard.answer(at(2400), None), Verdict::To(1));
        // Enter was pressed before it came.
        guard.answered(1);
        guard.asked(at(9000), 2);
        assert_eq!(guard.answer(at(8000), None), Verdict::TooNew(2));
    }

    #[test]
    fn an_answer_to_what_is_over_goes_nowhere_even_if_another_waits() {
        let mut guard = AnswerRouter::default();
        guard.asked(at(0), 1);
        guard.put(at(10), 1);
        guard.asked(at(20), 2);
        guard.put(at(5000), 1);
        guard.ended(at(6000), 1);
        assert_eq!(guard.answer(at(9000), None), Verdict::Over(1));
        assert_eq!(guard.answer(at(9001), None), Verdict::PutFirst(2));
    }

    #[test]
    fn a_question_in_the_place_of_another_needs_a_longer_look() {
        let mut guard = AnswerRouter::default();
        guard.asked(at(0), 1);
        guard.ended(at(20_000), 1);
        guard.asked(at(20_001), 2);
        assert_eq!(guard.answer(at(22_500), None), Verdict::TooNew(2));
        assert_eq!(guard.answer(at(24_000), None), Verdict::To(2), "it was put again since");
        // Much later it is a question like others.
        guard.ended(at(30_000), 2);
        guard.asked(at(50_000), 3);
        assert_eq!(guard.answer(at(51_000), None), Verdict::To(3));
    }

    #[test]
    fn of_several_questions_one_has_to_be_chosen() {
        let mut guard = AnswerRouter::default();
        guard.asked(at(0), 1);
        guard.asked(at(1), 2);
        assert_eq!(guard.answer(at(9000), None), Verdict::Which);
        assert_eq!(guard.answer(at(9000), Some(1)), Verdict::To(1));
        guard.put(at(10_000), 2);
        assert_eq!(guard.answer(at(11_000), None), Verdict::To(2));
        guard.asked(at(12_000), 3);
        assert_eq!(guard.answer(at(19_000), None), Verdict::Which, "another came since");
    }

    #[test]
    fn numbers_name_what_is_open_and_could_be_known() {
        let mut guard = AnswerRouter::default();
        guard.asked(at(1000), 1);
        assert_eq!(guard.answer(at(1100), Some(1)), Verdict::TooNew(1));
        assert_eq!(guard.answer(at(3000), Some(1)), Verdict::To(1));
        assert_eq!(guard.answer(at(3000), Some(2)), Verdict::Unknown(2));
        assert_eq!(guard.answer(at(3000), Some(0)), Verdict::Unknown(0));
        guard.ended(at(4000), 1);
        assert_eq!(guard.answer(at(5000), Some(1)), Verdict::Over(1));
    }
}
