//! What everyone is told about a question besides the question itself: how much time is left, and how it ended.

use crate::confirm::Resolution;
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
pub(super) fn notice(resolution: Resolution, accepted: bool, confirmation: bool) -> &'static str {
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
        (Resolution::NotRecorded, true, _) => "The answer cannot be put on record now. It will not be done.",
        (Resolution::NotRecorded, false, _) => "The answer cannot be put on record now. Going on without it.",
    }
}
