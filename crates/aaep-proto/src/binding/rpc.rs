//! The methods of the stdio binding, which is JSON-RPC 2.0 with one object per line.

use std::fmt;

use crate::message::Message;

/// A JSON-RPC method. Its `params` are the message of the protocol itself.
///
/// ```
/// use aaep_proto::binding::RpcMethod;
/// assert_eq!(RpcMethod::parse("aaep.event"), Some(RpcMethod::Event));
/// assert_eq!(RpcMethod::parse("aaep.sing"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RpcMethod {
    /// A request of the subscriber with a `subscription.request`.
    Subscribe,
    /// A request of the subscriber with a `subscription.renegotiate`.
    Renegotiate,
    /// A notification of the producer with an event.
    Event,
    /// A notification of the subscriber with a reply or a request for cancellation, or of the producer with the refusal of
    /// such a request.
    Reply,
    /// A notification of either side with a `subscription.close`.
    Close,
    /// A request of either side for a sign of life.
    Ping,
}

impl RpcMethod {
    /// All methods.
    pub const ALL: [RpcMethod; 6] = [
        RpcMethod::Subscribe,
        RpcMethod::Renegotiate,
        RpcMethod::Event,
        RpcMethod::Reply,
        RpcMethod::Close,
        RpcMethod::Ping,
    ];

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            RpcMethod::Subscribe => "aaep.subscribe",
            RpcMethod::Renegotiate => "aaep.renegotiate",
            RpcMethod::Event => "aaep.event",
            RpcMethod::Reply => "aaep.reply",
            RpcMethod::Close => "aaep.close",
            RpcMethod::Ping => "aaep.ping",
        }
    }

    /// Returns the method of this name, or `None` if there is none.
    pub fn parse(name: &str) -> Option<RpcMethod> {
        RpcMethod::ALL.into_iter().find(|method| method.as_str() == name)
    }

    /// Returns the method that carries a message, or `None` if the message is the result of a request.
    pub fn for_message(message: &Message) -> Option<RpcMethod> {
        match message {
            Message::Event(_) => Some(RpcMethod::Event),
            Message::SubscriptionRequest(_) => Some(RpcMethod::Subscribe),
            Message::SubscriptionRenegotiate(_) => Some(RpcMethod::Renegotiate),
            Message::SubscriptionClose(_) => Some(RpcMethod::Close),
            Message::ConfirmationReply(_)
            | Message::ClarificationReply(_)
            | Message::CancellationRequest(_)
            | Message::CancellationRefused(_) => Some(RpcMethod::Reply),
            _ => None,
        }
    }

    /// Whether a call of this method is a request, which is answered, and not a notification.
    pub const fn is_request(self) -> bool {
        matches!(self, RpcMethod::Subscribe | RpcMethod::Renegotiate | RpcMethod::Ping)
    }
}

impl fmt::Display for RpcMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_parsed_from_its_name() {
        for method in RpcMethod::ALL {
            assert_eq!(RpcMethod::parse(method.as_str()), Some(method));
        }
    }

    #[test]
    fn messages_are_carried_by_their_method() {
        let of = |json: &str| RpcMethod::for_message(&Message::parse(json.as_bytes()).unwrap());
        let close = r#"{"type":"subscription.close","subscription_id":"sub_1"}"#;
        assert_eq!(of(close), Some(RpcMethod::Close));
        let rejected = r#"{"type":"subscription.rejected","reason_code":"unknown","reason_message":"No."}"#;
        assert_eq!(of(rejected), None);
    }
}
