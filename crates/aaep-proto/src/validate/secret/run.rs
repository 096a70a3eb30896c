//! Runs of bytes that belong together, and the classes of bytes that secrets consist of.

use super::{Found, MAX_LOOKAHEAD_BYTES, Scan};

/// Returns whether a byte may be part of a key: a letter, a digit, `_` or `-`.
pub(in crate::validate) fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

/// Returns whether a byte may be part of a bearer token.
pub(in crate::validate) fn is_bearer(b: u8) -> bool {
    is_token(b) || matches!(b, b'.' | b'+' | b'/' | b'=' | b'~')
}

/// Returns whether a byte may be part of a value after a name: anything but white space and delimiters.
pub(in crate::validate) fn is_value(b: u8) -> bool {
    !b.is_ascii_whitespace() && !matches!(b, b',' | b';' | b'"' | b'\'' | b')' | b'}' | b'&' | b'\\')
}

/// A run of bytes of one class, up to the lookahead limit.
pub(in crate::validate) struct ByteRun<'t> {
    pub(in crate::validate) bytes: &'t [u8],
    /// Whether more text could make the run longer.
    pub(in crate::validate) open: bool,
}

impl ByteRun<'_> {
    /// Turns a decision about the bytes so far into a result: a negative one is final only if the run cannot grow.
    pub(super) fn decide(&self, is_secret: bool, found: impl FnOnce() -> Found) -> Scan {
        match (is_secret, self.open) {
            (true, _) => Scan::Found(found()),
            (false, true) => Scan::Partial,
            (false, false) => Scan::Nothing,
        }
    }
}

/// Returns the run of bytes at the beginning of `bytes` for which `is_part` holds. `last` is true if no text follows.
pub(in crate::validate) fn leading_run(bytes: &[u8], is_part: impl Fn(u8) -> bool, last: bool) -> ByteRun<'_> {
    let seen = &bytes[..bytes.len().min(MAX_LOOKAHEAD_BYTES)];
    let length = seen.iter().take_while(|b| is_part(**b)).count();
    ByteRun { bytes: &seen[..length], open: !last && length == bytes.len() && length < MAX_LOOKAHEAD_BYTES }
}

pub(super) fn starts_with_ignoring_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes.get(..prefix.len()).is_some_and(|b| b.eq_ignore_ascii_case(prefix))
}

/// Returns whether a value begins with a date such as `2026-05-24`.
pub(super) fn is_date(value: &[u8]) -> bool {
    value.len() >= 10
        && value[..10].iter().enumerate().all(|(i, b)| if i == 4 || i == 7 { *b == b'-' } else { b.is_ascii_digit() })
}
