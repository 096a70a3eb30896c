//! The published schemas are current, and they agree with the validator.

use std::collections::BTreeMap;

use aaep_proto::message::{CoreType, MessageType};
use aaep_proto::validate::DocumentType;
use aaep_proto::{Severity, Validator, schema};
use aaep_server::api;
use aaep_test::{examples, root};
use jsonschema::Validator as Schema;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

#[test]
fn schema_files_are_current() {
    let mut files = 0;
    for entry in schema::all() {
        let path = root().join("schemas").join(&entry.path);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let current = format!("{:#}\n", entry.schema());
        assert!(text == current, "{} is stale; run: cargo run -p aaep-cli -- schema --write schemas", path.display());
        files += 1;
    }
    assert_eq!(files, 1 + CoreType::ALL.len() + MessageType::ALL.len());
}

#[test]
fn api_documents_are_current() {
    for (name, document) in [("openapi.json", api::openapi()), ("asyncapi.json", api::asyncapi())] {
        let text = std::fs::read_to_string(root().join("schemas").join(name)).unwrap_or_default();
        let current = format!("{document:#}\n");
        assert!(text == current, "{name} is stale; run: cargo run -p aaep-cli -- schema --write schemas");
    }
}

#[test]
fn reference_of_fields_is_current() {
    let text = std::fs::read_to_string(root().join("docs/reference/events.md")).unwrap_or_default();
    let current = schema::reference();
    assert!(text == current, "stale; run: cargo run -p aaep-cli -- schema --markdown > docs/reference/events.md");
}

/// Without any remark: these are the documents that people copy.
#[test]
fn every_example_of_the_reference_is_valid() {
    let schemas = compile();
    let reference = schema::reference();
    let examples = reference.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples: Vec<Value> = examples.map(|text| serde_json::from_str(text).unwrap()).collect();
    let types: Vec<&str> = examples.iter().filter_map(|example| example["type"].as_str()).collect();
    let core = CoreType::ALL.iter().map(|core| core.as_str());
    assert_eq!(types, core.chain(MessageType::ALL.iter().map(|message| message.as_str())).collect::<Vec<_>>());
    for example in &examples {
        let report = Validator::new().check_value(example);
        assert!(report.problems.is_empty(), "{:?} in {example:#}", report.problems);
        assert_eq!(judge(&schemas, example), Ok(true), "{example:#}");
    }
}

#[test]
fn every_schema_compiles() {
    for entry in schema::all() {
        assert!(jsonschema::meta::is_valid(&entry.schema()), "{}", entry.name);
    }
}

#[test]
fn examples_are_valid_for_schemas_and_validator() {
    let schemas = compile();
    for document in examples() {
        assert_eq!(judge(&schemas, &document), Ok(true), "{document:#}");
    }
}

