//! Errors of this crate's public API.

use std::fmt;

use aaep_proto::subscriber::PromptReplyError;

use crate::address::ParseAddressError;

/// Why a subscriber could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is not valid.
    Address(ParseAddressError),
    /// The transport of the address is not compiled in. Holds the Cargo feature that enables it.
    TransportDisabled(&'static str),
    /// The transport does not exist on this operating system. Holds what to use instead.
    NotOnThisSystem(&'static str),
    /// The certificates cannot be used.
    Tls(String),
    /// The token contains characters that are not allowed in a header.
    InvalidToken,
    /// The host is another machine, and the connection to it would not be encrypted. Holds the host.
    Insecure(String),
    /// No command was given for `stdio:`.
    NoCommand,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Address(error) => error.fmt(f),
            ConnectError::TransportDisabled(feature) => write!(
                f,
                "this program was built without the transport of the address; enable the feature \"{feature}\" of aaep-client"
            ),
            ConnectError::NotOnThisSystem(instead) => {
                write!(f, "the transport of the address does not exist on this system; {instead}")
            }
            ConnectError::Tls(why) => write!(f, "the certificates cannot be used: {why}"),
            ConnectError::InvalidToken => f.write_str("the token contains characters that cannot be sent in a header"),
            ConnectError::Insecure(host) => {
                write!(
                    f,
                    "the connection to {host} would not be encrypted; use https or wss, or allow insecure connections"
                )
            }
            ConnectError::NoCommand => f.write_str("no command given; write it after stdio:"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<ParseAddressError> for ConnectError {
    fn from(error: ParseAddressError) -> ConnectError {
        ConnectError::Address(error)
    }
}

/// Why a reply was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The question does not accept this answer.
    Refused(PromptReplyError),
    /// The subscription is closed.
    Closed,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Refused(error) => error.fmt(f),
            ReplyError::Closed => f.write_str("The subscription is closed."),
        }
    }
}

impl std::error::Error for ReplyError {}
