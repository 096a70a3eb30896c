//! Events: envelope, payload and additional fields.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::envelope::CORE_TYPES;
use super::payload::*;
use super::{Envelope, EventMeta, Urgency};
use crate::id::ReplyToken;
use crate::json::{Json, Object};
use crate::language::LanguageTag;
use crate::record::{DecodeError, ObjectSchema, Record};
use crate::time::Timestamp;
use crate::to_json::Fields;

macro_rules! core_events {
    ($( $(#[$doc:meta])* $name:ident = $wire:literal ),+ $(,)?) => {
        /// The twelve core types.
        ///
        /// ```
        /// use aaep_proto::message::CoreType;
        /// let short = CoreType::parse("aaep:agent.tool.invoked");
        /// let long = CoreType::parse("https://aaep-protocol.org/types/agent.tool.invoked");
        /// assert_eq!(short, Some(CoreType::ToolInvoked));
        /// assert_eq!(short, long);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum CoreType {
            $( $(#[$doc])* $name, )+
        }

        impl CoreType {
            /// All core types.
            pub const ALL: &'static [CoreType] = &[$(CoreType::$name),+];

            /// Returns the name in compact form: `aaep:agent.session.started`.
            pub fn as_str(self) -> &'static str {
                match self { $( CoreType::$name => concat!("aaep:", $wire), )+ }
            }

            /// Parses the compact or the full form.
            pub fn parse(text: &str) -> Option<CoreType> {
                let name = text.strip_prefix("aaep:").or_else(|| text.strip_prefix(CORE_TYPES))?;
                match name {
                    $( $wire => Some(CoreType::$name), )+
                    _ => None,
                }
            }

            /// Returns the schema of its payload.
            pub fn shape(self) -> &'static ObjectSchema {
                match self { $( CoreType::$name => {
                    static SHAPE: ObjectSchema = <$name as Record>::SHAPE;
                    &SHAPE
                } )+ }
            }
        }

        /// The payload of an event.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Payload {
            $( $(#[$doc])* $name($name), )+
            /// An event type of an extension. Its fields are kept in [`Event::extra`].
            Extension {
                /// The type as written.
                name: String,
            },
        }

        impl Payload {
            /// Returns the core type, or `None` for an extension.
            pub fn core_type(&self) -> Option<CoreType> {
                match self {
                    $( Payload::$name(_) => Some(CoreType::$name), )+
                    Payload::Extension { .. } => None,
                }
            }

            fn read(core: CoreType, object: &Object<'_>) -> Result<Payload, DecodeError> {
                match core {
                    $( CoreType::$name => $name::read(object).map(Payload::$name), )+
                }
            }

            fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $( Payload::$name(payload) => payload.write(map), )+
                    Payload::Extension { .. } => Ok(()),
                }
            }

            pub(crate) fn add_fields<'a>(&'a self, fields: &mut Fields<'a>) {
                match self {
                    $( Payload::$name(payload) => payload.add_fields(fields), )+
                    Payload::Extension { .. } => {}
                }
            }
        }

        $(
            impl From<$name> for Payload {
                fn from(payload: $name) -> Payload {
                    Payload::$name(payload)
                }
            }
        )+
    };
}

core_events! {
    /// `agent.session.started`
    SessionStarted = "agent.session.started",
    /// `agent.session.completed`
    SessionCompleted = "agent.session.completed",
    /// `agent.session.errored`
    SessionErrored = "agent.session.errored",
    /// `agent.session.cancelled`
    SessionCancelled = "agent.session.cancelled",
    /// `agent.state.changed`
    StateChanged = "agent.state.changed",
    /// `agent.progress.updated`
    ProgressUpdated = "agent.progress.updated",
    /// `agent.tool.invoked`
    ToolInvoked = "agent.tool.invoked",
    /// `agent.tool.completed`
    ToolCompleted = "agent.tool.completed",
    /// `agent.output.streaming`
    OutputStreaming = "agent.output.streaming",
    /// `agent.awaiting.confirmation`
    AwaitingConfirmation = "agent.awaiting.confirmation",
    /// `agent.awaiting.clarification`
    AwaitingClarification = "agent.awaiting.clarification",
    /// `agent.handoff.requested`
    HandoffRequested = "agent.handoff.requested",
}

impl CoreType {
    /// Whether such an event must be critical (chapter 4).
    pub fn must_be_critical(self) -> bool {
        matches!(
            self,
            CoreType::SessionErrored
                | CoreType::AwaitingConfirmation
                | CoreType::AwaitingClarification
                | CoreType::HandoffRequested
        )
    }

    /// Whether such an event ends its session.
    pub fn is_terminal(self) -> bool {
        matches!(self, CoreType::SessionCompleted | CoreType::SessionErrored | CoreType::SessionCancelled)
    }
}

