//! Decides which question an answer is for: the one that the user means, or none.
//!
//! An answer that goes to another question than the user heard can move money or delete files. So an answer without a
//! number counts only for the focused question, the one that was asked or repeated last: if it is still open, if no
//! other question waits, and if it was not asked so shortly before Enter that the user cannot have meant it. In every
//! other case nothing is sent.

use std::collections::BTreeMap;

use aaep_proto::time::Moment;

/// A question that was asked less than this before Enter was not heard yet.
const GRACE_MS: u64 = 700;
/// The grace for a question that displaced the focused one: the user may still answer that.
const DISPLACED_GRACE_MS: u64 = 3000;
/// How long after the focused question ended a new one counts as displacing it.
const DISPLACEMENT_WINDOW_MS: u64 = 10_000;

/// What to do with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Send it to this question.
    To(u32),
    /// No question is open.
    NoneOpen,
    /// The question has ended.
    Ended(u32),
    /// There never was a question with this number.
    Unknown(u32),
    /// The question was asked too recently: ask it again.
    TooRecent(u32),
    /// This question is open, but it was not the focused one: ask it first.
    AskAgain(u32),
    /// More than one question is open: the user has to name one.
    Ambiguous,
}

/// The question that an answer without a number is for.
#[derive(Clone, Copy, Debug)]
struct FocusedQuestion {
    number: u32,
    since: Moment,
    /// Whether the user asked for this question, and so knows which one it is.
    chosen: bool,
    grace_ms: u64,
}

/// Follows which questions are open and which one the user heard last.
#[derive(Debug, Default)]
pub(crate) struct AnswerRouter {
    /// Open questions, and when each was asked.
    open: BTreeMap<u32, Moment>,
    highest: u32,
    focused: Option<FocusedQuestion>,
    /// When the focused question ended without an answer from here.
    focus_lost: Option<Moment>,
}

impl AnswerRouter {
    /// Opens a question that was announced, and focuses it.
    pub(crate) fn asked(&mut self, now: Moment, number: u32) {
        let displaces = self.focus_lost.is_some_and(|at| now.since(at) < DISPLACEMENT_WINDOW_MS * 1000);
        let grace_ms = if displaces { DISPLACED_GRACE_MS } else { GRACE_MS };
        self.open.insert(number, now);
        self.highest = self.highest.max(number);
        self.focused = Some(FocusedQuestion { number, since: now, chosen: false, grace_ms });
    }

    /// Focuses an open question that was repeated because the user chose it.
    pub(crate) fn focus(&mut self, now: Moment, number: u32) {
        if self.open.contains_key(&number) {
            self.focused = Some(FocusedQuestion { number, since: now, chosen: true, grace_ms: GRACE_MS });
        }
    }

    /// Closes a question because an answer from here is on its way.
    pub(crate) fn answered(&mut self, number: u32) {
        self.open.remove(&number);
        if self.focused.is_some_and(|focused| focused.number == number) {
            self.focused = None;
        }
    }

    /// Closes a question that ended without an answer from here.
    pub(crate) fn ended(&mut self, now: Moment, number: u32) {
        if self.open.remove(&number).is_some() && self.focused.is_some_and(|focused| focused.number == number) {
            self.focus_lost = Some(now);
        }
    }

    /// Returns whether a question is open, and no answer to it is on its way.
    pub(crate) fn is_open(&self, number: u32) -> bool {
        self.open.contains_key(&number)
    }

    /// Returns when an open question was asked.
    pub(crate) fn asked_at(&self, number: u32) -> Option<Moment> {
        self.open.get(&number).copied()
    }

    /// Decides about an answer that was entered at this moment, with the number that the user named.
    pub(crate) fn route(&mut self, entered: Moment, named: Option<u32>) -> Route {
        match named {
            Some(number) => self.route_named(entered, number),
            None => self.route_focused(entered),
        }
    }

    fn route_named(&mut self, entered: Moment, number: u32) -> Route {
        match self.open.get(&number) {
            None if number == 0 || number > self.highest => Route::Unknown(number),
            None => Route::Ended(number),
            // The user cannot have heard its number yet.
            Some(asked) if entered.since(*asked) < GRACE_MS * 1000 => {
                self.focus(entered, number);
                Route::TooRecent(number)
            }
            Some(_) => Route::To(number),
        }
    }

