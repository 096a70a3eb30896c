//! Removal of secrets and of deceptive characters from an event, before it is checked and delivered.

use std::borrow::Cow;

use serde_json::Value;

use super::EngineError;
use crate::confirm::CONSENT_PREFIX;
use crate::json::Json;
use crate::message::{Event, Payload};
use crate::rule::{Problem, Rule};
use crate::validate::{self, expose, find_secret, redact_field};

/// Fields that only the engine writes, in a form that cannot hold free text.
const OWN_FIELDS: [&str; 6] = ["@context", "type", "event_id", "session_id", "timestamp", "reply_token"];

/// Whether an event holds secrets anywhere, or hidden characters in text for people. `json` is the event as it would be
/// sent.
pub(super) fn needs_cleaning(event: &Event, json: &Json<'_>) -> bool {
    let core = event.core_type().is_some();
    let fields = json.object().into_iter().flat_map(|object| object.iter());
    fields.into_iter().any(|(name, value)| match Treatment::of(name, core) {
        Treatment::Nothing => false,
        Treatment::RedactExtensions => extensions_hold_secret(value),
        Treatment::Redact => validate::holds_secret(name, value),
        Treatment::RedactAndExpose => validate::holds_secret(name, value) || validate::hides(value),
    })
}

/// Replaces secrets everywhere, and hidden characters in text for people.
pub(super) fn clean(event: &mut Event) {
    let core = event.core_type().is_some();
    let Ok(Value::Object(mut fields)) = serde_json::to_value(&*event) else { return };
    for (name, value) in &mut fields {
        match Treatment::of(name, core) {
            Treatment::Nothing => {}
            Treatment::RedactExtensions => redact_extensions(value),
            Treatment::Redact => {
                redact_field(name, value);
            }
            Treatment::RedactAndExpose => {
                redact_field(name, value);
                expose_json(value);
            }
        }
    }
    if let Ok(cleaned) = serde_json::from_value(Value::Object(fields)) {
        *event = cleaned;
    }
}

/// How a top-level field is cleaned.
enum Treatment {
    Nothing,
    /// Data of extensions. That of the consent extension is left alone: the engine writes it, with reply tokens.
    RedactExtensions,
    /// Data for programs: secrets are removed.
    Redact,
    /// Text for people: secrets are removed and hidden characters are shown.
    RedactAndExpose,
}

impl Treatment {
    fn of(name: &str, core: bool) -> Treatment {
        match name {
            name if OWN_FIELDS.contains(&name) => Treatment::Nothing,
            "extensions" => Treatment::RedactExtensions,
            _ if core || name == "producer" || validate::is_summary(name) => Treatment::RedactAndExpose,
            // Only the extension knows what the fields of its events mean.
            _ => Treatment::Redact,
        }
    }
}

fn extensions_hold_secret(json: &Json<'_>) -> bool {
    let fields = json.object().into_iter().flat_map(|object| object.iter());
    fields.filter(|(prefix, _)| *prefix != CONSENT_PREFIX).any(|(prefix, value)| validate::holds_secret(prefix, value))
}

fn redact_extensions(value: &mut Value) {
    let fields = value.as_object_mut().into_iter().flatten();
    for (prefix, value) in fields.filter(|(prefix, _)| *prefix != CONSENT_PREFIX) {
        redact_field(prefix, value);
    }
}

fn expose_json(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(exposed) = expose(text) {
                *text = exposed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(expose_json),
        Value::Object(fields) => fields.values_mut().for_each(expose_json),
        _ => {}
    }
}

/// Checks the values of choices for secrets and hidden characters. They come back in the reply, so they cannot be replaced.
pub(super) fn check_choices(event: &Event) -> Result<(), EngineError> {
    let Payload::AwaitingClarification(question) = &event.payload else { return Ok(()) };
    for (index, choice) in question.choices.iter().flatten().enumerate() {
        let (rule, what) = if let Some(secret) = find_secret(&choice.value) {
            (Rule::Secret, secret.kind.to_string())
        } else if let Cow::Owned(_) = expose(&choice.value) {
            (Rule::DeceptiveText, "hidden character".to_owned())
        } else {
            continue;
        };
        let message = format!("Give this choice another value: everyone who listens gets the {what} in it.");
        return Err(EngineError::Invalid(vec![Problem::new(rule, format!("/choices/{index}/value"), message)]));
    }
    Ok(())
}
