//! An event as an agent writes it, and as the protocol wants it. What only we can know or what has one right value is
//! filled in; what people hear is not made up.

use aaep::message::{CORE_CONTEXT, CORE_TYPES, CoreType, Event, Producer};
use aaep::{CallDigest, LanguageTag};
use aaep_proto::json::Json;
use aaep_proto::limits;
use aaep_proto::time::Timestamp;
use aaep_proto::validate::redact_field;
use aaep_proto::{Severity, Validator};
use serde_json::{Map, Value, json};

use super::exact;
use super::response::AgentError;

/// Most characters of an id that an agent makes up.
const ID: usize = 128;

/// Most bytes of a string, before anything else reads it: the longest text of the protocol has 16,384 characters of up
/// to four bytes.
const STRING_BYTES: usize = 4 * limits::STRING_BYTES;

/// Fields whose strings may be longer: text is cut on the way, and arguments are only fingerprinted.
const UNBOUNDED: [&str; 2] = ["chunk", "args"];

/// Stand-ins for ids: those that are sent are made elsewhere.
const STAND_INS: [(&str, &str); 2] = [("event_id", "evt_0"), ("session_id", "sess_0")];

/// One object from an agent, taken apart as far as every kind of event needs it.
#[derive(Debug)]
pub(super) struct RawEvent {
    object: Map<String, Value>,
    /// The type; nothing for that of an extension.
    pub(super) core: Option<CoreType>,
    /// What the agent calls the event.
    pub(super) event_id: Option<String>,
    /// What the agent calls the session.
    pub(super) session: Option<String>,
}

/// A piece of text.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) output: Option<String>,
    pub(super) text: String,
    pub(super) position: Option<u64>,
    pub(super) complete: bool,
}

/// An event with all that it needs, and what the agent says beside it.
#[derive(Debug)]
pub(super) struct CompletedEvent {
    pub(super) event: Event,
    /// Who the agent says it is.
    pub(super) producer: Option<Producer>,
    /// The language of its texts.
    pub(super) language: Option<LanguageTag>,
    /// The tool that a confirmation is about.
    pub(super) tool: Option<String>,
    /// The arguments of a call.
    pub(super) args: Option<Value>,
    /// How long to wait for an answer, if the agent says so.
    pub(super) timeout_seconds: Option<u32>,
    /// Whether the agent can handle "yes, but otherwise".
    pub(super) takes_modified: bool,
}

impl RawEvent {
    /// Reads one object.
    pub(super) fn read(line: &[u8]) -> Result<RawEvent, AgentError> {
        let Value::Object(mut object) = exact::read(line)? else {
            return Err(AgentError::new("Write one JSON object on one line."));
        };
        for (field, value) in object.iter().filter(|(field, _)| !UNBOUNDED.contains(&field.as_str())) {
            check_strings(&format!("/{field}"), value)?;
        }
        // The user agrees to the arguments of a call, and a fingerprint of them is compared later.
        if object.contains_key("args") {
            exact::check_numbers(line)?;
        }
        let event_id = name(&mut object, "event_id")?;
        let session = name(&mut object, "session_id")?;
        let Some(Value::String(type_name)) = object.get("type") else {
            return Err(AgentError::at("/type", "Add type, such as agent.session.started."));
        };
        let core = core_type(type_name);
        if let Some(core) = core {
            object.insert("type".to_owned(), core.as_str().into());
        }
        Ok(RawEvent { object, core, event_id, session })
    }

    /// The fingerprint of what it says. When it is said does not count: who says it again may write another time.
    pub(super) fn content(&self) -> CallDigest {
        let mut object = self.object.clone();
        object.remove("timestamp");
        CallDigest::of(self.session.as_deref().unwrap_or_default(), &Value::Object(object))
    }

    /// The text of an output. This is the way of every token that a model writes, so it takes no detours.
    pub(super) fn chunk(&mut self) -> Result<Chunk, AgentError> {
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
        Ok(Chunk { output: name(&mut self.object, "output_id")?, text, position, complete })
    }

