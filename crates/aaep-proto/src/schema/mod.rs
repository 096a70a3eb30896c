//! JSON Schemas (draft 2020-12), generated from the tables that the types and the validator use.
//!
//! Each schema is self-contained, without references to other files, so that any validator can load it.

mod reference;

pub use reference::reference;

use serde_json::{Map, Value, json};

use crate::language::SUFFIX_PATTERN;
use crate::message::{CORE_CONTEXT, CORE_TYPES, CoreType, Envelope, MessageType};
use crate::record::{Field, FieldType, ObjectSchema, Record, UnknownFields};

/// The prefix of the `$id` of every schema.
const BASE: &str = "urn:aaep:schema:1.0:";

/// A published schema: its name and its file under `schemas/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFile {
    /// The name: `agent.session.started`, `subscription.request`, `envelope`, `manifest`.
    pub name: String,
    /// The file under `schemas/`.
    pub path: String,
    subject: Subject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Envelope,
    Core(CoreType),
    Message(MessageType),
}

/// One example of each event and message.
const EXAMPLES: &str = include_str!("examples.ndjson");

impl SchemaFile {
    /// Returns an example that validates, as one line of JSON. Returns `None` for the envelope, which is no document.
    ///
    /// ```
    /// let close = aaep_proto::schema::find("subscription.close").and_then(|file| file.example());
    /// assert!(close.is_some_and(|example| example.starts_with(r#"{"type":"subscription.close""#)));
    /// ```
    pub fn example(&self) -> Option<&'static str> {
        let wire = match self.subject {
            Subject::Envelope => return None,
            Subject::Core(core) => core.as_str(),
            Subject::Message(message) => message.as_str(),
        };
        let named = format!("\"type\":\"{wire}\"");
        EXAMPLES.lines().find(|line| line.contains(&named))
    }

    /// Returns what it is, in a sentence.
    pub fn description(&self) -> String {
        match self.subject {
            Subject::Envelope => Envelope::SHAPE.description(),
            Subject::Core(core) => core.shape().description(),
            Subject::Message(message) => message.shape().description(),
        }
    }

    /// Returns the schema as JSON.
    pub fn schema(&self) -> Value {
        match self.subject {
            Subject::Envelope => envelope(),
            Subject::Core(core) => event(core),
            Subject::Message(message) => self::message(message),
        }
    }
}

/// Returns all schemas: the envelope, the twelve events, the seven messages, the manifest, and the two messages of the
/// extension for cancellation.
///
/// ```
/// let names: Vec<_> = aaep_proto::schema::all().into_iter().map(|e| e.name).collect();
/// assert_eq!(names.len(), 23);
/// assert!(names.contains(&"confirmation.reply".to_owned()));
/// ```
pub fn all() -> Vec<SchemaFile> {
    let entry = |name: &str, directory: &str, subject| SchemaFile {
        name: name.to_owned(),
        path: format!("{directory}{name}.schema.json"),
        subject,
    };
    let mut all = vec![entry("envelope", "", Subject::Envelope)];
    for core in CoreType::ALL {
        let name = core.as_str().trim_start_matches("aaep:");
        all.push(entry(name, "core/", Subject::Core(*core)));
    }
    for message in MessageType::ALL {
        all.push(match message {
            MessageType::Manifest => entry("manifest", "", Subject::Message(*message)),
            MessageType::CancellationRequest | MessageType::CancellationRefused => {
                entry(&message_name(*message), "extensions/", Subject::Message(*message))
            }
            _ => entry(message.as_str(), "handshake/", Subject::Message(*message)),
        });
    }
    all
}

/// Returns the name of a message's schema. It is also a file name, so it has no colon.
fn message_name(message: MessageType) -> String {
    match message {
        MessageType::Manifest => "manifest".to_owned(),
        other => other.as_str().replace(':', "."),
    }
}

/// Returns the schema with this name, or with this type on the wire. Returns `None` if there is none.
pub fn find(name: &str) -> Option<SchemaFile> {
    if let Some(message) = MessageType::parse(name) {
        let name = message_name(message);
        return all().into_iter().find(|e| e.name == name);
    }
    let name = name.strip_prefix("aaep:").unwrap_or(name);
    all().into_iter().find(|e| e.name == name)
}

