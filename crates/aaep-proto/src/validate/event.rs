//! Validation of events: envelope, payload, and the rules that tie fields together.

use super::deceptive::find_deception;
use super::path::Path;
use super::{DocumentType, Findings, value};
use crate::json::{Json, Object};
use crate::language::is_field_suffix;
use crate::limits;
use crate::message::{CORE_TYPES, CoreType, Envelope, envelope_rule};
use crate::record::{Family, Kind, Record, Shape};
use crate::rule::Rule;

static ENVELOPE: Shape = Envelope::SHAPE;

/// Everything one walk over the top level finds out.
struct Walk {
    envelope: u64,
    payload: u64,
    human_text: bool,
}

pub(super) fn check(object: &Object<'_>, known: &[(String, String)], out: &mut Findings) -> DocumentType {
    let kind = check_type(object, out);
    value::check_duplicate(object, Path::Root, out);
    let core = match kind {
        DocumentType::Core(core) => Some(core),
        _ => None,
    };
    let walk = check_fields(object, core, out);
    check_required(object, core, &walk, out);
    check_language(object, walk.human_text, out);
    match core {
        Some(core) => check_core(core, object, out),
        None => check_prefix_of_type(object, known, out),
    }
    check_declared(object, known, out);
    if object.len() > limits::TOP_LEVEL_FIELDS {
        let message = format!(
            "Move some of the {} fields under extensions: an event should have at most {}.",
            object.len(),
            limits::TOP_LEVEL_FIELDS
        );
        out.add(Rule::FieldCount, "", message);
    }
    kind
}

/// Whether the text can be a type: `prefix:name` or a URI.
fn is_type(text: &str) -> bool {
    let Some((prefix, name)) = text.split_once(':') else { return false };
    prefix.starts_with(|c: char| c.is_ascii_alphabetic())
        && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'_' | b'-'))
        && !name.is_empty()
        && !name.bytes().any(|b| b <= b' ' || b == 0x7f)
}

fn check_type(object: &Object<'_>, out: &mut Findings) -> DocumentType {
    let Some(json) = object.get("type") else { return DocumentType::OtherEvent };
    let Some(text) = json.text() else {
        out.add(Rule::TypeFormat, "/type", format!("type must be a string, not {}.", json.kind()));
        return DocumentType::OtherEvent;
    };
    if let Some(core) = CoreType::parse(text) {
        return DocumentType::Core(core);
    }
    if text.starts_with("aaep:") || text.starts_with(CORE_TYPES) {
        let message = format!("Use one of the twelve core types, or a prefix of your own: {text:?} does not exist.");
        out.add(Rule::UnknownType, "/type", message);
    } else if !text.contains(':') && (text.starts_with("subscription.") || text.ends_with(".reply")) {
        let message = format!("Use one of the seven message types: {text:?} does not exist.");
        out.add(Rule::MessageUnknownType, "/type", message);
    } else if !is_type(text) {
        out.add(Rule::TypeFormat, "/type", "type must be prefix:name or a URI, such as aaep:agent.tool.invoked.");
    }
    DocumentType::OtherEvent
}

fn check_fields(object: &Object<'_>, core: Option<CoreType>, out: &mut Findings) -> Walk {
    let mut walk = Walk { envelope: 0, payload: 0, human_text: false };
    let payload = core.map(CoreType::shape);
    let (mut at, mut payload_at) = (0, 0);
    let mut in_payload = false;
    for (name, json) in object.iter() {
        let path = Path::Root.field_of(name);
        // Fields of a kind stand together, so the table that had the last one is asked first.
        if !in_payload && let Some(index) = ENVELOPE.find(name, &mut at) {
            check_envelope_field(index, json, &mut walk, path, out);
        } else if name == "type" {
        } else if let Some((shape, index)) = payload.and_then(|s| Some((s, s.find(name, &mut payload_at)?))) {
            in_payload = true;
            walk.payload |= 1 << index;
            let kind = &shape.fields[index].kind;
            walk.human_text |= matches!(kind, Kind::Human { .. });
            value::check(kind, json, shape.rules, path, out);
        } else if in_payload && let Some(index) = ENVELOPE.find(name, &mut at) {
            in_payload = false;
            check_envelope_field(index, json, &mut walk, path, out);
        } else {
            check_other(name, json, payload, out);
        }
    }
    walk
}

