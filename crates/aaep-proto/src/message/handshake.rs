//! The handshake and the replies (chapters 5 and 6), and the manifest (5.10).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::field_types::*;
use super::{AAEP_VERSION, Capabilities, CloseReason, Context, Decision, Producer, ReasonCode, Verbosity};
use crate::id::{ReplyToken, SessionId, SubscriptionId};
use crate::json::Json;
use crate::language::LanguageTag;
use crate::record::{Decimal, FieldType, FromJson, Record, UnknownFields, record};
use crate::time::Timestamp;

const CAPABILITIES: FieldType = FieldType::Object(&Capabilities::SHAPE);
const PRODUCER_KIND: FieldType = FieldType::Object(&<Producer as Record>::SHAPE);

record! {
    /// A subscriber requests a subscription (5.2).
    SubscriptionRequest, &MESSAGE, UnknownFields::Denied, {
        /// The version of the protocol that the subscriber wants.
        aaep_version: String = VERSION,
        /// The stable name of the subscriber.
        subscriber_id: String = NAME_256,
        /// The name of the subscriber for people.
        subscriber_name: Option<String> = FieldType::Text { min: 0, max: 256 },
        /// The version of the subscriber.
        subscriber_version: Option<String> = FieldType::Text { min: 0, max: 64 },
        /// Where the manifest of the subscriber is.
        subscriber_manifest_uri: Option<String> = URI,
        /// An identifier for tracing, of any form.
        correlation_id: Option<String> = ANY_TEXT,
        /// The capabilities of the subscriber.
        capabilities: Capabilities = CAPABILITIES,
        /// Data of extensions by prefix.
        extensions: Option<Map<String, Value>> = FieldType::Extensions,
    }
}

impl SubscriptionRequest {
    /// Creates a request of this version of the protocol.
    ///
    /// ```
    /// use aaep_proto::message::{AAEP_VERSION, Capabilities, SubscriptionRequest};
    /// let request = SubscriptionRequest::new("reader-7", Capabilities::default());
    /// assert_eq!(request.aaep_version, AAEP_VERSION);
    /// ```
    pub fn new(subscriber_id: impl Into<String>, capabilities: Capabilities) -> SubscriptionRequest {
        SubscriptionRequest {
            aaep_version: AAEP_VERSION.to_owned(),
            subscriber_id: subscriber_id.into(),
            subscriber_name: None,
            subscriber_version: None,
            subscriber_manifest_uri: None,
            correlation_id: None,
            capabilities,
            extensions: None,
        }
    }
}

record! {
    /// The producer accepts a subscription on these terms (5.4).
    SubscriptionAccepted, &MESSAGE, UnknownFields::Denied, {
        /// The name of the subscription.
        subscription_id: SubscriptionId = SUBSCRIPTION_ID,
        /// The version of the protocol in use.
        aaep_version: String = VERSION,
        /// The agent that accepted the subscription.
        producer: Producer = PRODUCER_KIND,
        /// The capabilities that the producer honors; never more than requested.
        honored_capabilities: Capabilities = CAPABILITIES,
        /// Where the manifest of the producer is.
        manifest_uri: Option<String> = URI,
        /// The manifest of the producer, signed.
        signed_manifest: Option<String> = JWS,
        /// How the terms differ from the request, for people.
        negotiation_notes: Option<String> = NOTE_OR_EMPTY,
    }
}

record! {
    /// The producer rejects a request (5.5).
    SubscriptionRejected, &MESSAGE, UnknownFields::Denied, {
        /// Why, for programs.
        reason_code: ReasonCode = FieldType::OneOf(ReasonCode::WORDS),
        /// Why, for people.
        reason_message: String = NOTE,
        /// When to try again, in seconds from now.
        retry_after_seconds: Option<u32> = FieldType::Integer { min: 0, max: 86_400 },
        /// Where a manifest says what the producer can offer.
        alternative_manifest_uri: Option<String> = URI,
    }
}

record! {
    /// A subscriber changes its capabilities (5.7). What it does not name stays.
    SubscriptionRenegotiate, &MESSAGE, UnknownFields::Denied, {
        /// The subscription to change.
        subscription_id: SubscriptionId = SUBSCRIPTION_ID,
        /// The capabilities that change.
        capabilities: Capabilities = CAPABILITIES,
        /// An identifier for tracing, of any form.
        correlation_id: Option<String> = ANY_TEXT,
    }
}

record! {
    /// Either side ends a subscription (5.8).
    SubscriptionClose, &MESSAGE, UnknownFields::Denied, {
        /// The subscription to end.
        subscription_id: SubscriptionId = SUBSCRIPTION_ID,
        /// Why, for programs.
        reason_code: Option<CloseReason> = NAME_256,
        /// Why, for people.
        reason_message: Option<String> = NOTE_OR_EMPTY,
        /// An identifier for tracing, of any form.
        correlation_id: Option<String> = ANY_TEXT,
    }
}

record! {
    /// The user's decision (6.3).
    ConfirmationReply, &MESSAGE, UnknownFields::Denied, {
        /// The token of the question.
        reply_token: ReplyToken = REPLY_TOKEN,
        /// Accept or reject.
        decision: Decision = FieldType::OneOf(Decision::WORDS),
        /// The subscription that the reply comes from.
        subscription_id: SubscriptionId = SUBSCRIPTION_ID,
        /// When the user decided.
        timestamp: Timestamp = TIMESTAMP,
        /// The user or device that decided.
        decided_by: Option<String> = NAME_256,
        /// Why the user decided so.
        decision_rationale: Option<String> = NOTE,
        /// A different action to accept instead. A producer that does not support it takes it as a rejection.
        modified_action: Option<Map<String, Value>> = FieldType::AnyObject,
        /// An identifier for tracing, of any form.
        correlation_id: Option<String> = ANY_TEXT,
    }
}

