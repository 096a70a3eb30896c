//! Errors of speech.

use std::fmt;

/// Why speech is not available.
///
/// ```
/// use aaep_voice::VoiceError;
/// assert!(VoiceError::NotInstalled.to_string().contains("install the packages speech-dispatcher and espeak-ng"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VoiceError {
    /// No server is running, and none is installed.
    NotInstalled,
    /// No server is running at this address, and none may be started.
    NotRunning(String),
    /// A server was started but does not accept connections. The text says why.
    NotStarted(String),
    /// `SPEECHD_ADDRESS` has an unknown form.
    BadAddress(String),
    /// The server sent data that is not SSIP. The text says what.
    MalformedReply(&'static str),
    /// The server did not reply in time.
    Silent,
    /// The server closed the connection.
    Closed,
    /// The server refused a setting that speech needs. The text is its reply.
    Refused(String),
}

impl fmt::Display for VoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VoiceError::NotInstalled => f.write_str(
                "no speech-dispatcher runs and none is installed; \
                 install the packages speech-dispatcher and espeak-ng",
            ),
            VoiceError::NotRunning(address) => write!(f, "no speech-dispatcher answers at {address}"),
            VoiceError::NotStarted(why) => write!(f, "speech-dispatcher was started but does not answer: {why}"),
            VoiceError::BadAddress(address) => {
                write!(f, "SPEECHD_ADDRESS is neither unix_socket:PATH nor inet_socket:HOST:PORT: {address:?}")
            }
            VoiceError::MalformedReply(what) => write!(f, "speech-dispatcher sent something unreadable: {what}"),
            VoiceError::Silent => f.write_str("speech-dispatcher does not answer"),
            VoiceError::Closed => f.write_str("speech-dispatcher closed the connection"),
            VoiceError::Refused(answer) => write!(f, "speech-dispatcher refused to serve: {answer}"),
        }
    }
}

impl std::error::Error for VoiceError {}

/// Why an utterance was not queued.
///
/// ```
/// use aaep_voice::SayError;
/// assert_eq!(SayError::Full.to_string(), "too much waits to be said");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SayError {
    /// The queue is full, and nothing in it has a lower priority.
    Full,
    /// The text has nothing that can be spoken.
    Empty,
    /// The text is longer than the limit of 64 KiB.
    TooLong,
    /// The task of the voice has ended, for example because its runtime was shut down.
    Gone,
}

impl fmt::Display for SayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SayError::Full => "too much waits to be said",
            SayError::Empty => "there is nothing to say",
            SayError::TooLong => "the text is too long to be said",
            SayError::Gone => "the voice has ended",
        })
    }
}

impl std::error::Error for SayError {}
