//! An event as an agent writes it ([`RawEvent`]), and with everything that the protocol needs ([`CompletedEvent`]).
//!
//! Fields that only the server knows, or that have one right value, are filled in. Text that people hear never is.

use aaep::message::{CORE_CONTEXT, CORE_TYPES, CoreType, Envelope, Event, Producer};
use aaep::{CallDigest, LanguageTag};
use aaep_proto::json::Json;
use aaep_proto::limits;
use aaep_proto::record::FieldType;
use aaep_proto::time::Timestamp;
use aaep_proto::validate::{closest, closest_type, redact_field};
use aaep_proto::{Problem, Rule, Severity, Validator};
use serde_json::{Map, Value, json};

use super::irreversible_tools::IrreversibleTools;
use super::response::AgentError;
use super::{strict_json, urgent};

/// Longest `event_id`, `session_id` or `output_id` of an agent, in characters.
pub(super) const MAX_ID_CHARS: usize = 128;

/// Longest tool name, in bytes.
const MAX_TOOL_NAME_BYTES: usize = 256;

/// Longest string, checked before anything else looks at it: the longest text of the protocol has 16,384 characters of up
/// to four bytes.
const MAX_STRING_BYTES: usize = 4 * limits::STRING_BYTES;

/// Fields whose strings may be longer: text is split on the way, and arguments are only hashed.
const UNBOUNDED_FIELDS: [&str; 2] = ["chunk", "args"];

/// Fields that an agent writes and that are no fields of the protocol's events, or not of all of them.
const AGENT_FIELDS: [&str; 5] = ["tool", "args", "language", "takes_modified_action", "takes_cancel"];

/// Fields that [`redact`] leaves alone. The values of choices come back in replies, so the engine refuses a secret in them
/// instead; the other fields have no free text, or the engine replaces them.
const UNREDACTED_FIELDS: [&str; 6] = ["choices", "reply_token", "event_id", "session_id", "timestamp", "type"];

/// Placeholders for the ids that the engine will generate: validation requires ids.
const PLACEHOLDER_IDS: [(&str, &str); 2] = [("event_id", "evt_0"), ("session_id", "sess_0")];

/// Placeholder for the reply token that the engine will generate.
const PLACEHOLDER_REPLY_TOKEN: &str = "rpl_0";

/// The time that the user gets for a question whose agent sets no `timeout_seconds`, as the specification has it.
const DEFAULT_TIMEOUT_SECS: u32 = 60;

/// Fields that the engine sets itself, or takes only some values of, so that its validation does not see what the agent
/// wrote.
const FIELDS_SET_BY_ENGINE: [&str; 6] = ["@context", "timestamp", "producer", "urgency", "from_state", "reply_token"];

/// Where an event is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validation {
    /// When it is completed.
    Now,
    /// By the engine, when it is emitted.
    ByEngine,
}

/// A line of an agent: an event, or why it is none.
pub(super) type ParsedLine = Result<RawEvent, AgentError>;

/// One parsed JSON object of an agent.
#[derive(Debug)]
pub(super) struct RawEvent {
    /// All fields but the ids.
    object: Map<String, Value>,
    /// The type, or `None` for an event of an extension.
    pub(super) core: Option<CoreType>,
    /// The agent's id of the event.
    pub(super) event_id: Option<String>,
    /// The agent's id of the session.
    pub(super) session_id: Option<String>,
}

/// The fields of an `output.streaming` event that its output needs.
#[derive(Debug)]
pub(super) struct RawChunk {
    pub(super) output_id: Option<String>,
    pub(super) text: String,
    pub(super) position: Option<u64>,
    pub(super) complete: bool,
}

/// A typed event with all required fields, and what the agent wrote beside it for the server.
#[derive(Debug)]
pub(super) struct CompletedEvent {
    pub(super) event: Event,
    /// The identity that the agent claims.
    pub(super) producer: Option<Producer>,
    /// The language of its texts.
    pub(super) language: Option<LanguageTag>,
    /// The tool that a confirmation is about.
    pub(super) tool: Option<String>,
    /// The arguments of a tool call.
    pub(super) args: Option<Value>,
    /// The time for a reply, if the agent sets one.
    pub(super) timeout_seconds: Option<u32>,
    /// Whether the agent accepts `modified_action` in the outcome of a confirmation.
    pub(super) allows_modified_action: bool,
    /// Whether the agent handles requests of the user to cancel the session that it starts.
    pub(super) accepts_cancel: bool,
}

