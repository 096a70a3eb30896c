//! Checks a value against the type of its field.

use std::fmt;

use super::Findings;
use super::path::{Brief, Path};
use super::secret::{find_secret, is_secret_field};
use super::suggest::{DidYouMean, closest};
use crate::json::{Json, Object};
use crate::limits;
use crate::message::CORE_CONTEXT;
use crate::message::field_types::{MAX_EXACT, TAG_FORM, TIMESTAMP_FORM, URI};
use crate::record::{FieldType, ObjectSchema, Pattern, RuleSet, UnknownFields};
use crate::rule::Rule;

/// Checks a value. `rules` are the rules under which violations are reported.
pub(super) fn check(kind: &FieldType, json: &Json<'_>, rules: &RuleSet, path: Path<'_>, out: &mut Findings) {
    match kind {
        FieldType::Human { min, max } | FieldType::Name { min, max } | FieldType::Text { min, max } => {
            if let Some(text) = text(json, rules, path, out) {
                let fits = check_length(text, (*min, *max), rules, path, out);
                // Text that is too long is invalid anyway, so it is not scanned.
                if fits && !matches!(kind, FieldType::Text { .. }) {
                    check_human(text, path, out);
                }
            }
        }
        FieldType::Pattern(pattern) => check_pattern(pattern, json, rules, path, out),
        FieldType::OneOf(words) => {
            if let Some(text) = text(json, rules, path, out)
                && !words.contains(&text)
            {
                out.add(rules.word, path, format_args!("{} must be one of: {}.", path.name(), words.join(", ")));
            }
        }
        FieldType::Integer { min, max } => check_integer(json, (*min, *max), rules, path, out),
        FieldType::OneOfIntegers(numbers) => {
            if !json.integer().is_some_and(|n| numbers.iter().any(|m| i128::from(*m) == n)) {
                out.add(rules.word, path, format_args!("{} must be one of {numbers:?}.", path.name()));
            }
        }
        FieldType::Number { min, max } => match json.number() {
            None => wrong_type("a number", json, rules, path, out),
            Some(n) if n < *min || n > *max => {
                out.add(rules.limit, path, format_args!("{} must be from {min} to {max}.", path.name()));
            }
            Some(_) => {}
        },
        FieldType::Boolean => {
            if json.boolean().is_none() {
                wrong_type("true or false", json, rules, path, out);
            }
        }
        FieldType::List { of, min, max, unique } => match json.items() {
            None => wrong_type("an array", json, rules, path, out),
            Some(items) => {
                check_list(items, (*min, *max, *unique), rules, path, out);
                check_items(of, items, rules, path, out);
            }
        },
        FieldType::Object(shape) => match json.object() {
            None => no_object(shape, json, path, out),
            Some(object) => check_shape(shape, object, path, out),
        },
        FieldType::AnyObject | FieldType::HumanObject => match json {
            Json::Object(_) => {
                check_free(json, path, Free { depth: 2, heard: matches!(kind, FieldType::HumanObject) }, out)
            }
            _ => wrong_type("an object", json, rules, path, out),
        },
        FieldType::Extensions => check_extensions(json, path, out),
        FieldType::Context => check_context(json, path, out),
        FieldType::Response => match json {
            Json::String(text) => drop(check_length(text, (1, 16384), rules, path, out)),
            Json::Bool(_) | Json::Number(_) => {}
            _ => wrong_type("text, a number, or true or false", json, rules, path, out),
        },
    }
}

/// Checks each item of a list. If items are not objects although they must be, only the first of them is reported: who
/// writes one text for an object writes all of them.
fn check_items(of: &FieldType, items: &[Json<'_>], rules: &RuleSet, path: Path<'_>, out: &mut Findings) {
    let mut reported = false;
    for (index, item) in items.iter().enumerate() {
        let no_object = matches!(of, FieldType::Object(_)) && item.object().is_none();
        if !no_object || !std::mem::replace(&mut reported, true) {
            check(of, item, rules, path.item(index), out);
        }
    }
}

/// Reports a value that must be an object, with an example of one.
fn no_object(shape: &ObjectSchema, json: &Json<'_>, path: Path<'_>, out: &mut Findings) {
    let (name, example, found) = (path.name(), Example(shape), json.kind());
    out.add(shape.rules.wrong_type, path, format_args!("{name} must be an object such as {example}, not {found}."));
}

/// The smallest object that a schema permits, such as `{"value": "a", "label": "A"}`.
struct Example<'s>(&'s ObjectSchema);

