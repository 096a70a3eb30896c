//! The house rules that no compiler holds.

use std::path::{Path, PathBuf};
use std::process::Command;

use aaep_test::root;
use serde::Deserialize;

/// Longest file, tests at its end not counted, and longest function; see CONTRIBUTING.md.
const FILE_LINES: usize = 500;

fn rust_files() -> Vec<PathBuf> {
    fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for path in entries.flatten().map(|e| e.path()) {
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(&root().join("crates"), &mut files);
    assert!(files.len() > 20, "the walk found only {} files", files.len());
    files
}

/// The part of a file before its tests.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\n").next().unwrap_or(text)
}

#[derive(Deserialize)]
struct Exceptions {
    exception: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    file: String,
    reason: String,
}

#[test]
fn files_are_short_or_have_a_reason() {
    let text = std::fs::read_to_string(root().join("docs/size-exceptions.toml")).unwrap();
    let exceptions = toml::from_str::<Exceptions>(&text).unwrap().exception;
    let mut wrong = Vec::new();
    for path in rust_files() {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
        let lines = without_tests(&std::fs::read_to_string(&path).unwrap()).lines().count();
        let excused = exceptions.iter().any(|e| e.file == name);
        match (lines > FILE_LINES, excused) {
            (true, false) => wrong.push(format!("{name} has {lines} lines; divide it or give a reason")),
            (false, true) => wrong.push(format!("{name} needs no exception any more")),
            _ => {}
        }
    }
    assert!(exceptions.iter().all(|e| e.reason.len() > 20), "an exception needs a reason");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the core must not be able to reach, not even through others.
const FOREIGN: [&str; 14] = [
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
fn the_core_depends_on_nothing_that_touches_the_machine() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "-p", "aaep-proto", "-e", "normal", "--prefix", "none", "--format", "{p}"])
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert!(names.contains(&"aaep-proto") && names.contains(&"serde_json"), "{tree}");
    let found: Vec<&&str> = names.iter().filter(|n| FOREIGN.contains(n)).collect();
    assert!(found.is_empty(), "the core reaches {found:?}");
}

#[test]
fn the_core_is_guarded_by_clippy() {
    let config = std::fs::read_to_string(root().join("crates/aaep-proto/clippy.toml")).unwrap();
    for banned in ["Instant::now", "SystemTime::now", "thread::spawn", "HashMap", "HashSet", "fs::File", "TcpStream"] {
        assert!(config.contains(banned), "{banned} is not banned any more");
    }
    for path in rust_files().iter().filter(|p| p.starts_with(root().join("crates/aaep-proto/src"))) {
        let text = std::fs::read_to_string(path).unwrap();
        for escape in ["disallowed_methods", "disallowed_types", "async fn", "std::fs", "std::net", "std::env"] {
            assert!(!text.contains(escape), "{} has {escape}", path.display());
        }
    }
}

#[test]
fn dependencies_point_one_way() {
    let order = [
        "aaep-proto",
        "aaep-keys",
        "aaep-announce",
        "aaep-listen",
        "aaep-voice",
        "aaep-grpc",
        "aaep",
        "aaep-client",
        "aaep-store",
        "aaep-server",
        "aaep-conformance",
        "aaep-cli",
        "aaep-test",
    ];
    for (rank, name) in order.iter().enumerate() {
        let Ok(text) = std::fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))) else { continue };
        for later in order.iter().skip(rank) {
            let depends = text.lines().any(|l| l.split(['.', ' ', '=']).next() == Some(later));
            assert!(!depends, "{name} depends on {later}");
        }
    }
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let output = Command::new("git").current_dir(root()).args(["ls-files"]).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    // Put together here, so that this file does not mention them either.
    let places = [["..", "/shared"], ["/wo", "rk/"], ["/ro", "ot/"]].map(|parts| parts.concat());
    for name in listed.lines() {
        let Ok(text) = std::fs::read_to_string(root().join(name)) else { continue };
        for word in &places {
            assert!(!text.contains(word.as_str()), "{name} mentions {word}");
        }
    }
}
