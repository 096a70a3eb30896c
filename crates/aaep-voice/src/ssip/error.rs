//! What can go wrong with a voice.

use std::fmt;

/// Why there is no voice.
///
/// ```
/// use aaep_voice::VoiceError;
/// assert!(VoiceError::NotInstalled.to_string().contains("install the packages speech-dispatcher and espeak-ng"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoiceError {
    /// No server answers, and there is none that could be started.
    NotInstalled,
    /// No server answers at this address, and none may be started.
    NotRunning(String),
    /// A server was started but does not answer. The text says what was seen.
    NotStarted(String),
    /// `SPEECHD_ADDRESS` has a form that is not known.
    BadAddress(String),
    /// The server answered with something that is not SSIP.
    MalformedReply(&'static str),
    /// The server does not answer any more.
    Silent,
    /// The server closed the connection.
    Closed,
    /// The server refused a setting that speaking needs. The text is its answer.
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

/// Why an utterance was not taken.
///
/// ```
/// use aaep_voice::SayError;
/// assert_eq!(SayError::Full.to_string(), "too much waits to be said");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SayError {
    /// As much waits as may, and nothing of it matters less.
    Full,
    /// There is nothing in it to say.
    Empty,
    /// It is longer than anybody would listen to.
    TooLong,
    /// The voice has ended, together with its runtime.
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
