//! Single words: addresses, paths, names of programs, long numbers and codes.

use super::SpeechStyle;
use super::code::{named, symbol};
use crate::phrases::phrase;
use crate::profile::Punctuation;

/// Words of ASCII longer than this are codes, whatever they look like.
const LONG: usize = 60;

/// Makes one word of prose speakable, with the marks around it.
pub(super) fn word(token: &str, style: SpeechStyle) -> String {
    let opening = |c: char| matches!(c, '(' | '[' | '{' | '"' | '\'' | '“' | '‘' | '«' | '„');
    let closing =
        |c: char| matches!(c, ')' | ']' | '}' | '"' | '\'' | '”' | '’' | '»' | '.' | ',' | ';' | ':' | '!' | '?' | '…');
    if is_rule(token) && !style.exact {
        return String::new();
    }
    let without = token.trim_start_matches(opening);
    let before = &token[..token.len() - without.len()];
    let core = without.trim_end_matches(closing);
    let after = &without[core.len()..];
    match style.punctuation {
        Punctuation::Some => format!("{before}{}{after}", core_word(core, style)),
        Punctuation::None => {
            let said = core_word(core, style);
            let said = said.replace(|c: char| c.is_ascii_punctuation() && !is_melody(c), " ");
            let melody: String =
                after.chars().filter(|c| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '…')).collect();
            format!("{said}{melody}")
        }
        Punctuation::All => {
            let ends: String = after
                .chars()
                .map(|c| match c {
                    '.' => format!(" {}", style.phrases.text("symbol-period")),
                    c => symbol(c).map_or_else(|| c.to_string(), |id| format!(" {}", style.phrases.text(id))),
                })
                .collect();
            format!("{} {}{ends}", named(before, style.phrases), core_word(core, style))
        }
    }
}

/// Marks inside words that change how they are spoken.
fn is_melody(c: char) -> bool {
    matches!(c, '.' | ',' | '\'' | '-' | ':' | '%' | '$')
}

fn core_word(core: &str, style: SpeechStyle) -> String {
    if core.is_empty() {
        return String::new();
    }
    if is_rule(core) {
        return if style.exact { named(core, style.phrases) } else { String::new() };
    }
    if let Some(said) = number(core, style) {
        return said;
    }
    if style.exact || style.punctuation == Punctuation::All {
        return exact_word(core, style);
    }
    if is_path(core) {
        return path(core, style);
    }
    if let Some(said) = long_code(core, style) {
        return said;
    }
    let bare = core.trim_end_matches("()");
    if bare.trim_matches('_').contains('_') && !bare.contains('@') { bare.replace('_', " ") } else { bare.to_owned() }
}

/// Returns whether a word is a row of the same mark: a drawn line.
fn is_rule(core: &str) -> bool {
    let mut chars = core.chars();
    let first = chars.next().unwrap_or(' ');
    core.len() >= 3 && matches!(first, '-' | '=' | '*' | '_' | '#' | '~' | '+' | '.') && chars.all(|c| c == first)
}

/// Makes a word speakable without shortening it: marks that a voice may skip are named.
fn exact_word(core: &str, style: SpeechStyle) -> String {
    let telling = |c: char| "/\\_@#&*+=<>|~^{}[]`".contains(c);
    let is_option = core.starts_with('-') && core.len() > 1 && !core[1..].starts_with(|c: char| c.is_ascii_digit());
    if core.contains(telling) || is_option || style.punctuation == Punctuation::All {
        return named(core, style.phrases);
    }
    match code_like(core) {
        true => in_groups(core, 4),
        false => core.to_owned(),
    }
}

/// Groups long runs of digits. Amounts with separators stay as they are.
fn number(core: &str, style: SpeechStyle) -> Option<String> {
    if core.len() < 7 || !core.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if core.len() > 15 && !style.exact {
        let ending = in_groups(&core[core.len() - 4..], 1);
        return Some(phrase!(style.phrases, "long-number", count = core.len(), ending = &ending));
    }
    Some(in_groups(core, 3))
}

fn in_groups(text: &str, size: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(size).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
}

/// Returns whether a word is a hash, an identifier or a token: letters and digits that are not a word.
fn code_like(core: &str) -> bool {
    let body: Vec<u8> = core.bytes().filter(|b| *b != b'-').collect();
    let digits = body.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = body.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let hex = body.iter().all(u8::is_ascii_hexdigit);
    digits + letters == body.len() && digits >= 2 && letters >= 1 && (hex && body.len() >= 12 || body.len() >= 24)
}

fn long_code(core: &str, style: SpeechStyle) -> Option<String> {
    let is_long = core.len() > LONG && core.is_ascii();
    if !code_like(core) && !is_long {
        return None;
    }
    let start: String = core.chars().filter(|c| c.is_alphanumeric()).take(4).collect();
    let count = core.chars().count();
    Some(phrase!(style.phrases, "long-code", count = count, start = &in_groups(&start, 1)))
}

/// Returns whether a word is a path of a file system. `and/or`, `km/h` and dates do not.
fn is_path(core: &str) -> bool {
    let (back, forth) = (core.contains('\\'), core.contains('/'));
    if !(back || forth) || core.len() > 1024 {
        return false;
    }
    let rooted = ["/", "./", "../", "~/", "\\\\", ".\\", "..\\"].iter().any(|root| core.starts_with(root));
    let drive = matches!(core.as_bytes(), [b'A'..=b'Z' | b'a'..=b'z', b':', b'\\' | b'/', ..]);
    let last = core.rsplit(['/', '\\']).next().unwrap_or_default();
    let extension = last.rsplit_once('.').is_some_and(|(stem, ext)| {
        !stem.is_empty() && (1..=5).contains(&ext.len()) && ext.starts_with(|c: char| c.is_ascii_alphabetic())
    });
    (rooted && core.len() > 2) || drive || extension
}

/// Makes a path speakable: the file and its directory, or all of it if nothing may be shortened.
pub(super) fn path(text: &str, style: SpeechStyle) -> String {
    let text = text.trim();
    if style.exact || style.detail == 2 {
        return match style.punctuation {
            Punctuation::None => text.replace(['/', '\\', '_'], " ").trim().to_owned(),
            _ => named(text, style.phrases),
        };
    }
    let parts: Vec<&str> = text.split(['/', '\\']).filter(|p| !matches!(*p, "" | "." | ".." | "~")).collect();
    let clean = |part: &str| long_code(part, style).unwrap_or_else(|| part.replace('_', " "));
    match parts.as_slice() {
        [] => named(text, style.phrases),
        [.., folder, file] if style.detail > 0 && !folder.ends_with(':') => {
            phrase!(style.phrases, "file-in", file = &clean(file), folder = &clean(folder))
        }
        [.., file] => clean(file),
    }
}

/// Makes a web address speakable by its host. Text before an `@` is not the host, but a trick to hide it.
pub(super) fn url(text: &str, style: SpeechStyle) -> String {
    if style.exact {
        return named(text, style.phrases);
    }
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, place) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let host: String = host.strip_prefix("www.").unwrap_or(host).chars().take(100).collect();
    if style.detail == 2 && place.len() > 1 {
        let place: String = place.chars().take(200).collect();
        return format!("{} {}", phrase!(style.phrases, "link", host = &host), named(&place, style.phrases));
    }
    phrase!(style.phrases, "link", host = &host)
}

/// Returns the host of an address, for a link that has a text.
pub(super) fn host(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let host: String = host.strip_prefix("www.").unwrap_or(host).chars().take(100).collect();
    (!host.is_empty()).then_some(host)
}
