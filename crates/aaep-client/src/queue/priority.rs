//! Which events come first, and which are dropped first.

use aaep_proto::confirm::reported_outcome;
use aaep_proto::message::{CoreType, Event, Payload, Urgency, state};
use aaep_proto::subscriber::NoticeKind;

use super::SubscriberEvent;

/// Returns whether an event overtakes those that are not critical. It is never dropped. The outcome of a question is
/// such an event: after the next question it would be understood as the outcome of that one.
pub(super) fn is_critical(event: &SubscriberEvent) -> bool {
    match event {
        SubscriberEvent::Event(event) => event.is_critical() || reported_outcome(event).is_some(),
        SubscriberEvent::PromptOpened(..) | SubscriberEvent::PromptMoved(..) | SubscriberEvent::PromptEnded(..) => true,
        SubscriberEvent::Notice(notice) => matches!(
            notice.kind(),
            NoticeKind::KeyChanged
                | NoticeKind::UnfitManifest
                | NoticeKind::ReusedToken
                | NoticeKind::AnswerOvertaken
                | NoticeKind::LateQuestion
                | NoticeKind::TooManyPrompts
        ),
        _ => false,
    }
}

/// Returns whether an event states how a question was resolved, also one of a producer without the consent extension.
pub(super) fn is_outcome(event: &Event) -> bool {
    matches!(&event.payload, Payload::StateChanged(change) if change.from_state == state::AWAITING_INPUT)
}

/// Ranks events that are not critical. Those with the lowest rank are dropped first.
pub(super) fn keep_rank(event: &SubscriberEvent) -> u8 {
    match event {
        SubscriberEvent::Ended(_) => 9,
        SubscriberEvent::Accepted(_) => 8,
        SubscriberEvent::Event(event) => match &event.payload {
            payload if payload.core_type().is_some_and(CoreType::is_terminal) => 7,
            Payload::SessionStarted(_) => 6,
            _ if *event.urgency() == Urgency::Background => 0,
            Payload::ProgressUpdated(_) | Payload::StateChanged(_) => 0,
            Payload::OutputStreaming(_) => 3,
            _ => 2,
        },
        SubscriberEvent::Retrying(_) => 0,
        _ => 1,
    }
}
