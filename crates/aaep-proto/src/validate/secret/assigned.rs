//! Finds secrets by the name before them, and passwords inside URLs.

use super::formats::SECRET_NAMES;
use super::run::{is_date, is_value, leading_run, starts_with_ignoring_case};
use super::{Found, MAX_LOOKBACK_BYTES, Scan, SecretKind};
use crate::validate::tail::Tail;

/// Returns the words of the secret name at the end of these bytes, such as `DB_PASSWORD`, `"apiKey"` or `API key `.
/// Returns `None` if they end with no such name.
fn secret_name(before: &[u8]) -> Option<&'static [&'static [u8]]> {
    // The last byte rules out most text before a colon or an equals sign.
    let before = &before[before.len().saturating_sub(MAX_LOOKBACK_BYTES)..];
    let before = before.trim_ascii_end();
    let before = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'")).unwrap_or(before);
    let before = before.strip_suffix(b"\\").unwrap_or(before);
    if !matches!(before.last()? | 0x20, b'd' | b'e' | b't' | b'n' | b'y') {
        return None;
    }
    SECRET_NAMES.iter().copied().find(|words| {
        let mut rest = before;
        words.iter().rev().enumerate().all(|(i, word)| {
            if i > 0 && matches!(rest.last(), Some(b'_' | b'-' | b' ')) {
                rest = &rest[..rest.len() - 1];
            }
            let Some(cut) = rest.len().checked_sub(word.len()) else { return false };
            let is_word = rest[cut..].eq_ignore_ascii_case(word);
            rest = &rest[..cut];
            is_word
        })
    })
}

/// Looks for a secret value after a colon or an equals sign, by the name before it, or for a password in a URL.
pub(super) fn scan_assigned(before: &[u8], rest: &[u8], last: bool) -> Scan {
    let after = &rest[1..];
    if rest[0] == b':' && after.starts_with(b"//") {
        return scan_url(rest, last);
    }
    if rest[0] == b':' && !last && after.len() < 2 && b"//".starts_with(after) {
        return Scan::Partial;
    }
    let Some(name) = secret_name(before) else { return Scan::Nothing };
    let gap = after.iter().take(8).take_while(|b| matches!(**b, b' ' | b'\t' | b'"' | b'\'' | b'\\')).count();
    let value = leading_run(&after[gap..], is_value, last);
    // The decision needs the whole value.
    if value.open {
        return Scan::Partial;
    }
    let start = 1 + gap;
    let found = || Found { kind: SecretKind::Password, start, end: start, tail: Tail::Value };
    value.decide(is_secret_value(value.bytes, name, rest[0]), found)
}

/// Looks for a password in the authority of a URL: `bob:hunter22@` after `://`.
fn scan_url(rest: &[u8], last: bool) -> Scan {
    let start = "://".len();
    let is_user = |b: u8| !b.is_ascii_whitespace() && !matches!(b, b'/' | b'?' | b'#' | b'"' | b'@');
    let user = leading_run(&rest[start..], is_user, last);
    if user.open {
        return Scan::Partial;
    }
    let Some(colon) = user.bytes.iter().position(|b| *b == b':') else { return Scan::Nothing };
    let password = &user.bytes[colon + 1..];
    let end = start + user.bytes.len();
    if rest.get(end) != Some(&b'@') || password.len() < 4 || is_placeholder(password) {
        return Scan::Nothing;
    }
    Scan::Found(Found { kind: SecretKind::Password, start: start + colon + 1, end, tail: Tail::Nothing })
}

/// Returns whether the name of a field marks its value as a secret, as in `"password": "hunter22"`.
pub(crate) fn is_secret_field(name: &str, value: &str) -> bool {
    let value = value.as_bytes();
    secret_name(name.as_bytes()).is_some_and(|name| !value.contains(&b' ') && is_secret_value(value, name, b':'))
}

/// Returns whether a value looks like a password or a generated secret. Prose may follow a colon, so a value that
/// consists of words and numbers (`step2of5`) does not count there.
fn is_secret_value(value: &[u8], name: &[&[u8]], sign: u8) -> bool {
    let digit = value.iter().any(u8::is_ascii_digit);
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    let pin = sign == b'=' && name[0].starts_with(b"pass");
    value.len() >= 6
        && digit
        && (letter || pin)
        && !is_placeholder(value)
        && !is_date(value)
        && (sign == b'=' || !is_words_and_numbers(value))
}

/// Returns whether a value is redacted, a placeholder or a path.
fn is_placeholder(value: &[u8]) -> bool {
    value.iter().all(|b| !b.is_ascii_alphanumeric())
        || value.first().is_some_and(|b| matches!(b, b'[' | b'<' | b'*' | b'{' | b'$' | b'%' | b'/' | b'~'))
        || [&b"redacted"[..], b"hidden", b"none", b"null", b"true", b"false", b"http"]
            .iter()
            .any(|w| starts_with_ignoring_case(value, w))
}

/// Returns whether a value consists of lower-case words and short numbers: `min8chars`, `step2of5`.
fn is_words_and_numbers(value: &[u8]) -> bool {
    let value = value.trim_ascii_end();
    let value = value.strip_suffix(b".").unwrap_or(value);
    let mut words = 0;
    let plain = value.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).all(|run| {
        if run[0].is_ascii_digit() {
            return run.len() <= 2;
        }
        words += 1;
        run.len() >= 2 && run.iter().all(|b| b.is_ascii_lowercase() || *b == b'-')
    });
    plain && words >= 2
}
