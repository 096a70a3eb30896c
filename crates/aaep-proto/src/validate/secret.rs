//! Finds likely secrets in text: a screen reader in an open-plan office reads them aloud, and captures keep them.
//!
//! Every finder looks at one position and never further than [`REACH`] bytes ahead, so a text is read once from its
//! beginning to its end. Where the text ends before a decision is possible, the finder says so ([`Scan::Partial`]);
//! this lets [`Redactor`](super::Redactor) work on text that arrives in pieces.

use std::fmt;
use std::ops::Range;

use super::number;
use super::tail::Tail;

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

/// How far a finder looks ahead before it decides, in bytes. Without a bound, a text made of beginnings alone would
/// be read again from each of them.
pub(super) const REACH: usize = 512;

/// How far a finder looks back, in bytes.
pub(super) const LOOKBACK: usize = 64;

/// What a finder says about one position of a text.
#[derive(Debug)]
pub(super) enum Scan {
    /// No secret is announced by this position.
    Nothing,
    /// The text ends too early to tell.
    Partial,
    /// A secret.
    Found(Found),
}

/// A secret, seen from the position that was scanned.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) kind: SecretKind,
    /// Where it begins, in bytes from the scanned position.
    pub(super) start: usize,
    /// How far it is known to reach, in bytes from the scanned position.
    pub(super) end: usize,
    /// What else belongs to it after that.
    pub(super) tail: Tail,
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
    if !may_hold_secret(text) {
        return None;
    }
    (0..bytes.len()).find_map(|at| match scan(&bytes[at.saturating_sub(LOOKBACK)..at], &bytes[at..], true) {
        Scan::Found(mut found) => {
            let rest = found.tail.consume(&bytes[at + found.end..], true).length;
            Some(Secret { kind: found.kind, range: at + found.start..at + found.end + rest })
        }
        Scan::Nothing | Scan::Partial => None,
    })
}

/// Every secret we know holds a digit, an equals sign or an at sign, or is a PEM block; most prose does not. `0xEF`
/// begins a full-width digit. Whole blocks are looked at without a branch, which the compiler turns into wide
/// instructions.
pub(super) fn may_hold_secret(text: &str) -> bool {
    let counts = |b: &u8| b.is_ascii_digit() | (*b == b'=') | (*b == b'@') | (*b == 0xEF);
    let block = |block: &[u8]| block.iter().fold(false, |found, b| found | counts(b));
    text.as_bytes().chunks(64).any(block) || text.contains(PEM_BEGIN)
}

/// Looks for a secret that is announced by the first byte of `rest`, which must not be empty. `before` is what stands
/// before it, `last` says that no text follows after `rest`.
pub(super) fn scan(before: &[u8], rest: &[u8], last: bool) -> Scan {
    let previous = before.last().copied().unwrap_or(b' ');
    match rest[0] {
        b'0'..=b'9' | 0xEF if !previous.is_ascii_alphanumeric() => number::scan(before, rest, last),
        b'A'..=b'Z' | b'a'..=b'z' if !previous.is_ascii_alphanumeric() => scan_word(rest, last),
        b'=' | b':' => scan_assigned(before, rest, last),
        b'-' if previous != b'-' => scan_pem(rest, last),
        _ => Scan::Nothing,
    }
}

/// Prefixes of keys that services issue, and how many characters follow at least. `sk-` has a rule of its own.
const KEYS: &[(&str, usize)] = &[
    // Amazon Web Services, Google.
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("GOCSPX-", 20),
    // Code hosts and package registries.
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("glrt-", 16),
    ("gldt-", 16),
    ("glft-", 16),
    ("glcbt-", 16),
    ("glptt-", 16),
    ("glsoat-", 16),
    ("glagent-", 16),
    ("npm_", 30),
    ("pypi-", 32),
    ("rubygems_", 20),
    ("dckr_pat_", 16),
    // Payment and shops.
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("rk_test_", 8),
    ("whsec_", 16),
    ("sq0atp-", 16),
    ("sq0csp-", 16),
    ("shpat_", 20),
    ("shpca_", 20),
    ("shppa_", 20),
    ("shpss_", 20),
    // Chat and mail.
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("xoxr-", 10),
    ("xoxe-", 10),
    ("xoxe.xoxp-", 10),
    ("xoxc-", 10),
    ("xoxd-", 10),
    ("xapp-", 10),
    ("SG.", 16),
    // Hosting and operations.
    ("dop_v1_", 32),
    ("doo_v1_", 32),
    ("dor_v1_", 32),
    ("dp.pt.", 30),
    ("dp.st.", 30),
    ("dp.ct.", 30),
    ("dp.sa.", 30),
    ("dapi", 32),
    ("glsa_", 20),
    ("glc_", 20),
    ("hvs.", 20),
    ("hvb.", 20),
    ("pscale_tkn_", 20),
    ("pscale_pw_", 20),
    ("pul-", 32),
    ("sbp_", 20),
    ("sntrys_", 20),
    ("tskey-", 16),
    ("HRKU-", 20),
    ("NRAK-", 20),
    ("PMAK-", 20),
    ("ATATT3", 20),
    // Models and tools.
    ("hf_", 20),
    ("gsk_", 20),
    ("r8_", 20),
    ("xai-", 20),
    ("pplx-", 20),
    ("lin_api_", 20),
    ("lin_oauth_", 20),
    ("figd_", 20),
    ("ntn_", 20),
    // Encryption.
    ("AGE-SECRET-KEY-", 30),
];