    /// Fills in what is missing and checks all of it.
    pub(super) fn complete(self, now: Timestamp) -> Result<CompletedEvent, Vec<AgentError>> {
        let RawEvent { mut object, core, .. } = self;
        let is = |kind: CoreType| core == Some(kind);
        let asks = is(CoreType::AwaitingConfirmation);
        let tool = if asks { tool_name(&mut object).map_err(|fault| vec![fault])? } else { None };
        let args = (asks || is(CoreType::ToolInvoked)).then(|| object.remove("args")).flatten();
        let args = args.filter(|args| !args.is_null());
        let takes_modified = asks && object.remove("takes_modified_action") == Some(Value::Bool(true));
        let has_timeout = object.contains_key("timeout_seconds");
        let has_producer = object.contains_key("producer");
        fill_envelope(&mut object, core, now);
        if let Some(core) = core {
            fill_payload(&mut object, core);
        }
        redact(&mut object);
        let event = check(Value::Object(object))?;
        let hints = event.envelope.localization_hints.as_ref();
        Ok(CompletedEvent {
            producer: has_producer.then(|| event.envelope.producer.clone()),
            language: hints.and_then(|hints| hints.primary_language.clone()),
            tool,
            args,
            timeout_seconds: has_timeout.then(|| timeout_of(&event)).flatten(),
            takes_modified,
            event,
        })
    }
}

/// Refuses strings that are too long. The pointer names the field that holds them.
fn check_strings(pointer: &str, value: &Value) -> Result<(), AgentError> {
    match value {
        Value::String(text) if text.len() > STRING_BYTES => {
            let message = format!("Shorten it: {} bytes of text are more than {STRING_BYTES}.", text.len());
            Err(AgentError::at(pointer, message))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_strings(pointer, item)),
        Value::Object(fields) => fields.values().try_for_each(|field| check_strings(pointer, field)),
        _ => Ok(()),
    }
}

/// Replaces secrets here, in the task of the agent's connection, so that the engine finds none. The values of choices
/// come back in replies, so a secret in them is left for the engine to refuse; so are the ids, which it makes itself.
fn redact(object: &mut Map<String, Value>) {
    let left =
        |field: &str| matches!(field, "choices" | "reply_token" | "event_id" | "session_id" | "timestamp" | "type");
    for (field, value) in object.iter_mut().filter(|(field, _)| !left(field)) {
        redact_field(field, value);
    }
}

/// Takes an id that the agent made up. It is not sent on, so it may be anything short.
fn name(object: &mut Map<String, Value>, field: &str) -> Result<Option<String>, AgentError> {
    match object.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.chars().count() <= ID => Ok(Some(text)),
        Some(_) => Err(AgentError::at(&format!("/{field}"), format!("{field} must be text of 1 to {ID} characters."))),
    }
}

/// Reads `aaep:agent.tool.invoked`, `agent.tool.invoked` and `tool.invoked`.
pub(super) fn core_type(text: &str) -> Option<CoreType> {
    if text.starts_with(CORE_TYPES) || text.contains(':') {
        return CoreType::parse(text);
    }
    CoreType::parse(&format!("aaep:{text}")).or_else(|| CoreType::parse(&format!("aaep:agent.{text}")))
}

/// Takes the tool that a confirmation is about. Its name is sent on, so it must be one.
fn tool_name(object: &mut Map<String, Value>) -> Result<Option<String>, AgentError> {
    let Some(value) = object.remove("tool") else { return Ok(None) };
    let is_name = |text: &str| {
        text.len() <= 256
            && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    match value {
        Value::String(text) if is_name(&text) => Ok(Some(text)),
        _ => Err(AgentError::at(
            "/tool",
            "tool must be a tool name: a letter or underscore, then letters, digits, and _ . -",
        )),
    }
}

fn fill_envelope(object: &mut Map<String, Value>, core: Option<CoreType>, now: Timestamp) {
    for (field, stand_in) in STAND_INS {
        object.insert(field.to_owned(), stand_in.into());
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
    let is_text = core == Some(CoreType::OutputStreaming);
    if core.is_some()
        && !is_text
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
            fill("reply_token", "rpl_0".into());
            fill("timeout_seconds", 60.into());
            fill("default_decision", "reject".into());
        }
        CoreType::AwaitingClarification => {
            fill("reply_token", "rpl_0".into());
            fill("timeout_seconds", 60.into());
        }
        CoreType::StateChanged => fill("from_state", "idle".into()),
        CoreType::OutputStreaming => {
            fill("position", 0.into());
            fill("complete", false.into());
        }
        _ => {}
    }
}

fn timeout_of(event: &Event) -> Option<u32> {
    use aaep::message::Payload;
    match &event.payload {
        Payload::AwaitingConfirmation(asked) => Some(asked.timeout_seconds),
        Payload::AwaitingClarification(asked) => Some(asked.timeout_seconds),
        _ => None,
    }
}

