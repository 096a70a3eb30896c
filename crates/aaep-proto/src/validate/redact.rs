//! Replaces likely secrets in complete text and in text that arrives in pieces.

use std::borrow::Cow;

use serde_json::Value;

use super::secret::{MAX_LOOKBACK_BYTES, Scan, find_secret, is_secret_field, may_hold_secret, scan};
use super::tail::Tail;
use crate::json::Json;

/// The text that replaces a secret.
pub const REMOVED: &str = "[removed]";

/// Replaces likely secrets in text that arrives in pieces. However the text is cut into pieces, the result is the same.
///
/// Only text that may still become a secret is held back: a prefix of a key, a number that may be a card number, the
/// value after the name of a password. That is at most about 600 bytes.
///
/// ```
/// use aaep_proto::validate::Redactor;
/// let (mut redactor, mut out) = (Redactor::default(), String::new());
/// for piece in ["Use ghp_abcdef", "ghij0123456789", "ABCD for now", "."] {
///     redactor.push(piece, &mut out);
/// }
/// redactor.finish(&mut out);
/// assert_eq!(out, "Use [removed] for now.");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// The undecided text, after up to [`MAX_LOOKBACK_BYTES`] of decided text.
    buffer: String,
    /// The number of bytes of the buffer that are decided.
    decided: usize,
    /// The number of bytes of the buffer that were written to `out`: the decided ones, or more after
    /// [`Redactor::release`].
    released: usize,
    /// The rest of a secret that continues after the decided text.
    tail: Tail,
    /// The number of secrets that were replaced.
    count: u64,
}

impl Redactor {
    /// Adds text, and appends to `out` all text that is decided.
    pub fn push(&mut self, text: &str, out: &mut String) {
        self.buffer.push_str(text);
        self.scan(false, out);
    }

    /// Appends the held text to `out` although it may still become a secret, because it must not wait any longer. If
    /// it becomes one, the rest of it is replaced.
    pub fn release(&mut self, out: &mut String) {
        out.push_str(&self.buffer[self.released..]);
        self.released = self.buffer.len();
    }

    /// Ends the text: decides about everything that is held, and appends the result to `out`.
    pub fn finish(&mut self, out: &mut String) {
        self.scan(true, out);
    }

    /// Returns the text that is held back.
    pub fn held(&self) -> &str {
        &self.buffer[self.released..]
    }

    fn scan(&mut self, last: bool, out: &mut String) {
        let bytes = self.buffer.as_bytes();
        // `floor` is the end of the last secret: text before it must not influence decisions about text after it.
        let (mut at, mut floor, mut handed) = (self.decided, 0, self.released);
        loop {
            let consumed = self.tail.consume(&bytes[at..], last);
            at += consumed.length;
            if self.tail != Tail::Nothing {
                floor = at;
                handed = handed.max(at);
                if !consumed.ended {
                    break;
                }
                self.tail = Tail::Nothing;
            }
            if at >= bytes.len() {
                break;
            }
            match scan(&bytes[floor.max(at.saturating_sub(MAX_LOOKBACK_BYTES))..at], &bytes[at..], last) {
                Scan::Nothing => at += 1,
                Scan::Partial => break,
                Scan::Found(found) => {
                    let start = at + found.start;
                    out.push_str(self.buffer.get(handed..start).unwrap_or_default());
                    out.push_str(REMOVED);
                    (at, self.tail) = (at + found.end, found.tail);
                    (floor, handed) = (at, handed.max(at));
                    self.count += 1;
                }
            }
        }
        out.push_str(self.buffer.get(handed..at).unwrap_or_default());
        handed = handed.max(at);
        // Decided text ends at a character boundary, so the loop ends at `at` at the latest.
        let mut keep = floor.max(at.saturating_sub(MAX_LOOKBACK_BYTES));
        while !self.buffer.is_char_boundary(keep) {
            keep += 1;
        }
        self.buffer.drain(..keep);
        (self.decided, self.released) = (at - keep, handed - keep);
    }
}

/// Replaces likely secrets in a text, in one pass over it.
///
/// ```
/// use aaep_proto::validate::redact;
/// assert_eq!(redact("Paying with 4111 1111 1111 1111."), "Paying with [removed].");
/// ```
pub fn redact(text: &str) -> Cow<'_, str> {
    if !may_hold_secret(text) {
        return Cow::Borrowed(text);
    }
    let (mut redactor, mut clean) = (Redactor::default(), String::new());
    redactor.push(text, &mut clean);
    redactor.finish(&mut clean);
    if redactor.count == 0 { Cow::Borrowed(text) } else { Cow::Owned(clean) }
}

/// Replaces likely secrets in every string of a JSON value, including values whose field name marks them as secret.
/// Returns whether any were replaced.
///
/// ```
/// use aaep_proto::validate::redact_json;
/// let mut value = serde_json::json!({"note": "card 4111 1111 1111 1111", "password": "hunter22"});
/// assert!(redact_json(&mut value));
/// assert_eq!(value, serde_json::json!({"note": "card [removed]", "password": "[removed]"}));
/// ```
pub fn redact_json(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, item| redact_json(item) | any),
        Value::Object(fields) => fields.iter_mut().fold(false, |any, (name, value)| redact_field(name, value) | any),
        _ => false,
    }
}

/// Replaces likely secrets in the value of a field, including a value that the field name marks as secret. Returns
/// whether any were replaced.
///
/// ```
/// use aaep_proto::validate::redact_field;
/// let mut value = serde_json::json!("hunter22");
/// assert!(redact_field("password", &mut value));
/// assert_eq!(value, "[removed]");
/// ```
pub fn redact_field(name: &str, value: &mut Value) -> bool {
    if let Value::String(text) = value
        && is_secret_field(name, text)
    {
        REMOVED.clone_into(text);
        return true;
    }
    redact_json(value)
}

/// Returns whether [`redact_field`] would change a field.
pub(crate) fn holds_secret(name: &str, json: &Json<'_>) -> bool {
    match json {
        Json::String(text) => is_secret_field(name, text) || find_secret(text).is_some(),
        Json::Array(items) => items.iter().any(|item| holds_secret("", item)),
        Json::Object(object) => object.iter().any(|(name, value)| holds_secret(name, value)),
        _ => false,
    }
}