impl fmt::Display for Example<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let required = self.0.fields.iter().filter(|field| field.required);
        // Where nothing is required, one field shows what is meant.
        let first = self.0.fields.iter().take(usize::from(required.clone().next().is_none()));
        f.write_str("{")?;
        for (index, field) in required.chain(first).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}\"{}\": ", field.name)?;
            write_example(&field.kind, f)?;
        }
        f.write_str("}")
    }
}

fn write_example(kind: &FieldType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match kind {
        FieldType::Human { .. } | FieldType::Name { .. } => f.write_str("\"A\""),
        FieldType::Text { .. } | FieldType::Response => f.write_str("\"a\""),
        FieldType::Pattern(_) | FieldType::Context => f.write_str("\"...\""),
        FieldType::OneOf(words) => write!(f, "\"{}\"", words.first().unwrap_or(&"")),
        FieldType::Integer { min, .. } => write!(f, "{}", min.max(&1)),
        FieldType::OneOfIntegers(numbers) => write!(f, "{}", numbers.first().unwrap_or(&0)),
        FieldType::Number { max, .. } => write!(f, "{max}"),
        FieldType::Boolean => f.write_str("true"),
        FieldType::List { of, .. } => {
            f.write_str("[")?;
            write_example(of, f)?;
            f.write_str("]")
        }
        FieldType::Object(shape) => write!(f, "{}", Example(shape)),
        FieldType::AnyObject | FieldType::HumanObject | FieldType::Extensions => f.write_str("{}"),
    }
}

/// Checks the fields of an object against its schema.
pub(super) fn check_shape(shape: &ObjectSchema, object: &Object<'_>, path: Path<'_>, out: &mut Findings) {
    check_duplicate(object, path, out);
    let mut seen = 0u64;
    let mut cursor = 0;
    for (name, value) in object.iter() {
        if let Some(index) = shape.find(name, &mut cursor) {
            seen |= 1 << index;
            check(&shape.fields[index].kind, value, shape.rules, path.field(name), out);
            continue;
        }
        match (shape.unknown, path) {
            // The `type` of a message was checked to choose the schema.
            (_, Path::Root) if name == "type" => {}
            (UnknownFields::Denied, _) => {
                let meant = DidYouMean(|| closest(name, shape.names()));
                let message = format_args!("Remove {}: it does not belong here.{meant}", Brief(name));
                out.add(shape.rules.unknown, path.field(name), message);
            }
            (UnknownFields::Objects, _) if is_reserved(name) => {
                let message = format_args!("Choose another prefix: {} is reserved.", Brief(name));
                out.add(Rule::ReservedPrefix, path.field(name), message);
            }
            (UnknownFields::Objects, _) if value.object().is_none() => {
                let meant = DidYouMean(|| closest(name, shape.names()));
                let message = format_args!(
                    "{} is no capability of the protocol, so it must be an object of an extension.{meant}",
                    Brief(name)
                );
                out.add(shape.rules.unknown, path.field(name), message);
            }
            _ => check_free(value, path.field(name), Free { depth: 2, heard: false }, out),
        }
    }
    for (index, field) in shape.fields.iter().enumerate() {
        if field.required && seen & (1 << index) == 0 {
            out.add(shape.rules.required, path.field(field.name), format_args!("Add {}: it is required.", field.name));
        }
    }
    if object.len() < shape.min_fields {
        out.add(shape.rules.limit, path, format_args!("{} needs at least one field.", path.name()));
    }
}

/// Checks for duplicate keys, which parsers interpret differently.
pub(super) fn check_duplicate(object: &Object<'_>, path: Path<'_>, out: &mut Findings) {
    if let Some(name) = object.duplicate() {
        let message = format_args!("Write {} once: readers disagree about which value counts.", Brief(name));
        out.add(Rule::DuplicateKey, path.field(name), message);
    }
}

/// Checks human-readable text for secrets.
pub(super) fn check_human(text: &str, path: Path<'_>, out: &mut Findings) {
    if let Some(secret) = find_secret(text) {
        let message = format_args!("Remove the {} from {}: people hear this text.", secret.kind, path.name());
        out.add(Rule::Secret, path, message);
    }
}

/// The context of a value without a schema.
#[derive(Clone, Copy)]
pub(super) struct Free {
    /// The nesting depth of the value; that of the document is 1.
    pub(super) depth: usize,
    /// Whether its text may be announced.
    pub(super) heard: bool,
}

