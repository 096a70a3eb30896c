//! Code: the names of symbols and of programming languages, blocks of code and diffs.

use super::{SpeechStyle, tidy};
use crate::phrases::{Phrases, phrase};
use crate::profile::{CodePolicy, Punctuation};

/// The most bytes of a block that are kept to read it aloud.
const MAX_CODE_BYTES: usize = 8192;

/// Returns the id of the phrase for an ASCII mark.
pub(super) fn symbol(c: char) -> Option<&'static str> {
    Some(match c {
        '.' => "symbol-dot",
        ',' => "symbol-comma",
        ':' => "symbol-colon",
        ';' => "symbol-semicolon",
        '?' => "symbol-question",
        '!' => "symbol-exclamation",
        '/' => "symbol-slash",
        '\\' => "symbol-backslash",
        '_' => "symbol-underscore",
        '-' => "symbol-dash",
        '@' => "symbol-at",
        '#' => "symbol-hash",
        '%' => "symbol-percent",
        '&' => "symbol-ampersand",
        '*' => "symbol-star",
        '+' => "symbol-plus",
        '=' => "symbol-equals",
        '<' => "symbol-less",
        '>' => "symbol-greater",
        '|' => "symbol-pipe",
        '~' => "symbol-tilde",
        '^' => "symbol-caret",
        '$' => "symbol-dollar",
        '"' => "symbol-quote",
        '\'' => "symbol-apostrophe",
        '`' => "symbol-backtick",
        '(' => "symbol-left-parenthesis",
        ')' => "symbol-right-parenthesis",
        '[' => "symbol-left-bracket",
        ']' => "symbol-right-bracket",
        '{' => "symbol-left-brace",
        '}' => "symbol-right-brace",
        _ => return None,
    })
}

/// Replaces every mark by its name.
pub(super) fn named(text: &str, phrases: &Phrases) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        match symbol(c) {
            Some(id) => {
                out.push(' ');
                out.push_str(&phrases.text(id));
                out.push(' ');
            }
            None => out.push(c),
        }
    }
    tidy(&out)
}

/// Makes code inside a sentence, or one line of code, speakable.
pub(super) fn spoken(text: &str, style: SpeechStyle) -> String {
    if style.exact || style.punctuation == Punctuation::All {
        return named(text, style.phrases);
    }
    let text = text.trim().trim_end_matches("()");
    if style.punctuation == Punctuation::None {
        return tidy(&text.replace(|c: char| c.is_ascii_punctuation() && c != '.', " "));
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside = before.is_alphanumeric() && rest.peek().is_some_and(|n| n.is_alphanumeric());
        match c {
            '_' if inside => out.push(' '),
            '.' | '-' | ',' | '\'' if inside => out.push(c),
            c => match symbol(c) {
                Some(id) => out.push_str(&format!(" {} ", style.phrases.text(id))),
                None => out.push(c),
            },
        }
        before = c;
    }
    tidy(&out)
}

/// Returns the spoken name of a programming language, from the word after a fence or a media type.
fn language_name(info: &str) -> Option<String> {
    let word = info.trim().split([' ', ',', '{', ':']).next().unwrap_or_default().trim_start_matches('.');
    let word = word.to_ascii_lowercase();
    let known = match word.as_str() {
        "" | "text" | "txt" | "plain" | "plaintext" | "none" => return None,
        "rust" | "rs" => "Rust",
        "js" | "javascript" | "jsx" | "mjs" => "JavaScript",
        "ts" | "typescript" | "tsx" => "TypeScript",
        "py" | "python" | "python3" => "Python",
        "sh" | "bash" | "zsh" | "shell" | "console" | "shell-session" | "fish" => "Shell",
        "ps1" | "powershell" | "pwsh" => "PowerShell",
        "c" => "C",
        "cpp" | "c++" | "cc" | "cxx" => "C plus plus",
        "cs" | "csharp" | "c#" => "C sharp",
        "go" | "golang" => "Go",
        "java" => "Java",
        "kt" | "kotlin" => "Kotlin",
        "swift" => "Swift",
        "rb" | "ruby" => "Ruby",
        "php" => "PHP",
        "json" | "jsonc" | "json5" => "JSON",
        "yaml" | "yml" => "YAML",
        "toml" => "TOML",
        "xml" => "XML",
        "html" => "HTML",
        "css" => "CSS",
        "sql" => "SQL",
        "md" | "markdown" => "Markdown",
        "dockerfile" => "Docker",
        "csv" => "CSV",
        "latex" | "tex" => "LaTeX",
        other => {
            let kept: String = other.chars().filter(|c| c.is_alphanumeric()).take(20).collect();
            return (!kept.is_empty()).then_some(kept);
        }
    };
    Some(known.to_owned())
}

