//! The OpenAPI and AsyncAPI documents are whole: every reference leads somewhere, and every example fits its schema.

use aaep_server::api;
use serde_json::{Value, json};

/// Calls `visit` for every object in a document.
fn for_each_object(value: &Value, visit: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            visit(fields);
            fields.values().for_each(|value| for_each_object(value, visit));
        }
        Value::Array(items) => items.iter().for_each(|value| for_each_object(value, visit)),
        _ => {}
    }
}

/// Returns the value at a reference such as `#/components/schemas/problem`.
fn resolve<'d>(document: &'d Value, reference: &Value) -> Option<&'d Value> {
    document.pointer(reference.as_str()?.strip_prefix('#')?)
}

/// Returns why an example does not fit a schema of the document.
fn errors(document: &Value, schema: &Value, example: &Value) -> Vec<String> {
    let whole = json!({"components": document["components"], "allOf": [schema]});
    let is_openapi = document.get("openapi").is_some();
    let compiled =
        if is_openapi { jsonschema::draft202012::new(&whole) } else { jsonschema::draft7::new(&whole) }.unwrap();
    compiled.iter_errors(example).map(|error| format!("{error} in {example}")).collect()
}

#[test]
fn every_reference_leads_somewhere() {
    for document in [api::openapi(), api::asyncapi()] {
        let mut count = 0;
        for_each_object(&document, &mut |fields| {
            if let Some(reference) = fields.get("$ref") {
                assert!(resolve(&document, reference).is_some(), "{reference}");
                count += 1;
            }
        });
        assert!(count > 50, "found only {count} references");
    }
}

#[test]
fn every_component_is_used() {
    for document in [api::openapi(), api::asyncapi()] {
        let text = document.to_string();
        for section in ["schemas", "messages"] {
            for name in document["components"][section].as_object().into_iter().flat_map(|section| section.keys()) {
                let reference = json!({"$ref": format!("#/components/{section}/{name}")}).to_string();
                assert!(text.contains(&reference), "{name} of {section}");
            }
        }
    }
}

#[test]
fn examples_of_the_openapi_document_fit_their_schemas() {
    let document = api::openapi();
    let mut count = 0;
    for_each_object(&document["paths"], &mut |content| {
        for example in content.get("examples").and_then(Value::as_object).into_iter().flat_map(|all| all.values()) {
            assert_eq!(errors(&document, &content["schema"], &example["value"]), Vec::<String>::new());
            count += 1;
        }
    });
    assert!(count >= 18, "found only {count} examples");
}

#[test]
fn every_message_of_the_asyncapi_document_has_an_example_that_fits_its_schema_alone() {
    let document = api::asyncapi();
    let messages = document["components"]["messages"].as_object().unwrap();
    for (name, message) in messages.iter().filter(|(name, _)| *name != "envelope") {
        let example = &message["examples"][0]["payload"];
        assert!(example.is_object(), "{name}");
        assert_eq!(errors(&document, &message["payload"], example), Vec::<String>::new(), "{name}");
        let twisted = json!({"type": "nothing", "kept": example});
        assert!(!errors(&document, &message["payload"], &twisted).is_empty(), "{name} accepts anything");
    }
}

#[test]
fn channels_of_the_asyncapi_document_carry_the_messages_of_their_operations() {
    let document = api::asyncapi();
    let mut carried = Vec::new();
    for (name, operation) in document["operations"].as_object().unwrap() {
        let channel = operation["channel"]["$ref"].as_str().unwrap();
        for message in operation["messages"].as_array().unwrap() {
            let reference = message["$ref"].as_str().unwrap();
            assert!(reference.starts_with(&format!("{channel}/messages/")), "{name}: {reference}");
            carried.push(reference.to_owned());
        }
    }
    for (name, channel) in document["channels"].as_object().unwrap() {
        for message in channel["messages"].as_object().unwrap().keys() {
            assert!(carried.contains(&format!("#/channels/{name}/messages/{message}")), "{name}: {message}");
        }
    }
}
