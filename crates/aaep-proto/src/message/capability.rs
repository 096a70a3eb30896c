//! What a subscriber can take (5.3).

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

use super::field_types::*;
use super::{Boundary, CognitiveLoad, Verbosity};
use crate::json::{Json, Object};
use crate::language::LanguageTag;
use crate::limits;
use crate::negotiate::{CANCELLATION_PREFIX, CANCELLATION_URI, USERS_PREFIX};
use crate::record::{DecodeError, FieldType, FromJson, ObjectSchema, Record, UnknownFields, record};

const PATTERNS: FieldType = FieldType::List { of: &NAME_256, min: 0, max: limits::FILTER_PATTERNS, unique: true };

record! {
    /// Which event types a subscriber wants and which it does not.
    #[derive(Default)]
    EventFilters, &FILTERS, UnknownFields::Denied, {
        /// Patterns of types to send; all core events if absent.
        include: Option<Vec<String>> = PATTERNS,
        /// Patterns of types not to send. They win over `include`.
        exclude: Option<Vec<String>> = PATTERNS,
    }
}

record! {
    /// The twelve fields of a capability declaration.
    #[derive(Default)]
    CapabilityFields, &CAPABILITY, UnknownFields::Objects, {
        /// The most events per second; unlimited if absent.
        max_events_per_second: Option<u32> = FieldType::Integer { min: 1, max: 100_000 },
        /// How detailed texts should be; normal if absent.
        preferred_verbosity: Option<Verbosity> = FieldType::OneOf(Verbosity::WORDS),
        /// Languages in order of preference; `en-US` if absent.
        languages: Option<Vec<LanguageTag>> = FieldType::List { of: &TAG, min: 1, max: 32, unique: true },
        /// Whether confirmations can be answered; false if absent.
        supports_confirmation_reply: Option<bool> = FieldType::Boolean,
        /// Whether clarifications can be answered; false if absent.
        supports_clarification_reply: Option<bool> = FieldType::Boolean,
        /// Where output may be cut; sentence and completion if absent.
        coalesce_boundaries: Option<Vec<Boundary>> =
            FieldType::List { of: &FieldType::OneOf(Boundary::WORDS), min: 1, max: 5, unique: true },
        /// Which types of events are wanted.
        event_filters: Option<EventFilters> = FieldType::Object(&<EventFilters as Record>::SHAPE),
        /// The conformance levels that the subscriber implements; level 1 if absent.
        supported_conformance_levels: Option<Vec<u32>> =
            FieldType::List { of: &FieldType::OneOfIntegers(&[1, 2, 3]), min: 1, max: 3, unique: true },
        /// The vocabularies of extensions that the subscriber knows.
        supported_extensions: Option<Vec<String>> = FieldType::List { of: &URI, min: 0, max: 64, unique: true },
        /// How much information the user wants; medium if absent.
        cognitive_load: Option<CognitiveLoad> = FieldType::OneOf(CognitiveLoad::WORDS),
        /// How many words are announced per minute.
        pace_wpm: Option<u32> = FieldType::Integer { min: 50, max: 1000 },
        /// Whether an unsigned manifest is a reason not to subscribe; false if absent.
        accept_signed_manifests_only: Option<bool> = FieldType::Boolean,
    }
}

/// A capability declaration: the twelve fields and what extensions add.
///
/// ```
/// use aaep_proto::message::Capabilities;
/// let capabilities: Capabilities = serde_json::from_str(r#"{"max_events_per_second":3,"haptic":{"pulse":true}}"#)?;
/// assert_eq!(capabilities.fields.max_events_per_second, Some(3));
/// assert!(capabilities.extensions.contains_key("haptic"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capabilities {
    /// The fields of the specification.
    pub fields: CapabilityFields,
    /// Objects of extensions by prefix.
    pub extensions: BTreeMap<String, Map<String, Value>>,
}

impl Capabilities {
    /// Asks for the right to ask agents to stop. A producer grants it to subscribers that may answer questions.
    ///
    /// ```
    /// use aaep_proto::message::Capabilities;
    /// let capabilities = Capabilities::default().with_cancellation();
    /// assert!(capabilities.extensions.contains_key("cancellation"));
    /// ```
    pub fn with_cancellation(mut self) -> Capabilities {
        self.extensions.insert(CANCELLATION_PREFIX.to_owned(), Map::new());
        let extensions = self.fields.supported_extensions.get_or_insert_default();
        if !extensions.iter().any(|uri| uri == CANCELLATION_URI) {
            extensions.push(CANCELLATION_URI.to_owned());
        }
        self
    }

    /// Asks for a subscription for this user instead of the subscriber's own. The credentials must permit it.
    ///
    /// ```
    /// use aaep_proto::message::Capabilities;
    /// let capabilities = Capabilities::default().for_user("ada");
    /// assert_eq!(capabilities.extensions["users"]["user"], "ada");
    /// ```
    pub fn for_user(mut self, user: &str) -> Capabilities {
        self.extensions.insert(USERS_PREFIX.to_owned(), Map::from_iter([("user".to_owned(), user.into())]));
        self
    }

    /// The table, for the objects that hold capabilities.
    pub(crate) const SHAPE: ObjectSchema = ObjectSchema { name: "Capabilities", ..<CapabilityFields as Record>::SHAPE };

    /// About how many bytes its lists and the objects of extensions occupy.
    pub(crate) fn memory_bytes(&self) -> usize {
        let filters = self.fields.event_filters.iter().flat_map(|filters| [&filters.include, &filters.exclude]);
        let patterns = filters.flatten().flatten().map(|pattern| pattern.len() + ALLOCATION_BYTES);
        let languages = self.fields.languages.iter().flatten().map(|tag| tag.as_str().len() + ALLOCATION_BYTES);
        let uris = self.fields.supported_extensions.iter().flatten().map(|uri| uri.len() + ALLOCATION_BYTES);
        let objects = self.extensions.iter().map(|(prefix, object)| prefix.len() + memory_of_object(object));
        patterns.chain(languages).chain(uris).chain(objects).sum()
    }

    fn read(object: &Object<'_>) -> Result<Capabilities, DecodeError> {
        let mut extensions = BTreeMap::new();
        let mut at = 0;
        for (name, value) in object.iter() {
            if Self::SHAPE.find(name, &mut at).is_none() {
                let object = value.object().ok_or(DecodeError { field: "capabilities" })?;
                extensions.insert(name.to_owned(), object.to_map());
            }
        }
        Ok(Capabilities { fields: CapabilityFields::read(object)?, extensions })
    }
}

/// What a string occupies beside its text.
const ALLOCATION_BYTES: usize = 40;

fn memory_of_object(object: &Map<String, Value>) -> usize {
    object.iter().map(|(name, value)| name.len() + ALLOCATION_BYTES + memory_of_value(value)).sum()
}

/// The parser bounds the depth of what peers send.
fn memory_of_value(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_of_value).sum(),
        Value::Object(object) => memory_of_object(object),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    std::mem::size_of::<Value>() + inside
}

impl FromJson for Capabilities {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        Capabilities::read(json.object()?).ok()
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.fields.write(&mut map)?;
        for (prefix, object) in &self.extensions {
            map.serialize_entry(prefix, object)?;
        }
        map.end()
    }
}

impl<'de> serde::Deserialize<'de> for Capabilities {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let object = json.object().ok_or_else(|| serde::de::Error::custom("capabilities must be an object"))?;
        Capabilities::read(object).map_err(serde::de::Error::custom)
    }
}
