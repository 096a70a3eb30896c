//! What a subscriber reports to its program.

use std::sync::Arc;

use bytes::Bytes;

use super::{EndReason, Gap, Notice, Prompt, PromptEnd, PromptId};
use crate::message::{Event, SubscriptionAccepted};
use crate::time::Moment;

/// What a subscriber reports to the program that listens, from the state machine to the user interface.
///
/// `At` is the type of points in time: [`Moment`] in the core, the instant of a runtime outside of it. See
/// [`SubscriberEvent::map_time`].
///
/// ```
/// use aaep_proto::subscriber::{EndReason, SubscriberEvent};
/// use aaep_proto::time::Moment;
/// let retrying = SubscriberEvent::Retrying(Moment::from_millis(1500));
/// assert_eq!(retrying.map_time(|at| at.micros()), SubscriberEvent::Retrying(1_500_000));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SubscriberEvent<At = Moment> {
    /// The producer accepted the subscription on these terms.
    Accepted(Box<SubscriptionAccepted>),
    /// An event of the agent.
    Event(Arc<Event>),
    /// A message as it was received. Emitted only by subscribers that record raw messages.
    Message(Bytes),
    /// A question waits for an answer of the user until this deadline. Its event was reported just before.
    PromptOpened(Box<Prompt>, At),
    /// The deadline of a question has changed.
    PromptMoved(PromptId, At),
    /// A question takes no answer any more.
    PromptEnded(PromptId, PromptEnd),
    /// Events are missing.
    Gap(Gap),
    /// This many of the less important events were dropped because the program was slow to receive them. Emitted by the
    /// queue in front of the program.
    Skipped(u64),
    /// A remark about the connection or about a faulty producer.
    Notice(Notice),
    /// The connection is lost; the next attempt is made at this time.
    Retrying(At),
    /// The subscription has ended. No event follows.
    Ended(EndReason),
}

impl<At> SubscriberEvent<At> {
    /// Converts the point in time of the event, if it has one.
    pub fn map_time<To>(self, convert: impl FnOnce(At) -> To) -> SubscriberEvent<To> {
        match self {
            SubscriberEvent::Accepted(accepted) => SubscriberEvent::Accepted(accepted),
            SubscriberEvent::Event(event) => SubscriberEvent::Event(event),
            SubscriberEvent::Message(bytes) => SubscriberEvent::Message(bytes),
            SubscriberEvent::PromptOpened(prompt, deadline) => SubscriberEvent::PromptOpened(prompt, convert(deadline)),
            SubscriberEvent::PromptMoved(id, deadline) => SubscriberEvent::PromptMoved(id, convert(deadline)),
            SubscriberEvent::PromptEnded(id, end) => SubscriberEvent::PromptEnded(id, end),
            SubscriberEvent::Gap(gap) => SubscriberEvent::Gap(gap),
            SubscriberEvent::Skipped(count) => SubscriberEvent::Skipped(count),
            SubscriberEvent::Notice(notice) => SubscriberEvent::Notice(notice),
            SubscriberEvent::Retrying(at) => SubscriberEvent::Retrying(convert(at)),
            SubscriberEvent::Ended(reason) => SubscriberEvent::Ended(reason),
        }
    }
}
