//! ARCHITECTURE.md and the documents in `docs/` name only things that exist.

use aaep_test::root;

use crate::requirements::test_exists;
use crate::source::{crates, files_below, read, rust_files};

/// The directories of the repository that documents refer to.
const TOP_DIRECTORIES: [&str; 7] = ["conformance", "crates", "docs", "examples", "fuzz", "schemas", "scripts"];

/// Names in documents that look like types and are not types of this repository.
const NOT_OURS: &[&str] = &[
    // Headers of HTTP.
    "Authorization",
    "Forwarded",
    "Host",
    "Location",
    "Origin",
    // Methods of the gRPC service.
    "GetManifest",
    "Subscribe",
    // Names in the rules of style.
    "None",
    "XxxError",
];

/// Returns the texts in backticks, outside of code blocks, with their line numbers.
fn backticked(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            found.extend(line.split('`').skip(1).step_by(2).map(|name| (index + 1, name)));
        }
    }
    found
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn is_type_name(text: &str) -> bool {
    is_identifier(text) && text.starts_with(char::is_uppercase) && text.chars().any(char::is_lowercase)
}

/// The repository, as far as documents can name it.
struct Repository {
    paths: Vec<String>,
    sources: Vec<String>,
}

impl Repository {
    fn new() -> Repository {
        let paths = TOP_DIRECTORIES.iter().flat_map(|directory| files_below(directory));
        Repository { paths: paths.collect(), sources: rust_files().iter().map(|name| read(name)).collect() }
    }

    /// Returns whether a file or directory has this path, or a path that ends with it.
    fn has_path(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        root().join(path).exists()
            || self.paths.iter().any(|name| name.ends_with(&format!("/{path}")) || name.contains(&format!("/{path}/")))
    }

    fn has_type(&self, name: &str) -> bool {
        let declarations = ["struct", "enum", "trait", "type"].map(|keyword| format!("{keyword} {name}"));
        self.sources.iter().any(|text| declarations.iter().any(|declaration| has_word(text, declaration)))
    }

    /// Returns whether a file that mentions the type declares the method, field, variant or constant.
    fn has_member(&self, type_name: &str, member: &str) -> bool {
        let is_variant = member.starts_with(char::is_uppercase);
        let declarations =
            if is_variant { vec![member.to_owned()] } else { vec![format!("fn {member}"), format!("pub {member}")] };
        let declares = |text: &String| declarations.iter().any(|declaration| has_word(text, declaration));
        self.has_type(type_name) && self.sources.iter().any(|text| has_word(text, type_name) && declares(text))
    }
}

/// Returns whether the text contains the words, not as part of longer ones.
fn has_word(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        !text[..at].ends_with(is_part) && !text[at + words.len()..].starts_with(is_part)
    })
}

