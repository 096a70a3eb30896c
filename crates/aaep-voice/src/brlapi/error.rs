//! Errors of braille displays.

use std::fmt;

/// Why a braille display is not available or refused a request.
///
/// ```
/// use aaep_voice::BrailleError;
/// assert_eq!(BrailleError::NoDisplay.to_string(), "BRLTTY runs but has no braille display");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrailleError {
    /// No server is running at this address.
    NotRunning(String),
    /// `BRLAPI_HOST` has an unknown form.
    BadAddress(String),
    /// The server uses this other version of the protocol.
    Version(u32),
    /// The server requires a key, and this file has another one or cannot be read.
    NotAllowed(String),
    /// No display is connected to the server.
    NoDisplay,
    /// The server refused a request with this error code. The connection still works.
    Refused(u32),
    /// The server ended the connection with this error code.
    Exception(u32),
    /// The server sent data that is not BrlAPI. The text says what.
    MalformedReply(&'static str),
    /// The server did not reply in time.
    Silent,
    /// The server closed the connection.
    Closed,
    /// The method needs tty mode: call [`Braille::enter_tty_mode`](super::Braille::enter_tty_mode) first.
    NotEntered,
}

impl fmt::Display for BrailleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrailleError::NotRunning(address) => {
                write!(f, "no BRLTTY answers at {address}; if it is not installed, install the package brltty")
            }
            BrailleError::BadAddress(address) => write!(f, "BRLAPI_HOST is not HOST:NUMBER: {address:?}"),
            BrailleError::Version(version) => write!(f, "BRLTTY speaks version {version} of BrlAPI, not 8"),
            BrailleError::NotAllowed(file) => {
                write!(f, "BRLTTY wants a key; {file} cannot be read or holds another; join the group that may read it")
            }
            BrailleError::NoDisplay => f.write_str("BRLTTY runs but has no braille display"),
            BrailleError::Refused(code) => write!(f, "BRLTTY refused: {}", meaning(*code)),
            BrailleError::Exception(code) => write!(f, "BRLTTY ended the connection: {}", meaning(*code)),
            BrailleError::MalformedReply(what) => write!(f, "BRLTTY sent something unreadable: {what}"),
            BrailleError::Silent => f.write_str("BRLTTY does not answer"),
            BrailleError::Closed => f.write_str("BRLTTY closed the connection"),
            BrailleError::NotEntered => f.write_str("the display was not taken yet"),
        }
    }
}

impl std::error::Error for BrailleError {}

/// Returns the meaning of an error code of the protocol.
fn meaning(code: u32) -> String {
    match code {
        1 => "it has no memory".into(),
        2 => "the terminal is in use".into(),
        3 => "the display is in use".into(),
        4 => "it does not know this request".into(),
        5 => "not possible now".into(),
        6 => "a wrong argument".into(),
        7 => "a malformed request".into(),
        10 => "not possible with this display".into(),
        12 => "no terminal is known".into(),
        15 => "not allowed".into(),
        code => format!("error {code}"),
    }
}
