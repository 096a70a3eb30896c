//! Finds secrets that begin with a known prefix: keys of services, bearer tokens and PEM blocks.

use super::formats::{BEARER, KEY_FORMATS, LONGEST_PREFIX, PEM_BEGIN, may_begin_key};
use super::run::{is_bearer, is_date, is_token, leading_run, starts_with_ignoring_case};
use super::{Found, Scan, SecretKind};
use crate::validate::tail::Tail;

/// Looks for a key of a known service or a bearer token at the beginning of `rest`.
pub(super) fn scan_word(rest: &[u8], last: bool) -> Scan {
    if let Some(tail) = rest.strip_prefix(b"sk-") {
        return scan_sk_key(tail, last);
    }
    if rest.starts_with(b"eyJ") {
        return scan_jwt(rest, last);
    }
    if starts_with_ignoring_case(rest, BEARER) {
        return scan_bearer(rest, last);
    }
    if may_begin_key(rest)
        && let Some((prefix, least)) = KEY_FORMATS.iter().find(|(prefix, _)| rest.starts_with(prefix.as_bytes()))
    {
        let value = leading_run(&rest[prefix.len()..], is_token, last);
        let is_key = value.bytes.len() >= *least && value.bytes.iter().any(u8::is_ascii_digit);
        let tail = if prefix.ends_with('.') { Tail::Dotted } else { Tail::Token };
        return value.decide(is_key, || Found { kind: SecretKind::ApiKey, start: 0, end: prefix.len(), tail });
    }
    if !last && rest.len() < LONGEST_PREFIX && is_cut_prefix(rest) { Scan::Partial } else { Scan::Nothing }
}

/// Returns whether a text may be the beginning of a prefix that is cut off.
fn is_cut_prefix(rest: &[u8]) -> bool {
    let begins = |prefix: &[u8]| rest.len() < prefix.len() && prefix[..rest.len()] == *rest;
    let bearer = rest.len() < BEARER.len() && BEARER[..rest.len()].eq_ignore_ascii_case(rest);
    bearer || begins(b"sk-") || begins(b"eyJ") || KEY_FORMATS.iter().any(|(prefix, _)| begins(prefix.as_bytes()))
}

/// Decides whether the text after `sk-` is a key: one of its parts is long and has digits. Names of branches and
/// versions have words and short numbers. A part of digits only counts if the part before it names a purpose.
fn scan_sk_key(tail: &[u8], last: bool) -> Scan {
    let value = leading_run(tail, is_token, last);
    let mut before: &[u8] = b"";
    let is_key = value.bytes.split(|b| *b == b'-').any(|part| {
        let purpose = matches!(before, b"test" | b"live" | b"proj");
        before = part;
        let mixed = part.iter().any(u8::is_ascii_alphabetic);
        part.len() >= 8 && part.iter().any(u8::is_ascii_digit) && (mixed || purpose)
    });
    value.decide(is_key, || Found { kind: SecretKind::ApiKey, start: 0, end: "sk-".len(), tail: Tail::Token })
}

/// Looks for a JSON Web Token: a header, a dot, and a second part.
fn scan_jwt(rest: &[u8], last: bool) -> Scan {
    let head = leading_run(rest, is_token, last);
    if head.open {
        return Scan::Partial;
    }
    let length = head.bytes.len();
    if length < 15 || rest.get(length) != Some(&b'.') {
        return Scan::Nothing;
    }
    let next = leading_run(&rest[length + 1..], is_token, last);
    let coded = head.bytes.iter().chain(next.bytes).any(u8::is_ascii_digit);
    let found = || Found { kind: SecretKind::BearerToken, start: 0, end: length, tail: Tail::Dotted };
    next.decide(next.bytes.len() >= 8 && coded, found)
}

/// Looks for a token after `Bearer`.
fn scan_bearer(rest: &[u8], last: bool) -> Scan {
    let gap = rest[BEARER.len()..].iter().take(8).take_while(|b| **b == b' ').count();
    let start = BEARER.len() + gap;
    let value = leading_run(&rest[start..], is_bearer, last);
    // Ten characters are needed to recognize a date.
    if value.open && value.bytes.len() < 10 {
        return Scan::Partial;
    }
    let coded = value.bytes.iter().any(|b| b.is_ascii_digit() || *b == b'=');
    let is_token = coded && value.bytes.iter().any(u8::is_ascii_alphabetic) && !is_date(value.bytes);
    let found = || Found { kind: SecretKind::BearerToken, start: 0, end: start, tail: Tail::Bearer };
    value.decide(value.bytes.len() >= 8 && is_token, found)
}

/// Looks for the first line of a private key in PEM form.
pub(super) fn scan_pem(rest: &[u8], last: bool) -> Scan {
    let Some(after) = rest.strip_prefix(PEM_BEGIN.as_bytes()) else {
        let cut = !last && rest.len() < PEM_BEGIN.len() && PEM_BEGIN.as_bytes().starts_with(rest);
        return if cut { Scan::Partial } else { Scan::Nothing };
    };
    let label = leading_run(after, |b| b.is_ascii_uppercase() || b == b' ', last);
    if label.open {
        return Scan::Partial;
    }
    let dashes = &after[label.bytes.len()..];
    if !label.bytes.ends_with(b"PRIVATE KEY") {
        return Scan::Nothing;
    }
    if !last && dashes.len() < 5 && b"-----".starts_with(dashes) {
        return Scan::Partial;
    }
    if !dashes.starts_with(b"-----") {
        return Scan::Nothing;
    }
    let end = PEM_BEGIN.len() + label.bytes.len() + "-----".len();
    Scan::Found(Found { kind: SecretKind::PrivateKey, start: 0, end, tail: Tail::Pem { line_start: false } })
}