    fn route_focused(&mut self, entered: Moment) -> Route {
        let Some(focused) = self.focused else {
            let mut open = self.open.keys();
            return match (open.next(), open.next()) {
                (None, _) => Route::NoneOpen,
                (Some(only), None) => Route::AskAgain(*only),
                _ => Route::Ambiguous,
            };
        };
        if !self.open.contains_key(&focused.number) {
            self.focused = None;
            return Route::Ended(focused.number);
        }
        if self.open.len() > 1 && !focused.chosen {
            return Route::Ambiguous;
        }
        if entered.since(focused.since) < focused.grace_ms * 1000 {
            self.focus(entered, focused.number);
            return Route::TooRecent(focused.number);
        }
        Route::To(focused.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn answer_goes_to_the_focused_question_once() {
        let mut router = AnswerRouter::default();
        assert_eq!(router.route(at(0), None), Route::NoneOpen);
        router.asked(at(1000), 1);
        assert_eq!(router.route(at(5000), None), Route::To(1));
        router.answered(1);
        assert_eq!(router.route(at(5001), None), Route::NoneOpen, "a second Enter answers nothing");
    }

    #[test]
    fn question_asked_just_before_enter_is_asked_again() {
        let mut router = AnswerRouter::default();
        router.asked(at(1000), 1);
        assert_eq!(router.route(at(1699), None), Route::TooRecent(1));
        // Lines that were typed ahead do not count either.
        assert_eq!(router.route(at(1700), None), Route::TooRecent(1));
        assert_eq!(router.route(at(2400), None), Route::To(1));
        // Enter was pressed before the question came.
        router.answered(1);
        router.asked(at(9000), 2);
        assert_eq!(router.route(at(8000), None), Route::TooRecent(2));
    }

    #[test]
    fn answer_to_an_ended_question_is_not_sent_to_another() {
        let mut router = AnswerRouter::default();
        router.asked(at(0), 1);
        router.focus(at(10), 1);
        router.asked(at(20), 2);
        router.focus(at(5000), 1);
        router.ended(at(6000), 1);
        assert_eq!(router.route(at(9000), None), Route::Ended(1));
        assert_eq!(router.route(at(9001), None), Route::AskAgain(2));
    }

    #[test]
    fn displacing_question_has_a_longer_grace() {
        let mut router = AnswerRouter::default();
        router.asked(at(0), 1);
        router.ended(at(20_000), 1);
        router.asked(at(20_001), 2);
        assert_eq!(router.route(at(22_500), None), Route::TooRecent(2));
        assert_eq!(router.route(at(24_000), None), Route::To(2), "it was asked again since");
        // After the window a new question displaces nothing.
        router.ended(at(30_000), 2);
        router.asked(at(50_000), 3);
        assert_eq!(router.route(at(51_000), None), Route::To(3));
    }

    #[test]
    fn several_open_questions_are_ambiguous_until_one_is_chosen() {
        let mut router = AnswerRouter::default();
        router.asked(at(0), 1);
        router.asked(at(1), 2);
        assert_eq!(router.route(at(9000), None), Route::Ambiguous);
        assert_eq!(router.route(at(9000), Some(1)), Route::To(1));
        router.focus(at(10_000), 2);
        assert_eq!(router.route(at(11_000), None), Route::To(2));
        router.asked(at(12_000), 3);
        assert_eq!(router.route(at(19_000), None), Route::Ambiguous, "another came since");
    }

    #[test]
    fn named_question_must_be_open_and_not_too_recent() {
        let mut router = AnswerRouter::default();
        router.asked(at(1000), 1);
        assert_eq!(router.route(at(1100), Some(1)), Route::TooRecent(1));
        assert_eq!(router.route(at(3000), Some(1)), Route::To(1));
        assert_eq!(router.route(at(3000), Some(2)), Route::Unknown(2));
        assert_eq!(router.route(at(3000), Some(0)), Route::Unknown(0));
        router.ended(at(4000), 1);
        assert_eq!(router.route(at(5000), Some(1)), Route::Ended(1));
    }
}
