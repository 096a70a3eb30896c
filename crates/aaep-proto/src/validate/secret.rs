//! Finds likely secrets in text that people hear: a screen reader in an open-plan office reads
//! them aloud, and captures keep them.

use std::fmt;
use std::ops::Range;

use super::number;

/// What kind of secret it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A likely secret and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What it looks like.
    pub kind: SecretKind,
    /// Its bytes in the text.
    pub range: Range<usize>,
}

/// How far a scan looks before it decides. Without a bound, a text made of beginnings alone would
/// be read again from each of them.
const REACH: usize = 512;

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
    let mut previous = b' ';
    for (i, &b) in bytes.iter().enumerate() {
        let found = match b {
            b'0'..=b'9' | 0xEF if !previous.is_ascii_alphanumeric() => number::find(bytes, i),
            b'A'..=b'Z' | b'a'..=b'z' if !previous.is_ascii_alphanumeric() => find_word(bytes, i),
            b'=' | b':' => find_assigned(bytes, i),
            b'-' if previous != b'-' => find_pem(text, i),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        previous = b;
    }
    None
}

/// Every secret we know holds a digit, an equals sign or an at sign; most prose does not. `0xEF`
/// begins a full-width digit. Whole blocks are looked at without a branch, which the compiler
/// turns into wide instructions.
fn may_hold_secret(bytes: &[u8]) -> bool {
    let counts = |b: &u8| b.is_ascii_digit() | (*b == b'=') | (*b == b'@') | (*b == 0xEF);
    let block = |block: &[u8]| block.iter().fold(false, |found, b| found | counts(b));
    bytes.chunks(64).any(block)
}

