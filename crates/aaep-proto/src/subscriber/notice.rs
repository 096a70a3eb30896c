//! Notices: what the user or the log should know besides events. Each kind has a budget of its own, so that a hostile
//! producer cannot hide one notice among others.

use std::fmt;

use crate::escape::without_escapes;
use crate::id::{EventId, ReplyToken, SessionId};
use crate::limits;
use crate::rule::Rule;
use crate::shaping::budget::RateBudget;
use crate::time::Moment;

macro_rules! notices {
    ($( $(#[$doc:meta])* $name:ident $(( $($field:ident : $ty:ty),+ ))? = $text:literal ),+ $(,)?) => {
        /// The kind of a notice.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum NoticeKind {
            $( $(#[$doc])* $name, )+
        }

        impl NoticeKind {
            /// All kinds.
            pub const ALL: &'static [NoticeKind] = &[$(NoticeKind::$name),+];
        }

        /// Something the user or the log should know about the connection or the producer. Its text is a plain sentence.
        ///
        /// ```
        /// use aaep_proto::subscriber::Notice;
        /// assert_eq!(Notice::Stalled(45).to_string(), "Nothing was heard from the agent for 45 seconds.");
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Notice {
            $( $(#[$doc])* $name $(( $($ty),+ ))?, )+
        }

        impl Notice {
            /// Returns its kind.
            pub fn kind(&self) -> NoticeKind {
                match self { $( notices!(@any $name $(( $($field),+ ))?) => NoticeKind::$name, )+ }
            }
        }

        impl fmt::Display for Notice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $( Notice::$name $(( $($field),+ ))? => write!(f, $text), )+ }
            }
        }
    };
    (@any $name:ident ( $($field:ident),+ )) => { Notice::$name(..) };
    (@any $name:ident) => { Notice::$name };
}

notices! {
    /// A message could not be read.
    Malformed(why: String) = "A message of the agent could not be read: {why}",
    /// A message breaks a rule but was used.
    Violation(rule: Rule, message: String) = "A message of the agent breaks the rule {rule}. {message}",
    /// A message that is not allowed at this point.
    Unexpected(what: &'static str) = "The agent sent a message that was not expected: {what}.",
    /// An event came before the terms were agreed, or before the signed manifest was checked.
    BeforeTerms = "An event came before the terms were agreed. It was left out.",
    /// Two events have the same id but different content.
    ReusedId(id: EventId) = "Two different events have the id {id}. Both are passed on.",
    /// Two questions have one token but do not ask the same.
    ReusedToken(token: ReplyToken) = "Another question was asked under the token {token}. It replaces the first.",
    /// An event arrived out of order, by its sequence number.
    OutOfOrder(session: SessionId) = "Events of {session} come in the wrong order.",
    /// The producer sends faster than agreed; events are held back.
    Flood(most: u32) = "The agent sends more than {most} events per second. Some are delayed, joined or left out.",
    /// The producer keeps to its rate again.
    FloodOver(folded: u64, dropped: u64) = "The agent keeps to its rate again. Joined: {folded}. Left out: {dropped}.",
    /// The producer marks too many events as critical.
    CriticalFlood(most: u32) = "The agent sends more than {most} critical events per second.",
    /// More questions are open than can be kept.
    TooManyPrompts(most: usize) = "More than {most} questions are open, or they are too long. The newest cannot be answered here.",
    /// A question arrived after its deadline, by the clock of this machine.
    LateQuestion(token: ReplyToken) = "The question {token} came after its deadline, by the clock of this machine. It cannot be answered here.",
    /// Another answer than the user's counted.
    AnswerOvertaken(token: ReplyToken, outcome: &'static str) = "Your answer to {token} did not count. What counted: {outcome}.",
    /// The terms are wider than what was asked for.
    UnfitTerms(fields: String) = "The agent grants what was not asked for: {fields}. It is not used.",
    /// The manifest contradicts other statements of the producer.
    UnfitManifest(why: String) = "The manifest of the agent does not fit: {why}",
    /// The producer signs with another key than before.
    KeyChanged(agent: String) = "Warning: {agent} signs with another key than before. It may be someone else.",
    /// The terms do not let this subscriber answer questions of this kind.
    CannotAnswer(kind: &'static str) = "Nobody can answer {kind} of the agent from here: the terms do not include it.",
    /// The producer did not ask the agent to stop.
    CancelRefused(why: String) = "The request to stop was refused: {why}",
    /// The producer refused a change of terms.
    RenegotiationRefused(why: String) = "The agent refused the change: {why}",
    /// The producer did not respond.
    NoResponse = "The agent did not respond to the request.",
    /// The producer refused for now.
    Rejected(why: String) = "The agent cannot serve now: {why}",
    /// The producer ended the subscription.
    ClosedByProducer(why: String) = "The agent ended the subscription: {why}",
    /// The connection was lost.
    Disconnected(why: String) = "The connection to the agent was lost: {why}",
    /// Nothing was received for this many seconds.
    Stalled(seconds: u64) = "Nothing was heard from the agent for {seconds} seconds.",
    /// A message was received after the connection was silent.
    Alive = "The agent is heard again.",
}

impl Notice {
    /// Returns a peer's text without control characters and escape sequences, clipped to
    /// [`limits::NOTICE_CHARACTERS`].
    pub(super) fn clip(text: &str) -> String {
        let start = text.char_indices().nth(4 * limits::NOTICE_CHARACTERS).map_or(text, |(end, _)| &text[..end]);
        let plain = without_escapes(start);
        plain.chars().filter(|c| !c.is_control()).take(limits::NOTICE_CHARACTERS).collect()
    }
}

/// Limits the rate of each kind of notice.
#[derive(Clone, Debug, Default)]
pub(super) struct NoticeLimiter {
    budgets: Vec<Option<RateBudget>>,
}

impl NoticeLimiter {
    /// Takes from the budget of the notice's kind and returns whether it may be delivered.
    pub(super) fn passes(&mut self, notice: &Notice, now: Moment) -> bool {
        self.budgets.resize(NoticeKind::ALL.len(), None);
        let slot = &mut self.budgets[notice.kind() as usize];
        slot.get_or_insert_with(|| RateBudget::new(Some(limits::NOTICES_PER_SECOND), now)).take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_notice_has_its_own_budget() {
        let mut limiter = NoticeLimiter::default();
        let now = Moment::default();
        let malformed = Notice::Malformed("x".into());
        assert_eq!((0..100).filter(|_| limiter.passes(&malformed, now)).count(), 2);
        assert!(limiter.passes(&Notice::KeyChanged("a".into()), now));
        assert!(limiter.passes(&malformed, Moment::from_millis(500)));
    }

    #[test]
    fn text_of_a_peer_is_clipped_and_has_no_control_characters() {
        assert_eq!(Notice::clip("a\u{1b}[2Jb\n"), "ab");
        assert_eq!(Notice::clip(&"ä".repeat(9999)).chars().count(), limits::NOTICE_CHARACTERS);
    }
}
