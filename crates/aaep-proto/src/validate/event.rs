//! Validation of events: the envelope, the payload, and the rules between fields.

use super::deceptive::find_deception_in;
use super::path::{Brief, Path};
use super::suggest::{DidYouMean, closest, closest_message, closest_type};
use super::value::Free;
use super::{DocumentType, Findings, value, vocabulary};
use crate::json::{Json, Object};
use crate::language::is_field_suffix;
use crate::limits;
use crate::message::{CORE_TYPES, CoreType, Envelope, envelope_rule};
use crate::record::{Field, FieldType, ObjectSchema, Record, RuleSet};
use crate::rule::Rule;

static ENVELOPE: ObjectSchema = Envelope::SHAPE;

/// The fields that were found in one pass over the top level, as bit sets of their positions in the schemas.
struct Walk {
    envelope: u64,
    payload: u64,
    human_text: bool,
}

pub(super) fn check(object: &Object<'_>, known: &[(String, String)], out: &mut Findings) -> DocumentType {
    let kind = match check_type(object, out) {
        Some(kind) => kind,
        // An unknown message type is not an event, so required fields of events are not reported.
        None => return DocumentType::OtherEvent,
    };
    value::check_duplicate(object, Path::Root, out);
    let core = match kind {
        DocumentType::Core(core) => Some(core),
        _ => None,
    };
    let walk = check_fields(object, core, out);
    check_required(object, core, &walk, out);
    check_language(object, walk.human_text, out);
    if let Some(core) = core {
        check_core(core, object, out);
    }
    vocabulary::check(object, core.is_none(), known, out);
    if object.len() > limits::TOP_LEVEL_FIELDS {
        let message = format_args!(
            "Move some of the {} fields under extensions: an event should have at most {}.",
            object.len(),
            limits::TOP_LEVEL_FIELDS
        );
        out.add(Rule::FieldCount, Path::Root, message);
    }
    kind
}

/// Returns whether an event type is in the namespace of the protocol, ignoring case.
pub(crate) fn is_core_name(name: &str) -> bool {
    starts_with_ignoring_case(name, "aaep:") || starts_with_ignoring_case(name, CORE_TYPES)
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Returns whether the text can be a type: `prefix:name` or a URI.
pub(super) fn is_type(text: &str) -> bool {
    let Some((prefix, name)) = text.split_once(':') else { return false };
    prefix.starts_with(|c: char| c.is_ascii_alphabetic())
        && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'_' | b'-'))
        && !name.is_empty()
        && !name.bytes().any(|b| b <= b' ' || b == 0x7f)
}

/// Checks the type and returns the kind of document. Returns `None` for an unknown message type.
fn check_type(object: &Object<'_>, out: &mut Findings) -> Option<DocumentType> {
    let path = Path::top("type");
    let Some(json) = object.get("type") else { return Some(DocumentType::OtherEvent) };
    let Some(text) = json.text() else {
        out.add(Rule::TypeFormat, path, format_args!("type must be a string, not {}.", json.kind()));
        return Some(DocumentType::OtherEvent);
    };
    if let Some(core) = CoreType::parse(text) {
        return Some(DocumentType::Core(core));
    }
    let name = Brief(text);
    if text.starts_with("aaep:") || starts_with_ignoring_case(text, CORE_TYPES) {
        let meant = DidYouMean(|| closest_type(text).map(CoreType::as_str));
        let message =
            format_args!("Use one of the twelve core types, or a prefix of your own: {name} does not exist.{meant}");
        out.add(Rule::UnknownType, path, message);
    } else if !text.contains(':') && (text.starts_with("subscription.") || text.ends_with(".reply")) {
        let meant = DidYouMean(|| closest_message(text));
        let message = format_args!("Use one of the seven message types: {name} does not exist.{meant}");
        out.add(Rule::MessageUnknownType, path, message);
        return None;
    } else if !is_type(text) {
        let meant = DidYouMean(|| closest_type(text).map(CoreType::as_str));
        let message = format_args!("type must be prefix:name or a URI, such as aaep:agent.tool.invoked.{meant}");
        out.add(Rule::TypeFormat, path, message);
    }
    Some(DocumentType::OtherEvent)
}