impl RawEvent {
    /// Parses one line.
    pub(super) fn parse(line: &[u8]) -> ParsedLine {
        let Value::Object(mut object) = strict_json::parse(line)? else {
            return Err(AgentError::new("Write one JSON object on one line."));
        };
        for (field, value) in &object {
            if !UNBOUNDED_FIELDS.contains(&field.as_str()) {
                check_string_lengths(field, value)?;
            }
        }
        // The user agrees to the arguments of a tool call, and their digest is compared later.
        if object.contains_key("args") {
            strict_json::check_numbers(line)?;
        }
        let event_id = remove_id(&mut object, "event_id")?;
        let session_id = remove_id(&mut object, "session_id")?;
        let Some(Value::String(type_name)) = object.get("type") else {
            return Err(AgentError::at("/type", "Add type, such as agent.session.started."));
        };
        let core = core_type(type_name);
        if core.is_none() && !is_extension_type(type_name) {
            return Err(unknown_type(type_name));
        }
        if let Some(core) = core {
            object.insert("type".to_owned(), core.as_str().into());
        }
        Ok(RawEvent { object, core, event_id, session_id })
    }

    /// Returns whether the event must not wait for slow subscribers.
    pub(super) fn is_urgent(&self) -> bool {
        urgent::is_urgent(self.core, self.object.get("urgency").and_then(Value::as_str))
    }

    /// Estimates the memory that the parsed event occupies, which can be many times the length of its JSON.
    pub(super) fn heap_bytes(&self) -> usize {
        let ids = [&self.event_id, &self.session_id].into_iter().flatten().map(String::len).sum::<usize>();
        ids + object_bytes(&self.object)
    }

    /// Returns the digest of its content, which identifies a repeated event. The timestamp does not count: an agent that
    /// sends an event again may write another one.
    pub(super) fn digest(&mut self) -> CallDigest {
        let timestamp = self.object.remove("timestamp");
        let content = Value::Object(std::mem::take(&mut self.object));
        let digest = CallDigest::of(self.session_id.as_deref().unwrap_or_default(), &content);
        if let Value::Object(object) = content {
            self.object = object;
        }
        if let Some(timestamp) = timestamp {
            self.object.insert("timestamp".to_owned(), timestamp);
        }
        digest
    }

    /// Takes the text out of an `output.streaming` event. Every token of a model comes this way, so nothing else is checked.
    pub(super) fn take_chunk(&mut self) -> Result<RawChunk, AgentError> {
        let Some(Value::String(text)) = self.object.get_mut("chunk") else {
            return Err(AgentError::at("/chunk", "Add chunk, the text."));
        };
        let text = std::mem::take(text);
        let position = match self.object.get("position") {
            None => None,
            Some(value) => {
                Some(value.as_u64().ok_or_else(|| AgentError::at("/position", "position must be a count."))?)
            }
        };
        let complete = match self.object.get("complete") {
            None => false,
            Some(value) => {
                value.as_bool().ok_or_else(|| AgentError::at("/complete", "complete must be true or false."))?
            }
        };
        Ok(RawChunk { output_id: remove_id(&mut self.object, "output_id")?, text, position, complete })
    }

    /// Returns whether everything that the agent wrote is in the event that the engine validates: no field is replaced, and
    /// no field of a nested object is unknown, which a typed event would drop.
    pub(super) fn reaches_engine_whole(&self) -> bool {
        let Some(core) = self.core else { return false };
        self.object.iter().all(|(name, value)| {
            let mut fields = Envelope::shape().fields.iter().chain(core.shape().fields);
            !FIELDS_SET_BY_ENGINE.contains(&name.as_str())
                && fields.find(|field| field.name == name).is_none_or(|field| is_kept_whole(&field.kind, value))
        })
    }