fn check(value: Value) -> Result<Event, Vec<AgentError>> {
    let json = Json::from(&value);
    let report = Validator::new().check_json(&json, None);
    let errors = report.problems.into_iter().filter(|problem| problem.severity >= Severity::Error);
    // Secrets are blotted out on the way, and are no reason to say nothing.
    let faults: Vec<AgentError> = errors.filter(|p| p.rule != aaep_proto::Rule::Secret).map(AgentError::from).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    Event::from_json(&json).map_err(|malformed| vec![AgentError::new(format!("This cannot be read: {malformed}."))])
}

#[cfg(test)]
mod tests {
    use aaep::message::Payload;

    use super::*;

    fn read(text: &str) -> RawEvent {
        RawEvent::read(text.as_bytes()).unwrap()
    }

    fn told(text: &str) -> Result<CompletedEvent, Vec<AgentError>> {
        read(text).complete(Timestamp::from_millis(0))
    }

    #[test]
    fn types_may_be_short() {
        for text in ["aaep:agent.tool.invoked", "agent.tool.invoked", "tool.invoked"] {
            assert_eq!(core_type(text), Some(CoreType::ToolInvoked), "{text}");
        }
        for text in ["haptic:pulse", "outcome", "aaep:tool.invoked", ""] {
            assert_eq!(core_type(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_filled_in() {
        let told = told(
            r#"{"type":"awaiting.confirmation","action":"Pay.","consequence":"It is gone.","tool":"pay",
            "args":{"n":1},"language":"de"}"#,
        );
        let told = told.unwrap();
        assert_eq!((told.tool.as_deref(), told.args), (Some("pay"), Some(json!({"n": 1}))));
        assert_eq!(told.language.map(|l| l.to_string()).as_deref(), Some("de"));
        assert_eq!((told.timeout_seconds, told.producer), (None, None));
        assert!(matches!(told.event.payload, Payload::AwaitingConfirmation(_)));
    }

    #[test]
    fn what_people_hear_is_not_made_up() {
        let faults = told(r#"{"type":"session.completed"}"#).unwrap_err();
        assert_eq!(faults[0].pointer.as_deref(), Some("/summary_normal"));
        assert!(faults[0].message.contains("summary_normal"), "{faults:?}");
    }

    #[test]
    fn no_object_is_a_fault() {
        for (text, says) in
            [("{", "not JSON"), ("[]", "one JSON object"), ("{}", "Add type"), ("{\"type\":1}", "Add type")]
        {
            let fault = RawEvent::read(text.as_bytes()).unwrap_err();
            assert!(fault.message.contains(says), "{fault:?}");
        }
        let fault = RawEvent::read(br#"{"type":"progress.updated","event_id":7}"#).unwrap_err();
        assert_eq!(fault.pointer.as_deref(), Some("/event_id"));
    }

    #[test]
    fn a_string_that_is_too_long_is_refused_before_it_is_read() {
        let long = "4111111111111111 ".repeat(STRING_BYTES / 17 + 1);
        for field in ["summary_normal", "correlation_id", "extensions"] {
            let value = if field == "extensions" { json!({"x": {"y": [long]}}) } else { json!(long) };
            let line = json!({"type": "session.started", field: value}).to_string();
            let fault = RawEvent::read(line.as_bytes()).unwrap_err();
            assert_eq!(fault.pointer.as_deref(), Some(format!("/{field}").as_str()));
            assert!(fault.message.starts_with("Shorten it"), "{fault:?}");
        }
        let text = json!({"type": "output.streaming", "chunk": long}).to_string();
        assert!(RawEvent::read(text.as_bytes()).is_ok(), "text may be long");
    }

    #[test]
    fn secrets_are_removed_before_the_engine_gets_them() {
        let told = told(
            r#"{"type":"state.changed","to_state":"ghp_abcdefghij0123456789ABCD","correlation_id":"card 4111111111111111",
            "summary_normal":"It is password=hunter22."}"#,
        );
        let event = serde_json::to_string(&told.unwrap().event).unwrap();
        assert_eq!(event.matches("[removed]").count(), 3, "{event}");
    }

    #[test]
    fn the_same_words_at_another_time_are_the_same() {
        let a = read(r#"{"type":"tool.invoked","tool":"a","timestamp":"2026-05-24T14:22:11Z","event_id":"1"}"#);
        let b = read(r#"{"event_id":"1","tool":"a","type":"tool.invoked"}"#);
        let c = read(r#"{"event_id":"1","tool":"b","type":"tool.invoked"}"#);
        assert!(a.content() == b.content() && a.content() != c.content());
    }
}
