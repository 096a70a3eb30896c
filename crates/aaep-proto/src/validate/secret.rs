//! Finds likely secrets in text that people hear: a screen reader in an open-plan office reads
//! them aloud, and captures keep them.

use std::fmt;
use std::ops::Range;

/// What kind of secret it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A key of a known service.
    ApiKey,
    /// A payment card number that passes the Luhn check.
    CardNumber,
    /// A United States social security number.
    SocialSecurityNumber,
    /// A bearer token or a JSON Web Token.
    BearerToken,
    /// A private key in PEM form.
    PrivateKey,
    /// A password or key given as `name=value`.
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

/// A likely secret and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What it looks like.
    pub kind: SecretKind,
    /// Its bytes in the text.
    pub range: Range<usize>,
}

/// Finds the first likely secret.
///
/// ```
/// use aaep_proto::validate::{SecretKind, find_secret};
/// let secret = find_secret("Paying with 4111 1111 1111 1111.").expect("a card number");
/// assert_eq!(secret.kind, SecretKind::CardNumber);
/// assert!(find_secret("Transfer $500.00 from checking-7821.").is_none());
/// ```
pub fn find_secret(text: &str) -> Option<Secret> {
    let bytes = text.as_bytes();
    if !may_hold_secret(bytes) {
        return None;
    }
    let mut at_word_start = true;
    for (i, &b) in bytes.iter().enumerate() {
        let is_word = b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
        if at_word_start && is_word {
            let found = if b.is_ascii_digit() { find_number(bytes, i) } else { find_word(bytes, i) };
            if found.is_some() {
                return found;
            }
        } else if b == b'-'
            && at_word_start
            && let Some(found) = find_pem(text, i)
        {
            return Some(found);
        }
        at_word_start = !is_word;
    }
    None
}

/// Every secret we know holds a digit or an equals sign; most prose does not. Whole blocks are
/// looked at without a branch, which the compiler turns into wide instructions.
fn may_hold_secret(bytes: &[u8]) -> bool {
    let block = |block: &[u8]| block.iter().fold(false, |found, b| found | b.is_ascii_digit() | (*b == b'='));
    bytes.chunks(64).any(block)
}

/// Prefixes of keys that services hand out, and how many characters follow at least.
const KEYS: &[(&[u8], usize)] = &[
    (b"sk-", 8),
    (b"sk_live_", 8),
    (b"sk_test_", 8),
    (b"rk_live_", 8),
    (b"ghp_", 20),
    (b"gho_", 20),
    (b"ghu_", 20),
    (b"ghs_", 20),
    (b"ghr_", 20),
    (b"github_pat_", 20),
    (b"glpat-", 16),
    (b"xoxb-", 10),
    (b"xoxp-", 10),
    (b"xoxa-", 10),
    (b"xoxs-", 10),
    (b"AKIA", 16),
    (b"ASIA", 16),
    (b"AIza", 30),
    (b"hf_", 20),
    (b"npm_", 30),
    (b"ya29.", 20),
];

/// Names that stand before a secret.
const NAMES: &[&[u8]] = &[
    b"password",
    b"passwd",
    b"pwd",
    b"passphrase",
    b"api_key",
    b"apikey",
    b"api-key",
    b"secret",
    b"client_secret",
    b"access_token",
    b"auth_token",
    b"token",
    b"private_key",
];

fn find_word(bytes: &[u8], start: usize) -> Option<Secret> {
    let rest = &bytes[start..];
    let found = |kind, len| Some(Secret { kind, range: start..start + len });
    match rest[0] {
        b's' | b'r' | b'g' | b'x' | b'A' | b'h' | b'n' | b'y' => {
            for (prefix, least) in KEYS {
                if rest.starts_with(prefix) {
                    let tail = token_len(&rest[prefix.len()..]);
                    let value = &rest[prefix.len()..prefix.len() + tail];
                    if tail >= *least && value.iter().any(u8::is_ascii_digit) {
                        return found(SecretKind::ApiKey, prefix.len() + tail);
                    }
                }
            }
        }
        b'e' if rest.starts_with(b"eyJ") => {
            let len = rest.iter().take_while(|b| is_token(**b) || **b == b'.').count();
            if len >= 30 && rest[..len].iter().filter(|b| **b == b'.').count() >= 2 {
                return found(SecretKind::BearerToken, len);
            }
        }
        b'B' | b'b' if starts_with_ignoring_case(rest, b"bearer ") => {
            let tail = rest[7..]
                .iter()
                .take_while(|b| is_token(**b) || matches!(**b, b'.' | b'+' | b'/' | b'=' | b'~'))
                .count();
            if tail >= 8 && rest[7..7 + tail].iter().any(|b| b.is_ascii_digit() || *b == b'=') {
                return found(SecretKind::BearerToken, 7 + tail);
            }
        }
        _ => {}
    }
    if !matches!(rest[0] | 0x20, b'p' | b'a' | b's' | b'c' | b't') {
        return None;
    }
    let name = NAMES.iter().find(|name| starts_with_ignoring_case(rest, name) && is_assignment(&rest[name.len()..]))?;
    let gap = rest[name.len()..].iter().take_while(|b| matches!(**b, b'=' | b':' | b' ' | b'"' | b'\'')).count();
    let value_start = name.len() + gap;
    let value_len = rest[value_start..]
        .iter()
        .take_while(|b| !b.is_ascii_whitespace() && !matches!(**b, b',' | b';' | b'"' | b'\'' | b')'))
        .count();
    is_secret_value(&rest[value_start..value_start + value_len], rest[name.len()])
        .then(|| Secret { kind: SecretKind::Password, range: start + value_start..start + value_start + value_len })
}

