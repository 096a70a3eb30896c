//! What is published: the features, licences and packages of the crates.

use std::collections::BTreeSet;
use std::process::Command;

use aaep_test::root;
use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::source::{crates, read};

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).current_dir(root()).args(arguments).output().unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names of the crates that a crate is compiled with.
fn dependencies(arguments: &[&str]) -> BTreeSet<String> {
    let tree = cargo(&[&["tree", "-e", "normal,build", "--prefix", "none", "--format", "{p}"], arguments].concat());
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Crates that a small agent does not want to compile: gRPC, TLS and SQLite.
const LARGE: [&str; 6] = ["tonic", "prost", "rustls", "tokio-rustls", "rusqlite", "libsqlite3-sys"];

#[test]
fn small_agent_compiles_neither_grpc_nor_tls_nor_sqlite() {
    for small in [
        &["-p", "aaep"][..],
        &["-p", "aaep-server", "--no-default-features"],
        &["-p", "aaep-client", "--no-default-features", "--features", "unix,stdio"],
    ] {
        let found = dependencies(small);
        assert!(found.contains("aaep-proto") && found.contains("tokio"), "{small:?}: {found:?}");
        let large: Vec<&&str> = LARGE.iter().filter(|name| found.contains(**name)).collect();
        assert!(large.is_empty(), "{small:?} compiles {large:?}");
    }
    let full = dependencies(&["-p", "aaep-cli"]);
    assert!(LARGE.iter().all(|name| full.contains(*name)), "the command has everything: {full:?}");
}

#[test]
fn dependencies_have_allowed_licences_and_sources() {
    let rules: toml::Table = read("deny.toml").parse().unwrap();
    let list = |section: &str, key: &str| -> BTreeSet<String> {
        let list = rules[section][key].as_array().unwrap();
        list.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    let (licences, registries) = (list("licenses", "allow"), list("sources", "allow-registry"));
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--all-features", "--locked"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "found only {} packages", packages.len());
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some(source) = package["source"].as_str() else { continue };
        if !registries.iter().any(|registry| source == format!("registry+{registry}")) {
            wrong.push(format!("{name} comes from {source}"));
        }
        let Some(licence) = package["license"].as_str() else {
            wrong.push(format!("{name} names no licence"));
            continue;
        };
        let expression = Expression::parse_mode(licence, ParseMode::LAX).unwrap_or_else(|e| panic!("{name}: {e}"));
        let is_allowed = expression.evaluate(|requirement| {
            let wanted = requirement.to_string();
            let found = licences.contains(&wanted);
            if found {
                used.insert(wanted);
            }
            found
        });
        if !is_allowed {
            wrong.push(format!("{name} has the licence {licence}"));
        }
    }
    assert!(wrong.is_empty(), "deny.toml does not allow this:\n{}", wrong.join("\n"));
    assert_eq!(used, licences, "deny.toml allows licences that no dependency has");
}

#[test]
fn published_crates_have_what_a_registry_needs() {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert_eq!(packages.len(), crates().len());
    for package in packages {
        let name = package["name"].as_str().unwrap();
        if name == "aaep-test" {
            assert_eq!(package["publish"], serde_json::json!([]), "the tests are not published");
            continue;
        }
        for field in ["description", "license", "homepage", "readme", "rust_version"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            assert!((1..=most).contains(&package[field].as_array().unwrap().len()), "{name}: {field}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            assert_ne!(dependency["req"], "*", "{name} needs {} in any version", dependency["name"]);
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert_eq!(read(&format!("crates/{name}/{licence}")), read(licence), "{name} has no {licence}");
        }
    }
}

/// A file that the compiler reads must be part of the package.
#[test]
fn published_sources_include_only_files_of_their_crate() {
    let mut wrong = Vec::new();
    for file in crate::source::rust_files() {
        let parts: Vec<&str> = file.split('/').collect();
        let ["crates", name, "src", inner @ ..] = parts.as_slice() else { continue };
        if *name == "aaep-test" {
            continue;
        }
        let text = read(&file);
        for start in ["include_str!(\"", "include_bytes!(\"", "include!(\""] {
            for (at, _) in text.match_indices(start) {
                let path = text[at + start.len()..].split('"').next().unwrap_or_default();
                // `inner` ends with the file itself, and `src` is one level below the crate.
                if path.matches("../").count() > inner.len() {
                    wrong.push(format!("{file} includes {path}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