/// Prefixes of keys that services hand out, and how many characters follow at least.
const KEYS: &[(&[u8], usize)] = &[
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

/// A key of a known service or a bearer token that begins here.
fn find_word(bytes: &[u8], start: usize) -> Option<Secret> {
    let rest = &bytes[start..];
    let found = |kind, len| Some(Secret { kind, range: start..start + len });
    match rest[0] {
        b's' if rest.starts_with(b"sk-") && is_sk_key(&rest[3..]) => {
            found(SecretKind::ApiKey, 3 + length(&rest[3..], is_token))
        }
        b's' | b'r' | b'g' | b'x' | b'A' | b'h' | b'n' | b'y' => {
            let (prefix, least) = KEYS.iter().find(|(prefix, _)| rest.starts_with(prefix))?;
            let value = near(&rest[prefix.len()..], is_token);
            let is_key = value.len() >= *least && value.iter().any(u8::is_ascii_digit);
            is_key.then(|| found(SecretKind::ApiKey, prefix.len() + length(&rest[prefix.len()..], is_token)))?
        }
        b'e' if rest.starts_with(b"eyJ") => {
            // The head of a JSON Web Token, a dot, and the part that follows.
            let head = near(rest, is_token).len();
            let is_token_pair =
                head >= 15 && rest.get(head) == Some(&b'.') && near(&rest[head + 1..], is_token).len() >= 8;
            is_token_pair.then(|| found(SecretKind::BearerToken, length(rest, |b| is_token(b) || b == b'.')))?
        }
        b'B' | b'b' if starts_with_ignoring_case(rest, b"bearer ") => {
            let value_start = 7 + skip_spaces(&rest[7..]);
            let is_part = |b| is_token(b) || matches!(b, b'.' | b'+' | b'/' | b'=' | b'~');
            let value = near(&rest[value_start..], is_part);
            let coded = value.iter().any(|b| b.is_ascii_digit() || *b == b'=');
            let is_bearer = value.len() >= 8 && coded && value.iter().any(u8::is_ascii_alphabetic) && !is_date(value);
            is_bearer.then(|| found(SecretKind::BearerToken, value_start + length(&rest[value_start..], is_part)))?
        }
        _ => None,
    }
}

/// What follows `sk-`: one part of a key is long and has digits. Names of branches and versions
/// have words and short numbers; a number alone counts only where a key says what it is for.
fn is_sk_key(tail: &[u8]) -> bool {
    let tail = near(tail, is_token);
    let mut before: &[u8] = b"";
    tail.split(|b| *b == b'-').any(|part| {
        let purpose = matches!(before, b"test" | b"live" | b"proj");
        before = part;
        let mixed = part.iter().any(u8::is_ascii_alphabetic);
        part.len() >= 8 && part.iter().any(u8::is_ascii_digit) && (mixed || purpose)
    })
}

/// Names that stand before a secret, by their words.
const NAMES: &[&[&[u8]]] = &[
    &[b"password"],
    &[b"passwd"],
    &[b"passphrase"],
    &[b"secret"],
    &[b"token"],
    &[b"api", b"key"],
    &[b"access", b"key"],
    &[b"secret", b"key"],
    &[b"private", b"key"],
];

/// The name of a secret that ends these bytes: `DB_PASSWORD`, `"apiKey"`, `API key `.
fn secret_name(before: &[u8]) -> Option<&'static [&'static [u8]]> {
    // Quick to refuse: most signs stand after something else.
    let before = &before[before.len().saturating_sub(64)..];
    let before = before.trim_ascii_end();
    let before = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'")).unwrap_or(before);
    let before = before.strip_suffix(b"\\").unwrap_or(before);
    if !matches!(before.last()? | 0x20, b'd' | b'e' | b't' | b'n' | b'y') {
        return None;
    }
    NAMES.iter().copied().find(|words| {
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

/// A value that the name before a sign gives away, or the password of a URL.
fn find_assigned(bytes: &[u8], sign: usize) -> Option<Secret> {
    let after = &bytes[sign + 1..];
    if bytes[sign] == b':' && after.starts_with(b"//") {
        return find_in_url(bytes, sign + 3);
    }
    let name = secret_name(&bytes[..sign])?;
    let gap = after.iter().take(8).take_while(|b| matches!(**b, b' ' | b'\t' | b'"' | b'\'' | b'\\')).count();
    let is_part =
        |b: u8| !b.is_ascii_whitespace() && !matches!(b, b',' | b';' | b'"' | b'\'' | b')' | b'}' | b'&' | b'\\');
    let value = near(&after[gap..], is_part);
    let start = sign + 1 + gap;
    is_secret_value(value, name, bytes[sign])
        .then(|| Secret { kind: SecretKind::Password, range: start..start + length(&after[gap..], is_part) })
}

/// `bob:hunter22@` after `//`.
fn find_in_url(bytes: &[u8], start: usize) -> Option<Secret> {
    let user = near(&bytes[start..], |b| !b.is_ascii_whitespace() && !matches!(b, b'/' | b'?' | b'#' | b'"' | b'@'));
    let colon = user.iter().position(|b| *b == b':')?;
    let password = &user[colon + 1..];
    let is_secret = bytes.get(start + user.len()) == Some(&b'@') && password.len() >= 4 && !is_blotted(password);
    is_secret.then(|| Secret { kind: SecretKind::Password, range: start + colon + 1..start + user.len() })
}

/// Whether a field of this name gives away its value: `"password": "hunter22"` in free data.
pub(crate) fn is_secret_field(name: &str, value: &str) -> bool {
    let value = value.as_bytes();
    secret_name(name.as_bytes()).is_some_and(|name| !value.contains(&b' ') && is_secret_value(value, name, b':'))
}

/// Whether a value looks chosen or made to be secret. After a colon prose may follow, so a value
/// that is put together from words and numbers (`step2of5`) is none there.
fn is_secret_value(value: &[u8], name: &[&[u8]], sign: u8) -> bool {
    let digit = value.iter().any(u8::is_ascii_digit);
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    let pin = sign == b'=' && name[0].starts_with(b"pass");
    value.len() >= 6
        && digit
        && (letter || pin)
        && !is_blotted(value)
        && !is_date(value)
        && (sign == b'=' || !is_words_and_numbers(value))
}

/// What is already blotted out, to be filled in, or a path is no secret.
fn is_blotted(value: &[u8]) -> bool {
    value.iter().all(|b| !b.is_ascii_alphanumeric())
        || value.first().is_some_and(|b| matches!(b, b'[' | b'<' | b'*' | b'{' | b'$' | b'%' | b'/' | b'~'))
        || [&b"redacted"[..], b"hidden", b"none", b"null", b"true", b"false", b"http"]
            .iter()
            .any(|w| starts_with_ignoring_case(value, w))
}

fn is_date(value: &[u8]) -> bool {
    value.len() >= 10
        && value[..10].iter().enumerate().all(|(i, b)| if i == 4 || i == 7 { *b == b'-' } else { b.is_ascii_digit() })
}

/// Words in small letters around short numbers: `min8chars`, `step2of5`.
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

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

/// The bytes from here on that belong together, as far as a decision needs them.
fn near(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(REACH)];
    &bytes[..length(bytes, is_part)]
}

/// How many bytes from here on belong together.
fn length(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|b| is_part(**b)).count()
}

fn skip_spaces(bytes: &[u8]) -> usize {
    bytes.iter().take(8).take_while(|b| **b == b' ').count()
}

fn starts_with_ignoring_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes.get(..prefix.len()).is_some_and(|b| b.eq_ignore_ascii_case(prefix))
}

