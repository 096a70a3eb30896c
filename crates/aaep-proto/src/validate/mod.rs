//! Validation of one document, in the order of 3.9, reporting every violation.
//!
//! The steps are: the document is an object; required fields; types and formats; the core context; a known type; ids
//! and timestamp; the payload; extensions; limits. One pass over the fields finds all violations; the report is then
//! sorted by step.

mod deceptive;
mod event;
mod message;
mod number;
pub(crate) mod path;
mod redact;
mod secret;
mod suggest;
mod tail;
mod value;
mod vocabulary;

use std::fmt::Display;

use serde_json::Value;

use path::Path;

pub(crate) use deceptive::hides;
pub use deceptive::{Deception, expose, find_deception, find_deception_in};
pub(crate) use event::{is_core_name, is_summary};
pub(crate) use redact::holds_secret;
pub use redact::{REMOVED, Redactor, redact, redact_field, redact_json};
pub use secret::{Secret, SecretKind, find_secret};
pub use suggest::{closest, closest_type};
pub(crate) use value::is_reserved;

use crate::json::Json;
use crate::limits;
use crate::message::{CoreType, Event, MessageType};
use crate::rule::{Problem, Rule, Severity};

/// The type that a document claims to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentType {
    /// One of the twelve core events.
    Core(CoreType),
    /// An event of an extension, or of no known type.
    OtherEvent,
    /// A handshake message, a reply or a manifest.
    Message(MessageType),
}

/// The result of a validation.
///
/// ```
/// let report = aaep_proto::validate(b"[1, 2]");
/// assert!(!report.is_valid());
/// assert_eq!(report.problems[0].rule.id(), "json.object");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The type that the document claims to have, or `None` if it is not a JSON object.
    pub document: Option<DocumentType>,
    /// Every violation, in the order of the validation steps.
    pub problems: Vec<Problem>,
}

impl Report {
    /// Returns whether no MUST is broken.
    pub fn is_valid(&self) -> bool {
        self.problems.iter().all(|p| p.severity < Severity::Error)
    }
}

/// Validates one document given as bytes.
///
/// ```
/// let event = br#"{"@context":"https://aaep-protocol.org/context/v1",
///   "type":"aaep:agent.state.changed","event_id":"evt_1","session_id":"sess_1",
///   "timestamp":"2026-05-24T14:22:13.108Z","producer":{"agent_id":"planner"},
///   "urgency":"background","from_state":"idle","to_state":"thinking"}"#;
/// assert!(aaep_proto::validate(event).is_valid());
/// ```
pub fn validate(bytes: &[u8]) -> Report {
    Validator::new().check(bytes)
}

/// A validator for the specification and, optionally, known extensions.
#[derive(Clone, Debug, Default)]
pub struct Validator {
    extensions: Vec<(String, String)>,
}

impl Validator {
    /// Creates a validator without known extensions.
    pub fn new() -> Validator {
        Validator::default()
    }

    /// Adds a known extension: its prefix counts as declared if and only if its vocabulary is in the context. Prefixes
    /// of unknown extensions are only counted: each needs a vocabulary.
    ///
    /// ```
    /// let validator = aaep_proto::Validator::new().with_extension("haptic", "https://example.org/haptic/v1");
    /// assert!(validator.check(b"{}").problems.len() > 0);
    /// ```
    pub fn with_extension(mut self, prefix: impl Into<String>, uri: impl Into<String>) -> Validator {
        self.extensions.push((prefix.into(), uri.into()));
        self
    }

    /// Validates one document.
    pub fn check(&self, bytes: &[u8]) -> Report {
        match Json::parse(bytes) {
            Ok(json) => self.check_json(&json, Some(bytes.len())),
            Err(error) => Report {
                document: None,
                problems: vec![Problem::new(
                    Rule::Syntax,
                    "",
                    format!("This is not JSON: {error}. Send one UTF-8 JSON object."),
                )],
            },
        }
    }

    /// Validates a typed event. The report equals that of its serialized form. An event is serialized only if it may
    /// break a limit of size or nesting.
    ///
    /// ```
    /// use aaep_proto::Validator;
    /// let event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
    ///   "type":"aaep:agent.state.changed","event_id":"evt_1","session_id":"sess_1",
    ///   "timestamp":"2026-05-24T14:22:13Z","producer":{"agent_id":"a"},"from_state":"idle","to_state":"thinking"}"#)?;
    /// assert!(Validator::new().check_event(&event).is_valid());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn check_event(&self, event: &Event) -> Report {
        let json = event.to_json();
        if may_break_size_limits(&json) {
            self.check(&serde_json::to_vec(event).unwrap_or_default())
        } else {
            self.check_json(&json, None)
        }
    }

    /// Validates a document that was built in memory.
    pub fn check_value(&self, value: &Value) -> Report {
        self.check_json(&Json::from(value), None)
    }

    /// Validates a parsed document whose length on the wire is known.
    pub fn check_json(&self, json: &Json<'_>, length: Option<usize>) -> Report {
        let mut out = Findings::default();
        let document = match json.object() {
            None => {
                out.add(Rule::Object, Path::Root, format_args!("Send a JSON object; this is {}.", json.kind()));
                None
            }
            Some(object) => match object.get("type").and_then(Json::text).and_then(MessageType::parse) {
                Some(kind) => {
                    message::check(kind, object, &mut out);
                    Some(DocumentType::Message(kind))
                }
                None => Some(event::check(object, &self.extensions, &mut out)),
            },
        };
        if let Some(length) = length.filter(|l| *l > limits::EVENT_BYTES) {
            check_size(length, document, &mut out);
        }
        out.into_report(document)
    }
}

/// Returns whether the serialized form may exceed the size of an event or the nesting that the parser allows.
pub(crate) fn may_break_size_limits(json: &Json<'_>) -> bool {
    /// Far below the limit of the parser, which is 128, and far above any reasonable event.
    const MAX_DEPTH: usize = 64;
    json.max_serialized_bytes() > limits::EVENT_BYTES || !json.is_nested_within(MAX_DEPTH)
}

fn check_size(length: usize, document: Option<DocumentType>, out: &mut Findings) {
    if length > limits::MESSAGE_BYTES {
        let most = limits::MESSAGE_BYTES;
        let message = format_args!("Split it: {length} bytes are more than the {most} that transports carry.");
        out.add(Rule::MessageSize, Path::Root, message);
    } else if !matches!(document, None | Some(DocumentType::Message(_))) {
        let most = limits::EVENT_BYTES;
        let message = format_args!("Split it: {length} bytes are more than the {most} an event should have.");
        out.add(Rule::EventSize, Path::Root, message);
    }
}

/// Collects problems up to a limit.
#[derive(Default)]
pub(crate) struct Findings {
    problems: Vec<Problem>,
    errors: usize,
}

impl Findings {
    /// Adds a problem if the report is not full. The path and the message are formatted only then, since a hostile
    /// document can break a rule a hundred thousand times.
    pub(crate) fn add(&mut self, rule: Rule, path: Path<'_>, message: impl Display) {
        let is_error = rule.severity() == Severity::Error;
        // The first error is added even to a full report, since it decides validity.
        if self.problems.len() < limits::PROBLEMS_PER_DOCUMENT || (is_error && self.errors == 0) {
            self.errors += usize::from(is_error);
            self.problems.push(Problem::new(rule, path.pointer(), message.to_string()));
        }
    }

    fn into_report(mut self, document: Option<DocumentType>) -> Report {
        self.problems.sort_by_key(|p| p.rule.step());
        Report { document, problems: self.problems }
    }
}