fn head(name: &str, title: &str) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    map.insert("$id".into(), format!("{BASE}{name}").into());
    map.insert("title".into(), title.into());
    map.insert("type".into(), "object".into());
    map
}

fn envelope() -> Value {
    let mut schema = head("envelope", "What every AAEP event carries, whatever its type");
    let core: Vec<String> = CoreType::ALL.iter().flat_map(|c| names(*c)).collect();
    let mut properties = properties(Envelope::SHAPE.fields);
    properties.insert(
        "type".into(),
        json!({"type": "string", "anyOf": [
            {"enum": core},
            {"pattern": "^[A-Za-z][A-Za-z0-9+._-]*:[^\\u0000-\\u0020\\u007f]+$",
             "not": {"pattern": format!("^{RESERVED}:|^{}", any_case(CORE_TYPES))}}
        ]}),
    );
    schema.insert("required".into(), required(&["type"], Envelope::SHAPE.fields));
    schema.insert("properties".into(), properties.into());
    schema.insert("propertyNames".into(), free_names());
    schema.into()
}

/// Prefixes that extensions may not use, ignoring case.
const RESERVED: &str = "([aA][aA][eE][pP]|[xX][sS][dD]|[rR][dD][fF][sS]?)";

/// Names of extensions.
fn unreserved() -> Value {
    json!({"not": {"pattern": format!("^{RESERVED}$|^@")}})
}

/// Returns a pattern that matches a text ignoring case.
fn any_case(text: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_ascii_alphabetic() => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        '.' => "\\.".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(letter).collect()
}

/// Top-level names that the protocol does not reserve.
fn free_names() -> Value {
    json!({"anyOf": [{"enum": ["@context", "aaep_version"]}, {"not": {"pattern": "^(@|[aA][aA][eE][pP]_)"}}]})
}

fn event(core: CoreType) -> Value {
    let name = core.as_str().trim_start_matches("aaep:");
    let shape = core.shape();
    let mut schema = head(name, &format!("AAEP event {name}"));
    schema.insert("description".into(), shape.description().into());
    let mut properties = properties(Envelope::SHAPE.fields);
    properties.insert("type".into(), json!({"enum": names(core)}));
    properties.extend(self::properties(shape.fields));
    let mut needed = vec!["type"];
    if core.must_be_critical() {
        needed.push("urgency");
        properties.insert("urgency".into(), json!({"const": "critical"}));
    }
    let fields: Vec<Field> = Envelope::SHAPE.fields.iter().chain(shape.fields).copied().collect();
    schema.insert("required".into(), required(&needed, &fields));
    schema.insert("properties".into(), properties.into());
    let variants = variants(shape);
    if !variants.is_empty() {
        schema.insert("patternProperties".into(), variants.into());
    }
    schema.insert("additionalProperties".into(), false.into());
    if core == CoreType::AwaitingConfirmation {
        schema.insert("not".into(), unsafe_default());
    }
    schema.into()
}

/// Matches an irreversible action of more than low risk that defaults to accept (6.4.1).
fn unsafe_default() -> Value {
    let is = |field: &str, value: Value| json!({"required": [field], "properties": {field: {"const": value}}});
    json!({"allOf": [
        is("default_decision", "accept".into()),
        {"anyOf": [is("irreversible", true.into()), is("reversibility", "irreversible".into())]},
        {"not": is("risk_level", "low".into())}
    ]})
}

/// Language variants of human-readable texts: `summary_normal_yo`.
fn variants(shape: &ObjectSchema) -> Map<String, Value> {
    let human = shape.fields.iter().filter(|f| matches!(f.kind, FieldType::Human { .. }));
    human.map(|f| (format!("^{}_{SUFFIX_PATTERN}$", f.name), kind(&f.kind))).collect()
}

fn message(message: MessageType) -> Value {
    let name = &message_name(message);
    let mut schema = head(name, &format!("AAEP message {name}"));
    schema.insert("description".into(), message.shape().description().into());
    schema.remove("type");
    schema.extend(object(message.shape()));
    let mut properties = properties(message.shape().fields);
    properties.insert("type".into(), json!({"const": message.as_str()}));
    schema.insert("required".into(), required(&["type"], message.shape().fields));
    if message == MessageType::SubscriptionRequest
        && let Some(capabilities) = properties.get_mut("capabilities").and_then(Value::as_object_mut)
    {
        capabilities.extend(level_2());
    }
    schema.insert("properties".into(), properties.into());
    schema.into()
}

