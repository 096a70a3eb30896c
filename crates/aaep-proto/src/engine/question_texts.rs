//! Texts that the engine itself emits about a question: how much time is left, and how it ended.

use super::questions::{Countdown, QuestionKind};
use crate::confirm::Resolution;
use crate::time::Moment;

/// Countdowns are emitted only for questions with a longer timeout: for shorter ones they would interrupt the user while
/// answering (6.4.3, decision 17).
const COUNTDOWN_ABOVE_SECS: u32 = 60;

/// Returns when the remaining time is emitted: when a half and when a tenth of it is left.
pub(super) fn countdowns(asked_at: Moment, timeout_seconds: u32) -> Vec<Countdown> {
    if timeout_seconds <= COUNTDOWN_ABOVE_SECS {
        return Vec::new();
    }
    [timeout_seconds / 2, timeout_seconds / 10]
        .map(|seconds_left| {
            let at = asked_at.plus_seconds(u64::from(timeout_seconds - seconds_left));
            Countdown { at, seconds_left }
        })
        .to_vec()
}

/// Returns the text for the remaining time.
pub(super) fn countdown_text(seconds_left: u32) -> String {
    format!("{seconds_left} seconds left to answer.")
}

/// Returns the text for how a question was resolved.
pub(super) fn resolution_summary(resolution: Resolution, accepted: bool, kind: QuestionKind) -> &'static str {
    let confirmation = kind == QuestionKind::Confirmation;
    match (resolution, confirmation, accepted) {
        (Resolution::Accepted, ..) => "Accepted. Going ahead.",
        (Resolution::Rejected, ..) => "Rejected. It will not be done.",
        (Resolution::Answered, ..) => "Answered. Going on.",
        (Resolution::TimedOut, true, true) => "No answer came in time. Going ahead, as announced.",
        (Resolution::TimedOut, true, false) => "No answer came in time. It will not be done.",
        (Resolution::TimedOut, false, _) => "No answer came in time. Going on without it.",
        (Resolution::NobodyCouldAnswer, true, true) => "Nobody could answer. Going ahead, as announced.",
        (Resolution::NobodyCouldAnswer, true, false) => "Nobody could answer. It will not be done.",
        (Resolution::NobodyCouldAnswer, false, _) => "Nobody could answer. Going on without it.",
        (Resolution::SubscriberLeft, true, true) => "The one who could answer left. Going ahead, as announced.",
        (Resolution::SubscriberLeft, true, false) => "The one who could answer left. It will not be done.",
        (Resolution::SubscriberLeft, false, _) => "The one who could answer left. Going on without it.",
        (Resolution::Cancelled, ..) => "The question was withdrawn.",
        (Resolution::Superseded, ..) => "Another question takes its place.",
        (Resolution::NotRecorded, true, _) => "The answer cannot be recorded now. It will not be done.",
        (Resolution::NotRecorded, false, _) => "The answer cannot be recorded now. Going on without it.",
    }
}
