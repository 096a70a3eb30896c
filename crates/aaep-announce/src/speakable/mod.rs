//! Makes text speakable: turns Markdown, code, addresses, tables, numbers and drawings into words.
//!
//! First, control sequences of terminals are removed. Then `glyphs` replaces characters that cannot be spoken, `blocks`
//! handles lines (code, tables, changes, paragraphs), `inline` the markup inside a line, `word` single words, and `code`
//! symbols and programs.

mod blocks;
mod code;
mod glyphs;
mod inline;
mod table;
mod word;

use aaep_proto::escape::without_escapes;
use aaep_proto::language::LanguageTag;
use aaep_proto::message::Verbosity;

pub(crate) use blocks::{Blocks, SpokenUnit};
pub use glyphs::is_unspeakable;

use crate::phrases::Phrases;
use crate::profile::{CodePolicy, Profile, Punctuation};

/// The most characters that one call returns. Longer text is cut, with a remark that it goes on.
pub const MAX_CHARS: usize = 20_000;

/// Returns the text in speakable words, as whole sentences.
///
/// ```
/// use aaep_announce::{Profile, speakable::speakable};
/// let text = "## Result\n\n- **3** files in `src/`\n- see https://example.org/a/b?c=d\n\n```rust\nfn main() {}\n```";
/// assert_eq!(
///     speakable(text, "text/markdown", "en", &Profile::default()),
///     "Result. 3 files in src slash. see link to example.org. Rust code, 1 line."
/// );
/// ```
pub fn speakable(text: &str, content_type: &str, language: &str, profile: &Profile) -> String {
    render(text, content_type, SpeechStyle::new(language, profile))
}

/// Returns a text that the user decides about in speakable words: nothing is shortened, and every symbol of an address, a
/// path or a command is named.
pub(crate) fn speakable_exact(text: &str, language: &str, profile: &Profile) -> String {
    render(text, "text/plain", SpeechStyle { exact: true, ..SpeechStyle::new(language, profile) })
}

/// Returns a name, such as that of an agent, as one short line without hidden characters.
///
/// ```
/// use aaep_announce::{Profile, speakable::name};
/// assert_eq!(name("\u{1b}[31mbank\u{1b}[0m\nhelper", &Profile::default()), "bank helper");
/// ```
pub fn name(text: &str, profile: &Profile) -> String {
    let style = SpeechStyle::new("", profile);
    let cleaned = glyphs::clean(&without_escapes(text), style.phrases).replace('_', " ");
    let short: String = cleaned.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect();
    short.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != ')').to_owned()
}

fn render(text: &str, content_type: &str, style: SpeechStyle) -> String {
    let mut units = Vec::new();
    let mut blocks = Blocks::new(content_type, style);
    blocks.push(&without_escapes(text), &mut units);
    blocks.finish(&mut units);
    bounded(joined(units), style.phrases)
}

/// Returns all of the text in one line.
pub(crate) fn joined(units: Vec<SpokenUnit>) -> String {
    units.into_iter().map(|unit| unit.text).collect::<Vec<_>>().join(" ")
}

/// How text is made speakable.
#[derive(Clone, Copy)]
pub(crate) struct SpeechStyle {
    phrases: &'static Phrases,
    punctuation: Punctuation,
    code: CodePolicy,
    /// The verbosity: 0 is terse, 1 normal, 2 detailed.
    detail: u8,
    /// Whether nothing may be shortened.
    exact: bool,
    /// Whether headings, links and emphasis are markup.
    markdown: bool,
}

impl SpeechStyle {
    /// Creates the style of a profile for text in this language.
    pub(crate) fn new(language: &str, profile: &Profile) -> SpeechStyle {
        let detail = match profile.verbosity {
            Verbosity::Terse => 0,
            Verbosity::Detailed => 2,
            _ => 1,
        };
        SpeechStyle {
            phrases: phrases_for(language, &profile.languages),
            punctuation: profile.punctuation,
            code: profile.code,
            detail,
            exact: false,
            markdown: false,
        }
    }
}

/// Returns the phrases to put around text in this language: in the same language if the user understands it, so that one
/// voice can speak all of it, else in the user's.
pub(crate) fn phrases_for(language: &str, languages: &[LanguageTag]) -> &'static Phrases {
    let primary = |tag: &str| tag.split('-').next().unwrap_or(tag).to_ascii_lowercase();
    let understood = languages.iter().any(|w| primary(w.as_str()) == primary(language));
    let own = if understood { Phrases::for_tag(language) } else { None };
    own.unwrap_or_else(|| Phrases::for_languages(languages))
}

/// Marks that end a sentence, of all scripts.
const SENTENCE_ENDS: [char; 14] = ['.', '!', '?', ':', '…', '。', '！', '？', '؟', '۔', '।', '։', '።', '‽'];

/// Marks that may follow the end of a sentence.
const CLOSERS: [char; 7] = ['"', '\'', ')', ']', '”', '’', '»'];

/// Returns the text with a mark at its end, so that a voice lowers its tone.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim().trim_end_matches([',', ';', '-', '–', '—']).trim_end();
    let bare = text.trim_end_matches(CLOSERS);
    match bare.chars().last() {
        None => String::new(),
        Some(c) if SENTENCE_ENDS.contains(&c) => text.to_owned(),
        Some(_) => format!("{text}."),
    }
}

/// Returns whether the text ends like a sentence.
pub(crate) fn is_sentence(text: &str) -> bool {
    text.trim_end_matches(CLOSERS).ends_with(SENTENCE_ENDS)
}

/// Cuts a text that is too long between words, and adds a remark that it goes on.
fn bounded(text: String, phrases: &Phrases) -> String {
    let Some((end, _)) = text.char_indices().nth(MAX_CHARS - 200) else { return text };
    let cut = text[..end].rfind(char::is_whitespace).unwrap_or(end);
    format!("{} {}", sentence(&text[..cut]), phrases.text("text-cut"))
}

/// Joins words with single spaces, and without a space before marks.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let mark = word.chars().all(|c| matches!(c, ',' | '.' | ';' | ':' | '!' | '?'));
        if mark && out.ends_with([',', '.', ';', ':', '!', '?']) {
            continue;
        }
        if !out.is_empty() && !mark {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests;
