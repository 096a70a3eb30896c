//! Comments and documents use the words of the glossary, not those of an earlier private vocabulary.

use crate::source::{files_below, read, rust_files};

/// Phrases that were replaced, and what to write instead. Few and exact: each must be wrong in any context.
const BANNED: &[(&str, &str)] = &[
    ("the same, but", "what the item does; rustdoc shows each item by itself"),
    ("who has gone", "a subscriber that disconnected"),
    ("need not be told", "no response is sent"),
    ("for ever", "forever, without bound"),
    ("in good order", "gracefully"),
    ("puts on record", "records"),
    ("put on record", "recorded"),
    ("; answers", "a sentence that starts with Returns"),
    ("anew", "again"),
    ("mean ill", "hostile"),
    ("means ill", "hostile"),
    ("to mend", "to fix"),
];

/// Returns the comment at the end of a line of Rust. A `//` after a colon belongs to a URL.
fn comment(line: &str) -> Option<&str> {
    let at = line.match_indices("//").map(|(at, _)| at).find(|at| !line[..*at].ends_with(':'))?;
    Some(&line[at..])
}

/// Returns the first banned phrase in a text. A phrase does not match the start of a longer word.
fn banned(text: &str) -> Option<&'static (&'static str, &'static str)> {
    let text = text.to_lowercase();
    let ends = |at: usize| !text[at..].starts_with(char::is_alphanumeric);
    BANNED.iter().find(|(phrase, _)| text.match_indices(phrase).any(|(at, _)| ends(at + phrase.len())))
}

#[test]
fn comments_and_documents_have_no_banned_phrases() {
    let mut found = Vec::new();
    let documents = files_below("docs").into_iter().filter(|name| name.ends_with(".md"));
    let top = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"].map(str::to_owned);
    for file in
        rust_files().into_iter().filter(|name| !name.ends_with("workspace/wording.rs")).chain(documents).chain(top)
    {
        for (index, line) in read(&file).lines().enumerate() {
            let text = if file.ends_with(".rs") { comment(line) } else { Some(line) };
            if let Some((phrase, instead)) = text.and_then(banned) {
                found.push(format!("{file}:{}: \"{phrase}\"; write: {instead}", index + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn banned_phrases_are_found_in_comments_only() {
    assert!(comment("    let x = 1; // The same, but larger.").and_then(banned).is_some());
    assert!(comment("/// Waits for ever.").and_then(banned).is_some());
    assert!(comment("/// Returns a value for every field.").and_then(banned).is_none());
    assert!(comment("    let text = \"for ever\";").is_none());
    assert_eq!(comment("let url = \"http://localhost\";"), None);
}
