//! Support for tests: paths, example documents, processes, servers for speech and braille, waiting.

#[cfg(unix)]
pub mod brltty;
mod fixture;
mod process;
mod python;
#[cfg(unix)]
pub mod speechd;
mod wait;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

pub use fixture::prepare_once;
pub use process::{PATIENCE, Process, Serving};
pub use python::{python, python_with};
pub use wait::{now, soon, until};

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/aaep-test is two levels deep").to_path_buf()
}

/// Returns the lines of a file in `examples/`.
pub fn example(name: &str) -> Vec<String> {
    let path = root().join("examples").join(name);
    let text = std::fs::read_to_string(&path).expect("the file is in examples");
    text.lines().map(str::to_owned).collect()
}

/// Returns all example documents: every event and message with all fields, and a session.
pub fn examples() -> Vec<Value> {
    let files = ["events.ndjson", "messages.ndjson", "banking.ndjson"];
    let lines = files.iter().flat_map(|f| example(f));
    lines.map(|line| serde_json::from_str(&line).expect("examples are JSON")).collect()
}

/// Returns the path of the `aaep` command. Builds it once, unless `AAEP_BIN` has the path.
pub fn aaep() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&["-p", "aaep-cli"]))
}

/// Builds an example program of a crate and returns its path. All crates have their features as in a build of the
/// workspace, so that little is built twice.
pub fn example_program(name: &str) -> PathBuf {
    cargo_build(&["--workspace", "--example", name])
}

/// Returns the path of the `aaep` command built in release mode, for benchmarks.
pub fn aaep_release() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&["-p", "aaep-cli", "--release"]))
}

fn build(flags: &[&str]) -> PathBuf {
    if let Some(path) = std::env::var_os("AAEP_BIN") {
        return PathBuf::from(path);
    }
    cargo_build(flags)
}

/// Builds a program and returns its path.
fn cargo_build(flags: &[&str]) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(root())
        .args(["build", "--quiet", "--message-format=json"])
        .args(flags)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo can be started");
    assert!(built.status.success(), "it does not build: {flags:?}");
    let text = String::from_utf8(built.stdout).expect("cargo prints JSON");
    let artifacts = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths = artifacts.filter_map(|a| a["executable"].as_str().map(PathBuf::from));
    paths.next_back().expect("cargo names the executable")
}