fn check_fields(object: &Object<'_>, core: Option<CoreType>, out: &mut Findings) -> Walk {
    let mut walk = Walk { envelope: 0, payload: 0, human_text: false };
    let payload = core.map(CoreType::shape);
    let (mut at, mut payload_at) = (0, 0);
    let mut in_payload = false;
    for (name, json) in object.iter() {
        let path = Path::top(name);
        // Fields of the envelope and of the payload are usually grouped, so the schema of the last one is tried first.
        if !in_payload && let Some(index) = ENVELOPE.find(name, &mut at) {
            check_envelope_field(index, json, &mut walk, path, out);
        } else if name == "type" {
        } else if let Some((shape, index)) = payload.and_then(|s| Some((s, s.find(name, &mut payload_at)?))) {
            in_payload = true;
            walk.payload |= 1 << index;
            let kind = &shape.fields[index].kind;
            walk.human_text |= speaks(kind, json);
            value::check(kind, json, shape.rules, path, out);
        } else if in_payload && let Some(index) = ENVELOPE.find(name, &mut at) {
            in_payload = false;
            check_envelope_field(index, json, &mut walk, path, out);
        } else {
            check_other(name, json, payload, &mut walk, out);
        }
    }
    walk
}

fn check_envelope_field(index: usize, json: &Json<'_>, walk: &mut Walk, path: Path<'_>, out: &mut Findings) {
    walk.envelope |= 1 << index;
    let field = &ENVELOPE.fields[index];
    let rules = RuleSet::all(envelope_rule(field.name));
    value::check(&field.kind, json, &rules, path, out);
}

/// Returns whether a value contains human-readable text, which needs a language.
fn speaks(kind: &FieldType, json: &Json<'_>) -> bool {
    match kind {
        FieldType::Human { .. } => true,
        FieldType::List { of, .. } => json.items().is_some_and(|items| items.iter().any(|item| speaks(of, item))),
        FieldType::Object(shape) => {
            let speaks = |f: &Field| json.get(f.name).is_some_and(|json| speaks(&f.kind, json));
            shape.fields.iter().any(speaks)
        }
        _ => false,
    }
}

/// Checks a field that is in neither schema.
fn check_other(
    name: &str,
    json: &Json<'_>,
    payload: Option<&'static ObjectSchema>,
    walk: &mut Walk,
    out: &mut Findings,
) {
    let path = Path::top(name);
    if starts_with_ignoring_case(name, "aaep_") || name.starts_with('@') {
        let meant = DidYouMean(|| closest(name, ENVELOPE.names()));
        let message = format_args!("Remove {}: the protocol keeps this name for itself.{meant}", Brief(name));
        out.add(Rule::ForbiddenField, path, message);
        return;
    }
    let Some(shape) = payload else {
        // Subscribers announce the summaries of unknown extension events too.
        let heard = is_summary(name);
        walk.human_text |= heard && json.text().is_some();
        return value::check_free(json, path, Free { depth: 2, heard }, out);
    };
    match variant_of(name, shape) {
        Some(kind) => value::check(kind, json, shape.rules, path, out),
        None => {
            let meant = DidYouMean(|| closest(name, shape.names().chain(ENVELOPE.names())));
            let message = format_args!("Move {} under extensions: this event has no such field.{meant}", Brief(name));
            out.add(Rule::CustomField, path, message);
        }
    }
}

/// The summary fields, which announce an event of any type.
const SUMMARIES: [&str; 3] = ["summary_terse", "summary_normal", "summary_detailed"];

/// Returns whether this is the name of a summary field, in any language.
pub(crate) fn is_summary(name: &str) -> bool {
    SUMMARIES.iter().any(|field| is_field_or_variant(name, field))
}

/// Returns whether a name is that of a field or of its variant in another language.
fn is_field_or_variant(name: &str, field: &str) -> bool {
    name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.strip_prefix('_').is_some_and(is_field_suffix))
}

