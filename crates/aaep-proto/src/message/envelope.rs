//! The envelope: what every event carries besides its payload (chapter 3).

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::field_types::*;
use super::{TextDirection, Urgency, Verbosity};
use crate::id::{EventId, SessionId};
use crate::json::Json;
use crate::language::LanguageTag;
use crate::record::{FieldType, FromJson, ObjectSchema, Record, UnknownFields, record};
use crate::rule::Rule;
use crate::time::Timestamp;
use crate::to_json::ToJson;

/// The core context. Every event names it first.
pub const CORE_CONTEXT: &str = "https://aaep-protocol.org/context/v1";

/// Full form of the core namespace: `aaep:X` and this followed by `X` are the same type.
pub const CORE_TYPES: &str = "https://aaep-protocol.org/types/";

/// The version of the protocol that this crate implements.
pub const AAEP_VERSION: &str = "1.0.0";

/// The vocabularies that an event uses: the core one, then those of its extensions.
///
/// ```
/// use aaep_proto::message::Context;
/// assert_eq!(serde_json::to_string(&Context::core())?, "\"https://aaep-protocol.org/context/v1\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    extensions: Vec<String>,
    /// Written as an array although nothing follows the core context.
    lone_array: bool,
}

impl Context {
    /// The core context alone.
    pub fn core() -> Context {
        Context::default()
    }

    /// The core context and the vocabularies of extensions.
    pub fn with_extensions(uris: impl IntoIterator<Item = String>) -> Context {
        Context { extensions: uris.into_iter().collect(), lone_array: false }
    }

    /// The vocabularies of extensions.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }
}

impl FromJson for Context {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        match json {
            Json::String(text) => (text == CORE_CONTEXT).then(Context::core),
            Json::Array(items) => {
                let (first, rest) = items.split_first()?;
                if first.text()? != CORE_CONTEXT {
                    return None;
                }
                let extensions = rest.iter().map(String::from_json).collect::<Option<Vec<_>>>()?;
                Some(Context { lone_array: extensions.is_empty(), extensions })
            }
            _ => None,
        }
    }
}

impl ToJson for Context {
    fn to_json(&self) -> Json<'_> {
        let core = Json::String(CORE_CONTEXT.into());
        if self.extensions.is_empty() && !self.lone_array {
            return core;
        }
        Json::Array(std::iter::once(core).chain(self.extensions.iter().map(ToJson::to_json)).collect())
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.extensions.is_empty() && !self.lone_array {
            return serializer.serialize_str(CORE_CONTEXT);
        }
        serializer.collect_seq(std::iter::once(CORE_CONTEXT).chain(self.extensions.iter().map(String::as_str)))
    }
}

record! {
    /// The agent that emits the events.
    ///
    /// ```
    /// use aaep_proto::message::Producer;
    /// let producer = Producer::new("retirement-planner").with_name("Retirement Planning Assistant");
    /// assert_eq!(producer.agent_id, "retirement-planner");
    /// ```
    #[derive(Default)]
    Producer, &PRODUCER, UnknownFields::Denied, {
        /// Stable name of the agent, without a version in it.
        agent_id: String = SOME_TEXT,
        /// Version of the agent.
        agent_version: Option<String> = ANY_TEXT,
        /// Name of the agent for people.
        agent_name: Option<String> = SPOKEN_NAME,
        /// The model behind the agent.
        model: Option<String> = ANY_TEXT,
        /// Where the manifest of the agent is.
        manifest_uri: Option<String> = URI,
    }
}

impl Producer {
    /// Creates a producer with only its stable name.
    pub fn new(agent_id: impl Into<String>) -> Producer {
        Producer { agent_id: agent_id.into(), ..Producer::default() }
    }

    /// Adds the version of the agent.
    pub fn with_version(mut self, version: impl Into<String>) -> Producer {
        self.agent_version = Some(version.into());
        self
    }

    /// Adds the name for people.
    pub fn with_name(mut self, name: impl Into<String>) -> Producer {
        self.agent_name = Some(name.into());
        self
    }
}

