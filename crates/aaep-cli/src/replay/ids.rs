//! Fresh ids for a recording: equal ids stay equal, all others stay different.

use std::collections::BTreeMap;

use aaep_proto::id::Entropy;
use aaep_proto::limits;
use aaep_proto::message::Event;
use serde_json::Value;

/// Fields with ids that are unique in a session, and the prefixes of those ids.
const ID_FIELDS: [(&str, &str); 3] = [("reply_token", "rpl_"), ("tool_call_id", "call_"), ("output_id", "out_")];

/// The fresh ids of one session.
struct SessionIds {
    session: String,
    others: BTreeMap<String, String>,
}

/// Replaces ids by fresh ones, consistently.
pub(super) struct FreshIds<E> {
    entropy: E,
    sessions: BTreeMap<String, SessionIds>,
}

impl<E: Entropy> FreshIds<E> {
    pub(super) fn new(entropy: E) -> FreshIds<E> {
        FreshIds { entropy, sessions: BTreeMap::new() }
    }

    /// Returns the event with fresh ids and nothing else changed.
    pub(super) fn replace_ids(&mut self, event: &Event) -> Event {
        let Ok(mut value) = serde_json::to_value(event) else { return event.clone() };
        let session = event.envelope.session_id.as_str();
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= limits::SESSIONS {
                self.sessions.pop_first();
            }
            let ids = SessionIds { session: fresh(&mut self.entropy, "sess_"), others: BTreeMap::new() };
            self.sessions.insert(session.to_owned(), ids);
        }
        let id = fresh(&mut self.entropy, "evt_");
        let (entropy, ids) = (&mut self.entropy, self.sessions.get_mut(session));
        let Some(ids) = ids else { return event.clone() };
        value["event_id"] = id.into();
        value["session_id"] = ids.session.as_str().into();
        for (field, prefix) in ID_FIELDS {
            if let Some(Value::String(name)) = value.get_mut(field) {
                if ids.others.len() >= limits::CHECKED_ITEMS_PER_SESSION * ID_FIELDS.len() {
                    ids.others.pop_first();
                }
                *name = ids.others.entry(name.clone()).or_insert_with(|| fresh(entropy, prefix)).clone();
            }
        }
        // Extensions may refer to a question by its token.
        if let Some(extensions) = value.get_mut("extensions") {
            replace(extensions, &ids.others);
        }
        if event.core_type().is_some_and(|core| core.is_terminal()) {
            self.sessions.remove(session);
        }
        serde_json::from_value(value).unwrap_or_else(|_| event.clone())
    }
}

fn replace(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = names.get(text) {
                text.clone_from(name);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, names)),
        _ => {}
    }
}

fn fresh(entropy: &mut impl Entropy, prefix: &str) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes.iter().fold(prefix.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Counter(u8);

    impl Entropy for Counter {
        fn fill(&mut self, bytes: &mut [u8]) {
            self.0 += 1;
            bytes.fill(self.0);
        }
    }

    fn event(id: &str, kind: &str, more: Value) -> Event {
        let mut value = json!({"@context": "https://aaep-protocol.org/context/v1", "type": kind, "event_id": id,
            "session_id": "sess_1", "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"}});
        for (name, field) in more.as_object().unwrap() {
            value[name] = field.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn equal_ids_stay_equal() {
        let mut ids = FreshIds::new(Counter(0));
        let asked = event(
            "evt_1",
            "aaep:agent.awaiting.clarification",
            json!({"question": "rpl_1?", "reply_token": "rpl_1", "timeout_seconds": 9}),
        );
        let ended = event(
            "evt_2",
            "aaep:agent.state.changed",
            json!({"from_state": "awaiting_input", "to_state": "thinking",
                "extensions": {"consent": {"reply_token": "rpl_1", "outcome": "answered"}}}),
        );
        let asked = serde_json::to_value(ids.replace_ids(&asked)).unwrap();
        let ended = serde_json::to_value(ids.replace_ids(&ended)).unwrap();
        assert_eq!(asked["session_id"], ended["session_id"]);
        assert_eq!(asked["reply_token"], ended["extensions"]["consent"]["reply_token"]);
        assert_ne!(asked["event_id"], ended["event_id"]);
        assert_ne!(asked["reply_token"], "rpl_1");
        assert_eq!(asked["question"], "rpl_1?", "texts do not change");
        for id in [&asked["event_id"], &ended["event_id"], &asked["session_id"]] {
            assert!(!id.as_str().unwrap().ends_with("_1") && !id.as_str().unwrap().ends_with("_2"));
        }
    }

    #[test]
    fn repeated_session_gets_another_id() {
        let mut ids = FreshIds::new(Counter(0));
        let end = event("evt_1", "aaep:agent.session.completed", json!({"summary_normal": "Done."}));
        let (first, second) = (ids.replace_ids(&end), ids.replace_ids(&end));
        assert_ne!(first.envelope.session_id, second.envelope.session_id);
    }
}