    /// Returns whether this is a call of a tool that the agent states to be irreversible, or that is among these.
    pub(super) fn invokes_irreversible(&self, tools: &IrreversibleTools) -> bool {
        self.core == Some(CoreType::ToolInvoked)
            && (self.object.get("irreversible") == Some(&Value::Bool(true))
                || self.object.get("tool").and_then(Value::as_str).is_some_and(|tool| tools.contains(tool)))
    }

    /// Fills in what is missing and makes a typed event. Validates it, unless the engine will.
    pub(super) fn complete(self, now: Timestamp, validation: Validation) -> Result<CompletedEvent, Vec<AgentError>> {
        let RawEvent { mut object, core, .. } = self;
        let is_confirmation = core == Some(CoreType::AwaitingConfirmation);
        let tool = if is_confirmation { remove_tool_name(&mut object)? } else { None };
        let args = if is_confirmation || core == Some(CoreType::ToolInvoked) { object.remove("args") } else { None };
        let allows_modified_action =
            is_confirmation && object.remove("takes_modified_action") == Some(Value::Bool(true));
        let accepts_cancel =
            core == Some(CoreType::SessionStarted) && object.remove("takes_cancel") == Some(Value::Bool(true));
        let has_timeout = object.contains_key("timeout_seconds");
        let has_producer = object.contains_key("producer");
        fill_envelope(&mut object, core, now);
        if let Some(core) = core {
            fill_payload(&mut object, core);
        }
        redact(&mut object);
        let event = to_event(Value::Object(object), validation)?;
        let hints = event.envelope.localization_hints.as_ref();
        Ok(CompletedEvent {
            producer: has_producer.then(|| event.envelope.producer.clone()),
            language: hints.and_then(|hints| hints.primary_language.clone()),
            tool,
            args: args.filter(|args| !args.is_null()),
            timeout_seconds: if has_timeout {
                event.payload.question().map(|question| question.timeout_seconds)
            } else {
                None
            },
            allows_modified_action,
            accepts_cancel,
            event,
        })
    }
}

fn object_bytes(object: &Map<String, Value>) -> usize {
    let entry = size_of::<(String, Value)>();
    object.iter().map(|(name, value)| entry + name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + value_bytes(item)).sum(),
        Value::Object(object) => object_bytes(object),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Refuses strings that are too long, at any depth of a top-level field.
fn check_string_lengths(field: &str, value: &Value) -> Result<(), AgentError> {
    match value {
        Value::String(text) if text.len() > MAX_STRING_BYTES => {
            let message = format!("Shorten it: {} bytes of text are more than {MAX_STRING_BYTES}.", text.len());
            Err(AgentError::at(&format!("/{field}"), message))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_string_lengths(field, item)),
        Value::Object(fields) => fields.values().try_for_each(|value| check_string_lengths(field, value)),
        _ => Ok(()),
    }
}

/// Replaces secrets. The engine does so too, but this runs in the task of the agent's connection, so that the engine, which
/// all agents share, finds none and has less to do.
fn redact(object: &mut Map<String, Value>) {
    for (field, value) in object.iter_mut() {
        if !UNREDACTED_FIELDS.contains(&field.as_str()) {
            redact_field(field, value);
        }
    }
}

/// Removes an id that the agent chose. It is not sent to subscribers, so it may be any short text.
fn remove_id(object: &mut Map<String, Value>, field: &str) -> Result<Option<String>, AgentError> {
    match object.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.chars().count() <= MAX_ID_CHARS => Ok(Some(text)),
        Some(_) => {
            let message = format!("{field} must be text of 1 to {MAX_ID_CHARS} characters.");
            Err(AgentError::at(&format!("/{field}"), message))
        }
    }
}

/// Parses `aaep:agent.tool.invoked`, `agent.tool.invoked` and `tool.invoked`.
pub(super) fn core_type(text: &str) -> Option<CoreType> {
    if text.starts_with(CORE_TYPES) || text.contains(':') {
        return CoreType::parse(text);
    }
    CoreType::parse(&format!("aaep:{text}")).or_else(|| CoreType::parse(&format!("aaep:agent.{text}")))
}