/// The longest prefix that a word of a secret has, in bytes.
const LONGEST_PREFIX: usize = 16;

/// First bytes of the prefixes in [`KEYS`], so that most words are refused by one look.
const FIRST_BYTES: [bool; 256] = {
    let mut first = [false; 256];
    let mut i = 0;
    while i < KEYS.len() {
        first[KEYS[i].0.as_bytes()[0] as usize] = true;
        i += 1;
    }
    first
};

/// A key of a known service or a bearer token that begins here.
fn scan_word(rest: &[u8], last: bool) -> Scan {
    let cut = !last && rest.len() < LONGEST_PREFIX;
    let begins = |prefix: &[u8]| cut && rest.len() < prefix.len() && prefix[..rest.len()] == *rest;
    if let Some(tail) = rest.strip_prefix(b"sk-") {
        return scan_sk_key(tail, last);
    }
    if rest.starts_with(b"eyJ") {
        return scan_jwt(rest, last);
    }
    if starts_with_ignoring_case(rest, BEARER) {
        return scan_bearer(rest, last);
    }
    if FIRST_BYTES[usize::from(rest[0])]
        && let Some((prefix, least)) = KEYS.iter().find(|(prefix, _)| rest.starts_with(prefix.as_bytes()))
    {
        let value = near(&rest[prefix.len()..], is_token, last);
        let is_key = value.bytes.len() >= *least && value.bytes.iter().any(u8::is_ascii_digit);
        let tail = if prefix.ends_with('.') { Tail::Dotted } else { Tail::Token };
        return value.decide(is_key, || Found { kind: SecretKind::ApiKey, start: 0, end: prefix.len(), tail });
    }
    let bearer = cut && rest.len() < BEARER.len() && BEARER[..rest.len()].eq_ignore_ascii_case(rest);
    if bearer || begins(b"sk-") || begins(b"eyJ") || KEYS.iter().any(|(prefix, _)| begins(prefix.as_bytes())) {
        return Scan::Partial;
    }
    Scan::Nothing
}

/// What follows `sk-`: one part of a key is long and has digits. Names of branches and versions
/// have words and short numbers; a number alone counts only where a key says what it is for.
fn scan_sk_key(tail: &[u8], last: bool) -> Scan {
    let value = near(tail, is_token, last);
    let mut before: &[u8] = b"";
    let is_key = value.bytes.split(|b| *b == b'-').any(|part| {
        let purpose = matches!(before, b"test" | b"live" | b"proj");
        before = part;
        let mixed = part.iter().any(u8::is_ascii_alphabetic);
        part.len() >= 8 && part.iter().any(u8::is_ascii_digit) && (mixed || purpose)
    });
    value.decide(is_key, || Found { kind: SecretKind::ApiKey, start: 0, end: "sk-".len(), tail: Tail::Token })
}

/// The head of a JSON Web Token, a dot, and the part that follows.
fn scan_jwt(rest: &[u8], last: bool) -> Scan {
    let head = near(rest, is_token, last);
    if head.open {
        return Scan::Partial;
    }
    let length = head.bytes.len();
    if length < 15 || rest.get(length) != Some(&b'.') {
        return Scan::Nothing;
    }
    let next = near(&rest[length + 1..], is_token, last);
    let coded = head.bytes.iter().chain(next.bytes).any(u8::is_ascii_digit);
    let found = || Found { kind: SecretKind::BearerToken, start: 0, end: length, tail: Tail::Dotted };
    next.decide(next.bytes.len() >= 8 && coded, found)
}

const BEARER: &[u8] = b"bearer ";

