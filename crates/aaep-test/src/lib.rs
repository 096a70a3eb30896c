//! What the tests of the whole house share: where things are, and example documents.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/aaep-test is two levels deep").to_path_buf()
}

/// The lines of a file under `examples/`.
pub fn example(name: &str) -> Vec<String> {
    let path = root().join("examples").join(name);
    let text = std::fs::read_to_string(&path).expect("the file is under examples");
    text.lines().map(str::to_owned).collect()
}

/// All example documents: every event and message with all their fields, and a session.
pub fn examples() -> Vec<Value> {
    let files = ["events.ndjson", "messages.ndjson", "banking.ndjson"];
    let lines = files.iter().flat_map(|f| example(f));
    lines.map(|line| serde_json::from_str(&line).expect("examples are JSON")).collect()
}
