//! JSON Schemas of the agent link: events as an agent may write them, and what it receives.

use aaep::Resolution;
use aaep::message::{CORE_TYPES, CoreType};
use aaep_proto::schema::{self, SchemaFile};
use serde_json::{Map, Value, json};

use super::raw_event::MAX_ID_CHARS;

/// Fields that are filled in if an agent leaves them out.
const FILLED_IN: [&str; 12] = [
    "@context",
    "event_id",
    "session_id",
    "timestamp",
    "producer",
    "urgency",
    "reply_token",
    "timeout_seconds",
    "default_decision",
    "from_state",
    "position",
    "complete",
];

/// A message of the agent link, for the published description of the API.
#[derive(Debug)]
pub(crate) struct LinkMessage {
    /// The name of its schema: `agent.event.session.started`, `agent.outcome`.
    pub(crate) name: String,
    /// What it is.
    pub(crate) summary: String,
    /// Its schema.
    pub(crate) schema: Value,
    /// An example.
    pub(crate) example: Value,
}

/// Returns the events that an agent may send: each of the protocol without the fields that are filled in, and those of
/// extensions.
pub(crate) fn events() -> Vec<LinkMessage> {
    let files = CoreType::ALL.iter().filter_map(|core| Some((*core, schema::find(core.as_str())?)));
    let mut events: Vec<LinkMessage> = files.map(|(core, file)| event(core, &file)).collect();
    events.push(LinkMessage {
        name: "agent.event.extension".to_owned(),
        summary: "An event of an extension. It needs the vocabulary of the extension in `@context`.".to_owned(),
        schema: json!({
            "type": "object",
            "required": ["@context", "type"],
            "properties": {
                "@context": {"type": "array", "minItems": 2, "items": {"type": "string"},
                    "description": "The vocabulary of the protocol, then that of the extension."},
                "type": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9+._-]*:", "not": {"pattern": "^aaep:"}},
                "event_id": id("The name of this event."),
                "session_id": id("The session that the event belongs to."),
            },
        }),
        example: json!({
            "@context": [aaep::message::CORE_CONTEXT, "https://example.org/haptic/v1"],
            "type": "haptic:pulse.sent", "event_id": "pulse-1",
        }),
    });
    events
}

fn event(core: CoreType, file: &SchemaFile) -> LinkMessage {
    let name = core.as_str().trim_start_matches("aaep:");
    let short = name.trim_start_matches("agent.");
    let mut schema = file.schema();
    if let Some(required) = schema["required"].as_array_mut() {
        required.retain(|field| !FILLED_IN.iter().any(|filled| field == filled));
    }
    schema["title"] = format!("The event {name} as an agent writes it").into();
    let properties = &mut schema["properties"];
    let names = [core.as_str().to_owned(), format!("{CORE_TYPES}{name}"), name.to_owned(), short.to_owned()];
    properties["type"] = json!({"enum": names});
    properties["event_id"] = id("The name of this event. An event that is sent again with it is not emitted again.");
    properties["session_id"] = id("The session that the event belongs to, for agents with several at once.");
    add_fields_of_agents(core, properties);
    let mut example: Map<String, Value> =
        file.example().and_then(|example| serde_json::from_str(example).ok()).unwrap_or_default();
    example.retain(|field, _| !FILLED_IN.contains(&field.as_str()));
    example.insert("type".to_owned(), short.into());
    LinkMessage { name: format!("agent.event.{short}"), summary: file.description(), schema, example: example.into() }
}

/// Adds the fields that an agent writes and subscribers do not receive.
fn add_fields_of_agents(core: CoreType, properties: &mut Value) {
    if core == CoreType::OutputStreaming {
        properties["output_id"] = id("The output that the chunk belongs to, if the session has several.");
        properties["chunk"] = json!({"type": "string", "description": "The text of this chunk, of any length."});
    } else {
        let tag = properties["localization_hints"]["properties"]["primary_language"].clone();
        properties["language"] = tag;
        properties["language"]["description"] = "The language of the texts of this event.".into();
    }
    if core == CoreType::SessionStarted {
        properties["takes_cancel"] =
            json!({"type": "boolean", "description": "Whether the agent handles requests to stop (cancel_requested)."});
    }
    if core == CoreType::AwaitingConfirmation {
        properties["tool"] = json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,255}$",
            "description": "The tool whose call the user is asked about."});
        properties["takes_modified_action"] =
            json!({"type": "boolean", "description": "Whether a reply may ask for a different action."});
    }
    if matches!(core, CoreType::AwaitingConfirmation | CoreType::ToolInvoked) {
        properties["args"] = json!({"description": "The arguments of the call. They are never sent to subscribers."});
    }
}