fn check_envelope_field(index: usize, json: &Json<'_>, walk: &mut Walk, path: Path<'_>, out: &mut Findings) {
    walk.envelope |= 1 << index;
    let field = &ENVELOPE.fields[index];
    let rules = Family::all(envelope_rule(field.name));
    value::check(&field.kind, json, &rules, path, out);
}

impl<'p> Path<'p> {
    /// A field of the document itself.
    fn field_of(&self, name: &'p str) -> Path<'p> {
        Path::Field(&Path::Root, name)
    }
}

/// A field that neither the envelope nor the payload names.
fn check_other(name: &str, json: &Json<'_>, payload: Option<&'static Shape>, out: &mut Findings) {
    let path = Path::Root.field_of(name);
    if name.starts_with("aaep_") || name.starts_with('@') {
        out.add(
            Rule::ForbiddenField,
            path.pointer(),
            format!("Remove {name}: the protocol keeps this name for itself."),
        );
        return;
    }
    let Some(shape) = payload else { return value::check_free(json, path, 2, out) };
    match variant_of(name, shape) {
        Some(kind) => value::check(kind, json, shape.rules, path, out),
        None => {
            let message = format!("Move {name} under extensions: this event has no such field.");
            out.add(Rule::CustomField, path.pointer(), message);
        }
    }
}

/// The text field whose language variant this is: `summary_normal` for `summary_normal_yo`.
fn variant_of(name: &str, shape: &'static Shape) -> Option<&'static Kind> {
    shape.fields.iter().filter(|f| matches!(f.kind, Kind::Human { .. })).find_map(|f| {
        let suffix = name.strip_prefix(f.name)?.strip_prefix('_')?;
        is_field_suffix(suffix).then_some(&f.kind)
    })
}

fn check_required(object: &Object<'_>, core: Option<CoreType>, walk: &Walk, out: &mut Findings) {
    if !object.contains("type") {
        out.add(Rule::EnvelopeRequired, "/type", "Add type: every event needs it.");
    }
    for (index, field) in ENVELOPE.fields.iter().enumerate() {
        if field.required && walk.envelope & (1 << index) == 0 {
            out.add(
                Rule::EnvelopeRequired,
                format!("/{}", field.name),
                format!("Add {}: every event needs it.", field.name),
            );
        }
    }
    let Some(shape) = core.map(CoreType::shape) else { return };
    for (index, field) in shape.fields.iter().enumerate() {
        if field.required && walk.payload & (1 << index) == 0 {
            out.add(
                Rule::PayloadRequired,
                format!("/{}", field.name),
                format!("Add {}: this type of event needs it.", field.name),
            );
        }
    }
}

fn check_language(object: &Object<'_>, human_text: bool, out: &mut Findings) {
    let declared = || object.get("localization_hints").and_then(|h| h.get("primary_language")).is_some();
    if human_text && !declared() {
        let message = "Add localization_hints.primary_language, so that the text is spoken in the right voice.";
        out.add(Rule::LanguageDeclared, "/localization_hints/primary_language", message);
    }
}

/// Rules between the fields of a core event.
fn check_core(core: CoreType, object: &Object<'_>, out: &mut Findings) {
    let word = |name| object.get(name).and_then(Json::text);
    let urgency = word("urgency").unwrap_or("normal");
    if core.must_be_critical() {
        if urgency != "critical" {
            out.add(
                Rule::UrgencyCritical,
                "/urgency",
                "Set urgency to critical: this event must never be filtered or delayed.",
            );
        }
    } else {
        let fits = match core {
            CoreType::ProgressUpdated => urgency == "background",
            CoreType::StateChanged => urgency != "critical",
            _ => urgency == "normal",
        };
        if !fits {
            out.add(
                Rule::UrgencyRecommended,
                "/urgency",
                format!("Reconsider urgency {urgency}: events of this type are usually not."),
            );
        }
    }
    match core {
        CoreType::AwaitingConfirmation => {
            check_default(object, out);
            check_deceptive(object, &["action", "consequence"], out);
            check_allowed_replies(object, out);
        }
        CoreType::AwaitingClarification => {
            check_deceptive(object, &["question"], out);
            check_choices(object, out);
        }
        _ => {}
    }
}

/// The table of 6.4.1. An unstated risk counts as more than low.
fn check_default(object: &Object<'_>, out: &mut Findings) {
    if object.get("default_decision").and_then(Json::text) != Some("accept") {
        return;
    }
    let risk = object.get("risk_level").and_then(Json::text);
    let irreversible = object.get("irreversible").and_then(Json::boolean) == Some(true)
        || object.get("reversibility").and_then(Json::text) == Some("irreversible");
    match (irreversible, risk) {
        (true, Some("low")) => {
            let message = "Prefer reject: the action cannot be undone and nobody may have heard the question.";
            out.add(Rule::DefaultShouldReject, "/default_decision", message);
        }
        (true, _) => {
            let message = "Set default_decision to reject: the action cannot be undone, so silence must not start it.";
            out.add(Rule::DefaultReject, "/default_decision", message);
        }
        (false, Some("high")) => {
            let message = "Prefer reject: the risk is high and nobody may have heard the question.";
            out.add(Rule::DefaultShouldReject, "/default_decision", message);
        }
        (false, _) => {}
    }
}

fn check_allowed_replies(object: &Object<'_>, out: &mut Findings) {
    let Some(items) = object.get("allowed_replies").and_then(Json::items) else { return };
    let replies: Vec<&str> = items.iter().filter_map(Json::text).collect();
    if replies.iter().any(|r| !matches!(*r, "accept" | "reject")) {
        let message = "Allow accept and reject only: a reply cannot say anything else.";
        out.add(Rule::AllowedReplies, "/allowed_replies", message);
    } else if let Some(default) = object.get("default_decision").and_then(Json::text)
        && !replies.contains(&default)
    {
        out.add(
            Rule::AllowedReplies,
            "/allowed_replies",
            format!("Allow {default} too: it is what happens on timeout."),
        );
    }
}

fn check_choices(object: &Object<'_>, out: &mut Findings) {
    let kinds = object.get("accepted_response_kinds").and_then(Json::items).unwrap_or(&[]);
    if kinds.iter().any(|k| k.text() == Some("multiple_choice")) && !object.contains("choices") {
        out.add(Rule::Choices, "/choices", "Add choices: a multiple-choice question cannot be answered without them.");
    }
}

/// Hidden or look-alike characters where the user decides, in every language variant.
fn check_deceptive(object: &Object<'_>, fields: &[&str], out: &mut Findings) {
    for (name, json) in object.iter() {
        let here = fields.iter().any(|f| {
            name.strip_prefix(f)
                .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('_').is_some_and(is_field_suffix))
        });
        if here && let Some(deception) = json.text().and_then(find_deception) {
            out.add(
                Rule::DeceptiveText,
                Path::Root.field_of(name).pointer(),
                format!("Remove {deception} from {name}: the user decides by this text."),
            );
        }
    }
}

/// An extension's event type needs its vocabulary as much as its data does.
fn check_prefix_of_type(object: &Object<'_>, known: &[(String, String)], out: &mut Findings) {
    let Some(text) = object.get("type").and_then(Json::text).filter(|t| is_type(t)) else { return };
    let Some((prefix, name)) = text.split_once(':') else { return };
    if prefix == "aaep" || text.starts_with(CORE_TYPES) {
        return;
    }
    if value::is_reserved(prefix) {
        out.add(Rule::ReservedPrefix, "/type", format!("Choose another prefix: {prefix} is reserved."));
    } else if !name.starts_with("//") && !is_declared(prefix, object, known, 1) {
        out.add(Rule::UndeclaredPrefix, "/type", format!("Name the vocabulary of {prefix} in @context."));
    }
}

fn check_declared(object: &Object<'_>, known: &[(String, String)], out: &mut Findings) {
    let Some(extensions) = object.get("extensions").and_then(Json::object) else { return };
    for (index, (prefix, _)) in extensions.iter().filter(|(p, _)| !value::is_reserved(p)).enumerate() {
        if !is_declared(prefix, object, known, index + 1) {
            let pointer = Path::Field(&Path::Root, "extensions");
            out.add(
                Rule::UndeclaredPrefix,
                pointer.field(prefix).pointer(),
                format!("Name the vocabulary of {prefix} in @context."),
            );
        }
    }
}

/// Whether the context declares a prefix. Of a known extension the vocabulary must be there; of
/// unknown ones we can only count, since one extension has one vocabulary and one prefix.
fn is_declared(prefix: &str, object: &Object<'_>, known: &[(String, String)], needed: usize) -> bool {
    let uris = object.get("@context").and_then(Json::items).unwrap_or(&[]);
    match known.iter().find(|(p, _)| p == prefix) {
        Some((_, uri)) => uris.iter().any(|u| u.text() == Some(uri)),
        None => uris.len() > needed,
    }
}
