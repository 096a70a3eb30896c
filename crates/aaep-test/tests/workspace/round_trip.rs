//! Documents are written with the meaning that was read, in the recommended order.

use aaep_proto::message::{Event, Message};
use aaep_test::{example, examples};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn the_examples_survive() {
    for document in examples() {
        let message = Message::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), document);
    }
}

#[test]
fn fields_are_written_in_the_recommended_order() {
    let first = &example("events.ndjson")[0];
    let event: Event = serde_json::from_str(first).unwrap();
    let text = serde_json::to_string(&event).unwrap();
    let order = [
        "@context",
        "aaep_version",
        "type",
        "event_id",
        "session_id",
        "sequence_number",
        "timestamp",
        "producer",
        "verbosity",
        "urgency",
        "localization_hints",
        "correlation_id",
        "summary_terse",
        "summary_normal",
        "extensions",
    ];
    let places: Vec<usize> = order.iter().map(|name| text.find(&format!("\"{name}\":")).expect(name)).collect();
    assert!(places.is_sorted(), "{text}");
    assert!(text.ends_with("}}}"), "extensions come last: {text}");
}

#[test]
fn the_full_form_of_a_type_is_the_same_type() {
    let mut document = examples().remove(1);
    let short = Message::parse(document.to_string().as_bytes()).unwrap();
    let name = document["type"].as_str().unwrap().replace("aaep:", "https://aaep-protocol.org/types/");
    document["type"] = json!(name);
    assert_eq!(Message::parse(document.to_string().as_bytes()).unwrap(), short);
}

#[test]
fn words_of_a_later_version_are_kept() {
    let mut document = examples().remove(1);
    document["urgency"] = json!("whispered");
    document["from_a_later_version"] = json!({"deep": [1, {"er": null}]});
    let event: Event = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(event.urgency().as_str(), "whispered");
    assert_eq!(serde_json::to_value(&event).unwrap(), document);
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("\\PC{0,10}", inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn extension_data_and_unknown_fields_survive(data in any_json(), name in "[a-z]{4,12}", which in 0usize..14) {
        let mut document = serde_json::from_str::<Value>(&example("events.ndjson")[which]).unwrap();
        document[format!("x{name}")] = data.clone();
        document["extensions"] = json!({name: {"data": data}});
        let event: Event = serde_json::from_value(document.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&event).unwrap(), document);
    }
}