/// The answer to a clarification (6.5.2).
///
/// ```
/// use aaep_proto::message::Response;
/// assert_eq!(serde_json::to_string(&Response::Number(67.0))?, "67");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// Free text, or the value of a choice.
    Text(String),
    /// Yes or no.
    Boolean(bool),
    /// A number.
    Number(f64),
}

impl FromJson for Response {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        match json {
            Json::String(text) => Some(Response::Text(text.clone().into_owned())),
            Json::Bool(b) => Some(Response::Boolean(*b)),
            Json::Number(n) => n.as_f64().map(Response::Number),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        Response::from_json(&json).ok_or_else(|| serde::de::Error::custom("must be text, a number, true or false"))
    }
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Response::Text(text) => serializer.serialize_str(text),
            Response::Boolean(b) => serializer.serialize_bool(*b),
            Response::Number(n) => Decimal(*n).serialize(serializer),
        }
    }
}

record! {
    /// The user's answer (6.5).
    ClarificationReply, &MESSAGE, UnknownFields::Denied, {
        /// The token of the question.
        reply_token: ReplyToken = REPLY_TOKEN,
        /// The answer.
        response: Response = FieldType::Response,
        /// The subscription that the reply comes from.
        subscription_id: SubscriptionId = SUBSCRIPTION_ID,
        /// When the user answered.
        timestamp: Timestamp = TIMESTAMP,
        /// The user or device that answered.
        decided_by: Option<String> = NAME_256,
        /// How certain the subscriber is that it recognized the answer, from 0 to 1.
        confidence: Option<Decimal> = FieldType::Number { min: 0.0, max: 1.0 },
        /// An identifier for tracing, of any form.
        correlation_id: Option<String> = ANY_TEXT,
    }
}

record! {
    /// A subscriber asks the agent of a session to stop. It is a message of the extension
    /// `urn:aaep:extension:cancellation:1`, not of the specification; see `docs/reference/cancellation.md`.
    CancellationRequest, &MESSAGE, UnknownFields::Denied, {
        /// The subscription that the request is sent on.
        subscription_id: SubscriptionId = SUBSCRIPTION_ID,
        /// The session to cancel.
        session_id: SessionId = SESSION_ID,
        /// When the user asked.
        timestamp: Timestamp = TIMESTAMP,
        /// Who asked.
        requested_by: Option<String> = NAME_256,
        /// Why, in the user's words.
        reason: Option<String> = NOTE,
        /// Trace identifier.
        correlation_id: Option<String> = ANY_TEXT,
    }
}

record! {
    /// The producer does not pass a `cancellation:request` on to the agent.
    CancellationRefused, &MESSAGE, UnknownFields::Denied, {
        /// The subscription that the request was sent on.
        subscription_id: SubscriptionId = SUBSCRIPTION_ID,
        /// The session that goes on, or has ended.
        session_id: SessionId = SESSION_ID,
        /// Why, for people.
        reason_message: String = NOTE,
        /// Trace identifier.
        correlation_id: Option<String> = ANY_TEXT,
    }
}

const SOME_NAMES: FieldType = FieldType::List { of: &SOME_TEXT, min: 1, max: usize::MAX, unique: true };
const NAMES: FieldType = FieldType::List { of: &SOME_TEXT, min: 0, max: usize::MAX, unique: true };

record! {
    /// What a producer offers, published for anyone to read (5.10).
    Manifest, &MANIFEST, UnknownFields::Allowed, {
        /// The vocabularies in use.
        context as "@context": Context = FieldType::Context,
        /// The stable name of the agent.
        agent_id: String = SOME_TEXT,
        /// The version of the agent.
        agent_version: Option<String> = ANY_TEXT,
        /// The name of the agent for people.
        agent_name: Option<String> = SPOKEN_NAME,
        /// The versions of the protocol that the agent supports.
        aaep_versions_supported: Vec<String> = FieldType::List { of: &VERSION, min: 1, max: usize::MAX, unique: true },
        /// The conformance levels that the agent implements.
        conformance_levels_supported: Vec<u32> =
            FieldType::List { of: &FieldType::OneOfIntegers(&[1, 2, 3]), min: 1, max: 3, unique: true },
        /// The transports that the agent serves.
        transports_supported: Vec<String> = SOME_NAMES,
        /// The languages of its texts.
        languages_supported: Option<Vec<LanguageTag>> = FieldType::List { of: &TAG, min: 0, max: usize::MAX, unique: true },
        /// Patterns of the event types that it emits.
        event_types_emitted: Option<Vec<String>> = NAMES,
        /// The vocabularies of extensions that it uses.
        extensions_supported: Option<Vec<String>> = FieldType::List { of: &URI, min: 0, max: usize::MAX, unique: true },
        /// The verbosity of its texts if none is requested.
        default_verbosity: Option<Verbosity> = FieldType::OneOf(Verbosity::WORDS),
        /// How many subscriptions it serves at once.
        max_concurrent_subscriptions: Option<u64> = COUNT,
        /// Whom to ask about accessibility.
        contact: Option<String> = ANY_TEXT,
    }
}