/// What a confirmation and a clarification have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionFields<'a> {
    /// The token that a reply echoes.
    pub reply_token: &'a ReplyToken,
    /// How long the user has to reply.
    pub timeout_seconds: u32,
}

impl Payload {
    /// Returns what this payload asks, or `None` if it is not a question.
    pub fn question(&self) -> Option<QuestionFields<'_>> {
        match self {
            Payload::AwaitingConfirmation(AwaitingConfirmation { reply_token, timeout_seconds, .. })
            | Payload::AwaitingClarification(AwaitingClarification { reply_token, timeout_seconds, .. }) => {
                Some(QuestionFields { reply_token, timeout_seconds: *timeout_seconds })
            }
            _ => None,
        }
    }

    /// Changes the timeout of a question. Does nothing if this is not a question.
    pub fn set_question_timeout(&mut self, seconds: u32) {
        if let Payload::AwaitingConfirmation(AwaitingConfirmation { timeout_seconds, .. })
        | Payload::AwaitingClarification(AwaitingClarification { timeout_seconds, .. }) = self
        {
            *timeout_seconds = seconds;
        }
    }
}

impl fmt::Display for CoreType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One event.
///
/// Fields that neither the envelope nor the payload knows are kept in `extra`: language variants
/// of texts, the payload of extension events, and what a later version of the protocol may add.
///
/// ```
/// use aaep_proto::message::{CoreType, Event};
/// let text = r#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.session.started",
///     "event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:11.342Z",
///     "producer":{"agent_id":"planner"},"summary_normal":"Planning.","summary_normal_yo":"Ètò."}"#;
/// let event: Event = serde_json::from_str(text)?;
/// assert_eq!(event.core_type(), Some(CoreType::SessionStarted));
/// assert_eq!(event.text_in("summary_normal", &"yo".parse()?), Some("Ètò."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The fields that every event has.
    pub envelope: Envelope,
    /// The part that depends on the type.
    pub payload: Payload,
    /// All other fields.
    pub extra: Map<String, Value>,
}

impl Event {
    /// Returns the core type, or `None` for an extension.
    pub fn core_type(&self) -> Option<CoreType> {
        self.payload.core_type()
    }

    /// Returns the type as it is written.
    pub fn type_name(&self) -> &str {
        match &self.payload {
            Payload::Extension { name } => name,
            core => core.core_type().map_or("", CoreType::as_str),
        }
    }

    /// Returns the urgency, which is normal if none is given.
    pub fn urgency(&self) -> &Urgency {
        self.envelope.urgency.as_ref().unwrap_or(&Urgency::Normal)
    }

    /// Returns whether it must be announced at once: it is critical, or its type must be, even if the producer did
    /// not mark it.
    pub fn is_critical(&self) -> bool {
        *self.urgency() == Urgency::Critical || self.core_type().is_some_and(CoreType::must_be_critical)
    }

    /// Returns the reply token of the question that the event asks, or `None` if it asks none.
    pub fn reply_token(&self) -> Option<&ReplyToken> {
        self.payload.question().map(|question| question.reply_token)
    }

    /// Returns when the question that the event asks expires, or `None` if it asks none.
    pub fn question_expires(&self) -> Option<Timestamp> {
        let question = self.payload.question()?;
        Some(self.envelope.timestamp.plus_seconds(question.timeout_seconds.into()))
    }

    /// Returns the variant of a text field in exactly this language, if there is one.
    pub fn text_in(&self, field: &str, language: &LanguageTag) -> Option<&str> {
        self.extra.iter().find_map(|(name, value)| {
            let suffix = name.strip_prefix(field)?.strip_prefix('_')?;
            let tag = LanguageTag::from_field_suffix(suffix)?;
            if tag == *language { value.as_str() } else { None }
        })
    }

    /// Adds the variant of a text field in another language.
    pub fn set_text_in(&mut self, field: &str, language: &LanguageTag, text: impl Into<String>) {
        add_variant(&mut self.extra, field, language, text);
    }

    /// Decodes an event from a parsed document. Only the fields that the type requires must be present; the validator
    /// checks all rules.
    pub fn from_json(json: &Json<'_>) -> Result<Event, DecodeError> {
        let object = json.object().ok_or(DecodeError { field: "event" })?;
        let type_name = object.get("type").and_then(Json::text).ok_or(DecodeError { field: "type" })?;
        let envelope = Envelope::read(object)?;
        let core = CoreType::parse(type_name);
        let payload = match core {
            Some(core) => Payload::read(core, object)?,
            None => Payload::Extension { name: type_name.to_owned() },
        };
        let mut extra = Map::new();
        let (mut at, mut payload_at) = (0, 0);
        for (name, value) in object.iter() {
            let known = name == "type"
                || Envelope::SHAPE.find(name, &mut at).is_some()
                || core.is_some_and(|c| c.shape().find(name, &mut payload_at).is_some());
            if !known {
                extra.insert(name.to_owned(), value.to_value());
            }
        }
        Ok(Event { envelope, payload, extra })
    }
}