/// Returns the programming language of a media type. Returns `None` if its text is prose.
pub(super) fn of_media_type(content_type: &str) -> Option<&str> {
    let subtype = content_type.split_once('/')?.1;
    match content_type {
        "text/plain" | "text/markdown" | "text/x-markdown" => None,
        t if t.starts_with("text/") || t.starts_with("application/") => {
            Some(subtype.trim_start_matches("x-").rsplit('+').next().unwrap_or(subtype))
        }
        _ => None,
    }
}

/// A block of code while its lines come in.
pub(super) struct CodeBlock {
    info: String,
    lines: u64,
    added: u64,
    removed: u64,
    file: Option<String>,
    /// The text, up to a bound, for users who want it read.
    text: String,
    whole: bool,
}

impl CodeBlock {
    pub(super) fn new(info: &str) -> CodeBlock {
        let info = info.trim().chars().take(40).collect();
        CodeBlock { info, lines: 0, added: 0, removed: 0, file: None, text: String::new(), whole: true }
    }

    fn is_diff(&self) -> bool {
        matches!(self.info.to_ascii_lowercase().as_str(), "diff" | "patch" | "udiff")
    }

    pub(super) fn push_line(&mut self, line: &str, style: SpeechStyle) {
        self.lines += 1;
        match line.as_bytes() {
            [b'+', b'+', b'+', b' ', ..] => {
                let path = line[4..].trim().trim_start_matches("b/");
                self.file.get_or_insert_with(|| path.chars().take(200).collect());
            }
            [b'-', b'-', b'-', b' ', ..] => {}
            [b'+', ..] => self.added += 1,
            [b'-', ..] => self.removed += 1,
            _ => {}
        }
        if style.exact || style.code == CodePolicy::Read {
            if self.text.len() + line.len() < MAX_CODE_BYTES {
                self.text.push_str(line);
                self.text.push('\n');
            } else {
                self.whole = false;
            }
        }
    }

    /// Adds the block as sentences.
    pub(super) fn speak(&self, style: SpeechStyle, units: &mut Vec<super::SpokenUnit>) {
        let read = style.exact || style.code == CodePolicy::Read;
        if self.lines == 0 || (style.code == CodePolicy::Skip && !style.exact) {
            return;
        }
        units.push(self.title(style).into());
        if read {
            let lines = self.text.lines().map(|line| spoken(line, style));
            units.extend(lines.filter(|line| !line.is_empty()).map(|line| super::sentence(&line).into()));
            if !self.whole {
                units.push(style.phrases.text("text-cut").into());
            }
        }
    }

    fn title(&self, style: SpeechStyle) -> String {
        let phrases = style.phrases;
        if self.is_diff() {
            let (added, removed) = (self.added, self.removed);
            return match &self.file {
                Some(file) => {
                    let file = super::word::path(file, style);
                    phrase!(phrases, "diff-file", file = &file, added = added, removed = removed)
                }
                None => phrase!(phrases, "diff", added = added, removed = removed),
            };
        }
        match language_name(&self.info) {
            Some(language) => phrase!(phrases, "code-block", language = &language, lines = self.lines),
            None => phrase!(phrases, "code-block-plain", lines = self.lines),
        }
    }
}