/// Returns whether this can be the type of an extension's event: it has a prefix that is not that of the protocol.
fn is_extension_type(text: &str) -> bool {
    text.contains(':') && !text.starts_with("aaep:") && !text.starts_with(CORE_TYPES)
}

/// Returns the error for an event type that does not exist, with the one that was probably meant.
fn unknown_type(text: &str) -> AgentError {
    let name: String = text.chars().take(MAX_ID_CHARS).collect();
    // The short name, unless the agent writes long ones.
    let meant = closest_type(text).map(|core| match text.contains(':') {
        true => core.as_str(),
        false => core.as_str().trim_start_matches("aaep:agent."),
    });
    let advice = match meant {
        Some(meant) => format!("Did you mean {meant}?"),
        None => "Use one of the twelve core types, such as session.started, or a prefix of your own.".to_owned(),
    };
    AgentError::from(Problem::new(Rule::UnknownType, "/type", format!("There is no event type {name}. {advice}")))
}

/// Removes the name of the tool that a confirmation is about. It is sent to subscribers, so its form is checked.
fn remove_tool_name(object: &mut Map<String, Value>) -> Result<Option<String>, AgentError> {
    let Some(value) = object.remove("tool") else { return Ok(None) };
    let is_tool_name = |text: &str| {
        text.len() <= MAX_TOOL_NAME_BYTES
            && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    match value {
        Value::String(text) if is_tool_name(&text) => Ok(Some(text)),
        _ => Err(AgentError::at(
            "/tool",
            "tool must be a tool name: a letter or underscore, then letters, digits, and _ . -",
        )),
    }
}

fn fill_envelope(object: &mut Map<String, Value>, core: Option<CoreType>, now: Timestamp) {
    for (field, placeholder) in PLACEHOLDER_IDS {
        object.insert(field.to_owned(), placeholder.into());
    }
    let mut fill = |field: &str, value: Value| {
        object.entry(field).or_insert(value);
    };
    fill("@context", CORE_CONTEXT.into());
    fill("timestamp", now.to_string().into());
    fill("producer", json!({"agent_id": "agent"}));
    if core.is_some_and(CoreType::must_be_critical) {
        fill("urgency", "critical".into());
    }
    // The language of an output is a field of its payload.
    if core.is_some()
        && core != Some(CoreType::OutputStreaming)
        && let Some(language) = object.remove("language")
    {
        let hints = object.entry("localization_hints").or_insert_with(|| json!({}));
        if let Value::Object(hints) = hints {
            hints.entry("primary_language").or_insert(language);
        }
    }
}

fn fill_payload(object: &mut Map<String, Value>, core: CoreType) {
    let mut fill = |field: &str, value: Value| {
        object.entry(field).or_insert(value);
    };
    match core {
        CoreType::AwaitingConfirmation => {
            fill("reply_token", PLACEHOLDER_REPLY_TOKEN.into());
            fill("timeout_seconds", DEFAULT_TIMEOUT_SECS.into());
            fill("default_decision", "reject".into());
        }
        CoreType::AwaitingClarification => {
            fill("reply_token", PLACEHOLDER_REPLY_TOKEN.into());
            fill("timeout_seconds", DEFAULT_TIMEOUT_SECS.into());
        }
        CoreType::StateChanged => fill("from_state", "idle".into()),
        CoreType::OutputStreaming => {
            fill("position", 0.into());
            fill("complete", false.into());
        }
        _ => {}
    }
}

/// Returns whether a typed event keeps all of a field's value.
fn is_kept_whole(kind: &FieldType, value: &Value) -> bool {
    match kind {
        FieldType::Object(schema) => value.as_object().is_some_and(|object| {
            object.iter().all(|(name, value)| {
                schema.fields.iter().any(|field| field.name == name && is_kept_whole(&field.kind, value))
            })
        }),
        FieldType::List { of, .. } => {
            value.as_array().is_some_and(|items| items.iter().all(|item| is_kept_whole(of, item)))
        }
        _ => true,
    }
}

fn to_event(value: Value, validation: Validation) -> Result<Event, Vec<AgentError>> {
    let json = Json::from(&value);
    if validation == Validation::ByEngine
        && let Ok(event) = Event::from_json(&json)
    {
        return Ok(event);
    }
    let report = Validator::new().check_json(&json, None);
    let problems = report.problems.into_iter().filter(|problem| problem.severity >= Severity::Error);
    // The engine replaces secrets; they are no reason to refuse an event.
    let errors: Vec<AgentError> =
        problems.filter(|p| p.rule != Rule::Secret).map(guess_agent_field).map(AgentError::from).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    Event::from_json(&json).map_err(|error| AgentError::new(format!("This event cannot be read: {error}.")).into())
}

/// Adds a guess to the problem of an unknown field, if it was probably meant to be a field that only agents write.
fn guess_agent_field(mut problem: Problem) -> Problem {
    let written = problem.pointer.trim_start_matches('/');
    if problem.rule == Rule::CustomField
        && !problem.message.contains("Did you mean")
        && let Some(meant) = closest(written, AGENT_FIELDS)
    {
        problem.message = format!("{} Did you mean {meant}?", problem.message);
    }
    problem
}

#[cfg(test)]
mod tests {
    use aaep::message::Payload;

    use super::*;

    fn parse(text: &str) -> RawEvent {
        RawEvent::parse(text.as_bytes()).unwrap()
    }

    fn complete(text: &str) -> Result<CompletedEvent, Vec<AgentError>> {
        parse(text).complete(Timestamp::from_millis(0), Validation::Now)
    }

    #[test]
    fn type_prefixes_are_optional() {
        for text in ["aaep:agent.tool.invoked", "agent.tool.invoked", "tool.invoked"] {
            assert_eq!(core_type(text), Some(CoreType::ToolInvoked), "{text}");
        }
        for text in ["haptic:pulse", "outcome", "aaep:tool.invoked", ""] {
            assert_eq!(core_type(text), None, "{text}");
        }
    }

    #[test]
    fn missing_fields_are_filled_in() {
        let completed = complete(
            r#"{"type":"awaiting.confirmation","action":"Pay.","consequence":"It is gone.","tool":"pay",
            "args":{"n":1},"language":"de"}"#,
        );
        let completed = completed.unwrap();
        assert_eq!((completed.tool.as_deref(), completed.args), (Some("pay"), Some(json!({"n": 1}))));
        assert_eq!(completed.language.map(|l| l.to_string()).as_deref(), Some("de"));
        assert_eq!((completed.timeout_seconds, completed.producer), (None, None));
        assert!(matches!(completed.event.payload, Payload::AwaitingConfirmation(_)));
    }

    #[test]
    fn event_that_the_engine_would_not_see_whole_is_validated_here() {
        for text in [
            r#"{"type":"progress.updated","progress":{"step":1},"summary_normal":"One.","event_id":"1"}"#,
            r#"{"type":"tool.completed","tool":"dig","status":"success","summary_normal_de":"Fertig."}"#,
            r#"{"type":"state.changed","to_state":"thinking","localization_hints":{"primary_language":"de"}}"#,
        ] {
            assert!(parse(text).reaches_engine_whole(), "{text}");
        }
        for text in [
            r#"{"type":"progress.updated","progress":{"step":1,"unknown":2}}"#,
            r#"{"type":"progress.updated","progress":7}"#,
            r#"{"type":"state.changed","to_state":"thinking","urgency":"loud"}"#,
            r#"{"type":"state.changed","to_state":"thinking","from_state":7}"#,
            r#"{"type":"state.changed","to_state":"thinking","timestamp":"yesterday"}"#,
            r#"{"type":"state.changed","to_state":"thinking","@context":"https://example.org"}"#,
            r#"{"type":"garden:watered"}"#,
        ] {
            assert!(!parse(text).reaches_engine_whole(), "{text}");
        }
    }

    #[test]
    fn missing_text_for_people_is_an_error() {
        let errors = complete(r#"{"type":"session.completed"}"#).unwrap_err();
        assert_eq!(errors[0].pointer.as_deref(), Some("/summary_normal"));
        assert!(errors[0].message.contains("summary_normal"), "{errors:?}");
    }

    #[test]
    fn lines_without_an_event_are_refused() {
        for (text, expected) in
            [("{", "not JSON"), ("[]", "one JSON object"), ("{}", "Add type"), ("{\"type\":1}", "Add type")]
        {
            let error = RawEvent::parse(text.as_bytes()).unwrap_err();
            assert!(error.message.contains(expected), "{error:?}");
        }
        let error = RawEvent::parse(br#"{"type":"progress.updated","event_id":7}"#).unwrap_err();
        assert_eq!(error.pointer.as_deref(), Some("/event_id"));
    }

    #[test]
    fn misspelt_types_and_fields_are_guessed() {
        for (written, expected) in [
            ("session.start", "There is no event type session.start. Did you mean session.started?"),
            ("aaep:agent.tool.invoke", "Did you mean aaep:agent.tool.invoked?"),
            ("aaep:tool.invoked", "Did you mean aaep:agent.tool.invoked?"),
            ("outcome", "Use one of the twelve core types"),
        ] {
            let error = RawEvent::parse(json!({"type": written}).to_string().as_bytes()).unwrap_err();
            assert!(error.message.contains(expected), "{error:?}");
            assert_eq!((error.rule, error.pointer.as_deref()), (Some("env.unknown-type"), Some("/type")));
        }
        for (line, expected) in [
            (r#"{"type":"session.started","summary":"Hello."}"#, "Did you mean summary_normal?"),
            (r#"{"type":"awaiting.confirmation","action":"A.","consequence":"B.","arg":{}}"#, "Did you mean args?"),
            (r#"{"type":"session.started","summary_normal":"A.","sesion_id":"a"}"#, "Did you mean session_id?"),
        ] {
            let errors = complete(line).unwrap_err();
            assert!(errors.iter().any(|error| error.message.contains(expected)), "{errors:?}");
        }
    }

    #[test]
    fn string_that_is_too_long_is_refused_while_parsing() {
        let long = "4111111111111111 ".repeat(MAX_STRING_BYTES / 17 + 1);
        for field in ["summary_normal", "correlation_id", "extensions"] {
            let value = if field == "extensions" { json!({"x": {"y": [long]}}) } else { json!(long) };
            let line = json!({"type": "session.started", field: value}).to_string();
            let error = RawEvent::parse(line.as_bytes()).unwrap_err();
            assert_eq!(error.pointer.as_deref(), Some(format!("/{field}").as_str()));
            assert!(error.message.starts_with("Shorten it"), "{error:?}");
        }
        let text = json!({"type": "output.streaming", "chunk": long}).to_string();
        assert!(RawEvent::parse(text.as_bytes()).is_ok(), "text may be long");
    }

    #[test]
    fn secrets_are_replaced_before_the_engine_gets_them() {
        let completed = complete(
            r#"{"type":"state.changed","to_state":"ghp_abcdefghij0123456789ABCD","correlation_id":"card 4111111111111111",
            "summary_normal":"It is password=hunter22."}"#,
        );
        let event = serde_json::to_string(&completed.unwrap().event).unwrap();
        assert_eq!(event.matches("[removed]").count(), 3, "{event}");
    }

    #[test]
    fn memory_of_many_small_values_is_not_underestimated() {
        let line = format!(r#"{{"type":"state.changed","extensions":{{"x":[{}0]}}}}"#, "0,".repeat(1000));
        assert!(parse(&line).heap_bytes() >= 1000 * size_of::<Value>());
    }

    #[test]
    fn digest_ignores_timestamp_and_order_of_fields() {
        let mut a = parse(r#"{"type":"tool.invoked","tool":"a","timestamp":"2026-05-24T14:22:11Z","event_id":"1"}"#);
        let mut b = parse(r#"{"event_id":"1","tool":"a","type":"tool.invoked"}"#);
        let mut c = parse(r#"{"event_id":"1","tool":"b","type":"tool.invoked"}"#);
        assert!(a.digest() == b.digest() && a.digest() != c.digest());
        assert!(a.object.contains_key("timestamp"), "the event is unchanged");
    }
}