/// A payload, its texts in other languages (chapter 11), and envelope fields. Each subscription gets the language it
/// asked for; a language counts as offered when every text of the event has a variant in it.
///
/// ```
/// use aaep_proto::message::{Localized, SessionCompleted};
/// let done = SessionCompleted { summary_normal: "Your plan is ready.".into(), ..Default::default() };
/// let done = Localized::new(done).text("summary_normal", &"de".parse()?, "Dein Plan ist fertig.");
/// assert_eq!(done.variants["summary_normal_de"], "Dein Plan ist fertig.");
/// # Ok::<(), aaep_proto::language::ParseLanguageTagError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Localized<T> {
    /// The payload, in the session's language.
    pub payload: T,
    /// The variants, by field name and language suffix.
    pub variants: Map<String, Value>,
    /// Fields of the envelope that the agent sets.
    pub meta: EventMeta,
}

impl<T> Localized<T> {
    /// Creates a payload without variants.
    pub fn new(payload: T) -> Localized<T> {
        Localized { payload, variants: Map::new(), meta: EventMeta::default() }
    }

    /// Adds a text field in another language.
    pub fn text(mut self, field: &str, language: &LanguageTag, text: impl Into<String>) -> Localized<T> {
        add_variant(&mut self.variants, field, language, text);
        self
    }

    /// Converts the payload into a [`Payload`]; variants and envelope fields stay.
    pub fn into_payload(self) -> Localized<Payload>
    where
        T: Into<Payload>,
    {
        Localized { payload: self.payload.into(), variants: self.variants, meta: self.meta }
    }
}

impl<T> From<T> for Localized<T> {
    fn from(payload: T) -> Localized<T> {
        Localized::new(payload)
    }
}

/// Adds the variant of a text field in another language.
pub(crate) fn add_variant(map: &mut Map<String, Value>, field: &str, language: &LanguageTag, text: impl Into<String>) {
    map.insert(format!("{field}_{}", language.field_suffix()), Value::String(text.into()));
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let e = &self.envelope;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("@context", &e.context)?;
        if let Some(version) = &e.aaep_version {
            map.serialize_entry("aaep_version", version)?;
        }
        map.serialize_entry("type", self.type_name())?;
        map.serialize_entry("event_id", &e.event_id)?;
        map.serialize_entry("session_id", &e.session_id)?;
        if let Some(number) = e.sequence_number {
            map.serialize_entry("sequence_number", &number)?;
        }
        map.serialize_entry("timestamp", &e.timestamp)?;
        map.serialize_entry("producer", &e.producer)?;
        if let Some(verbosity) = &e.verbosity {
            map.serialize_entry("verbosity", verbosity)?;
        }
        if let Some(urgency) = &e.urgency {
            map.serialize_entry("urgency", urgency)?;
        }
        if let Some(hints) = &e.localization_hints {
            map.serialize_entry("localization_hints", hints)?;
        }
        if let Some(id) = &e.correlation_id {
            map.serialize_entry("correlation_id", id)?;
        }
        self.payload.write(&mut map)?;
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        if let Some(extensions) = &e.extensions {
            map.serialize_entry("extensions", extensions)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Event::from_json(&Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(core: &str, fields: &str) -> Event {
        let text = format!(
            r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.{core}","event_id":"evt_1",
            "session_id":"sess_1","timestamp":"2026-05-24T14:22:11Z","producer":{{"agent_id":"a"}},{fields}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn questions_have_a_token_and_an_end() {
        let fields = r#""question":"Which?","reply_token":"rpl_1","timeout_seconds":60"#;
        let mut asked = event("awaiting.clarification", fields);
        assert_eq!(asked.reply_token().map(ReplyToken::as_str), Some("rpl_1"));
        assert_eq!(asked.question_expires(), "2026-05-24T14:23:11Z".parse().ok());
        asked.payload.set_question_timeout(5);
        assert_eq!(asked.payload.question().map(|question| question.timeout_seconds), Some(5));
        let other = event("session.completed", r#""summary_normal":"Done.""#);
        assert_eq!((other.reply_token(), other.question_expires()), (None, None));
    }

    #[test]
    fn events_that_must_be_critical_are_so_without_the_mark() {
        assert!(event("handoff.requested", r#""reason":"Stuck.","target_kind":"human""#).is_critical());
        assert!(event("session.completed", r#""summary_normal":"Done.","urgency":"critical""#).is_critical());
        assert!(!event("session.completed", r#""summary_normal":"Done.""#).is_critical());
    }
}