/// Returns the type of the text field whose language variant this is: `summary_normal` for `summary_normal_yo`.
/// Returns `None` if it is not a variant.
fn variant_of(name: &str, shape: &'static ObjectSchema) -> Option<&'static FieldType> {
    shape.fields.iter().filter(|f| matches!(f.kind, FieldType::Human { .. })).find_map(|f| {
        let suffix = name.strip_prefix(f.name)?.strip_prefix('_')?;
        is_field_suffix(suffix).then_some(&f.kind)
    })
}

fn check_required(object: &Object<'_>, core: Option<CoreType>, walk: &Walk, out: &mut Findings) {
    if !object.contains("type") {
        out.add(Rule::EnvelopeRequired, Path::top("type"), "Add type: every event needs it.");
    }
    for (index, field) in ENVELOPE.fields.iter().enumerate() {
        if field.required && walk.envelope & (1 << index) == 0 {
            let message = format_args!("Add {}: every event needs it.", field.name);
            out.add(Rule::EnvelopeRequired, Path::top(field.name), message);
        }
    }
    let Some(shape) = core.map(CoreType::shape) else { return };
    for (index, field) in shape.fields.iter().enumerate() {
        if field.required && walk.payload & (1 << index) == 0 {
            let message = format_args!("Add {}: this type of event needs it.", field.name);
            out.add(Rule::PayloadRequired, Path::top(field.name), message);
        }
    }
}

fn check_language(object: &Object<'_>, human_text: bool, out: &mut Findings) {
    if human_text && primary_language(object).is_none() {
        let message = "Add localization_hints.primary_language, so that the text is spoken in the right voice.";
        let path = Path::top("localization_hints");
        out.add(Rule::LanguageDeclared, path.field("primary_language"), message);
    }
}

fn primary_language<'j, 'a>(object: &'j Object<'a>) -> Option<&'j Json<'a>> {
    object.get("localization_hints").and_then(|h| h.get("primary_language"))
}

/// Checks the rules between the fields of a core event.
fn check_core(core: CoreType, object: &Object<'_>, out: &mut Findings) {
    check_urgency(core, object, out);
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

fn check_urgency(core: CoreType, object: &Object<'_>, out: &mut Findings) {
    let path = Path::top("urgency");
    let urgency = object.get("urgency").and_then(Json::text).unwrap_or("normal");
    if core.must_be_critical() {
        if urgency != "critical" {
            let message = "Set urgency to critical: this event must never be filtered or delayed.";
            out.add(Rule::UrgencyCritical, path, message);
        }
        return;
    }
    let (fitting, wanted): (&[&str], &str) = match core {
        CoreType::ProgressUpdated => (&["background"], "background"),
        CoreType::StateChanged => (&["background", "normal"], "background or normal"),
        _ => (&["normal"], "normal"),
    };
    if !fitting.contains(&urgency) {
        let message =
            format_args!("Set urgency to {wanted}: that fits this type of event better than {}.", Brief(urgency));
        out.add(Rule::UrgencyRecommended, path, message);
    }
}

/// Checks the table of 6.4.1. An unstated risk counts as more than low.
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
            out.add(Rule::DefaultShouldReject, Path::top("default_decision"), message);
        }
        (true, _) => {
            let message = "Set default_decision to reject: the action cannot be undone, so silence must not start it.";
            out.add(Rule::DefaultReject, Path::top("default_decision"), message);
        }
        (false, Some("high")) => {
            let message = "Prefer reject: the risk is high and nobody may have heard the question.";
            out.add(Rule::DefaultShouldReject, Path::top("default_decision"), message);
        }
        (false, _) => {}
    }
}

fn check_allowed_replies(object: &Object<'_>, out: &mut Findings) {
    let Some(items) = object.get("allowed_replies").and_then(Json::items) else { return };
    let replies: Vec<&str> = items.iter().filter_map(Json::text).collect();
    if replies.iter().any(|r| !matches!(*r, "accept" | "reject")) {
        let message = "Allow accept and reject only: a reply cannot say anything else.";
        out.add(Rule::AllowedReplies, Path::top("allowed_replies"), message);
    } else if let Some(default) = object.get("default_decision").and_then(Json::text)
        && !replies.contains(&default)
    {
        out.add(
            Rule::AllowedReplies,
            Path::top("allowed_replies"),
            format_args!("Allow {default} too: it is what happens on timeout."),
        );
    }
}

fn check_choices(object: &Object<'_>, out: &mut Findings) {
    let kinds = object.get("accepted_response_kinds").and_then(Json::items).unwrap_or(&[]);
    if kinds.iter().any(|k| k.text() == Some("multiple_choice")) && !object.contains("choices") {
        out.add(
            Rule::Choices,
            Path::top("choices"),
            "Add choices: a multiple-choice question cannot be answered without them.",
        );
    }
}

/// Checks texts that the user decides by for hidden or look-alike characters, in every language variant.
fn check_deceptive(object: &Object<'_>, fields: &[&str], out: &mut Findings) {
    let primary = primary_language(object).and_then(Json::text);
    for (name, json) in object.iter() {
        if let Some(field) = fields.iter().chain(&SUMMARIES).find(|field| is_field_or_variant(name, field)) {
            let language = name[field.len()..].strip_prefix('_').or(primary);
            check_deceptive_text(json, language, Path::top(name), out);
        }
    }
    for (i, choice) in object.get("choices").and_then(Json::items).unwrap_or(&[]).iter().enumerate() {
        if let Some(label) = choice.get("label") {
            let choices = Path::top("choices");
            check_deceptive_text(label, primary, choices.item(i).field("label"), out);
        }
    }
}

fn check_deceptive_text(json: &Json<'_>, language: Option<&str>, path: Path<'_>, out: &mut Findings) {
    if let Some(deception) = json.text().and_then(|text| find_deception_in(text, language)) {
        let message = format_args!("Remove {deception} from {}: the user decides by this text.", path.name());
        out.add(Rule::DeceptiveText, path, message);
    }
}