fn scan_bearer(rest: &[u8], last: bool) -> Scan {
    let gap = rest[BEARER.len()..].iter().take(8).take_while(|b| **b == b' ').count();
    let start = BEARER.len() + gap;
    let value = near(&rest[start..], is_bearer, last);
    // Whether it is a date shows after ten characters.
    if value.open && value.bytes.len() < 10 {
        return Scan::Partial;
    }
    let coded = value.bytes.iter().any(|b| b.is_ascii_digit() || *b == b'=');
    let is_token = coded && value.bytes.iter().any(u8::is_ascii_alphabetic) && !is_date(value.bytes);
    let found = || Found { kind: SecretKind::BearerToken, start: 0, end: start, tail: Tail::Bearer };
    value.decide(value.bytes.len() >= 8 && is_token, found)
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
    let before = &before[before.len().saturating_sub(LOOKBACK)..];
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
fn scan_assigned(before: &[u8], rest: &[u8], last: bool) -> Scan {
    let after = &rest[1..];
    if rest[0] == b':' && after.starts_with(b"//") {
        return scan_url(rest, last);
    }
    if rest[0] == b':' && !last && after.len() < 2 && b"//".starts_with(after) {
        return Scan::Partial;
    }
    let Some(name) = secret_name(before) else { return Scan::Nothing };
    let gap = after.iter().take(8).take_while(|b| matches!(**b, b' ' | b'\t' | b'"' | b'\'' | b'\\')).count();
    let value = near(&after[gap..], is_value, last);
    // The whole value decides.
    if value.open {
        return Scan::Partial;
    }
    let start = 1 + gap;
    let found = || Found { kind: SecretKind::Password, start, end: start, tail: Tail::Value };
    value.decide(is_secret_value(value.bytes, name, rest[0]), found)
}

/// `bob:hunter22@` after `://`.
fn scan_url(rest: &[u8], last: bool) -> Scan {
    let start = "://".len();
    let is_user = |b: u8| !b.is_ascii_whitespace() && !matches!(b, b'/' | b'?' | b'#' | b'"' | b'@');
    let user = near(&rest[start..], is_user, last);
    if user.open {
        return Scan::Partial;
    }
    let Some(colon) = user.bytes.iter().position(|b| *b == b':') else { return Scan::Nothing };
    let password = &user.bytes[colon + 1..];
    let end = start + user.bytes.len();
    if rest.get(end) != Some(&b'@') || password.len() < 4 || is_blotted(password) {
        return Scan::Nothing;
    }
    Scan::Found(Found { kind: SecretKind::Password, start: start + colon + 1, end, tail: Tail::Nothing })
}

/// How a PEM block begins.
pub(super) const PEM_BEGIN: &str = "-----BEGIN ";

fn scan_pem(rest: &[u8], last: bool) -> Scan {
    let Some(after) = rest.strip_prefix(PEM_BEGIN.as_bytes()) else {
        let cut = !last && rest.len() < PEM_BEGIN.len() && PEM_BEGIN.as_bytes().starts_with(rest);
        return if cut { Scan::Partial } else { Scan::Nothing };
    };
    let label = near(after, |b| b.is_ascii_uppercase() || b == b' ', last);
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

pub(super) fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

pub(super) fn is_bearer(b: u8) -> bool {
    is_token(b) || matches!(b, b'.' | b'+' | b'/' | b'=' | b'~')
}

pub(super) fn is_value(b: u8) -> bool {
    !b.is_ascii_whitespace() && !matches!(b, b',' | b';' | b'"' | b'\'' | b')' | b'}' | b'&' | b'\\')
}

/// The bytes from one place on that belong together, as far as a decision needs them.
pub(super) struct Near<'t> {
    pub(super) bytes: &'t [u8],
    /// Whether more text could make them longer.
    pub(super) open: bool,
}

impl Near<'_> {
    /// What follows from them: a secret, or nothing, or nothing yet.
    fn decide(&self, is_secret: bool, found: impl FnOnce() -> Found) -> Scan {
        match (is_secret, self.open) {
            (true, _) => Scan::Found(found()),
            (false, true) => Scan::Partial,
            (false, false) => Scan::Nothing,
        }
    }
}

pub(super) fn near(bytes: &[u8], is_part: impl Fn(u8) -> bool, last: bool) -> Near<'_> {
    let seen = &bytes[..bytes.len().min(REACH)];
    let length = seen.iter().take_while(|b| is_part(**b)).count();
    Near { bytes: &seen[..length], open: !last && length == bytes.len() && length < REACH }
}

fn starts_with_ignoring_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes.get(..prefix.len()).is_some_and(|b| b.eq_ignore_ascii_case(prefix))
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
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow1B\n-----END RSA PRIVATE KEY-----";
        check(&format!("{key}\nThat was it."), Some((PrivateKey, key)));
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