/// Checks a value without a schema against the rules for all JSON of the protocol.
pub(super) fn check_free(json: &Json<'_>, path: Path<'_>, free: Free, out: &mut Findings) {
    let inside = Free { depth: free.depth + 1, ..free };
    match json {
        // A number with a fraction or an exponent is not an integer.
        Json::Number(n) if !n.is_f64() && json.integer().is_some_and(|n| n.unsigned_abs() > MAX_EXACT as u128) => {
            out.add(Rule::IntegerRange, path, format_args!("Write {n} as a string: it is beyond 2^53."));
        }
        Json::String(text) => {
            check_string_size(text, path, out);
            if free.heard {
                check_human(text, path, out);
            }
        }
        Json::Array(items) => {
            check_depth(free.depth, path, out);
            for (i, item) in items.iter().enumerate() {
                check_free(item, path.item(i), inside, out);
            }
        }
        Json::Object(object) => {
            check_depth(free.depth, path, out);
            check_duplicate(object, path, out);
            for (name, value) in object.iter() {
                check_free(value, path.field(name), inside, out);
                if free.heard
                    && value.text().is_some_and(|text| is_secret_field(name, text) && find_secret(text).is_none())
                {
                    let message = format_args!("Remove the password from {}: people hear this text.", Brief(name));
                    out.add(Rule::Secret, path.field(name), message);
                }
            }
        }
        _ => {}
    }
}

fn check_depth(depth: usize, path: Path<'_>, out: &mut Findings) {
    // Reported only at the level that crosses the limit.
    if depth == limits::NESTING_LEVELS + 1 {
        out.add(
            Rule::Depth,
            path,
            format_args!("Flatten it: an event should nest at most {} deep.", limits::NESTING_LEVELS),
        );
    }
}

fn check_string_size(text: &str, path: Path<'_>, out: &mut Findings) {
    if text.len() > limits::STRING_BYTES {
        let (length, most) = (text.len(), limits::STRING_BYTES);
        let message = format_args!("Shorten {}: {length} bytes are more than {most}.", path.name());
        out.add(Rule::StringSize, path, message);
    }
}

fn text<'j>(json: &'j Json<'_>, rules: &RuleSet, path: Path<'_>, out: &mut Findings) -> Option<&'j str> {
    let text = json.text();
    if text.is_none() {
        wrong_type("a string", json, rules, path, out);
    }
    text
}

fn wrong_type(wanted: &str, json: &Json<'_>, rules: &RuleSet, path: Path<'_>, out: &mut Findings) {
    out.add(rules.wrong_type, path, format_args!("{} must be {wanted}, not {}.", path.name(), json.kind()));
}

/// Returns whether the text is not too long.
fn check_length(text: &str, (min, max): (usize, usize), rules: &RuleSet, path: Path<'_>, out: &mut Findings) -> bool {
    check_string_size(text, path, out);
    if text.len() < min {
        out.add(rules.limit, path, format_args!("{} must not be empty.", path.name()));
    }
    // A text has at most as many characters as bytes, so only long text is counted.
    let count = if text.len() > max { text.chars().count() } else { 0 };
    if count > max {
        let message = format_args!("Shorten {}: {count} characters are more than {max}.", path.name());
        out.add(rules.limit, path, message);
    }
    count <= max
}

fn check_pattern(pattern: &'static Pattern, json: &Json<'_>, rules: &RuleSet, path: Path<'_>, out: &mut Findings) {
    let Some(text) = text(json, rules, path, out) else { return };
    if !(pattern.matches)(text) {
        let rule = if std::ptr::eq(pattern, &TAG_FORM) {
            Rule::LanguageTag
        } else if std::ptr::eq(pattern, &TIMESTAMP_FORM) && has_timestamp_shape(text) {
            Rule::TimestampDay
        } else {
            rules.format
        };
        out.add(rule, path, format_args!("{} {}.", path.name(), pattern.description));
    }
    check_string_size(text, path, out);
}

/// Returns whether only the day does not exist: with the first of the month it would be a timestamp.
fn has_timestamp_shape(text: &str) -> bool {
    let Some(day) = text.get(8..10) else { return false };
    matches!(day, "29" | "30" | "31") && (TIMESTAMP_FORM.matches)(&format!("{}01{}", &text[..8], &text[10..]))
}

