//! Why a connection is closed, and how the peer is notified.

use aaep::transport::Rejection;
use aaep_proto::binding::CloseCode;
use aaep_proto::id::SubscriptionId;
use aaep_proto::message::{CloseReason, Message, ReasonCode, SubscriptionClose};

/// Detail for peers without valid credentials. The exact reason is only logged.
pub(crate) const UNAUTHENTICATED: &str = "Credentials are missing or not valid. Send a valid bearer token.";

/// Returns the rejection for a peer without valid credentials.
pub(crate) fn unauthenticated() -> Rejection {
    Rejection::new(ReasonCode::AuthenticationRequired, UNAUTHENTICATED)
}

/// How a peer violated the protocol or a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A message is larger than `limits.message_bytes`.
    MessageTooLarge,
    /// The peer goes on sending more messages than `limits.requests_per_second`.
    TooManyMessages,
    /// The peer goes on sending too many pings, pongs or empty messages.
    TooManyControlFrames,
    /// There is no memory for the message that the peer is sending.
    OutOfMemory,
    /// Another violation, as text.
    Other(&'static str),
}

impl Violation {
    /// Returns the reason for people and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Violation::MessageTooLarge => "the message is too large",
            Violation::TooManyMessages => "too many messages",
            Violation::TooManyControlFrames => "too many control frames",
            Violation::OutOfMemory => "out of memory for unfinished messages; try again later",
            Violation::Other(reason) => reason,
        }
    }
}

impl From<&'static str> for Violation {
    fn from(reason: &'static str) -> Violation {
        Violation::Other(reason)
    }
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// The close code of the WebSocket binding. Transports without close codes map it to their own means.
    pub code: CloseCode,
    /// Why the subscription ended, if the producer ended it.
    pub cause: Option<CloseReason>,
    /// What the peer did, if it violated the protocol or a limit.
    pub violation: Option<Violation>,
    /// A short reason for people and logs.
    pub reason: String,
}

impl Close {
    pub(crate) fn new(code: CloseCode, reason: impl Into<String>) -> Close {
        Close { code, cause: None, violation: None, reason: reason.into() }
    }

    /// The credentials are no longer accepted.
    pub(crate) fn lapsed() -> Close {
        let reason = "authentication_required: the credentials have expired or were revoked";
        Close::new(CloseCode::Unauthenticated, reason)
    }

    /// The subscriber does not read what is written to it.
    pub(crate) fn too_slow() -> Close {
        let close = Close::violation("too_slow: the subscriber takes nothing");
        Close { cause: Some(CloseReason::TooSlow), ..close }
    }

    pub(crate) fn violation(violation: impl Into<Violation>) -> Close {
        let violation = violation.into();
        Close { violation: Some(violation), ..Close::new(CloseCode::Violation, violation.as_str()) }
    }

    /// Returns the close for a rejected subscription request.
    pub(crate) fn rejected(rejection: &Rejection) -> Close {
        Close::new(CloseCode::from(&rejection.reason_code), rejection.message.clone())
    }

    /// Returns the close for a subscription that the producer ended.
    pub(crate) fn of(closing: &aaep::transport::CloseInfo) -> Close {
        let reason = format!("{}: {}", closing.reason, closing.message);
        Close { cause: Some(closing.reason.clone()), ..Close::new(CloseCode::from(&closing.reason), reason) }
    }
}

/// Decides whether a transport without close codes must send a final `subscription.close` that explains why the
/// connection ends.
#[derive(Debug, Default)]
pub(crate) struct CloseNotifier {
    subscription: Option<SubscriptionId>,
    /// Whether a `subscription.close` was sent already.
    sent: bool,
}

impl CloseNotifier {
    /// Records an outgoing message.
    pub(crate) fn note(&mut self, message: &Message) {
        match message {
            Message::SubscriptionAccepted(accepted) => self.subscription = Some(accepted.subscription_id.clone()),
            Message::SubscriptionClose(_) => self.sent = true,
            _ => {}
        }
    }

    /// Returns the final message for a connection that ends with this close, or `None` if none is due.
    pub(crate) fn final_message(&self, close: &Close) -> Option<Message> {
        let reason = match close.code {
            CloseCode::Violation => CloseReason::Violation,
            CloseCode::Unauthenticated => CloseReason::AuthenticationRequired,
            _ => return None,
        };
        if self.sent {
            return None;
        }
        Some(close_message(self.subscription.clone()?, reason, close))
    }
}

/// Returns the `subscription.close` message for a connection that ends.
pub(crate) fn close_message(subscription_id: SubscriptionId, reason: CloseReason, close: &Close) -> Message {
    SubscriptionClose {
        subscription_id,
        reason_code: Some(reason),
        reason_message: Some(close.reason.clone()),
        correlation_id: None,
    }
    .into()
}
