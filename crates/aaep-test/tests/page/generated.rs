//! The generated files of the page are current: the phrases come from the Fluent files, the look-alike letters from the
//! Unicode tables. `AAEP_WRITE=1` writes them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement, VariantKey};
use serde_json::{Map, Value, json};

fn page() -> PathBuf {
    aaep_test::root().join("crates/aaep-server/page")
}

/// Returns the scripts and the document of the page, without the generated ones.
pub(crate) fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for directory in ["", "client"] {
        for entry in fs::read_dir(page().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|extension| extension == "js" || extension == "html");
            if is_source {
                found.push((
                    path.file_name().unwrap().to_string_lossy().into_owned(),
                    fs::read_to_string(&path).unwrap(),
                ));
            }
        }
    }
    found
}

/// Compares a generated file with what it should be, or writes it.
fn assert_current(name: &str, text: &str) {
    let path = page().join("generated").join(name);
    if std::env::var_os("AAEP_WRITE").is_some() {
        fs::write(&path, text).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == text,
        "{name} is not current: run AAEP_WRITE=1 cargo test -p aaep-test --test page generated"
    );
}

/// Returns a pattern in the form that phrases.js reads.
fn pattern(source: &Pattern<&str>) -> Value {
    let parts: Vec<Value> = source.elements.iter().map(element).collect();
    match &parts[..] {
        [Value::String(text)] => json!(text),
        _ => parts.into(),
    }
}

fn element(source: &PatternElement<&str>) -> Value {
    match source {
        PatternElement::TextElement { value } => json!(value),
        PatternElement::Placeable { expression } => expression_of(expression),
    }
}

fn expression_of(expression: &Expression<&str>) -> Value {
    let variable = |inline: &InlineExpression<&str>| match inline {
        InlineExpression::VariableReference { id } => id.name.to_owned(),
        other => panic!("the page cannot format {other:?}"),
    };
    match expression {
        Expression::Inline(inline) => json!([variable(inline)]),
        Expression::Select { selector, variants } => {
            let forms: Map<String, Value> = variants
                .iter()
                .map(|variant| {
                    let (VariantKey::Identifier { name } | VariantKey::NumberLiteral { value: name }) = &variant.key;
                    // The default has the name that phrases.js falls back to.
                    let name = if variant.default { "other" } else { name };
                    (name.to_owned(), pattern(&variant.value))
                })
                .collect();
            json!([variable(selector), forms])
        }
    }
}

/// Returns the messages of a language, by id.
fn messages(language: &str) -> Vec<(String, Value)> {
    let path = aaep_test::root().join(format!("crates/aaep-announce/locales/{language}.ftl"));
    let text = fs::read_to_string(path).unwrap();
    let resource = fluent_syntax::parser::parse(text.as_str()).unwrap();
    let message = |entry: &Entry<&str>| match entry {
        Entry::Message(message) => Some((message.id.name.to_owned(), pattern(message.value.as_ref()?))),
        _ => None,
    };
    resource.body.iter().filter_map(message).collect()
}

/// Returns every text in quotation marks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split(['"', '\n']).collect()
}

#[test]
fn generated_phrases_are_those_of_the_fluent_files() {
    let sources = sources();
    let used: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| quoted(text)).collect();
    // These ids are made from a name and a kind.
    let is_used = |id: &str| used.contains(id) || id.starts_with("page-kind-");
    for language in ["en", "es", "fr", "de", "ar", "yo"] {
        let mut text = "// Generated from the Fluent files of the announcements; a test compares them.\nexport const phrases = {\n".to_owned();
        for (id, value) in messages(language).into_iter().filter(|(id, _)| is_used(id)) {
            writeln!(text, "  \"{id}\": {value},").unwrap();
        }
        text.push_str("};\n");
        assert_current(&format!("phrases_{language}.js"), &text);
    }
}

#[test]
fn every_phrase_of_the_page_exists_and_is_used() {
    let known: BTreeSet<String> = messages("en").into_iter().map(|(id, _)| id).collect();
    let sources = sources();
    let mut asked = 0;
    for (file, text) in &sources {
        for rest in
            text.split(" t(\"").skip(1).chain(text.split("(t(\"").skip(1)).chain(text.split("data-t=\"").skip(1))
        {
            let id = rest.split('"').next().unwrap();
            assert!(known.contains(id), "{file}: there is no phrase {id}");
            asked += 1;
        }
    }
    assert!(asked > 100, "{asked}");
    let used: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| quoted(text)).collect();
    let unused: Vec<&String> = known
        .iter()
        .filter(|id| id.starts_with("page-") && !id.starts_with("page-kind-") && !used.contains(id.as_str()))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn generated_look_alikes_are_those_of_the_unicode_tables() {
    let ranges = [
        0x370..=0x3ff,
        0x1f00..=0x1fff,
        0x400..=0x52f,
        0x1c80..=0x1c8f,
        0xa640..=0xa69f,
        0x531..=0x589,
        0x13a0..=0x13ff,
        0xab70..=0xabbf,
    ];
    let is_alike = |c: &char| {
        unicode_security::confusable_detection::skeleton(c.encode_utf8(&mut [0; 4])).all(|s| s.is_ascii_alphabetic())
    };
    let letters: String = ranges.into_iter().flatten().filter_map(char::from_u32).filter(is_alike).collect();
    assert!(letters.contains('а') && !letters.contains('ж'), "{letters}");
    let text = format!(
        "// Generated from the Unicode tables of confusable characters; a test compares them.\n\
         // Greek, Cyrillic, Armenian and Cherokee letters that look like Latin ones.\n\
         export const lookAlikes = \"{letters}\";\n"
    );
    assert_current("look_alikes.js", &text);
}
