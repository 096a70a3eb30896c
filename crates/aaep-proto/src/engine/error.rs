//! Errors of the engine's methods.

use std::fmt;

use crate::confirm::{PermitError, UnanswerableError, UnsafeDefaultError};
use crate::rule::Problem;

/// Why the engine refused a call of its user. Nothing was sent and nothing has changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EngineError {
    /// The session does not exist or has ended.
    UnknownSession,
    /// The subscription does not exist or has ended.
    UnknownSubscription,
    /// The output does not exist or is complete.
    UnknownOutput,
    /// The question does not exist or is resolved.
    UnknownQuestion,
    /// The event breaks rules by itself.
    Invalid(Vec<Problem>),
    /// The event breaks the order of its session.
    OutOfOrder(Vec<Problem>),
    /// Another method does this.
    WrongMethod {
        /// The name of that method.
        use_instead: &'static str,
    },
    /// A recorded event names a session or a question that is live.
    RecordedIdInUse,
    /// An irreversible tool needs a permit.
    NeedsPermit,
    /// The permit is for something else, was used before, or has expired.
    WrongPermit(PermitError),
    /// The question's default would let silence start something irreversible.
    UnsafeDefault(UnsafeDefaultError),
    /// The question has no valid answer.
    Unanswerable(UnanswerableError),
    /// There are too many of these at once: sessions, outputs or questions.
    TooMany(&'static str),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = |f: &mut fmt::Formatter<'_>, what: &str, list: &[Problem]| {
            let first = list.first().map_or("", |p| p.message.as_str());
            write!(f, "the event {what}: {first}")
        };
        match self {
            EngineError::UnknownSession => f.write_str("unknown session, or it has ended"),
            EngineError::UnknownSubscription => f.write_str("unknown subscription, or it has ended"),
            EngineError::UnknownOutput => f.write_str("unknown output, or it is complete"),
            EngineError::UnknownQuestion => f.write_str("unknown question, or it is resolved"),
            EngineError::Invalid(list) => problems(f, "is not valid", list),
            EngineError::OutOfOrder(list) => problems(f, "is out of order", list),
            EngineError::WrongMethod { use_instead } => write!(f, "use `{use_instead}` for this"),
            EngineError::RecordedIdInUse => {
                f.write_str("a recorded event names a live session or question; give recordings ids of their own")
            }
            EngineError::NeedsPermit => {
                f.write_str("an irreversible tool runs only with a permit; ask for confirmation first")
            }
            EngineError::WrongPermit(e) => e.fmt(f),
            EngineError::UnsafeDefault(e) => e.fmt(f),
            EngineError::Unanswerable(e) => e.fmt(f),
            EngineError::TooMany(what) => write!(f, "too many {what} at once"),
        }
    }
}

impl std::error::Error for EngineError {}
