//! The close codes of the WebSocket binding. Other transports map them to their own means.

use std::fmt;

use crate::message::{CloseReason, ReasonCode};

/// Why a connection is closed, as a WebSocket close code.
///
/// ```
/// use aaep_proto::binding::CloseCode;
/// use aaep_proto::message::CloseReason;
/// assert_eq!(CloseCode::from(&CloseReason::TooSlow), CloseCode::Violation);
/// assert_eq!(CloseCode::Violation.as_u16(), 4004);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CloseCode {
    /// The subscription ended normally.
    Normal,
    /// The subscription was rejected.
    Rejected,
    /// Credentials are missing or not valid.
    Unauthenticated,
    /// The credentials do not permit it.
    Unauthorized,
    /// The peer violated the protocol or a limit.
    Violation,
    /// The subscriber closed the subscription.
    SubscriberClosed,
}

impl CloseCode {
    /// All codes, in the order of their numbers.
    pub const ALL: [CloseCode; 6] = [
        CloseCode::Normal,
        CloseCode::Rejected,
        CloseCode::Unauthenticated,
        CloseCode::Unauthorized,
        CloseCode::Violation,
        CloseCode::SubscriberClosed,
    ];

    /// Returns the number on the wire.
    pub const fn as_u16(self) -> u16 {
        match self {
            CloseCode::Normal => 4000,
            CloseCode::Rejected => 4001,
            CloseCode::Unauthenticated => 4002,
            CloseCode::Unauthorized => 4003,
            CloseCode::Violation => 4004,
            CloseCode::SubscriberClosed => 4005,
        }
    }

    /// Returns the code with this number, or `None` if the protocol does not define it.
    pub fn from_u16(number: u16) -> Option<CloseCode> {
        CloseCode::ALL.into_iter().find(|code| code.as_u16() == number)
    }

    /// Whether the connection ended as both sides intended.
    pub const fn is_clean(self) -> bool {
        matches!(self, CloseCode::Normal | CloseCode::SubscriberClosed)
    }
}

/// The code of a connection whose subscription ended for a reason.
impl From<&CloseReason> for CloseCode {
    fn from(reason: &CloseReason) -> CloseCode {
        match reason {
            CloseReason::SubscriberClosed
            | CloseReason::SubscriberShutdown
            | CloseReason::UserRequest
            | CloseReason::ManifestNotTrusted => CloseCode::SubscriberClosed,
            CloseReason::TooSlow | CloseReason::Violation => CloseCode::Violation,
            CloseReason::RenegotiationRefused => CloseCode::Rejected,
            CloseReason::AuthenticationRequired => CloseCode::Unauthenticated,
            CloseReason::ConnectionLost
            | CloseReason::AwayTooLong
            | CloseReason::ProducerEnded
            | CloseReason::ProducerShutdown
            | CloseReason::Other(_) => CloseCode::Normal,
        }
    }
}

/// The code of a connection whose request was rejected for a reason.
impl From<&ReasonCode> for CloseCode {
    fn from(reason: &ReasonCode) -> CloseCode {
        match reason {
            ReasonCode::AuthenticationRequired => CloseCode::Unauthenticated,
            ReasonCode::AuthorizationDenied => CloseCode::Unauthorized,
            _ => CloseCode::Rejected,
        }
    }
}

impl From<CloseCode> for u16 {
    fn from(code: CloseCode) -> u16 {
        code.as_u16()
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_u16())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_4000_to_4005_in_order() {
        let numbers: Vec<u16> = CloseCode::ALL.into_iter().map(CloseCode::as_u16).collect();
        assert_eq!(numbers, [4000, 4001, 4002, 4003, 4004, 4005]);
        for code in CloseCode::ALL {
            assert_eq!(CloseCode::from_u16(code.as_u16()), Some(code));
        }
        assert_eq!((CloseCode::from_u16(1000), CloseCode::from_u16(4006)), (None, None));
    }

    #[test]
    fn every_close_reason_has_its_code() {
        let expected = [
            ("subscriber_closed", 4005),
            ("subscriber_shutdown", 4005),
            ("user_request", 4005),
            ("renegotiation_refused", 4001),
            ("connection_lost", 4000),
            ("too_slow", 4004),
            ("away_too_long", 4000),
            ("producer_ended", 4000),
            ("producer_shutdown", 4000),
            ("violation", 4004),
            ("authentication_required", 4002),
            ("manifest_not_trusted", 4005),
        ];
        assert_eq!(expected.map(|(reason, _)| reason), CloseReason::WORDS);
        for (reason, code) in expected {
            assert_eq!(CloseCode::from(&CloseReason::from(reason)).as_u16(), code, "{reason}");
        }
        assert_eq!(CloseCode::from(&CloseReason::from("Bye bye")), CloseCode::Normal);
    }

    #[test]
    fn rejections_tell_missing_from_insufficient_credentials() {
        assert_eq!(CloseCode::from(&ReasonCode::AuthenticationRequired), CloseCode::Unauthenticated);
        assert_eq!(CloseCode::from(&ReasonCode::AuthorizationDenied), CloseCode::Unauthorized);
        assert_eq!(CloseCode::from(&ReasonCode::RateLimit), CloseCode::Rejected);
    }
}