fn check_integer(json: &Json<'_>, (min, max): (i64, i64), rules: &RuleSet, path: Path<'_>, out: &mut Findings) {
    match json.integer() {
        None => wrong_type("a whole number", json, rules, path, out),
        Some(n) if n < i128::from(min) || n > i128::from(max) => {
            out.add(rules.limit, path, format_args!("{} must be from {min} to {max}.", path.name()));
        }
        Some(_) => {}
    }
}

fn check_list(
    items: &[Json<'_>],
    (min, max, unique): (usize, usize, bool),
    rules: &RuleSet,
    path: Path<'_>,
    out: &mut Findings,
) {
    if items.len() < min || items.len() > max {
        let name = path.name();
        match max {
            usize::MAX => out.add(rules.limit, path, format_args!("{name} needs at least {min}.")),
            _ => out.add(rules.limit, path, format_args!("{name} must have from {min} to {max} items.")),
        }
    }
    if unique && let Some(index) = first_repeated(items) {
        out.add(rules.limit, path.item(index), format_args!("Name each item of {} once.", path.name()));
    }
}

/// Returns the index of the first item that equals an earlier one. Long lists are sorted, so that hostile input does
/// not take quadratic time.
fn first_repeated(items: &[Json<'_>]) -> Option<usize> {
    if items.len() <= 16 {
        return (1..items.len()).find(|&i| items[..i].iter().any(|other| same(other, &items[i])));
    }
    let mut texts: Vec<(String, usize)> = items.iter().enumerate().map(|(i, item)| (canonical(item), i)).collect();
    texts.sort();
    texts.windows(2).filter(|w| w[0].0 == w[1].0).map(|w| w[1].1).min()
}

fn same(a: &Json<'_>, b: &Json<'_>) -> bool {
    match (a, b) {
        (Json::String(a), Json::String(b)) => a == b,
        (Json::String(_), _) | (_, Json::String(_)) => false,
        _ => canonical(a) == canonical(b),
    }
}

/// Returns a text that is equal for values that are equal in JSON Schema: keys sorted, `1.0` as `1`.
fn canonical(json: &Json<'_>) -> String {
    match json {
        Json::Number(_) => match json.integer() {
            Some(n) => n.to_string(),
            None => json.to_value().to_string(),
        },
        Json::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Json::Object(object) => {
            let mut fields: Vec<_> =
                object.iter().map(|(k, v)| format!("{}:{}", serde_json::Value::from(k), canonical(v))).collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_value().to_string(),
    }
}

fn check_context(json: &Json<'_>, path: Path<'_>, out: &mut Findings) {
    match json {
        Json::String(text) if text == CORE_CONTEXT => {}
        Json::Array(items) if items.first().and_then(Json::text) == Some(CORE_CONTEXT) => {
            let FieldType::Pattern(uri) = URI else { return };
            for (i, item) in items.iter().enumerate().skip(1) {
                if !item.text().is_some_and(uri.matches) {
                    out.add(Rule::Context, path.item(i), "Each further item of @context must be a URI.");
                }
            }
        }
        _ => {
            let message = format_args!("@context must be {CORE_CONTEXT}, alone or first in an array of URIs.");
            out.add(Rule::Context, path, message);
        }
    }
}

fn check_extensions(json: &Json<'_>, path: Path<'_>, out: &mut Findings) {
    let Some(object) = json.object() else {
        out.add(Rule::ExtensionShape, path, format_args!("extensions must be an object, not {}.", json.kind()));
        return;
    };
    check_duplicate(object, path, out);
    for (prefix, value) in object.iter() {
        let here = path.field(prefix);
        if is_reserved(prefix) {
            let message = format_args!("Choose another prefix: {} is reserved.", Brief(prefix));
            out.add(Rule::ReservedPrefix, here, message);
        }
        match value {
            Json::Object(_) => check_free(value, here, Free { depth: 3, heard: false }, out),
            _ => {
                let message = format_args!("{} must hold an object, not {}.", Brief(prefix), value.kind());
                out.add(Rule::ExtensionShape, here, message);
            }
        }
    }
}

/// Prefixes of the protocol and of the languages that it is defined in.
const RESERVED: [&str; 4] = ["aaep", "xsd", "rdf", "rdfs"];

/// Returns whether extensions may not use a prefix (chapter 7). Case is ignored, since it cannot be heard.
pub(crate) fn is_reserved(prefix: &str) -> bool {
    RESERVED.iter().any(|reserved| prefix.eq_ignore_ascii_case(reserved)) || prefix.starts_with('@')
}
