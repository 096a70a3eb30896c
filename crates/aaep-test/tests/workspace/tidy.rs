//! Rules of CONTRIBUTING.md that no compiler checks.

use std::process::Command;

use aaep_test::root;
use serde::Deserialize;

use crate::source::{crates, read, rust_files, without_tests};

/// Maximum length of a file without its inline tests; see CONTRIBUTING.md.
const MAX_FILE_LINES: usize = 500;

#[derive(Deserialize)]
struct SizeExceptions {
    #[serde(default)]
    exception: Vec<SizeException>,
}

#[derive(Deserialize)]
struct SizeException {
    file: String,
    reason: String,
}

#[test]
fn files_are_short_or_have_a_reason() {
    let exceptions = toml::from_str::<SizeExceptions>(&read("conformance/size-exceptions.toml")).unwrap().exception;
    let mut wrong = Vec::new();
    for name in rust_files() {
        let lines = without_tests(&read(&name)).lines().count();
        let excused = exceptions.iter().any(|e| e.file == name);
        match (lines > MAX_FILE_LINES, excused) {
            (true, false) => wrong.push(format!("{name} has {lines} lines; divide it or give a reason")),
            (false, true) => wrong.push(format!("{name} no longer needs an exception")),
            _ => {}
        }
    }
    for exception in &exceptions {
        if !root().join(&exception.file).is_file() {
            wrong.push(format!("{} does not exist", exception.file));
        }
    }
    assert!(exceptions.iter().all(|e| e.reason.len() > 20), "an exception needs a reason");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Crates that the core must not depend on, not even indirectly.
const BANNED_DEPENDENCIES: [&str; 14] = [
    "tokio",
    "mio",
    "async-std",
    "smol",
    "rand",
    "getrandom",
    "socket2",
    "hyper",
    "reqwest",
    "chrono",
    "libc",
    "nix",
    "rustix",
    "time",
];

#[test]
fn core_depends_on_no_crate_that_does_io() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "-p", "aaep-proto", "-e", "normal", "--prefix", "none", "--format", "{p}"])
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert!(names.contains(&"aaep-proto") && names.contains(&"serde_json"), "{tree}");
    let found: Vec<&&str> = names.iter().filter(|n| BANNED_DEPENDENCIES.contains(n)).collect();
    assert!(found.is_empty(), "the core depends on {found:?}");
}

/// Clippy bans clocks, threads, hash maps and files in the core (`crates/aaep-proto/clippy.toml`). This checks that no
/// file lifts a ban, and what clippy cannot ban.
#[test]
fn core_source_lifts_no_ban_and_has_no_async_code() {
    let core: Vec<String> =
        rust_files().into_iter().filter(|name| name.starts_with("crates/aaep-proto/src/")).collect();
    assert!(core.len() > 50, "found only {} files of the core", core.len());
    let mut wrong = Vec::new();
    for name in &core {
        let text = read(name);
        for banned in ["disallowed_methods", "disallowed_types", "async fn", "std::fs", "std::net", "std::env"] {
            if text.contains(banned) {
                wrong.push(format!("{name} contains {banned}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The crates in the order in which they may depend on each other: each only on earlier ones.
const CRATE_ORDER: [&str; 15] = [
    "aaep-proto",
    "aaep-runtime",
    "aaep-keys",
    "aaep-local",
    "aaep-announce",
    "aaep-listen",
    "aaep-bridge",
    "aaep-voice",
    "aaep-grpc",
    "aaep",
    "aaep-client",
    "aaep-store",
    "aaep-server",
    "aaep-cli",
    "aaep-test",
];

#[test]
fn dependencies_point_one_way() {
    let mut found = crates();
    found.sort();
    let mut expected = CRATE_ORDER.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected, "CRATE_ORDER must list every crate");
    for (rank, name) in CRATE_ORDER.iter().enumerate() {
        let manifest: toml::Table = read(&format!("crates/{name}/Cargo.toml")).parse().unwrap();
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        for later in &CRATE_ORDER[rank..] {
            assert!(!dependencies.contains_key(*later), "{name} depends on {later}");
        }
    }
}