#[test]
fn names_in_backticks_exist() {
    let repository = Repository::new();
    let text = read("ARCHITECTURE.md");
    let mut missing = Vec::new();
    for (line, name) in backticked(&text) {
        let is_path = [".rs", ".toml", ".md", ".py", ".proto", "/"].iter().any(|end| name.ends_with(end));
        let exists = match name.split_once("::") {
            Some((file, _)) if file.ends_with(".rs") => test_in_some_file(&repository, name),
            Some((type_name, member)) if type_name.starts_with(char::is_uppercase) && is_identifier(member) => {
                repository.has_member(type_name, member)
            }
            _ if is_path && !name.contains([' ', '*', '{', '<']) => repository.has_path(name),
            None if is_type_name(name) => repository.has_type(name),
            // Crates, fields, commands and settings.
            _ => true,
        };
        if !exists {
            missing.push(format!("ARCHITECTURE.md:{line}: {name} does not exist"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns whether the text is meant as a path of this repository: of a Rust file, or below one of its directories.
fn is_repository_path(name: &str, crates: &[String]) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    let is_below =
        name.contains('/') && (TOP_DIRECTORIES.contains(&first) || crates.iter().any(|krate| krate == first));
    (is_below || name.ends_with(".rs")) && !name.contains([' ', '*', '{', '<', '#'])
}

#[test]
fn paths_types_and_members_in_documents_exist() {
    let repository = Repository::new();
    let crates = crates();
    let top = ["CONTRIBUTING.md", "README.md", "SECURITY.md"].map(str::to_owned);
    let documents: Vec<String> =
        files_below("docs").into_iter().filter(|name| name.ends_with(".md")).chain(top).collect();
    let (mut checked, mut missing) = (0, Vec::new());
    for document in &documents {
        let text = read(document);
        for (line, name) in backticked(&text) {
            let exists = match name.split_once("::") {
                Some((file, _)) if file.ends_with(".rs") => test_in_some_file(&repository, name),
                Some((type_name, member)) if type_name.starts_with(char::is_uppercase) && is_identifier(member) => {
                    repository.has_member(type_name, member)
                }
                None if is_repository_path(name, &crates) => repository.has_path(name),
                None if is_type_name(name) => repository.has_type(name) || NOT_OURS.contains(&name),
                _ => continue,
            };
            checked += 1;
            if !exists {
                missing.push(format!("{document}:{line}: {name} does not exist"));
            }
        }
    }
    assert!(documents.len() > 50 && checked > 50, "found only {checked} names in {} documents", documents.len());
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn repository_paths_are_recognized() {
    let crates = ["aaep-proto".to_owned()];
    for name in
        ["engine/replies.rs", "rate.rs", "aaep-proto/tests/engine/", "crates/aaep-proto", "docs/reference/limits.md"]
    {
        assert!(is_repository_path(name, &crates), "{name}");
    }
    for name in
        ["/var/lib/BrlAPI", "text/plain", "aaep-proto", "scripts/test --fast", "application/json", "GET /aaep/v1"]
    {
        assert!(!is_repository_path(name, &crates), "{name}");
    }
}

/// Returns whether `path/file.rs::function` is a test. The path may leave out its first directories.
fn test_in_some_file(repository: &Repository, name: &str) -> bool {
    let Some((file, function)) = name.split_once("::") else { return false };
    // The document explains this notation by these names.
    if name == "file.rs::function" {
        return true;
    }
    let fits = |path: &&String| **path == file || path.ends_with(&format!("/{file}"));
    repository.paths.iter().filter(fits).any(|path| test_exists(&format!("{path}::{function}")))
}

/// Returns the invariants of the document: their first lines, and their texts.
fn invariants(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("## ") {
            inside = line.contains("nvariants");
        } else if inside && line.starts_with("- ") {
            found.push((index + 1, line.to_owned()));
        } else if inside
            && line.starts_with("  ")
            && let Some((_, invariant)) = found.last_mut()
        {
            invariant.push_str(line);
        }
    }
    found
}

#[test]
fn every_invariant_names_an_existing_guard() {
    let repository = Repository::new();
    let text = read("ARCHITECTURE.md");
    let invariants = invariants(&text);
    assert!(invariants.len() >= 10, "found only {} invariants", invariants.len());
    let mut wrong = Vec::new();
    for (line, invariant) in &invariants {
        let guard = invariant.split_once("Guard: ").or_else(|| invariant.split_once("Guards: "));
        let Some((_, guard)) = guard else {
            wrong.push(format!("ARCHITECTURE.md:{line}: has no guard"));
            continue;
        };
        let guards = |name: &str| match name.split_once("::") {
            Some((file, _)) if file.ends_with(".rs") => test_in_some_file(&repository, name),
            _ => {
                (name.contains("tests/") || name.contains("benches/") || name.ends_with("clippy.toml"))
                    && repository.has_path(name)
            }
        };
        if !backticked(guard).iter().any(|(_, name)| guards(name)) {
            wrong.push(format!(
                "ARCHITECTURE.md:{line}: names no test as `file.rs::function` and no directory of tests"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