fn find_pem(text: &str, start: usize) -> Option<Secret> {
    let rest = text.get(start..)?.strip_prefix("-----BEGIN ")?;
    let label = near(rest.as_bytes(), |b| b.is_ascii_uppercase() || b == b' ');
    let is_key = label.ends_with(b"PRIVATE KEY") && rest.as_bytes()[label.len()..].starts_with(b"-----");
    let end = start + "-----BEGIN ".len() + label.len() + "-----".len();
    is_key.then_some(Secret { kind: SecretKind::PrivateKey, range: start..end })
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
    fn secrets_are_found_in_all_their_forms() {
        use SecretKind::*;
        check("{\"password\": \"hunter22\"}", Some((Password, "hunter22")));
        check("{\\\"password\\\": \\\"hunter22\\\"}", Some((Password, "hunter22")));
        check("password = hunter22", Some((Password, "hunter22")));
        check("DB_PASSWORD=hunter22", Some((Password, "hunter22")));
        check("dbPassword=hunter22", Some((Password, "hunter22")));
        check("password=12345678", Some((Password, "12345678")));
        let hex = "9f8e7d6c5b4a39281706f5e4d3c2b1a0";
        for name in ["API key", "api-key", "apiKey", "\"api_key\"", "Access token", "client_secret"] {
            check(&format!("{name}: {hex}"), Some((Password, hex)));
        }
        check("?token=abc123def456&x=1", Some((Password, "abc123def456")));
        check("Authorization: Bearer  abc123456", Some((BearerToken, "Bearer  abc123456")));
        check("postgres://bob:hunter22@db", Some((Password, "hunter22")));
        check("postgres://bob:secretly@db", Some((Password, "secretly")));
        check("sk-ant-api03-abcDEF123456789", Some((ApiKey, "sk-ant-api03-abcDEF123456789")));
        check("密钥sk-proj-1234567890abcdef。", Some((ApiKey, "sk-proj-1234567890abcdef")));
        // A secret longer than a scan reaches is covered whole.
        let long = format!("ghp_{}", "a1".repeat(REACH));
        check(&format!("key {long} end"), Some((ApiKey, &long)));
    }

    #[test]
    fn honest_values_are_left_alone() {
        for text in [
            "pwd=/home/anna/project",
            "pwd=/home/anna/project2",
            "sk-project-2024 branch",
            "sk-release-20240524 branch",
            "token=accepted",
            "password=required",
            "Password: min8chars",
            "Token: step2of5",
            "Token: 2026-05-24T14:22:11Z",
            "BEARER 2026-05-24 note",
            "max_token=100000",
            "tokens: 4096tok",
            "password=${DB_PASSWORD_1}",
            "https://example.org:8080/a@b1",
            "Write to anna1@example.org: she knows.",
            "https://bob:***@db1",
        ] {
            check(text, None);
        }
    }

    /// Beginnings of secrets without ends: each is looked at once, as far as a decision needs.
    #[test]
    fn beginnings_alone_are_cheap() {
        for (unit, times) in [("sk-", 20_000), ("eyJ-", 20_000), ("token:", 10_000), ("://a:", 10_000)] {
            check(&format!("1 {}", unit.repeat(times)), None);
        }
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
