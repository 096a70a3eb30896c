//! What can go wrong.

use std::fmt;

use aaep_proto::engine::EngineError;

/// Why something was not said.
///
/// ```
/// use aaep::{Error, EngineError};
/// assert_eq!(Error::Gone.to_string(), "the producer has ended");
/// assert_eq!(Error::from(EngineError::UnknownSession), Error::Misuse(EngineError::UnknownSession));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// It must not be said. Nothing was sent and nothing has changed.
    Misuse(EngineError),
    /// It could not be put on record, so it must not be done.
    NotRecorded,
    /// The producer's task has ended, together with its runtime.
    Gone,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Misuse(misuse) => misuse.fmt(f),
            Error::NotRecorded => f.write_str("this cannot be put on record now, so it must not be done"),
            Error::Gone => f.write_str("the producer has ended"),
        }
    }
}

impl std::error::Error for Error {}

impl From<EngineError> for Error {
    fn from(misuse: EngineError) -> Error {
        Error::Misuse(misuse)
    }
}

/// Why a tool gave no result.
///
/// ```
/// use aaep::ToolError;
/// let error = ToolError::Failed("the account is closed");
/// assert_eq!(error.to_string(), "the account is closed");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolError<E> {
    /// It was never started: it could not be announced, or the permit was for another call or has expired.
    Refused(Error),
    /// It failed by itself.
    Failed(E),
    /// It took longer than it was given.
    TimedOut,
}

impl<E: fmt::Display> fmt::Display for ToolError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::Refused(error) => error.fmt(f),
            ToolError::Failed(error) => error.fmt(f),
            ToolError::TimedOut => f.write_str("the tool took too long"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for ToolError<E> {}
