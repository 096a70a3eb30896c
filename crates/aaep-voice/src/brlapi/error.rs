//! What can go wrong with a display.

use std::fmt;

/// Why there is no display, or why it did not do something.
///
/// ```
/// use aaep_voice::BrailleError;
/// assert_eq!(BrailleError::NoDisplay.to_string(), "BRLTTY runs but has no braille display");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrailleError {
    /// Nothing answers at this address.
    NotRunning(String),
    /// `BRLAPI_HOST` has a form that is not known.
    BadAddress(String),
    /// The server speaks another version of the protocol.
    Version(u32),
    /// The server wants a key, and this file does not have the right one or cannot be read.
    NotAllowed(String),
    /// The server has no display at the moment.
    NoDisplay,
    /// The server refused a request, with this number. The connection still works.
    Refused(u32),
    /// The server ended the connection, with this number.
    Exception(u32),
    /// The server sent something that is not BrlAPI.
    MalformedReply(&'static str),
    /// The server does not answer any more.
    Silent,
    /// The server closed the connection.
    Closed,
    /// Only possible in tty mode.
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

/// The protocol's errors in words.
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
