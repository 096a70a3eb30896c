//! Reading an event in spite of fields that cannot be read.
//!
//! A checker of sequences must not lose an event because of a bad duration: the events after
//! it would be blamed. What the validator has reported is left out, or gets a stand-in where the
//! type cannot do without it and the order does not depend on it.

use std::borrow::Cow;

use super::envelope::CORE_CONTEXT;
use super::{CoreType, Envelope, Event, Message, MessageType};
use crate::json::{Json, Object};
use crate::record::{DecodeError, Record};

impl Message {
    /// Reads one message; of an event, fields that cannot be read are left out. A reply that is
    /// malformed counts for nothing, so it is read as strictly as ever.
    ///
    /// ```
    /// use aaep_proto::{json::Json, message::Message};
    /// let text = br#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.state.changed",
    ///   "event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:13Z","producer":{"agent_id":"a"},
    ///   "from_state":"idle","to_state":"thinking","expected_duration_ms":-1}"#;
    /// let json = Json::parse(text)?;
    /// assert!(Message::from_json(&json).is_err());
    /// assert!(Message::from_json_lenient(&json).is_ok());
    /// # Ok::<(), aaep_proto::json::SyntaxError>(())
    /// ```
    pub fn from_json_lenient(json: &Json<'_>) -> Result<Message, DecodeError> {
        match json.get("type").and_then(Json::text).and_then(MessageType::parse) {
            Some(_) => Message::from_json(json),
            None => read_event(json).map(Message::from),
        }
    }
}

fn read_event(json: &Json<'_>) -> Result<Event, DecodeError> {
    let mut malformed = match Event::from_json(json) {
        Ok(event) => return Ok(event),
        Err(malformed) => malformed,
    };
    let mut object = json.object().ok_or(malformed.clone())?.clone();
    let core = object.get("type").and_then(Json::text).and_then(CoreType::parse);
    let mut repaired = Vec::new();
    loop {
        if repaired.contains(&malformed.field) {
            return Err(malformed);
        }
        repaired.push(malformed.field);
        object = repair(&object, malformed.field, core).ok_or(malformed)?;
        malformed = match Event::from_json(&Json::Object(object.clone())) {
            Ok(event) => return Ok(event),
            Err(malformed) => malformed,
        };
    }
}

/// The object with this field left out or stood in for, if the order of events does not depend on it.
fn repair<'a>(object: &Object<'a>, name: &'static str, core: Option<CoreType>) -> Option<Object<'a>> {
    let envelope = Envelope::SHAPE.fields;
    let payload = core.map_or(&[][..], |core| core.shape().fields);
    let field = envelope.iter().chain(payload).find(|f| f.name == name)?;
    let text = |text: &'static str| Json::String(Cow::Borrowed(text));
    let stand_in = match name {
        _ if !field.required => None,
        "@context" => Some(text(CORE_CONTEXT)),
        "producer" => Some(Json::Object(only_agent_id(object)?)),
        "progress" => Some(Json::Object(Object::default())),
        "summary_normal" | "action" | "consequence" | "question" | "reason" => Some(text("")),
        "error_category" | "cancelled_by" | "status" | "target_kind" => Some(text("unknown")),
        _ => return None,
    };
    Some(object.with(name, stand_in))
}

fn only_agent_id<'a>(object: &Object<'a>) -> Option<Object<'a>> {
    let id = object.get("producer")?.get("agent_id").filter(|id| id.text().is_some())?;
    Some(Object::default().with("agent_id", Some(id.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(type_name: &str, fields: &str) -> Result<Message, DecodeError> {
        let text = format!(
            r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"{type_name}","event_id":"evt_1",
            "session_id":"sess_1","timestamp":"2026-05-24T14:22:13Z","producer":{{"agent_id":"a"}},{fields}}}"#
        );
        Message::from_json_lenient(&Json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn what_the_order_does_not_need_may_be_malformed() {
        for (type_name, fields) in [
            ("aaep:agent.session.started", r#""summary_normal":"Go.","expected_duration_ms":-1,"tools_available":7"#),
            ("aaep:agent.session.started", r#""urgency":3,"sequence_number":"x""#),
            ("aaep:agent.session.errored", r#""error_category":[],"summary_normal":null"#),
            ("aaep:agent.progress.updated", r#""progress":{"percent":"half"}"#),
            ("haptic:pulse", r#""localization_hints":[]"#),
        ] {
            assert!(read(type_name, fields).is_ok(), "{fields}");
        }
    }

    #[test]
    fn what_the_order_needs_may_not() {
        assert!(read("aaep:agent.state.changed", r#""from_state":1,"to_state":"thinking""#).is_err());
        assert!(read("aaep:agent.output.streaming", r#""chunk":"a","position":-1,"complete":true"#).is_err());
        assert!(Message::from_json_lenient(&Json::Null).is_err());
    }
}