/// A subscriber of level 2 or 3 must support replies to confirmations (5.3.1.4).
fn level_2() -> Map<String, Value> {
    let rule = json!({
        "if": {
            "required": ["supported_conformance_levels"],
            "properties": {"supported_conformance_levels": {"contains": {"enum": [2, 3]}}}
        },
        "then": {
            "required": ["supports_confirmation_reply"],
            "properties": {"supports_confirmation_reply": {"const": true}}
        }
    });
    match rule {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn names(core: CoreType) -> [String; 2] {
    let name = core.as_str().trim_start_matches("aaep:");
    [format!("aaep:{name}"), format!("{CORE_TYPES}{name}")]
}

fn required(first: &[&str], fields: &[Field]) -> Value {
    first.iter().copied().chain(fields.iter().filter(|f| f.required).map(|f| f.name)).collect()
}

fn properties(fields: &[Field]) -> Map<String, Value> {
    let property = |field: &Field| {
        let mut schema = kind(&field.kind);
        schema["description"] = field.description.into();
        (field.name.to_owned(), schema)
    };
    fields.iter().map(property).collect()
}

fn object(shape: &ObjectSchema) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    let needed: Vec<Value> = shape.fields.iter().filter(|f| f.required).map(|f| f.name.into()).collect();
    if !needed.is_empty() {
        schema.insert("required".into(), needed.into());
    }
    schema.insert("properties".into(), properties(shape.fields).into());
    if shape.min_fields > 0 {
        schema.insert("minProperties".into(), shape.min_fields.into());
    }
    match shape.unknown {
        UnknownFields::Denied => schema.insert("additionalProperties".into(), false.into()),
        UnknownFields::Objects => {
            schema.insert("propertyNames".into(), unreserved());
            schema.insert("additionalProperties".into(), json!({"type": "object"}))
        }
        UnknownFields::Allowed => None,
    };
    schema
}

fn kind(kind: &FieldType) -> Value {
    match kind {
        FieldType::Human { min, max } | FieldType::Name { min, max } | FieldType::Text { min, max } => {
            bounded(json!({"type": "string"}), ("minLength", *min), ("maxLength", *max))
        }
        FieldType::Pattern(pattern) => json!({"type": "string", "pattern": pattern.regex}),
        FieldType::OneOf(words) => json!({"enum": words}),
        FieldType::OneOfIntegers(numbers) => json!({"enum": numbers}),
        FieldType::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        FieldType::Number { min, max } => json!({"type": "number", "minimum": min, "maximum": max}),
        FieldType::Boolean => json!({"type": "boolean"}),
        FieldType::List { of, min, max, unique } => {
            let mut list = json!({"type": "array", "items": self::kind(of)});
            if *unique {
                list["uniqueItems"] = true.into();
            }
            bounded(list, ("minItems", *min), ("maxItems", *max))
        }
        FieldType::Object(shape) => object(shape).into(),
        FieldType::AnyObject | FieldType::HumanObject => json!({"type": "object"}),
        FieldType::Extensions => json!({
            "type": "object",
            "propertyNames": unreserved(),
            "additionalProperties": {"type": "object"}
        }),
        FieldType::Context => {
            let uri = self::kind(&crate::message::field_types::URI);
            json!({"anyOf": [
                {"const": CORE_CONTEXT},
                {"type": "array", "minItems": 1, "prefixItems": [{"const": CORE_CONTEXT}], "items": uri}
            ]})
        }
        FieldType::Response => json!({"anyOf": [
            {"type": "string", "minLength": 1, "maxLength": 16384},
            {"type": "boolean"},
            {"type": "number"}
        ]}),
    }
}

fn bounded(mut schema: Value, min: (&str, usize), max: (&str, usize)) -> Value {
    if min.1 > 0 {
        schema[min.0] = min.1.into();
    }
    if max.1 < usize::MAX {
        schema[max.0] = max.1.into();
    }
    schema
}