record! {
    /// What language the texts of an event are in (chapter 11).
    ///
    /// ```
    /// use aaep_proto::message::LocalizationHints;
    /// let hints = LocalizationHints::in_language("yo-NG".parse()?);
    /// assert_eq!(hints.primary_language.map(|t| t.to_string()).as_deref(), Some("yo-NG"));
    /// # Ok::<(), aaep_proto::language::ParseLanguageTagError>(())
    /// ```
    #[derive(Default)]
    LocalizationHints, &LOCALIZATION, UnknownFields::Denied, {
        /// The language of every text that has no variant.
        primary_language: Option<LanguageTag> = TAG,
        /// Which way the text runs.
        text_direction: Option<TextDirection> = FieldType::OneOf(TextDirection::WORDS),
        /// Languages that variants exist in.
        available_languages: Option<Vec<LanguageTag>> = FieldType::List { of: &TAG, min: 0, max: 32, unique: true },
        /// Languages to use, in order, if none of the requested ones is available.
        fallback_chain: Option<Vec<LanguageTag>> = FieldType::List { of: &TAG, min: 0, max: 16, unique: false },
        /// The script, as an ISO 15924 code.
        script: Option<String> = SCRIPT,
        /// The calendar that dates are in.
        calendar: Option<String> = ANY_TEXT,
    }
}

impl LocalizationHints {
    /// Creates hints for text in English, the language of the producer's own texts.
    pub fn english() -> LocalizationHints {
        LocalizationHints { primary_language: "en".parse().ok(), ..LocalizationHints::default() }
    }

    /// Creates hints for text in one language.
    pub fn in_language(primary: LanguageTag) -> LocalizationHints {
        LocalizationHints { primary_language: Some(primary), ..LocalizationHints::default() }
    }

    /// States that the text runs from right to left if it does by its script or language and no direction was given.
    pub(crate) fn infer_direction(&mut self) {
        if self.text_direction.is_some() {
            return;
        }
        let script = self.script.as_ref().and_then(|script| format!("und-{script}").parse::<LanguageTag>().ok());
        if script.as_ref().or(self.primary_language.as_ref()).is_some_and(LanguageTag::is_right_to_left) {
            self.text_direction = Some(TextDirection::Rtl);
        }
    }

    /// Describes text in this language instead: script and direction are no longer those of the primary language.
    pub(crate) fn set_language(&mut self, language: LanguageTag) {
        self.primary_language = Some(language);
        self.script = None;
        self.text_direction = None;
        self.infer_direction();
    }
}

record! {
    /// The fields that every event has, apart from its type and its payload.
    Envelope, &PAYLOAD, UnknownFields::Allowed, {
        /// The vocabularies in use.
        context as "@context": Context = FieldType::Context,
        /// The version of the protocol.
        aaep_version: Option<String> = VERSION,
        /// The name of this event, different for each.
        event_id: EventId = EVENT_ID,
        /// The session that the event belongs to.
        session_id: SessionId = SESSION_ID,
        /// The place of the event in its session, from 0, if events are numbered.
        sequence_number: Option<u64> = COUNT,
        /// When the event happened.
        timestamp: Timestamp = TIMESTAMP,
        /// The agent that emitted it.
        producer: Producer = FieldType::Object(&<Producer as crate::record::Record>::SHAPE),
        /// How detailed its texts are.
        verbosity: Option<Verbosity> = FieldType::OneOf(Verbosity::WORDS),
        /// How urgently the user should be informed.
        urgency: Option<Urgency> = FieldType::OneOf(Urgency::WORDS),
        /// What language its texts are in.
        localization_hints: Option<LocalizationHints> = FieldType::Object(&<LocalizationHints as crate::record::Record>::SHAPE),
        /// An identifier for tracing, of any form.
        correlation_id: Option<String> = ANY_TEXT,
        /// Data of extensions by prefix.
        extensions: Option<Map<String, Value>> = FieldType::Extensions,
    }
}

impl Envelope {
    /// Returns the schema of the envelope.
    pub fn shape() -> &'static ObjectSchema {
        static SHAPE: ObjectSchema = <Envelope as Record>::SHAPE;
        &SHAPE
    }
}

/// The rule that a bad value of this envelope field breaks.
pub(crate) fn rule_of(field: &str) -> Rule {
    match field {
        "@context" => Rule::Context,
        "aaep_version" => Rule::Version,
        "event_id" => Rule::EventId,
        "session_id" => Rule::SessionId,
        "sequence_number" => Rule::SequenceNumber,
        "timestamp" => Rule::Timestamp,
        "producer" => Rule::ProducerShape,
        "verbosity" => Rule::VerbosityWord,
        "urgency" => Rule::UrgencyWord,
        "localization_hints" => Rule::LocalizationShape,
        "correlation_id" => Rule::CorrelationId,
        _ => Rule::ExtensionShape,
    }
}
