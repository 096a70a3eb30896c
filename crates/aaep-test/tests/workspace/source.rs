//! The source files of the workspace.

use std::path::{Path, PathBuf};

use aaep_test::root;

/// Returns all files below a directory of the repository, as paths from its root. Build output is left out.
pub(crate) fn files_below(directory: &str) -> Vec<String> {
    fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() {
                if name != "target" && name != ".git" && name != "node_modules" {
                    walk(&path, files);
                }
            } else {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(&root().join(directory), &mut files);
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
    files.iter().map(name).collect()
}

/// Returns all Rust files of the crates, as paths from the root of the repository.
pub(crate) fn rust_files() -> Vec<String> {
    let files: Vec<String> = files_below("crates").into_iter().filter(|name| name.ends_with(".rs")).collect();
    assert!(files.len() > 100, "found only {} files", files.len());
    files
}

/// Returns the names of the crates.
pub(crate) fn crates() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("crates")).unwrap();
    let directories = entries.map(|entry| entry.unwrap().path()).filter(|path| path.join("Cargo.toml").is_file());
    directories.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Reads a file of the repository.
pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the part of a file before its inline tests.
pub(crate) fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\n").next().unwrap_or(text)
}
