//! Finds likely secrets in text, so that a screen reader does not read them aloud and captures do not keep them.
//!
//! Every scan function examines one position and looks at most [`MAX_LOOKAHEAD_BYTES`] ahead, so a text is scanned in
//! linear time. If the text ends before a decision is possible, the result is [`Scan::Partial`]; this lets
//! [`Redactor`](super::Redactor) work on text that arrives in pieces.

mod assigned;
mod formats;
mod run;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::ops::Range;

use super::number;
use super::tail::Tail;

pub(crate) use assigned::is_secret_field;
use formats::PEM_BEGIN;
pub(super) use run::{is_bearer, is_token, is_value, leading_run};

/// The kind of a likely secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretKind {
    /// A key of a known service.
    ApiKey,
    /// A payment card number: a known issuer, its length, the Luhn check.
    CardNumber,
    /// A United States social security number.
    SocialSecurityNumber,
    /// A bearer token or a JSON Web Token.
    BearerToken,
    /// A private key in PEM form.
    PrivateKey,
    /// A password or key given by name, or inside a URL.
    Password,
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecretKind::ApiKey => "API key",
            SecretKind::CardNumber => "card number",
            SecretKind::SocialSecurityNumber => "social security number",
            SecretKind::BearerToken => "bearer token",
            SecretKind::PrivateKey => "private key",
            SecretKind::Password => "password",
        })
    }
}

/// A likely secret and its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The kind of secret.
    pub kind: SecretKind,
    /// The bytes of the secret in the text.
    pub range: Range<usize>,
}

/// The number of bytes that a scan looks ahead before it decides. Without a limit, a text that repeats the beginning of
/// a secret would take quadratic time.
pub(super) const MAX_LOOKAHEAD_BYTES: usize = 512;

/// The number of bytes that a scan looks back.
pub(super) const MAX_LOOKBACK_BYTES: usize = 64;

/// The result of a scan at one position of a text.
#[derive(Debug)]
pub(super) enum Scan {
    /// No secret is recognized at this position.
    Nothing,
    /// The text ends too early for a decision.
    Partial,
    /// A secret is recognized.
    Found(Found),
}

/// A recognized secret, relative to the scanned position.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) kind: SecretKind,
    /// The beginning of the secret, in bytes from the scanned position.
    pub(super) start: usize,
    /// The end of the part that was examined, in bytes from the scanned position.
    pub(super) end: usize,
    /// The kind of text after `end` that also belongs to the secret.
    pub(super) tail: Tail,
}

/// Finds the first likely secret in a text. Returns `None` if there is none.
///
/// ```
/// use aaep_proto::validate::{SecretKind, find_secret};
/// let secret = find_secret("Paying with 4111 1111 1111 1111.").expect("a card number");
/// assert_eq!(secret.kind, SecretKind::CardNumber);
/// assert!(find_secret("Transfer $500.00 from checking-7821.").is_none());
/// ```
pub fn find_secret(text: &str) -> Option<Secret> {
    let bytes = text.as_bytes();
    if !may_hold_secret(text) {
        return None;
    }
    (0..bytes.len()).find_map(|at| match scan(&bytes[at.saturating_sub(MAX_LOOKBACK_BYTES)..at], &bytes[at..], true) {
        Scan::Found(mut found) => {
            let rest = found.tail.consume(&bytes[at + found.end..], true).length;
            Some(Secret { kind: found.kind, range: at + found.start..at + found.end + rest })
        }
        Scan::Nothing | Scan::Partial => None,
    })
}

/// Returns false if the text certainly holds no secret. Every known secret contains a digit, an equals sign or an at
/// sign, or is a PEM block; most prose does not. `0xEF` begins a full-width digit. Blocks are examined without
/// branches, so that the compiler can vectorize the loop.
pub(super) fn may_hold_secret(text: &str) -> bool {
    let is_hint = |b: &u8| b.is_ascii_digit() | (*b == b'=') | (*b == b'@') | (*b == 0xEF);
    let has_hint = |block: &[u8]| block.iter().fold(false, |found, b| found | is_hint(b));
    text.as_bytes().chunks(64).any(has_hint) || text.contains(PEM_BEGIN)
}

/// Looks for a secret at the first byte of `rest`, which must not be empty. `before` is the text before it; `last` is
/// true if no text follows `rest`.
pub(super) fn scan(before: &[u8], rest: &[u8], last: bool) -> Scan {
    let previous = before.last().copied().unwrap_or(b' ');
    match rest[0] {
        b'0'..=b'9' | 0xEF if !previous.is_ascii_alphanumeric() => number::scan(before, rest, last),
        b'A'..=b'Z' | b'a'..=b'z' if !previous.is_ascii_alphanumeric() => token::scan_word(rest, last),
        b'=' | b':' => assigned::scan_assigned(before, rest, last),
        b'-' if previous != b'-' => token::scan_pem(rest, last),
        _ => Scan::Nothing,
    }
}