fn id(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS, "description": description})
}

/// Describes a message that an agent receives: an object with `fields` and its `type`.
fn response(name: &str, summary: &str, required: &[&str], fields: Value, example: Value) -> LinkMessage {
    let mut properties = fields;
    properties["type"] = json!({"const": name});
    LinkMessage {
        name: format!("agent.{name}"),
        summary: summary.to_owned(),
        schema: json!({"type": "object", "required": required, "properties": properties,
            "additionalProperties": false}),
        example,
    }
}

/// Returns what an agent receives. `published` and `pending` are responses to a POST only, and `cancel_requested` is sent
/// over the WebSocket only.
pub(crate) fn responses() -> Vec<LinkMessage> {
    let text = || json!({"type": "string"});
    let cancel_requested = || json!({"const": true, "description": "A user asks the agent to stop this session."});
    let problem = json!({
        "type": "object",
        "required": ["message"],
        "properties": {"message": text(), "rule": text(), "pointer": text()},
        "additionalProperties": false,
    });
    vec![
        response(
            "published",
            "The event was emitted.",
            &["type", "event_id", "session_id"],
            json!({"event_id": text(), "session_id": text(), "cancel_requested": cancel_requested()}),
            json!({"type": "published", "event_id": "evt_1", "session_id": "sess_7f21"}),
        ),
        response(
            "outcome",
            "The event was a question, which is resolved. Act only on the decision `accept`.",
            &["type", "event_id", "session_id", "verdict"],
            json!({
                "event_id": text(), "session_id": text(), "verdict": {"enum": Resolution::ALL.map(Resolution::as_str)},
                "decision": {"enum": ["accept", "reject"]}, "modified_action": {"type": "object"},
                "response": {"type": ["string", "number", "boolean", "null"]}, "cancel_requested": cancel_requested(),
            }),
            json!({"type": "outcome", "event_id": "evt_1", "session_id": "sess_7f21", "decision": "accept",
                "verdict": "accepted"}),
        ),
        response(
            "refused",
            "The event was not emitted, and nothing has changed.",
            &["type", "event_id", "problems"],
            json!({"event_id": {"type": ["string", "null"]},
                "problems": {"type": "array", "minItems": 1, "items": problem}}),
            json!({"type": "refused", "event_id": "evt_1", "problems": [{
                "message": "Add summary_normal: this type of event needs it.",
                "rule": "payload.required", "pointer": "/summary_normal"}]}),
        ),
        response(
            "pending",
            "The question is not resolved yet. Send the same event again to continue waiting.",
            &["type", "event_id"],
            json!({"event_id": text()}),
            json!({"type": "pending", "event_id": "evt_1"}),
        ),
        response(
            "cancel_requested",
            "A user asks the agent to stop. The agent decides.",
            &["type", "session_id"],
            json!({"session_id": text(), "requested_by": text(), "reason": text()}),
            json!({"type": "cancel_requested", "session_id": "sess_7f21", "reason": "It takes too long."}),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use aaep_proto::time::Timestamp;

    use super::super::raw_event::{RawEvent, Validation};
    use super::*;

    fn completes(event: &Value) -> bool {
        let event = RawEvent::parse(event.to_string().as_bytes()).unwrap();
        event.complete(Timestamp::from_millis(0), Validation::Now).is_ok()
    }

    #[test]
    fn required_fields_of_the_schemas_are_those_that_are_not_filled_in() {
        for LinkMessage { name, schema, example, .. } in events() {
            assert!(completes(&example), "{name}: {example}");
            for field in example.as_object().unwrap().keys().filter(|field| *field != "type") {
                let mut without = example.clone();
                without.as_object_mut().unwrap().remove(field);
                let is_required = schema["required"].as_array().unwrap().iter().any(|name| name == field);
                // Choices and their kinds need each other.
                if !["choices", "accepted_response_kinds"].contains(&field.as_str()) {
                    assert_eq!(completes(&without), !is_required, "{name} without {field}");
                }
            }
        }
    }

    #[test]
    fn types_of_the_schemas_are_understood() {
        for (event, core) in events().iter().zip(CoreType::ALL) {
            for name in event.schema["properties"]["type"]["enum"].as_array().unwrap() {
                assert_eq!(super::super::raw_event::core_type(name.as_str().unwrap()), Some(*core), "{name}");
            }
        }
    }
}