fn is_assignment(after_name: &[u8]) -> bool {
    matches!(after_name.first(), Some(b'=' | b':'))
}

/// After `=` any value counts; after `:` prose may follow, so it must look like a code. What is
/// already blotted out is no secret.
fn is_secret_value(value: &[u8], sign: u8) -> bool {
    let blotted = value.iter().all(|b| !b.is_ascii_alphanumeric())
        || value.first().is_some_and(|b| matches!(b, b'[' | b'<' | b'*'))
        || [&b"redacted"[..], b"hidden", b"none", b"null", b"true", b"false"]
            .iter()
            .any(|w| starts_with_ignoring_case(value, w));
    let mixed = value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic);
    value.len() >= 4 && !blotted && (sign == b'=' || (mixed && value.len() >= 6))
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

fn token_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| is_token(**b)).count()
}

fn starts_with_ignoring_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes.get(..prefix.len()).is_some_and(|b| b.eq_ignore_ascii_case(prefix))
}

fn find_pem(text: &str, start: usize) -> Option<Secret> {
    let rest = text.get(start..)?.strip_prefix("-----BEGIN ")?;
    let label = &rest[..rest.find("-----")?];
    let end = start + "-----BEGIN ".len() + label.len() + "-----".len();
    label.ends_with("PRIVATE KEY").then_some(Secret { kind: SecretKind::PrivateKey, range: start..end })
}

/// Digits in groups: a card number or a social security number.
fn find_number(bytes: &[u8], start: usize) -> Option<Secret> {
    if start > 0 && matches!(bytes[start - 1], b'-' | b'.') && start > 1 && bytes[start - 2].is_ascii_alphanumeric() {
        return None;
    }
    let mut digits = [0u8; 20];
    let mut count = 0;
    let mut end = start;
    while end < bytes.len() {
        match bytes[end] {
            b if b.is_ascii_digit() => {
                if count == digits.len() {
                    return None;
                }
                digits[count] = b - b'0';
                count += 1;
            }
            b' ' | b'-' if bytes.get(end + 1).is_some_and(u8::is_ascii_digit) => {}
            _ => break,
        }
        end += 1;
    }
    if bytes.get(end).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
        return None;
    }
    let found = |kind| Some(Secret { kind, range: start..end });
    if count == 9 && is_ssn(&bytes[start..end]) {
        return found(SecretKind::SocialSecurityNumber);
    }
    if (13..=19).contains(&count) && is_card(&digits[..count]) {
        return found(SecretKind::CardNumber);
    }
    None
}

fn is_ssn(text: &[u8]) -> bool {
    text.len() == 11
        && text[3] == b'-'
        && text[6] == b'-'
        && text[0] != b'9'
        && !matches!(&text[..3], b"000" | b"666")
        && &text[4..6] != b"00"
        && &text[7..] != b"0000"
}

fn is_card(digits: &[u8]) -> bool {
    let issuer = matches!(digits[0], 3..=6) || (digits[0] == 2 && digits.len() == 16);
    let varied = digits.iter().any(|d| *d != digits[0]);
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| match (i % 2, u32::from(*d)) {
            (0, d) => d,
            (_, d) if d > 4 => 2 * d - 9,
            (_, d) => 2 * d,
        })
        .sum();
    issuer && varied && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(SecretKind, &str)>) {
        let found = find_secret(text).map(|s| (s.kind, &text[s.range]));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn secrets_are_found() {
        use SecretKind::*;
        check("Card 4111 1111 1111 1111, please", Some((CardNumber, "4111 1111 1111 1111")));
        check("Card 4111111111111111", Some((CardNumber, "4111111111111111")));
        check("5500-0000-0000-0004 is a card", Some((CardNumber, "5500-0000-0000-0004")));
        check("SSN 123-45-6789.", Some((SocialSecurityNumber, "123-45-6789")));
        check("api_key=sk-test-12345", Some((Password, "sk-test-12345")));
        check("with sk-test-12345678", Some((ApiKey, "sk-test-12345678")));
        check("key ghp_abcdefghij0123456789ABCD end", Some((ApiKey, "ghp_abcdefghij0123456789ABCD")));
        check("AKIAIOSFODNN7EXAMPLE", Some((ApiKey, "AKIAIOSFODNN7EXAMPLE")));
        check("Authorization: Bearer abc.def-123456", Some((BearerToken, "Bearer abc.def-123456")));
        check(
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123",
            Some((BearerToken, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123")),
        );
        check("-----BEGIN RSA PRIVATE KEY-----\nMIIEow1B", Some((PrivateKey, "-----BEGIN RSA PRIVATE KEY-----")));
        check("password=hunter2 ok", Some((Password, "hunter2")));
        check("Password: hunter2", Some((Password, "hunter2")));
    }

    #[test]
    fn harmless_text_is_left_alone() {
        for text in [
            "Transfer $500.00 from checking-7821 to savings-3344.",
            "account_id: checking-7821",
            "4111 1111 1111 1112 does not pass the Luhn check",
            "Order 1234567890123456789012345",
            "Phone 555-123-4567",
            "000-12-3456 and 123-00-4567",
            "Balance as of 2026-05-24 14:22:16.",
            "The task-force and the risk-12345678 and disk-123456789",
            "Enter your password: it is needed.",
            "password=[redacted]",
            "The bearer of this letter",
            "token: accepted",
            "evt_4111111111111111 is an id",
            "",
            "Ẹ ku àárọ̀. Ṣé o sun re?",
        ] {
            check(text, None);
        }
    }
}
