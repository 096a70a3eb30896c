//! Checks that the context of an event declares the vocabularies of its extensions (chapter 7).

use super::event::{is_core_name, is_type};
use super::path::{Brief, Path};
use super::{Findings, value};
use crate::json::{Json, Object};
use crate::message::CORE_CONTEXT;
use crate::rule::Rule;

/// The vocabularies of one event and how many are used.
struct Vocabularies<'j> {
    uris: Vec<&'j str>,
    known: &'j [(String, String)],
    /// The number of vocabularies that belong to no known extension.
    free: usize,
    /// The number of prefixes that belong to no known extension.
    counted: usize,
}

/// Checks the prefix of an extension's type, then those of its data. `by_extension` is true if the type is not a core
/// type.
pub(super) fn check(object: &Object<'_>, by_extension: bool, known: &[(String, String)], out: &mut Findings) {
    let mut vocabularies = Vocabularies::of(object, known);
    let type_name = object.get("type").and_then(Json::text).filter(|t| by_extension && is_type(t));
    let prefix = type_name.and_then(|name| check_type(name, &mut vocabularies, out));
    let extensions = object.get("extensions").and_then(Json::object);
    for (name, _) in extensions.iter().flat_map(|e| e.iter()).filter(|(name, _)| !value::is_reserved(name)) {
        if prefix != Some(name) && !vocabularies.declare(name) {
            undeclared(name, Path::top("extensions").field(name), out);
        }
    }
}

/// Checks that the vocabulary of an extension's event type is declared. Returns its prefix, if it has one.
fn check_type<'t>(name: &'t str, vocabularies: &mut Vocabularies<'_>, out: &mut Findings) -> Option<&'t str> {
    let (prefix, rest) = name.split_once(':')?;
    let path = Path::top("type");
    // Unknown core types are reported elsewhere.
    if prefix == "aaep" || (is_core_name(name) && rest.starts_with("//")) {
        return None;
    }
    if value::is_reserved(prefix) {
        out.add(Rule::ReservedPrefix, path, format_args!("Choose another prefix: {} is reserved.", Brief(prefix)));
        return None;
    }
    if rest.starts_with("//") {
        // A full URI has no prefix, so its vocabulary is unknown.
        if vocabularies.uris.is_empty() {
            out.add(Rule::UndeclaredPrefix, path, "Name the vocabulary of this type in @context.");
        }
        return None;
    }
    if !vocabularies.declare(prefix) {
        undeclared(prefix, path, out);
    }
    Some(prefix)
}

fn undeclared(prefix: &str, path: Path<'_>, out: &mut Findings) {
    out.add(Rule::UndeclaredPrefix, path, format_args!("Name the vocabulary of {} in @context.", Brief(prefix)));
}

impl<'j> Vocabularies<'j> {
    fn of(object: &'j Object<'_>, known: &'j [(String, String)]) -> Vocabularies<'j> {
        let items = object.get("@context").and_then(Json::items).unwrap_or(&[]);
        let mut uris: Vec<&str> = items.iter().filter_map(Json::text).filter(|uri| *uri != CORE_CONTEXT).collect();
        uris.sort_unstable();
        uris.dedup();
        let free = uris.iter().filter(|uri| !known.iter().any(|(_, known)| known == *uri)).count();
        Vocabularies { uris, known, free, counted: 0 }
    }

    /// Returns whether the context declares a prefix. A known extension needs its vocabulary. Unknown extensions are
    /// only counted, since each has one vocabulary and one prefix.
    fn declare(&mut self, prefix: &str) -> bool {
        if let Some((_, uri)) = self.known.iter().find(|(known, _)| known == prefix) {
            return self.uris.binary_search(&uri.as_str()).is_ok();
        }
        self.counted += 1;
        self.counted <= self.free
    }
}
