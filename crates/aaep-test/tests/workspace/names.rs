//! One name, one type.

use std::collections::BTreeMap;

use crate::source::{read, rust_files, without_tests};

/// Type names that occur more than once, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("Certificates", "With and without the feature tls; only one of them is compiled."),
    ("ClientAuthorities", "With and without the feature tls; only one of them is compiled."),
    ("ClientCertificate", "With and without the feature tls; only one of them is compiled."),
    ("Confirmation", "A confirmation as the sequence checker and as the agent see it."),
    ("ForwardedSignals", "One type for each operating system; only one of them is compiled."),
    ("LocalListener", "One listener for each operating system; only one of them is compiled."),
    ("LocalStream", "One connection for each operating system; only one of them is compiled."),
    ("Presence", "Whether a subscription or an agent is connected, private to each module."),
    ("Punctuation", "The setting of a profile and its value in SSIP: the same levels."),
    ("Question", "A question as the sequence checker, the engine and the agent see it."),
    ("Questions", "The open questions of the sequence checker and of the engine."),
    ("SessionState", "The state of one session in the engine and in the announcer, both private."),
    ("Shared", "State shared with a task or thread, private to each module."),
    ("Subscriber", "The state machine of the core and its tokio API, like Connection in quinn-proto and quinn."),
];

/// Returns the name of the type that a line declares.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    // `pub(in path)` has a second word.
    let keyword = words.find(|word| !word.ends_with(')'))?;
    if !["struct", "enum", "trait"].contains(&keyword) {
        return None;
    }
    let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    name.starts_with(char::is_uppercase).then_some(name)
}

/// Returns the files that declare each type. Tests, benches, binaries of the test crate and macro bodies are left out:
/// only declarations at the start of a line count, which are those of modules.
fn declarations() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files() {
        let is_source = file.split('/').nth(2) == Some("src") && !file.starts_with("crates/aaep-grpc/");
        if !is_source || file.ends_with("tests.rs") || file.ends_with("test_support.rs") || file.contains("/tests/") {
            continue;
        }
        for name in without_tests(&read(&file)).lines().filter_map(declared_type) {
            found.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(found.len() > 300, "found only {} types", found.len());
    found
}

#[test]
fn type_names_are_unique_or_have_a_reason() {
    let found = declarations();
    let mut wrong = Vec::new();
    for (name, files) in &found {
        if files.len() > 1 && !ALLOWED.iter().any(|(allowed, _)| allowed == name) {
            wrong.push(format!("{name}: {}", files.join(", ")));
        }
    }
    for (name, reason) in ALLOWED {
        if found.get(*name).is_none_or(|files| files.len() < 2) {
            wrong.push(format!("{name} is unique: remove it from ALLOWED"));
        }
        assert!(reason.len() > 20, "{name} needs a reason");
    }
    assert!(wrong.is_empty(), "rename these types or give a reason in ALLOWED:\n{}", wrong.join("\n"));
}

#[test]
fn declarations_are_recognized() {
    for (line, name) in [
        ("pub struct Link {", Some("Link")),
        ("pub(crate) enum End<'a> {", Some("End")),
        ("pub(in crate::engine) struct Timers(u8);", Some("Timers")),
        ("trait Source: Send {", Some("Source")),
        ("    struct Inner;", Some("Inner")),
        ("impl Link {", None),
        ("// struct Comment", None),
    ] {
        assert_eq!(declared_type(line), name, "{line}");
    }
}
