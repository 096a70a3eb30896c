//! What everyone is told about a question besides the question itself: how much time is left, and how it ended.

use crate::confirm::Verdict;
use crate::time::Moment;

/// Above this, the time that is left is told (6.4.3, decision 17).
const COUNTDOWN_ABOVE_SECONDS: u32 = 60;

/// When to say how many seconds are left: at a half and at a tenth.
pub(super) fn countdowns(asked_at: Moment, timeout_seconds: u32) -> Vec<(Moment, u32)> {
    if timeout_seconds <= COUNTDOWN_ABOVE_SECONDS {
        return Vec::new();
    }
    [timeout_seconds / 2, timeout_seconds / 10]
        .map(|left| (asked_at.plus_seconds(u64::from(timeout_seconds - left)), left))
        .to_vec()
}

/// The announcement of an outcome.
pub(super) fn notice(verdict: Verdict, accepted: bool, confirmation: bool) -> &'static str {
    match (verdict, confirmation, accepted) {
        (Verdict::Accepted, ..) => "Accepted. Going ahead.",
        (Verdict::Rejected, ..) => "Rejected. It will not be done.",
        (Verdict::Answered, ..) => "Answered. Going on.",
        (Verdict::TimedOut, true, true) => "No answer came in time. Going ahead, as announced.",
        (Verdict::TimedOut, true, false) => "No answer came in time. It will not be done.",
        (Verdict::TimedOut, false, _) => "No answer came in time. Going on without it.",
        (Verdict::NobodyCouldAnswer, true, true) => "Nobody could answer. Going ahead, as announced.",
        (Verdict::NobodyCouldAnswer, true, false) => "Nobody could answer. It will not be done.",
        (Verdict::NobodyCouldAnswer, false, _) => "Nobody could answer. Going on without it.",
        (Verdict::SubscriberLeft, true, true) => "The one who could answer left. Going ahead, as announced.",
        (Verdict::SubscriberLeft, true, false) => "The one who could answer left. It will not be done.",
        (Verdict::SubscriberLeft, false, _) => "The one who could answer left. Going on without it.",
        (Verdict::Cancelled, ..) => "The question was withdrawn.",
        (Verdict::Superseded, ..) => "Another question takes its place.",
        (Verdict::NotRecorded, true, _) => "The answer cannot be put on record now. It will not be done.",
        (Verdict::NotRecorded, false, _) => "The answer cannot be put on record now. Going on without it.",
    }
}
