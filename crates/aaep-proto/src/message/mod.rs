//! The messages of the protocol as types: events, handshake messages, replies and the manifest.

mod capability;
mod enums;
mod envelope;
mod event;
pub(crate) mod field_types;
mod handshake;
mod lenient;
mod meta;
mod payload;
pub mod state;

pub use capability::{Capabilities, CapabilityFields, EventFilters};
pub use enums::{
    Boundary, CancelledBy, CloseReason, CognitiveLoad, Decision, ErrorCategory, HandoffTarget, ReasonCode,
    ResponseKind, Reversibility, RiskLevel, TextDirection, ToolStatus, Urgency, Verbosity,
};
pub(crate) use envelope::rule_of as envelope_rule;
pub use envelope::{AAEP_VERSION, CORE_CONTEXT, CORE_TYPES, Context, Envelope, LocalizationHints, Producer};
pub(crate) use event::add_variant;
pub use event::{CoreType, Event, Localized, Payload, QuestionFields};
pub use handshake::{
    CancellationRefused, CancellationRequest, ClarificationReply, ConfirmationReply, Manifest, Response,
    SubscriptionAccepted, SubscriptionClose, SubscriptionRejected, SubscriptionRenegotiate, SubscriptionRequest,
};
pub use meta::EventMeta;
pub use payload::{
    AwaitingClarification, AwaitingConfirmation, Choice, HandoffRequested, OutputStreaming, Progress, ProgressUpdated,
    SessionCancelled, SessionCompleted, SessionErrored, SessionStarted, StateChanged, ToolCompleted, ToolInvoked,
};

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::SubscriptionId;
use crate::json::{Json, Object};
use crate::record::{DecodeError, ObjectSchema, Record, UnknownFields};

/// The type that a manifest carries. It looks like an event type but is none.
pub const MANIFEST_TYPE: &str = "aaep:producer.manifest";

macro_rules! messages {
    ($( $(#[$doc:meta])* $name:ident = $wire:expr ),+ $(,)?) => {
        /// The messages besides events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum MessageType {
            $( $(#[$doc])* $name, )+
        }

        impl MessageType {
            /// All of them.
            pub const ALL: &'static [MessageType] = &[$(MessageType::$name),+];

            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $( MessageType::$name => $wire, )+ }
            }

            /// Reads the name on the wire.
            pub fn parse(text: &str) -> Option<MessageType> {
                MessageType::ALL.iter().copied().find(|m| m.as_str() == text)
            }

            /// The table of its fields.
            pub fn shape(self) -> &'static ObjectSchema {
                match self { $( MessageType::$name => {
                    static SHAPE: ObjectSchema = <$name as Record>::SHAPE;
                    &SHAPE
                } )+ }
            }
        }

        /// Anything that travels: an event, a handshake message, a reply, a manifest.
        ///
        /// ```
        /// use aaep_proto::message::Message;
        /// let text = r#"{"type":"subscription.close","subscription_id":"sub_1","reason_code":"subscriber_shutdown"}"#;
        /// let message = Message::parse(text.as_bytes())?;
        /// assert!(matches!(message, Message::SubscriptionClose(_)));
        /// # Ok::<(), aaep_proto::message::MessageError>(())
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Message {
            /// An event.
            Event(Box<Event>),
            $( $(#[$doc])* $name(Box<$name>), )+
        }

        impl Message {
            fn read(kind: MessageType, object: &Object<'_>) -> Result<Message, DecodeError> {
                let mut at = 0;
                if kind.shape().unknown == UnknownFields::Denied
                    && object.iter().any(|(name, _)| name != "type" && kind.shape().find(name, &mut at).is_none())
                {
                    return Err(DecodeError { field: "an unknown field" });
                }
                match kind {
                    $( MessageType::$name => <$name as Record>::read(object).map(|m| Message::$name(Box::new(m))), )+
                }
            }
        }

        impl Serialize for Message {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Message::Event(event) => event.serialize(serializer),
                    $( Message::$name(message) => {
                        let mut map = serializer.serialize_map(None)?;
                        map.serialize_entry("type", $wire)?;
                        message.write(&mut map)?;
                        map.end()
                    } )+
                }
            }
        }

        $(
            impl From<$name> for Message {
                fn from(message: $name) -> Message {
                    Message::$name(Box::new(message))
                }
            }
        )+
    };
}

messages! {
    /// `subscription.request`
    SubscriptionRequest = "subscription.request",
    /// `subscription.accepted`
    SubscriptionAccepted = "subscription.accepted",
    /// `subscription.rejected`
    SubscriptionRejected = "subscription.rejected",
    /// `subscription.renegotiate`
    SubscriptionRenegotiate = "subscription.renegotiate",
    /// `subscription.close`
    SubscriptionClose = "subscription.close",
    /// `confirmation.reply`
    ConfirmationReply = "confirmation.reply",
    /// `clarification.reply`
    ClarificationReply = "clarification.reply",
    /// The manifest of a producer.
    Manifest = MANIFEST_TYPE,
    /// `cancellation:request`, of an extension
    CancellationRequest = "cancellation:request",
    /// `cancellation:refused`, of an extension
    CancellationRefused = "cancellation:refused",
}

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// They are not JSON.
    Syntax(crate::json::SyntaxError),
    /// They are JSON, but not a message.
    Malformed(DecodeError),
}

impl std::fmt::Display for MessageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MessageError::Syntax(e) => e.fmt(f),
            MessageError::Malformed(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for MessageError {}

impl Message {
    /// Returns the subscription that a message of a subscriber is about, or `None` if it is about none or is no such message.
    pub fn subscription_id(&self) -> Option<&SubscriptionId> {
        match self {
            Message::ConfirmationReply(reply) => Some(&reply.subscription_id),
            Message::ClarificationReply(reply) => Some(&reply.subscription_id),
            Message::SubscriptionRenegotiate(change) => Some(&change.subscription_id),
            Message::SubscriptionClose(close) => Some(&close.subscription_id),
            Message::CancellationRequest(request) => Some(&request.subscription_id),
            _ => None,
        }
    }

    /// Reads one message of a peer.
    pub fn parse(bytes: &[u8]) -> Result<Message, MessageError> {
        Message::from_json(&Json::parse_from_peer(bytes).map_err(MessageError::Syntax)?)
            .map_err(MessageError::Malformed)
    }

    /// Reads one message from a parsed document.
    pub fn from_json(json: &Json<'_>) -> Result<Message, DecodeError> {
        let object = json.object().ok_or(DecodeError { field: "message" })?;
        let name = object.get("type").and_then(Json::text).ok_or(DecodeError { field: "type" })?;
        match MessageType::parse(name) {
            Some(kind) => Message::read(kind, object),
            None => Event::from_json(json).map(|event| Message::Event(Box::new(event))),
        }
    }
}

impl From<Event> for Message {
    fn from(event: Event) -> Message {
        Message::Event(Box::new(event))
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Message::from_json(&Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
