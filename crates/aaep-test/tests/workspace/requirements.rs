//! conformance/requirements.toml: every row that claims to be done names files and tests that exist.

use std::collections::{BTreeMap, BTreeSet};

use aaep_proto::{Rule, Severity};
use aaep_test::root;
use serde::Deserialize;

#[derive(Deserialize)]
struct Table {
    requirement: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    chapter: String,
    strength: String,
    role: String,
    level: u8,
    text: String,
    implemented_in: Vec<String>,
    tests: Vec<String>,
    status: String,
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("conformance/requirements.toml")).unwrap();
    toml::from_str::<Table>(&text).unwrap().requirement
}

#[test]
fn rows_are_well_formed() {
    let mut ids = BTreeSet::new();
    for row in rows() {
        assert!(ids.insert(row.id.clone()), "{} occurs twice", row.id);
        assert!(["MUST", "MUST NOT", "SHOULD", "SHOULD NOT"].contains(&row.strength.as_str()), "{}", row.id);
        assert!(["producer", "subscriber", "both", "transport", "suite"].contains(&row.role.as_str()), "{}", row.id);
        assert!((1..=3).contains(&row.level) && !row.chapter.is_empty() && !row.text.is_empty(), "{}", row.id);
        assert!(["done", "planned"].contains(&row.status.as_str()), "{}", row.id);
    }
}

#[test]
fn done_rows_name_files_and_tests_that_exist() {
    let mut missing = Vec::new();
    for row in rows().iter().filter(|r| r.status == "done") {
        if row.implemented_in.is_empty() || row.tests.is_empty() {
            missing.push(format!("{}: is done but names no file or no test", row.id));
        }
        for file in &row.implemented_in {
            if !root().join(file).is_file() {
                missing.push(format!("{}: {file} does not exist", row.id));
            }
        }
        for test in &row.tests {
            if !test_exists(test) {
                missing.push(format!("{}: {test} does not exist", row.id));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn planned_rows_claim_nothing() {
    for row in rows().iter().filter(|r| r.status == "planned") {
        assert!(row.tests.is_empty(), "{} names tests: mark it done", row.id);
    }
}

/// Returns whether `file.rs::function` is a test in that file.
pub(crate) fn test_exists(name: &str) -> bool {
    let Some((file, function)) = name.split_once("::") else { return false };
    let Ok(text) = std::fs::read_to_string(root().join(file)) else { return false };
    if file.ends_with("/suite.rs") {
        // A test of the suite that runs over several transports; `main.rs` lists them.
        let list = std::fs::read_to_string(root().join(file).with_file_name("main.rs")).unwrap_or_default();
        let is_part = |word: &str| word == function;
        return list.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_part);
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = format!("fn {function}(");
    lines.iter().enumerate().any(|(i, line)| {
        line.contains(&declared)
            && lines[..i]
                .iter()
                .rev()
                .take_while(|l| l.starts_with("#[") || l.starts_with("///"))
                .any(|l| l.contains("test"))
    })
}

#[test]
fn every_rule_of_the_code_is_a_row_that_is_done() {
    let rows: BTreeMap<String, Row> = rows().into_iter().map(|r| (r.id.clone(), r)).collect();
    for rule in Rule::ALL {
        let row = rows.get(rule.id()).unwrap_or_else(|| panic!("{} has no row", rule.id()));
        assert_eq!(row.status, "done", "{}", rule.id());
        // A warning may belong to a MUST that cannot be checked for certain; an error belongs to a MUST only.
        if rule.severity() == Severity::Error {
            assert!(row.strength.starts_with("MUST"), "{} is an error but the row says {}", rule.id(), row.strength);
        }
    }
}

/// Rows that are not done. The table may not lose ground: a new row is done, or this number is changed in the open.
const PLANNED_ROWS: usize = 38;

#[test]
fn number_of_planned_rows_is_as_recorded() {
    let planned: Vec<String> = rows().into_iter().filter(|row| row.status == "planned").map(|row| row.id).collect();
    assert_eq!(planned.len(), PLANNED_ROWS, "{planned:?}");
}