/// Validator and schemas agree on every mutated document, except for rules that a schema cannot express.
#[test]
fn validator_and_schemas_agree_on_mutated_documents() {
    const CASES: u32 = 12_000;
    let schemas = compile();
    let documents = examples();
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let counts = std::cell::Cell::new((0u32, 0u32));
    let strategy = (0..documents.len(), proptest::collection::vec(mutation(), 0..4));
    let result = runner.run(&strategy, |(index, mutations)| {
        let mut document = documents[index].clone();
        for mutation in &mutations {
            mutation.apply(&mut document);
        }
        let resolution = judge(&schemas, &document);
        let (valid, invalid) = counts.get();
        match resolution {
            Ok(true) => counts.set((valid + 1, invalid)),
            Ok(false) => counts.set((valid, invalid + 1)),
            Err(reason) => return Err(TestCaseError::fail(format!("{reason}\n{document:#}"))),
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let (valid, invalid) = counts.get();
    println!("agreed on {valid} valid and {invalid} invalid documents");
    // A generator of only valid or only invalid documents would prove nothing.
    assert!(valid > CASES / 10 && invalid > CASES / 10, "{valid} valid, {invalid} invalid");
}

fn compile() -> BTreeMap<String, Schema> {
    schema::all().into_iter().map(|e| (e.name.clone(), jsonschema::validator_for(&e.schema()).unwrap())).collect()
}

/// Returns whether both accept the document, or how they differ.
fn judge(schemas: &BTreeMap<String, Schema>, document: &Value) -> Result<bool, String> {
    let report = Validator::new().check_value(document);
    let name = match report.document {
        Some(DocumentType::Core(core)) => core.as_str().trim_start_matches("aaep:"),
        Some(DocumentType::Message(MessageType::Manifest)) => "manifest",
        Some(DocumentType::Message(MessageType::CancellationRequest)) => "cancellation.request",
        Some(DocumentType::Message(MessageType::CancellationRefused)) => "cancellation.refused",
        Some(DocumentType::Message(message)) => message.as_str(),
        Some(DocumentType::OtherEvent) | None => "envelope",
        Some(other) => panic!("{other:?} needs a schema here"),
    };
    let ours = !report.problems.iter().any(|p| p.severity == Severity::Error && !p.rule.prose_only());
    let theirs = schemas[name].is_valid(document);
    if ours == theirs {
        return Ok(ours);
    }
    let errors: Vec<String> =
        schemas[name].iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    Err(format!("validator: {ours} {:?}\nschema {name}: {theirs} {errors:?}", report.problems))
}

/// One change of a document.
#[derive(Clone, Debug)]
enum Mutation {
    Remove(usize),
    Set(usize, Value),
    Add(String, Value),
    Rename(usize, String),
    Nested(usize, Box<Mutation>),
    Repeat(usize),
    /// Changes any text field, selected by its position, so that limits and formats are tested often.
    Text(usize, String),
}

impl Mutation {
    fn apply(&self, document: &mut Value) {
        let Some(map) = document.as_object_mut() else { return };
        let name_at = |map: &Map<String, Value>, i: usize| map.keys().nth(i % map.len().max(1)).cloned();
        match self {
            Mutation::Remove(i) => {
                if let Some(name) = name_at(map, *i) {
                    map.remove(&name);
                }
            }
            Mutation::Set(i, value) => {
                if let Some(name) = name_at(map, *i) {
                    map.insert(name, value.clone());
                }
            }
            Mutation::Add(name, value) => drop(map.insert(name.clone(), value.clone())),
            Mutation::Rename(i, name) => {
                if let Some(value) = name_at(map, *i).and_then(|old| map.remove(&old)) {
                    map.insert(name.clone(), value);
                }
            }
            Mutation::Nested(i, inner) => {
                let inside: Vec<&mut Value> = map.values_mut().filter(|v| v.is_object() || v.is_array()).collect();
                let count = inside.len().max(1);
                if let Some(value) = inside.into_iter().nth(i % count) {
                    match value {
                        Value::Array(items) => match items.first_mut() {
                            Some(first) if first.is_object() => inner.apply(first),
                            _ => inner.apply_to_items(items),
                        },
                        object => inner.apply(object),
                    }
                }
            }
            Mutation::Repeat(i) => {
                let lists: Vec<&mut Vec<Value>> = map.values_mut().filter_map(Value::as_array_mut).collect();
                let count = lists.len().max(1);
                if let Some(list) = lists.into_iter().nth(i % count)
                    && let Some(first) = list.first().cloned()
                {
                    list.push(first);
                }
            }
            Mutation::Text(i, text) => {
                let texts: Vec<&mut Value> = map.values_mut().filter(|v| v.is_string()).collect();
                let count = texts.len().max(1);
                if let Some(value) = texts.into_iter().nth(i % count) {
                    *value = text.clone().into();
                }
            }
        }
    }

    fn apply_to_items(&self, items: &mut Vec<Value>) {
        match self {
            Mutation::Remove(_) => drop(items.pop()),
            Mutation::Set(_, value) | Mutation::Add(_, value) => items.push(value.clone()),
            _ => items.clear(),
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let simple = prop_oneof![
        2 => any::<usize>().prop_map(Mutation::Remove),
        4 => (any::<usize>(), value()).prop_map(|(i, v)| Mutation::Set(i, v)),
        3 => (field(), value()).prop_map(|(n, v)| Mutation::Add(n, v)),
        1 => (any::<usize>(), field()).prop_map(|(i, n)| Mutation::Rename(i, n)),
        1 => any::<usize>().prop_map(Mutation::Repeat),
        4 => (any::<usize>(), text()).prop_map(|(i, t)| Mutation::Text(i, t)),
    ];
    simple.prop_recursive(2, 4, 1, |inner| {
        prop_oneof![
            3 => inner.clone(),
            2 => (any::<usize>(), inner).prop_map(|(i, m)| Mutation::Nested(i, Box::new(m))),
        ]
    })
}

/// Names of fields: all known ones, variants of them, and unknown ones.
fn field() -> impl Strategy<Value = String> {
    let mut known: Vec<String> = CoreType::ALL
        .iter()
        .map(|c| c.shape())
        .chain(MessageType::ALL.iter().map(|m| m.shape()))
        .flat_map(|s| s.fields.iter().map(|f| f.name.to_owned()))
        .collect();
    known.extend(["urgency", "verbosity", "localization_hints", "sequence_number", "extensions"].map(str::to_owned));
    let strangers = ["@id", "aaep_x", "mood", "", "type", "haptic", "aaep", "@context"].map(str::to_owned);
    prop_oneof![
        4 => proptest::sample::select(known.clone()),
        1 => proptest::sample::select(known).prop_map(|n| format!("{n}_yo")),
        1 => proptest::sample::select(strangers.to_vec()),
        1 => "[a-z_]{1,20}",
    ]
}

/// Texts at the edges of formats and limits.
fn text() -> impl Strategy<Value = String> {
    let edges = [
        "",
        "x",
        "accept",
        "reject",
        "critical",
        "normal",
        "low",
        "high",
        "irreversible",
        "evt_1",
        "sess_1",
        "rpl_1",
        "call_1",
        "out_1",
        "sub_1",
        "evt_",
        "1.0.0",
        "1.0",
        "1.0.0-rc.1",
        "en",
        "en-US",
        "en_US",
        "x-",
        "Latn",
        "https://aaep-protocol.org/context/v1",
        "https://example.org/a b",
        "urn:x",
        "a:",
        "text/plain",
        "text/",
        "aaep:agent.session.started",
        "aaep:agent.nothing",
        "haptic:x",
        "rdf:x",
        "started",
        "subscription.pause",
        "https://aaep-protocol.org/types/agent.tool.completed",
        "https://aaep-protocol.org/types/x",
        "A1",
        "TOOL_TIMEOUT",
        "user_left",
        "2026-05-24T14:22:11Z",
        "2026-05-24T14:22:11.1Z",
        "2026-02-30T00:00:00Z",
        "2026-05-24T14:22:60Z",
        "2026-05-24T23:59:59.123456+23:59",
        "2026-05-24T14:22:11+24:00",
        "a.b.c",
        "a.b",
        "4111 1111 1111 1111",
    ];
    prop_oneof![
        6 => proptest::sample::select(edges.to_vec()).prop_map(str::to_owned),
        2 => "\\PC{0,12}",
        1 => proptest::sample::select(vec![64usize, 65, 256, 257, 1024, 1025, 4096, 4097, 16384, 16385])
            .prop_map(|n| "é".repeat(n)),
        1 => "(evt|sess|rpl|sub|call|out)_[A-Za-z0-9]{60,70}",
        1 => "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{2,4})?(Z|[+-][0-2][0-9]:[0-6][0-9])",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let numbers = [
        json!(0),
        json!(1),
        json!(-1),
        json!(2),
        json!(3),
        json!(4),
        json!(1.0),
        json!(1.5),
        json!(49),
        json!(50),
        json!(100),
        json!(100.5),
        json!(1000),
        json!(1001),
        json!(86_400),
        json!(86_401),
        json!(86_400_000),
        json!(86_400_001),
        json!(100_000),
        json!(100_001),
        json!(1u64 << 53),
        json!((1u64 << 53) + 1),
        json!(u64::MAX),
        json!(1e300),
        json!(0.5),
    ];
    let scalar = prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::from),
        3 => proptest::sample::select(numbers.to_vec()),
        4 => text().prop_map(Value::from),
    ];
    scalar.prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            2 => inner.clone(),
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            1 => proptest::collection::vec((field(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
