//! Speed of validation compared with two baselines in the same run: the `jsonschema` crate with our schemas, and parsing
//! into `serde_json::Value`. Rounds alternate, so that other load affects all alike; the best round of each counts.
//!
//! Run: `cargo bench -p aaep-test --bench validate`

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on should stop")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use aaep_proto::json::Json;
use aaep_proto::message::Message;
use aaep_proto::{Validator, schema};
use aaep_test::example;
use serde_json::Value;

const ROUNDS: usize = 15;
const COPIES: usize = 400;

fn main() {
    let lines: Vec<String> =
        ["events.ndjson", "messages.ndjson", "banking.ndjson"].iter().flat_map(|f| example(f)).collect();
    let input: Vec<&[u8]> = std::iter::repeat_n(&lines, COPIES).flatten().map(|l| l.as_bytes()).collect();
    let bytes: usize = input.iter().map(|l| l.len()).sum();

    let schemas: BTreeMap<String, jsonschema::Validator> =
        schema::all().into_iter().map(|e| (e.name.clone(), jsonschema::validator_for(&e.schema()).unwrap())).collect();
    let envelope = &schemas["envelope"];
    let schema_of = |value: &Value| {
        let name = value["type"].as_str().unwrap_or_default();
        let name = if name == "aaep:producer.manifest" { "manifest" } else { name.trim_start_matches("aaep:") };
        schemas.get(name).unwrap_or(envelope)
    };
    let validator = Validator::new();

    let mut best = [Duration::MAX; 6];
    for _ in 0..ROUNDS {
        let mut measure = |index: usize, work: &dyn Fn(&[u8])| {
            let start = Instant::now();
            input.iter().for_each(|line| work(line));
            best[index] = best[index].min(start.elapsed());
        };
        measure(0, &|line| {
            black_box(serde_json::from_slice::<Value>(line).unwrap());
        });
        measure(1, &|line| {
            assert!(black_box(validator.check(line)).is_valid());
        });
        measure(2, &|line| {
            let json = Json::parse(line).unwrap();
            assert!(validator.check_json(&json, Some(line.len())).is_valid());
            black_box(Message::from_json(&json).unwrap());
        });
        measure(3, &|line| {
            let value = serde_json::from_slice::<Value>(line).unwrap();
            assert!(black_box(schema_of(&value).is_valid(&value)));
        });
        measure(4, &|line| {
            let value = serde_json::from_slice::<Value>(line).unwrap();
            assert!(black_box(schema_of(&value).iter_errors(&value).count()) == 0);
        });
        measure(5, &|line| {
            black_box(Json::parse(line).unwrap());
        });
    }

    println!("{} documents, {bytes} bytes, best of {ROUNDS} rounds", input.len());
    let names = [
        "serde_json::Value",
        "aaep parse and validate",
        "aaep parse, validate and type",
        "jsonschema crate, yes or no",
        "jsonschema crate, every error",
        "aaep parse alone",
    ];
    for (name, time) in names.iter().zip(best) {
        let nanos = time.as_nanos() as f64 / input.len() as f64;
        let rate = bytes as f64 / time.as_secs_f64() / 1e6;
        let ratio = time.as_secs_f64() / best[0].as_secs_f64();
        println!("{name}: {nanos:.0} ns per document, {rate:.0} MB/s, {ratio:.2} times plain parsing");
    }
    let faster = best[3].as_secs_f64() / best[1].as_secs_f64();
    println!("aaep parse and validate is {faster:.1} times as fast as the jsonschema crate");
}
