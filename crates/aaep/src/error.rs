//! The errors of the agent's API.

use std::fmt;

use aaep_proto::engine::EngineError;

/// Why an event was not emitted or a question not asked.
///
/// ```
/// use aaep::{Error, EngineError};
/// assert_eq!(Error::Gone.to_string(), "the producer has ended");
/// assert_eq!(Error::from(EngineError::UnknownSession), Error::Misuse(EngineError::UnknownSession));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The call breaks a rule of the protocol, or names something that does not exist. Nothing was sent and nothing has
    /// changed.
    Misuse(EngineError),
    /// The call could not be recorded in the journal, so it must not be made.
    NotRecorded,
    /// The producer has ended, or its runtime has.
    Gone,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Misuse(error) => error.fmt(f),
            Error::NotRecorded => f.write_str("the call could not be recorded in the journal and must not be made"),
            Error::Gone => f.write_str("the producer has ended"),
        }
    }
}

impl std::error::Error for Error {}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Error {
        Error::Misuse(error)
    }
}

/// Why a tool returned no result.
///
/// ```
/// use aaep::ToolError;
/// let error = ToolError::Failed("the account is closed");
/// assert_eq!(error.to_string(), "the account is closed");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolError<E> {
    /// The tool was not started: its `tool.invoked` could not be emitted, or its permit was for another call or has expired.
    Refused(Error),
    /// The tool failed.
    Failed(E),
    /// The tool took longer than its [timeout](crate::Tool::timeout).
    TimedOut,
}

impl<E: fmt::Display> fmt::Display for ToolError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::Refused(error) => error.fmt(f),
            ToolError::Failed(error) => error.fmt(f),
            ToolError::TimedOut => f.write_str("the tool timed out"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for ToolError<E> {}
